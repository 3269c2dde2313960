#!/usr/bin/env python3
"""Writes the tables of the studies from the runs that are kept in data/runs.

    bench/studies/tables.py             each table between <!-- table: NAME --> and <!-- end --> anew, and the pictures
    bench/studies/tables.py --check     says what is not as the runs say, and changes nothing
"""

import re
import sys
from pathlib import Path

import pictures
from kept import PATCHES, PUBLISHED, Study, number, signed, table

ROOT = Path(__file__).resolve().parents[2]
RUNS, STUDIES = ROOT / "data/runs", ROOT / "docs/studies"
BATCHES = [1 << n for n in range(15)]

# direct-compaction

MAIN = "stress-highalloc"
PHASES = "Long-term fragmentation"
CHANGES = "How each row of the document's table changes"
TENTHS = "Success by tenth of the attempts"
SENSITIVITY = "Sensitivity: one parameter at a time"
LATENCY = "One direct compaction"
FRAGMENTED = "A state in which as little succeeds as in the document"
CONTENTION = "Contention: how asynchronous compaction ends"
OWNERSHIP = "Pageblock ownership: two compactors in one zone"
STATES = "Huge frames out of memory that is half free"


def main_table(study):
    columns = PUBLISHED + PATCHES + ["pageyard", "reference:patch2-again"]
    head = ["", "published: patch 2", "patch 3", "patch 4", "reference: patch 2", "patch 3", "patch 4", "the engine", "patch 2 again"]
    rows = [[m] + [number(study.at(MAIN, m, c)) for c in columns] for m in study.tables[MAIN]]
    return table(head, rows)


def verdict(published, change, low, high):
    if low <= 0 <= high:
        return "open"
    return "same" if (published > 0) == (change > 0) else "**other**"


def change_table(study):
    rows = []
    for metric in [m for m in study.tables[CHANGES] if m.endswith(": patch 2 to 3")]:
        label = metric.split(": ")[0]
        cells = [label]
        for step in ("patch 2 to 3", "patch 3 to 4"):
            get = lambda column: study.at(CHANGES, f"{label}: {step}", column)
            published, change, low, high = (get(c) for c in ("published:change", "reference:change", "reference:low", "reference:high"))
            if published is None or change is None:
                cells = None
                break
            cells += [f"{published:+.1f}", f"{change:+.1f} ({low:+.1f} to {high:+.1f})", verdict(published, change, low, high)]
        if cells:
            again = study.at(CHANGES, f"{label}: patch 2 to itself", "reference:change")
            rows.append(cells + ["" if again is None else f"{again:+.1f}"])
    head = ["row", "patch 2 to 3: published", "here (interval)", "sign", "patch 3 to 4: published", "here (interval)", "sign", "patch 2 to itself"]
    return table(head, rows)


def tenth_table(study):
    columns = PATCHES + ["pageyard"]
    rows = [
        [str(n)] + [f"{study.at(TENTHS, f'phase {phase}, tenth {n}: success', c):.0f}" for phase in (1, 2) for c in columns]
        for n in range(1, 11)
    ]
    names = ["patch 2", "patch 3", "patch 4", "the engine"]
    return table(["tenth of the attempts"] + [f"phase {p}: {n}" if n == "patch 2" else n for p in (1, 2) for n in names], rows)


def phase_table(study):
    columns = study.columns(PHASES)
    shown = lambda prefix, unit, form: [
        [f"{unit} {n}"] + [form.format(study.at(PHASES, f"{prefix}{n}", c)) for c in columns] for n in (1, 2, 5, 10, 15, 20)
    ]
    rows = shown("Success ", "success, %, in phase", "{:.1f}")
    rows += shown("unusable_index of order 9, phase ", "`unusable_index` of order 9 after phase", "{:.2f}")
    mean = lambda c: sum(study.at(PHASES, f"unusable_index of order 9, phase {n}", c) for n in range(1, 21)) / 20
    rows.append(["the same, mean of 20 phases"] + [f"{mean(c):.2f}" for c in columns])
    spoiled = shown("Pageblocks spoiled, phase ", "pageblocks spoiled, %, after phase", "{:.0f}")
    return table([""] + columns, rows + [spoiled[0], spoiled[-1]])


