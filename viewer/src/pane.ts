// One map of the page: its canvas, what is drawn over it, and the pointer and keys on it.
import type { App, Line } from "./app";
import { drawMap, type Light } from "./heat";
import { drawTiles, frameAt, frameText, layTiles, tileCorner, type Keyframe, type Tiles } from "./frames";
import { cornerOf, layOut, pageblockAt, type Layout } from "./layout";
import type { Scheme } from "./schemes";
import { palette } from "./colours";
import { el, say, sized } from "./dom";
import { headline } from "./details";

/** Room left of the cells for zones and addresses; more where zones name their node. */
const GUTTER = 60;
const GUTTER_WITH_NODES = 98;

export class Pane {
  readonly root: HTMLElement;
  private readonly title = el("figcaption", { class: "pane-title" });
  private readonly box = el("div", { class: "pane-box", tabindex: 0, role: "application", "aria-roledescription": "map" });
  private readonly canvas = el("canvas", { "aria-hidden": "true" });
  private readonly over = el("canvas", { class: "over", "aria-hidden": "true" });
  private readonly tip = el("div", { class: "tip", hidden: true, "aria-hidden": "true" });
  layout: Layout | null = null;
  private tiles: Tiles | null = null;
  private keyframe: Keyframe | null = null;
  private readonly gutter: number;
  private hover = -1;
  private drag: { x: number; first: number; moved: boolean } | null = null;

  constructor(
    private readonly app: App,
    private readonly line: () => Line,
    describe: string,
  ) {
    const nodes = new Set(app.story.zones.map((zone) => zone.node));
    this.gutter = nodes.size > 1 ? GUTTER_WITH_NODES : GUTTER;
    this.box.setAttribute("aria-describedby", "map-help");
    this.box.setAttribute("aria-label", describe);
    this.box.append(this.canvas, this.over, this.tip);
    this.root = el("figure", { class: "pane" }, this.title, this.box);
    this.box.addEventListener("pointerdown", (event) => this.press(event));
    this.box.addEventListener("pointermove", (event) => this.move(event));
    this.box.addEventListener("pointerup", (event) => this.release(event));
    this.box.addEventListener("pointerleave", () => this.leave());
    this.box.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.box.addEventListener("keydown", (event) => this.key(event));
  }

  /** Draws the line's pageblocks in a colouring, or its frames where `keyframe` is there. */
  draw(title: string, scheme: Scheme, keyframe: Keyframe | null, light: Light | null): void {
    say(this.title, title);
    this.title.hidden = title === "";
    const { clientWidth: width, clientHeight: height } = this.box;
    if (width < 20 || height < 20) return;
    this.keyframe = keyframe;
    const context = sized(this.canvas, width, height);
    if (keyframe) {
      this.layout = null;
      this.tiles = layTiles(this.app, width, height);
      drawTiles(context, this.app, this.tiles, keyframe, width, height);
    } else {
      this.tiles = null;
      const { first, count } = this.app.view;
      this.layout = layOut(this.app.story, first, count, width, height, width > 240 ? this.gutter : 0);
      drawMap(context, this.app, this.layout, scheme, light);
    }
    this.drawOver(width, height);
  }

  private outline(context: CanvasRenderingContext2D, pageblock: number, strong: boolean): void {
    let box: { x: number; y: number; w: number; h: number } | null = null;
    if (this.layout) {
      const corner = cornerOf(this.layout, pageblock);
      const { wide, high } = this.layout;
      const ruled = Math.min(wide, high) >= 6 ? 1 : 0;
      if (corner) box = { ...corner, w: Math.max(3, wide - ruled), h: Math.max(3, high - ruled) };
    } else if (this.tiles) {
      const corner = tileCorner(this.tiles, pageblock);
      if (corner) box = { ...corner, w: this.tiles.wide * this.tiles.size, h: this.tiles.high * this.tiles.size };
    }
    if (!box) return;
    const { ink, paper } = palette();
    context.lineWidth = strong ? 5 : 3;
    context.strokeStyle = paper;
    context.strokeRect(box.x - 1.5, box.y - 1.5, box.w + 3, box.h + 3);
    context.lineWidth = strong ? 2.5 : 1;
    context.strokeStyle = ink;
    context.strokeRect(box.x - 1.5, box.y - 1.5, box.w + 3, box.h + 3);
  }

