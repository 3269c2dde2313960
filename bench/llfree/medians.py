#!/usr/bin/env python3
"""Prints the medians of LLFree's benchmarks as tables, from what bench/llfree/eval left.

    bench/llfree/medians.py FOLDER

A cell is Pageyard's time by LLFree's in the same run, for a block allocated and freed: the median of the runs. In
brackets, the nanoseconds of both in the run that has this ratio, or the one below it: allocating + freeing, or together
where the benchmark times only the pair.
"""

import csv
import statistics
import sys
from pathlib import Path

PEER = "LLFree"
KINDS = {"pageyard:pcp=false": "Zones", "pageyard": "Lists"}
ORDERS = [0, 4, 9]
# A level of `frag` is how many 64ths of a pageblock are free, by eight, and one more; 0 is none.
FULL, THREE_QUARTERS_FREE, EMPTY = 0, 7, 9


def table(head, rows):
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    print()


def times(folder):
    """Returns what was measured, by benchmark, threads, filling, order and allocator: a pair of times for each run."""
    found = {}
    for path in sorted(folder.glob("*.csv")):
        what, *threads = path.stem.split(".")[:-1]
        for row in csv.DictReader(path.open()):
            threads_or_level = int(row["x"])
            key = (what, int(threads[0]), threads_or_level) if threads else (what, threads_or_level, 0)
            pair = int(row["get_avg"]), int(row["put_avg"])
            found.setdefault((*key, int(row["order"]), row["alloc"]), []).append(pair)
    return found


def cell(what, ours, theirs):
    def whole(pair):
        return pair[0] if what == "repeat" else sum(pair)

    def shown(pair):
        return str(pair[0]) if what == "repeat" else f"{pair[0]} + {pair[1]}"

    runs = sorted((whole(one) / whole(other), one, other) for one, other in zip(ours, theirs, strict=True))
    _, one, other = runs[(len(runs) - 1) // 2]
    return f"{statistics.median(run[0] for run in runs):.2f} ({shown(one)}, {shown(other)})"


def name(what, threads, level):
    in_use = f", {level} % in use" if level else ""
    return f"`{what}`{in_use}, {threads} thread{'s' * (threads > 1)}"


def timed(folder):
    found = times(folder)
    names = ["bulk", "repeat", "rand", "filling"]
    rows = sorted({key[:3] for key in found}, key=lambda key: (names.index(key[0]), key))
    for kind in KINDS:
        print(f"`{kind}` by `{PEER}`:\n")
        cells = [
            [name(*row), *(cell(row[0], found[*row, order, kind], found[*row, order, PEER]) for order in ORDERS)]
            for row in rows
        ]
        table(["", *(f"order {order}" for order in ORDERS)], cells)


def fragmented(folder):
    rows = []
    for threads in (1, 2):
        for allocator, kind in {PEER: PEER, **KINDS}.items():
            runs = [path.read_text().split() for path in sorted(folder.glob(f"frag.{kind}.0.{threads}.*.txt"))]
            first, last = ([[int(level) for level in lines[at]] for lines in runs] for at in (0, -1))

            def blocks(rounds, are):
                return round(statistics.median(sum(map(are, levels)) for levels in rounds))

            counts = [
                blocks(first, lambda level: level == FULL),
                blocks(last, lambda level: level == FULL),
                blocks(last, lambda level: level >= THREE_QUARTERS_FREE),
                blocks(last, lambda level: level == EMPTY),
            ]
            rows.append([f"`{allocator}`, {threads} thread{'s' * (threads > 1)}", *counts])
    table(["`frag`, order 0: pageblocks", "full at first", "full", "three quarters free", "empty"], rows)


folder = Path(sys.argv[1])
timed(folder)
fragmented(folder)