def sensitivity_table(study):
    settings = dict.fromkeys(m.split(": ")[0] for m in study.tables[SENSITIVITY])
    rows = []
    for s in settings:
        get = lambda metric: [study.at(SENSITIVITY, f"{s}: {metric}", c) for c in PATCHES]
        one, two = get("Success 1"), get("Success 2")
        scanned, free = get("Compaction migrate scanned"), get("Compaction free scanned")
        less = [100 * (1 - scanned[1] / scanned[0]), 100 * (1 - free[2] / free[1])]
        rows.append([s] + [f"{v:.1f}" for v in one + two] + [f"{v:.0f}" for v in less] + [f"{one[2] / one[1]:.2f}"])
    head = ["", "success 1, %: patch 2", "patch 3", "patch 4", "success 2: patch 2", "patch 3", "patch 4"]
    return table(head + ["patch 3 scans less for migration, %", "patch 4 scans fewer free frames, %", "4 by 3"], rows)


def latency(study, columns):
    cell = lambda c: " / ".join(number(study.at(LATENCY, f"order 4 under load, without reclaim: {q}", c)) for q in ("median", "p99"))
    return [cell(c) for c in columns]


def named(column):
    return column.replace("reference:patch", "patch ").replace("pageyard", "the engine")


def fragmented_table(study):
    columns = study.columns(FRAGMENTED)
    rows = []
    for metric in study.tables[FRAGMENTED]:
        if not metric.endswith("least of the seeds"):
            rows.append([metric.removeprefix("fragmented: ")] + [number(study.at(FRAGMENTED, metric, c)) for c in columns])
    return table([""] + [f"`{named(c)}`" if "=" in c else named(c) for c in columns], rows)


def contention_table(study):
    """The shares of requests by how their asynchronous compaction ended, and how many of these were served."""
    head = ["load and CPU", "", "success 1 / 2, %", "succeeded", "scanners met", "a lock was held", "served of these", "the CPU was wanted", "served of these"]
    words = ["succeeded", "ended where its scanners met", "gave way to the holder of a lock", "gave way to a task that wanted the CPU"]
    rows = []
    for metric in (m for m in study.tables[CONTENTION] if m.endswith(": Success 1")):
        case = metric.removesuffix(": Success 1")
        for column in study.columns(CONTENTION):
            at = lambda m: study.at(CONTENTION, f"{case}: {m}", column)
            if at("Success 1") is None:
                continue
            share = lambda w: at(f"a compaction that {w}")
            served = lambda w: at(f"a compaction that {w}, served")
            percent = lambda v: "" if v is None else f"{v:.1f} %" if v < 10 else f"{v:.0f} %"
            name = named(column.split(" ")[0]) + (", going on" if " " in column else "")
            rows.append(
                [case, name, f"{at('Success 1'):.1f} / {at('Success 2'):.1f}", percent(share(words[0])), percent(share(words[1]))]
                + [percent(f(w)) for w in words[2:] for f in (share, served)]
            )
    return table(head, rows)


KNOWN = {MAIN, PHASES, CHANGES, TENTHS, SENSITIVITY, LATENCY, FRAGMENTED, CONTENTION, OWNERSHIP, STATES}
INDEX = "unusable_index of order 9 after phase 2"


def questions_table(study):
    """Each variant once, under the first question that has it."""
    rows, seen = [], set()
    million = lambda v: "" if v is None else f"{v / 1e6:,.1f}"
    for question in (t for t in study.tables if t not in KNOWN):
        asked = [c for c in study.columns(question) if c not in seen]
        seen.update(asked)
        for n, column in enumerate(asked):
            at = lambda m: study.at(question, m, column)
            name = "`" + " ".join(named(column).split(" ")[2:]) + "`" if "=" in column else "itself"
            above = study.at(question, "Success 1: above the patch itself", column)
            rows.append(
                [question if n == 0 else "", " ".join(named(column).split(" ")[:2]), name]
                + [f"{at('Success 1 Mean'):.1f}", f"{at('Success 2 Mean'):.1f}"]
                + ["" if above is None else "yes" if above == 100 else "no" if above == 0 else "open"]
                + [million(at("Compaction migrate scanned")), million(at("Compaction free scanned")), f"{at(INDEX):.2f}"]
            )
    head = ["question", "", "with", "success 1, %", "success 2, %", "more in phase 1, with every seed", "scanned for migration, millions", "free frames scanned, millions", "index after phase 2"]
    return table(head, rows)


