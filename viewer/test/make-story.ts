// Makes stories as docs/design describes them, without a line of the viewer's or the command's code: a small machine is
// played by chance, its counters are kept by hand, and the tests compare the page with them.
import { gzipSync } from "node:zlib";

export interface Options {
  seed: number;
  name: string;
  pageblocks: number;
  moments: number;
  /** Pageblocks touched between two moments. */
  touched: number;
  segments: number;
  lines: number;
  keyframes: number;
  frames: number;
  resolution_ns: number;
  events: number;
  /** Put in front of all names. */
  hostile: string;
  failures: boolean;
}

export const SMALL: Options = {
  seed: 1,
  name: "small.trace",
  pageblocks: 1500,
  moments: 256,
  touched: 40,
  segments: 4,
  lines: 3,
  keyframes: 4,
  frames: 512,
  resolution_ns: 4_000_000,
  events: 61_000,
  hostile: "",
  failures: true,
};

/** What the page must say at each moment of each line. */
export interface Expected {
  resolution_ns: number;
  moments: number;
  lines: Record<string, { free_frames: number[]; huge_free: number[]; lost: number[]; movable: number[]; unmovable: number[]; reclaimable: number[]; pinned: number[] }>;
}

export interface Made {
  /** What takes the place of the marker's line. */
  text: string;
  expected: Expected;
  changes: number;
  json: Record<string, unknown>;
}

type Kind = "u8" | "u16" | "u32" | "f64";
const SIZE: Record<Kind, number> = { u8: 1, u16: 2, u32: 4, f64: 8 };
const COLUMNS: [string, Kind][] = [["free", "u16"], ["largest", "u8"], ["type", "u8"], ["movable", "u16"], ["unmovable", "u16"], ["reclaimable", "u16"], ["pinned", "u16"], ["owner", "u32"]];

/** Numbers that look random and are the same for the same seed (mulberry32). */
export function chance(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let x = Math.imul(state ^ (state >>> 15), state | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 4294967296;
  };
}

class Writer {
  readonly scripts: string[] = [];

  chunk(columns: [string, Kind][], values: ArrayLike<number>[]): Record<string, unknown> {
    const rows = values[0].length;
    const bytes = rows * columns.reduce((sum, [, kind]) => sum + SIZE[kind], 0);
    const out = Buffer.alloc(bytes);
    let at = 0;
    columns.forEach(([, kind], column) => {
      for (let row = 0; row < rows; row++, at += SIZE[kind]) {
        const value = values[column][row];
        if (kind === "u8") out.writeUInt8(value, at);
        else if (kind === "u16") out.writeUInt16LE(value, at);
        else if (kind === "u32") out.writeUInt32LE(value, at);
        else out.writeDoubleLE(value, at);
      }
    });
    const id = this.scripts.length;
    this.scripts.push(`<script type="text/plain" id="pageyard-chunk-${id}">${gzipSync(out, { level: 6 }).toString("base64")}</script>`);
    return { id, rows, columns, bytes };
  }
}

interface Block {
  movable: number;
  unmovable: number;
  reclaimable: number;
  pinned: number;
  absent: number;
  type: number;
  owner: number;
}

const NONE = 0xffffffff;
const EVENTS = ["failures", "fallbacks", "steals", "compactions"] as const;

function row(block: Block, frames: number): number[] {
  const { movable, unmovable, reclaimable, pinned, absent, type, owner } = block;
  const free = frames - movable - unmovable - reclaimable - pinned - absent;
  return [free, free === 0 ? 255 : Math.min(9, Math.floor(Math.log2(free))), type, movable, unmovable, reclaimable, pinned, owner];
}

