// The page's side of the worker: finds the text of a chunk in the page, sends it, and waits for the arrays.
import type { Columns } from "./chunks";
import type { Segment } from "./segment";
import { StoryError, type Chunk, type SegmentRef, type Story } from "./story";
import type { Packed, Reply, Request } from "./worker";
import source from "worker-source";

/** What a browser lacks for this page, or null. */
export function missing(): string | null {
  const lacks: string[] = [];
  if (typeof DecompressionStream === "undefined") lacks.push("DecompressionStream");
  if (typeof Worker === "undefined") lacks.push("workers");
  if (lacks.length === 0) return null;
  return `This page needs a browser with ${lacks.join(" and ")} to unpack its data: Chrome or Edge 80, Firefox 113, Safari 16.4, or newer.`;
}

type Waiting = { resolve: (reply: Reply) => void; reject: (error: Error) => void };
/** A request without the number that the decoder gives it. */
type Unnumbered<T> = T extends unknown ? Omit<T, "id"> : never;

export class Decoder {
  private readonly worker: Worker;
  private readonly waiting = new Map<number, Waiting>();
  private next = 0;
  /** Why the worker answers no more, once it has stopped. */
  private stopped: StoryError | null = null;

  constructor(private readonly story: Story) {
    const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    this.worker = new Worker(url);
    this.worker.onmessage = (event: MessageEvent<Reply>): void => {
      const waiting = this.waiting.get(event.data.id);
      this.waiting.delete(event.data.id);
      if (event.data.error === undefined) waiting?.resolve(event.data);
      else waiting?.reject(new StoryError(`The story in this page is damaged: ${event.data.error}. Write the page again with \`pageyard map\`.`));
    };
    this.worker.onerror = (): void => {
      this.stopped = new StoryError("This browser stopped the worker that unpacks the page's data: close other pages and load it again.");
      for (const waiting of this.waiting.values()) waiting.reject(this.stopped);
      this.waiting.clear();
    };
  }

  private packed(chunk: Chunk): Packed {
    const element = document.getElementById(`pageyard-chunk-${chunk.id}`);
    if (!element) throw new StoryError(`The story in this page is damaged: chunk ${chunk.id} is missing. Write the page again with \`pageyard map\`.`);
    return { chunk, text: element.textContent ?? "" };
  }

  private ask(request: Unnumbered<Request>): Promise<Reply> {
    if (this.stopped) return Promise.reject(this.stopped);
    const id = this.next++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ ...request, id });
    });
  }

  async columns(chunk: Chunk): Promise<Columns> {
    return (await this.ask({ kind: "columns", packed: this.packed(chunk) })).columns!;
  }

  async segment(ref: SegmentRef): Promise<Segment> {
    const reply = await this.ask({
      kind: "segment",
      base: this.packed(ref.base),
      changes: this.packed(ref.changes),
      from: ref.from,
      to: ref.to,
      pageblocks: this.story.pageblocks,
      frames: this.story.pageblock_frames,
      owners: this.story.owners.length,
    });
    return reply.segment!;
  }
}
