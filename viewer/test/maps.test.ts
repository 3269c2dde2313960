// Every map in a folder: NAME.html as the command wrote it, or NAME.story (what replaces the marker), with NAME.json (what
// `pageyard map --json` printed) beside it where there is one. PAGEYARD_MAPS names the folder; without it nothing is asked.
// Screenshots stay beside the maps, in NAME-WHAT.png.
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { availableParallelism } from "node:os";
import { basename, join, resolve } from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { gunzipSync } from "node:zlib";
import type { Browser, Page } from "playwright-core";
import { launch, openReady, withStory, write } from "./browser";
import { accessible, clean, colourings, escapes, lines, map, scrub, shownFigures, totals, type Figures } from "./exercise";

const folder = process.env.PAGEYARD_MAPS;
/** A page of a name that no page may take for its own. */
const HOSTILE = /</;

interface Story {
  resolution_ns: number;
  moments: number;
  lines: { id: string; series: { chunk: { id: number; rows: number; columns: [string, string][] } } }[];
}

interface Printed {
  resolution_ns: number;
  moments: number;
  lines: { line: string; free_frames: number[]; huge_free: number[]; lost: number[] }[];
}

interface Counted {
  resolution_ns: number;
  moments: number;
  lines: Figures;
}

/** The engines' own counters, unpacked from the page without the viewer's code. */
async function series(page: Page): Promise<Counted> {
  const { json, packed } = await page.evaluate(() => {
    const story = JSON.parse(document.getElementById("pageyard-story")!.textContent!) as Story;
    return { json: { ...story, owners: [] }, packed: story.lines.map((line) => document.getElementById(`pageyard-chunk-${line.series.chunk.id}`)!.textContent!) };
  });
  const lines: Figures = {};
  json.lines.forEach((line, i) => {
    const bytes = gunzipSync(Buffer.from(packed[i], "base64"));
    const { rows, columns } = line.series.chunk;
    const column = (name: string): number[] => {
      const at = columns.findIndex(([other]) => other === name);
      // All columns of a series are u32.
      return Array.from({ length: rows }, (_, row) => bytes.readUInt32LE((at * rows + row) * 4));
    };
    lines[line.id] = { free_frames: column("free_frames"), huge_free: column("huge_free"), lost: column("lost") };
  });
  return { resolution_ns: json.resolution_ns, moments: json.moments, lines };
}

/** What the command printed, where it did: the page must carry the same numbers at every moment. */
async function counted(page: Page, file: string): Promise<Counted> {
  const own = await series(page);
  const beside = file.replace(/\.(html|story)$/, ".json");
  if (!existsSync(beside)) return own;
  const printed = JSON.parse(readFileSync(beside, "utf8")) as Printed;
  const lines: Figures = Object.fromEntries(printed.lines.map(({ line, free_frames, huge_free, lost }) => [line, { free_frames, huge_free, lost }]));
  const { resolution_ns, moments } = printed;
  assert.deepEqual(own, { resolution_ns, moments, lines });
  return { resolution_ns, moments, lines };
}

async function exercise(browser: Browser, file: string, colorScheme: "light" | "dark"): Promise<void> {
  const url = file.endsWith(".html") ? pathToFileURL(file).href : write(withStory(readFileSync(file, "utf8").trimEnd()));
  const opened = await openReady(browser, url, { colorScheme });
  const { page } = opened;
  const shot = (what: string): Promise<Buffer> => page.screenshot({ path: file.replace(/\.(html|story)$/, `-${what}.png`) });
  const story = await counted(page, file);
  await totals(page, story.resolution_ns, story.moments, story.lines, 10);
  await page.waitForFunction(() => document.getElementById("sentence")!.textContent !== "", null, { timeout: 20_000 });
  await shot("end");
  if (HOSTILE.test(basename(file))) await escapes(page);
  await shownFigures(page, story.resolution_ns, story.moments, story.lines, 11);
  await scrub(page, story.moments);
  await map(page, () => shot("frames"));
  await colourings(page);
  await lines(page, story.resolution_ns, story.moments, story.lines, () => shot("beside"));
  await accessible(page, `${file}, ${colorScheme}`);
  clean(opened);
  await opened.close();
}

if (!folder) test("maps of real recordings", { skip: "PAGEYARD_MAPS names no folder" }, () => {});
else {
  // The largest first: what runs beside it is done by the time that it is.
  const files = readdirSync(folder).filter((name) => /\.(html|story)$/.test(name)).map((name) => resolve(join(folder, name)));
  files.sort((a, b) => statSync(b).size - statSync(a).size);
  test("the folder has maps", () => assert.ok(files.length > 0, `${folder} holds no .html and no .story`));
  describe("maps", { concurrency: Math.min(4, availableParallelism()) }, () => {
    let browser: Browser;
    before(async () => {
      browser = await launch();
    });
    after(() => browser.close());
    // Light and dark by turns.
    files.forEach((file, i) => test(basename(file), () => exercise(browser, file, i % 2 === 0 ? "light" : "dark")));
  });
}
