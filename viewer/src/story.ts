// The story of a run as the page carries it: types of its JSON, and the checks that let the rest of the viewer trust it.
import { shown } from "./names";

/** A trouble that the reader is told of in one sentence. */
export class StoryError extends Error {}

export type ColumnType = "u8" | "u16" | "u32" | "i32" | "f64";

/** Columns one after the other, packed by gzip and written as base64 in an element of their own. */
export interface Chunk {
  id: number;
  rows: number;
  columns: [string, ColumnType][];
  /** Size when unpacked. */
  bytes: number;
}

export interface Zone {
  name: string;
  node: number;
  first_pageblock: number;
  pageblocks: number;
}

/** A stretch of pageblocks whose frames follow one another. */
export interface Range {
  first_pageblock: number;
  pageblocks: number;
  first_pfn: number;
}

/** Whose frame keeps a pageblock from being whole. */
export interface Owner {
  label: string;
  gfp: string;
  thread: string;
  context: string;
  class: string;
}

export interface SegmentRef {
  from: number;
  to: number;
  base: Chunk;
  changes: Chunk;
}

export interface LineRef {
  id: string;
  label: string;
  kind: string;
  /** How long the line's recording is, where that is not the story's length. */
  duration_ns: number | null;
  segments: SegmentRef[];
  frames: { moment: number; chunk: Chunk }[];
  series: { chunk: Chunk };
  markers: { chunk: Chunk };
  /** Pageblocks lost at the end, and who holds each; `holders` of the first pageblock come first. */
  lost: { chunk: Chunk; holders: Chunk } | null;
}

export type TrustLevel = "high" | "limited" | "low";

/** How far the page can be trusted, and why. */
export interface Trust {
  level: TrustLevel;
  /** Of the recording alone, whatever its replays came to. */
  recording: TrustLevel;
  reasons: string[];
  /** Events that the recorder missed. */
  lost: number;
}

/** What made the page. */
export interface Made {
  command: string;
  version: string;
}

export interface Story {
  /** Null in a page of before there were verdicts. */
  trust: Trust | null;
  made: Made | null;
  name: string;
  title: string;
  kernel: string;
  cpus: number;
  duration_ns: number;
  events: number;
  frame_bytes: number;
  pageblock_frames: number;
  resolution_ns: number;
  moments: number;
  zones: Zone[];
  ranges: Range[];
  owners: Owner[];
  threads: string[];
  lines: LineRef[];
  marker_kinds: string[];
  reasons: string[];
  left_out: string[];
  /** Pageblocks of all zones. */
  pageblocks: number;
}

/** Stands for "none" in columns of indices. */
export const NONE = 0xffffffff;
const FORMAT = /^pageyard-story\/(\d+)$/;
const MOST_PAGEBLOCKS = 1 << 24;
const MOST_MOMENTS = 1 << 20;
const BYTES: Record<ColumnType, number> = { u8: 1, u16: 2, u32: 4, i32: 4, f64: 8 };

type Json = Record<string, unknown>;

function damaged(what: string): StoryError {
  return new StoryError(`The story in this page is damaged: ${what}. Write the page again with \`pageyard map\`.`);
}

function object(value: unknown, what: string): Json {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw damaged(`${what} is not an object`);
  return value as Json;
}

function list(from: Json, key: string): unknown[] {
  const value = from[key];
  if (!Array.isArray(value)) throw damaged(`\`${key}\` is not a list`);
  return value;
}

function count(from: Json, key: string, most = Number.MAX_SAFE_INTEGER): number {
  const value = from[key];
  if (!Number.isInteger(value) || (value as number) < 0 || (value as number) > most) {
    throw damaged(`\`${key}\` is not a whole number from 0 to ${most}`);
  }
  return value as number;
}

function text(from: Json, key: string): string {
  const value = from[key];
  if (typeof value !== "string") throw damaged(`\`${key}\` is not a text`);
  return value;
}

/** A text that the page shows. */
function name(from: Json, key: string): string {
  return shown(text(from, key));
}

function names(from: Json, key: string): string[] {
  return list(from, key).map((value) => {
    if (typeof value !== "string") throw damaged(`\`${key}\` holds what is not a text`);
    return shown(value);
  });
}

function chunk(value: unknown): Chunk {
  const from = object(value, "a chunk");
  const rows = count(from, "rows", 0xffffffff);
  let width = 0;
  const columns = list(from, "columns").map((pair): [string, ColumnType] => {
    const [name, type] = Array.isArray(pair) ? pair : [];
    if (typeof name !== "string" || !(type in BYTES)) throw damaged("a chunk has a column of no known type");
    width += BYTES[type as ColumnType];
    return [name, type as ColumnType];
  });
  const bytes = count(from, "bytes");
  if (bytes !== rows * width) throw damaged(`chunk ${from.id} says ${bytes} bytes where its columns need ${rows * width}`);
  return { id: count(from, "id"), rows, columns, bytes };
}

function level(from: Json, key: string): TrustLevel {
  const value = from[key];
  if (value !== "high" && value !== "limited" && value !== "low") throw damaged(`\`${key}\` is not a level of trust`);
  return value;
}

function trust(value: unknown): Trust {
  const from = object(value, "its trust");
  return { level: level(from, "level"), recording: level(from, "recording"), reasons: names(from, "reasons"), lost: count(from, "lost") };
}

function made(value: unknown): Made {
  const from = object(value, "what made it");
  return { command: name(from, "command"), version: name(from, "version") };
}

