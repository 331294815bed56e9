// Trends: the last runs of a stored plan, and what the cost of a period was for. Each chart has a table behind it.

import { h } from "./dom.js";
import { get, planPath, poll } from "./api.js";
import { onForget } from "./drafts.js";
import { app, cell, dim, empty, facts, figure, planLink, rowHead, skeleton, status, table, time, tone, trouble } from "./parts.js";
import { DAY_MS, duration, exact, money, number, parseTime, percent, plural, words } from "./format.js";
import { readPlans } from "./plans.js";
import { isFinal } from "./replay.js";

const RUNS = 50;
/** Plans of the name that are looked at: not each began from the stored plan. */
const LOOKED_AT = 150;
const LANES = 6;
const POLL_MS = 10_000;
const ORIGINS_MAX = 1_000;

/** From which version plans began: that never changes. */
const origins = new Map();
onForget(() => origins.clear());

async function readOrigin(plan) {
  if (!origins.has(plan)) {
    const view = await get(`${planPath(plan)}?steps_limit=0`);
    origins.set(plan, String(view.goal?.metadata?.stored_plan || ""));
    if (origins.size > ORIGINS_MAX) origins.delete(origins.keys().next().value);
  }
  return origins.get(plan);
}

/** The last runs of a stored plan, the newest first. */
async function readRuns(name) {
  const isPlain = !/["\\]/.test(name);
  const { items } = await readPlans(isPlain ? { where: `$.name == "${name}"` } : { q: name.slice(0, 200) }, LOOKED_AT, undefined, (plan) => plan.name === name);
  const plans = items.sort((a, b) => Date.parse(b.created_at) - Date.parse(a.created_at));
  const runs = [];
  for (let i = 0; i < plans.length && runs.length < RUNS; i += LANES) {
    const some = plans.slice(i, i + LANES);
    const read = await Promise.all(some.map((plan) => readOrigin(plan.plan_id).catch((refusal) => { if (refusal.status === 404) return ""; throw refusal; })));
    some.forEach((plan, at) => { if (read[at].startsWith(`${name}@`)) runs.push({ ...plan, version: read[at].slice(name.length + 1) }); });
  }
  return { runs: runs.slice(0, RUNS) };
}

/** The part of the screen of a stored plan with its runs. */
export function storedRuns(name) {
  const list = poll(() => readRuns(name), POLL_MS, () => app.render());
  return { close: list.close, refresh: list.refresh, view: () => h("section", { class: "panel" }, h("h2", null, "Last runs"), trouble(list.refusal, list.refresh), list.value ? runsView(list.value.runs) : list.refusal ? null : skeleton(3)) };
}

const tookMs = (run) => (Number.isFinite(run.execution_seconds) ? run.execution_seconds * 1000 : NaN);

function middle(values, share) {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  return sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] : NaN;
}

function runsView(runs) {
  if (!runs.length) return empty("No run yet", "Plans that begin from a version of this one appear here.");
  const over = runs.filter((run) => isFinal(run.status));
  const good = over.filter((run) => run.status === "completed").length;
  const times = over.map(tookMs);
  const oldestFirst = [...runs].reverse();
  const point = (value, text) => (run) => ({ key: run.plan_id, href: planLink(run.plan_id), value: value(run), tone: tone(run.status), text: `${exact(parseTime(run.created_at))}, version ${run.version}: ${words(run.status)}, ${text(run)}` });
  return [
    facts([["Runs", number(runs.length)], ["Completed", over.length ? `${number(good)} of ${number(over.length)} (${percent(good / over.length)})` : null], ["Duration, median", duration(middle(times, 0.5))], ["Duration, 95 %", duration(middle(times, 0.95))], ["Cost", money(runs.reduce((sum, run) => sum + run.usage.cost, 0))]]),
    h("div", { class: "trends" },
      chart("Duration and status", oldestFirst.map(point(tookMs, (run) => duration(tookMs(run)))), duration),
      chart("Cost", oldestFirst.map(point((run) => run.usage.cost, (run) => money(run.usage.cost))), money)),
    h("details", { class: "behind" }, h("summary", null, `Table of ${plural(runs.length, "run")}`), table("Last runs", ["Run", "Status", { text: "Version", num: true }, { text: "Started", num: true }, { text: "Time", num: true }, { text: "Cost", num: true }, { text: "Compare", isHidden: true }], runs.map((run, at) => h("tr", { key: run.plan_id },
      rowHead(h("a", { href: planLink(run.plan_id), class: "id" }, run.plan_id)), cell(status(run.status)), figure(run.version), figure(time(run.created_at)), figure(duration(tookMs(run))), figure(money(run.usage.cost)),
      cell(runs[at + 1] ? h("a", { href: `#/compare?a=${encodeURIComponent(runs[at + 1].plan_id)}&b=${encodeURIComponent(run.plan_id)}` }, "Compare with the one before") : null)))))];
}

