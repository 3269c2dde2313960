// Markers under the charts: one lane for each kind, darker where many fall together.
import type { App, Line } from "./app";
import { palette } from "./colours";
import { sized } from "./dom";

const LANE = 11;

/** The kinds that any line has markers of. */
function kinds(app: App): number[] {
  const all = app.story.marker_kinds.map((_, kind) => kind);
  return all.filter((kind) => app.lines.some((line) => line.markers.kind.includes(kind)));
}

/** Times are in order, so the markers of a stretch are a range of rows. */
export function firstAfter(times: Float64Array, time: number): number {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

function density(app: App, line: Line, kind: number, width: number): Uint32Array {
  const { from, to } = app.view;
  const counts = new Uint32Array(width);
  const { time_ns, kind: kinds } = line.markers;
  const end = firstAfter(time_ns, to + 1);
  for (let i = firstAfter(time_ns, from); i < end; i++) {
    if (kinds[i] === kind) counts[Math.min(width - 1, Math.floor(((time_ns[i] - from) / (to - from)) * width))]++;
  }
  return counts;
}

/** Draws the lanes of the first line; of the second as well, below it in each lane, when there is one. */
export function drawLanes(canvas: HTMLCanvasElement, app: App, left: number, width: number): void {
  const shown = kinds(app);
  const height = shown.length * LANE + 2;
  const context = sized(canvas, left + width, height);
  const colour = palette();
  const lines = app.b ? [app.a, app.b] : [app.a];
  context.fillStyle = colour.paper;
  context.fillRect(0, 0, left + width, height);
  context.font = "10.5px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.textAlign = "right";
  shown.forEach((kind, row) => {
    const top = row * LANE + 1;
    context.fillStyle = colour.muted;
    context.globalAlpha = 1;
    context.fillText(`${app.story.marker_kinds[kind]}s`, left - 8, top + LANE / 2);
    context.fillStyle = colour.grid;
    context.fillRect(left, top + LANE - 1, width, 1);
    const share = (LANE - 3) / lines.length;
    lines.forEach((line, i) => {
      const counts = density(app, line, kind, Math.floor(width));
      const sparse = counts.reduce((sum, count) => sum + count, 0) < width / 6;
      const wide = sparse || kind === 0 ? 2 : 1;
      context.fillStyle = kind === 0 ? colour.failure : colour.lines[line.index % colour.lines.length];
      for (let x = 0; x < counts.length; x++) {
        if (counts[x] === 0) continue;
        context.globalAlpha = wide === 2 ? 1 : Math.min(1, 0.35 + 0.15 * Math.log2(counts[x]));
        context.fillRect(left + x, top + 1 + i * share, wide, share - (lines.length > 1 ? 0.5 : 0));
      }
    });
  });
  context.globalAlpha = 1;
}
