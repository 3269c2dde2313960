// The story's table of pageblocks lost at the end: why, since when, and who holds each.
import type { App } from "./app";
import type { Columns } from "./chunks";
import { breakable, counted, span, time } from "./text";

const MOST = 12;

export class LostRows {
  private readonly rows = new Map<number, number>();
  /** Where each row's holders begin. */
  private readonly starts: number[] = [];

  constructor(
    private readonly app: App,
    private readonly columns: Columns,
    private readonly held: Columns,
  ) {
    let start = 0;
    columns.pageblock?.forEach((pageblock: number, row: number) => {
      this.rows.set(pageblock, row);
      this.starts.push(start);
      start += columns.holders?.[row] ?? 0;
    });
  }

  /** When exactly a pageblock was lost, where the row of a moment stands for that: moments are at most one resolution later. */
  sinceIn(pageblock: number, moment: number): number | null {
    const row = this.rows.get(pageblock);
    const since = row === undefined ? -1 : (this.columns.since_ns?.[row] ?? -1);
    const late = moment * this.app.story.resolution_ns - since;
    return since >= 0 && late >= 0 && late <= this.app.story.resolution_ns ? since : null;
  }

  reason(pageblock: number): string | null {
    const row = this.rows.get(pageblock);
    return row === undefined ? null : (this.app.story.reasons[this.columns.reason?.[row] ?? -1] ?? null);
  }

  /** That a pageblock is lost at the end, where the moment shown is of another time. */
  sentence(pageblock: number): string | null {
    const row = this.rows.get(pageblock);
    if (row === undefined) return null;
    const since = this.columns.since_ns?.[row] ?? -1;
    if (since < 0) return null;
    const reason = this.reason(pageblock);
    return `At the end of the recording it is lost, since ${time(since)}${reason ? `: ${reason}` : ""}.`;
  }

  /** Who holds a lost pageblock at the end, a line each. */
  holders(pageblock: number): string[] {
    const row = this.rows.get(pageblock);
    if (row === undefined) return [];
    const { owner, order, blocks, frames, since_ns } = this.held;
    const from = this.starts[row];
    const all = this.columns.holders?.[row] ?? 0;
    const to = Math.min(from + all, owner?.length ?? 0);
    const lines: string[] = [];
    for (let i = from; i < Math.min(to, from + MOST); i++) {
      const age = since_ns[i] < 0 ? "since before the recording" : `since ${time(since_ns[i])}, for ${span(this.app.story.duration_ns - since_ns[i])}`;
      const size = order[i] > 20 ? "" : ` in ${counted(blocks[i], "block")} of order ${order[i]}`;
      lines.push(`${counted(frames[i], "frame")}${size}, ${breakable(this.app.story.owners[owner[i]]?.label ?? "not known")}, ${age}`);
    }
    if (all > lines.length) lines.push(`and ${counted(all - lines.length, "other holder")}`);
    return lines;
  }
}
