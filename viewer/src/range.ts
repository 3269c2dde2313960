// The values that a chart shows.

/** How many times the recorded line's own range a chart shows around it. */
const AROUND = 8;

/** The least and the largest of some values. */
export function extent(values: ArrayLike<number>): [number, number] {
  let [low, high] = [Infinity, -Infinity];
  for (let i = 0; i < values.length; i++) {
    low = Math.min(low, values[i]);
    high = Math.max(high, values[i]);
  }
  return low <= high ? [low, high] : [0, 1];
}

/** Cuts a range of values so that the recorded line does not become flat in it. */
export function readable(recorded: [number, number] | null, low: number, high: number): [number, number] {
  if (!recorded) return [low, high];
  const room = Math.max(1, recorded[1] - recorded[0]) * AROUND;
  return [Math.max(low, recorded[0] - room), Math.min(high, recorded[1] + room)];
}
