// Colours: of pageblocks, lines and frames, in a light and a dark set. Hues are Okabe and Ito's, which readers with any
// colour vision tell apart; ramps change steadily in lightness, so they also read in grey.

export type Theme = "light" | "dark";

interface Palette {
  paper: string;
  ink: string;
  muted: string;
  grid: string;
  accent: string;
  /** whole, partly, full, lost before, lost during, absent */
  state: string[];
  type: string[];
  occupancy: string[];
  age: string[];
  old: string;
  quiet: string;
  groups: string[];
  others: string;
  lines: string[];
  /** lost in both, only in the first, only in the second, in neither */
  difference: string[];
  diverging: string[];
  /** free, movable, unmovable, reclaimable, pinned, not there */
  frame: string[];
  failure: string;
}

const OKABE = ["#e69f00", "#56b4e9", "#009e73", "#d55e00", "#cc79a7", "#0072b2", "#f0e442"];

export const PALETTES: Record<Theme, Palette> = {
  light: {
    paper: "#ffffff",
    ink: "#1b2126",
    muted: "#59646e",
    grid: "#e6eaee",
    accent: "#0b62a0",
    state: ["#d3e9f7", "#86bfe3", "#3182bd", "#b4b0a8", "#d9480f", "#f4f5f6"],
    type: ["#d55e00", "#7db8de", "#009e73", "#cc79a7", "#e6b800", "#444b52", "#f4f5f6"],
    occupancy: ["#edf5fa", "#b5d4e9", "#6aa6d2", "#2a6fae", "#082f63"],
    age: ["#f6d645", "#74c365", "#2a928e", "#3d5490", "#47186a"],
    old: "#b9b9bd",
    quiet: "#eceff2",
    groups: OKABE,
    others: "#8b9096",
    lines: ["#1b2126", "#0072b2", "#c2500a", "#00805d", "#a8487f", "#8a6d00", "#5b5fc7"],
    difference: ["#b4b0a8", "#0072b2", "#d9480f", "#e6edf2", "#f4f5f6"],
    diverging: ["#0b559f", "#5b9dcf", "#bcd9ec", "#eceff2", "#f8cfae", "#e9894a", "#a83c05"],
    frame: ["#eef3f7", "#86bfe3", "#d9480f", "#009e73", "#8a8790", "#ffffff"],
    failure: "#c23b06",
  },
  dark: {
    paper: "#14181c",
    ink: "#e7ebee",
    muted: "#a3aeb8",
    grid: "#2a3138",
    accent: "#6db9ef",
    state: ["#1d3d55", "#2f6d98", "#74b6e2", "#6d6a66", "#ff7a33", "#1a1f24"],
    type: ["#f2782a", "#3c7fae", "#18b98b", "#dd93bb", "#f0cf45", "#d0d6dc", "#1a1f24"],
    occupancy: ["#182632", "#1d4767", "#2f7cab", "#7fbbdc", "#e6f3fb"],
    age: ["#fdeb4d", "#6fce63", "#26a19a", "#4d6cb3", "#6d4a9e"],
    old: "#55585d",
    quiet: "#242b31",
    groups: OKABE,
    others: "#8f959b",
    lines: ["#f1f4f6", "#56b4e9", "#ff8f4d", "#35c79b", "#e39cc6", "#e6b800", "#a9acff"],
    difference: ["#6d6a66", "#56b4e9", "#ff7a33", "#242b31", "#1a1f24"],
    diverging: ["#8cc8f2", "#3d86b8", "#234a66", "#242b31", "#6b3f20", "#c46a2c", "#ffad70"],
    frame: ["#242d35", "#3a7dab", "#ff7a33", "#18b98b", "#8d8a93", "#14181c"],
    failure: "#ff8a4a",
  },
};

/** A CSS colour as one little-endian pixel. */
export function pixel(colour: string): number {
  const rgb = parseInt(colour.slice(1), 16);
  return (0xff000000 | ((rgb & 0xff) << 16) | (rgb & 0xff00) | (rgb >> 16)) >>> 0;
}

/** Between two CSS colours; `share` 0 is the first. */
export function mixed(a: string, b: string, share: number): string {
  const from = parseInt(a.slice(1), 16);
  const to = parseInt(b.slice(1), 16);
  let out = 0;
  for (const shift of [16, 8, 0]) {
    const x = (from >> shift) & 0xff;
    const y = (to >> shift) & 0xff;
    out |= Math.round(x + (y - x) * share) << shift;
  }
  return `#${out.toString(16).padStart(6, "0")}`;
}

/** `steps` colours along a ramp's anchors. */
export function ramp(anchors: string[], steps: number): string[] {
  return Array.from({ length: steps }, (_, i) => {
    const at = (i / Math.max(1, steps - 1)) * (anchors.length - 1);
    const low = Math.min(anchors.length - 2, Math.floor(at));
    return mixed(anchors[low], anchors[low + 1], at - low);
  });
}

/** How a line of a chart is dashed, so that colour is not needed to tell lines apart. */
export const DASHES: number[][] = [[], [6, 3], [2, 2], [8, 3, 2, 3], [10, 4], [4, 4], [1, 3]];

let forced: Theme | null = null;

export function theme(): Theme {
  return forced ?? (window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

export function palette(): Palette {
  return PALETTES[theme()];
}

/** Shows a theme whatever the system prefers; null follows the system again. */
export function force(to: Theme | null): void {
  forced = to;
  document.documentElement.dataset.theme = theme();
}