/**
 * Columns from left to right; the table beside it says the same to those who do not see it.
 *
 * - `points`: `{key, href, value, tone, text}`.
 */
function chart(title, points, format) {
  const most = Math.max(0, ...points.map((point) => point.value).filter(Number.isFinite));
  return h("figure", { class: "trend" }, h("figcaption", null, title, h("span", { class: "dim num" }, most ? ` up to ${format(most)}` : "")),
    h("div", { class: "columns", "aria-hidden": "true" }, points.map((point) => h(point.href ? "a" : "span", { key: point.key, class: `column tone-${point.tone}`, href: point.href, tabindex: point.href ? "-1" : undefined, title: point.text }, h("span", { style: { height: `${most && point.value > 0 ? Math.max(3, (point.value / most) * 100) : point.value === 0 ? 1 : 3}%` } })))));
}

const DAYS_MAX = 92;

/** Every day of the period, also those without cost. */
function allDays(days, sinceMs, untilMs) {
  const known = new Map(days.map((day) => [day.name, day]));
  const list = [];
  const first = Math.max(sinceMs, untilMs - (DAYS_MAX - 1) * DAY_MS);
  for (let ms = Math.floor(first / DAY_MS) * DAY_MS; ms <= untilMs; ms += DAY_MS) {
    const name = new Date(ms).toISOString().slice(0, 10);
    list.push(known.get(name) || { name, count: 0, cost: 0 });
  }
  return list;
}

/** What the cost of a period was for. */
export function costsView(report) {
  const { days = [], namespaces = [], agent_types = [], models = [] } = report.costs || {};
  const total = report.step_cost + report.planning_cost;
  if (!total) return [h("h2", null, "Cost"), h("p", { class: "dim" }, "Nothing of this period cost anything.")];
  const every = allDays(days, report.since_ms, report.until_ms);
  const rest = report.step_cost - agent_types.reduce((sum, one) => sum + one.cost, 0);
  const agents = [...agent_types, report.planning_cost ? { name: "Planning", count: 0, cost: report.planning_cost, isOwn: true } : null, rest > total / 1e6 ? { name: "Steps that were taken out", count: 0, cost: rest, isOwn: true } : null].filter(Boolean);
  return [h("h2", null, "Cost"),
    every.length > 1 ? h("section", { class: "panel" }, h("h3", null, "By day"), chart("Dollars by the day on which plans ended (UTC)", every.map((day) => ({ key: day.name, href: "", value: day.cost, tone: "busy", text: `${day.name}: ${money(day.cost)}, ${plural(day.count, "plan")}` })), money),
      h("details", { class: "behind" }, h("summary", null, `Table of ${plural(every.length, "day")}`), table("Cost by day", ["Day (UTC)", { text: "Plans", num: true }, { text: "Cost", num: true }], [...every].reverse().map((day) => h("tr", { key: day.name }, rowHead(day.name), figure(number(day.count)), figure(money(day.cost))))))) : null,
    h("div", { class: "splits" }, [["By namespace", "Namespace", "Plans", namespaces], ["By agent type", "Agent type", "Steps", agents], ["By model", "Model", "Calls", models]].filter(([, , , list]) => list.length).map(([title, head, counts, list]) => h("section", { key: title, class: "panel" }, h("h3", null, title), shares(title, head, counts, list, total))))];
}

/** Parts of a sum, each with a bar of its share. */
function shares(title, head, counts, list, total) {
  return table(`Cost ${title.toLowerCase()}`, [head, { text: counts, num: true }, { text: "Cost", num: true }, { text: "Share", num: true }], list.map((one) => h("tr", { key: one.name }, rowHead(one.isOwn ? dim(one.name) : one.name), figure(one.count ? number(one.count) : "–"), figure(money(one.cost)),
    figure(h("span", { class: "meter", "aria-hidden": "true" }, h("span", { style: { width: `${Math.min(1, one.cost / total) * 100}%` } })), percent(one.cost / total)))));
}
