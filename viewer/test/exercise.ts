// What every map must stand, whatever its story: used on made stories and on real ones.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";
import { chance } from "./make-story";
import type { Opened } from "./browser";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export type Figures = Record<string, Partial<Record<"free_frames" | "huge_free" | "lost" | "movable" | "unmovable" | "reclaimable" | "pinned", number[]>>>;

/** Asks the page for its totals at random times, and compares them with what was counted elsewhere. */
export async function totals(page: Page, resolution: number, moments: number, lines: Figures, seed: number): Promise<void> {
  const random = chance(seed);
  for (let i = 0; i < 20; i++) {
    const moment = i === 0 ? 0 : i === 1 ? moments - 1 : Math.floor(random() * moments);
    const time = moment * resolution + (moment < moments - 1 ? Math.floor(random() * resolution) : 0);
    const state = await page.evaluate((at) => window.pageyard.stateAt(at), time);
    assert.equal(state.moment, moment, `moment at ${time}`);
    assert.deepEqual(Object.keys(state.lines).sort(), Object.keys(lines).sort());
    for (const [id, figures] of Object.entries(lines)) {
      for (const [figure, values] of Object.entries(figures)) {
        assert.equal(state.lines[id][figure as "lost"], values[moment], `${figure} of ${id} at moment ${moment}`);
      }
    }
  }
}

/** Colours that a map shows: on how many pixels of its canvas, and the first of them, as shares of width and height. */
export async function pixels(page: Page, pane: number): Promise<Map<string, { count: number; x: number; y: number }>> {
  const found = await page.locator(".pane-box canvas:first-child").nth(pane).evaluate((canvas: HTMLCanvasElement) => {
    const { width, height } = canvas;
    // Read from a copy: a canvas that is read often gets a warning on the console.
    const copy = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true })!;
    copy.drawImage(canvas, 0, 0);
    const { data } = copy.getImageData(0, 0, width, height);
    const seen = new Map<number, { count: number; x: number; y: number }>();
    new Uint32Array(data.buffer).forEach((pixel, i) => {
      const there = seen.get(pixel);
      if (there) there.count++;
      else seen.set(pixel, { count: 1, x: ((i % width) + 0.5) / width, y: (Math.floor(i / width) + 0.5) / height });
    });
    return [...seen].map(([pixel, of]): [string, typeof of] => [`${pixel & 255},${(pixel >> 8) & 255},${(pixel >> 16) & 255}`, of]);
  });
  return new Map(found);
}

/** The colour of each entry of the legend's list, by its label. */
async function legend(page: Page, list: number): Promise<Map<string, string>> {
  const found = await page.locator("#legend ul").nth(list).locator("li:has(.swatch)").evaluateAll((items) =>
    items.map((item): [string, string] => [item.textContent!, getComputedStyle(item.querySelector(".swatch")!).backgroundColor.replace(/^rgb\(|[ )]/g, "")]),
  );
  return new Map(found);
}

/** Counts the pageblocks that the first map shows in each colour of the legend, where a cell is one pageblock. */
async function cells(page: Page): Promise<Map<string, number> | null> {
  const caption = (await page.locator("#map-caption").textContent())!;
  const all = /all ([\d,]+) pageblocks; a cell is one pageblock/.exec(caption);
  if (!all) return null;
  const [colours, seen] = [await legend(page, 0), await pixels(page, 0)];
  const drawn = [...colours].map(([label, colour]): [string, number] => [label, seen.get(colour)?.count ?? 0]);
  // All cells are of one size.
  const cell = drawn.reduce((sum, [, count]) => sum + count, 0) / Number(all[1].replaceAll(",", ""));
  return new Map(drawn.map(([label, count]) => [label, count / cell]));
}

/** Goes to some of those moments, and compares what the page shows: the table of figures, the sum of the blame, the map's cells. */
export async function shownFigures(page: Page, resolution: number, moments: number, lines: Figures, seed: number): Promise<void> {
  const random = chance(seed);
  const written = (value: number): string => value.toLocaleString("en-GB");
  for (let i = 0; i < 4; i++) {
    const moment = Math.floor(random() * moments);
    await page.evaluate((at) => (location.hash = `#t=${at}&with=`), moment * resolution);
    const want = Object.values(lines).map(({ huge_free, lost, free_frames }) => [huge_free, lost, free_frames].map((values) => written(values![moment])));
    const blamed = want[0][1];
    await page.waitForFunction(([at, figures, total]) => {
      const cells = [...document.querySelectorAll("#now tbody tr")].map((row) => [...row.querySelectorAll("td")].slice(0, 3).map((cell) => cell.textContent));
      const done = document.getElementById("timeline")!.getAttribute("aria-valuenow") === String(at) && document.getElementById("blame-note")!.textContent!.startsWith(`${total} pageblocks`);
      if (done && JSON.stringify(cells) !== JSON.stringify(figures)) throw new Error(`at moment ${at} the page says ${JSON.stringify(cells)} and not ${JSON.stringify(figures)}`);
      return done;
    }, [moment, want, blamed] as const, { timeout: 10_000 });
    await quiet(page);
    const shown = await cells(page);
    if (!shown) continue;
    const first = Object.values(lines)[0];
    // A pixel of the labels may have a colour of the legend by chance.
    const whole = Math.round(shown.get("whole and free") ?? 0);
    assert.equal(whole, first.huge_free![moment], `cells of moment ${moment} that are whole`);
    const lost = Math.round((shown.get("lost before the recording") ?? 0) + (shown.get("lost during it") ?? 0));
    assert.equal(lost, first.lost![moment], `cells of moment ${moment} that are lost`);
  }
}