function owners(hostile: string): Record<string, string>[] {
  const list: [string, string, string, string, string][] = [
    ["slab", "GFP_KERNEL", "cc1", "task", "unmovable"],
    ["slab, softirq", "GFP_ATOMIC", "ksoftirqd/0", "softirq", "unmovable"],
    ["page table", "GFP_KERNEL_ACCOUNT", "make", "task", "unmovable"],
    ["dentry cache", "GFP_KERNEL | __GFP_RECLAIMABLE", "find", "task", "reclaimable"],
    ["network buffer", "GFP_ATOMIC | __GFP_COMP", "swapper", "hardirq", "unmovable"],
    ["pinned anonymous", "GFP_HIGHUSER_MOVABLE", "qemu", "task", "pinned"],
    ["before the recording", "", "", "", "pinned"],
    ["kernel stack", "GFP_KERNEL", "sh", "task", "unmovable"],
    ["pipe buffer", "GFP_KERNEL", "tar", "task", "unmovable"],
  ];
  return list.map(([label, gfp, thread, context, kind]) => ({ label: hostile + label, gfp, thread: hostile + thread, context, class: kind }));
}

function playLine(options: Options, index: number, writer: Writer): { line: Record<string, unknown>; expected: Expected["lines"][string]; changes: number } {
  const { pageblocks, moments, frames, touched } = options;
  const start = chance(options.seed);
  const random = chance(options.seed * 31 + index);
  const spread = [0.03, 0.008, 0.016][index % 3];
  const blocks: Block[] = [];
  for (let i = 0; i < pageblocks; i++) {
    const block: Block = { movable: 0, unmovable: 0, reclaimable: 0, pinned: 0, absent: 0, type: 1, owner: NONE };
    const x = start();
    if (i < 6) Object.assign(block, { pinned: 100 + i, type: 0, owner: 6 });
    else if (i > pageblocks * 0.3 && i < pageblocks * 0.31) block.absent = frames;
    else if (i > pageblocks * 0.9 && x < 0.6) Object.assign(block, { unmovable: 40 + Math.floor(start() * 300), reclaimable: Math.floor(start() * 60), type: 0, owner: 6 });
    else if (i < pageblocks * 0.42) block.movable = x < 0.5 ? frames : Math.floor(start() * frames);
    blocks.push(block);
  }
  const sums = { free_frames: 0, huge_free: 0, lost: 0, movable: 0, unmovable: 0, reclaimable: 0, pinned: 0 };
  const count = (block: Block, sign: number): void => {
    const held = block.movable + block.unmovable + block.reclaimable + block.pinned + block.absent;
    sums.free_frames += sign * (frames - held);
    if (held === 0) sums.huge_free += sign;
    if (block.unmovable + block.reclaimable + block.pinned > 0) sums.lost += sign;
    for (const key of ["movable", "unmovable", "reclaimable", "pinned"] as const) sums[key] += sign * block[key];
  };
  blocks.forEach((block) => count(block, 1));
  const expected: Expected["lines"][string] = { free_frames: [], huge_free: [], lost: [], movable: [], unmovable: [], reclaimable: [], pinned: [] };
  const series: number[][] = Array.from({ length: 18 }, () => []);
  const events = { failures: 0, fallbacks: 0, steals: 0, compactions: 0 };
  const markers: number[][] = [[], [], [], [], [], []];
  const lost: number[][] = [[], [], [], [], [], []];
  const holders: number[][] = [[], [], [], [], [], []];
  const segments: Record<string, unknown>[] = [];
  const keyframes: Record<string, unknown>[] = [];
  const perSegment = Math.ceil(moments / options.segments);
  let changes: number[][] = [];
  let base: number[][] = [];
  let total = 0;
  let hot = pageblocks * 0.4;
  for (let moment = 0; moment < moments; moment++) {
    const first = moment % perSegment === 0;
    if (first) changes = Array.from({ length: COLUMNS.length + 2 }, () => []);
    if (moment > 0) {
      hot = Math.min(pageblocks * 0.95, Math.max(0, hot + (random() - 0.42) * touched * 0.4));
      const ids = new Set<number>();
      for (let i = 0; i < touched; i++) {
        const near = random() < 0.85 ? hot + (random() - 0.5) * touched * 3 : random() * pageblocks;
        ids.add(Math.min(pageblocks - 1, Math.max(6, Math.floor(near))));
      }
      for (const id of [...ids].sort((a, b) => a - b)) {
        const block = blocks[id];
        if (block.absent > 0) continue;
        count(block, -1);
        change(block, random, frames, spread);
        count(block, 1);
        if (block.unmovable + block.reclaimable + block.pinned === 0) block.owner = NONE;
        if (!first) {
          total++;
          [moment, id, ...row(block, frames)].forEach((value, column) => changes[column].push(value));
        }
        const roll = random();
        const kind: number = roll < 0.0008 && options.failures && moment > moments * 0.25 ? 0 : roll < 0.01 ? 1 : roll < 0.016 ? 2 : roll < 0.018 ? 3 : -1;
        if (kind >= 0) {
          events[EVENTS[kind]]++;
          const time = (moment - 1 + 0.5) * options.resolution_ns;
          [time, kind, kind === 0 ? 9 : Math.floor(random() * 4), kind === 0 ? NONE : id, Math.floor(random() * 6), Math.floor(random() * 3)].forEach((value, column) => markers[column].push(value));
        }
      }
    }
    if (first) base = blocks.map((block) => row(block, frames));
    for (const key of Object.keys(sums) as (keyof typeof sums)[]) expected[key].push(sums[key]);
    [sums.free_frames, ...Array.from({ length: 11 }, (_, order) => (order === 9 ? sums.huge_free : moment % (order + 2))), sums.huge_free, sums.lost, events.failures, events.fallbacks, events.steals, events.compactions].forEach((value, column) => series[column].push(value));
    if (moment % Math.ceil(moments / Math.max(1, options.keyframes)) === 0 && keyframes.length < options.keyframes) keyframes.push({ moment, chunk: writer.chunk([["class", "u8"]], [classes(blocks, frames)]) });
    if ((moment + 1) % perSegment === 0 || moment === moments - 1) {
      segments.push({
        from: moment - (moment % perSegment),
        to: moment,
        base: writer.chunk(COLUMNS, COLUMNS.map((_, column) => base.map((values) => values[column]))),
        changes: writer.chunk([["moment", "u32"], ["pageblock", "u32"], ...COLUMNS], changes),
      });
    }
  }
  blocks.forEach((block, id) => {
    const held = block.unmovable + block.reclaimable + block.pinned;
    if (held === 0) return;
    [id, -1, 2, block.owner, held, 1].forEach((value, column) => lost[column].push(value));
    [block.owner, 0, held, held, -1, 7].forEach((value, column) => holders[column].push(value));
  });
  const id = index === 0 ? "recorded" : `engine-${index}`;
  const names = ["free_frames", ...Array.from({ length: 11 }, (_, order) => `free_blocks_${order}`), "huge_free", "lost", "failures", "fallbacks", "steals", "compactions"];
  const line = {
    id,
    label: options.hostile + (["recorded", "pageyard", "linux-6.18", "llfree"][index] ?? id),
    kind: index === 0 ? "recorded" : "replayed",
    segments,
    frames: keyframes,
    series: { chunk: writer.chunk(names.map((name): [string, Kind] => [name, "u32"]), series) },
    markers: { chunk: writer.chunk([["time_ns", "f64"], ["kind", "u8"], ["order", "u8"], ["pageblock", "u32"], ["thread", "u32"], ["reason", "u32"]], markers) },
    lost: { chunk: writer.chunk([["pageblock", "u32"], ["since_ns", "f64"], ["reason", "u32"], ["owner", "u32"], ["frames", "u16"], ["holders", "u16"]], lost), holders: writer.chunk([["owner", "u32"], ["order", "u8"], ["blocks", "u16"], ["frames", "u16"], ["since_ns", "f64"], ["first", "u16"]], holders) },
  };
  return { line, expected, changes: total };
}

