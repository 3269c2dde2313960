#!/usr/bin/env python3
"""Finds circles of imports in the crates: files that need each other, directly or through others.

    bench/structure/imports.py [--longest N]   fails where a circle has more than N files (2)

A file needs another where it names it by path (`crate::a::b`, `super::b`), outside of comments and of `mod tests`. Two files that
need each other are one subject in two parts; three or more are a knot. The root of a module (`mod.rs`, `lib.rs`) that only
declares and re-exports its files needs none of them.
"""
import re
import sys
from pathlib import Path

PATH = re.compile(r"\b(crate|super(?:::super)*|self)((?:::[a-z_][a-z0-9_]*)+)(::\{)?")


def code(text):
    """The code of a file: no comments, no strings, no test modules at its end."""
    text = re.split(r"#\[cfg\((?:all\()?test\b", text)[0]
    text = re.sub(r"//.*", "", text)
    return re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)


def module_of(path, src):
    parts = list(path.relative_to(src).with_suffix("").parts)
    return tuple(parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts)


def braces(text, at):
    """The comma-separated heads of a `{...}` group that begins at `at`."""
    depth, start, heads = 0, at, []
    for i in range(at, len(text)):
        c = text[i]
        if c == "{":
            depth += 1
            if depth == 1:
                start = i + 1
        elif c == "}" or (c == "," and depth == 1):
            if depth == 1:
                heads.append(text[start:i].strip())
                start = i + 1
            if c == "}":
                depth -= 1
                if depth == 0:
                    break
    return heads


def needs(text, module, is_root, modules):
    found = set()

    def add(parts):
        while parts and tuple(parts) not in modules:
            parts = parts[:-1]
        if parts and tuple(parts) != module:
            found.add(tuple(parts))

    here = list(module)
    for m in PATH.finditer(text):
        root, rest, group = m.group(1), [p for p in m.group(2).split("::") if p], m.group(3)
        if root == "crate":
            base = []
        elif root == "self":
            base = here if is_root else here
        else:
            base = here[: len(here) - root.count("super")]
        for head in braces(text, m.end() - 1) if group else [""]:
            tail = [p for p in re.split(r"::|\s|\{", head) if re.fullmatch(r"[a-z_][a-z0-9_]*", p)][:1] if group else []
            add(base + rest + tail)
    return found


def circles(graph):
    """Strongly connected components of more than one file (Tarjan)."""
    index, low, stack, on, out = {}, {}, [], set(), []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        on.add(v)
        for w in graph[v]:
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in on:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            component = []
            while True:
                w = stack.pop()
                on.discard(w)
                component.append(w)
                if w == v:
                    break
            if len(component) > 1:
                out.append(sorted(component))

    sys.setrecursionlimit(10_000)
    for v in graph:
        if v not in index:
            visit(v)
    return out


def main():
    longest = int(sys.argv[sys.argv.index("--longest") + 1]) if "--longest" in sys.argv else 2
    root = Path(__file__).resolve().parents[2]
    bad = 0
    for src in sorted((root / "crates").glob("*/src")):
        files = {module_of(p, src): p for p in src.rglob("*.rs")}
        graph = {}
        for module, path in files.items():
            is_root = path.stem in ("mod", "lib", "main")
            text = code(path.read_text())
            if is_root:
                # Re-exports are for users outside.
                text = re.sub(r"(?s)\bpub use\b.*?;", "", text)
            graph[module] = {n for n in needs(text, module, is_root, files) if n in files}
        for circle in circles(graph):
            names = ", ".join("::".join(m) or "lib" for m in circle)
            if len(circle) > longest:
                bad += 1
                print(f"{src.parent.name}: {len(circle)} files need each other: {names}")
    if bad:
        sys.exit(1)
    print(f"no circle of imports has more than {longest} files")


if __name__ == "__main__":
    main()
