// Durations: milliseconds, or a text with a unit.

/** Milliseconds, or a text: `"250ms"`, `"60s"`, `"5m"`, `"2h"`, `"3d"`. */
export type Duration = number | string;

const UNITS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, min: 60_000, h: 3_600_000, d: 86_400_000 };

/** The duration in milliseconds. */
export function toMs(duration: Duration): number {
  const found = typeof duration === 'string' ? /^\s*(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)\s*$/.exec(duration) : null;
  const ms = typeof duration === 'number' ? duration : Number(found?.[1]) * (UNITS[found?.[2] ?? ''] ?? NaN);
  if (!Number.isSafeInteger(Math.round(ms)) || ms < 0) {
    throw new TypeError(`\`${String(duration)}\` is no duration; write milliseconds as a number, or a text such as "60s"`);
  }
  return Math.round(ms);
}

/** The form in plans. @internal */
export function toText(duration: Duration): string {
  return typeof duration === 'number' ? `${toMs(duration)}ms` : duration;
}
