// Where pageblocks lie on the map: rows by address, one band for each zone, at most 65,000 cells.
import type { Story } from "./story";

const MOST_CELLS = 65000;
const BAND_GAP = 10;
const LARGEST_CELL = 26;

export interface Band {
  zone: number;
  first: number;
  pageblocks: number;
  cells: number;
  /** Its first row in the image of cells, its rows, and its top on the canvas. */
  row: number;
  rows: number;
  top: number;
}

export interface Layout {
  width: number;
  height: number;
  /** Where cells begin; addresses stand left of it. */
  left: number;
  /** Pageblocks in a cell. */
  bin: number;
  cols: number;
  rows: number;
  /** Width and height of a cell. */
  wide: number;
  high: number;
  bands: Band[];
}

function bandsOf(story: Story, first: number, count: number, bin: number): Band[] {
  const bands: Band[] = [];
  story.zones.forEach((zone, index) => {
    const from = Math.max(first, zone.first_pageblock);
    const to = Math.min(first + count, zone.first_pageblock + zone.pageblocks);
    if (to > from) bands.push({ zone: index, first: from, pageblocks: to - from, cells: Math.ceil((to - from) / bin), row: 0, rows: 0, top: 0 });
  });
  return bands;
}

/** Fits the pageblocks into a canvas with the largest cells that can be, square or nearly so. */
export function layOut(story: Story, first: number, count: number, width: number, height: number, left: number): Layout {
  let bin = 1;
  for (;;) {
    const bands = bandsOf(story, first, count, bin);
    const cells = bands.reduce((sum, band) => sum + band.cells, 0);
    let best: Layout | null = null;
    for (let wide = 1; wide <= LARGEST_CELL && cells <= MOST_CELLS; wide++) {
      const cols = Math.floor((width - left) / wide);
      if (cols < 1) break;
      const rows = bands.reduce((sum, band) => sum + Math.ceil(band.cells / cols), 0);
      const room = Math.floor((height - (bands.length - 1) * BAND_GAP) / rows);
      const high = Math.min(room, wide + Math.max(1, wide >> 1));
      if (high < 1 || high < wide * 0.7) continue;
      if (!best || wide * high > best.wide * best.high) best = { width, height, left, bin, cols, rows, wide, high, bands };
    }
    if (best) return place(best);
    bin *= 2;
  }
}

function place(layout: Layout): Layout {
  let row = 0;
  let top = 0;
  for (const band of layout.bands) {
    band.row = row;
    band.rows = Math.ceil(band.cells / layout.cols);
    band.top = top;
    row += band.rows;
    top += band.rows * layout.high + BAND_GAP;
  }
  return layout;
}

/** The first pageblock of the cell at a point, or -1. */
export function pageblockAt(layout: Layout, x: number, y: number): number {
  const col = Math.floor((x - layout.left) / layout.wide);
  if (col < 0 || col >= layout.cols) return -1;
  for (const band of layout.bands) {
    const row = Math.floor((y - band.top) / layout.high);
    if (row < 0 || row >= band.rows) continue;
    const cell = row * layout.cols + col;
    return cell < band.cells ? band.first + cell * layout.bin : -1;
  }
  return -1;
}

/** The top left corner of a pageblock's cell, or null when it is not in the view. */
export function cornerOf(layout: Layout, pageblock: number): { x: number; y: number } | null {
  for (const band of layout.bands) {
    const within = pageblock - band.first;
    if (within < 0 || within >= band.pageblocks) continue;
    const cell = Math.floor(within / layout.bin);
    return { x: layout.left + (cell % layout.cols) * layout.wide, y: band.top + Math.floor(cell / layout.cols) * layout.high };
  }
  return null;
}
