#!/usr/bin/env python3
"""Checks what each crate of the project depends on, so that a user of one part does not link another.

    bench/structure/crates.py
"""
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The laboratory, which no crate of the product links.
LAB = ["pageyard-testkit", "pageyard-judge", "pageyard-bench", "pageyard-documents", "pageyard-lab", "pageyard-structure"]
# What only the laboratory needs.
PEERS = ["plotters", "png", "epaint_default_fonts", "libloading", "buddy_system_allocator", "csv"]

# What must not be below a crate, its tests left out.
WITHOUT = {
    "pageyard-core": ["pageyard"],
    "pageyard-sync": ["pageyard-core"],
    "pageyard": ["pageyard-packets", "pageyard-linux", "pageyard-trace"],
    "pageyard-packets": ["pageyard", "pageyard-linux", "pageyard-trace"],
    "pageyard-linux": ["pageyard", "pageyard-trace"],
    "pageyard-arena": ["pageyard-packets", "pageyard-linux", "pageyard-trace"],
    "pageyard-debug": ["pageyard", "pageyard-arena", "pageyard-linux"],
    "pageyard-guest": ["pageyard", "pageyard-linux"],
    "pageyard-trace": ["pageyard-linux", "pageyard-record", "perf-event2", "clap"],
    "pageyard-record": ["pageyard-linux", "pageyard-replay", "clap"],
    "pageyard-replay": ["pageyard-record", "perf-event2", "clap"],
    "pageyard-cli": [],
    "pageyard-capi": ["pageyard-packets", "pageyard-linux", "pageyard-trace", "cbindgen"],
    "pageyard-python": ["pageyard-record", "clap"],
    "pageyard-x86_64": ["pageyard"],
    "pageyard-ostd": ["pageyard-packets", "pageyard-arena"],
    "pageyard-hermit": ["pageyard-packets", "pageyard-arena"],
}
WITHOUT = {crate: unwanted + LAB + PEERS for crate, unwanted in WITHOUT.items()} | {
    "pageyard-judge": ["pageyard", "pageyard-trace", "pageyard-testkit"],
    "pageyard-bench": ["pageyard-record", "pageyard-testkit", "perf-event2", "clap"],
    "pageyard-lab": ["pageyard-testkit", "pageyard-documents"],
}


def below(crate):
    command = ["cargo", "tree", "--package", crate, "--edges", "normal", "--prefix", "none", "--format", "{p}"]
    out = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    return {line.split()[0] for line in out.splitlines() if line} - {crate}


def main():
    bad = [f"{crate} brings {found} along" for crate, unwanted in WITHOUT.items()
           for found in sorted(below(crate) & set(unwanted))]
    print("\n".join(bad) or f"{len(WITHOUT)} crates depend on what they need and no more")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
