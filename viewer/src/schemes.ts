// Colourings: each says for pageblocks which entry of its legend they are. A machine of 512 GiB has 262,144 of them, which are
// all asked for each time that a map is drawn: so a colouring writes the entries of many in one loop over typed arrays.
import type { App, Line } from "./app";
import { palette, ramp } from "./colours";
import { ABSENT, FULL, LOST, PARTLY, WHOLE } from "./condition";
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
  /** Writes the entries of the pageblocks from `first` on, as many as `into` holds. */
  paint: (first: number, into: Uint8Array) => void;
  /** When a cell stands for several pageblocks it shows the entry that ranks highest; null for ramps: the mean of entries. */
  rank: readonly number[] | null;
}

/** Types of pageblocks, by number. */
export const TYPES = ["unmovable", "movable", "reclaimable", "high-atomic reserve", "CMA", "isolated"];
const STEPS = 33;

/** How much a reader should see of a state: the entries in the order of the legend. */
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
  const entryOf = new Uint8Array(5);
  for (const [condition, entry] of [[WHOLE, 0], [PARTLY, 1], [FULL, 2], [ABSENT, 5]]) entryOf[condition] = entry;
  return {
    entries,
    rank: SEVERITY,
    paint: (first, into) => {
      const { condition } = segment!;
      for (let i = 0; i < into.length; i++) {
        const is = condition[rows[first + i]];
        if (is !== LOST) into[i] = entryOf[is];
        else {
          const from = since(first + i);
          into[i] = from === BEFORE || (from === UNKNOWN && opening?.[first + i] === 1) ? 3 : 4;
        }
      }
    },
  };
}

function type(line: Line): Scheme {
  const { segment, rows } = line.state;
  const entries = TYPES.map((label, i) => ({ label, colour: palette().type[i] }));
  return {
    entries,
    rank: [1, 0, 1, 1, 1, 1],
    paint: (first, into) => {
      const { type } = segment!;
      for (let i = 0; i < into.length; i++) into[i] = Math.min(5, type[rows[first + i]]);
    },
  };
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
    rank: null,
    paint: (first, into) => {
      const { free } = segment!;
      for (let i = 0; i < into.length; i++) into[i] = Math.round(((frames - Math.min(frames, free[rows[first + i]])) / frames) * (STEPS - 1));
    },
  };
}

/** By age in moments: the step of the ramp, in proportion to the age's logarithm. */
let steps = new Uint8Array(0);

function ageSteps(moments: number): Uint8Array {
  if (steps.length !== moments + 1) {
    const most = Math.log(Math.max(2, moments));
    steps = Uint8Array.from({ length: moments + 1 }, (_, age) => Math.round((Math.log(Math.max(1, age)) / most) * (STEPS - 1)));
  }
  return steps;
}

function age(app: App, line: Line): Scheme {
  const { resolution_ns, moments } = app.story;
  const since = line.state.since();
  const now = line.state.moment;
  const stepOf = ageSteps(moments);
  const middle = span(Math.sqrt(Math.max(2, moments)) * resolution_ns);
  const entries = ramped(palette().age, `changed ${span(resolution_ns)} ago`, middle, `${span(app.end)} ago`);
  entries.push({ label: "as at the start", colour: palette().old });
  return {
    entries,
    rank: null,
    paint: (first, into) => {
      for (let i = 0; i < into.length; i++) {
        const from = since(first + i);
        into[i] = from < 0 ? STEPS : stepOf[now - from];
      }
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
    rank: entries.map((_, entry) => (entry === 0 ? 0 : 1)),
    paint: (first, into) => {
      const { condition, owner } = segment!;
      for (let i = 0; i < into.length; i++) {
        const row = rows[first + i];
        if (condition[row] !== LOST) into[i] = 0;
        else {
          const group = groupOf(of, owner[row]);
          into[i] = group < 0 ? unknown : Math.min(group, shown) + 1;
        }
      }
    },
  };
}

function zone(app: App): Scheme {
  const { story } = app;
  const order = ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#0072b2", "#f0e442", "#d55e00"];
  const entries = story.zones.map((_, i) => ({ label: zoneName(story, i), colour: order[i % order.length] }));
  return {
    entries,
    rank: entries.map(() => 0),
    paint: (first, into) => {
      for (const [i, { first_pageblock, pageblocks }] of story.zones.entries()) {
        into.fill(i, Math.max(0, first_pageblock - first), Math.max(0, first_pageblock + pageblocks - first));
      }
    },
  };
}

/** Pageblocks as chunks of a snapshot that leaves out free memory: how many live frames keep each. */
function snapshot(app: App, line: Line): Scheme {
  const { segment, rows } = line.state;
  const few = app.story.pageblock_frames / 8;
  const [none, , most, some, one, absent] = palette().state;
  const entries = [
    { label: "nothing lives in it: not kept", colour: none },
    { label: "kept by one live frame", colour: one },
    { label: "by an eighth of it at most", colour: some },
    { label: "by more", colour: most },
    { label: "not there", colour: absent },
  ];
  if (!line.state.absent) entries.pop();
  return {
    entries,
    rank: [0, 3, 2, 1, 0],
    paint: (first, into) => {
      const { condition, movable, unmovable, reclaimable, pinned } = segment!;
      for (let i = 0; i < into.length; i++) {
        const row = rows[first + i];
        const live = movable[row] + unmovable[row] + reclaimable[row] + pinned[row];
        if (condition[row] === ABSENT) into[i] = 4;
        else if (live <= 1) into[i] = live;
        else into[i] = live <= few ? 2 : 3;
      }
    },
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
    case "snapshot":
      return snapshot(app, line);
  }
}

/** What differs between two lines: frames in use where occupancy is coloured, lost pageblocks otherwise. */
export function difference(app: App, a: Line, b: Line): Scheme {
  const [x, y] = [a.state, b.state];
  if (app.view.colour === "occupancy") {
    const frames = app.story.pageblock_frames;
    return {
      entries: ramped(palette().diverging, `more in use: ${a.ref.label}`, "equal", `more in use: ${b.ref.label}`),
      rank: null,
      paint: (first, into) => {
        const [inA, inB] = [x.segment!.free, y.segment!.free];
        for (let i = 0; i < into.length; i++) {
          const more = (inA[x.rows[first + i]] - inB[y.rows[first + i]]) / frames;
          into[i] = Math.round(((Math.max(-1, Math.min(1, more)) + 1) / 2) * (STEPS - 1));
        }
      },
    };
  }
  const colours = palette().difference;
  const labels = ["lost in both", `lost only in ${a.ref.label}`, `lost only in ${b.ref.label}`, "lost in neither"];
  return {
    entries: labels.map((label, i) => ({ label, colour: colours[i] })),
    rank: [1, 3, 3, 0],
    paint: (first, into) => {
      const [inA, inB] = [x.segment!.condition, y.segment!.condition];
      for (let i = 0; i < into.length; i++) {
        const lost = inA[x.rows[first + i]] === LOST;
        into[i] = inB[y.rows[first + i]] === LOST ? (lost ? 0 : 2) : lost ? 1 : 3;
      }
    },
  };
}
