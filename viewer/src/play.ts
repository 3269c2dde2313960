// Playing: the time goes on by itself, the whole in so many seconds, or at the recording's own pace.
import type { App } from "./app";
import { byId } from "./dom";
import { show } from "./timeline";

export class Player {
  private readonly button = byId<HTMLButtonElement>("play");
  private readonly speed = byId<HTMLSelectElement>("speed");
  private frame = 0;
  private last = 0;

  constructor(private readonly app: App) {
    this.button.addEventListener("click", () => this.toggle());
  }

  get playing(): boolean {
    return this.frame !== 0;
  }

  toggle(): void {
    if (this.playing) this.stop();
    else {
      if (this.app.view.time >= this.app.end) show(this.app, 0);
      this.last = performance.now();
      this.frame = requestAnimationFrame((now) => this.tick(now));
      this.mark();
    }
  }

  stop(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.mark();
  }

  private mark(): void {
    this.button.textContent = this.playing ? "Pause" : "Play";
    this.button.setAttribute("aria-pressed", String(this.playing));
  }

  private tick(now: number): void {
    const { app } = this;
    const seconds = Number(this.speed.value);
    const pace = seconds > 0 ? app.end / (seconds * 1000) : 1e6;
    // Time waits while a segment is being unpacked.
    if (app.current) show(app, app.view.time + Math.min(100, now - this.last) * pace);
    this.last = now;
    if (app.view.time >= app.end) this.stop();
    else this.frame = requestAnimationFrame((next) => this.tick(next));
  }
}
