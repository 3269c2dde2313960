// The pages that `pageyard compare --report` wrote, in the folder `compared` of PAGEYARD_MAPS: NAME.html beside NAME.json, what
// `--json` printed. Screenshots stay beside them.
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import type { Browser, Page } from "playwright-core";
import { launch, openPage } from "./browser";
import { accessible, clean } from "./exercise";

const VIEWS: [number, number, "light" | "dark"][] = [[1280, 800, "dark"], [1280, 800, "light"], [1920, 1080, "dark"], [1920, 1080, "light"], [400, 800, "light"]];

interface Row {
  setting: string;
  metric: string;
  value: number;
  low: number;
  high: number;
  differs: boolean;
}

/** What each setting of each chart says, and where it stands. */
async function charts(page: Page): Promise<{ row: Row; text: string[]; at: { value: number; low: number; high: number }; ticks: { x: number; value: number }[] }[]> {
  return page.locator(".chart svg[role=img] .setting").evaluateAll((settings) =>
    settings.map((setting) => {
      const middle = (element: Element): number => {
        const { left, right } = element.getBoundingClientRect();
        return (left + right) / 2;
      };
      const { dataset } = setting as SVGElement;
      const chart = setting.closest("svg[role=img]")!;
      const interval = setting.querySelector(".interval") as SVGLineElement;
      const end = (length: SVGAnimatedLength): number => length.baseVal.value + chart.getBoundingClientRect().left;
      const lines = [...chart.querySelectorAll(".grid")];
      const labels = [...chart.querySelectorAll(".tick")];
      return {
        row: { setting: dataset.setting!, metric: dataset.metric!, value: Number(dataset.value), low: Number(dataset.low), high: Number(dataset.high), differs: setting.querySelector("circle.differs") !== null },
        text: [...setting.querySelectorAll("text")].map((text) => text.textContent!),
        at: { value: middle(setting.querySelector(".point > *")!), low: end(interval.x1), high: end(interval.x2) },
        ticks: lines.map((line, i) => ({ x: middle(line), value: Number(labels[i].textContent!.replaceAll(",", "")) })),
      };
    }),
  );
}

/** A place on an axis as a value, by the labels of the axis. */
function valueAt(x: number, ticks: { x: number; value: number }[]): number {
  const [first, last] = [ticks[0], ticks.at(-1)!];
  return first.value + ((x - first.x) / (last.x - first.x)) * (last.value - first.value);
}

/** Texts of a page's charts that lie over one another. */
async function overlapping(page: Page): Promise<string[]> {
  return page.locator(".chart svg[role=img]").evaluateAll((all) =>
    all.flatMap((svg) => {
      const texts = [...svg.querySelectorAll("text")].map((text) => ({ text: text.textContent!, box: text.getBoundingClientRect() }));
      return texts.flatMap((a, i) =>
        texts.slice(i + 1).filter((b) => a.box.left < b.box.right && b.box.left < a.box.right && a.box.top + 3 < b.box.bottom && b.box.top + 3 < a.box.bottom).map((b) => `${a.text} | ${b.text}`),
      );
    }),
  );
}

