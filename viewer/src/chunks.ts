// Unpacks one chunk: base64, gzip, columns.
import type { Chunk, ColumnType } from "./story";

export type Column = Uint8Array | Uint16Array | Uint32Array | Int32Array | Float64Array;
export type Columns = Record<string, Column>;

const ARRAYS: Record<ColumnType, { new (buffer: ArrayBuffer): Column; BYTES_PER_ELEMENT: number }> = {
  u8: Uint8Array,
  u16: Uint16Array,
  u32: Uint32Array,
  i32: Int32Array,
  f64: Float64Array,
};

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const native = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  if (native) return native.call(Uint8Array, text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** Unpacks gzip into `size` bytes, and stops at the first byte more: a chunk cannot fill the memory. */
async function gunzip(packed: Uint8Array<ArrayBuffer>, size: number): Promise<Uint8Array<ArrayBuffer>> {
  const stream = new DecompressionStream("gzip");
  const writer = stream.writable.getWriter();
  // What fails on this side fails on the reading side too, and is reported there.
  writer.write(packed).then(() => writer.close()).catch(() => undefined);
  const reader = stream.readable.getReader();
  const out = new Uint8Array(size);
  let at = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (at + value.length > size) {
      await reader.cancel();
      throw new Error(`it holds more than the ${size} bytes it says`);
    }
    out.set(value, at);
    at += value.length;
  }
  if (at !== size) throw new Error(`it holds ${at} bytes and says ${size}`);
  return out;
}

/** The columns of a chunk by name. Numbers are little-endian, as in every browser's memory. */
export async function unpack(chunk: Chunk, text: string): Promise<Columns> {
  try {
    const bytes = await gunzip(fromBase64(text.trim()), chunk.bytes);
    const columns: Columns = {};
    let at = 0;
    for (const [name, type] of chunk.columns) {
      const array = ARRAYS[type];
      const length = chunk.rows * array.BYTES_PER_ELEMENT;
      columns[name] = new array(bytes.buffer.slice(at, at + length));
      at += length;
    }
    return columns;
  } catch (error) {
    throw new Error(`chunk ${chunk.id} cannot be unpacked (${(error as Error).message})`);
  }
}
