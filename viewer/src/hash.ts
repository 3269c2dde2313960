// The address's hash keeps what is looked at, so that a link shows the same.
import { COLOURINGS, GROUPS, type App, type Colouring, type Group, type View } from "./app";

const WAIT = 250;

/** The hash of a view; what is as at the start is left out. */
export function toHash(app: App): string {
  const { view, story } = app;
  const parts = new URLSearchParams();
  parts.set("t", String(view.time));
  if (view.a !== 0) parts.set("line", app.a.ref.id);
  if (app.b || app.second >= 0) parts.set("with", app.b?.ref.id ?? "");
  if (view.colour !== "state") parts.set("colour", view.colour);
  if (view.group !== "what") parts.set("by", view.group);
  if (view.selected >= 0) parts.set("pageblock", String(view.selected));
  if (view.count !== story.pageblocks) parts.set("map", `${view.first}-${view.first + view.count - 1}`);
  if (view.from !== 0 || view.to !== app.end) parts.set("span", `${Math.round(view.from)}-${Math.round(view.to)}`);
  if (view.stop > view.start) parts.set("range", `${view.start}-${view.stop}`);
  if (view.find !== "") parts.set("find", view.find);
  return `#${parts.toString()}`;
}

function pair(text: string | null): [number, number] | null {
  const match = /^(\d{1,15})-(\d{1,15})$/.exec(text ?? "");
  return match ? [Number(match[1]), Number(match[2])] : null;
}

/** What a hash asks for. Whatever it does not say, or says of what the story lacks, is as at the start. */
export function fromHash(app: App, hash: string): View {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const { story } = app;
  const line = (key: string): number => app.lines.findIndex(({ ref }) => ref.id === parts.get(key));
  const map = pair(parts.get("map"));
  const shown = pair(parts.get("span"));
  const range = pair(parts.get("range"));
  const colour = parts.get("colour") as Colouring;
  const group = parts.get("by") as Group;
  const time = Number(parts.get("t"));
  const selected = parts.get("pageblock");
  return {
    // The end shows at once what changed.
    time: parts.has("t") && Number.isFinite(time) ? time : app.end,
    a: Math.max(0, line("line")),
    b: parts.has("with") ? line("with") : app.second,
    colour: COLOURINGS.includes(colour) ? colour : "state",
    group: GROUPS.includes(group) ? group : "what",
    selected: selected !== null && /^\d+$/.test(selected) ? Number(selected) : -1,
    first: map ? map[0] : 0,
    count: map ? map[1] - map[0] + 1 : story.pageblocks,
    from: shown ? shown[0] : 0,
    to: shown ? shown[1] : app.end,
    start: range ? range[0] : -1,
    stop: range ? range[1] : -1,
    find: parts.get("find") ?? "",
  };
}

/** Keeps hash and view the same, both ways. */
export function keepHash(app: App): void {
  let timer = 0;
  let written = location.hash;
  app.listen(() => {
    // Browsers allow a page only so many changes of its address in a while.
    clearTimeout(timer);
    timer = window.setTimeout(() => {
      const hash = toHash(app);
      // An address that somebody else changed is not overwritten: its event is still to come.
      if (hash === written || location.hash !== written) return;
      history.replaceState(null, "", hash);
      written = location.hash;
    }, WAIT);
  });
  window.addEventListener("hashchange", () => {
    if (location.hash === written) return;
    written = location.hash;
    app.set(fromHash(app, location.hash));
  });
}
