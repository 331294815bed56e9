// Actions on many things at once: what is selected, the buttons with their counts, and what has been done so far.

import { h } from "./dom.js";
import { can, get, isOutage, planPath, post } from "./api.js";
import { ask, because, fork, reasonField } from "./actions.js";
import { onForget } from "./drafts.js";
import { app, button, dim, isStale, planLink } from "./parts.js";
import { number, plural } from "./format.js";
import { isFinal } from "./replay.js";

/** Requests at the same time. */
const LANES = 6;
/** Failures that are listed. */
const SHOWN_MAX = 100;

/** What runs or has run last; it goes on while other screens are shown, and ends when the person leaves. */
let job = null;
onForget(() => { if (job) job.isStopped = true; job = null; });

/**
 * Does something with each of `items`, some at a time, until all are done or a person stops it.
 *
 * - `items`: a list, or `{total, read}`, whose `read` gives the next ones, none at the end; `send(item)`: the requests; `label(item)`: a node that names it.
 */
async function start(title, items, send, label, then) {
  const own = { title, total: items.length ?? items.total, done: 0, failures: [], isStopped: false, isOver: false };
  job = own;
  app.render();
  const rest = pages(own, items);
  const lane = async () => {
    for (let one = await rest.next(); !one.done && !own.isStopped; one = await rest.next()) {
      const item = one.value;
      try { await send(item); } catch (refusal) {
        own.failures.push({ label: label(item), refusal });
        // Nothing can be done now: the rest would fail too.
        if (isOutage(refusal) || refusal.status === 401) own.isStopped = true;
      }
      own.done += 1;
      app.render();
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  own.isOver = true;
  if (job !== own) return;
  app.announce(`${title}: ${number(own.done - own.failures.length)} of ${number(own.total)} done`);
  if (then) then();
  app.render();
}

/** One item after the other; more are read when all before are done, so that none is met twice. */
async function* pages(own, items) {
  if (Array.isArray(items)) return yield* items;
  let given = 0;
  try {
    for (let page = await items.read(); page.length; page = await items.read()) {
      own.total = Math.max(own.total, given + page.length);
      for (const item of page) { given += 1; yield item; }
      while (own.done < given && !own.isStopped) await new Promise((resolve) => { setTimeout(resolve, 50); });
    }
  } catch (refusal) { own.failures.push({ label: "", refusal }); }
}

/** The button of an action on all of a long list that the scheduler gives in pages. */
export function bulkAllButton(verb, items, label, then) {
  const title = `${verb.title} all ${number(items.total)}`;
  return button({ disabled: isStale() || Boolean(job && !job.isOver), class: verb.isDangerous ? "danger-quiet" : "", onclick: () => ask({ title, verb: title, text: verb.text, isDangerous: verb.isDangerous, request: () => ({ path: "" }), perform: () => { start(`${title} ${verb.noun}s`, items, (item) => verb.send(item, {}), label, then); } }) }, `${title} …`);
}

/** How far the last action on many is. */
export function bulkProgress() {
  if (!job) return null;
  const { title, total, done, failures, isStopped, isOver } = job;
  const own = job;
  return h("section", { class: `notice bulk-progress ${failures.length ? "warn" : ""}`, "aria-label": title },
    h("p", null, h("strong", null, title), ` ${number(done)} of ${number(total)}`, failures.length ? `, ${number(failures.length)} refused` : "", isOver ? (done < total ? ": stopped" : ": done") : ""),
    h("progress", { max: total, value: done, "aria-label": title }),
    h("div", { class: "buttons" }, isOver ? button({ onclick: () => { job = null; app.render(); } }, "Close") : button({ disabled: isStopped, onclick: () => { own.isStopped = true; app.render(); } }, "Stop")),
    failures.length ? h("details", null, h("summary", null, plural(failures.length, "refusal")), h("ul", { class: "issues" }, failures.slice(0, SHOWN_MAX).map((one) => h("li", null, one.label, " ", one.refusal.message)), failures.length > SHOWN_MAX ? h("li", null, dim(`and ${number(failures.length - SHOWN_MAX)} more`)) : null)) : null);
}

/** The buttons of actions that apply to some of what is selected, with how many; with `isKept` also where that is none. */
export function bulkButtons(verbs, items, label, then) {
  return verbs.map((verb) => ({ verb, fitting: items.filter(verb.fits) })).filter(({ verb, fitting }) => fitting.length || verb.isKept).map(({ verb, fitting }) => {
    const title = `${verb.title} ${number(fitting.length)}`, where = verb.where ? ` of ${verb.where}` : "";
    const action = {
      title: `${title}${where}`, verb: title, isDangerous: verb.isDangerous, fields: verb.hasReason ? [reasonField] : [], then: () => {}, cli: verb.cli,
      text: `${verb.text} ${fitting.length < items.length ? `${number(items.length - fitting.length)} of the ${number(items.length)} selected are left as they are.` : ""}`,
      request: () => ({ path: "" }),
      perform: (values) => { start(`${title} of ${plural(items.length, verb.noun || "plan")}${where}`, fitting, (item) => verb.send(item, values), label, then); },
    };
    return button({ key: verb.title, disabled: !fitting.length || isStale() || Boolean(job && !job.isOver), class: verb.isDangerous ? "danger-quiet" : verb.isPrimary ? "primary" : "", onclick: () => ask(action) }, `${title} …`);
  });
}

/** What can be done with many plans by this person. */
export function planVerbs() {
  const verb = (name, title, text, fits, more) => ({ title, text, fits, hasReason: true, send: (plan, values) => post(`${planPath(plan.plan_id)}:${name}`, because(values)), ...more });
  const steers = can("operator", "submitter");
  const all = [
    can("approver") && verb("approve", "Approve", "Each plan is carried out as it is.", (plan) => plan.status === "awaiting_approval"),
    steers && verb("pause", "Pause", "Running steps finish; no others start.", (plan) => plan.status === "running"),
    steers && verb("resume", "Resume", "Steps start again.", (plan) => plan.status === "paused"),
    (can("submitter") || can("operator")) && verb("", "Retry", "A plan that is over runs again as a new plan that keeps its results; of one that runs, the failed steps start again.",
      (plan) => (plan.counts.failed > 0 || ["failed", "partial"].includes(plan.status)) && (isFinal(plan.status) ? can("submitter") : can("operator")), { send: retry }),
    steers && verb("cancel", "Cancel", "Each plan ends; attempts that run are stopped.", (plan) => !isFinal(plan.status), { isDangerous: true }),
  ];
  return all.filter(Boolean);
}

async function retry(plan, values) {
  if (isFinal(plan.status)) {
    const { path, body } = fork(plan.plan_id).request(values);
    return post(path, body);
  }
  const { steps } = await get(`${planPath(plan.plan_id)}?steps_status=failed&steps_limit=1000`);
  for (const step of steps) await post(`${planPath(plan.plan_id)}/steps/${encodeURIComponent(step.id)}:retry`, because(values));
}

export const planLabel = (plan) => h("a", { href: planLink(plan.plan_id), dir: "auto" }, plan.name || plan.plan_id);

/** What a person has selected, by id. */
export function selection() {
  const items = new Map();
  return {
    items, has: (id) => items.has(id), list: () => [...items.values()],
    set: (id, item) => { if (item) items.set(id, item); else items.delete(id); app.render(); },
    clear: () => { items.clear(); app.render(); },
    /** Takes the newest state of what is selected. */
    renew: (id, item) => { if (items.has(id)) items.set(id, item); },
  };
}

/** A check box for one row. */
export const selectBox = (selected, id, item, name) => h("input", { type: "checkbox", class: "select-box", "aria-label": `Select ${name}`, checked: selected.has(id), onchange: (event) => selected.set(id, event.target.checked ? item : null) });

/**
 * The line above a list: select what is shown, or all that fits, and the buttons.
 *
 * - `shown`: `[id, item]` of each row; `selectAll`: reads all that fit, or null when all are shown.
 *
 * @param {{selected: any, shown: [string, any][], selectAll?: (() => void) | null, isReading?: boolean, buttons: any}} bar
 */
export function bulkBar({ selected, shown, selectAll, isReading, buttons }) {
  const count = selected.items.size;
  const isAll = shown.length > 0 && shown.every(([id]) => selected.has(id));
  return h("div", { class: "bulk", role: "group", "aria-label": "Selection" },
    h("label", { class: "check" }, h("input", { type: "checkbox", checked: isAll, indeterminate: count > 0 && !isAll, onchange: () => { for (const [id, item] of shown) { if (isAll) selected.items.delete(id); else selected.items.set(id, item); } app.render(); } }), count ? ` ${number(count)} selected` : " Select"),
    count && selectAll ? button({ class: "quiet", disabled: isReading, onclick: selectAll }, isReading ? "Reading …" : "Select all that fit") : null,
    count ? button({ class: "quiet", onclick: selected.clear }, "Clear") : null,
    count ? buttons : null);
}
