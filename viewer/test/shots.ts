// Writes screenshots of a made story, or of the pages named, in both sizes and both themes.
import { mkdirSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { launch, openReady, withStory, write } from "./browser";
import { makeStory } from "./make-story";

const out = process.env.PAGEYARD_SHOTS ?? "/tmp/viewer-shots";
mkdirSync(out, { recursive: true });
const maps = (process.env.PAGEYARD_MAP_FILES ?? "").split(":").filter(Boolean);
const pages: [string, string][] = maps.length > 0 ? maps.map((file) => [basename(file, ".html"), pathToFileURL(resolve(file)).href]) : [["made", write(withStory(makeStory({ pageblocks: 8192, moments: 1024, touched: 60 }).text))]];
const views: [string, string][] = [["start", "t=0"], ["end", "t=1e15&line=recorded"], ["owner", "t=1e15&colour=owner"], ["compare", "t=1e15&with=SECOND"], ["frames", "t=1e15&map=MAP"], ["search", "t=1e15&find=slab"]];
const browser = await launch();
for (const [name, url] of pages) {
  for (const [width, height] of [[1280, 800], [1920, 1080]]) {
    for (const colorScheme of ["light", "dark"] as const) {
      for (const [view, hash] of views) {
        if (process.env.PAGEYARD_VIEWS && !process.env.PAGEYARD_VIEWS.split(",").includes(view)) continue;
        const opened = await openReady(browser, `${url}#${hash.replace("MAP", process.env.PAGEYARD_MAP ?? "400-447&pageblock=420").replace("SECOND", process.env.PAGEYARD_SECOND ?? "engine-1")}`, { viewport: { width, height }, colorScheme });
        await opened.page.waitForTimeout(1200);
        await opened.page.screenshot({ path: join(out, `${name}-${view}-${width}-${colorScheme}.png`) });
        if (opened.errors.length) console.log(name, view, opened.errors);
        await opened.close();
      }
    }
  }
}
await browser.close();
