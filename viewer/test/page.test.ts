// The page with made stories, in a browser.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import { launch, openReady, withStory, write } from "./browser";
import { accessible, clean, colourings, escapes, hash, lines, map, pixels, scrub, shownFigures, totals } from "./exercise";
import { makeStory, SMALL, textOf } from "./make-story";

let browser: Browser;
const made = makeStory({});
const url = write(withStory(made.text));

before(async () => {
  browser = await launch();
});
after(() => browser.close());

test("totals at 20 random times are those that were counted", async () => {
  const opened = await openReady(browser, url);
  await totals(opened.page, SMALL.resolution_ns, SMALL.moments, made.expected.lines, 7);
  await shownFigures(opened.page, SMALL.resolution_ns, SMALL.moments, made.expected.lines, 8);
  clean(opened);
  await opened.close();
});

test("the map and the table show a moment's numbers, also after going back", async () => {
  const opened = await openReady(browser, url);
  const { page } = opened;
  await page.waitForFunction(() => document.getElementById("sentence")!.textContent !== "");
  for (const moment of [200, 3, 130, 129, 70, 255, 64, 63, 0]) {
    await page.evaluate((t) => (location.hash = `#t=${t}`), moment * SMALL.resolution_ns);
    const lost = made.expected.lines.recorded.lost[moment].toLocaleString("en-GB");
    await page.waitForFunction((want) => document.querySelector("#now tbody tr")!.children[2].textContent === want, lost);
    // The blame table is summed over the rows that scrubbing leaves: its total is the line's.
    await page.waitForFunction((want) => document.getElementById("blame-note")!.textContent!.startsWith(`${want} pageblocks`), lost, { timeout: 5000 });
  }
  clean(opened);
  await opened.close();
});

test("scrubbing, playing, zooming, clicking, colourings, two lines", async () => {
  const opened = await openReady(browser, url);
  await scrub(opened.page, SMALL.moments);
  await map(opened.page);
  await colourings(opened.page);
  await lines(opened.page, SMALL.resolution_ns, SMALL.moments, made.expected.lines);
  clean(opened);
  await opened.close();
});

test("a brushed range adds up what happened in it, for each line", async () => {
  const opened = await openReady(browser, url);
  const { page } = opened;
  assert.ok(await page.locator("#range").isHidden(), "nothing is brushed at first");
  const box = (await page.locator("#charts .u-over").first().boundingBox())!;
  const at = (share: number): number => box.x + box.width * share;
  await page.mouse.move(at(0.25), box.y + 5);
  await page.keyboard.down("Shift");
  await page.mouse.down();
  await page.mouse.move(at(0.5), box.y + 5, { steps: 5 });
  await page.mouse.up();
  await page.keyboard.up("Shift");
  await hash(page, /range=\d+-\d+/);
  const [from, to] = /range=(\d+)-(\d+)/.exec(new URL(page.url()).hash)!.slice(1).map((time) => Number(time) / SMALL.resolution_ns);
  assert.ok(Number.isInteger(from) && Number.isInteger(to), "a range goes from a moment to a moment");
  assert.ok(Math.abs(from - 64) < 4 && Math.abs(to - 128) < 4, `${from} to ${to} of 256 moments`);
  const rows = await page.locator("#range-figures tbody tr").evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent!)));
  const value = (text: string): number => Number(text.replaceAll(",", "").replace("−", "-"));
  const ids = Object.keys(made.expected.lines);
  for (const [name, figure] of [["huge free", "huge_free"], ["lost", "lost"], ["free frames", "free_frames"]] as const) {
    const row = rows.find(([title]) => title === name)!;
    const changes = ids.map((id) => made.expected.lines[id][figure][to] - made.expected.lines[id][figure][from]);
    assert.deepEqual(row.slice(1).map(value), changes, name);
  }
  // What became of pageblocks in the range agrees with the change of those that are lost.
  await page.waitForFunction(() => document.getElementById("range-words")!.textContent !== "");
  const words = (await page.locator("#range-words").textContent())!;
  const fresh = value(/: ([\d,]+) pageblocks? became lost/.exec(words)?.[1] ?? "0");
  const back = value(/; ([\d,]+) came back/.exec(words)?.[1] ?? "0");
  const { lost } = made.expected.lines.recorded;
  assert.equal(fresh - back, lost[to] - lost[from], words);
  await accessible(page, "a brushed range");
  // The same link shows the same range; keys mark one, too, and close it.
  await page.reload();
  await page.waitForFunction(() => !document.getElementById("range")!.hidden);
  await page.keyboard.press("Backspace");
  await page.locator("#range").waitFor({ state: "hidden" });
  // A new address counts although the page writes its own before the event of the new one.
  await page.evaluate(async (t) => {
    const frame = (): Promise<number> => new Promise((done) => requestAnimationFrame(done));
    setTimeout(() => (location.hash = `#t=${t}`), 100);
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "End", bubbles: true }));
    await frame();
    await frame();
    for (const start = performance.now(); performance.now() - start < 1000; );
  }, 100 * SMALL.resolution_ns);
  await page.locator(`#timeline[aria-valuenow="100"]`).waitFor({ timeout: 5000 });
  await page.keyboard.press("[");
  await page.waitForFunction(() => !document.getElementById("range")!.hidden);
  await hash(page, new RegExp(`range=${100 * SMALL.resolution_ns}-${255 * SMALL.resolution_ns}`));
  await page.locator("#range-close").click();
  await page.locator("#range").waitFor({ state: "hidden" });
  clean(opened);
  await opened.close();
});

