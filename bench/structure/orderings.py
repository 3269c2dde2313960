#!/usr/bin/env python3
"""Lists every ordering of an atomic access that is weaker than sequentially consistent, and why it is enough.

    bench/structure/orderings.py           prints all in one table: place, orderings, reason
    bench/structure/orderings.py --check   fails where one has no reason, or docs/design/frame-map.md has other counts
    bench/structure/orderings.py --write   writes the counts into the page

The reason is the `ORDER` comment above the access in its function, or one that says it holds throughout the file. Tests
are left out.
"""
import re
import sys

from unsafe import ROOT, keep, sources

PAGE = ROOT / "docs/design/frame-map.md"
# As an argument of a call, possibly on a line of its own.
WEAK = re.compile(r"(?:Ordering::|[(,]\s*|^\s*)(Relaxed|Acquire|Release|AcqRel)\b(?=\s*[,)])")
IN_TESTS = re.compile(r"^#\[cfg\((?:all\()?test\b", re.M)
FUNCTION = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?(?:const |unsafe |extern \"C\" )*fn (\w+)")


def places(path):
    """Yields each access of a file with the function that it is in, its orderings and its reason."""
    function, reason, of_file, comment = "", "", "", None
    for number, line in enumerate(IN_TESTS.split(path.read_text())[0].splitlines(), 1):
        code, _, said = line.partition("//")
        if said.strip().startswith("ORDER:"):
            comment = said.strip().removeprefix("ORDER:").strip()
        elif comment is not None and said and not code.strip():
            comment += " " + said.strip()
        else:
            comment = None
        if comment is not None:
            reason = comment
            # Before an item of the file, or in so many words, it is said once for all that follows.
            if line.startswith("//") or of_file and comment.startswith(of_file) or re.search("throughout|here and below|everywhere", comment):
                of_file = comment
        if named := FUNCTION.match(code):
            function, reason = named[1], ""
        if function and (weak := WEAK.findall(code)):
            yield function, number, weak, reason or of_file


def summary(rows):
    """Returns a table of how many accesses of each crate have which ordering."""
    kinds = ["Relaxed", "Acquire", "Release", "AcqRel"]
    out = ["| crate | " + " | ".join(kinds) + " |", "|---|" + "---|" * len(kinds)]
    for crate in dict.fromkeys(row[0] for row in rows):
        named = [word for row in rows if row[0] == crate for word in row[3]]
        out.append(f"| `{crate}` | " + " | ".join(str(named.count(kind)) for kind in kinds) + " |")
    return "\n".join(out) + "\n"


def main():
    rows, missing = [], []
    for crate, files in sources():
        for path in files:
            for function, number, weak, reason in places(path):
                place = f"{path.relative_to(ROOT)}:{number}"
                rows.append((crate, place, function, weak, reason))
                if not reason:
                    missing.append(f"{place}: {', '.join(weak)} in `{function}`")
    if sys.argv[1:] not in (["--check"], ["--write"]):
        print("| place | function | orderings | why that is enough |\n|---|---|---|---|")
        for _, place, function, weak, reason in rows:
            print(f"| {place} | `{function}` | {', '.join(weak)} | {reason} |")
        return
    if missing:
        sys.exit("say in an `ORDER` comment why each of these is enough, and what it pairs with:\n" + "\n".join(missing))
    otherwise = "orderings have changed; run bench/structure/orderings.py --write"
    keep(PAGE, "orderings", summary(rows), sys.argv[1] == "--write", otherwise)


if __name__ == "__main__":
    main()
