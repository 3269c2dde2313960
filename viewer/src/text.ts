// Numbers, times and places as a reader reads them.
import { firstPfn, zoneOf, type Story } from "./story";

const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });

export function number(value: number): string {
  return whole.format(value);
}

/** "1 pageblock", "2 pageblocks". */
export function counted(value: number, one: string, many = `${one}s`): string {
  return `${number(value)} ${value === 1 ? one : many}`;
}

/** A number for an axis: 12.5k, 3.1M. */
export function compact(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e6) return `${trimmed(value / 1e6)}M`;
  if (size >= 1e4) return `${trimmed(value / 1e3)}k`;
  return number(value);
}

function trimmed(value: number): string {
  return String(Number(value.toFixed(Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2)));
}

/** A time since the start, exact to the milliseconds or what the recording's length calls for. */
export function time(ns: number): string {
  const seconds = ns / 1e9;
  if (seconds >= 3600) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min ${Math.floor(seconds % 60)} s`;
  if (seconds >= 120) return `${Math.floor(seconds / 60)} min ${(seconds % 60).toFixed(1)} s`;
  return `${seconds.toFixed(seconds >= 20 ? 2 : 3)} s`;
}

/** A length of time in one rounded unit. */
export function span(ns: number): string {
  if (ns < 1e6) return `${trimmed(ns / 1e3)} µs`;
  if (ns < 1e9) return `${trimmed(ns / 1e6)} ms`;
  if (ns < 120e9) return `${trimmed(ns / 1e9)} s`;
  if (ns < 7200e9) return `${trimmed(ns / 60e9)} min`;
  return `${trimmed(ns / 3600e9)} h`;
}

export function bytes(value: number): string {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${trimmed(value)} ${units[unit]}`;
}

/** Where a pageblock lies in physical memory. */
export function address(story: Story, pageblock: number): string {
  const pfn = firstPfn(story, pageblock);
  return pfn === null ? "" : bytes(pfn * story.frame_bytes);
}

/** "Normal", or "Normal, node 1" on a machine with several nodes. */
export function zoneName(story: Story, zone: number): string {
  const { name, node } = story.zones[zone];
  return story.zones.some((other) => other.node !== node) ? `${name}, node ${node}` : name;
}

export function zoneOfName(story: Story, pageblock: number): string {
  return zoneName(story, zoneOf(story, pageblock));
}

/** A text with many flags, which a narrow column may break after each. */
export function breakable(text: string): string {
  return text.replaceAll("|", "|\u200b");
}

/** "a, b and c". */
export function listed(parts: string[]): string {
  if (parts.length < 2) return parts.join("");
  return `${parts.slice(0, -1).join(", ")} and ${parts[parts.length - 1]}`;
}
