// The controls above the map: lines, colouring, theme, and the panel's tabs.
import { COLOURINGS, type App } from "./app";
import { force, theme } from "./colours";
import { byId, el } from "./dom";

export function controls(app: App): void {
  const a = byId<HTMLSelectElement>("line-a");
  const b = byId<HTMLSelectElement>("line-b");
  b.append(el("option", { value: -1, text: "nothing" }));
  for (const line of app.lines) {
    a.append(el("option", { value: line.index, text: line.ref.label }));
    b.append(el("option", { value: line.index, text: line.ref.label }));
  }
  b.disabled = app.lines.length < 2;
  a.addEventListener("change", () => {
    // Choosing the line that stands beside swaps the two.
    const chosen = Number(a.value);
    app.set(chosen === app.view.b ? { a: chosen, b: app.view.a } : { a: chosen });
  });
  b.addEventListener("change", () => {
    const chosen = Number(b.value);
    app.set(chosen === app.view.a && app.view.b >= 0 ? { a: app.view.b, b: chosen } : { b: chosen });
    b.value = String(app.view.b);
  });
  const colour = byId("colours");
  for (const colouring of COLOURINGS) {
    const input = el("input", { type: "radio", name: "colour", value: colouring, change: () => app.set({ colour: colouring }) });
    colour.append(el("label", {}, input, el("span", { text: colouring })));
  }
  const follow = (): void => {
    a.value = String(app.view.a);
    b.value = String(app.view.b);
    for (const input of colour.querySelectorAll("input")) input.checked = input.value === app.view.colour;
  };
  app.listen(follow);
  follow();
}

/** The switch between light and dark; the system's preference holds until it is used. */
export function themes(app: App): void {
  const button = byId<HTMLButtonElement>("theme");
  let chosen = false;
  const name = (): void => {
    button.textContent = theme() === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Show in ${theme() === "dark" ? "light" : "dark"} colours`);
  };
  button.addEventListener("click", () => {
    chosen = true;
    force(theme() === "dark" ? "light" : "dark");
    name();
    app.touch("theme");
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    if (!chosen) force(null);
    name();
    app.touch("theme");
  });
  let before: "light" | "dark" | null = null;
  // Paper is white.
  window.addEventListener("beforeprint", () => {
    before = theme();
    force("light");
    app.touch("theme");
    app.flush();
  });
  window.addEventListener("afterprint", () => {
    force(chosen ? before : null);
    app.touch("theme");
  });
  name();
}

/** The tabs of the panel, with the keys that tabs have. Returns a function that shows one. */
export function tabs(): (id: string) => void {
  const list = [...document.querySelectorAll<HTMLButtonElement>("[role=tab]")];
  const select = (tab: HTMLButtonElement): void => {
    for (const other of list) {
      const chosen = other === tab;
      other.setAttribute("aria-selected", String(chosen));
      other.tabIndex = chosen ? 0 : -1;
      byId(other.getAttribute("aria-controls")!).classList.toggle("shown", chosen);
    }
  };
  list.forEach((tab, i) => {
    tab.addEventListener("click", () => select(tab));
    tab.addEventListener("keydown", (event) => {
      const to = { ArrowLeft: i - 1, ArrowRight: i + 1, Home: 0, End: list.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      const next = list[(to + list.length) % list.length];
      select(next);
      next.focus();
    });
  });
  select(list[0]);
  return (id) => select(byId<HTMLButtonElement>(id));
}