test("two recordings open beside each other, and a link can show one alone", async () => {
  const story = makeStory({ lines: 2 });
  for (const [at, line] of (story.json.lines as Record<string, unknown>[]).entries()) {
    line.kind = "recorded";
    line.label = at === 0 ? "before" : "after";
    line.duration_ns = at === 0 ? 500_000_000 : 1_020_000_000;
  }
  const two = write(withStory(textOf(story.json, story.chunks)));
  const opened = await openReady(browser, two);
  const { page } = opened;
  assert.equal(await page.locator("#line-b").inputValue(), "1");
  assert.equal(await page.locator("#maps canvas").first().isVisible(), true);
  await page.waitForFunction(() => document.getElementById("sentence")!.textContent !== "");
  assert.match((await page.locator("#sentence").textContent())!, /^In 500 ms /);
  assert.match((await page.locator("#comparison").textContent())!, /after has/);
  await page.locator("#line-b").selectOption("-1");
  await hash(page, /with=(&|$)/);
  await page.reload();
  await page.waitForFunction(() => document.getElementById("app")!.hidden === false);
  assert.equal(await page.locator("#line-b").inputValue(), "-1");
  clean(opened);
  await opened.close();
});

test("the sentence at the top is made of the story's numbers", async () => {
  const opened = await openReady(browser, url);
  await opened.page.waitForFunction(() => document.getElementById("sentence")!.textContent !== "");
  const sentence = (await opened.page.locator("#sentence").textContent())!;
  const { lost, huge_free } = made.expected.lines.recorded;
  assert.match(sentence, new RegExp(`free huge frames went from ${huge_free[0].toLocaleString("en-GB")} to ${huge_free.at(-1)!.toLocaleString("en-GB")}`));
  assert.match(sentence, new RegExp(`of ${SMALL.pageblocks.toLocaleString("en-GB")} pageblocks were lost to huge frames, .* to requests with GFP_`));
  assert.match(sentence, new RegExp(`${lost[0].toLocaleString("en-GB")} were lost before the recording`));
  const [, fresh] = /; ([\d,]+) of [\d,]+ pageblocks/.exec(sentence)!;
  const back = /of which ([\d,]+) came back/.exec(sentence)?.[1] ?? "0";
  assert.equal(Number(fresh.replace(",", "")) - Number(back.replace(",", "")), lost.at(-1)! - lost[0]);
  await opened.close();
});

test("search by frame, pageblock, thread and gfp", async () => {
  const opened = await openReady(browser, url);
  const { page } = opened;
  const ask = async (text: string, answer: RegExp): Promise<void> => {
    await page.fill("#find", text);
    await page.waitForFunction((source) => new RegExp(source).test(document.getElementById("search-answer")!.textContent!), answer.source, { timeout: 5000 });
  };
  await ask("0x1400", /^Frame 5,120 is in pageblock 10,/);
  await ask("pfn:1048576", /pageblock 383, which is now selected/);
  await ask("pageblock:77", /^Pageblock 77 is now selected/);
  await ask("99999999999", /^The story has no frame/);
  await page.keyboard.press("Escape");
  await ask("thread:cc1", /keeps, 1 owner and [\d,]+ markers match/);
  await ask("gfp:ATOMIC", /keeps, 2 owners and 0 markers match/);
  await ask("no such thing", /keeps, 0 owners and 0 markers/);
  await ask("fragmented", /[1-9][\d,]* markers match/);
  await page.locator("#search-results button").first().click();
  await hash(page, /t=[1-9]/);
  clean(opened);
  await opened.close();
});

