// Draws the map of pageblocks: one pixel a cell into an image, the image enlarged onto the canvas.
import type { App } from "./app";
import { mixed, palette, pixel } from "./colours";
import type { Layout } from "./layout";
import type { Scheme } from "./schemes";
import { address, zoneName } from "./text";

let image: ImageData | null = null;
const small = document.createElement("canvas");

function colours(scheme: Scheme): { plain: Uint32Array; dim: Uint32Array } {
  const { paper } = palette();
  const plain = Uint32Array.from(scheme.entries, (entry) => pixel(entry.colour));
  const dim = Uint32Array.from(scheme.entries, (entry) => pixel(mixed(entry.colour, paper, 0.8)));
  return { plain, dim };
}

/** Room for the entries of the pageblocks shown, and for whether each is lit, kept from one drawing to the next. */
let entries = new Uint8Array(0);
let lit = new Uint8Array(0);

/** Says of the pageblocks from `first` on, as many as `into` holds, which are to be seen: 1, and 0 for those that are dimmed. */
export type Light = (first: number, into: Uint8Array) => void;

/** Fills the image: one pixel for each cell, row by row. */
function fill(layout: Layout, scheme: Scheme, light: Light | null): ImageData {
  if (!image || image.width !== layout.cols || image.height !== layout.rows) image = new ImageData(layout.cols, Math.max(1, layout.rows));
  const pixels = new Uint32Array(image.data.buffer);
  pixels.fill(pixel(palette().paper));
  const { plain, dim } = colours(scheme);
  for (const band of layout.bands) {
    if (entries.length < band.pageblocks) entries = new Uint8Array(band.pageblocks);
    scheme.paint(band.first, entries.subarray(0, band.pageblocks));
    if (light) {
      if (lit.length < band.pageblocks) lit = new Uint8Array(band.pageblocks);
      light(band.first, lit.subarray(0, band.pageblocks));
    }
    let at = band.row * layout.cols;
    for (let first = 0; first < band.pageblocks; first += layout.bin, at++) {
      const end = Math.min(first + layout.bin, band.pageblocks);
      const entry = scheme.rank ? highest(first, end, scheme.rank) : mean(first, end);
      pixels[at] = light === null || anyLit(first, end) ? plain[entry] : dim[entry];
    }
  }
  return image;
}

/** The entry of a cell's pageblocks that ranks highest; the first of equals. */
function highest(first: number, end: number, rank: readonly number[]): number {
  let entry = entries[first];
  for (let i = first + 1; i < end; i++) if (rank[entries[i]] > rank[entry]) entry = entries[i];
  return entry;
}

function mean(first: number, end: number): number {
  let sum = 0;
  for (let i = first; i < end; i++) sum += entries[i];
  return Math.round(sum / (end - first));
}

function anyLit(first: number, end: number): boolean {
  for (let i = first; i < end; i++) if (lit[i] === 1) return true;
  return false;
}

/** Lines between cells, where they are large enough to tell apart. */
function rule(context: CanvasRenderingContext2D, layout: Layout): void {
  const { wide, high, cols, left } = layout;
  if (Math.min(wide, high) < 6) return;
  context.fillStyle = palette().paper;
  for (const band of layout.bands) {
    const height = band.rows * high;
    for (let col = 1; col <= cols; col++) context.fillRect(left + col * wide - 1, band.top, 1, height);
    for (let row = 1; row <= band.rows; row++) context.fillRect(left, band.top + row * high - 1, cols * wide, 1);
  }
}

/** Zones and addresses left of the cells. */
function label(context: CanvasRenderingContext2D, app: App, layout: Layout): void {
  if (layout.left === 0) return;
  const colour = palette();
  context.textBaseline = "top";
  context.textAlign = "right";
  for (const band of layout.bands) {
    const bottom = band.top + band.rows * layout.high;
    context.font = "600 11px system-ui, sans-serif";
    context.fillStyle = colour.ink;
    context.fillText(zoneName(app.story, band.zone), layout.left - 8, band.top, layout.left - 10);
    context.font = "10.5px system-ui, sans-serif";
    context.fillStyle = colour.muted;
    let next = band.top + 14;
    for (let row = 0; row < band.rows; row++) {
      const y = row === 0 ? next : band.top + row * layout.high;
      if (y < next || y + 11 > bottom) continue;
      context.fillText(address(app.story, band.first + row * layout.cols * layout.bin), layout.left - 8, y, layout.left - 10);
      next = y + 44;
    }
  }
}

/** Draws the whole map. */
export function drawMap(context: CanvasRenderingContext2D, app: App, layout: Layout, scheme: Scheme, light: Light | null): void {
  context.fillStyle = palette().paper;
  context.fillRect(0, 0, layout.width, layout.height);
  const filled = fill(layout, scheme, light);
  if (small.width !== filled.width || small.height !== filled.height) {
    small.width = filled.width;
    small.height = filled.height;
  }
  small.getContext("2d")!.putImageData(filled, 0, 0);
  context.imageSmoothingEnabled = false;
  for (const band of layout.bands) {
    context.drawImage(small, 0, band.row, layout.cols, band.rows, layout.left, band.top, layout.cols * layout.wide, band.rows * layout.high);
  }
  rule(context, layout);
  label(context, app, layout);
}
