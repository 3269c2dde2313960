"""The two pictures of docs/studies/direct-compaction.md."""

from kept import PATCHES, PUBLISHED

MAIN = "stress-highalloc"
PHASES = "Long-term fragmentation"
GREY, BLUE, ORANGE, GREEN, VIOLET, RED = "#bbbbbb", "#3b6ea5", "#c8702a", "#2a7f62", "#8a5aa8", "#b03a48"
FRAME = '<svg xmlns="http://www.w3.org/2000/svg" width="960" height="{0}" font-family="sans-serif" font-size="12">'


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
