// What ran when: a row for each step, a bar for each attempt, with waits between them and revisions across.

import { h, memo } from "./dom.js";
import { fitId } from "./graph.js";
import { button, icon, tone } from "./parts.js";
import { clockTime, duration, exact, words } from "./format.js";
import { outcomeOf, shownStatus } from "./replay.js";

const STEPS = [1, 2, 5];
/** More rows than these are drawn only where they are in view. */
const ROWS_MAX = 80;
const ROW_HEIGHT = 29;
const ROWS_HEIGHT = 620;
/** Rows that are drawn above and below those in view. */
const ROWS_AROUND = 12;

/** Distances of ticks that people count in, in milliseconds. */
function tickMs(span, most) {
  const least = span / most;
  for (let power = 1; power < 1e13; power *= 10) for (const step of STEPS) if (step * power >= least) return niceMs(step * power);
  return span;
}
const niceMs = (ms) => [60_000, 300_000, 600_000, 1_800_000, 3_600_000, 21_600_000, 86_400_000].find((nice) => ms > 30_000 && nice >= ms) || ms;

/** The first eighth of a doubling that holds `span`: while a plan runs, the scale stays for a while. */
const heldSpan = (span) => 2 ** (Math.ceil(Math.log2(span) * 8) / 8);

/** Whether a bar of the step grows with the time. */
const isOpen = (step) => step.attempts.some((attempt) => !Number.isFinite(attempt.endMs)) || step.waits.some((wait) => !Number.isFinite(wait.to));

/**
 * The timeline.
 *
 * - `ids`: in the order of the graph; `now`: the end of open bars; `options.selected`, `options.onSelect(id)`;
 *   `options.cache`: a Map that keeps what was drawn; `options.scroll`: `{top}`, where a long list stands; `options.nameWidth`: of names, in pixels;
 *   `options.layout`: that of the graph.
 */
export function timeline(state, ids, now, options) {
  const begun = state.startMs;
  if (!Number.isFinite(begun)) return null;
  const end = Math.max(state.endMs || now, state.lastMs, begun + 1);
  const span = Number.isFinite(state.endMs) ? (end - begun) * 1.02 : heldSpan((end - begun) * 1.02);
  const at = (ms) => `${Math.max(0, Math.min(100, ((ms - begun) / span) * 100)).toFixed(3)}%`;
  const wide = (from, to) => `${Math.max(0, ((Math.min(to, end) - from) / span) * 100).toFixed(3)}%`;
  const open = (ms) => (Number.isFinite(ms) ? ms : end);
  const distance = tickMs(span, options.isNarrow ? 3 : 6);
  const ticks = [];
  for (let ms = 0; ms <= span && ticks.length < 12; ms += distance) ticks.push(ms);
  const bars = (step) => {
    const parts = [];
    for (const attempt of step.attempts) {
      const start = open(attempt.startMs), stop = open(attempt.endMs);
      const name = `Attempt ${attempt.number}`;
      const queued = Math.min(start, stop);
      if (queued - attempt.queuedMs > span / 2000) parts.push(bar(`q${attempt.queuedMs}`, "wait-queue", attempt.queuedMs, queued, `${name}: in the queue for ${duration(queued - attempt.queuedMs)}`));
      if (Number.isFinite(attempt.startMs)) {
        const result = outcomeOf(attempt, step);
        parts.push(bar(`a${attempt.queuedMs}`, `attempt tone-${tone(result)}`, start, stop, `${name}: ${words(result)}, ${duration(stop - start)}${attempt.worker ? `, on ${attempt.worker}` : ""}${attempt.failure ? `, ${attempt.failure.code}` : ""}, from ${clockTime(start)}`));
      }
    }
    for (const wait of step.waits) parts.push(bar(`w${wait.from}`, `wait-${wait.kind}`, wait.from, open(wait.to), waitTitle(wait, duration(open(wait.to) - wait.from))));
    if (!step.attempts.length && Number.isFinite(step.finishedMs)) parts.push(bar("point", `point tone-${tone(step.status)}`, step.finishedMs, step.finishedMs, `${words(step.status)}${step.cached ? ", from a result that was kept" : ""} at ${clockTime(step.finishedMs)}`));
    return parts;
  };
  const bar = (key, name, from, to, title) => h("span", { key, class: `slot ${name}`, style: { left: at(from), width: wide(from, to) }, title });
  const steps = ids.map((id) => state.steps.get(id)).filter(Boolean);
  const isLong = steps.length > ROWS_MAX;
  const first = isLong ? Math.max(0, Math.floor(options.scroll.top / ROW_HEIGHT) - ROWS_AROUND) : 0;
  const last = isLong ? Math.min(steps.length, Math.ceil((options.scroll.top + ROWS_HEIGHT) / ROW_HEIGHT) + ROWS_AROUND) : steps.length;
  const row = (step, n) => {
    const name = fitId(step.id, options.layout, "row", options.nameWidth - 34);
    return memo(options.cache, step.id, [step, step.version, begun, span, isOpen(step) ? end : 0, step.id === options.selected, n, name], () => h("li", { key: step.id, class: step.id === options.selected ? "selected" : "", "aria-setsize": isLong ? steps.length : undefined, "aria-posinset": isLong ? n + 1 : undefined },
    button({ class: "row", "aria-pressed": String(step.id === options.selected), onclick: () => options.onSelect(step.id), "aria-label": rowLabel(step, name, end) },
      h("span", { class: `row-name tone-${tone(shownStatus(step))}` }, icon(shownStatus(step)), h("span", { class: "cut", title: step.id }, name)),
      h("span", { class: "lane" }, bars(step)))));
  };
  const gap = (key, count) => (count > 0 ? h("li", { key, class: "gap", "aria-hidden": "true", style: { height: `${count * ROW_HEIGHT}px` } }) : null);
  if (isLong && options.scroll.selected !== options.selected) reveal(options, steps.findIndex((step) => step.id === options.selected));
  const rows = [gap("#above", first), steps.slice(first, last).map((step, i) => row(step, first + i)), gap("#below", steps.length - last)];
  const marks = state.marks.filter((mark) => mark.kind !== "replan" || !state.marks.some((other) => other.kind === "revision" && other.seq > mark.seq && other.ms === mark.ms))
    .map((mark) => h("span", { key: `m${mark.seq}`, class: `mark mark-${mark.kind}`, style: { left: at(mark.ms) }, title: `${mark.kind === "revision" ? `Revision ${mark.revision}` : words(mark.kind)}: ${mark.text} (${clockTime(mark.ms)})` }, mark.kind === "revision" ? h("span", { class: "flag" }, `r${mark.revision}`) : null));
  return h("div", { class: "timeline", style: { "--name": `${options.nameWidth}px` } },
    h("div", { class: "axis", "aria-hidden": "true" }, h("span", { class: "row-name dim", title: `from ${exact(begun)}` }, clockTime(begun).slice(0, 8)), h("span", { class: "lane" }, ticks.map((ms) => h("span", { key: `t${ms}`, class: `tick ${ms > span * 0.9 ? "last" : ""}`, style: { left: at(begun + ms) } }, !ms ? "0" : ms > span * 0.9 && distance < span * 0.22 ? "" : duration(ms))))),
    h("div", { class: "rows", onscroll: isLong ? (event) => options.onScroll(event.target.scrollTop) : undefined },
      h("div", { class: "across", "aria-hidden": "true" }, h("span", { class: "row-name" }), h("span", { class: "lane" }, ticks.map((ms) => h("span", { key: `g${ms}`, class: "grid-line", style: { left: at(begun + ms) } })), marks, state.endMs ? null : h("span", { class: "now-line", style: { left: at(end) } }))),
      h("ul", null, rows)));
}