const folder = process.env.PAGEYARD_MAPS ? join(process.env.PAGEYARD_MAPS, "compared") : "";
if (!existsSync(folder)) test("comparisons", { skip: "PAGEYARD_MAPS names no folder with comparisons" }, () => {});
else {
  describe("comparisons", () => {
    let browser: Browser;
    before(async () => {
      browser = await launch();
    });
    after(() => browser.close());
    const names = readdirSync(folder).filter((name) => name.endsWith(".html")).map((name) => name.replace(/\.html$/, ""));
    assert.ok(names.length > 0, `${folder} holds no page`);
    for (const name of names) {
      const url = pathToFileURL(join(folder, `${name}.html`)).href;
      const printed = JSON.parse(readFileSync(join(folder, `${name}.json`), "utf8")) as { settings: string[]; rows: Row[] };
      test(`${name}: points and intervals are the rows of the JSON`, async () => {
        const opened = await openPage(browser, url);
        const all = await charts(opened.page);
        assert.ok(all.length > 0 && all.length % printed.settings.length === 0);
        const drawn = new Set(all.map(({ row }) => row.metric));
        for (const { metric, differs } of printed.rows) assert.ok(!differs || drawn.has(metric), `${metric} differs and has a chart`);
        all.forEach(({ row, text, at, ticks }, i) => {
          const want = printed.rows.find((other) => other.metric === row.metric && other.setting === row.setting)!;
          const { value, low, high, differs } = want;
          assert.deepEqual(row, { setting: printed.settings[i % printed.settings.length], metric: row.metric, value, low, high, differs });
          // Half a pixel of the axis is what the browser may be off.
          const pixel = Math.abs(valueAt(ticks[0].x + 0.75, ticks) - ticks[0].value);
          for (const key of ["value", "low", "high"] as const) assert.ok(Math.abs(valueAt(at[key], ticks) - want[key]) <= pixel, `${key} of ${row.metric}, ${row.setting}: ${valueAt(at[key], ticks)} and not ${want[key]}`);
          // Half of the last digit is what a printed mean may be off.
          const mean = text[1].split(" ")[0].replaceAll(",", "");
          const digits = mean.split(".")[1]?.length ?? 0;
          assert.ok(Math.abs(Number(mean) - value) <= 0.5000001 * 10 ** -digits, `${text[1]} is ${value}`);
        });
        // The tables have every row, those of the JSON and no other.
        assert.equal(await opened.page.locator("tbody td").count(), printed.rows.length);
        clean(opened);
        await opened.close();
      });
      for (const [width, height, colorScheme] of name === "hostile" ? VIEWS.slice(0, 1) : VIEWS) {
        test(`${name}: nothing lies over another thing and axe finds nothing, ${width} x ${height}, ${colorScheme}`, async () => {
          const opened = await openPage(browser, url, { viewport: { width, height }, colorScheme });
          const { page } = opened;
          assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= width, "no wider than the window");
          if (width >= 1280) assert.deepEqual(await overlapping(page), []);
          const dark = await page.evaluate(() => Number(/\d+/.exec(getComputedStyle(document.body).backgroundColor)![0]) < 128);
          assert.equal(dark, colorScheme === "dark");
          await page.screenshot({ path: join(folder, `${name}-${width}-${colorScheme}.png`) });
          await page.locator("details").evaluateAll((all) => all.forEach((details) => ((details as HTMLDetailsElement).open = true)));
          await accessible(page, name);
          await page.emulateMedia({ media: "print" });
          assert.ok(await page.evaluate(() => Number(/\d+/.exec(getComputedStyle(document.body).backgroundColor)![0]) >= 128), "paper is white");
          clean(opened);
          await opened.close();
        });
      }
      test(`${name}: is static, and its names are texts`, async () => {
        const opened = await openPage(browser, url);
        const { page } = opened;
        const seen = await page.evaluate(() => ({
          hit: (window as unknown as { hit?: unknown }).hit,
          strange: document.querySelectorAll("script, img, iframe, object, embed, link, b, foreignObject, svg a").length,
          handlers: [...document.querySelectorAll("*")].filter((element) => [...element.attributes].some((attribute) => /^on|^style$|href/.test(attribute.name))).length,
          active: [...document.body.innerText.matchAll(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u0000-\u0008\u000b-\u001f]/gu)].length,
          described: [...document.querySelectorAll("svg[role=img]")].every((svg) => svg.querySelector("title")!.textContent && svg.querySelector("desc")!.textContent!.includes("Scale from")),
        }));
        assert.deepEqual(seen, { hit: undefined, strange: 0, handlers: 0, active: 0, described: true });
        if (name === "hostile") assert.match((await page.locator("h1").textContent())!, /^<img src=x onerror="window\.hit=1"><\\u\{202e\}/);
        clean(opened);
        await opened.close();
      });
    }
  });
}
