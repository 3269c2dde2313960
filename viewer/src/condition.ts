// What a pageblock is to a reader: whole, held by what can move, or lost to huge frames.

export const WHOLE = 0;
/** Part free; what is held can move. */
export const PARTLY = 1;
/** No frame free; what is held can move (one huge page, or many small ones). */
export const FULL = 2;
/** A frame in it cannot move. */
export const LOST = 3;
/** No frame of it is there. */
export const ABSENT = 4;

export function conditionOf(free: number, movable: number, unmovable: number, reclaimable: number, pinned: number, frames: number): number {
  if (unmovable + reclaimable + pinned > 0) return LOST;
  if (free >= frames) return WHOLE;
  if (free > 0) return PARTLY;
  return movable > 0 ? FULL : ABSENT;
}