/** What a wait was for, and how long it was. */
function waitTitle(wait, length) {
  const until = Number.isFinite(wait.dueMs) ? `, until ${clockTime(wait.dueMs)}` : "";
  if (wait.kind === "retry") return `${wait.told ? "was told to wait, and uses no retry: " : ""}waits ${length} before the next attempt`;
  if (wait.kind === "event") return `waits for the event ${wait.event}${wait.key ? ` with the key ${wait.key}` : ""}${until}: ${length}`;
  if (wait.kind === "time") return `waits for a time${until}: ${length}`;
  return `waits for a person: ${length}`;
}

/** Brings the row of the selected step into view. */
function reveal(options, n) {
  options.scroll.selected = options.selected;
  if (n < 0) return;
  requestAnimationFrame(() => {
    const frame = document.querySelector(".timeline .rows");
    if (frame && (n * ROW_HEIGHT < frame.scrollTop || (n + 1) * ROW_HEIGHT > frame.scrollTop + frame.clientHeight)) frame.scrollTop = Math.max(0, n * ROW_HEIGHT - frame.clientHeight / 2);
  });
}

/** The name of a row begins with what is seen of it. */
function rowLabel(step, name, end) {
  const first = step.attempts[0];
  const count = step.attempts.length;
  const last = step.attempts[count - 1];
  const from = first ? first.startMs || first.queuedMs : NaN;
  const to = last && Number.isFinite(last.endMs) ? last.endMs : end;
  return `${name}: ${name === step.id ? "" : `step ${step.id}, `}${words(shownStatus(step))}${count ? `, ${count} ${count === 1 ? "attempt" : "attempts"}, ${duration(to - from)}` : ""}`;
}

/** What the colours and patterns mean. */
export const legend = () => h("p", { class: "legend dim", "aria-hidden": "true" },
  [["attempt tone-good", "ran"], ["attempt tone-bad", "failed"], ["wait-queue", "in the queue"], ["wait-retry", "wait before a retry"], ["wait-person", "wait for a person"], ["wait-event", "wait for an event or a time"]].map(([name, text]) => h("span", { class: "legend-item" }, h("span", { class: `slot sample ${name}` }), text)));