test("the hash keeps what is looked at, and a link shows it again", async () => {
  const first = await openReady(browser, url);
  await first.page.selectOption("#line-a", "1");
  await first.page.selectOption("#line-b", "2");
  await first.page.locator("#colours input[value=owner]").check({ force: true });
  await first.page.selectOption("#group", "thread");
  await first.page.fill("#find", "pageblock:300");
  await first.page.locator("#timeline").focus();
  await first.page.keyboard.press("Home");
  await first.page.keyboard.press("PageUp");
  await first.page.keyboard.press("+");
  await first.page.locator("#zoom-in").click();
  await hash(first.page, /t=400000000.*map=.*span=.*find=/);
  const link = first.page.url();
  const seen = (opened: typeof first): Promise<unknown> =>
    opened.page.evaluate(() => [
      ...["line-a", "line-b", "group", "find"].map((id) => (document.getElementById(id) as HTMLInputElement).value),
      ...["map-caption", "span", "now-title", "details"].map((id) => document.getElementById(id)!.textContent),
      document.querySelector<HTMLInputElement>("#colours input:checked")!.value,
    ]);
  await first.page.waitForTimeout(500);
  const before = await seen(first);
  const second = await openReady(browser, link);
  await second.page.waitForTimeout(1500);
  await first.page.waitForTimeout(500);
  assert.deepEqual(await seen(second), before);
  assert.equal(second.page.url(), link);
  clean(first);
  clean(second);
  await first.close();
  await second.close();
});

test("a hash that asks for what the story lacks shows the start", async () => {
  const opened = await openReady(browser, `${url}#t=-5&line=nobody&with=recorded&colour=__proto__&pageblock=99999999&map=9-2&span=x&by=constructor`);
  assert.equal(await opened.page.locator("#timeline").getAttribute("aria-valuenow"), "0");
  assert.equal(await opened.page.locator("#line-a").inputValue(), "0");
  clean(opened);
  await opened.close();
});