function line(value: unknown, moments: number, pageblocks: number): LineRef {
  const from = object(value, "a line");
  let next = 0;
  const segments = list(from, "segments").map((entry) => {
    const part = object(entry, "a segment");
    const segment = { from: count(part, "from"), to: count(part, "to"), base: chunk(part.base), changes: chunk(part.changes) };
    if (segment.from !== next || segment.to < segment.from) throw damaged("its segments do not follow one another");
    if (segment.base.rows !== pageblocks) throw damaged("a segment does not begin with every pageblock");
    next = segment.to + 1;
    return segment;
  });
  if (next !== moments) throw damaged("its segments do not cover all moments");
  const series = chunk(object(from.series, "`series`").chunk);
  if (series.rows !== moments) throw damaged("a series does not have a row for each moment");
  const lost = from.lost;
  return {
    id: text(from, "id"),
    label: name(from, "label"),
    kind: text(from, "kind"),
    duration_ns: from.duration_ns === undefined ? null : count(from, "duration_ns"),
    segments,
    frames: list(from, "frames").map((entry) => {
      const part = object(entry, "a keyframe");
      return { moment: count(part, "moment", moments - 1), chunk: chunk(part.chunk) };
    }),
    series: { chunk: series },
    markers: { chunk: chunk(object(from.markers, "`markers`").chunk) },
    lost: typeof lost === "object" && lost !== null && "chunk" in lost && "holders" in lost ? { chunk: chunk(lost.chunk), holders: chunk(lost.holders) } : null,
  };
}

/** Reads the story's JSON, or says in one sentence why it cannot. */
export function parseStory(source: string): Story {
  let from: Json;
  try {
    from = object(JSON.parse(source), "it");
  } catch (error) {
    if (error instanceof StoryError) throw error;
    throw damaged("its JSON cannot be read");
  }
  const version = FORMAT.exec(typeof from.format === "string" ? from.format : "")?.[1];
  if (version === undefined) throw damaged("it does not name its format");
  if (version !== "1") {
    throw new StoryError(`This story has version ${version} and this page reads version 1: open it with the page of the pageyard that wrote it.`);
  }
  const moments = count(from, "moments", MOST_MOMENTS);
  const zones = list(from, "zones").map((entry) => {
    const zone = object(entry, "a zone");
    return {
      name: name(zone, "name"),
      node: count(zone, "node"),
      first_pageblock: count(zone, "first_pageblock"),
      pageblocks: count(zone, "pageblocks", MOST_PAGEBLOCKS),
    };
  });
  let pageblocks = 0;
  for (const zone of zones) {
    if (zone.first_pageblock !== pageblocks) throw damaged("its zones do not follow one another");
    pageblocks += zone.pageblocks;
  }
  if (pageblocks === 0 || pageblocks > MOST_PAGEBLOCKS || moments === 0) throw damaged("it has no pageblocks or no moments");
  const lines = list(from, "lines").map((entry) => line(entry, moments, pageblocks));
  if (lines.length === 0) throw damaged("it has no lines");
  const resolution = count(from, "resolution_ns");
  const frames = count(from, "pageblock_frames", 65535);
  if (resolution === 0 || frames === 0) throw damaged("its resolution is 0");
  return {
    trust: from.trust === undefined ? null : trust(from.trust),
    made: from.made === undefined ? null : made(from.made),
    name: name(from, "name"),
    title: typeof from.title === "string" ? shown(from.title) : "",
    kernel: name(from, "kernel"),
    cpus: count(from, "cpus"),
    duration_ns: count(from, "duration_ns"),
    events: count(from, "events"),
    frame_bytes: count(from, "frame_bytes"),
    pageblock_frames: frames,
    resolution_ns: resolution,
    moments,
    zones,
    ranges: list(from, "ranges").map((entry) => {
      const range = object(entry, "a range");
      return { first_pageblock: count(range, "first_pageblock"), pageblocks: count(range, "pageblocks"), first_pfn: count(range, "first_pfn") };
    }),
    owners: list(from, "owners").map((entry) => {
      const owner = object(entry, "an owner");
      const or = (key: string): string => (typeof owner[key] === "string" ? name(owner, key) : "");
      return { label: or("label"), gfp: or("gfp"), thread: or("thread"), context: or("context"), class: or("class") };
    }),
    threads: names(from, "threads"),
    lines,
    marker_kinds: names(from, "marker_kinds"),
    reasons: names(from, "reasons"),
    left_out: Array.isArray(from.left_out) ? names(from, "left_out") : [],
    pageblocks,
  };
}

/** The moment whose state holds at a time. */
export function momentAt(story: Story, time: number): number {
  return Math.min(story.moments - 1, Math.max(0, Math.floor(time / story.resolution_ns)));
}

/** The first frame number of a pageblock, where the story says it. */
export function firstPfn(story: Story, pageblock: number): number | null {
  for (const range of story.ranges) {
    const within = pageblock - range.first_pageblock;
    if (within >= 0 && within < range.pageblocks) return range.first_pfn + within * story.pageblock_frames;
  }
  return null;
}

/** The pageblock of a frame, where the story has it. */
export function pageblockOf(story: Story, pfn: number): number | null {
  for (const range of story.ranges) {
    const within = Math.floor((pfn - range.first_pfn) / story.pageblock_frames);
    if (within >= 0 && within < range.pageblocks) return range.first_pageblock + within;
  }
  return null;
}

export function zoneOf(story: Story, pageblock: number): number {
  return story.zones.findIndex((zone) => pageblock >= zone.first_pageblock && pageblock < zone.first_pageblock + zone.pageblocks);
}