function change(block: Block, random: () => number, frames: number, spread: number): void {
  const held = (): number => block.movable + block.unmovable + block.reclaimable + block.pinned;
  const x = random();
  if (x < spread && held() < frames - 8) {
    const owner = Math.floor(random() ** 2 * 9);
    block.owner = owner;
    if (owner === 3) block.reclaimable += 1 + Math.floor(random() * 4);
    else if (owner === 5) block.pinned += 1;
    else block.unmovable += 1 + Math.floor(random() * 6);
    if (random() < 0.2) block.type = owner === 3 ? 2 : 0;
  } else if (x < 0.06) {
    block.movable = Math.max(0, Math.floor(block.movable * random() * 0.5));
    if (random() < 0.15) block.unmovable = block.reclaimable = 0;
  } else block.movable = Math.min(frames - (held() - block.movable), block.movable + Math.floor(random() * frames * 0.35));
}

/** Frames of each pageblock in runs: what cannot move scattered, the movable in front, the free behind. */
function classes(blocks: Block[], frames: number): Uint8Array {
  const out = new Uint8Array(blocks.length * frames);
  blocks.forEach((block, i) => {
    const all: number[] = [];
    const put = (count: number, kind: number): void => {
      for (let n = 0; n < count; n++) all.push(kind | (n % 8 === 0 ? 0x80 : 0));
    };
    put(block.unmovable, 2);
    put(block.movable, 1);
    put(block.reclaimable, 3);
    put(block.pinned, 4);
    put(block.absent, 5);
    put(frames - all.length, 0);
    out.set(all, i * frames);
  });
  return out;
}

