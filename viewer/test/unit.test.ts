// Parts that need no browser.
import assert from "node:assert/strict";
import { test } from "node:test";
import { layOut, cornerOf, pageblockAt } from "../src/layout";
import { parseQuery } from "../src/search";
import { compareSentence, headSentence, trustSentence } from "../src/sentence";
import type { App, Line } from "../src/app";
import { buildSegment, FROM_BASE } from "../src/segment";
import { chance } from "./make-story";
import { BEFORE, LineState } from "../src/state";
import { extent, readable } from "../src/range";
import { firstPfn, momentAt, pageblockOf, type Story } from "../src/story";
import { bytes, compact, listed, span, time } from "../src/text";
import { mixed, pixel, ramp } from "../src/colours";

function story(pageblocks: number[]): Story {
  let first = 0;
  const zones = pageblocks.map((count, i) => {
    const zone = { name: `zone${i}`, node: 0, first_pageblock: first, pageblocks: count };
    first += count;
    return zone;
  });
  return { zones, pageblocks: first, pageblock_frames: 512, resolution_ns: 4e6, moments: 100, ranges: [{ first_pageblock: 0, pageblocks: 8, first_pfn: 0 }, { first_pageblock: 8, pageblocks: first - 8, first_pfn: 1048576 }] } as unknown as Story;
}

test("a map has at most 65,000 cells, fits, and finds each pageblock where it drew it", () => {
  for (const [zones, width, height] of [[[8, 1016, 7168], 860, 300], [[8, 262_144], 860, 300], [[2, 1, 1], 300, 240], [[8, 1016, 65_536, 65_536], 280, 260], [[1_000_000], 1400, 600]] as [number[], number, number][]) {
    const machine = story(zones);
    const layout = layOut(machine, 0, machine.pageblocks, width, height, 66);
    assert.ok(layout.bands.reduce((sum, band) => sum + band.cells, 0) <= 65_000);
    const last = layout.bands.at(-1)!;
    assert.ok(last.top + last.rows * layout.high <= height, "within the height");
    for (let pageblock = 0; pageblock < machine.pageblocks; pageblock += Math.max(1, machine.pageblocks >> 8)) {
      const corner = cornerOf(layout, pageblock)!;
      const found = pageblockAt(layout, corner.x + 0.5, corner.y + 0.5);
      assert.ok(found <= pageblock && pageblock < found + layout.bin, `${pageblock} is in the cell of ${found}`);
    }
  }
});

test("a time belongs to the moment that ended before it", () => {
  const machine = story([8]);
  assert.deepEqual([-1, 0, 3999999, 4e6, 396e6, 1e12].map((at) => momentAt(machine, at)), [0, 0, 0, 1, 99, 99]);
});

test("frames and pageblocks find each other across gaps", () => {
  const machine = story([8, 100]);
  assert.equal(firstPfn(machine, 8), 1048576);
  assert.equal(pageblockOf(machine, 1048576 + 513), 9);
  assert.equal(pageblockOf(machine, 8 * 512), null);
  assert.equal(firstPfn(machine, 999), null);
});

function rows(values: number[][]): Record<string, Uint8Array | Uint16Array | Uint32Array> {
  const column = (i: number): number[] => values.map((row) => row[i]);
  return { free: Uint16Array.from(column(0)), unmovable: Uint16Array.from(column(1)), movable: Uint16Array.from(column(2)), largest: new Uint8Array(values.length), type: new Uint8Array(values.length), reclaimable: new Uint16Array(values.length), pinned: new Uint16Array(values.length), owner: new Uint32Array(values.length).fill(0xffffffff) };
}

test("a segment knows since when a pageblock is lost, through changes that leave it lost", () => {
  const base = rows([[512, 0, 0], [500, 12, 0]]);
  const changes = { ...rows([[511, 1, 0], [400, 1, 111], [499, 13, 0], [512, 0, 0]]), moment: Uint32Array.of(11, 14, 14, 15), pageblock: Uint32Array.of(0, 0, 1, 0) };
  const segment = buildSegment(base, changes, 10, 16, 2, 512, 0);
  assert.deepEqual([...segment.since], [FROM_BASE, FROM_BASE, 11, 11, FROM_BASE, 15]);
  assert.deepEqual([...segment.previous], [0, 2, 1, 3]);
  assert.deepEqual([...segment.upTo], [0, 1, 1, 1, 3, 4, 4]);
  assert.deepEqual([...segment.last], [5, 4]);
  const wrong = (change: object): void => assert.throws(() => buildSegment(base, { ...changes, ...change }, 10, 16, 2, 512, 0));
  wrong({ moment: Uint32Array.of(11, 14, 13, 15) });
  wrong({ moment: Uint32Array.of(11, 14, 14, 17) });
  wrong({ pageblock: Uint32Array.of(0, 0, 2, 0) });
  wrong({ owner: Uint32Array.of(0, 0, 0, 0) });
});

