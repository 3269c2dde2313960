// Every map in a folder: NAME.html as the command wrote it, or NAME.story (what replaces the marker), with NAME.json (what
// `pageyard map --json` printed) beside it where there is one. PAGEYARD_MAPS names the folder; without it nothing is asked.
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { gunzipSync } from "node:zlib";
import type { Browser, Page } from "playwright-core";
import { launch, openReady, withStory, write } from "./browser";
import { accessible, clean, colourings, map, scrub, totals, type Figures } from "./exercise";

const folder = process.env.PAGEYARD_MAPS;
let browser: Browser;

before(async () => {
  browser = await launch();
});
after(() => browser.close());

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

/** The engines' own counters, unpacked from the page without the viewer's code. */
async function series(page: Page): Promise<{ resolution_ns: number; moments: number; lines: Figures }> {
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

if (!folder) test("maps of real recordings", { skip: "PAGEYARD_MAPS names no folder" }, () => {});
else {
  const files = readdirSync(folder).filter((name) => /\.(html|story)$/.test(name)).sort();
  test("the folder has maps", () => assert.ok(files.length > 0, `${folder} holds no .html and no .story`));
  for (const name of files) {
    const file = resolve(join(folder, name));
    test(name, async () => {
      const url = name.endsWith(".html") ? pathToFileURL(file).href : write(withStory(readFileSync(file, "utf8").trimEnd()));
      const opened = await openReady(browser, url);
      const { page } = opened;
      const story = await series(page);
      await totals(page, story.resolution_ns, story.moments, story.lines, 10);
      const beside = file.replace(/\.(html|story)$/, ".json");
      if (existsSync(beside)) {
        const printed = JSON.parse(readFileSync(beside, "utf8")) as Printed;
        const lines: Figures = Object.fromEntries(printed.lines.map(({ line, free_frames, huge_free, lost }) => [line, { free_frames, huge_free, lost }]));
        await totals(page, printed.resolution_ns, printed.moments, lines, 11);
      }
      await page.waitForFunction(() => document.getElementById("sentence")!.textContent !== "", null, { timeout: 20_000 });
      await scrub(page, story.moments);
      await map(page);
      await colourings(page);
      await accessible(page, name);
      await page.locator("#theme").click();
      await accessible(page, `${name}, the other theme`);
      clean(opened);
      await opened.close();
    });
  }
}
