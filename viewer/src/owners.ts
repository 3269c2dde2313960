// Owners put together by what the reader asks for: by what they are, thread, gfp, context or class.
import type { App, Group } from "./app";
import { LOST } from "./condition";
import type { Segment } from "./segment";
import { NONE, type Owner, type Story } from "./story";

export interface Groups {
  /** Names of groups, those that hold most pageblocks first. */
  names: string[];
  /** How many of them hold anything at the opening or the end. */
  holding: number;
  /** The group of each owner. */
  of: Int32Array;
}

/** What an owner is, whichever thread asked: its request, or what the snapshot says of it. */
export function whatOf(owner: Owner): string {
  if (owner.gfp) return owner.context ? `${owner.gfp}, ${owner.context}` : owner.gfp;
  return owner.label || owner.class || "not known";
}

function nameIn(owner: Owner, group: Group): string {
  if (group === "what") return whatOf(owner);
  return owner[group === "owner" ? "label" : group] || "not known";
}

/** Pageblocks lost in some rows of a segment, by owner; the last entry counts those without one. */
export function lostByOwner(story: Story, segment: Segment, rows: Uint32Array): Uint32Array {
  const counts = new Uint32Array(story.owners.length + 1);
  for (const row of rows) {
    if (segment.condition[row] === LOST) counts[segment.owner[row] === NONE ? story.owners.length : segment.owner[row]]++;
  }
  return counts;
}

let kept: { key: string; groups: Groups } | null = null;
let weights: Uint32Array | null = null;

/** Sets by how many pageblocks groups are put in order, so that their colours stay the same at all moments. */
export function weigh(by: Uint32Array): void {
  weights = by;
  kept = null;
}

/** The groups that the reader chose. */
export function groups(app: App): Groups {
  const key = app.view.group;
  if (kept?.key === key) return kept.groups;
  const totals = new Map<string, number>();
  app.story.owners.forEach((owner, i) => {
    const name = nameIn(owner, app.view.group);
    totals.set(name, (totals.get(name) ?? 0) + (weights?.[i] ?? 0));
  });
  const names = [...totals].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([name]) => name);
  const index = new Map(names.map((name, i) => [name, i]));
  const of = Int32Array.from(app.story.owners, (owner) => index.get(nameIn(owner, app.view.group)) ?? -1);
  const holding = names.filter((name) => totals.get(name)! > 0).length;
  kept = { key, groups: { names, holding, of } };
  return kept.groups;
}

export function groupOf(of: Int32Array, owner: number): number {
  return owner === NONE ? -1 : of[owner];
}
