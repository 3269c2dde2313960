#!/usr/bin/env python3
"""Writes the tables and the two pictures of docs/studies/direct-compaction.md.

    target/release/pageyard-lab experiment direct-compaction --json > study.json
    bench/studies/direct_compaction.py study.json docs/studies      pictures there, tables on standard output
"""

import json
import sys
from pathlib import Path

PATCHES = ["reference:patch2", "reference:patch3", "reference:patch4"]
PUBLISHED = ["published:patch2", "published:patch3", "published:patch4"]
MAIN = "stress-highalloc"
PHASES = "Long-term fragmentation"
CHANGES = "How each row of the document's table changes"
TENTHS = "Success by tenth of the attempts"
SENSITIVITY = "Sensitivity: one parameter at a time"
GREY, BLUE, ORANGE, GREEN, VIOLET, RED = "#bbbbbb", "#3b6ea5", "#c8702a", "#2a7f62", "#8a5aa8", "#b03a48"
FRAME = '<svg xmlns="http://www.w3.org/2000/svg" width="960" height="{0}" font-family="sans-serif" font-size="12">'


class Study:
    def __init__(self, path):
        self.tables = {}
        document = json.loads(Path(path).read_text())
        if document["made"].get("checked_build"):
            sys.exit("direct_compaction.py: this document is of a checked build; run what `cargo build --release` builds")
        for row in document["rows"]:
            self.tables.setdefault(row["table"], {}).setdefault(row["metric"], {})[row["column"]] = row["value"]

    def at(self, table, metric, column):
        return self.tables[table].get(metric, {}).get(column)

    def columns(self, table):
        return list(dict.fromkeys(c for row in self.tables[table].values() for c in row))


def number(value):
    if value is None:
        return ""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return "0" if value == 0 else f"{value:.2f}" if abs(value) < 100 else f"{value:.1f}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def main_table(study):
    columns = PUBLISHED + PATCHES + ["pageyard", "reference:patch2-again"]
    head = ["", "published: patch 2", "patch 3", "patch 4", "reference: patch 2", "patch 3", "patch 4", "the engine", "patch 2 again"]
    rows = [[m.replace("Mean", "Mean")] + [number(study.at(MAIN, m, c)) for c in columns] for m in study.tables[MAIN]]
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


def question_table(study, name):
    columns = study.columns(name)
    rows = [[m] + [number(study.at(name, m, c)) for c in columns] for m in study.tables[name]]
    return table([""] + [c.replace("reference:patch", "patch ") for c in columns], rows)


def bars(study):
    """Success, and frames scanned in percent of each source's own patch 2."""
    panels = [("Success in phase 1, %", "Success 1 Mean", False), ("Scanned for migration, % of own patch 2", "Compaction migrate scanned", True),
              ("Free frames scanned, % of own patch 2", "Compaction free scanned", True)]
    out = [FRAME.format(300) + '<rect width="960" height="300" fill="white"/>']
    for n, (title, metric, relative) in enumerate(panels):
        left = 20 + 320 * n
        out.append(f'<text x="{left}" y="24" font-size="14">{title}</text>')
        groups = [(PUBLISHED, GREY, left), (PATCHES, BLUE, left + 128)]
        bars = [(x + 38 * i, c, colour, str(i + 2), cs[0]) for cs, colour, x in groups for i, c in enumerate(cs)]
        bars.append((left + 128 + 38 * 3, "pageyard", ORANGE, "engine", PATCHES[0]))
        values = [study.at(MAIN, metric, c) * (100 / study.at(MAIN, metric, base) if relative else 1) for _, c, _, _, base in bars]
        most = max(values)
        for (x, _, colour, name, _), value in zip(bars, values):
            height = 200 * value / most
            out.append(f'<rect x="{x}" y="{250 - height:.1f}" width="32" height="{height:.1f}" fill="{colour}"/>'
                       f'<text x="{x + 16}" y="{245 - height:.1f}" text-anchor="middle">{value:.0f}</text>'
                       f'<text x="{x + 16}" y="265" text-anchor="middle">{name}</text>')
        out.append(f'<text x="{left + 55}" y="284" text-anchor="middle" fill="#555">published</text>'
                   f'<text x="{left + 195}" y="284" text-anchor="middle" fill="#555">here</text>')
    return "\n".join(out) + "</svg>\n"


def lines(study):
    """Success and fragmentation over the phases."""
    shown = [("reference:patch2", "patch 2", "#888888"), ("reference:patch3", "patch 3", GREEN),
             ("reference:patch3 skip_on_failure=direct", "patch 3, skips when synchronous too", VIOLET),
             ("reference:patch3 pivot=forgetting", "patch 3 from a pivot", RED), ("reference:patch4", "patch 4", BLUE), ("pageyard", "the engine", ORANGE)]
    out = [FRAME.format(320) + '<rect width="960" height="320" fill="white"/>']
    for n, (title, prefix, top) in enumerate([("Success by phase, %", "Success ", 100), ("unusable_index of order 9 by phase", "unusable_index of order 9, phase ", 0.8)]):
        left, right = 50 + 480 * n, 450 + 480 * n
        out.append(f'<text x="{left - 30}" y="24" font-size="14">{title}</text>')
        for step in range(5):
            y = 250 - 50 * step
            out.append(f'<line x1="{left}" x2="{right}" y1="{y}" y2="{y}" stroke="#dddddd"/><text x="{left - 4}" y="{y + 4}" text-anchor="end">{top * step / 4:g}</text>')
        x = lambda phase: left + (right - left) * (phase - 1) / 19
        out += [f'<text x="{x(phase):.1f}" y="266" text-anchor="middle">{phase}</text>' for phase in (1, 5, 10, 15, 20)]
        for column, _, colour in shown:
            points = " ".join(f"{x(p):.1f},{250 - 200 * study.at(PHASES, f'{prefix}{p}', column) / top:.1f}" for p in range(1, 21))
            out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
    at = 50
    for _, name, colour in shown:
        out.append(f'<line x1="{at}" x2="{at + 20}" y1="296" y2="296" stroke="{colour}" stroke-width="3"/><text x="{at + 26}" y="300">{name}</text>')
        at += 46 + 7 * len(name)
    return "\n".join(out) + "</svg>\n"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    study, folder = Study(sys.argv[1]), Path(sys.argv[2])
    (folder / "direct-compaction.svg").write_text(bars(study))
    (folder / "direct-compaction-phases.svg").write_text(lines(study))
    for name, made in [("The document's table", main_table), ("Row by row", change_table), ("By tenth", tenth_table), ("Phases", phase_table), ("Sensitivity", sensitivity_table)]:
        print(f"## {name}\n\n{made(study)}")
    known = {MAIN, CHANGES, TENTHS, PHASES, SENSITIVITY}
    for name in study.tables:
        if name not in known:
            print(f"## {name}\n\n{question_table(study, name)}")


if __name__ == "__main__":
    main()