test("a line goes to any moment and knows since when, also where segments were dropped for memory", async () => {
  const machine = { ...story([2]), pageblocks: 2 } as Story;
  const changes = (moment: number, values: number[]): ReturnType<typeof rows> => ({ ...rows([values]), moment: Uint32Array.of(moment), pageblock: Uint32Array.of(0) });
  const whole = [512, 0, 0];
  const lost = [510, 2, 0];
  const parts = [
    { base: [whole, lost], change: changes(2, lost) },
    { base: [lost, lost], change: changes(6, [500, 12, 0]) },
    { base: [[500, 12, 0], lost], change: changes(9, whole) },
  ];
  const refs = parts.map((_, i) => ({ from: i * 4, to: i * 4 + 3 }));
  let unpacked = 0;
  const decoder = {
    segment: (ref: { from: number; to: number }): Promise<unknown> => {
      unpacked++;
      const { base, change } = parts[ref.from / 4];
      return Promise.resolve(buildSegment(rows(base), change, ref.from, ref.to, 2, 512, 0));
    },
  };
  const line = new LineState({ segments: refs } as never, machine, decoder as never, 1);
  while (line.ahead() >= 0) await line.load(line.ahead(), true);
  assert.equal(unpacked, 3);
  for (const [moment, since, freeFrames] of [[11, 9, 1022], [7, 2, 1010], [1, BEFORE, 1022], [2, 2, 1020], [8, 2, 1010], [0, BEFORE, 1022], [5, 2, 1020]]) {
    if (!line.seek(moment)) {
      await line.load(line.segmentAt(moment));
      assert.ok(line.seek(moment));
    }
    assert.equal(line.since()(0), since, `since at ${moment}`);
    assert.equal(line.since()(1), BEFORE);
    assert.equal(line.totals().free_frames, freeFrames, `free at ${moment}`);
    assert.deepEqual(line.totals(), await line.totalsAt(moment));
  }
  assert.ok(unpacked > 3, "with no memory to keep them, segments are unpacked again");
});

test("steps back and on give the state that playing from the base gives", async () => {
  const random = chance(5);
  const state = (): number[] => [Math.floor(random() * 400), Math.floor(random() * 3), Math.floor(random() * 100)];
  const machine = { ...story([30]), pageblocks: 30 } as Story;
  const count = 600;
  const changes = { ...rows(Array.from({ length: count }, state)), moment: Uint32Array.from({ length: count }, (_, i) => 1 + Math.floor(i / 10)), pageblock: Uint32Array.from({ length: count }, () => Math.floor(random() * 30)) };
  const segment = buildSegment(rows(Array.from({ length: 30 }, state)), changes, 0, 63, 30, 512, 0);
  const line = new LineState({ segments: [{ from: 0, to: 63 }] } as never, machine, { segment: () => Promise.resolve(segment) } as never, 1 << 30);
  await line.load(0);
  let at = 40;
  for (let i = 0; i < 300; i++) {
    at = Math.min(63, Math.max(0, at + Math.floor(random() * 9) - 4));
    line.seek(at);
    assert.deepEqual(line.totals(), await line.totalsAt(at), `at moment ${at}`);
  }
});

test("queries", () => {
  assert.deepEqual(parseQuery(" 0x1F "), { field: "pfn", text: "0x1f", value: 31 });
  assert.deepEqual(parseQuery("Thread: CC1"), { field: "thread", text: "cc1", value: null });
  assert.deepEqual(parseQuery("pageblock:12"), { field: "pageblock", text: "12", value: 12 });
  assert.deepEqual(parseQuery("slab, softirq"), { field: "any", text: "slab, softirq", value: null });
  assert.equal(parseQuery("gfp:  "), null);
});

test("numbers and times as text", () => {
  assert.equal(span(500e6), "500 ms");
  assert.equal(span(8.1e9), "8.1 s");
  assert.equal(time(2_345_000_000), "2.345 s");
  assert.equal(time(3723e9), "1 h 2 min 3 s");
  assert.equal(bytes(2 << 20), "2 MiB");
  assert.equal(bytes(100 * 2 ** 30), "100 GiB");
  assert.equal(compact(1_632_358), "1.63M");
  assert.equal(listed(["a", "b", "c"]), "a, b and c");
});

test("colours", () => {
  assert.equal(pixel("#010203"), 0xff030201);
  assert.equal(mixed("#000000", "#ffffff", 0.5), "#808080");
  assert.deepEqual(ramp(["#000000", "#ffffff"], 3), ["#000000", "#808080", "#ffffff"]);
});

test("the page says first how far it can be trusted, and concludes nothing where that is not far", async () => {
  const app = (trust: unknown): App => ({ story: { trust }, lines: [{}, {}] }) as unknown as App;
  assert.deepEqual(trustSentence(app(null)), []);
  const high = { level: "high", recording: "high", reasons: [], lost: 0 };
  assert.equal(trustSentence(app(high)).join(""), "Trust: high: no event was lost.");
  const low = { level: "low", recording: "low", reasons: ["7 events were lost"], lost: 7 };
  assert.equal(trustSentence(app(low)).join(""), "Trust: low: 7 events were lost.");
  const recorded = { ref: { kind: "recorded" } } as unknown as Line;
  assert.match((await headSentence(app(low), recorded)).join(""), /nothing is concluded/);
  assert.equal(compareSentence(app(low), recorded), "");
});

test("a chart is cut where the recorded line would become flat", () => {
  assert.deepEqual(extent([3, 1, 2]), [1, 3]);
  assert.deepEqual(extent([]), [0, 1]);
  // 102 failures beside 19,013, and beside 150.
  assert.deepEqual(readable([0, 102], 0, 19_013), [0, 918]);
  assert.deepEqual(readable([0, 102], 0, 150), [0, 150]);
  assert.deepEqual(readable([5, 5], 0, 19_013), [0, 13]);
  assert.deepEqual(readable(null, 0, 19_013), [0, 19_013]);
});
