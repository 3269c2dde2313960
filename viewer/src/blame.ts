// Who holds what is lost: pageblocks lost at the moment, put together by owner, thread, gfp, context or class.
import { GROUPS, type App, type Group, type Line } from "./app";
import { palette } from "./colours";
import { LOST } from "./condition";
import { byId, el, swatch } from "./dom";
import { groupOf, groups } from "./owners";
import { BEFORE, UNKNOWN } from "./state";
import { breakable, number } from "./text";

export interface Blame {
  name: string;
  /** Pageblocks lost at the moment, how many of them were lost at no time before the recording, frames that cannot move. */
  pageblocks: number;
  during: number;
  frames: number;
  /** The group's place among all, or -1 where no owner is known. */
  group: number;
}

const MOST_ROWS = 100;
const UNNAMED = "owner not known";

/** The blame of a line at its moment, most pageblocks first. */
export function blame(app: App, line: Line): Blame[] {
  const { segment, rows, opening } = line.state;
  if (!segment) return [];
  const { names, of } = groups(app);
  const since = line.state.since();
  const table: Blame[] = names.map((name, group) => ({ name, pageblocks: 0, during: 0, frames: 0, group }));
  table.push({ name: UNNAMED, pageblocks: 0, during: 0, frames: 0, group: -1 });
  for (let pageblock = 0; pageblock < rows.length; pageblock++) {
    const row = rows[pageblock];
    if (segment.condition[row] !== LOST) continue;
    const group = groupOf(of, segment.owner[row]);
    const entry = table[group < 0 ? names.length : group];
    entry.pageblocks++;
    entry.frames += segment.unmovable[row] + segment.reclaimable[row] + segment.pinned[row];
    const from = since(pageblock);
    if (from !== BEFORE && !(from === UNKNOWN && opening?.[pageblock] === 1)) entry.during++;
  }
  return table.filter((entry) => entry.pageblocks > 0).sort((a, b) => b.pageblocks - a.pageblocks || b.frames - a.frames);
}

const NAMES: Record<Group, string> = { what: "request", owner: "owner", thread: "thread", gfp: "gfp", context: "context", class: "class" };

export class BlameTable {
  private readonly body = el("tbody");
  private readonly head = el("tr");
  private readonly note = byId("blame-note");
  private timer = 0;
  private drawn = 0;

  constructor(private readonly app: App) {
    const select = byId<HTMLSelectElement>("group");
    for (const group of GROUPS) select.append(el("option", { value: group, text: NAMES[group] }));
    select.addEventListener("change", () => app.set({ group: select.value as Group }));
    byId("blame").append(el("table", { class: "data" }, el("thead", {}, this.head), this.body));
    app.listen(() => {
      select.value = app.view.group;
      // While the reader scrubs, the table follows a few times a second: it is read at rest.
      clearTimeout(this.timer);
      const wait = Math.max(0, 200 - (performance.now() - this.drawn));
      this.timer = window.setTimeout(() => this.draw(), wait);
    });
  }

  private draw(): void {
    this.drawn = performance.now();
    const { app } = this;
    const rows = blame(app, app.a);
    const beside = app.b ? new Map(blame(app, app.b).map((row) => [row.group, row.pageblocks])) : null;
    // An owner that holds pageblocks in the second line alone has a row as well.
    for (const [group] of beside ?? []) {
      if (rows.every((row) => row.group !== group)) rows.push({ name: group < 0 ? UNNAMED : groups(app).names[group], pageblocks: 0, during: 0, frames: 0, group });
    }
    const colours = palette();
    const titles = app.b ? [NAMES[app.view.group], app.a.ref.label, app.b.ref.label] : [NAMES[app.view.group], "lost", "in recording", "frames"];
    this.head.replaceChildren(...titles.map((text, i) => el("th", { scope: "col", class: i > 0 ? "num" : "", text })));
    const total = rows.reduce((sum, row) => sum + row.pageblocks, 0);
    const rest = rows.length > MOST_ROWS ? ` The table has the first ${MOST_ROWS} of ${number(rows.length)} rows.` : "";
    const told = app.b
      ? `Pageblocks lost at this moment: ${number(total)} and ${number([...beside!.values()].reduce((sum, n) => sum + n, 0))}.`
      : `${number(total)} pageblocks of ${app.a.ref.label} are lost at this moment. “In recording” counts those lost after it began, “frames” what cannot move.`;
    this.note.textContent = told + rest;
    this.body.replaceChildren(
      ...rows.slice(0, MOST_ROWS).map((row) => {
        const colour = row.group < 0 ? colours.old : row.group < groups(app).holding ? (colours.groups[row.group] ?? colours.others) : colours.others;
        const name = app.view.colour === "owner" ? [swatch(colour), breakable(row.name)] : [breakable(row.name)];
        const cell = (value: number): HTMLElement => el("td", { class: "num", text: number(value) });
        return el("tr", {}, el("th", { scope: "row" }, ...name), cell(row.pageblocks), ...(beside ? [cell(beside.get(row.group) ?? 0)] : [cell(row.during), cell(row.frames)]));
      }),
    );
  }
}
