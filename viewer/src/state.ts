// One line's state at a moment: which row of the current segment stands for each pageblock.
import { ABSENT, LOST, WHOLE } from "./condition";
import type { Decoder } from "./decoder";
import { FROM_BASE, segmentBytes, type Segment } from "./segment";
import type { LineRef, Story } from "./story";

/** In answers to "since when": before the recording, and not known because the story before is not unpacked yet. */
export const BEFORE = -1;
export const UNKNOWN = -2;

export interface Totals {
  free_frames: number;
  huge_free: number;
  lost: number;
  movable: number;
  unmovable: number;
  reclaimable: number;
  pinned: number;
}

/** What is kept of a segment when its rows are dropped: enough to say how old a later state is. */
interface Ends {
  first: Uint8Array;
  last: Uint8Array;
  since: Uint32Array;
}

export class LineState {
  readonly rows: Uint32Array;
  segment: Segment | null = null;
  /** The moment that `rows` stand for. */
  moment = 0;
  /** 1 for each pageblock that was lost at the opening, once known. */
  opening: Uint8Array | null = null;
  /** Whether any pageblock is not there. */
  absent = false;
  private readonly segments: (Segment | null)[];
  private readonly loading = new Map<number, Promise<Segment>>();
  private readonly ends: (Ends | null)[];
  private readonly carried: (Int32Array | null)[];
  private readonly used: number[];
  private applied = 0;
  private index = -1;
  private clock = 0;

  constructor(
    readonly ref: LineRef,
    private readonly story: Story,
    private readonly decoder: Decoder,
    private readonly budget: number,
  ) {
    const n = ref.segments.length;
    this.rows = new Uint32Array(story.pageblocks);
    this.segments = new Array<Segment | null>(n).fill(null);
    this.ends = new Array<Ends | null>(n).fill(null);
    this.carried = new Array<Int32Array | null>(n).fill(null);
    this.used = new Array<number>(n).fill(0);
    this.carried[0] = new Int32Array(story.pageblocks).fill(BEFORE);
  }

  segmentAt(moment: number): number {
    return this.ref.segments.findIndex((segment) => moment <= segment.to);
  }

  ready(moment: number): boolean {
    return this.segments[this.segmentAt(moment)] !== null;
  }

  /** Unpacks a segment unless it is there already. What is unpacked ahead of need is the first to be dropped. */
  load(index: number, ahead = false): Promise<Segment> {
    const there = this.segments[index];
    if (!ahead) this.used[index] = ++this.clock;
    if (there) return Promise.resolve(there);
    let loading = this.loading.get(index);
    if (!loading) {
      loading = this.decoder.segment(this.ref.segments[index]).then((segment) => {
        this.loading.delete(index);
        this.keep(index, segment);
        return segment;
      });
      this.loading.set(index, loading);
    }
    return loading;
  }

  /** The first segment that was never unpacked, or -1: all were, so that "since when" is known everywhere. */
  ahead(): number {
    return this.ends.findIndex((ends, i) => ends === null && !this.loading.has(i));
  }

  private keep(index: number, segment: Segment): void {
    this.segments[index] = segment;
    const n = this.story.pageblocks;
    const last = new Uint8Array(n);
    const since = new Uint32Array(n);
    for (let i = 0; i < n; i++) {
      last[i] = segment.condition[segment.last[i]];
      since[i] = segment.since[segment.last[i]];
    }
    this.absent ||= segment.condition.subarray(0, n).includes(ABSENT);
    this.ends[index] = { first: segment.condition.slice(0, n), last, since };
    if (index === 0) this.opening = segment.condition.slice(0, n).map((condition) => (condition === LOST ? 1 : 0));
    this.drop(index);
  }

  private drop(keep: number): void {
    for (;;) {
      const held = this.segments.reduce((sum, segment) => sum + (segment ? segmentBytes(segment) : 0), 0);
      if (held <= this.budget) return;
      let oldest = -1;
      this.segments.forEach((segment, i) => {
        if (segment && i !== keep && i !== this.index && (oldest < 0 || this.used[i] < this.used[oldest])) oldest = i;
      });
      if (oldest < 0) return;
      this.segments[oldest] = null;
    }
  }

