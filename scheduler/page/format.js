// Times, amounts and sizes as people read them.

/** @type {[string, number][]} */
const RELATIVE = [["year", 31_536_000], ["month", 2_592_000], ["day", 86_400], ["hour", 3_600], ["minute", 60], ["second", 1]];
/** Milliseconds of a day. */
export const DAY_MS = 86_400_000;
const SHORT = { year: "y", month: "mo", day: "d", hour: "h", minute: "min", second: "s" };

export const parseTime = (text) => (typeof text === "number" ? text : text ? Date.parse(text) : NaN);

/** `3 min ago`, `in 2 h`. */
export function relative(ms, now) {
  const seconds = (now - ms) / 1000;
  const size = Math.abs(seconds);
  if (size < 1) return "now";
  const [unit, length] = RELATIVE.find(([, length]) => size >= length);
  const text = `${Math.floor(size / length)} ${SHORT[unit]}`;
  return seconds >= 0 ? `${text} ago` : `in ${text}`;
}

let isUtc = false;
try { isUtc = localStorage.getItem("goalmill.time") === "utc"; } catch { /* storage may be off */ }

/** Whether times are those of UTC, and not of where the reader is. */
export const isUtcShown = () => isUtc;
export function showUtc(isWanted) {
  isUtc = isWanted;
  try { localStorage.setItem("goalmill.time", isWanted ? "utc" : "local"); } catch { /* storage may be off */ }
}

/** Minutes that the shown zone is ahead of UTC at a time. */
const offset = (ms) => (isUtc ? 0 : -new Date(ms).getTimezoneOffset());

/** The shown zone at a time: `UTC`, `UTC+5:30`. */
export function zone(ms) {
  const ahead = offset(ms), size = Math.abs(ahead);
  return ahead ? `UTC${ahead > 0 ? "+" : "−"}${Math.floor(size / 60)}${size % 60 ? `:${String(size % 60).padStart(2, "0")}` : ""}` : "UTC";
}

/** `2026-12-01T09:30:00.000`, in the shown zone. */
const written = (ms) => new Date(ms + offset(ms) * 60_000).toISOString().slice(0, 23);

/** The exact time with its zone. */
export function exact(ms) {
  return Number.isFinite(ms) ? `${written(ms).replace("T", " ")} ${zone(ms)}` : "";
}

export function clockTime(ms) {
  return Number.isFinite(ms) ? written(ms).slice(11) : "";
}

/** The time of the day, with the day where it is another one than that of `now`. */
export function shortTime(ms, now) {
  if (!Number.isFinite(ms)) return "";
  const text = written(ms);
  return text.slice(0, 10) === written(now).slice(0, 10) ? text.slice(11) : `${text.slice(5, 10)} ${text.slice(11, 19)}`;
}

/** `12 ms`, `1.86 s`, `2 min 3 s`. */
export function duration(ms) {
  if (!Number.isFinite(ms)) return "–";
  if (ms < 0) return "0 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59_995) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  const seconds = Math.round(ms / 1000);
  const both = (large, name, small, unit) => `${large} ${name}${small ? ` ${small} ${unit}` : ""}`;
  if (seconds < 3600) return both(Math.floor(seconds / 60), "min", seconds % 60, "s");
  if (seconds < 86_400) return both(Math.floor(seconds / 3600), "h", Math.floor((seconds % 3600) / 60), "min");
  return both(Math.floor(seconds / 86_400), "d", Math.floor((seconds % 86_400) / 3600), "h");
}

export function money(dollars) {
  if (!dollars) return "$0";
  return dollars < 0.01 ? `$${dollars.toPrecision(2)}` : `$${dollars.toFixed(dollars < 1 ? 3 : 2)}`;
}

export const number = (value) => (Number.isFinite(value) ? value.toLocaleString("en-US") : "–");
export const percent = (share, digits = 0) => (Number.isFinite(share) ? `${(share * 100).toFixed(digits)} %` : "–");

export function bytes(count) {
  if (count < 1024) return `${count} B`;
  return count < 1 << 20 ? `${(count / 1024).toFixed(1)} KiB` : `${(count / (1 << 20)).toFixed(1)} MiB`;
}

export const plural = (count, one, many) => `${number(count)} ${count === 1 ? one : many || `${one}s`}`;

/** A status as words: `awaiting approval`. */
export const words = (name) => String(name || "").replaceAll("_", " ");

/** With which statuses a dependency lets a step start, as words; empty for the usual ones. */
export const allowedStatus = (definition, id) => ((definition.dependency_status?.[id]) || []).map(words).join(" or ");

/** What a step waits for: `book`, `pay (failed)`. */
export const awaited = (definition) => (definition.dependencies || []).map((id) => (allowedStatus(definition, id) ? `${id} (${allowedStatus(definition, id)})` : id));

export const capital = (text) => (text ? text.charAt(0).toUpperCase() + text.slice(1) : "");

/** A text for a shell, in single quotes. */
export const quote = (text) => (/^[A-Za-z0-9_./:@=-]+$/.test(text) ? text : `'${String(text).replaceAll("'", "'\\''")}'`);