function escaped(json: unknown): string {
  return JSON.stringify(json).replace(/[<>&\u2028\u2029]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** The text for a story's JSON and chunks. */
export function textOf(json: unknown, chunks: string[]): string {
  return [`<script type="application/json" id="pageyard-story">${escaped(json)}</script>`, ...chunks].join("\n");
}

export function makeStory(wanted: Partial<Options>): Made & { chunks: string[] } {
  const options = { ...SMALL, ...wanted };
  const { pageblocks, hostile } = options;
  const writer = new Writer();
  const low = Math.min(8, pageblocks >> 2);
  const middle = Math.min(1024, pageblocks >> 2);
  const zones = [
    { name: `${hostile}DMA`, node: 0, first_pageblock: 0, pageblocks: low },
    { name: `${hostile}DMA32`, node: 0, first_pageblock: low, pageblocks: middle },
    { name: `${hostile}Normal`, node: 0, first_pageblock: low + middle, pageblocks: pageblocks - low - middle },
  ];
  const expected: Expected = { resolution_ns: options.resolution_ns, moments: options.moments, lines: {} };
  const lines: Record<string, unknown>[] = [];
  let changes = 0;
  for (let index = 0; index < options.lines; index++) {
    const played = playLine(options, index, writer);
    lines.push(played.line);
    expected.lines[played.line.id as string] = played.expected;
    changes += played.changes;
  }
  const json = {
    format: "pageyard-story/1",
    name: hostile + options.name,
    title: `${hostile}${options.name}`,
    kernel: `${hostile}6.18.5`,
    cpus: 2,
    duration_ns: (options.moments - 1) * options.resolution_ns,
    events: options.events,
    frame_bytes: 4096,
    pageblock_frames: options.frames,
    resolution_ns: options.resolution_ns,
    moments: options.moments,
    zones,
    ranges: [
      { first_pageblock: 0, pageblocks: low + middle, first_pfn: 0 },
      { first_pageblock: low + middle, pageblocks: pageblocks - low - middle, first_pfn: 1048576 },
    ],
    owners: owners(hostile),
    threads: ["cc1", "ksoftirqd/0", "make", "find", "swapper", "qemu"].map((name) => hostile + name),
    lines,
    marker_kinds: ["failure", "fallback", "steal", "compaction"],
    reasons: ["fragmented", "below the watermark", "before the recording"].map((name) => hostile + name),
    left_out: [`frame detail: ${options.keyframes} keyframes of 64`].map((name) => hostile + name),
  };
  return { text: textOf(json, writer.scripts), expected, changes, json, chunks: writer.scripts };
}