  /** Goes to a moment. False when its segment is not unpacked yet. */
  seek(moment: number): boolean {
    const index = this.segmentAt(moment);
    const segment = this.segments[index];
    if (!segment) return false;
    this.used[index] = ++this.clock;
    const target = segment.upTo[moment - segment.from];
    if (segment !== this.segment || target < this.applied - target) this.restart(segment, index);
    const { rows } = this;
    const { pageblock, previous } = segment;
    const first = this.story.pageblocks;
    for (; this.applied < target; this.applied++) rows[pageblock[this.applied]] = first + this.applied;
    for (; this.applied > target; this.applied--) rows[pageblock[this.applied - 1]] = previous[this.applied - 1];
    this.moment = moment;
    return true;
  }

  private restart(segment: Segment, index: number): void {
    this.segment = segment;
    this.index = index;
    this.applied = 0;
    for (let i = 0; i < this.rows.length; i++) this.rows[i] = i;
  }

  /** How long states of a segment's base had lasted, as moments; null until all segments before were unpacked once. */
  private carriedInto(index: number): Int32Array | null {
    const there = this.carried[index];
    if (there) return there;
    const ends = this.ends[index - 1];
    const base = this.ends[index];
    const before = ends && base ? this.carriedInto(index - 1) : null;
    if (!before || !ends || !base) return null;
    const from = this.ref.segments[index].from;
    const table = new Int32Array(this.story.pageblocks);
    for (let i = 0; i < table.length; i++) {
      if (ends.last[i] !== base.first[i]) table[i] = from;
      else table[i] = ends.since[i] === FROM_BASE ? before[i] : ends.since[i];
    }
    this.carried[index] = table;
    return table;
  }

  /** Since which moment each pageblock is what it is: a function to call once for many pageblocks. */
  since(): (pageblock: number) => number {
    const { segment, rows } = this;
    if (!segment) return () => UNKNOWN;
    const table = this.carriedInto(this.index);
    return (pageblock) => {
      const since = segment.since[rows[pageblock]];
      if (since !== FROM_BASE) return since;
      return table ? table[pageblock] : UNKNOWN;
    };
  }

  /** Sums over all pageblocks, at the moment that this line stands at. */
  totals(): Totals {
    return this.segment ? totalsOf(this.segment, this.rows) : { free_frames: 0, huge_free: 0, lost: 0, movable: 0, unmovable: 0, reclaimable: 0, pinned: 0 };
  }

  /** The same at any moment, beside what is shown. */
  async totalsAt(moment: number): Promise<Totals> {
    const { segment, rows } = await this.at(moment);
    return totalsOf(segment, rows);
  }

  /** Which row stands for each pageblock at any moment, beside what is shown. */
  async at(moment: number): Promise<{ segment: Segment; rows: Uint32Array }> {
    const segment = await this.load(this.segmentAt(moment));
    const rows = new Uint32Array(this.story.pageblocks);
    for (let i = 0; i < rows.length; i++) rows[i] = i;
    const target = segment.upTo[moment - segment.from];
    for (let i = 0; i < target; i++) rows[segment.pageblock[i]] = rows.length + i;
    return { segment, rows };
  }
}

function totalsOf(segment: Segment, rows: Uint32Array): Totals {
  const totals: Totals = { free_frames: 0, huge_free: 0, lost: 0, movable: 0, unmovable: 0, reclaimable: 0, pinned: 0 };
  for (const row of rows) {
    totals.free_frames += segment.free[row];
    totals.movable += segment.movable[row];
    totals.unmovable += segment.unmovable[row];
    totals.reclaimable += segment.reclaimable[row];
    totals.pinned += segment.pinned[row];
    if (segment.condition[row] === WHOLE) totals.huge_free++;
    else if (segment.condition[row] === LOST) totals.lost++;
  }
  return totals;
}

/** A line's series and markers, all of them unpacked at the start. */
export interface Series {
  free_frames: Uint32Array;
  huge_free: Uint32Array;
  lost: Uint32Array;
  failures: Uint32Array;
  fallbacks: Uint32Array;
  steals: Uint32Array;
  compactions: Uint32Array;
}

export interface Markers {
  time_ns: Float64Array;
  kind: Uint8Array;
  order: Uint8Array;
  pageblock: Uint32Array;
  thread: Uint32Array;
  reason: Uint32Array;
}
