// The charts of the timeline: one for each figure, all lines in each, one scale of time for all.
import uPlot from "uplot";
import type { App } from "./app";
import { DASHES, palette } from "./colours";
import { el } from "./dom";
import { extent, readable } from "./range";
import type { Series } from "./state";
import { compact, span } from "./text";

/** Width of the scale left of each chart; the marker lanes and the playhead keep to it. */
export const SCALE = 124;
const RIGHT = 12;
const AXIS = 22;

const FIGURES: { key: keyof Series; title: string }[] = [
  { key: "huge_free", title: "Huge free" },
  { key: "lost", title: "Lost" },
  { key: "free_frames", title: "Free frames" },
  { key: "failures", title: "Failures" },
];

export class Charts {
  private readonly plots: { plot: uPlot; box: HTMLElement }[] = [];
  private readonly figures: typeof FIGURES;
  /** The index of the host's own line, or -1. */
  private readonly recorded: number;

  constructor(
    private readonly app: App,
    private readonly into: HTMLElement,
  ) {
    // A chart of nothing would take room from the others.
    this.figures = FIGURES.filter(({ key }) => key !== "failures" || app.lines.some((line) => line.series.failures.at(-1)! > 0));
    this.recorded = app.lines.findIndex((line) => line.ref.kind === "recorded");
    this.build();
  }

  /** Pixels of the plotted area, from the left edge of the charts' box. Kept, because asking the page costs a layout. */
  area = { left: SCALE, width: 10 };

  private build(): void {
    const { app } = this;
    const moments = app.story.moments;
    const seconds = Float64Array.from({ length: moments }, (_, i) => (i * app.story.resolution_ns) / 1e9);
    this.figures.forEach(({ key, title }, i) => {
      const last = i === this.figures.length - 1;
      const box = el("div", { class: "chart" }, el("div", { class: "chart-title", text: title }));
      this.into.append(box);
      const data = [seconds, ...app.lines.map((line) => line.series[key])] as unknown as uPlot.AlignedData;
      const beyond = this.beyond(key);
      if (beyond) box.append(el("div", { class: "chart-beyond", text: beyond }));
      this.plots.push({ plot: new uPlot(this.options(last), data, box), box });
    });
    this.resize();
  }

  /** Says which lines leave the chart at the top or at the bottom, and how far they go. */
  private beyond(key: keyof Series): string {
    const { lines } = this.app;
    const all = lines.map((line) => extent(line.series[key]));
    const low = Math.min(...all.map(([least]) => least));
    const high = Math.max(...all.map(([, most]) => most));
    const [from, to] = readable(this.recorded < 0 ? null : all[this.recorded], low, high);
    const out = lines.flatMap((line, i) => {
      const far = all[i][1] > to ? all[i][1] : all[i][0] < from ? all[i][0] : null;
      return far === null ? [] : [`${line.ref.label} goes on to ${compact(far)}`];
    });
    return out.join(", ");
  }

  private options(last: boolean): uPlot.Options {
    const { app } = this;
    const stepped = uPlot.paths.stepped!({ align: 1 });
    return {
      width: 300,
      height: 60,
      padding: [8, RIGHT, last ? 0 : 4, 0],
      legend: { show: false },
      cursor: { show: false },
      scales: {
        x: { time: false, range: () => [app.view.from / 1e9, app.view.to / 1e9] },
        y: {
          range: (plot, low, high) => {
            const [first, end] = plot.series[0].idxs ?? [0, 0];
            const seen = this.recorded < 0 ? null : extent(plot.data[this.recorded + 1].slice(first, end + 1) as number[]);
            return padded(...readable(seen, low ?? 0, high ?? 1));
          },
        },
      },
      axes: [
        {
          show: true,
          size: last ? AXIS : 0,
          stroke: () => palette().muted,
          grid: { stroke: () => palette().grid, width: 1 },
          ticks: { show: last, stroke: () => palette().grid, width: 1, size: 4 },
          gap: 2,
          font: "11px system-ui, sans-serif",
          space: 90,
          values: (_, splits) => splits.map((value) => (last ? (value === 0 ? "0 s" : span(value * 1e9)) : "")),
        },
        {
          size: SCALE,
          stroke: () => palette().muted,
          grid: { stroke: () => palette().grid, width: 1 },
          ticks: { show: false },
          gap: 8,
          font: "11px system-ui, sans-serif",
          splits: (plot) => {
            const { min, max } = plot.scales.y;
            const [low, high] = [Math.ceil(min!), Math.floor(max!)];
            return high > low ? [low, high] : [low];
          },
          values: (_, splits) => splits.map(compact),
        },
      ],
      series: [
        {},
        ...app.lines.map((_line, i) => ({
          stroke: () => palette().lines[i % palette().lines.length],
          dash: DASHES[i % DASHES.length],
          width: i === 0 ? 2 : 1.5,
          points: { show: false },
          paths: stepped,
        })),
      ],
    };
  }

  resize(): void {
    const width = this.into.clientWidth;
    if (width < 40) return;
    this.area = { left: SCALE, width: Math.max(10, width - SCALE - RIGHT) };
    for (const { plot, box } of this.plots) plot.setSize({ width, height: Math.max(30, box.clientHeight) });
  }

  /** Draws the times that the view shows. */
  zoom(): void {
    for (const { plot } of this.plots) plot.setScale("x", { min: this.app.view.from / 1e9, max: this.app.view.to / 1e9 });
  }

  /** Draws again in the colours of the theme. */
  redraw(): void {
    for (const { plot } of this.plots) plot.redraw(false, true);
  }
}

function padded(from: number, to: number): [number, number] {
  const room = Math.max(1, (to - from) * 0.08);
  return [Math.max(0, from - room), to + room];
}