def ownership_table(study):
    columns = study.columns(OWNERSHIP)
    rows = [[m] + [number(study.at(OWNERSHIP, m, c)) for c in columns] for m in study.tables[OWNERSHIP]]
    return table(["", "without leases", "with leases"], rows)


def states_table(study):
    columns = PATCHES[1:] + ["pageyard"]
    rows = [[m] + [number(study.at(STATES, m, c)) for c in columns] for m in study.tables[STATES]]
    return table(["", "patch 3", "patch 4", "the engine"], rows)


# irq-safe

PROTECTIONS = ["irqsave", "irqsave-flags-register", "irqsave-signal-mask", "preempt_only", "soft_irq_off", "soft_irq_allowed", "trylock"]
SHORT = ["irqsave", "flags register", "signal mask", "preempt_only", "soft_irq_off", "soft_irq_allowed", "trylock"]
COLUMNS = [f"reference:{p}" for p in PROTECTIONS] + ["pageyard"]
AFTER = "reference:preempt_only"
BEFORE = "reference:irqsave"
RECORDINGS = ["net-order0", "net", "build", "fork"]
CPUS = ["one CPU", "its CPUs"]


def sweep_table(study):
    rows = []
    for n in BATCHES:
        ns = [number(study.any(f"Median total-odr0-{n}", c)) for c in COLUMNS]
        gains = [
            study.any(f"gain total-odr0-{n}", "published:irqsafe"),
            study.any(f"gain over the flags register, total-odr0-{n}", AFTER),
            study.any(f"gain total-odr0-{n}", AFTER),
            study.any(f"A/A total-odr0-{n}", BEFORE),
        ]
        rows.append([str(n)] + ns + [signed(g) for g in gains])
    head = ["N"] + SHORT + ["pageyard", "gain, published %", "gain over the flags register %", "gain over a flag %", "A/A %"]
    return table(head, rows)


def paths_table(study):
    """The gains of taking and of giving back, published and over the flags register."""
    rows = []
    for n in BATCHES:
        cells = [study.any(f"gain {k}-odr0-{n}", "published:irqsafe") for k in ("alloc", "free")]
        cells += [study.any(f"gain over the flags register, {k}-odr0-{n}", AFTER) for k in ("alloc", "free")]
        rows.append([str(n)] + [signed(c) for c in cells])
    return table(["N", "taking, published %", "giving back, published %", "taking, here %", "giving back, here %"], rows)


def primitives_table(study):
    rows = [[f"`{m}`"] + [number(study.at("Primitives", m, c)) for c in ("published:time_bench", "reference")] for m in study.tables["Primitives"]]
    return table(["", "published, ns", "here, ns"], rows)


def prediction_table(study):
    columns = [("from a flag", AFTER), ("from the flags register", f"{AFTER}, from the flags register"), ("from a signal mask", f"{AFTER}, from a signal mask")]
    metrics = ["expected saving for a frame, two sections", "measured saving for a frame, batch 1", "measured saving for a frame, batch 64"]
    rows = [[name] + [f"{study.any(m, c):,.1f} ns" for m in metrics] for name, c in columns]
    return table(["", "expected, two sections", "measured, batch 1", "measured, batch 64"], rows)


def traces_table(study):
    rows = []
    for t in RECORDINGS:
        told = [study.any(f"{t}: {m}", "trace") for m in ("calls", "frees in interrupts", "frees on another CPU than the allocation", "of those, made late, up to 1024 calls")]
        gains = [study.any(f"gain over {over}, {t}, {cpus}", c) for over, c in (("the flags register", AFTER), ("a flag", AFTER), ("the flags register", "reference:soft_irq_off"), ("the flags register", "reference:soft_irq_allowed")) for cpus in CPUS]
        pairs = [study.any(f"A/A {t}, {cpus}", BEFORE) for cpus in CPUS]
        rows.append([f"`{t}`", f"{told[0]:,.0f}"] + [f"{v:.0f} %" for v in told[1:]] + [signed(g) for g in gains + pairs])
    head = ["trace", "calls", "frees in interrupts", "frees on another CPU than the allocation", "of these late"]
    for name in ("patch", "patch over a flag", "soft_irq_off", "soft_irq_allowed", "A/A"):
        head += [f"{name}, 1 CPU", "its CPUs"]
    return table(head, rows)


