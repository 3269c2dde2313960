"""What the scripts that boot guests share: the program that boots them, modules, and an emulator with more arguments."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def build():
    """Builds the program that boots guests, and says where it is."""
    subprocess.run(
        ["cargo", "build", "-q", "--release", "--manifest-path", ROOT / "Cargo.toml", "-p", "pageyard-guest", "--bin", "pageyard-guest"],
        check=True,
    )
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release/pageyard-guest"


def module(name, modules, work):
    """Finds a module below the folder `modules`, and puts it into `work` as the kernel wants it."""
    found = sorted(modules.rglob(f"{name}.ko*"))
    if not found:
        sys.exit(f"there is no {name} below {modules}")
    plain = work / f"{name}.ko"
    if found[0].suffix == ".xz":
        plain.write_bytes(subprocess.run(["xz", "-dc", found[0]], check=True, stdout=subprocess.PIPE).stdout)
    else:
        plain.write_bytes(found[0].read_bytes())
    return plain


def emulator(work, more):
    """Puts an emulator into `work` that has more arguments; an environment in which it is found first."""
    real = subprocess.run(["which", "qemu-system-x86_64"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    wrapper = work / "qemu-system-x86_64"
    wrapper.write_text(f'#!/bin/sh\nexec {real} "$@" {more}\n')
    wrapper.chmod(0o755)
    return {**os.environ, "PATH": f"{work}:{os.environ['PATH']}"}
