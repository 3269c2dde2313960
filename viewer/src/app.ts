// What all parts of the page share: the story, its lines, and what the reader looks at.
import type { Decoder } from "./decoder";
import type { LineState, Markers, Series } from "./state";
import { momentAt, type LineRef, type Story } from "./story";

export const COLOURINGS = ["state", "type", "occupancy", "age", "owner", "zone", "snapshot"] as const;
export type Colouring = (typeof COLOURINGS)[number];
export const GROUPS = ["what", "owner", "thread", "gfp", "context", "class"] as const;
export type Group = (typeof GROUPS)[number];

/** All that a link keeps, and nothing else. */
export interface View {
  time: number;
  /** The line shown, and the one beside it or -1. */
  a: number;
  b: number;
  colour: Colouring;
  group: Group;
  selected: number;
  /** The pageblocks of the map. */
  first: number;
  count: number;
  /** The times of the charts. */
  from: number;
  to: number;
  /** The range of time that is added up, from a moment to a later one; -1 for none. */
  start: number;
  stop: number;
  find: string;
}

export interface Line {
  ref: LineRef;
  index: number;
  state: LineState;
  series: Series;
  markers: Markers;
}

/** What changed: of the view, or of what it is drawn from. */
export type Change = keyof View | "data" | "theme" | "size" | "found";
export type Changed = Set<Change>;
type Listener = (changed: Changed) => void;

export class App {
  readonly view: View;
  /** 1 for each owner that the search found; null when nothing is searched. */
  found: Uint8Array | null = null;
  private readonly listeners: Listener[] = [];
  private changed: Changed = new Set();
  private frame = 0;

  constructor(
    readonly story: Story,
    readonly decoder: Decoder,
    readonly lines: Line[],
    readonly fail: (error: unknown) => void,
  ) {
    this.view = {
      time: 0,
      a: 0,
      b: this.second,
      colour: "state",
      group: "what",
      selected: -1,
      first: 0,
      count: story.pageblocks,
      from: 0,
      to: this.end,
      start: -1,
      stop: -1,
      find: "",
    };
  }

  /** The line that stands beside the first unless another is asked for: that of a second recording, or -1. */
  get second(): number {
    return this.lines.findIndex((line, i) => i > 0 && line.ref.kind === "recorded");
  }

  /** The time of the last moment. */
  get end(): number {
    return Math.max(1, (this.story.moments - 1) * this.story.resolution_ns);
  }

  get moment(): number {
    return momentAt(this.story, this.view.time);
  }

  /** The moments that the brushed range goes from and to, where there is one. */
  get brushed(): [number, number] | null {
    const { start, stop } = this.view;
    return stop > start ? [momentAt(this.story, start), momentAt(this.story, stop)] : null;
  }

  get a(): Line {
    return this.lines[this.view.a];
  }

  get b(): Line | null {
    return this.lines[this.view.b] ?? null;
  }

  listen(listener: Listener): void {
    this.listeners.push(listener);
  }

  /** Changes what is looked at; parts redraw once before the next frame. */
  set(patch: Partial<View>): void {
    const next = this.legal({ ...this.view, ...patch });
    for (const key of Object.keys(next) as (keyof View)[]) {
      if (this.view[key] !== next[key]) {
        (this.view as unknown as Record<string, unknown>)[key] = next[key];
        this.touch(key);
      }
    }
  }

  /** Asks for a redraw of what depends on something. */
  touch(what: Change): void {
    this.changed.add(what);
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.flush());
  }

  /** Redraws now what is to be redrawn. */
  flush(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const changed = this.changed;
    this.changed = new Set();
    this.bring();
    for (const listener of this.listeners) listener(changed);
  }

  /** Brings the lines that are looked at to the moment, and asks for what is not unpacked yet. */
  private bring(): void {
    for (const line of this.b ? [this.a, this.b] : [this.a]) {
      if (line.state.seek(this.moment)) continue;
      line.state
        .load(line.state.segmentAt(this.moment))
        .then(() => this.touch("data"))
        .catch(this.fail);
    }
  }

  /** Whether the map shows the moment, or still an earlier one because a segment is being unpacked. */
  get current(): boolean {
    return [this.a, this.b].every((line) => !line || (line.state.segment !== null && line.state.moment === this.moment));
  }

  private legal(view: View): View {
    const { story } = this;
    view.time = Math.min(this.end, Math.max(0, Math.round(view.time)));
    view.count = Math.min(story.pageblocks, Math.max(1, Math.round(view.count)));
    view.first = Math.min(story.pageblocks - view.count, Math.max(0, Math.round(view.first)));
    const least = Math.min(this.end, story.resolution_ns * 8);
    const width = Math.min(this.end, Math.max(least, view.to - view.from));
    view.from = Math.min(this.end - width, Math.max(0, view.from));
    view.to = view.from + width;
    // A range begins and ends with a moment: between two nothing is known.
    const step = story.resolution_ns;
    const start = Math.max(0, Math.floor(view.start / step) * step);
    const stop = Math.min(this.end, Math.ceil(view.stop / step) * step);
    const brushes = view.start >= 0 && view.stop > view.start && stop > start;
    [view.start, view.stop] = brushes ? [start, stop] : [-1, -1];
    if (!this.lines[view.a]) view.a = 0;
    if (!this.lines[view.b] || view.b === view.a) view.b = -1;
    if (!(view.selected >= 0 && view.selected < story.pageblocks)) view.selected = -1;
    return view;
  }
}
