// Opens the story that the page carries and puts the parts together.
import { about } from "./about";
import { App, type Line } from "./app";
import { BlameTable } from "./blame";
import type { Columns } from "./chunks";
import { force } from "./colours";
import { controls, tabs, themes } from "./controls";
import { Decoder, missing } from "./decoder";
import { Details } from "./details";
import { byId, el, say } from "./dom";
import { fromHash, keepHash } from "./hash";
import { keyboard } from "./keyboard";
import { Maps } from "./maps";
import { Now } from "./now";
import { lostByOwner, weigh } from "./owners";
import { Player } from "./play";
import { Brushed } from "./brushed";
import { Search } from "./search";
import { compareSentence, headSentence, trustSentence } from "./sentence";
import { LineState, type Markers, type Series, type Totals } from "./state";
import { momentAt, parseStory, StoryError, type LineRef, type Story } from "./story";
import { Timeline } from "./timeline";
import { counted, span } from "./text";

/** Memory for unpacked segments, shared by the lines. */
const BUDGET = 400 << 20;

interface StateAt {
  time_ns: number;
  moment: number;
  lines: Record<string, Totals>;
}

declare global {
  interface Window {
    pageyard: { ready: Promise<void>; stateAt: (time_ns: number) => Promise<StateAt> };
  }
}

/** Says in one sentence what went wrong, in place of what cannot be shown. */
function fail(error: unknown): void {
  const box = byId("trouble");
  const text = error instanceof StoryError ? error.message : `The page cannot go on: ${(error as Error).message}.`;
  say(box, text);
  box.hidden = false;
}

function needed<T>(columns: Columns, names: (keyof T)[], what: string): T {
  for (const name of names) {
    if (!columns[name as string]) throw new StoryError(`The story in this page is damaged: ${what} have no column \`${String(name)}\`. Write the page again with \`pageyard map\`.`);
  }
  return columns as unknown as T;
}

async function openLine(story: Story, decoder: Decoder, ref: LineRef, index: number): Promise<Line> {
  const series = needed<Series>(await decoder.columns(ref.series.chunk), ["free_frames", "huge_free", "lost", "failures", "fallbacks", "steals", "compactions"], "series");
  const markers = needed<Markers>(await decoder.columns(ref.markers.chunk), ["time_ns", "kind", "order", "thread", "reason"], "markers");
  for (let i = 1; i < markers.time_ns.length; i++) {
    if (!(markers.time_ns[i] >= markers.time_ns[i - 1])) throw new StoryError("The story in this page is damaged: its markers are out of order. Write the page again with `pageyard map`.");
  }
  return { ref, index, series, markers, state: new LineState(ref, story, decoder, BUDGET / story.lines.length) };
}

async function open(): Promise<App> {
  const lacking = missing();
  if (lacking) throw new StoryError(lacking);
  const element = document.getElementById("pageyard-story");
  if (!element) throw new StoryError("This page holds no story yet: `pageyard map TRACE -o map.html` writes one that does.");
  const story = parseStory(element.textContent ?? "");
  document.title = `${story.title || story.name} · Pageyard`;
  say(byId("title"), story.name);
  say(byId("subtitle"), `${span(story.duration_ns)} of ${/^\d/.test(story.kernel) ? "Linux " : ""}${story.kernel}, ${counted(story.cpus, "CPU")}, ${counted(story.events, "event")}`);
  const decoder = new Decoder(story);
  const lines = await Promise.all(story.lines.map((ref, index) => openLine(story, decoder, ref, index)));
  const app = new App(story, decoder, lines, fail);
  Object.assign(app.view, fromHash(app, location.hash));
  app.set({});
  // A segment that is damaged leaves the other times to look at.
  await Promise.all([app.a, app.b].map((line) => line && line.state.load(line.state.segmentAt(app.moment)).catch(fail)));
  return app;
}

let unpacking = false;

/** Unpacks the rest while nobody waits, one segment after the other, so that scrubbing and ages know all of the time. */
async function unpackAhead(app: App): Promise<void> {
  if (unpacking) return;
  unpacking = true;
  for (;;) {
    const line = [app.a, app.b].find((line) => line && line.state.ahead() >= 0);
    if (!line) break;
    // One that is damaged is not asked for again.
    await line.state.load(line.state.ahead(), true).catch(fail);
    app.touch("data");
  }
  unpacking = false;
}

async function sentences(app: App): Promise<void> {
  const line = app.a;
  const put = (id: string, parts: string[]): void => byId(id).replaceChildren(...parts.map((text, i) => (i % 2 === 1 ? el("strong", { text }) : text)));
  put("trust", trustSentence(app));
  byId("trust").dataset.level = app.story.trust?.level ?? "";
  const sentence = await headSentence(app, line);
  if (app.a !== line) return;
  put("sentence", sentence);
  say(byId("comparison"), compareSentence(app, line));
}

/** Orders owners by what they hold at the end, which no scrubbing changes. */
async function weighOwners(app: App): Promise<void> {
  const by = new Uint32Array(app.story.owners.length + 1);
  const { state, ref } = app.a;
  for (const index of new Set([0, ref.segments.length - 1])) {
    const segment = await state.load(index);
    lostByOwner(app.story, segment, segment.last).forEach((n, i) => (by[i] += n));
  }
  weigh(by);
  app.touch("data");
}

async function start(): Promise<void> {
  force(null);
  const app = await open();
  byId("app").hidden = false;
  byId("opening").hidden = true;
  controls(app);
  themes(app);
  const showTab = tabs();
  const player = new Player(app);
  new Maps(app);
  new Timeline(app);
  new Now(app);
  new Brushed(app);
  new Details(app);
  new BlameTable(app);
  new Search(app, () => showTab("tab-search"));
  about(app);
  keyboard(app, player);
  keepHash(app);
  app.listen((changed) => {
    if (changed.has("selected") && app.view.selected >= 0) showTab("tab-details");
    if (changed.has("a")) void sentences(app).catch(fail);
    if (changed.has("a") || changed.has("b")) void unpackAhead(app);
  });
  window.pageyard.stateAt = async (time_ns): Promise<StateAt> => {
    const moment = momentAt(app.story, time_ns);
    const totals = await Promise.all(app.lines.map((line) => line.state.totalsAt(moment)));
    return { time_ns, moment, lines: Object.fromEntries(app.lines.map((line, i) => [line.ref.id, totals[i]])) };
  };
  if (app.view.selected >= 0) showTab("tab-details");
  for (const key of ["size", "theme", "find"] as const) app.touch(key);
  app.flush();
  void Promise.all([weighOwners(app), sentences(app)])
    .catch(fail)
    .then(() => unpackAhead(app));
}

const ready = start();
// Asked early, it waits; `start` puts the real one in its place.
window.pageyard = { ready, stateAt: (time_ns) => ready.then(() => window.pageyard.stateAt(time_ns)) };
ready.catch((error: unknown) => {
  byId("opening").hidden = true;
  fail(error);
});
