// A segment as the viewer keeps it: rows of states, and for each moment how many of them have happened.
//
// Rows 0..P are the base, one for each pageblock; the others are changes in order of time. The state at a moment is then
// one row number for each pageblock, so a step forward or back writes one number for each change and copies nothing.
import type { Column, Columns } from "./chunks";
import { conditionOf } from "./condition";
import { NONE } from "./story";

/** In `since`: the pageblock has been so since the segment's base or longer. */
export const FROM_BASE = 0xffffffff;

export interface Segment {
  from: number;
  to: number;
  /** Changes up to and with moment `from + i`. */
  upTo: Uint32Array;
  /** Of change `i`: its pageblock, and the row it replaced. */
  pageblock: Uint32Array;
  previous: Uint32Array;
  free: Uint16Array;
  largest: Uint8Array;
  type: Uint8Array;
  movable: Uint16Array;
  unmovable: Uint16Array;
  reclaimable: Uint16Array;
  pinned: Uint16Array;
  owner: Uint32Array;
  condition: Uint8Array;
  /** The moment since which the condition holds. */
  since: Uint32Array;
  /** The row of each pageblock after the last change. */
  last: Uint32Array;
}

function joined<T extends Column>(make: (length: number) => T, base: Column | undefined, changes: Column | undefined, name: string): T {
  if (!base || !changes) throw new Error(`a segment has no column \`${name}\``);
  const out = make(base.length + changes.length);
  out.set(base, 0);
  out.set(changes, base.length);
  return out;
}

/** Puts base and changes together. `frames` is a whole pageblock's size, `owners` how many the story names. */
export function buildSegment(base: Columns, changes: Columns, from: number, to: number, pageblocks: number, frames: number, owners: number): Segment {
  const u16 = (name: string): Uint16Array => joined((n) => new Uint16Array(n), base[name], changes[name], name);
  const u8 = (name: string): Uint8Array => joined((n) => new Uint8Array(n), base[name], changes[name], name);
  const moment = changes.moment;
  const pageblock = changes.pageblock;
  if (!(moment instanceof Uint32Array) || !(pageblock instanceof Uint32Array)) throw new Error("changes name no moment or pageblock");
  const segment = {
    free: u16("free"),
    largest: u8("largest"),
    type: u8("type"),
    movable: u16("movable"),
    unmovable: u16("unmovable"),
    reclaimable: u16("reclaimable"),
    pinned: u16("pinned"),
    owner: joined((n) => new Uint32Array(n), base.owner, changes.owner, "owner"),
  };
  const rows = segment.free.length;
  const condition = new Uint8Array(rows);
  for (let row = 0; row < rows; row++) {
    condition[row] = conditionOf(segment.free[row], segment.movable[row], segment.unmovable[row], segment.reclaimable[row], segment.pinned[row], frames);
    if (segment.owner[row] >= owners && segment.owner[row] !== NONE) throw new Error("a row names an owner that the story does not have");
  }
  const since = new Uint32Array(rows).fill(FROM_BASE, 0, pageblocks);
  const previous = new Uint32Array(moment.length);
  const upTo = new Uint32Array(to - from + 1);
  const last = new Uint32Array(pageblocks);
  for (let i = 0; i < pageblocks; i++) last[i] = i;
  let before = from;
  for (let i = 0; i < moment.length; i++) {
    const at = moment[i];
    const of = pageblock[i];
    if (at < before || at > to || of >= pageblocks) throw new Error("changes are out of order or name a pageblock that is not there");
    before = at;
    const row = pageblocks + i;
    const replaced = last[of];
    previous[i] = replaced;
    since[row] = condition[row] === condition[replaced] ? since[replaced] : at;
    last[of] = row;
    upTo[at - from]++;
  }
  for (let i = 1; i < upTo.length; i++) upTo[i] += upTo[i - 1];
  return { from, to, upTo, pageblock, previous, ...segment, condition, since, last };
}

/** What a segment takes in memory. */
export function segmentBytes(segment: Segment): number {
  let bytes = 0;
  for (const value of Object.values(segment)) if (ArrayBuffer.isView(value)) bytes += value.byteLength;
  return bytes;
}
