// The figures of all lines at the moment, what happened at it, and the same in words for a screen reader.
import type { App, Line } from "./app";
import { DASHES, palette } from "./colours";
import { byId, el, say } from "./dom";
import { firstAfter } from "./lanes";
import { counted, listed, number, time } from "./text";

const FIGURES = ["huge_free", "lost", "free_frames", "failures"] as const;
const EVENTS = [
  ["failures", "failure"],
  ["fallbacks", "fallback"],
  ["steals", "steal"],
  ["compactions", "compaction"],
] as const;
const MOST_MARKERS = 4;

export class Now {
  private readonly title = byId("now-title");
  private readonly events = byId("now-events");
  private readonly summary = byId("summary");
  private readonly rows: { line: Line; key: HTMLElement; cells: HTMLElement[] }[] = [];
  private timer = 0;

  constructor(private readonly app: App) {
    const head = ["line", "huge free", "lost", "free frames", "failures"].map((text, i) => el("th", { scope: "col", class: i ? "num" : "", text }));
    const body = el("tbody");
    for (const line of app.lines) {
      const key = el("span", { class: "key", "aria-hidden": "true" });
      const cells = FIGURES.map(() => el("td", { class: "num" }));
      body.append(el("tr", {}, el("th", { scope: "row" }, key, line.ref.label), ...cells));
      this.rows.push({ line, key, cells });
    }
    byId("now").append(el("table", { class: "data" }, el("thead", {}, el("tr", {}, ...head)), body));
    this.colour();
    app.listen((changed) => {
      if (changed.has("theme")) this.colour();
      this.draw();
    });
  }

  private colour(): void {
    this.rows.forEach(({ key, line }) => {
      const colour = palette().lines[line.index % palette().lines.length];
      const dash = DASHES[line.index % DASHES.length];
      key.style.background = dash.length === 0 ? colour : `repeating-linear-gradient(90deg, ${colour} 0 ${dash[0]}px, transparent ${dash[0]}px ${dash[0] + dash[1]}px)`;
    });
  }

  private draw(): void {
    const { app } = this;
    const { moment } = app;
    say(this.title, `At ${time(app.view.time)}`);
    for (const { line, cells } of this.rows) FIGURES.forEach((figure, i) => say(cells[i], number(line.series[figure][moment])));
    say(this.events, this.happened(app.a));
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => say(this.summary, this.words()), 600);
  }

  /** What was counted between the moment and the next, and the failures of which markers are kept. */
  private happened(line: Line): string {
    const { app } = this;
    const { story, moment } = app;
    if (moment + 1 >= story.moments) return "This is the last moment.";
    const counts = EVENTS.flatMap(([key, one]) => {
      const count = line.series[key][moment + 1] - line.series[key][moment];
      return count > 0 ? [counted(count, one)] : [];
    });
    if (counts.length === 0) return "No failure, fallback, steal or compaction before the next moment.";
    const { time_ns, kind, order, thread, reason } = line.markers;
    const start = moment * story.resolution_ns;
    const to = firstAfter(time_ns, start + story.resolution_ns);
    const failures: string[] = [];
    for (let i = firstAfter(time_ns, start); i < to && failures.length < MOST_MARKERS; i++) {
      if (kind[i] !== 0) continue;
      const by = story.threads[thread[i]];
      const why = story.reasons[reason[i]];
      failures.push(`order ${order[i]}${by ? ` by ${by}` : ""}${why ? ` (${why})` : ""}`);
    }
    return `Before the next moment: ${listed(counts)}${failures.length ? `. Failed: ${failures.join("; ")}` : ""}.`;
  }

  private words(): string {
    const { app } = this;
    const lines = app.lines.map(({ ref, series }) => {
      const at = app.moment;
      return `${ref.label}: ${counted(series.huge_free[at], "huge frame")} free, ${counted(series.lost[at], "pageblock")} lost, ${counted(series.free_frames[at], "frame")} free, ${counted(series.failures[at], "failure")} so far`;
    });
    return `At ${time(app.view.time)}. ${lines.join(". ")}.`;
  }
}
