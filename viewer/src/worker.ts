// Unpacks chunks beside the page's own thread, and hands the arrays over without a copy.
import { unpack, type Columns } from "./chunks";
import { buildSegment, type Segment } from "./segment";
import type { Chunk } from "./story";

export interface Packed {
  chunk: Chunk;
  text: string;
}

export type Request =
  | { id: number; kind: "columns"; packed: Packed }
  | { id: number; kind: "segment"; base: Packed; changes: Packed; from: number; to: number; pageblocks: number; frames: number; owners: number };

export type Reply = { id: number; columns?: Columns; segment?: Segment; error?: string };

const scope = self as unknown as { onmessage: (event: MessageEvent<Request>) => void; postMessage: (reply: Reply, transfer: Transferable[]) => void };

function buffers(value: object): ArrayBuffer[] {
  const found = new Set<ArrayBuffer>();
  for (const part of Object.values(value)) if (ArrayBuffer.isView(part)) found.add(part.buffer as ArrayBuffer);
  return [...found];
}

async function answer(request: Request): Promise<void> {
  try {
    if (request.kind === "columns") {
      const columns = await unpack(request.packed.chunk, request.packed.text);
      scope.postMessage({ id: request.id, columns }, buffers(columns));
    } else {
      const base = await unpack(request.base.chunk, request.base.text);
      const changes = await unpack(request.changes.chunk, request.changes.text);
      const segment = buildSegment(base, changes, request.from, request.to, request.pageblocks, request.frames, request.owners);
      scope.postMessage({ id: request.id, segment }, buffers(segment));
    }
  } catch (error) {
    scope.postMessage({ id: request.id, error: (error as Error).message }, []);
  }
}

// One request at a time: two at once would only share the processor and the memory.
let queue = Promise.resolve();
scope.onmessage = (event): void => {
  queue = queue.then(() => answer(event.data));
};
