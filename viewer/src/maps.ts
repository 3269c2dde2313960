// The maps of the page: one line, or two and their difference; the legend and the sentence under them.
import type { App, Line } from "./app";
import type { Columns } from "./chunks";
import { palette } from "./colours";
import { byId, el, say, swatch } from "./dom";
import { CLASSES, MOST_TILES, type Keyframe } from "./frames";
import type { Light } from "./heat";
import { Pane, zoomMap } from "./pane";
import { NONE, StoryError } from "./story";
import { difference, scheme, type Scheme } from "./schemes";
import { breakable, bytes, counted, number, time } from "./text";

/** Keyframes that stay unpacked: each has a byte for every frame of the machine. */
const KEPT = 4;

export class Maps {
  private readonly first: Pane;
  private readonly second: Pane;
  private readonly between: Pane;
  private readonly keyframes = new Map<string, Columns | null>();
  private readonly legend = byId("legend");
  private readonly name = byId("map-line");
  private readonly caption = byId("map-caption");
  private legendKey = "";

  constructor(private readonly app: App) {
    this.first = new Pane(app, () => app.a, "Map of physical memory by pageblock");
    this.second = new Pane(app, () => app.b ?? app.a, "Map of the line compared with");
    this.between = new Pane(app, () => app.b ?? app.a, "Map of the difference");
    byId("maps").append(this.first.root, this.second.root, this.between.root);
    byId("zoom-in").addEventListener("click", () => zoomMap(app, 0.5));
    byId("zoom-out").addEventListener("click", () => zoomMap(app, 2));
    byId("zoom-all").addEventListener("click", () => app.set({ first: 0, count: app.story.pageblocks }));
    new ResizeObserver(() => app.touch("size")).observe(byId("maps"));
    app.listen(() => this.draw());
  }

  draw(): void {
    const { app } = this;
    const { a, b } = app;
    this.second.root.hidden = this.between.root.hidden = b === null;
    if (!a.state.segment || (b && !b.state.segment)) return;
    const close = app.view.count <= MOST_TILES;
    const keyA = close ? this.keyframe(a) : null;
    const keyB = close && b ? this.keyframe(b) : null;
    const colouring = scheme(app, a);
    const differing = b ? difference(app, a, b) : null;
    this.first.draw(b ? a.ref.label : "", colouring, keyA, this.light(a));
    if (b && differing) {
      this.second.draw(b.ref.label, scheme(app, b), keyB, this.light(b));
      this.between.draw("Difference", differing, null, null);
    }
    this.drawLegend(colouring, differing, keyA !== null);
    say(this.name, b ? "" : `${a.ref.label}: `);
    say(this.caption, this.describe(keyA, close && a.ref.frames.length === 0));
  }

  /** What a search leaves lit: pageblocks lost to the owners that it found, and the one selected. Null where nothing is dimmed. */
  private light(line: Line): Light | null {
    const { found, view } = this.app;
    if (found === null) return null;
    const { segment, rows } = line.state;
    return (first, into) => {
      const { owner } = segment!;
      for (let i = 0; i < into.length; i++) {
        const of = owner[rows[first + i]];
        into[i] = (of !== NONE && found[of] === 1) || first + i === view.selected ? 1 : 0;
      }
    };
  }

  private describe(keyframe: Keyframe | null, noFrames: boolean): string {
    const { story, view } = this.app;
    const size = story.frame_bytes * story.pageblock_frames;
    if (keyframe) {
      const at = time(keyframe.moment * story.resolution_ns);
      return `Frames of ${counted(view.count, "pageblock")} at ${at}, the nearest of ${counted(keyframe.line.ref.frames.length, "moment")} with frames.`;
    }
    const bin = this.first.layout?.bin ?? 1;
    const part = view.count === story.pageblocks ? `all ${number(view.count)} pageblocks` : `pageblocks ${number(view.first)} to ${number(view.first + view.count - 1)}`;
    const cell = bin === 1 ? `a cell is one pageblock (${bytes(size)})` : `a cell is ${bin} pageblocks (${bytes(size * bin)}) and shows the worst of them, or their mean`;
    const waiting = this.app.current ? "" : " Unpacking this moment …";
    return `${this.app.b ? part[0].toUpperCase() : part[0]}${part.slice(1)}; ${cell}.${noFrames ? " This line keeps no frames to show." : ""}${waiting}`;
  }

  /** The keyframe nearest to the moment, once it is unpacked. */
  private keyframe(line: Line): Keyframe | null {
    const { moment } = this.app;
    let best: (typeof line.ref.frames)[number] | null = null;
    for (const frame of line.ref.frames) {
      if (!best || Math.abs(frame.moment - moment) < Math.abs(best.moment - moment)) best = frame;
    }
    if (!best) return null;
    const key = `${line.index}:${best.chunk.id}`;
    const columns = this.keyframes.get(key);
    if (columns) {
      this.keyframes.delete(key);
      this.keyframes.set(key, columns);
      return { line, moment: best.moment, classes: Object.values(columns)[0] };
    }
    if (columns === undefined) {
      this.keyframes.set(key, null);
      this.app.decoder
        .columns(best.chunk)
        .then((columns) => {
          for (const old of this.keyframes.keys()) if (this.keyframes.size > KEPT && old !== key) this.keyframes.delete(old);
          if (Object.values(columns)[0]?.length !== this.app.story.pageblocks * this.app.story.pageblock_frames) {
            throw new StoryError("The story in this page is damaged: a keyframe does not have a row for each frame. Write the page again with `pageyard map`.");
          }
          this.keyframes.set(key, columns);
          this.app.touch("data");
        })
        .catch(this.app.fail);
    }
    return null;
  }

  private drawLegend(colouring: Scheme, differing: Scheme | null, frames: boolean): void {
    const shown: [string, { label: string; colour: string }[]][] = [];
    if (frames) shown.push(["", CLASSES.map((label, i) => ({ label, colour: palette().frame[i] }))]);
    else shown.push(["", colouring.entries]);
    if (differing) shown.push(["Difference", differing.entries]);
    const key = JSON.stringify(shown);
    if (key === this.legendKey) return;
    this.legendKey = key;
    this.legend.replaceChildren(
      ...shown.map(([title, entries]) => {
        const list = el("ul", { class: "legend" });
        if (title) list.append(el("li", { class: "legend-title", text: title }));
        for (let i = 0; i < entries.length; i++) {
          const start = i;
          while (i + 1 < entries.length && entries[i + 1].label === "") i++;
          // A ramp runs from one named entry over unnamed ones to the next, its colours between the two names.
          const { label, colour } = entries[start];
          if (i > start) list.append(el("li", {}, label, gradient(entries.slice(start, i + 1).map((entry) => entry.colour))));
          else if (entries[start - 1]?.label === "") list.append(el("li", { text: label }));
          else list.append(el("li", { title: label }, swatch(colour), el("span", { text: breakable(label) })));
        }
        return list;
      }),
    );
  }
}

function gradient(colours: string[]): HTMLElement {
  const element = el("span", { class: "gradient", "aria-hidden": "true" });
  element.style.background = `linear-gradient(90deg, ${colours.filter((_, i) => i % 4 === 0).join(", ")})`;
  return element;
}