async function timeNow(page: Page): Promise<number> {
  return Number(await page.locator("#timeline").getAttribute("aria-valuenow"));
}

/** Waits until the hash that the page writes matches. */
export async function hash(page: Page, pattern: RegExp): Promise<void> {
  await page.waitForFunction((source) => new RegExp(source).test(location.hash), pattern.source, { timeout: 5000 });
}

async function quiet(page: Page): Promise<void> {
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

/** Scrubs by pointer and keys, plays, zooms. */
export async function scrub(page: Page, moments: number): Promise<void> {
  const box = (await page.locator("#timeline").boundingBox())!;
  const y = box.y + box.height / 3;
  await page.mouse.move(box.x + box.width * 0.3, y);
  await page.mouse.down();
  for (let i = 0; i <= 20; i++) await page.mouse.move(box.x + box.width * (0.3 + i * 0.03), y);
  await page.mouse.up();
  await quiet(page);
  const scrubbed = await timeNow(page);
  assert.ok(scrubbed > moments * 0.5, `scrubbed to moment ${scrubbed} of ${moments}`);
  await page.keyboard.press("Home");
  await quiet(page);
  assert.equal(await timeNow(page), 0);
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowLeft");
  await quiet(page);
  assert.equal(await timeNow(page), 1);
  await page.keyboard.press("End");
  await quiet(page);
  assert.equal(await timeNow(page), moments - 1);
  await page.keyboard.press("Home");
  await page.keyboard.press("+");
  await quiet(page);
  assert.doesNotMatch((await page.locator("#span").textContent())!, /^All/);
  await page.keyboard.press("-");
  await page.mouse.wheel(0, -300);
  await page.locator("#time-all").click();
  await quiet(page);
  assert.match((await page.locator("#span").textContent())!, /^All/);
  await page.selectOption("#speed", "5");
  await page.locator("#timeline").focus();
  await page.keyboard.press(" ");
  await page.waitForFunction(() => Number(document.getElementById("timeline")!.getAttribute("aria-valuenow")) > 0, null, { timeout: 5000 });
  await page.keyboard.press(" ");
  assert.equal(await page.locator("#play").textContent(), "Play");
}

/** Clicks a cell, walks with the arrow keys, zooms the map until frames show, and returns; `close` is called when they do. */
export async function map(page: Page, close?: () => Promise<unknown>): Promise<void> {
  const box = page.locator(".pane-box").first();
  const at = (await box.boundingBox())!;
  await page.mouse.click(at.x + 80 + (at.width - 80) / 3, at.y + Math.min(30, at.height / 3));
  await quiet(page);
  let heading = await page.locator("#details h3").textContent();
  if (heading === null) throw new Error("no details");
  assert.match(heading, /^Pageblock [\d,]+$/);
  assert.match((await page.locator("#details").textContent())!, /Of its [\d,]+ frames|No frame of it/);
  await box.focus();
  await page.keyboard.press("ArrowRight");
  await quiet(page);
  const next = await page.locator("#details h3").textContent();
  assert.notEqual(next, heading);
  heading = next;
  for (let i = 0; i < 14; i++) await page.keyboard.press("+");
  await page.waitForFunction(() => /Frames of|keeps no frames/.test(document.getElementById("map-caption")!.textContent!), null, { timeout: 10000 });
  assert.equal(await page.locator("#details h3").textContent(), heading, "zooming keeps the selection");
  await close?.();
  await page.keyboard.press("Escape");
  await quiet(page);
  assert.match((await page.locator("#map-caption").textContent())!, /(^|: )[Aa]ll /);
}

/** Goes through all colourings. */
export async function colourings(page: Page): Promise<void> {
  for (const name of ["type", "occupancy", "age", "owner", "zone", "snapshot", "state"]) {
    await page.locator(`#colours input[value=${name}]`).check({ force: true });
    await quiet(page);
    assert.ok((await page.locator("#legend li").count()) > 0, `${name} has a legend`);
    if (name === "state") await hash(page, /^#(?!.*colour=)/);
    else await hash(page, new RegExp(`colour=${name}`));
  }
}

/** Puts the last two lines beside each other, where there are two, and compares the figures and the map of the difference. */
export async function lines(page: Page, resolution: number, moments: number, figures: Figures, beside?: () => Promise<unknown>): Promise<void> {
  if (!(await page.locator("#line-b").isEnabled())) return;
  const all = Object.values(figures);
  const [a, b] = [all.length - 2, all.length - 1];
  await page.selectOption("#line-a", String(a));
  await page.selectOption("#line-b", String(b));
  await page.waitForFunction(() => document.querySelectorAll(".pane:not([hidden])").length === 3 && document.getElementById("legend")!.textContent!.includes("lost in both"));
  await hash(page, /with=[^&]/);
  for (const moment of [0, moments >> 1, moments - 1]) {
    await page.evaluate((at) => (location.hash = location.hash.replace(/t=\d+/, `t=${at}`)), moment * resolution);
    const [one, other] = [all[a].lost![moment], all[b].lost![moment]];
    const says = `Pageblocks lost at this moment: ${one.toLocaleString("en-GB")} and ${other.toLocaleString("en-GB")}.`;
    await page.waitForFunction(
      ([at, want]) => document.getElementById("timeline")!.getAttribute("aria-valuenow") === String(at) && document.getElementById("blame-note")!.textContent!.startsWith(want),
      [moment, says] as const,
      { timeout: 10_000 },
    );
    await quiet(page);
    // Where one line has more lost than the other, the difference shows pageblocks that are lost only in it.
    const [colours, seen] = [await legend(page, 1), await pixels(page, 2)];
    const [onlyOne, onlyOther] = [...colours].filter(([label]) => label.startsWith("lost only in")).map(([, colour]) => seen.get(colour));
    if (one > other) assert.ok(onlyOne, `moment ${moment} shows what only the first line lost`);
    if (other > one) assert.ok(onlyOther, `moment ${moment} shows what only the second line lost`);
    if (moment < moments - 1) continue;
    await beside?.();
    // Both lines are described, and say of a pageblock what its colour says.
    const at = onlyOne ?? onlyOther ?? seen.get(colours.get("lost in both")!) ?? seen.get(colours.get("lost in neither")!)!;
    const box = (await page.locator(".pane-box").nth(2).boundingBox())!;
    await page.mouse.click(box.x + at.x * box.width, box.y + at.y * box.height);
    await quiet(page);
    const details = (await page.locator("#details").innerText()).split("\n").filter(Boolean);
    const labels = (await page.locator(".pane-title").allTextContents()).slice(0, 2);
    const said = labels.map((label) => details[details.indexOf(label) + 1]?.includes("it is lost to huge frames"));
    assert.ok(labels.every((label) => details.includes(label)), `both lines are described: ${details.join("\n")}`);
    // A cell of several pageblocks shows the worst of them, and the first is described.
    if (!/a cell is one pageblock/.test((await page.locator("#map-caption").textContent())!)) continue;
    assert.deepEqual(said, at === onlyOne ? [true, false] : at === onlyOther ? [false, true] : said[0] ? [true, true] : [false, false], details.join("\n"));
  }
  await page.selectOption("#line-b", "-1");
  await page.selectOption("#line-a", "0");
  await page.waitForFunction(() => document.querySelectorAll(".pane:not([hidden])").length === 1);
}

/** Looks at what a hostile name could have done to the page that shows it. */
export async function escapes(page: Page): Promise<void> {
  const seen = await page.evaluate(() => ({
    hit: (window as unknown as { hit?: unknown }).hit,
    strange: document.querySelectorAll("img, svg, iframe, object, embed, link, b").length,
    active: [...document.body.innerText.matchAll(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u0000-\u0008\u000b-\u001f]/gu)].length,
    scripts: [...document.scripts].filter((script) => script.type === "" && !script.textContent!.includes("Contains uPlot")).length,
  }));
  assert.deepEqual(seen, { hit: undefined, strange: 0, active: 0, scripts: 0 });
  assert.match((await page.locator("h1").textContent())!, /</, "the name is there, as text");
}

/** Has axe look at the page as it stands. */
export async function accessible(page: Page, what: string): Promise<void> {
  await page.evaluate(axe);
  const violations = await page.evaluate(async () => {
    const found = await (window as unknown as { axe: { run: (context: Document) => Promise<{ violations: { id: string; nodes: { html: string; failureSummary?: string }[] }[] }> } }).axe.run(document);
    return found.violations.map((violation) => `${violation.id}: ${violation.nodes.map((node) => `${node.html.slice(0, 120)} ${node.failureSummary ?? ""}`).join(" | ").slice(0, 400)}`);
  });
  assert.deepEqual(violations, [], what);
}

export function clean(opened: Opened): void {
  assert.deepEqual(opened.errors, []);
}
