// The items of a map: how many are done, those that failed, and the first of the others.

import { h } from "./dom.js";
import { can, get, planPath } from "./api.js";
import { actionButtons, fork, stepActions } from "./actions.js";
import { button, cell, dim, figure, planLink, problem, progress, rowHead, skeleton, status, table } from "./parts.js";
import { duration, number, parseTime, plural } from "./format.js";
import { isFinal } from "./replay.js";

/** Maps whose items are counted when the plan is read. */
const MAPS_MAX = 20;
const PAGE = 50;

/**
 * Reads how far the maps of a plan are, and the items of the selected one.
 *
 * - `maps`: Map of step id to what is known, which is changed; `steps`: as the log gives them; `selected`: a step id or null.
 */
export async function readMaps(maps, view, steps, selected) {
  const all = view.steps.filter((step) => step.sub_plan && Number.isFinite(steps.get(step.id)?.items));
  const ofSelected = all.filter((step) => step.id === selected);
  await Promise.all([...ofSelected, ...all.filter((step) => step.id !== selected).slice(0, MAPS_MAX)].map(async (step) => {
    const before = maps.get(step.id)?.plan === step.sub_plan ? maps.get(step.id) : { plan: step.sub_plan, wanted: PAGE, items: [], status: "", read: "", counts: null, isOver: false, refusal: null };
    maps.set(step.id, before);
    const limit = step.id === selected ? before.wanted : 0;
    const asked = before.status, read = `${asked} ${limit}`;
    if (before.isOver && (!limit || before.read === read)) return;
    try {
      const path = `${planPath(step.sub_plan)}?steps_limit=`;
      const { counts, status: now, steps: items } = await get(`${path}${limit}${asked ? `&steps_status=${asked}` : ""}`);
      // What has failed comes first.
      const failed = !limit || asked || !counts.failed ? [] : (await get(`${path}${PAGE}&steps_status=failed`)).steps;
      const isFirst = new Set(failed.map((item) => item.id));
      Object.assign(before, { counts, isOver: isFinal(now), read: limit ? read : before.read, items: limit ? [...failed, ...items.filter((item) => !isFirst.has(item.id))] : before.items, refusal: null });
    } catch (refusal) {
      before.refusal = refusal;
    }
  }));
}

/** How many items are done, for the box of a map; null for other steps. */
export function doneOf(map) {
  if (!map?.counts?.total) return null;
  const { total, completed, failed, skipped } = map.counts;
  return { total, good: completed + skipped, bad: failed, text: `${number(completed + failed + skipped)}/${number(total)}` };
}

const DECIDES = new Set(["approve", "reject", "answer"]);
const SHOWN = [["", "Every item"], ["failed", "Failed"], ["awaiting_approval", "Wait for a person"], ["running", "Running"], ["completed", "Completed"], ["skipped", "Skipped"]];

/**
 * What runs a failed item again: in its plan while that runs, which the plan around it then goes on with; after that a new
 * plan, which runs the map again.
 */
function retryOf(map, item, step, plan, then) {
  if (!map.isOver) return stepActions(map.plan, item, false, undefined, then).filter((action) => action.key === "retry");
  return can("submitter") ? [{ ...fork(plan, then, step), title: "Retry in a new plan" }] : [];
}

/** The items of the selected map, for its panel. */
export function itemsPart(map, onMore, step, plan) {
  if (!map) return null;
  const { counts, items, refusal } = map;
  const rest = counts ? counts.total - items.length : 0;
  const show = (value) => { Object.assign(map, { status: value, wanted: PAGE }); onMore(); };
  return h("section", { class: "items" }, h("h3", null, "Items"),
    counts ? progress(counts) : null,
    counts && counts.total > 1 ? h("label", null, h("span", { class: "visually-hidden" }, "Items with the status"), h("select", { value: map.status, onchange: (event) => show(event.target.value) }, SHOWN.map(([value, text]) => h("option", { key: value, value, selected: value === map.status }, text)))) : null,
    refusal ? problem(refusal) : items.length ? table("Items", ["Item", "Status", { text: "Time", num: true }], items.map((item) => h("tr", { key: item.id },
      rowHead(h("a", { href: planLink(map.plan, `?step=${encodeURIComponent(item.id)}`) }, item.id)),
      cell(status(item.status), item.failure && item.status === "failed" ? h("div", { class: "failure" }, h("code", { class: "code" }, item.failure.code), " ", item.failure.message) : null, ["failed", "awaiting_approval"].includes(item.status) ? h("div", { class: "buttons" }, actionButtons(item.status === "failed" ? retryOf(map, item, step, plan, onMore) : stepActions(map.plan, item, map.isOver, undefined, onMore).filter((action) => DECIDES.has(action.key)))) : null),
      figure(duration(took(item)))))) : counts && !counts.total ? dim("The list is empty.") : map.read.startsWith(`${map.status} `) && map.read ? dim("No item has this status.") : skeleton(3),
    items.length && rest > 0 && (!map.status || items.length >= map.wanted) ? button({ onclick: () => { map.wanted += items.length < 500 ? 9 * PAGE : 500; onMore(); } }, map.status ? "Show more" : `Show more of ${plural(rest, "item")}`) : null);
}

const took = (item) => (item.started_at && item.finished_at ? parseTime(item.finished_at) - parseTime(item.started_at) : NaN);
