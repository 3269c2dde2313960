#!/usr/bin/env python3
"""Checks the records of audits in supply-chain/, which have the format of cargo vet, without it and without a network.

    bench/structure/vetted.py           prints how many dependencies each kind of user links, and how many were read
    bench/structure/vetted.py --check   fails where a dependency has no record, where a record has no dependency, or where
                                        docs/design/threats.md has other numbers
    bench/structure/vetted.py --write   writes the numbers into the page

A dependency in Cargo.lock is audited or exempted, at the version that is locked. What the product links or is built with has a
record of `safe-to-deploy`; for tests and the laboratory `safe-to-run` is enough. That is judged here for one system;
`cargo vet --locked --frozen` judges it for all of them, and the form of the files. `cargo vet regenerate exemptions` exempts
what is new and drops what is gone; notes stay.
"""
import argparse
import subprocess
import sys
import tomllib

from unsafe import ROOT, keep

PAGE = ROOT / "docs/design/threats.md"
RECORDS = ROOT / "supply-chain"
SYSTEM = "x86_64-unknown-linux-gnu"

# Kinds of users, and the packages that each of them names.
EMBEDDING = {
    "the engine or packet pools, in a kernel or a hypervisor": ["pageyard", "pageyard-packets"],
    "the adapters, in other projects' kernels": ["pageyard-x86_64", "pageyard-hermit", "pageyard-ostd"],
    "an arena": ["pageyard-arena"],
    "the C library": ["pageyard-capi"],
    "owners by their stacks, when debugging": ["pageyard-debug"],
}
USERS = EMBEDDING | {
    "any of these": sum(EMBEDDING.values(), []),
    "the command": ["pageyard-cli"],
    "the Python package": ["pageyard-python"],
}


def locked(path=ROOT / "Cargo.lock"):
    """Returns the dependencies in a lock file that are not the project's, as pairs of name and version."""
    packages = tomllib.loads(path.read_text())["package"]
    return {(package["name"], package["version"]) for package in packages if "source" in package}


def records():
    """Yields every record: whether it is an audit, the dependency, the criteria, and the record itself."""
    for file, key in [("audits.toml", "audits"), ("config.toml", "exemptions")]:
        for name, entries in tomllib.loads((RECORDS / file).read_text()).get(key, {}).items():
            for entry in entries:
                criteria = [entry["criteria"]] if isinstance(entry["criteria"], str) else entry["criteria"]
                yield key == "audits", (name, entry.get("version")), criteria, entry


def below(package, edges):
    """Returns the dependencies along these edges below a package of the project that are not the project's."""
    command = ["cargo", "tree", "--locked", "--target", SYSTEM, "--package", package, "--edges", edges]
    command += ["--prefix", "none", "--format", "{p}"]
    out = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    # Packages of the project are followed by their folder.
    lines = [line.replace(" (*)", "").replace(" (proc-macro)", "") for line in out.splitlines()]
    return {tuple(line.replace(" v", " ").split()) for line in lines if line and "(" not in line}


def product():
    """Returns the names of the packages that are not the laboratory's."""
    for manifest in [*ROOT.glob("crates/*/Cargo.toml"), *ROOT.glob("adapters/*/Cargo.toml")]:
        yield tomllib.loads(manifest.read_text())["package"]["name"]


def named(dependency):
    return " ".join(filter(None, dependency))


def faults():
    """Yields a sentence for each dependency and record that the other side lacks or contradicts."""
    # Kernels and the like, and the fuzz targets, are built with lock files of their own.
    locks = [ROOT / "Cargo.lock", ROOT / "fuzz/Cargo.lock", *ROOT.glob("crates/*/examples/*/Cargo.lock")]
    needed = set().union(*map(locked, locks))
    deployed = {dependency for package in product() for dependency in below(package, "normal,build")}
    found = {}
    for audit, dependency, criteria, entry in records():
        if audit and not (entry.get("who") and entry.get("notes")):
            yield f"the audit of {named(dependency)} does not say who read it and what was looked at"
        if dependency not in needed:
            yield f"{named(dependency)} has {'an audit' if audit else 'an exemption'}, and is no dependency"
        if dependency in found:
            yield f"{named(dependency)} has two records: an audited version needs no exemption"
        found[dependency] = criteria
    for lock in locks:
        for dependency in sorted(locked(lock) - set(found)):
            yield f"{named(dependency)} in {lock.relative_to(ROOT)} is neither audited nor exempted"
    for dependency in sorted(deployed & set(found)):
        if "safe-to-deploy" not in found[dependency]:
            yield f"{named(dependency)} is part of the product, and its record is not of safe-to-deploy"


def table():
    audited = {dependency for audit, dependency, _, _ in records() if audit}
    head = ["who links", "dependencies", "of these, in the compiler alone", "audited", "exempted"]
    out = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for user, packages in USERS.items():
        linked = {dependency for package in packages for dependency in below(package, "normal")}
        run = {dependency for package in packages for dependency in below(package, "normal,no-proc-macro")}
        read, rest = linked & audited, sorted(name for name, _ in linked - audited)
        # By their names where somebody may want to read them, too.
        names = ": " + ", ".join(f"`{name}`" for name in rest) if rest and user in EMBEDDING else ""
        out.append(f"| {user} | {len(linked)} | {len(linked - run)} | {len(read)} | {len(rest)}{names} |")
    every = locked()
    out += ["", f"`Cargo.lock` names {len(every)}, with those of tests, of the laboratory and of other systems: "
                f"{len(every & audited)} are audited, {len(every - audited)} exempted."]
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--check", action="store_true")
    action.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if not (options.check or options.write):
        print(table(), end="")
        return
    if options.check and (found := list(faults())):
        sys.exit("supply-chain/:\n" + "\n".join(found))
    otherwise = "what is linked or audited has changed; run bench/structure/vetted.py --write"
    keep(PAGE, "vetted", table(), options.write, otherwise)


if __name__ == "__main__":
    main()
