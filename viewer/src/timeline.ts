// The timeline: scrubbing, zooming, and the playhead over charts and markers.
import type { App } from "./app";
import { Charts } from "./charts";
import { byId, el, say } from "./dom";
import { drawLanes, firstAfter } from "./lanes";
import { number, span, time } from "./text";

export class Timeline {
  private readonly box = byId("timeline");
  private readonly lanes = el("canvas", { class: "lanes", "aria-hidden": "true" });
  private readonly head = el("div", { class: "playhead", "aria-hidden": "true" });
  private readonly brush = el("div", { class: "brush", "aria-hidden": "true" });
  private readonly shown = byId("span");
  private readonly charts: Charts;
  private dragging = false;
  /** The time at which brushing a range began, while it goes on. */
  private anchor: number | null = null;

  constructor(private readonly app: App) {
    this.charts = new Charts(app, byId("charts"));
    byId("lanes").append(this.lanes);
    this.box.append(this.brush, this.head);
    this.box.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      this.dragging = true;
      this.anchor = event.shiftKey ? this.timeAt(event) : null;
      this.box.setPointerCapture(event.pointerId);
      this.box.focus({ preventScroll: true });
      this.drag(event);
    });
    this.box.addEventListener("pointermove", (event) => {
      if (this.dragging) this.drag(event);
    });
    this.box.addEventListener("pointerup", () => (this.dragging = false));
    this.box.addEventListener("pointercancel", () => (this.dragging = false));
    this.box.addEventListener("dblclick", () => app.set({ from: 0, to: app.end }));
    this.box.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    byId("time-in").addEventListener("click", () => zoomTime(app, 0.5));
    byId("time-out").addEventListener("click", () => zoomTime(app, 2));
    byId("time-all").addEventListener("click", () => app.set({ from: 0, to: app.end }));
    byId("next-failure").addEventListener("click", () => jumpToFailure(app, 1));
    byId("previous-failure").addEventListener("click", () => jumpToFailure(app, -1));
    new ResizeObserver(() => app.touch("size")).observe(this.box);
    app.listen((changed) => {
      if (changed.has("size")) this.charts.resize();
      if (changed.has("from") || changed.has("to") || changed.has("size")) this.charts.zoom();
      if (changed.has("theme")) this.charts.redraw();
      if (["from", "to", "size", "theme", "a", "b"].some((key) => changed.has(key as "from"))) this.drawLanes();
      const moved = changed.has("from") || changed.has("to") || changed.has("size");
      if (moved || changed.has("time")) this.drawHead();
      if (moved || changed.has("start") || changed.has("stop")) this.drawBrush();
    });
    this.box.setAttribute("aria-valuemin", "0");
    this.box.setAttribute("aria-valuemax", String(app.story.moments - 1));
    const failures = app.lines.some((line) => line.markers.kind.includes(0));
    byId("next-failure").hidden = byId("previous-failure").hidden = !failures;
  }

  private drawLanes(): void {
    const { left, width } = this.charts.area;
    drawLanes(this.lanes, this.app, left, width);
    const { from, to } = this.app.view;
    const whole = from <= 0 && to >= this.app.end;
    say(this.shown, whole ? `All ${span(this.app.end)}` : `${time(from)} to ${time(to)}`);
  }

  private drawHead(): void {
    const { app } = this;
    const { left, width } = this.charts.area;
    const { from, to } = app.view;
    const share = (app.view.time - from) / (to - from);
    this.head.hidden = share < 0 || share > 1;
    this.head.style.transform = `translateX(${(left + share * width).toFixed(1)}px)`;
    this.box.setAttribute("aria-valuenow", String(app.moment));
    this.box.setAttribute("aria-valuetext", `${time(app.view.time)} of ${time(app.end)}`);
  }

  private drawBrush(): void {
    const { start, stop, from, to } = this.app.view;
    const { left, width } = this.charts.area;
    const x = (time: number): number => left + Math.min(1, Math.max(0, (time - from) / (to - from))) * width;
    this.brush.hidden = stop <= start || stop < from || start > to;
    this.brush.style.left = `${x(start).toFixed(1)}px`;
    this.brush.style.width = `${(x(stop) - x(start)).toFixed(1)}px`;
  }

  private timeAt(event: MouseEvent): number {
    const { left, width } = this.charts.area;
    const { from, to } = this.app.view;
    const share = (event.clientX - this.box.getBoundingClientRect().left - left) / width;
    return from + Math.min(1, Math.max(0, share)) * (to - from);
  }

  /** Scrubs, or brushes a range. */
  private drag(event: PointerEvent): void {
    const time = this.timeAt(event);
    const { anchor } = this;
    if (anchor === null) this.app.set({ time });
    else this.app.set({ start: Math.min(anchor, time), stop: Math.max(anchor, time) });
  }

  private wheel(event: WheelEvent): void {
    event.preventDefault();
    const { app } = this;
    const { from, to } = app.view;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const shift = Math.sign(event.deltaX || event.deltaY) * (to - from) * 0.1;
      app.set({ from: from + shift, to: to + shift });
    } else zoomTime(app, event.deltaY < 0 ? 0.7 : 1 / 0.7, this.timeAt(event));
  }
}

/** Shows less or more of the time, around a time or the one looked at. */
export function zoomTime(app: App, factor: number, around?: number): void {
  const { from, to, time } = app.view;
  const centre = around ?? (time >= from && time <= to ? time : (from + to) / 2);
  app.set({ from: centre - (centre - from) * factor, to: centre + (to - centre) * factor });
}

/** Moves by moments, and keeps the time in view. */
export function step(app: App, moments: number): void {
  show(app, (app.moment + moments) * app.story.resolution_ns);
}

/** Begins or ends the range that is added up at the time looked at; the other end is that of the time, unless there was one. */
export function brush(app: App, end: "start" | "stop"): void {
  const { start, stop, time } = app.view;
  if (end === "start") app.set({ start: time, stop: stop > time ? stop : app.end });
  else app.set({ start: start >= 0 && start < time ? start : 0, stop: time });
}

/** Goes to a time and moves the charts there if they show another. */
export function show(app: App, time: number): void {
  const { from, to } = app.view;
  const inside = Math.min(app.end, Math.max(0, time));
  if (inside >= from && inside <= to) app.set({ time: inside });
  else app.set({ time: inside, from: inside - (to - from) / 2, to: inside + (to - from) / 2 });
}

/** Goes to the next or previous failure of the line. */
export function jumpToFailure(app: App, direction: 1 | -1): void {
  const { time_ns, kind } = app.a.markers;
  let i = direction > 0 ? firstAfter(time_ns, app.view.time + 1) : firstAfter(time_ns, app.view.time) - 1;
  while (i >= 0 && i < kind.length && kind[i] !== 0) i += direction;
  const live = byId("selection-live");
  if (i < 0 || i >= kind.length) {
    say(live, direction > 0 ? "No later failure." : "No earlier failure.");
    return;
  }
  show(app, time_ns[i]);
  say(live, `Failure at ${time(time_ns[i])}, order ${number(app.a.markers.order[i])}.`);
}