  private drawOver(width: number, height: number): void {
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.over.width !== w || this.over.height !== h) {
      this.over.width = w;
      this.over.height = h;
      this.over.style.width = `${width}px`;
      this.over.style.height = `${height}px`;
    }
    const context = this.over.getContext("2d")!;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    if (this.hover >= 0) this.outline(context, this.hover, false);
    if (this.app.view.selected >= 0) this.outline(context, this.app.view.selected, true);
  }

  /** What lies under the pointer. */
  private under(event: MouseEvent): { pageblock: number; text: string } | null {
    const box = this.box.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    if (this.tiles && this.keyframe) {
      const at = frameAt(this.tiles, x, y);
      return at && { pageblock: at.pageblock, text: frameText(this.app, this.keyframe, at.pageblock, at.frame) };
    }
    const pageblock = this.layout ? pageblockAt(this.layout, x, y) : -1;
    return pageblock < 0 ? null : { pageblock, text: headline(this.app, this.line(), pageblock) };
  }

  private press(event: PointerEvent): void {
    if (event.button !== 0) return;
    this.drag = { x: event.clientX, first: this.app.view.first, moved: false };
  }

  private move(event: PointerEvent): void {
    const box = this.box.getBoundingClientRect();
    // The button may have been let go outside, where the map hears nothing of it.
    if (!(event.buttons & 1)) this.drag = null;
    if (this.drag && Math.abs(event.clientX - this.drag.x) > 4 && this.app.view.count < this.app.story.pageblocks) {
      if (!this.drag.moved) this.box.setPointerCapture(event.pointerId);
      this.drag.moved = true;
      const shift = ((event.clientX - this.drag.x) / box.width) * this.app.view.count;
      this.app.set({ first: this.drag.first - shift });
      return;
    }
    const under = this.under(event);
    this.hover = under ? under.pageblock : -1;
    this.tip.hidden = under === null;
    if (under) {
      say(this.tip, under.text);
      const right = event.clientX - box.left > box.width * 0.6;
      const low = event.clientY - box.top > box.height * 0.7;
      this.tip.style.left = `${event.clientX - box.left + (right ? -12 : 14)}px`;
      this.tip.style.top = `${event.clientY - box.top + (low ? -14 : 16)}px`;
      this.tip.style.transform = `translate(${right ? "-100%" : "0"}, ${low ? "-100%" : "0"})`;
    }
    this.drawOver(box.width, box.height);
  }

  private release(event: PointerEvent): void {
    const moved = this.drag?.moved;
    this.drag = null;
    if (moved || event.button !== 0) return;
    const under = this.under(event);
    if (under) this.app.set({ selected: under.pageblock });
  }

  private leave(): void {
    this.hover = -1;
    this.tip.hidden = true;
    this.drawOver(this.box.clientWidth, this.box.clientHeight);
  }

  private wheel(event: WheelEvent): void {
    event.preventDefault();
    if (event.deltaY === 0) return;
    const under = this.under(event);
    zoomMap(this.app, event.deltaY < 0 ? 0.5 : 2, under ? under.pageblock : undefined);
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { app } = this;
    const row = this.layout ? this.layout.cols * this.layout.bin : (this.tiles?.cols ?? 1);
    const step = this.layout?.bin ?? 1;
    const steps: Record<string, number> = { ArrowLeft: -step, ArrowRight: step, ArrowUp: -row, ArrowDown: row };
    if (event.key in steps) {
      const from = app.view.selected < 0 ? app.view.first - steps[event.key] : app.view.selected;
      const selected = Math.min(app.view.first + app.view.count - 1, Math.max(app.view.first, from + steps[event.key]));
      app.set({ selected });
    } else if (event.key === "+" || event.key === "=") zoomMap(app, 0.5);
    else if (event.key === "-") zoomMap(app, 2);
    else if (event.key === "Escape") app.set({ selected: -1, first: 0, count: app.story.pageblocks });
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

/** Shows fewer or more pageblocks, around one of them: that given, the selected one, or the middle. */
export function zoomMap(app: App, factor: number, around?: number): void {
  const { first, count, selected } = app.view;
  const inView = selected >= first && selected < first + count;
  const centre = around ?? (inView ? selected : first + count / 2);
  const next = Math.min(app.story.pageblocks, Math.max(6, Math.round(count * factor)));
  const share = (centre - first) / count;
  app.set({ first: Math.round(centre - share * next), count: next });
}
