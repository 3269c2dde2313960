// The map close up: each pageblock as a tile of its frames, at the nearest moment of which frames were kept.
import type { App, Line } from "./app";
import { palette, pixel } from "./colours";
import type { Column } from "./chunks";
import { firstPfn } from "./story";

/** So few pageblocks are shown by frame. */
export const MOST_TILES = 64;
const LABEL = 13;
const GAP = 6;

export interface Tiles {
  first: number;
  count: number;
  cols: number;
  /** Frames in a row of a tile, its rows, and the pixels of a frame. */
  wide: number;
  high: number;
  size: number;
}

export interface Keyframe {
  line: Line;
  moment: number;
  /** The class of each frame of the machine. */
  classes: Column;
}

export const CLASSES = ["free", "movable", "unmovable", "reclaimable", "pinned or not known", "not there"];

/** Fits the tiles of some pageblocks into a canvas, in the shape that gives the largest frames. */
export function layTiles(app: App, width: number, height: number): Tiles {
  const { first, count } = app.view;
  const frames = app.story.pageblock_frames;
  let best: Tiles = { first, count, cols: 1, wide: 64, high: Math.ceil(frames / 64), size: 1 };
  for (const wide of [64, 32, 16]) {
    const high = Math.ceil(frames / wide);
    for (let size = 24; size >= 1; size--) {
      const cols = Math.floor((width + GAP) / (wide * size + GAP));
      if (cols < 1 || Math.ceil(count / cols) * (high * size + GAP + LABEL) > height + GAP) continue;
      if (size > best.size) best = { first, count, cols, wide, high, size };
      break;
    }
  }
  if (best.size === 1) best.cols = Math.max(1, Math.floor((width + GAP) / (best.wide + GAP)));
  return best;
}

export function tileCorner(tiles: Tiles, pageblock: number): { x: number; y: number } | null {
  const at = pageblock - tiles.first;
  if (at < 0 || at >= tiles.count) return null;
  return {
    x: (at % tiles.cols) * (tiles.wide * tiles.size + GAP),
    y: Math.floor(at / tiles.cols) * (tiles.high * tiles.size + GAP + LABEL) + LABEL,
  };
}

/** The pageblock and frame at a point. */
export function frameAt(tiles: Tiles, x: number, y: number): { pageblock: number; frame: number } | null {
  const col = Math.floor(x / (tiles.wide * tiles.size + GAP));
  const row = Math.floor(y / (tiles.high * tiles.size + GAP + LABEL));
  const pageblock = tiles.first + row * tiles.cols + col;
  if (col < 0 || row < 0 || col >= tiles.cols) return null;
  const corner = tileCorner(tiles, pageblock);
  if (!corner) return null;
  const across = Math.min(tiles.wide - 1, Math.floor((x - corner.x) / tiles.size));
  const down = Math.min(tiles.high - 1, Math.max(0, Math.floor((y - corner.y) / tiles.size)));
  return { pageblock, frame: down * tiles.wide + across };
}

const small = document.createElement("canvas");

export function drawTiles(context: CanvasRenderingContext2D, app: App, tiles: Tiles, keyframe: Keyframe, width: number, height: number): void {
  const colour = palette();
  const frames = app.story.pageblock_frames;
  context.fillStyle = colour.paper;
  context.fillRect(0, 0, width, height);
  context.imageSmoothingEnabled = false;
  context.textBaseline = "top";
  context.font = "10.5px system-ui, sans-serif";
  small.width = tiles.wide;
  small.height = tiles.high;
  const image = new ImageData(tiles.wide, tiles.high);
  const pixels = new Uint32Array(image.data.buffer);
  const classes = Uint32Array.from(colour.frame, pixel);
  const brush = small.getContext("2d")!;
  for (let i = 0; i < tiles.count; i++) {
    const pageblock = tiles.first + i;
    const { x, y } = tileCorner(tiles, pageblock)!;
    pixels.fill(classes[5]);
    for (let frame = 0; frame < frames; frame++) {
      pixels[frame] = classes[Math.min(5, keyframe.classes[pageblock * frames + frame] & 0x7f)];
    }
    brush.putImageData(image, 0, 0);
    context.drawImage(small, x, y, tiles.wide * tiles.size, tiles.high * tiles.size);
    if (tiles.size >= 4) {
      context.fillStyle = colour.paper;
      for (let frame = 0; frame < frames; frame++) {
        const left = x + (frame % tiles.wide) * tiles.size;
        const top = y + Math.floor(frame / tiles.wide) * tiles.size;
        if (frame > 0 && keyframe.classes[pageblock * frames + frame] & 0x80) context.fillRect(left, top, 1, tiles.size);
        if (frame % tiles.wide === 0) context.fillRect(x, top, tiles.wide * tiles.size, 1);
      }
    }
    context.strokeStyle = colour.grid;
    context.lineWidth = 1;
    context.strokeRect(x - 0.5, y - 0.5, tiles.wide * tiles.size + 1, tiles.high * tiles.size + 1);
    context.fillStyle = colour.muted;
    context.fillText(tiles.wide * tiles.size > 110 ? `pageblock ${pageblock}` : String(pageblock), x, y - LABEL + 1);
  }
}

/** What stands at a frame, in words. */
export function frameText(app: App, keyframe: Keyframe, pageblock: number, frame: number): string {
  const value = keyframe.classes[pageblock * app.story.pageblock_frames + frame];
  const pfn = firstPfn(app.story, pageblock);
  const place = pfn === null ? `Frame ${frame} of pageblock ${pageblock}` : `Frame ${pfn + frame}`;
  return `${place}: ${CLASSES[Math.min(5, value & 0x7f)]}${value & 0x80 ? ", first of its block" : ""}`;
}
