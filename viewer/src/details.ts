// What is in a pageblock, since when, and what keeps it from being whole, in sentences.
import type { App, Line } from "./app";
import { ABSENT, FULL, LOST, PARTLY, WHOLE } from "./condition";
import { byId, el, say } from "./dom";
import { history } from "./history";
import { LostRows } from "./lost";
import { TYPES } from "./schemes";
import { BEFORE, UNKNOWN } from "./state";
import { firstPfn, NONE, type Owner } from "./story";
import { address, breakable, counted, listed, number, span, time, zoneOfName } from "./text";

const SHORT = ["whole and free", "part free, the rest can move", "in use, all can move", "lost", "not there"];

/** When a condition began, in words that follow "since". */
function began(app: App, line: Line, pageblock: number): string {
  const since = line.state.since()(pageblock);
  if (since === BEFORE) return "before the recording";
  if (since === UNKNOWN) return `${time(line.state.segment!.from * app.story.resolution_ns)} or longer`;
  return time(since * app.story.resolution_ns);
}

/** One line for the pointer's label and for screen readers. */
export function headline(app: App, line: Line, pageblock: number): string {
  const { segment, rows } = line.state;
  if (!segment) return `Pageblock ${number(pageblock)}`;
  const row = rows[pageblock];
  const condition = segment.condition[row];
  const owner = app.story.owners[segment.owner[row]];
  const who = condition === LOST && owner ? ` to ${owner.label}` : "";
  const since = condition === ABSENT ? "" : ` since ${began(app, line, pageblock)}`;
  return `Pageblock ${number(pageblock)}: ${SHORT[condition]}${who}${since}`;
}

/** An owner with all that is known of it, each thing once. */
function described(owner: Owner): string {
  const label = owner.label || owner.class || "something not known";
  const more: [string, string][] = [["gfp", owner.gfp], ["thread", owner.thread], ["context", owner.context]];
  const known = more.filter(([, value]) => value !== "" && !label.includes(value)).map(([name, value]) => (value.startsWith(name) ? value : `${name} ${value}`));
  return breakable(`${label}${known.length ? ` (${known.join(", ")})` : ""}`);
}

function content(app: App, line: Line, pageblock: number): string {
  const { segment, rows } = line.state;
  const row = rows[pageblock];
  const parts: string[] = [];
  const part = (frames: number, what: string): void => {
    if (frames > 0) parts.push(`${number(frames)} ${what}`);
  };
  part(segment!.movable[row], "movable");
  part(segment!.unmovable[row], "unmovable");
  part(segment!.reclaimable[row], "reclaimable");
  part(segment!.pinned[row], "pinned or not known to be movable");
  const free = segment!.free[row];
  const largest = segment!.largest[row];
  const open = free === 0 ? "none is free" : `${number(free)} ${free === 1 ? "is" : "are"} free${largest <= 20 ? `, the largest free block of order ${largest}` : ""}`;
  return `Of its ${number(app.story.pageblock_frames)} frames ${open}${parts.length ? `; ${listed(parts)}` : ""}.`;
}

