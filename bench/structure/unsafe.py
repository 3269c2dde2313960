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


def text_of(path):
    """Returns a file's code: comments, documentation and what is for tests alone left out."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("//")]
    return "\n".join(lines).split("#[cfg(test)]\nmod ")[0]


def sources():
    """Yields each crate of the product with its source files, tests left out."""
    tests = re.compile(r"(^|/)(tests?|tests_\w+|\w*model|properties)(/|\.rs$)")
    for manifest in sorted([*ROOT.glob("crates/*/Cargo.toml"), *ROOT.glob("adapters/*/Cargo.toml")]):
        name = re.search(r'^name = "(.*)"', manifest.read_text(), re.M)[1]
        files = sorted(manifest.parent.joinpath("src").rglob("*.rs"))
        yield name, [f for f in files if not tests.search(str(f.relative_to(manifest.parent)))]


def crates():
    for name, files in sources():
        texts = [text_of(f) for f in files]
        yield name, [sum(len(re.findall(kind, text)) for text in texts) for kind in KINDS.values()]


def table():
    rows = sorted(crates(), key=lambda row: -sum(row[1]))
    head = ["crate", *(f"unsafe {kind}" for kind in KINDS)]
    out = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    out += [f"| `{name}` | " + " | ".join(map(str, counts)) + " |" for name, counts in rows if sum(counts)]
    without = sorted(name for name, counts in rows if not sum(counts))
    return "\n".join(out) + "\n\nNone in " + ", ".join(f"`{name}`" for name in without) + ".\n"


def keep(page, table, new, write, otherwise):
    """Writes a page's table of this name, or fails with a sentence where the page has another one."""
    begin, end = f"<!-- table: {table} -->\n", "<!-- end -->\n"
    before, rest = page.read_text().split(begin)
    old, after = rest.split(end, 1)
    if write:
        page.write_text(before + begin + "\n" + new + "\n" + end + after)
    elif old.strip() != new.strip():
        sys.exit(f"{page.relative_to(ROOT)}: {otherwise}")


def main():
    if sys.argv[1:] not in (["--check"], ["--write"]):
        print(table(), end="")
        return
    otherwise = "what is unsafe has changed; say why in the change, and run bench/structure/unsafe.py --write"
    keep(PAGE, "unsafe", table(), sys.argv[1] == "--write", otherwise)


if __name__ == "__main__":
    main()
