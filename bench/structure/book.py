#!/usr/bin/env python3
"""Fits the repository's pages into the book that mdbook makes of docs, and checks the book.

    bench/structure/book.py               mdbook's preprocessor: a book comes in, a book goes out
    bench/structure/book.py check FOLDER  every link and picture of the built book leads somewhere

Pages outside docs keep their place below the book: README.md is its first page, data/README.md stays in data. A link
between pages of the book, or to a picture below docs, follows them there. Any other link leads to the repository: to
the address in REPOSITORY, where files are shown (`https://host/project/blob/main`), or else to this checkout.
"""
import html.parser
import json
import os
import posixpath
import re
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]
BUILT = "target/book"
PICTURES = (".png", ".svg")
LINK = re.compile(r"(\]\()([^)\s]+)([^)]*\))")


def place(path):
    """Returns where a page or picture, named from the root, stands in the book."""
    path = path.removeprefix("docs/")
    folder, name = posixpath.split(path)
    return posixpath.join(folder, "index.md") if name == "README.md" else path


def chapters(items):
    """Yields the chapters below a list of the book's items."""
    for item in items:
        if isinstance(item, dict) and "Chapter" in item:
            yield item["Chapter"]
            yield from chapters(item["Chapter"]["sub_items"])


def source(chapter):
    """Returns a chapter's page, named from the root."""
    return posixpath.normpath(posixpath.join("docs", chapter["source_path"]))


def followed(target, page, book, repository):
    """Returns what a link of a page becomes in the book."""
    path, hash_, anchor = target.partition("#")
    if re.match(r"[a-z]+:", target) or not path:
        return target
    file = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
    here = posixpath.dirname(place(page))
    if file in book or (file.startswith("docs/") and file.endswith(PICTURES)):
        return posixpath.relpath(place(file), here or ".") + hash_ + anchor
    if repository:
        return f"{repository}/{file}{hash_}{anchor}"
    return posixpath.relpath(file, posixpath.join(BUILT, here)) + hash_ + anchor


def rewritten(text, page, book, repository):
    """Returns a page's text with links that hold in the book; code stays as it is."""
    def link(match):
        return match[1] + followed(match[2], page, book, repository) + match[3]

    parts = re.split(r"(^ *```.*?^ *```|(?<=\n\n)(?: {4,}[^\n]*\n)+|``.+?``|`[^`]+`)", text, flags=re.M | re.S)
    # A link's text may be code, so that `](` stands at the beginning of the part behind it.
    return "".join(part if at % 2 else LINK.sub(link, part) for at, part in enumerate(parts))


def preprocess():
    context, book = json.load(sys.stdin)
    repository = os.environ.get("REPOSITORY", "").rstrip("/")
    items = list(chapters(book["items"]))
    pages = {source(chapter) for chapter in items}
    for chapter in items:
        page = source(chapter)
        chapter["content"] = rewritten(chapter["content"], page, pages, repository)
        chapter["path"] = place(page)
    json.dump(book, sys.stdout)


class Reader(html.parser.HTMLParser):
    """The anchors and links of a page of the book."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id":
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


def check(folder):
    pages = {path.resolve(): Reader(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    faults, links = [], 0
    for path, page in pages.items():
        # What a server shows for an address that it lacks; its links are from the server's root.
        for link in page.links if path.name != "404.html" else []:
            address = urlsplit(link)
            if address.scheme:
                continue
            links += 1
            to = (path.parent / unquote(address.path)).resolve() if address.path else path
            if not to.exists():
                faults.append(f"{path.relative_to(folder.resolve())}: {link} does not exist")
            elif address.fragment and to in pages and unquote(address.fragment) not in pages[to].anchors:
                faults.append(f"{path.relative_to(folder.resolve())}: {link} names a heading that is not there")
    print("\n".join(faults) or f"the book has {len(pages)} pages, and its {links} links lead somewhere")
    sys.exit(bool(faults) or not links)


if __name__ == "__main__":
    if sys.argv[1:2] == ["check"]:
        check(Path(sys.argv[2]))
    # Every renderer is supported.
    elif sys.argv[1:2] != ["supports"]:
        preprocess()