test("a hash with numbers beyond all bounds leaves the page whole", async () => {
  const huge = "9".repeat(400);
  for (const hash of [`span=${huge}-${huge}&map=${huge}-${huge}&pageblock=${huge}&t=${huge}`, "span=5-5&map=0-0&t=NaN", `map=1499-${"9".repeat(15)}&span=${"9".repeat(15)}-0`, "find=%&line=%ff&t"]) {
    const opened = await openReady(browser, `${url}#${hash}`);
    const { page } = opened;
    // The page writes the hash of what it shows: numbers, and no more than there are.
    await page.waitForFunction(() => {
      const numbers = location.hash.match(/(?:[#&]t|map|span)=[^&]*/g);
      return numbers !== null && numbers.every((part) => /^[#&]?\w+=\d{1,12}(-\d{1,12})?$/.test(part));
    }, null, { timeout: 5000 });
    await page.locator("#timeline").focus();
    await page.keyboard.press("Home");
    await page.waitForFunction((want) => document.querySelector("#now tbody tr")!.children[2].textContent === want, made.expected.lines.recorded.lost[0].toLocaleString("en-GB"));
    clean(opened);
    await opened.close();
  }
});

test("a button let go outside the map does not leave it dragged", async () => {
  const opened = await openReady(browser, url);
  const { page } = opened;
  const at = (await page.locator(".pane-box").first().boundingBox())!;
  await page.mouse.move(at.x + 200, at.y + 40);
  await page.mouse.down();
  await page.mouse.move(at.x + 200, at.y - 30);
  await page.mouse.up();
  await page.locator("#zoom-in").click();
  await page.locator("#zoom-in").click();
  await page.waitForFunction(() => document.getElementById("map-caption")!.textContent!.startsWith("pageblocks 563 to"));
  const caption = await page.locator("#map-caption").textContent();
  await page.mouse.move(at.x + 400, at.y + 40);
  await page.mouse.move(at.x + 120, at.y + 60);
  await page.waitForTimeout(100);
  assert.equal(await page.locator("#map-caption").textContent(), caption, "no button is pressed");
  await page.mouse.down();
  await page.mouse.move(at.x + 60, at.y + 60, { steps: 4 });
  await page.mouse.up();
  await page.waitForFunction((was) => document.getElementById("map-caption")!.textContent !== was, caption);
  // The wheel turned sideways is no zoom.
  const dragged = await page.locator("#map-caption").textContent();
  await page.mouse.wheel(120, 0);
  await page.waitForTimeout(150);
  assert.equal(await page.locator("#map-caption").textContent(), dragged);
  clean(opened);
  await opened.close();
});

test("everything can be reached and used by keys alone", async () => {
  const opened = await openReady(browser, url);
  const { page } = opened;
  const reached: string[] = [];
  for (let i = 0; i < 40; i++) {
    await page.keyboard.press("Tab");
    const focus = await page.evaluate(() => {
      const active = document.activeElement as HTMLElement;
      const style = getComputedStyle(active.matches("#colours input") ? active.nextElementSibling! : active);
      return { name: active.id || active.className || active.getAttribute("name") || active.tagName, outline: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 };
    });
    if (focus.name === "BODY") break;
    assert.ok(focus.outline, `${focus.name} shows that it has the focus`);
    reached.push(focus.name);
  }
  for (const id of ["theme", "help-open", "line-a", "line-b", "colour", "find", "pane-box", "zoom-in", "now", "tab-blame", "play", "speed", "timeline", "group"]) {
    assert.ok(reached.includes(id), `${id} is reached by Tab; reached: ${reached.join(", ")}`);
  }
  await page.locator("#timeline").focus();
  await page.keyboard.press("?");
  assert.ok(await page.locator("#help").isVisible());
  await page.keyboard.press("Escape");
  assert.ok(await page.locator("#help").isHidden());
  await page.keyboard.press("n");
  await hash(page, /t=[1-9]/);
  await page.locator("#tab-blame").focus();
  await page.keyboard.press("ArrowRight");
  assert.ok(await page.locator("#panel-details").isVisible());
  await page.keyboard.press("/");
  assert.equal(await page.evaluate(() => document.activeElement!.id), "find");
  clean(opened);
  await opened.close();
});

test("a summary in words follows for screen readers", async () => {
  const opened = await openReady(browser, url);
  const last = made.expected.lines["engine-1"].huge_free.at(-1)!;
  await opened.page.keyboard.press("End");
  await opened.page.waitForFunction((want) => document.getElementById("summary")!.textContent!.includes(want), `pageyard: ${last.toLocaleString("en-GB")} huge frames free`);
  await opened.close();
});

for (const colorScheme of ["light", "dark"] as const) {
  test(`axe finds nothing in ${colorScheme} colours`, async () => {
    const opened = await openReady(browser, `${url}#t=500000000&with=engine-1&pageblock=700&colour=owner`, { colorScheme });
    const { page } = opened;
    await page.waitForTimeout(800);
    for (const tab of ["blame", "details", "search", "about"]) {
      await page.locator(`#tab-${tab}`).click();
      await accessible(page, `${tab}, ${colorScheme}`);
    }
    await page.locator("#help-open").click();
    await accessible(page, `help, ${colorScheme}`);
    await page.locator("#help-close").click();
    await page.locator("#theme").click();
    await accessible(page, `switched from ${colorScheme}`);
    clean(opened);
    await opened.close();
  });
}

test("names from a trace are shown as text", async () => {
  // Ends of elements, a comment, what a template or a pattern would replace, overrides of direction, controls, a name of 70 kB.
  const hostile = `</script></title></style><img src=x onerror="window.hit=1"><b>&amp;\u2028\u202e\u2067\u0007\u0000\u001b[2J\n${"${1}"}$&{{script}}<!--`;
  const story = makeStory({ hostile, pageblocks: 400, moments: 64, touched: 60, keyframes: 2, segments: 2 });
  (story.json.threads as string[])[5] = `<img src=x onerror="window.hit=1">${"ab ".repeat(24_000)}`;
  const opened = await openReady(browser, `${write(withStory(textOf(story.json, story.chunks)))}#t=200000000&with=engine-1&colour=owner&find=slab`);
  const { page } = opened;
  await totals(page, SMALL.resolution_ns, 64, story.expected.lines, 3);
  for (const tab of ["blame", "details", "search", "about"]) {
    await page.locator(`#tab-${tab}`).click();
    await escapes(page);
  }
  await map(page);
  await colourings(page);
  await page.fill("#find", "pageblock:399");
  await page.locator("#timeline").focus();
  await page.keyboard.press("End");
  await page.waitForTimeout(800);
  await page.evaluate(() => document.querySelectorAll(".tab").forEach((tab) => tab.classList.add("shown")));
  await escapes(page);
  const spelt = hostile.replace(/[\u2028\u202e\u2067\u0000\u0007\u001b\n]/g, (c) => (c === "\n" ? "\\n" : `\\u{${c.charCodeAt(0).toString(16)}}`));
  for (const selector of ["h1", "#subtitle", "#now", "#legend", "#panel-blame", "#panel-details", "#panel-about", "#line-a"]) {
    const text = (await page.locator(selector).textContent())!.replaceAll("\u200b", "");
    assert.ok(text.includes(spelt), `${selector} has the name as text: ${text.slice(0, 300)}`);
  }
  await page.fill("#find", "thread:<img");
  await page.waitForFunction(() => /[1-9]\d* markers? match/.test(document.getElementById("search-answer")!.textContent!));
  await escapes(page);
  const { width, inner } = await page.evaluate(() => ({ width: document.documentElement.scrollWidth, inner: innerWidth }));
  assert.ok(width <= inner, "a long name does not make the page wider");
  clean(opened);
  await opened.close();
});

test("machines of more than 65,000 pageblocks are binned, and the page says so", async () => {
  const story = makeStory({ pageblocks: 140_000, moments: 24, touched: 400, segments: 2, lines: 2, keyframes: 0 });
  const opened = await openReady(browser, write(withStory(story.text)));
  await totals(opened.page, SMALL.resolution_ns, 24, story.expected.lines, 5);
  assert.match((await opened.page.locator("#map-caption").textContent())!, /a cell is 4 pageblocks \(8 MiB\) and shows the worst/);
  await map(opened.page);
  await colourings(opened.page);
  await lines(opened.page, SMALL.resolution_ns, 24, story.expected.lines);
  clean(opened);
  await opened.close();
});

test("small stories: one moment after the opening, one line, few pageblocks, no keyframe", async () => {
  for (const options of [
    { moments: 2, segments: 1 },
    { lines: 1, pageblocks: 9, touched: 4, failures: false },
    { keyframes: 0, segments: 256 },
  ]) {
    const story = makeStory(options);
    const opened = await openReady(browser, write(withStory(story.text)));
    await totals(opened.page, SMALL.resolution_ns, story.expected.moments, story.expected.lines, 9);
    await opened.page.keyboard.press("End");
    await opened.page.waitForTimeout(400);
    clean(opened);
    await opened.close();
  }
});

test("it prints in light colours, with the figures and the blame", async () => {
  const opened = await openReady(browser, `${url}#t=1e12`, { colorScheme: "dark" });
  const { page } = opened;
  await page.waitForTimeout(600);
  const light = async (): Promise<number> => {
    const seen = [...(await pixels(page, 0))];
    const bright = seen.filter(([colour]) => colour.split(",").every((part) => Number(part) > 120));
    return bright.reduce((sum, [, { count }]) => sum + count, 0) / seen.reduce((sum, [, { count }]) => sum + count, 0);
  };
  assert.ok((await light()) < 0.2, "dark on a dark screen");
  // What the page is made of between the browser's two events, which is when it is laid out for paper.
  await page.evaluate(() => {
    window.dispatchEvent(new Event("beforeprint"));
  });
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "light");
  assert.ok((await light()) > 0.5, "light on paper");
  await page.evaluate(() => {
    window.dispatchEvent(new Event("afterprint"));
  });
  await page.waitForTimeout(100);
  assert.ok((await light()) < 0.2, "dark again");
  await page.evaluate(() => {
    const seen = window as unknown as { printed: string[] };
    seen.printed = [];
    for (const type of ["beforeprint", "afterprint"]) window.addEventListener(type, () => seen.printed.push(`${type} ${document.documentElement.dataset.theme}`));
  });
  const pdf = await page.pdf({ format: "A4", landscape: true, printBackground: true });
  assert.ok(pdf.length > 20_000);
  assert.deepEqual(await page.evaluate(() => (window as unknown as { printed: string[] }).printed), ["beforeprint light", "afterprint dark"]);
  await page.emulateMedia({ media: "print" });
  for (const id of ["title", "sentence", "now", "charts", "maps", "legend", "panel-blame", "panel-about"]) assert.ok(await page.locator(`#${id}`).isVisible(), `${id} is printed`);
  for (const id of ["play", "theme", "find", "panel-search", "zoom-in"]) assert.ok(await page.locator(`#${id}`).isHidden(), `${id} is not printed`);
  clean(opened);
  await opened.close();
});
