#!/usr/bin/env python3
"""Checks that the files and folders that the documents name exist.

A path in backticks that has a slash and begins with a folder of the project, or with
`src/` or `tests/` of some crate, has to be there. The engine's reading path in ARCHITECTURE.md stays below 4,000 lines.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CRATES = [ROOT, *sorted((ROOT / "crates").iterdir()), *sorted((ROOT / "adapters").iterdir()), *sorted((ROOT / "lab").iterdir())]
BEGINS = ("src", "tests", "examples", "crates", "adapters", "lab", "docs", "bench", "fuzz", "data", "engine", "requests", "map", "zone", "pcp")
pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("crates/*/*.md"), *ROOT.glob("bench/**/*.md"), *ROOT.glob("fuzz/*.md")]
missing = []


def exists(path, page):
    places = [page.parent, *CRATES, ROOT / "crates", *(crate / "src" for crate in CRATES)]
    places += [ROOT / "crates/pageyard/src/engine"]
    return any(list(place.glob(path)) if "*" in path else (place / path).exists() for place in places)


for page in pages:
    for number, line in enumerate(page.read_text().splitlines(), 1):
        quoted = re.findall(r"`([A-Za-z0-9_*.-]+(?:/[A-Za-z0-9_*.-]+)+/?)`", line)
        named = [path for path in quoted if path.split("/")[0] in BEGINS and not exists(path, page)]
        missing += [f"{page.relative_to(ROOT)}:{number}: {path}" for path in named]

path = (ROOT / "ARCHITECTURE.md").read_text().split("## The engine in an afternoon")[1].split("\n## ")[0]
lines = sum(len((ROOT / file).read_text().splitlines()) for file in re.findall(r"\]\((crates/[^)]+\.rs)\)", path))
if not 0 < lines < 4000:
    sys.exit(f"ARCHITECTURE.md: the engine's reading path has {lines} lines, not below 4,000")

for place in missing:
    print(place, "does not exist")
print(f"{len(pages)} pages name files that exist" if not missing else f"{len(missing)} names of files are wrong")
sys.exit(bool(missing))
