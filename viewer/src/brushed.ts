// A range of time that was brushed on the timeline: what happened in it, added up, for each line.
import type { App } from "./app";
import { byId, el, say } from "./dom";
import { betweenSentence } from "./sentence";
import type { Series } from "./state";
import { number, time } from "./text";

/** Counts since the start: the range has the difference. */
const COUNTED: [keyof Series, string][] = [
  ["failures", "failures"],
  ["fallbacks", "fallbacks"],
  ["steals", "steals"],
  ["compactions", "compactions"],
];

/** Levels: the range has the change from its start to its end. */
const LEVELS: [keyof Series, string][] = [
  ["huge_free", "huge free"],
  ["lost", "lost"],
  ["free_frames", "free frames"],
];

const WAIT = 150;

export class Brushed {
  private readonly box = byId("range");
  private readonly title = byId("range-title");
  private readonly words = byId("range-words");
  private readonly rows: { key: keyof Series; cells: HTMLElement[] }[] = [];
  private timer = 0;

  constructor(private readonly app: App) {
    const figures = [...COUNTED, ...LEVELS];
    const head = ["figure", ...app.lines.map((line) => line.ref.label)].map((text, i) => el("th", { scope: "col", class: i ? "num" : "", text }));
    const body = el("tbody");
    for (const [key, name] of figures) {
      const cells = app.lines.map(() => el("td", { class: "num" }));
      body.append(el("tr", {}, el("th", { scope: "row", text: name }), ...cells));
      this.rows.push({ key, cells });
    }
    byId("range-figures").append(el("table", { class: "data" }, el("thead", {}, el("tr", {}, ...head)), body));
    byId("range-close").addEventListener("click", () => app.set({ start: -1, stop: -1 }));
    app.listen((changed) => {
      if (changed.has("start") || changed.has("stop") || changed.has("a")) this.draw();
    });
    this.draw();
  }

  private draw(): void {
    const { app } = this;
    const range = app.brushed;
    this.box.hidden = range === null;
    clearTimeout(this.timer);
    if (range === null) return;
    const [from, to] = range;
    say(this.title, `From ${time(app.view.start)} to ${time(app.view.stop)}`);
    this.rows.forEach(({ key, cells }, row) => {
      const write = row < COUNTED.length ? number : signed;
      this.app.lines.forEach(({ series }, i) => say(cells[i], write(series[key][to] - series[key][from])));
    });
    // Pageblocks are compared once the range stands still.
    say(this.words, "");
    this.timer = window.setTimeout(() => void this.tell(from, to).catch(app.fail), WAIT);
  }

  private async tell(from: number, to: number): Promise<void> {
    const line = this.app.a;
    const words = await betweenSentence(this.app, line, from, to);
    const now = this.app.brushed;
    if (now?.[0] === from && now[1] === to && this.app.a === line) say(this.words, words);
  }
}

function signed(change: number): string {
  return change > 0 ? `+${number(change)}` : number(change).replace("-", "−");
}