function sentences(app: App, line: Line, pageblock: number, lost: LostRows | null): string[] {
  const { segment, rows } = line.state;
  const row = rows[pageblock];
  const condition = segment!.condition[row];
  const at = time(line.state.moment * app.story.resolution_ns);
  const owner = segment!.owner[row];
  if (condition === ABSENT) return ["No frame of it is there."];
  const exact = condition === LOST ? (lost?.sinceIn(pageblock, line.state.since()(pageblock)) ?? null) : null;
  const since = exact === null ? began(app, line, pageblock) : time(exact);
  const out = [content(app, line, pageblock)];
  if (condition === WHOLE) out.unshift(`At ${at} it is whole and free, since ${since}.`);
  if (condition === PARTLY) out.unshift(`At ${at} part of it is free and the rest can move, since ${since}: compaction could make it whole.`);
  if (condition === FULL) out.unshift(`At ${at} all of it is in use and can move, since ${since}.`);
  if (condition === LOST) {
    const reason = exact === null ? null : lost?.reason(pageblock);
    out.unshift(`At ${at} it is lost to huge frames, since ${since}${reason ? `: ${reason}` : ""}.`);
    const holders = segment!.unmovable[row] + segment!.reclaimable[row] + segment!.pinned[row];
    const who = owner === NONE ? "an owner that the recording does not name" : described(app.story.owners[owner]);
    out.push(`What keeps it from being whole: ${counted(holders, "frame")} that cannot move, the oldest of them held by ${who}.`);
  }
  out.push(`Its type is ${TYPES[segment!.type[row]] ?? "not known"}.`);
  const end = exact === null ? lost?.sentence(pageblock) : null;
  if (end) out.push(end);
  return out;
}

export class Details {
  private readonly box = byId("details");
  private readonly live = byId("selection-live");
  private readonly lost = new Map<number, LostRows | null>();
  private key = "";

  constructor(private readonly app: App) {
    app.listen((changed) => {
      this.draw();
      if (changed.has("selected") && app.view.selected >= 0) say(this.live, headline(app, app.a, app.view.selected));
    });
  }

  private lostOf(line: Line): LostRows | null {
    const there = this.lost.get(line.index);
    if (there !== undefined || !line.ref.lost) return there ?? null;
    this.lost.set(line.index, null);
    Promise.all([this.app.decoder.columns(line.ref.lost.chunk), this.app.decoder.columns(line.ref.lost.holders)])
      .then(([rows, holders]) => {
        this.lost.set(line.index, new LostRows(this.app, rows, holders));
        this.app.touch("data");
      })
      .catch(this.app.fail);
    return null;
  }

  private draw(): void {
    const { app } = this;
    const { selected } = app.view;
    const lines = app.b ? [app.a, app.b] : [app.a];
    if (selected < 0 || lines.some((line) => !line.state.segment)) {
      this.key = "";
      this.box.replaceChildren(el("p", { class: "quiet", text: "Click a cell of the map, or move to it with the arrow keys, to read what is in that pageblock." }));
      return;
    }
    const parts = lines.map((line) => ({ line, text: sentences(app, line, selected, this.lostOf(line)), holders: this.lostOf(line)?.holders(selected) ?? [], past: history(app, line, selected) }));
    const key = JSON.stringify([selected, parts.map(({ text, holders, past }) => [text, holders, past])]);
    if (key === this.key) return;
    this.key = key;
    const pfn = firstPfn(app.story, selected);
    const frames = app.story.pageblock_frames;
    const place = pfn === null ? "" : `, frames ${number(pfn)} to ${number(pfn + frames - 1)}, at ${address(app.story, selected)}`;
    this.box.replaceChildren(
      el("h3", { text: `Pageblock ${number(selected)}` }),
      el("p", { class: "quiet", text: `Zone ${zoneOfName(app.story, selected)}${place}.` }),
      ...parts.flatMap(({ line, text, holders, past }) => [
        ...(lines.length > 1 ? [el("h4", { text: line.ref.label })] : []),
        ...text.map((sentence) => el("p", { text: sentence })),
        ...(holders.length > 0 ? [el("h4", { text: "Who holds it at the end" }), el("ul", { class: "plain" }, ...holders.map((holder) => el("li", { text: holder })))] : []),
        ...(past.length > 1
          ? [
              el("h4", { text: "What it was" }),
              el("ul", { class: "plain" }, ...past.map((was) => el("li", {}, this.jump(was.from), ` ${SHORT[was.condition]}, ${span(was.lasted)}`))),
            ]
          : []),
      ]),
    );
  }

  private jump(ns: number): HTMLElement {
    return el("button", { type: "button", class: "link", click: () => this.app.set({ time: ns }), text: time(ns) });
  }
}