def calls_table(study):
    rows = []
    for t in RECORDINGS:
        for cpus in CPUS:
            ns = [number(study.any(f"{t}, {cpus}", c)) for c in COLUMNS]
            locks = [number(study.any(f"{t}, {cpus}: taken for 1000 calls", c)) for c in (BEFORE, AFTER)]
            waited = number(study.any(f"{t}, {cpus}: waited for a call", AFTER))
            rows.append([f"`{t}`, {cpus}"] + ns + locks + [waited])
    return table([""] + SHORT + ["pageyard", "zone lock, irqsave", "zone lock, preempt_only", "waited, preempt_only"], rows)


def bulk_table(study):
    columns = [BEFORE, AFTER, "reference:trylock", "pageyard"]
    sizes = [1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512]
    rows = [[f"gain of {n} a call, %"] + [signed(study.any(f"gain bulk-{n}", c), 0) for c in columns] for n in sizes]
    return table(["", "irqsave", "preempt_only", "trylock", "pageyard"], rows)


def storm_table(study):
    metrics = ["handlers that ran, a second, all CPUs", "of those, deferred", "allocations by handlers", "allocations by the threads they interrupted", "frames with two owners, or lost"]
    rows = [[c.removeprefix("reference:")] + [f"{study.any(m, c):,.0f}" for m in metrics] for c in COLUMNS]
    return table(["", "handlers a second", "deferred", "allocations by handlers", "by threads", "frames with two owners, or lost"], rows)


def aim9_table(study):
    columns = ["kernel", "pageyard"] + COLUMNS[:-1] + ["published:vanilla", "published:irqsafe"]
    rows = []
    for test, unit in (("page_test", "pages a second"), ("brk_test", "moves a second")):
        rows.append([f"{test}, {unit}"] + [f"{v:,.0f}" if (v := study.any(f"Hmean {test}", c)) else "" for c in columns])
        rows.append([f"{test}, coefficient of variation, %"] + [number(study.any(f"CoeffVar {test}", c)) for c in columns])
    return table([""] + [c.removeprefix("reference:").replace(":", ", ") for c in columns], rows)


# zonelist


def zonelist_table(study):
    rows = []
    for n in BATCHES:
        cells = [study.any(f"Min alloc-odr0-{n}", c) for c in ("published:statinline", "published:optiter")]
        here = [study.any(f"Min alloc-odr0-{n}", c) for c in ("reference:called", "reference:inlined")]
        gains = [study.any(f"gain Min alloc-odr0-{n}", c) for c in ("published:optiter", "reference:inlined")]
        turns = study.any(f"gain turn by turn alloc-odr0-{n}", "reference:inlined")
        pair = study.any(f"A/A alloc-odr0-{n}", "reference:called")
        rows.append([str(n)] + [f"{v:.0f}" for v in cells] + [f"{gains[0]:.1f}"] + [f"{v:.1f}" for v in here + [gains[1], turns]] + [signed(pair)])
    return table(["Min alloc-odr0-N", "published, called (cycles)", "inlined", "gain %", "called (ns)", "inlined", "gain %", "turn by turn %", "A/A %"], rows)


def instructions_table(study):
    prefix = "instructions of alloc and free, "
    metrics = [m for t in study.tables.values() for m in t if m.startswith(prefix)]
    rows = [[m.removeprefix(prefix)] + [f"{v:,.0f}" if (v := study.any(m, c)) else "" for c in ("reference:called", "reference:inlined")] for m in metrics]
    return table(["", "called", "inlined"], rows)


NODES = ["1 node", "2 nodes", "4 nodes", "8 nodes"]
MASKS = ["no cpuset", "cpuset of all nodes", "cpuset of some nodes", "cpuset changed during walks"]


def nodes_table(study):
    cell = lambda n, m: f"{signed(study.any(f'gain turn by turn, alloc-odr0-64, {n}, {m}', 'reference:inlined'))} ({signed(study.any(f'A/A alloc-odr0-64, {n}, {m}', 'reference:called'))})"
    return table([""] + NODES, [[m] + [cell(n, m) for n in NODES] for m in MASKS])


def least_table(study):
    cell = lambda n, m, c: number(study.any(f"Min alloc-odr0-64, {n}, {m}", f"reference:{c}"))
    rows = [[m] + [cell(n, m, c) for n in (NODES[0], NODES[3]) for c in ("called", "inlined")] for m in MASKS[:3]]
    return table(["", "called, 1 node", "inlined", "called, 8 nodes", "inlined"], rows)


