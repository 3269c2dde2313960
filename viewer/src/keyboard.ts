// Keys that work anywhere on the page, and the panel that lists them.
import type { App } from "./app";
import { byId } from "./dom";
import type { Player } from "./play";
import { brush, jumpToFailure, show, step, zoomTime } from "./timeline";

/** Whether an element has its own use for keys. */
function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLInputElement || target instanceof HTMLSelectElement;
}

export function keyboard(app: App, player: Player): void {
  const help = byId<HTMLDialogElement>("help");
  const open = (): void => {
    if (!help.open) help.showModal();
  };
  byId("help-open").addEventListener("click", open);
  byId("help-close").addEventListener("click", () => help.close());
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || help.open) return;
    const button = event.target instanceof HTMLButtonElement;
    const tab = event.target instanceof Element && event.target.getAttribute("role") === "tab";
    const far = event.shiftKey ? 10 : 1;
    if (event.key === " " && !button) player.toggle();
    else if (event.key === "ArrowLeft" && !tab) step(app, -far);
    else if (event.key === "ArrowRight" && !tab) step(app, far);
    else if (event.key === "PageDown") step(app, -100);
    else if (event.key === "PageUp") step(app, 100);
    else if (event.key === "Home") show(app, 0);
    else if (event.key === "End") show(app, app.end);
    else if (event.key === "+" || event.key === "=") zoomTime(app, 0.5);
    else if (event.key === "-") zoomTime(app, 2);
    else if (event.key === "n") jumpToFailure(app, 1);
    else if (event.key === "p") jumpToFailure(app, -1);
    else if (event.key === "[") brush(app, "start");
    else if (event.key === "]") brush(app, "stop");
    else if (event.key === "Backspace") app.set({ start: -1, stop: -1 });
    else if (event.key === "/") byId("find").focus();
    else if (event.key === "?") open();
    else return;
    event.preventDefault();
  });
}
