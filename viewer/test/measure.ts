// Measures the page with a story of ten million events' size: how long it takes to open, frames a second while it is scrubbed,
// and what a frame costs the page's own thread, which a busy machine changes less. Prints what it measured; PAGEYARD_MAP_FILES names real maps to measure instead.
import { statSync } from "node:fs";
import { basename, resolve } from "node:path";
import { pathToFileURL, fileURLToPath } from "node:url";
import { launch, openPage, withStory, write } from "./browser";
import { makeStory } from "./make-story";

const named = (process.env.PAGEYARD_MAP_FILES ?? "").split(":").filter(Boolean);
let pages: [string, string][];
if (named.length > 0) pages = named.map((file) => [basename(file), pathToFileURL(resolve(file)).href]);
else {
  const story = makeStory({ pageblocks: Number(process.env.PAGEYARD_PAGEBLOCKS ?? 12_000), moments: 2048, touched: Number(process.env.PAGEYARD_TOUCHED ?? 700), segments: 8, lines: 2, keyframes: 4, events: 10_000_000 });
  console.log(`made: ${story.changes.toLocaleString("en-GB")} changes in 2 lines`);
  pages = [["made", write(withStory(story.text))]];
}

/** Frames over which a frame's cost is taken: the same way over the time each time. */
const FRAMES = 120;
const browser = await launch();
for (const [name, url] of pages) {
  const bytes = statSync(fileURLToPath(url)).size;
  const open: number[] = [];
  for (let i = 0; i < 3; i++) {
    const { page, close } = await openPage(browser, "about:blank");
    const start = performance.now();
    await page.goto(`${url}#t=1000000000`, { waitUntil: "commit" });
    await page.waitForFunction(() => window.pageyard?.ready);
    await page.evaluate(() => window.pageyard.ready.then(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))));
    open.push((performance.now() - start) / 1000);
    await close();
  }
  const results: string[] = [];
  for (const [what, hash] of [["one line", ""], ["two lines and their difference", `#with=${process.env.PAGEYARD_SECOND ?? "engine-1"}`]]) {
    const { page, errors, close } = await openPage(browser, url + hash, { viewport: { width: 1920, height: 1080 } });
    await page.evaluate(() => window.pageyard.ready);
    // The first pass may wait for segments; the second is what a reader who scrubs sees.
    const passes = await page.evaluate(async () => {
      const box = document.getElementById("timeline")!;
      const { left, top, width } = box.getBoundingClientRect();
      const fire = (type: string, x: number): boolean => box.dispatchEvent(new PointerEvent(type, { clientX: x, clientY: top + 20, button: 0, pointerId: 1, bubbles: true }));
      box.setPointerCapture = (): void => undefined;
      const pass = async (): Promise<{ fps: number; worst: number }> => {
        fire("pointerdown", left + 150);
        const start = performance.now();
        let frames = 0;
        let worst = 0;
        let last = start;
        while (performance.now() - start < 4000) {
          const at = (performance.now() - start) / 4000;
          // Back and forth over all of the time.
          fire("pointermove", left + 130 + (width - 150) * Math.abs(Math.sin(at * Math.PI * 3)));
          await new Promise(requestAnimationFrame);
          const now = performance.now();
          worst = Math.max(worst, now - last);
          last = now;
          frames++;
        }
        fire("pointerup", left + 150);
        return { fps: (frames * 1000) / (performance.now() - start), worst };
      };
      return [await pass(), await pass()];
    });
    const cdp = await page.context().newCDPSession(page);
    await cdp.send("Performance.enable", { timeDomain: "threadTicks" });
    const spent = async (): Promise<number> => (await cdp.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration")!.value;
    const before = await spent();
    await page.evaluate(async (frames) => {
      const box = document.getElementById("timeline")!;
      const { left, top, width } = box.getBoundingClientRect();
      const fire = (type: string, x: number): boolean => box.dispatchEvent(new PointerEvent(type, { clientX: x, clientY: top + 20, button: 0, pointerId: 1, bubbles: true }));
      fire("pointerdown", left + 150);
      for (let i = 0; i < frames; i++) {
        fire("pointermove", left + 130 + (width - 150) * Math.abs(Math.sin((i / frames) * Math.PI * 3)));
        await new Promise(requestAnimationFrame);
      }
      fire("pointerup", left + 150);
    }, FRAMES);
    const cost = `${(((await spent()) - before) * 1000 / FRAMES).toFixed(1)} ms of the page's thread a frame`;
    results.push(`${what}: ${cost}; ${passes.map(({ fps, worst }) => `${fps.toFixed(1)} frames/s, longest ${worst.toFixed(0)} ms`).join("; again: ")}${errors.length ? ` ERRORS ${errors[0]}` : ""}`);
    await close();
  }
  console.log(`${name}: ${(bytes / 1e6).toFixed(1)} MB; opens in ${open.map((s) => s.toFixed(2)).join(", ")} s (software rendering)`);
  for (const result of results) console.log(`  scrubbing, ${result}`);
}
await browser.close();
