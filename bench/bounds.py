#!/usr/bin/env python3
"""Measures how deep the engine's calls reach down the stack and how large its code is, and compares both with the tables of
docs/design/bounds.md and with what is promised there.

    bench/bounds.py             fails where a figure is off the page or beyond its promise
    bench/bounds.py --update    writes the tables
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/design/bounds.md"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
SMALL = ROOT / "crates/pageyard/examples/freestanding"

# Bytes by which a depth may differ from the page: what is painted begins so far below the painter's stack pointer.
STACK_SLACK = 256
# The page has a tenth of a KiB: half of that.
ROUNDED = 52
# A compiler's next release may move code by as much.
CODE_SLACK = 0.05

# What the page promises, in bytes.
PROMISED = {
    "`place_metadata`, `FirmwareMap<32>`": 4096,
    "`Pageyard::new`": 4096,
    "an allocation that misses": 2048,
}


def depths():
    command = ["cargo", "run", "--quiet", "--release", "-p", "pageyard", "--example", "stack"]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    rows = (line.rsplit(": ", 1) for line in printed.splitlines())
    return {what: int(bytes_) for what, bytes_ in rows}


def sizes():
    """The text of the program that places metadata, makes an instance, allocates and frees, under each setting."""
    settings = {
        "opt-level = 3": [],
        'opt-level = 3, lto = "fat"': ["--config", 'profile.release.lto="fat"', "--config", "profile.release.codegen-units=1"],
        'opt-level = "z", lto = "fat"': [
            *("--config", 'profile.release.lto="fat"', "--config", "profile.release.codegen-units=1"),
            *("--config", 'profile.release.opt-level="z"'),
        ],
    }
    found = {}
    for name, config in settings.items():
        folder = TARGET / "bounds"
        command = ["cargo", "build", "--quiet", "--release", "--no-default-features", "--manifest-path", SMALL / "Cargo.toml"]
        command += ["--target-dir", folder, *config]
        subprocess.run(command, cwd=ROOT, check=True)
        program = folder / "release/pageyard-freestanding"
        printed = subprocess.run(["size", "-A", program], check=True, capture_output=True, text=True).stdout
        found[name] = int(re.search(r"^\.text\s+(\d+)", printed, re.M)[1])
    return found


def table(head, found, unit):
    rows = [f"| {name} | {value / unit:.1f} |" for name, value in found.items()]
    return "\n".join([f"| {head[0]} | {head[1]} |", "|---|---|", *rows])


def printed(page, name):
    body = re.search(rf"<!-- table: {name} -->\n\n(.*?)\n\n<!-- end -->", page, re.S)[1]
    cells = (line.strip("|").split("|") for line in body.splitlines()[2:])
    return {cell[0].strip(): float(cell[1]) * 1024 for cell in cells}


def main():
    measured = {"stack": depths(), "code": sizes()}
    page = PAGE.read_text()
    wrong = [
        f"{name}: {value} bytes, promised {PROMISED[name]}"
        for found in measured.values()
        for name, value in found.items()
        if value > PROMISED.get(name, value)
    ]
    if "--update" in sys.argv[1:]:
        heads = {"stack": ("call", "KiB of stack"), "code": ("built with", "KiB of code")}
        for name, found in measured.items():
            new = f"<!-- table: {name} -->\n\n{table(heads[name], found, 1024)}\n\n<!-- end -->"
            page = re.sub(rf"<!-- table: {name} -->.*?<!-- end -->", lambda _: new, page, flags=re.S)
        PAGE.write_text(page)
    else:
        for name, found in measured.items():
            said = printed(page, name)
            if said.keys() != found.keys():
                wrong.append(f"the rows of the table of {name} are others: {sorted(said.keys() ^ found.keys())}")
            for what in said.keys() & found.keys():
                slack = STACK_SLACK + ROUNDED if name == "stack" else CODE_SLACK * found[what]
                if abs(said[what] - found[what]) > slack:
                    wrong.append(f"{what}: {found[what]} bytes, the page says {said[what] / 1024:.1f} KiB")
    if wrong:
        raise SystemExit("docs/design/bounds.md (bench/bounds.py --update writes it):\n  " + "\n  ".join(wrong))


if __name__ == "__main__":
    main()