def walk_table(study):
    cell = lambda n, k: signed(study.any(f"more than one zone, turn by turn, {k}-odr0-64, {n}", "pageyard"))
    return table([""] + NODES, [[name] + [cell(n, k) for n in NODES] for name, k in (("taking", "alloc"), ("taking and giving back", "total"))])


# batched-clear

EXTENTS = ["4.0 KiB", "64.0 KiB", "1.0 MiB", "2.0 MiB", "16.0 MiB", "32.0 MiB", "64.0 MiB", "128.0 MiB", "256.0 MiB", "512.0 MiB", "1.0 GiB"]


def extents_table(study):
    rows = []
    for size in EXTENTS:
        for threads in ["1 thread"] + (["2 threads"] if size in ("2.0 MiB", "1.0 GiB") else []):
            metric = f"{size} cold, {threads}"
            rate = lambda c: f"{v:.1f}" if (v := study.any(metric, c)) else "-"
            gain = lambda c: f"{v:+.1f} %" if (v := study.any(f"gain {metric}", c)) is not None else "-"
            name = size + (", 64 scattered with one fence as `batches`" if size == "4.0 KiB" else "") + (", two threads" if threads[0] == "2" else "")
            ours = rate("pageyard:batch" if size == "4.0 KiB" else "pageyard:whole")
            rows.append([name] + [rate(f"rep-stosb:{m}") for m in ("page", "batch", "whole")] + [gain(f"rep-stosb:{m}") for m in ("batch", "whole")] + [ours])
    return table(["extent", "a page at a time", "batches of 32 MiB", "whole", "gain of batches", "gain of whole", "pageyard, whole"], rows)


WAYS = ["rep-stosb:page", "rep-stosb:batch", "rep-stosb:whole", "memset:whole", "rep-stosq:whole", "avx2-nt:whole", "avx512-nt:whole", "clzero:whole", "pageyard:whole"]


def survival_table(study):
    share = lambda cache, way: f"{v:.0f} %" if (v := study.any(f"share of a working set in the {cache} cache that clearing leaves there", way)) is not None else ""
    return table(["", "second-level", "last-level"], [[f"`{w}`", share("second-level", w), share("last-level", w)] for w in WAYS])


def stretch_table(study):
    ways = [f"{p}:{m}" for p in ("rep-stosb", "pageyard") for m in ("page", "batch", "whole")]
    cell = lambda m, w: f"{study.any(f'{m} stretch, 1.0 GiB', w):.2f} ms"
    return table(["1 GiB", "p99", "longest", "GB/s"], [[f"`{w}`", cell("p99", w), cell("longest", w), f"{study.any('1.0 GiB cold, asked in between', w):.1f}"] for w in ways])


def faults_table(study):
    name = "Memory until a byte of each page is written"
    columns = study.columns(name)
    rows = [[m] + [f"{v:.1f}" if (v := study.at(name, m, c)) else "" for c in columns] for m in study.tables[name] if not m.startswith("+-")]
    return table([""] + columns, rows)


# page-frag

FREES = ["reference:buddy", "reference:pcp", "pageyard"]


def packets_table(study):
    rate = lambda m: [""] + [f"{study.at('Contention', m, c):,.0f}" for c in FREES]
    gain = lambda c: f"{study.at('Contention', 'gain over buddy, 2 CPUs', c):.1f} %"
    wait = lambda c: f"{v:.2f} %" if (v := study.at("Contention", "zone lock wait share", c)) is not None else "0 % (no such lock)"
    rows = [["packets per second, 1 CPU"] + rate("packets per second, 1 CPU"), ["packets per second, 2 CPUs"] + rate("packets per second, 2 CPUs")]
    rows.append(["gain over buddy, 2 CPUs", "7 %", "", gain(FREES[1]), gain(FREES[2])])
    rows.append(["zone lock wait share", "10.1 % of samples"] + [wait(c) for c in FREES])
    return table(["", "published", "reference: buddy", "reference: pcp", "pageyard"], rows)


