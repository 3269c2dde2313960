// Finds frames, pageblocks, threads, gfp flags and markers in what the story keeps.
import type { App } from "./app";
import { byId, el, say } from "./dom";
import { lostByOwner } from "./owners";
import { pageblockOf } from "./story";
import { breakable, counted, number, time } from "./text";

const MOST_MARKERS = 50;
const MOST_OWNERS = 50;

export interface Query {
  field: "pfn" | "pageblock" | "thread" | "gfp" | "any";
  text: string;
  value: number | null;
}

/** Reads "pfn:4096", "0x1000", "pageblock:8", "thread:cc1", "gfp:ATOMIC", or any text. */
export function parseQuery(input: string): Query | null {
  const match = /^\s*(?:(pfn|pageblock|thread|gfp)\s*:)?\s*(.*?)\s*$/i.exec(input);
  const text = match?.[2] ?? "";
  if (text === "") return null;
  const value = /^(0x[0-9a-f]+|\d+)$/i.test(text) ? Number(text) : null;
  const named = match?.[1]?.toLowerCase() as Query["field"] | undefined;
  return { field: named ?? (value === null ? "any" : "pfn"), text: text.toLowerCase(), value };
}

export class Search {
  private readonly input = byId<HTMLInputElement>("find");
  private readonly answer = byId("search-answer");
  private readonly results = byId("search-results");
  private fresh = true;
  private timer = 0;

  constructor(
    private readonly app: App,
    private readonly show: () => void,
  ) {
    this.input.addEventListener("input", () => app.set({ find: this.input.value }));
    byId("search-form").addEventListener("submit", (event) => {
      event.preventDefault();
      app.set({ find: this.input.value });
      this.run(true, true);
    });
    app.listen((changed) => {
      if (changed.has("find")) {
        if (this.input.value !== app.view.find) this.input.value = app.view.find;
        this.run(false, !changed.has("selected") && !(this.fresh && app.view.selected >= 0));
        this.fresh = false;
      } else if (app.found && (changed.has("a") || changed.has("time") || changed.has("data"))) {
        // What was found holds other pageblocks at another moment: counted again at rest.
        clearTimeout(this.timer);
        this.timer = window.setTimeout(() => this.run(false, false), 300);
      }
    });
  }

  /** Looks again. `go` also moves the map to a frame that was found, `select` selects its pageblock. */
  private run(go: boolean, select: boolean): void {
    const { app } = this;
    const query = parseQuery(app.view.find);
    const before = app.found;
    app.found = null;
    const results: HTMLElement[] = [];
    if (!query) {
      say(this.answer, "Search by frame number, thread or gfp: 0x12345, thread:cc1, gfp:ATOMIC, pageblock:12. The map dims what does not match.");
    } else if (query.field === "pfn" || query.field === "pageblock") this.place(query, go, select);
    else results.push(...this.owners(query));
    // A list that stayed the same stays as it is, so that what has the focus keeps it.
    if (results.map((item) => item.textContent).join() !== [...this.results.children].map((item) => item.textContent).join()) this.results.replaceChildren(...results);
    if (query && select) this.show();
    if (before || app.found) app.touch("found");
  }

  private place(query: Query, go: boolean, select: boolean): void {
    const { app } = this;
    const { value } = query;
    const pageblock = value === null ? null : query.field === "pfn" ? pageblockOf(app.story, value) : value;
    if (pageblock === null || !(pageblock < app.story.pageblocks)) {
      say(this.answer, value === null ? `“${query.text}” is not a number.` : `The story has no ${query.field === "pfn" ? "frame" : "pageblock"} ${number(value)}.`);
      return;
    }
    say(this.answer, query.field === "pfn" ? `Frame ${number(value!)} is in pageblock ${number(pageblock)}, which is now selected.` : `Pageblock ${number(pageblock)} is now selected.`);
    if (select) app.set({ selected: pageblock });
    if (go && app.view.count > 1024) app.set({ first: pageblock - 32, count: 64 });
  }

  private owners(query: Query): HTMLElement[] {
    const { app } = this;
    const { story } = app;
    const matches = (text: string): boolean => text.toLowerCase().includes(query.text);
    const found = new Uint8Array(story.owners.length);
    story.owners.forEach((owner, i) => {
      const fields = query.field === "thread" ? [owner.thread] : query.field === "gfp" ? [owner.gfp] : [owner.label, owner.thread, owner.gfp, owner.context, owner.class];
      if (fields.some(matches)) found[i] = 1;
    });
    app.found = found;
    const { segment, rows } = app.a.state;
    const counts = segment ? lostByOwner(story, segment, rows) : new Uint32Array(story.owners.length + 1);
    const total = counts.subarray(0, found.length).reduce((sum, count, i) => sum + (found[i] === 1 ? count : 0), 0);
    const owners = [...found.keys()].filter((i) => found[i] === 1).sort((x, y) => counts[y] - counts[x]);
    const markers = query.field === "gfp" ? [] : this.markers(matches, query.field === "any");
    say(
      this.answer,
      `Of what the story keeps, ${counted(owners.length, "owner")} and ${counted(markers.length, "marker")} match; the owners hold ${number(total)} of the pageblocks lost at this moment.`,
    );
    const results: HTMLElement[] = [];
    for (const i of owners.slice(0, MOST_OWNERS)) {
      const owner = story.owners[i];
      results.push(el("li", {}, `${breakable(owner.label || "not known")}${owner.class ? ` (${owner.class})` : ""}: ${counted(counts[i], "pageblock")}`));
    }
    if (owners.length > MOST_OWNERS) results.push(el("li", { class: "quiet", text: `and ${counted(owners.length - MOST_OWNERS, "other owner")}` }));
    const times = app.a.markers;
    for (const i of markers.slice(0, MOST_MARKERS)) {
      const reason = story.reasons[times.reason[i]];
      const thread = story.threads[times.thread[i]];
      results.push(
        el(
          "li",
          {},
          el("button", { type: "button", class: "link", click: () => app.set({ time: times.time_ns[i] }), text: time(times.time_ns[i]) }),
          ` ${story.marker_kinds[times.kind[i]] ?? "marker"}, order ${times.order[i]}${thread ? `, by ${thread}` : ""}${reason ? `: ${reason}` : ""}`,
        ),
      );
    }
    if (markers.length > MOST_MARKERS) results.push(el("li", { class: "quiet", text: `and ${counted(markers.length - MOST_MARKERS, "marker")} more` }));
    return results;
  }

  /** Markers whose thread matches, or whose kind or reason does when any text is looked for. */
  private markers(matches: (text: string) => boolean, any: boolean): number[] {
    const { story, a } = this.app;
    const threads = story.threads.map(matches);
    const reasons = story.reasons.map((reason) => any && matches(reason));
    const kinds = story.marker_kinds.map((kind) => any && matches(kind));
    const found: number[] = [];
    for (let i = 0; i < a.markers.time_ns.length; i++) {
      if (threads[a.markers.thread[i]] || reasons[a.markers.reason[i]] || kinds[a.markers.kind[i]]) found.push(i);
    }
    return found;
  }
}
