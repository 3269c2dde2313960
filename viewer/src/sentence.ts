// The sentences at the top: what changed, when, and by whom, from the story's own numbers.
import type { App, Line } from "./app";
import { ABSENT, LOST } from "./condition";
import { whatOf } from "./owners";
import { NONE, type Owner } from "./story";
import { counted, number, span, time } from "./text";

/** Pageblocks lost at moment `to` and not at moment `from`, by owner; the last entry counts those without one. */
async function newlyLost(app: App, line: Line, from: number, to: number): Promise<{ there: number; total: number; back: number; by: Uint32Array }> {
  const first = await line.state.at(from);
  const last = await line.state.at(to);
  const by = new Uint32Array(app.story.owners.length + 1);
  let there = 0;
  let total = 0;
  let back = 0;
  for (let pageblock = 0; pageblock < app.story.pageblocks; pageblock++) {
    const row = last.rows[pageblock];
    const lost = last.segment.condition[row] === LOST;
    // Of two recordings' pageblocks, a line has those of its own machine.
    if (last.segment.condition[row] !== ABSENT) there++;
    if (first.segment.condition[first.rows[pageblock]] === LOST) back += lost ? 0 : 1;
    else if (lost) {
      total++;
      const owner = last.segment.owner[row];
      by[owner === NONE ? app.story.owners.length : owner]++;
    }
  }
  return { there, total, back, by };
}

/** A request in few words: its first flag, and where it came from. */
function brief(owner: Owner): string {
  if (!owner.gfp) return whatOf(owner);
  const [first, ...more] = owner.gfp.split("|");
  const flags = more.length > 0 ? `${first.trim()} and ${counted(more.length, "more flag")}` : first;
  return `requests with ${flags}${owner.context ? ` in ${owner.context} context` : ""}`;
}

/** The requests that most of them were lost to, and the thread that made more than half of those. */
function blamed(app: App, total: number, by: Uint32Array): string {
  const names = new Map<string, { count: number; brief: string; threads: Map<string, number> }>();
  app.story.owners.forEach((owner, i) => {
    if (by[i] === 0) return;
    const what = whatOf(owner);
    const group = names.get(what) ?? { count: 0, brief: brief(owner), threads: new Map<string, number>() };
    group.count += by[i];
    if (owner.thread) group.threads.set(owner.thread, (group.threads.get(owner.thread) ?? 0) + by[i]);
    names.set(what, group);
  });
  const top = [...names.values()].sort((a, b) => b.count - a.count)[0];
  const unknown = by[app.story.owners.length];
  if (!top || unknown > top.count) return unknown > 0 ? `, ${number(unknown)} of them to owners that the recording does not name` : "";
  const [thread, times] = [...top.threads].sort((a, b) => b[1] - a[1])[0] ?? ["", 0];
  const who = times * 2 <= top.count ? "" : times === top.count ? ` by ${thread}` : `, ${number(times)} of those by ${thread}`;
  const share = top.count === total ? (total === 1 ? "" : " all") : ` ${top.count * 2 > total ? "most" : "the largest share"} (${number(top.count)})`;
  return `,${share} to ${top.brief}${who}`;
}

function failed(app: App, line: Line): string {
  const failures = line.series.failures[app.story.moments - 1];
  const lost = app.story.trust?.lost ?? 0;
  if (failures === 0) return lost > 0 ? "no failed allocation was seen" : "no allocation failed";
  const first = line.markers.kind.indexOf(0);
  return `${lost > 0 ? "at least " : ""}${counted(failures, "allocation")} failed${first < 0 ? "" : `, first at ${time(line.markers.time_ns[first])}`}`;
}

/** How free huge frames went: from, to, and when they were fewest if that was not at an end. */
function huge(app: App, line: Line): [string, string] {
  const { huge_free } = line.series;
  const last = app.story.moments - 1;
  let fewest = 0;
  for (let i = 1; i <= last; i++) if (huge_free[i] < huge_free[fewest]) fewest = i;
  const [from, to] = [huge_free[0], huge_free[last]];
  const went = from === to ? `free huge frames are ${number(to)} at the end as at the start` : `free huge frames went from ${number(from)} to ${number(to)}`;
  const low = huge_free[fewest] < Math.min(from, to) ? ` (fewest ${number(huge_free[fewest])}, at ${time(fewest * app.story.resolution_ns)})` : "";
  return [went, low];
}

/** Whether so much speaks against what the page shows of a line that nothing is concluded from it. */
function doubted(app: App, line: Line): boolean {
  const { trust } = app.story;
  return trust !== null && (line.ref.kind === "recorded" ? trust.recording : trust.level) === "low";
}

/** How far the page can be trusted, the verdict first; empty in a page that does not say. */
export function trustSentence(app: App): string[] {
  const { trust } = app.story;
  if (!trust) return [];
  const why = trust.reasons.length > 0 ? trust.reasons.join("; ") : "no event was lost";
  return ["Trust: ", trust.level, `: ${why}.`];
}

/** The sentence of the line shown; every second part is what to read first. */
export async function headSentence(app: App, line: Line): Promise<string[]> {
  if (doubted(app, line)) return ["What is shown of this line is not what happened, and nothing is concluded from it."];
  const { there, total, back, by } = await newlyLost(app, line, 0, app.story.moments - 1);
  const all = app.second < 0 ? app.story.pageblocks : there;
  const before = line.series.lost[0];
  const [went, low] = huge(app, line);
  const lost = `${total === 0 ? "no pageblock" : number(total)} of ${number(all)}${total === 0 ? "" : " pageblocks"} ${total < 2 ? "was" : "were"} lost to huge frames`;
  const known = `; ${number(before)} ${before === 1 ? "was" : "were"} lost before the recording${back > 0 ? `, of which ${number(back)} came back` : ""}; `;
  return [`In ${span(line.ref.duration_ns ?? app.story.duration_ns)} `, went, `${low}; `, lost, `${total === 0 ? "" : blamed(app, total, by)}${known}`, failed(app, line), "."];
}

/** Says how many pageblocks became lost between two moments, and to whom. */
export async function betweenSentence(app: App, line: Line, from: number, to: number): Promise<string> {
  if (doubted(app, line)) return "Nothing is concluded from this line.";
  const { total, back, by } = await newlyLost(app, line, from, to);
  const returned = back > 0 ? `; ${number(back)} came back` : "";
  if (total === 0) return `${line.ref.label}: no pageblock became lost to huge frames${returned}.`;
  return `${line.ref.label}: ${counted(total, "pageblock")} became lost to huge frames${blamed(app, total, by)}${returned}.`;
}

/** How the lines differ at the end; empty when there is one. */
export function compareSentence(app: App, line: Line): string {
  const end = app.story.moments - 1;
  const others = app.lines.filter((other) => other !== line);
  if (others.length === 0 || app.story.trust?.level === "low") return "";
  const own = line.series.huge_free[end];
  const words = others.slice(0, 3).map((other) => {
    const more = other.series.huge_free[end] - own;
    const than = more === 0 ? "as many" : `${number(Math.abs(more))} ${more > 0 ? "more" : "fewer"}`;
    return `${other.ref.label} has ${than}`;
  });
  return `At the end ${line.ref.label} has ${counted(own, "huge frame")} free; ${words.join(", ")}.`;
}
