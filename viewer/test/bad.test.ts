// Stories and browsers that the page cannot do with: one sentence, and nothing on the console.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { gzipSync } from "node:zlib";
import type { Browser } from "playwright-core";
import { launch, openPage, VIEWER, withStory, write } from "./browser";
import { makeStory, textOf } from "./make-story";

let browser: Browser;
const made = makeStory({ pageblocks: 300, moments: 32, touched: 60, segments: 2, lines: 1, keyframes: 1 });

type Chunk = { id: number; rows: number; bytes: number; columns: [string, string][] };
type Line = { segments: { from: number; to: number; base: Chunk; changes: Chunk }[]; series: { chunk: Chunk }; markers: { chunk: Chunk } };
type Json = { format: unknown; moments: number; lines: Line[]; owners: unknown[]; zones: { pageblocks: number }[] };

/** The made story with something changed. */
function changed(change: (json: Json, chunks: string[]) => void): string {
  const json = structuredClone(made.json) as unknown as Json;
  const chunks = [...made.chunks];
  change(json, chunks);
  return withStory(textOf(json, chunks));
}

function packed(id: number, bytes: Uint8Array): string {
  return `<script type="text/plain" id="pageyard-chunk-${id}">${gzipSync(bytes).toString("base64")}</script>`;
}

before(async () => {
  browser = await launch();
});
after(() => browser.close());

async function says(html: string, sentence: RegExp, script?: string): Promise<void> {
  const { page, errors, close } = await openPage(browser, write(html), {}, script);
  await page.locator("#trouble").waitFor({ state: "visible", timeout: 10_000 });
  const text = (await page.locator("#trouble").textContent())!;
  assert.match(text, sentence);
  assert.equal(text.split(/[.!?](?:\s|$)/).filter(Boolean).length <= 2, true, `few words: ${text}`);
  assert.ok(!text.includes("undefined"), text);
  assert.ok(await page.locator("#opening").isHidden());
  assert.deepEqual(errors, []);
  await close();
}

test("the asset by itself says how to make a map", () => says(readFileSync(join(VIEWER, "dist/map.html"), "utf8"), /holds no story yet: `pageyard map/));

test("a browser without DecompressionStream is told what the page needs", () => says(changed(() => {}), /needs a browser with DecompressionStream .* Firefox 113/, "delete globalThis.DecompressionStream"));

test("a newer story", () => says(changed((json) => (json.format = "pageyard-story/2")), /version 2 and this page reads version 1/));

test("a story of no known format", () => says(changed((json) => (json.format = 7)), /damaged: it does not name its format/));

test("JSON that is cut off", () => says(withStory(made.text.replace(/"moments":/, '"moments"')), /damaged: its JSON cannot be read/));

test("a key that is missing", () => says(changed((json) => delete (json as Partial<Json>).moments), /damaged: `moments` is not a whole number/));

test("a number that is out of all bounds", () => says(changed((json) => (json.zones[2].pageblocks = 1e12)), /damaged: `pageblocks` is not a whole number from 0 to/));

test("a number that is not whole", () => says(changed((json) => (json.zones[2].pageblocks = 0.5)), /damaged: `pageblocks` is not a whole number from 0 to/));

test("no lines", () => says(changed((json) => (json.lines = [])), /damaged: it has no lines/));

test("segments with a gap", () => says(changed((json) => (json.lines[0].segments[1].from = 20)), /damaged: its segments do not follow/));

test("a chunk that says another size than its columns", () => says(changed((json) => (json.lines[0].series.chunk.bytes += 1)), /damaged: chunk \d+ says/));

test("a chunk that is missing", () => says(changed((json, chunks) => (chunks[json.lines[0].series.chunk.id] = "")), /damaged: chunk \d+ is missing/));

test("a chunk that is not gzip", () => says(changed((json, chunks) => {
  const { id } = json.lines[0].series.chunk;
  chunks[id] = `<script type="text/plain" id="pageyard-chunk-${id}">aGVsbG8gd29ybGQ=</script>`;
}), /damaged: chunk \d+ cannot be unpacked/));

test("a chunk that is not base64", () => says(changed((json, chunks) => {
  const { id } = json.lines[0].series.chunk;
  chunks[id] = `<script type="text/plain" id="pageyard-chunk-${id}">***</script>`;
}), /damaged: chunk \d+ cannot be unpacked/));

test("a chunk that is cut off", () => says(changed((json, chunks) => {
  const { id } = json.lines[0].segments[0].changes;
  chunks[id] = chunks[id].replace(/>([^<]{40})[^<]*</, ">$1<");
}), /damaged: chunk \d+ cannot be unpacked/));

test("a chunk that would unpack to gigabytes stops at the size it says", () => says(changed((json, chunks) => {
  const { id } = json.lines[0].series.chunk;
  chunks[id] = packed(id, new Uint8Array(256 << 20));
}), /damaged: chunk \d+ cannot be unpacked \(it holds more than/));

test("a chunk that is shorter than it says", () => says(changed((json, chunks) => {
  const { id } = json.lines[0].series.chunk;
  chunks[id] = packed(id, new Uint8Array(5));
}), /damaged: chunk \d+ cannot be unpacked \(it holds 5 bytes/));

test("a change of a pageblock that is not there", () => says(changed((json, chunks) => {
  const { id, bytes, rows } = json.lines[0].segments[0].changes;
  chunks[id] = packed(id, new Uint8Array(bytes).fill(255, rows * 4));
}), /damaged: changes are out of order or name a pageblock that is not there/));

test("markers out of order", () => says(changed((json, chunks) => {
  const { id, bytes, rows } = json.lines[0].markers.chunk;
  assert.ok(rows > 1);
  const times = new Float64Array(rows).map((_, i) => rows - i);
  const all = new Uint8Array(bytes);
  all.set(new Uint8Array(times.buffer));
  chunks[id] = packed(id, all);
}), /damaged: its markers are out of order/));

test("a later segment that is damaged leaves the rest in use", async () => {
  const html = changed((json, chunks) => {
    const { id } = json.lines[0].segments[1].changes;
    chunks[id] = packed(id, new Uint8Array(3));
  });
  const { page, errors, close } = await openPage(browser, write(html));
  await page.evaluate(() => window.pageyard.ready);
  await page.locator("#trouble").waitFor({ state: "visible" });
  const state = await page.evaluate(() => window.pageyard.stateAt(0));
  assert.equal(state.lines.recorded.free_frames, made.expected.lines.recorded.free_frames[0]);
  assert.deepEqual(errors, []);
  await close();
});

test("script that does not belong to the page is not run", async () => {
  const html = withStory(`${made.text}\n<script>window.hit = 1</script><img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=" onload="window.hit = 2">`);
  const { page, errors, close } = await openPage(browser, write(html));
  await page.evaluate(() => window.pageyard.ready);
  assert.equal(await page.evaluate(() => (window as unknown as { hit?: number }).hit), undefined);
  assert.ok(errors.length > 0 && errors.every((error) => /Content Security Policy|request failed/.test(error)), errors.join("\n"));
  await close();
});
