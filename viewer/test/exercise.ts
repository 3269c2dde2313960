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

/** Clicks a cell, walks with the arrow keys, zooms the map until frames show, and returns. */
export async function map(page: Page): Promise<void> {
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
  await page.keyboard.press("Escape");
  await quiet(page);
  assert.match((await page.locator("#map-caption").textContent())!, /(^|: )[Aa]ll /);
}

/** Goes through all colourings, and puts a second line beside the first where there is one. */
export async function colourings(page: Page): Promise<void> {
  for (const name of ["type", "occupancy", "age", "owner", "zone", "state"]) {
    await page.locator(`#colours input[value=${name}]`).check({ force: true });
    await quiet(page);
    assert.ok((await page.locator("#legend li").count()) > 0, `${name} has a legend`);
    if (name === "state") await hash(page, /^#(?!.*colour=)/);
    else await hash(page, new RegExp(`colour=${name}`));
  }
  if (await page.locator("#line-b").isEnabled()) {
    await page.selectOption("#line-b", "1");
    await page.waitForFunction(() => document.querySelectorAll(".pane:not([hidden])").length === 3 && document.getElementById("legend")!.textContent!.includes("lost in both"));
    await page.selectOption("#line-b", "-1");
    await page.waitForFunction(() => document.querySelectorAll(".pane:not([hidden])").length === 1);
  }
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
