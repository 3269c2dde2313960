#!/usr/bin/env python3
"""Counts what is unsafe in each crate of the product, tests left out, as docs/design/threats.md has it.

    bench/structure/unsafe.py           prints the table
    bench/structure/unsafe.py --check   fails where the page has another one
    bench/structure/unsafe.py --write   writes it into the page
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/design/threats.md"
KINDS = {"blocks": r"\bunsafe \{", "functions": r"\bunsafe (extern \"C\" )?fn\b", "implementations": r"\bunsafe impl\b"}
BEGIN, END = "<!-- table: unsafe -->\n", "<!-- end -->\n"


def text_of(path):
    """Returns a file's code: comments, documentation and what is for tests alone left out."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("//")]
    return "\n".join(lines).split("#[cfg(test)]\nmod ")[0]


def crates():
    for manifest in sorted([*ROOT.glob("crates/*/Cargo.toml"), *ROOT.glob("adapters/*/Cargo.toml")]):
        name = re.search(r'^name = "(.*)"', manifest.read_text(), re.M)[1]
        tests = re.compile(r"(^|/)(tests?|tests_\w+|\w*model|properties)(/|\.rs$)")
        files = [f for f in manifest.parent.joinpath("src").rglob("*.rs") if not tests.search(str(f.relative_to(manifest.parent)))]
        texts = [text_of(f) for f in files]
        yield name, [sum(len(re.findall(kind, text)) for text in texts) for kind in KINDS.values()]


def table():
    rows = sorted(crates(), key=lambda row: -sum(row[1]))
    head = ["crate", *(f"unsafe {kind}" for kind in KINDS)]
    out = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    out += [f"| `{name}` | " + " | ".join(map(str, counts)) + " |" for name, counts in rows if sum(counts)]
    without = sorted(name for name, counts in rows if not sum(counts))
    return "\n".join(out) + "\n\nNone in " + ", ".join(f"`{name}`" for name in without) + ".\n"


def main():
    new = table()
    if sys.argv[1:] not in (["--check"], ["--write"]):
        print(new, end="")
        return
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    old, after = rest.split(END)
    if sys.argv[1] == "--write":
        PAGE.write_text(before + BEGIN + "\n" + new + "\n" + END + after)
    elif old.strip() != new.strip():
        sys.exit(f"{PAGE.relative_to(ROOT)}: what is unsafe has changed; say why in the change, and run bench/structure/unsafe.py --write")


if __name__ == "__main__":
    main()
