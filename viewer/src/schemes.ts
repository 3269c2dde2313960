// Colourings: each says for a pageblock which entry of its legend it is.
import type { App, Line } from "./app";
import { palette, ramp } from "./colours";
import { FULL, LOST, PARTLY, WHOLE } from "./condition";
import { groups, groupOf } from "./owners";
import { BEFORE, UNKNOWN } from "./state";
import { span, zoneName } from "./text";

export interface Entry {
  /** Empty inside a ramp. */
  label: string;
  colour: string;
}

export interface Scheme {
  entries: Entry[];
  of: (pageblock: number) => number;
  /** When a cell stands for several pageblocks: the mean of entries (ramps), or the entry that ranks highest. */
  mean: boolean;
  rank: (entry: number) => number;
}

const TYPES = ["unmovable", "movable", "reclaimable", "high-atomic reserve", "CMA", "isolated"];
const STEPS = 33;

/** The order of legend entries by how much a reader should see of them. */
const SEVERITY = [1, 2, 3, 4, 5, 0];

function state(line: Line): Scheme {
  const { segment, rows, opening } = line.state;
  const colours = palette().state;
  const since = line.state.since();
  const labels = [
    "whole and free",
    "part free, rest movable",
    "in use, movable",
    "lost before the recording",
    "lost during it",
    "not there",
  ];
  const entries = labels.map((label, i) => ({ label, colour: colours[i] }));
  if (!line.state.absent) entries.pop();
  return {
    entries,
    mean: false,
    rank: (entry) => SEVERITY[entry],
    of: (pageblock) => {
      const condition = segment!.condition[rows[pageblock]];
      if (condition === WHOLE) return 0;
      if (condition === PARTLY) return 1;
      if (condition === FULL) return 2;
      if (condition !== LOST) return 5;
      const from = since(pageblock);
      return from === BEFORE || (from === UNKNOWN && opening?.[pageblock] === 1) ? 3 : 4;
    },
  };
}

function type(line: Line): Scheme {
  const { segment, rows } = line.state;
  const entries = TYPES.map((label, i) => ({ label, colour: palette().type[i] }));
  return { entries, mean: false, rank: (entry) => (entry === 1 ? 0 : 1), of: (pageblock) => Math.min(5, segment!.type[rows[pageblock]]) };
}

function ramped(anchors: string[], low: string, middle: string, high: string): Entry[] {
  const entries = ramp(anchors, STEPS).map((colour) => ({ label: "", colour }));
  entries[0].label = low;
  entries[(STEPS - 1) / 2].label = middle;
  entries[STEPS - 1].label = high;
  return entries;
}

function occupancy(app: App, line: Line): Scheme {
  const { segment, rows } = line.state;
  const frames = app.story.pageblock_frames;
  return {
    entries: ramped(palette().occupancy, "all free", "half in use", "all in use"),
    mean: true,
    rank: () => 0,
    of: (pageblock) => Math.round(((frames - Math.min(frames, segment!.free[rows[pageblock]])) / frames) * (STEPS - 1)),
  };
}

function age(app: App, line: Line): Scheme {
  const { resolution_ns, moments } = app.story;
  const since = line.state.since();
  const now = line.state.moment;
  const most = Math.log(Math.max(2, moments));
  const entries = ramped(palette().age, `changed ${span(resolution_ns)} ago`, span(Math.exp(most / 2) * resolution_ns), `${span(app.end)} ago`);
  entries.push({ label: "as at the start", colour: palette().old });
  return {
    entries,
    mean: true,
    rank: () => 0,
    of: (pageblock) => {
      const from = since(pageblock);
      if (from < 0) return STEPS;
      return Math.round((Math.log(Math.max(1, now - from)) / most) * (STEPS - 1));
    },
  };
}

function owner(app: App, line: Line): Scheme {
  const { segment, rows } = line.state;
  const { names, holding, of } = groups(app);
  const colours = palette();
  const shown = Math.min(holding, colours.groups.length);
  const entries: Entry[] = [{ label: "not lost", colour: colours.quiet }];
  for (let i = 0; i < shown; i++) entries.push({ label: names[i], colour: colours.groups[i] });
  if (names.length > shown) entries.push({ label: `${names.length - shown} ${names.length - shown === 1 ? "other" : "others"}`, colour: colours.others });
  entries.push({ label: "owner not known", colour: colours.old });
  const unknown = entries.length - 1;
  return {
    entries,
    mean: false,
    rank: (entry) => (entry === 0 ? 0 : 1),
    of: (pageblock) => {
      const row = rows[pageblock];
      if (segment!.condition[row] !== LOST) return 0;
      const group = groupOf(of, segment!.owner[row]);
      return group < 0 ? unknown : Math.min(group, shown) + 1;
    },
  };
}

function zone(app: App): Scheme {
  const { story } = app;
  const order = ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#0072b2", "#f0e442", "#d55e00"];
  const of = new Uint8Array(story.pageblocks);
  story.zones.forEach((zone, i) => of.fill(i % 256, zone.first_pageblock, zone.first_pageblock + zone.pageblocks));
  return {
    entries: story.zones.map((_, i) => ({ label: zoneName(story, i), colour: order[i % order.length] })),
    mean: false,
    rank: () => 0,
    of: (pageblock) => of[pageblock],
  };
}

/** The colouring that the reader chose, of one line at its moment. */
export function scheme(app: App, line: Line): Scheme {
  switch (app.view.colour) {
    case "state":
      return state(line);
    case "type":
      return type(line);
    case "occupancy":
      return occupancy(app, line);
    case "age":
      return age(app, line);
    case "owner":
      return owner(app, line);
    case "zone":
      return zone(app);
  }
}

/** What differs between two lines: frames in use where occupancy is coloured, lost pageblocks otherwise. */
export function difference(app: App, a: Line, b: Line): Scheme {
  const [x, y] = [a.state, b.state];
  if (app.view.colour === "occupancy") {
    const frames = app.story.pageblock_frames;
    const entries = ramped(palette().diverging, `more in use: ${a.ref.label}`, "equal", `more in use: ${b.ref.label}`);
    return {
      entries,
      mean: true,
      rank: () => 0,
      of: (pageblock) => {
        const more = (x.segment!.free[x.rows[pageblock]] - y.segment!.free[y.rows[pageblock]]) / frames;
        return Math.round(((Math.max(-1, Math.min(1, more)) + 1) / 2) * (STEPS - 1));
      },
    };
  }
  const colours = palette().difference;
  const labels = ["lost in both", `lost only in ${a.ref.label}`, `lost only in ${b.ref.label}`, "lost in neither"];
  return {
    entries: labels.map((label, i) => ({ label, colour: colours[i] })),
    mean: false,
    rank: (entry) => [1, 3, 3, 0][entry],
    of: (pageblock) => {
      const inA = x.segment!.condition[x.rows[pageblock]] === LOST;
      const inB = y.segment!.condition[y.rows[pageblock]] === LOST;
      return inA ? (inB ? 0 : 1) : inB ? 2 : 3;
    },
  };
}
