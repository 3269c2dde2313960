#!/usr/bin/env python3
"""Writes the tables of docs/performance.md.

    bench/tables.py FOLDER PAGE           all of them, from what bench/measure left in FOLDER
    bench/tables.py --instructions PAGE   the last, from bench/instructions/counts.txt
"""

import json
import sys
from pathlib import Path

BATCHES = [1, 2, 8, 64, 256, 1024, 2048, 4096, 16384, 200000]
OURS = ["pageyard", "pageyard-exclusive", "pageyard-alone", "pageyard-trylock"]
BEGIN, END = "<!-- tables: written by bench/tables.py -->", "<!-- end of tables -->"


def table(head, rows):
    lines = ["| " + " | ".join(str(c) for c in head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(c) for c in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def names(rows):
    return list(dict.fromkeys(r["allocator"] for r in rows))


class Sweep:
    def __init__(self, rows):
        self.at = {(r["allocator"], r["threads"], r["order"], r["batch"], r["pattern"]): r for r in rows}
        self.rows = rows

    def row(self, who, batch, threads=1, order=0, pattern="fifo"):
        return self.at.get((who, threads, order, batch, pattern))

    def ns(self, *args, **kwargs):
        row = self.row(*args, **kwargs)
        return row and row["total_ns_median"]

    def table(self, threads, order, pattern):
        mine = [r for r in self.rows if (r["threads"], r["order"], r["pattern"]) == (threads, order, pattern)]
        batches = [b for b in BATCHES if any(r["batch"] == b for r in mine)]
        if not mine:
            return ""
        doubt = {r["batch"] for r in mine if r["disturbed"]}
        head = [f"order {order}, {threads} thread{'s' * (threads > 1)}, {pattern}"]
        head += [f"{b}{'!' if b in doubt else ''}" for b in batches]
        body = []
        for who in names(mine):
            line = [f"`{who}`"]
            for b in batches:
                r = self.row(who, b, threads, order, pattern)
                if not r:
                    line.append("-")
                    continue
                cell = f"{r['total_ns_median']:.1f} ns"
                if r.get("x_floor"):
                    cell = f"**{r['x_floor']:.1f}** {cell}"
                if r.get("x_one_thread"):
                    cell += f", x{r['x_one_thread']:.2f}"
                line.append(cell)
            body.append(line)
        return table(head, body) + "\n"


def worst(values):
    values = [v for v in values if v is not None]
    return max(values) if values else None


def verdict(value, limit, at_least=False):
    if value is None:
        return "not measured"
    met = value >= limit if at_least else value <= limit
    return f"{value:.2f} {'met' if met else '**missed**'}"


def targets(sweep, bulk, cross):
    """The issue's targets, worst case over their batches, for each of our variants that was measured."""
    batches = sorted({r["batch"] for r in sweep.rows if r["batch"] <= 16384})
    low, high = [b for b in batches if b <= 1024], [b for b in batches if b >= 2048]
    ours = [o for o in OURS if any(r["allocator"] == o for r in sweep.rows)]

    def times(who, of, some, **kw):
        """Smallest factor by which `who` is faster than `of`."""
        ratios = [(sweep.ns(of, b, **kw), sweep.ns(who, b, **kw)) for b in some]
        ratios = [a / b for a, b in ratios if a and b]
        return min(ratios) if ratios else None

    def floors(who, some, **kw):
        rows = [sweep.row(who, b, **kw) for b in some]
        return worst([r.get("x_floor") for r in rows if r])

    def linux(who, some):
        return times(who, "linux-uml", some)

    def gained(who):
        return {(r["batch"], r["pattern"]): r["x_one_thread"] for r in sweep.rows
                if r["allocator"] == who and r["threads"] == 2 and r["order"] == 0 and r.get("x_one_thread")}

    def scaling(who):
        return min(gained(who).values(), default=None)

    def beside_floor(who):
        """The same where two threads on the floor are twice one: what slowed the machine down slowed both."""
        floor = gained("floor-rseq")
        return min([2 * x / floor[at] for at, x in gained(who).items() if at in floor], default=None)

    def lifo(who):
        # Times the floor of each setting: LIFO and FIFO are measured minutes apart, on a machine whose clock changes.
        pairs = [(sweep.row(who, b, pattern="lifo"), sweep.row(who, b)) for b in batches]
        pairs = [(a.get("x_floor"), b.get("x_floor")) for a, b in pairs if a and b]
        return worst([100 * abs(a / b - 1) for a, b in pairs if a and b])

    def pair(who):
        return worst([r["total_ns_median"] for r in bulk["rows"]
                      if r["allocator"] == who and r["where"] == "in-cache" and 64 <= r["bulk"] <= 512])

    def shuffled(who):
        row = sweep.row(who, 200000, pattern="shuffled")
        return row and row["free_ns"]

    def crossed(who):
        return next((r["total_ns_median"] for r in cross["rows"] if r["allocator"] == who), None)

    lines = [
        ("times the floor, batches to 1024 (2 apart)", 2.6, False, lambda w: floors(w, [b for b in low if b != 2])),
        ("times the floor, batch 2", 3.2, False, lambda w: floors(w, [2])),
        ("times the floor, 2048 to 16384", 5.0, False, lambda w: floors(w, high)),
        ("faster than rte_mempool-512, to 1024", 1.25, True, lambda w: times(w, "rte_mempool-512", low)),
        ("faster than linux-uml, to 1024", 6.0, True, lambda w: linux(w, low)),
        ("faster than linux-uml, 16384", 5.0, True, lambda w: linux(w, [16384])),
        ("faster than the locked buddy, to 1024", 15.0, True,
         lambda w: times(w, "buddy_system_allocator-locked", low)),
        ("faster than the locked buddy, 16384", 9.0, True,
         lambda w: times(w, "buddy_system_allocator-locked", [16384])),
        ("LIFO apart from FIFO, in times the floor, %", 10.0, False, lifo),
        ("shuffled free of 200,000 frames, ns each", 12.0, False, shuffled),
        ("order 9, batch 1 (a list hit), times the floor", 4.0, False, lambda w: floors(w, [1], order=9)),
        ("two threads, times one, worst batch", 1.9, True, scaling),
        ("the same, where the floor's two are twice its one", 1.9, True, beside_floor),
        ("cross, ns a frame", 15.0, False, crossed),
        ("bulk 64 to 512, pair, ns a frame", 2.6, False, pair),
    ]
    head = ["target, worst case", "limit"] + [f"`{o}`" for o in ours]
    body = []
    for what, limit, at_least, measure in lines:
        sign = "≥" if at_least else "≤"
        body.append([what, f"{sign} {limit}"] + [verdict(measure(o), limit, at_least) for o in ours])
    return table(head, body)


def bulk_tables(bulk):
    out = ""
    for where in ["in-cache", "across"]:
        rows = [r for r in bulk["rows"] if r["where"] == where]
        calls = sorted({r["bulk"] for r in rows})
        body = []
        for who in names(rows):
            found = {r["bulk"]: r for r in rows if r["allocator"] == who}
            body.append([f"`{who}`"] + [
                f"{found[c]['total_ns_median']:.2f} ({found[c]['gain_pct']:.0f} %)" if c in found else "-"
                for c in calls])
        out += table([f"{where}: ns a frame (saved against one by one)"] + calls, body) + "\n"
    body = [[f"`{b['allocator']}`", b["where"], f"{b['bulk_ns']:.0f}", f"{b['one_by_one_ns']:.0f}",
             f"{b['order_6_ns']:.0f}" if "order_6_ns" in b else "-"] for b in bulk["receive_buffer"]]
    return out + table(["receive buffer of 256 KiB, ns", "", "64 at once", "one by one", "one of order 6"], body)


def tables(folder, root):
    load = {p.stem: release(json.loads(p.read_text())) for p in folder.glob("*.json")}
    sweep, bulk, cross = Sweep(load["sweep"]["rows"]), load["bulk"], load["cross"]
    machine, noise = load["sweep"]["machine"], load["sweep"]["disturbance"]
    out = f"Measured on {machine['cpu']}, {machine['cpus']} CPUs, Linux {machine['kernel']}. "
    out += (f"The sweep's pair of the same code disagreed, or others took time, in {noise['disturbed']} of "
            f"{noise['settings']} settings (columns with `!`); {noise['steal_ms']:.0f} ms of "
            f"{noise['elapsed_ms'] / 1000:.0f} s were stolen by the hypervisor.\n\n")
    out += "### Targets\n\n" + targets(sweep, bulk, cross)
    out += "\n### Sweep\n\nTimes the floor of the same setting in bold, then nanoseconds for taking a block and giving it "
    out += "back; with two threads, how many times one thread's blocks.\n\n"
    for threads in (1, 2):
        for order in (0, 3, 9):
            for pattern in ["fifo", "lifo", "shuffled"] if order == 0 and threads == 1 else ["fifo"]:
                out += sweep.table(threads, order, pattern)
    out += "### Bulk\n\n" + bulk_tables(bulk)
    out += "\n### Across CPUs\n\n"
    body = [[f"`{r['allocator']}`"] + [f"{r[k]:.1f}" for k in
            ["total_ns_median", "alloc_ns", "free_ns", "elapsed_ns_median", "elapsed_less_queue_ns"]]
            for r in cross["rows"]]
    out += table(["ns a frame", "pair", "taking", "giving back", "elapsed", "less the queue"], body)
    out += f"\nThe queue by itself: {cross['queue_ns_median']:.1f} ns a frame.\n"
    out += "\n### Primitives\n\n"
    body = [[f"`{r['primitive']}`", f"{r['ns_median']:.2f}", f"{r.get('cycles_tsc', 0):.1f}",
             f"{r['published_ns']:.2f}" if "published_ns" in r else "", r["how"]] for r in load["primitives"]["rows"]]
    out += table(["", "ns", "TSC cycles", "published, 2017, ns", "how"], body)
    return out + instructions(root)


INSTRUCTIONS = "\n### Instructions\n\n"


def instructions(root):
    counts, locked = {}, {}
    for line in (root / "bench/instructions/counts.txt").read_text().splitlines():
        if not line.startswith("#"):
            engine, path, n, n_locked = line.split()
            counts.setdefault(engine, {})[path] = n
            if n_locked != "-":
                locked.setdefault(engine, {})[path] = n_locked

    def of(counts, paths):
        return [[f"`{e}`"] + [c.get(p, "-") for p in paths] for e, c in counts.items()]

    paths = list(dict.fromkeys(p for c in counts.values() for p in c))
    listed = [p for p in paths if not p.startswith("unlisted")]
    out = INSTRUCTIONS + table(["an operation"] + listed, of(counts, listed))
    out += "\nLocked ones among them (and fences, and exchanges with memory):\n\n"
    out += table(["an operation"] + listed, of(locked, listed))
    # Blocks without lists, by order: instructions, and locked ones.
    engines = [e for e, c in counts.items() if any(p.startswith("unlisted") for p in c)]
    kinds = [("unlisted-pair", "a pair"), ("unlisted-alloc", "64 allocated, each"), ("unlisted-free", "64 freed, each")]
    orders = list(dict.fromkeys(p.rsplit("-", 1)[1] for p in paths if p.startswith("unlisted")))
    rows = []
    for engine in engines:
        for kind, what in kinds:
            cells = []
            for order in orders:
                path = f"{kind}-{order}"
                more = locked.get(engine, {}).get(path)
                cells.append(f"{float(counts[engine][path]):.0f}" + (f" ({float(more):g})" if more else ""))
            rows.append([f"`{engine}`", what] + cells)
    out += "\nBlocks past the lists, in a zone whose pageblocks are half used; locked ones in brackets:\n\n"
    return out + table(["", "order"] + orders, rows)


def release(document):
    """Ends the program where a document was measured by a checked build: assertions would be part of every figure."""
    if document.get("machine", {}).get("checked_build"):
        sys.exit("tables.py: these figures are of a checked build; measure with what `cargo build --release` builds")
    return document


def main():
    folder, page = map(Path, sys.argv[1:3])
    text = page.read_text()
    if sys.argv[1] == "--instructions":
        before = text.split(INSTRUCTIONS, 1)[0]
        page.write_text(f"{before}{instructions(page.parent.parent)}{END}{text.split(END, 1)[1]}")
        return
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    page.write_text(f"{before}{BEGIN}\n{tables(folder, page.parent.parent)}{END}{after}")


if __name__ == "__main__":
    main()
