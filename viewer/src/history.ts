// What one pageblock has been, as far as the segments are unpacked.
import type { App, Line } from "./app";

export interface Was {
  from: number;
  lasted: number;
  condition: number;
}

const MOST = 12;

/** The last conditions of a pageblock up to the moment, newest first, within the segment shown. */
export function history(app: App, line: Line, pageblock: number): Was[] {
  const { segment, rows, moment } = line.state;
  if (!segment) return [];
  const first = app.story.pageblocks;
  const step = app.story.resolution_ns;
  const was: Was[] = [];
  let until = moment;
  let row = rows[pageblock];
  while (was.length < MOST) {
    let at = row < first ? segment.from : momentOf(segment.upTo, row - first) + segment.from;
    // Earlier rows of the same condition are the same stretch of time.
    while (row >= first && segment.condition[segment.previous[row - first]] === segment.condition[row]) {
      row = segment.previous[row - first];
      at = row < first ? segment.from : momentOf(segment.upTo, row - first) + segment.from;
    }
    was.push({ from: at * step, lasted: (until - at) * step, condition: segment.condition[row] });
    until = at;
    if (row < first) break;
    row = segment.previous[row - first];
  }
  return was;
}

/** The moment of a change: the first whose count of changes goes beyond it. */
function momentOf(upTo: Uint32Array, change: number): number {
  let low = 0;
  let high = upTo.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (upTo[middle] > change) high = middle;
    else low = middle + 1;
  }
  return low;
}
