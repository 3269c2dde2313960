// Names from a trace, made safe to show: the command does the same with what it prints.

/** Controls, marks and overrides of direction, separators of lines, and characters without width. */
const ACTIVE = /[\p{Cc}\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/gu;
const SHORT: Record<string, string> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** Characters of a name that are shown; all flags of a request are fewer. */
const MOST = 1000;

/** A name in which what would act on the text around it is spelt out, as `\u{202e}`. */
export function shown(name: string): string {
  const whole = name.length > MOST ? `${name.slice(0, MOST)}…` : name;
  return whole.replace(ACTIVE, (c) => SHORT[c] ?? `\\u{${c.codePointAt(0)!.toString(16)}}`);
}