def functions_table(study):
    both = ["Time by function", "Time by function, one CPU receives, one completes"]
    percent = lambda v: "" if v is None else f"{v:.1f} %"
    rows = []
    for metric in study.tables[both[0]]:
        published = study.at(both[0], metric, "published:profile")
        if metric.startswith("samples"):
            cells = [f"{v:,.0f}" if (v := study.at(t, metric, c)) else "" for t in both for c in FREES]
        else:
            cells = [percent(study.at(t, metric, c)) for t in both for c in FREES]
        rows.append([metric.removesuffix(" of mlx5e_poll_tx_cq"), "" if published is None else f"{published:.2f} %"] + cells)
    return table(["", "published", "buddy, each does both", "pcp", "pageyard", "buddy, one receives, one completes", "pcp", "pageyard"], rows)


WORK = "By work for a packet, 2 CPUs"


def work_table(study):
    rows = []
    for shape in ("each does both", "one receives, one completes"):
        for level, short in (("no other work", "none"), ("0.16 us of work", "0.16 us"), ("1.1 us of work", "1.1 us")):
            at = lambda m, c: study.at(WORK, f"{m}, {shape}, {level}", c)
            rate = lambda c: f"{at('packets per second', c):,.0f}"
            gain = lambda c: f"{at('gain over buddy', c):.1f} %"
            wait = lambda c: f"{at('zone lock wait share', c):.2f} %"
            rows.append([shape, short, rate(FREES[0]), wait(FREES[0]), rate(FREES[1]), wait(FREES[1]), gain(FREES[1]), rate(FREES[2]), gain(FREES[2]), f"{at('A/A packets per second', FREES[0]):+.1f} %"])
    return table(["", "other work", "buddy: packets/s", "waits", "pcp: packets/s", "waits", "gain", "pageyard: packets/s", "gain", "A/A"], rows)


def recycling_table(study):
    name = next(t for t in study.tables if t.startswith("Where recycling works"))
    rows = [[s] + [f"{study.at(name, f'packets per second with recycling, {s}', c):,.0f}" for c in FREES] for s in ("one CPU", "one receives, one completes", "each does both")]
    return table(["", "reference: buddy", "reference: pcp", "pageyard"], rows)


TABLES = {
    "direct-compaction": {
        "the document's": main_table,
        "row by row": change_table,
        "by tenth": tenth_table,
        "phases": phase_table,
        "sensitivity": sensitivity_table,
        "fragmented": fragmented_table,
        "questions": questions_table,
        "contention": contention_table,
        "ownership": ownership_table,
        "states": states_table,
    },
    "irq-safe": {
        "batches": sweep_table,
        "paths": paths_table,
        "primitives": primitives_table,
        "prediction": prediction_table,
        "traces": traces_table,
        "calls": calls_table,
        "bulk": bulk_table,
        "storm": storm_table,
        "aim9": aim9_table,
    },
    "zonelist": {"batches": zonelist_table, "instructions": instructions_table, "nodes": nodes_table, "least": least_table, "walk": walk_table},
    "batched-clear": {"extents": extents_table, "survival": survival_table, "stretches": stretch_table, "faults": faults_table},
    "page-frag": {"packets": packets_table, "functions": functions_table, "work": work_table, "recycling": recycling_table},
}
MARKED = re.compile(r"(<!-- table: ([^>]+) -->\n).*?(<!-- end -->)", re.S)


def kept():
    """Returns the studies whose run is kept."""
    return [(name, tables) for name, tables in TABLES.items() if (RUNS / f"{name}.json.gz").exists()]


def made():
    """Returns the text of every file that is written from kept runs."""
    texts = {}
    for name, tables in kept():
        study, page = Study(RUNS / f"{name}.json.gz"), STUDIES / f"{name}.md"
        text = page.read_text()
        marked = [m[2] for m in MARKED.finditer(text)]
        if sorted(marked) != sorted(tables):
            raise SystemExit(f"{page.name} has the tables {sorted(marked)}, and {sorted(tables)} are written")
        texts[page] = MARKED.sub(lambda m: f"{m[1]}\n{tables[m[2]](study)}\n\n{m[3]}", text)
        if name == "direct-compaction":
            texts[STUDIES / "direct-compaction.svg"] = pictures.bars(study)
            texts[STUDIES / "direct-compaction-phases.svg"] = pictures.lines(study)
    return texts


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    stale = [path for path, text in made().items() if path.read_text() != text]
    if sys.argv[1:]:
        if stale:
            sys.exit(f"not as the runs in data/runs say: {', '.join(p.name for p in stale)}; run bench/studies/tables.py")
        print(f"{sum(len(tables) for _, tables in kept())} tables of {len(kept())} studies are as the kept runs say")
        return
    for path, text in made().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
