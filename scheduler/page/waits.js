// The steps of all plans that wait for events from outside, and the event that is sent to one.

import { h } from "./dom.js";
import { can, get, planPath, poll } from "./api.js";
import { ask, sendEvent } from "./actions.js";
import { app, button, cell, commands, curl, dim, empty, figure, isStale, pageHead, planLink, rowHead, searchBox, skeleton, table, time, trouble, upToDate } from "./parts.js";
import { number } from "./format.js";

const POLL_MS = 5_000;
/** Rows that are shown at first, and more each time. */
const ROWS = 100;
/** Pages of the scheduler that are read. */
const PAGES_MAX = 5;

/** The waits of the first pages; a page may be empty and not the last. */
async function readWaits() {
  const items = [];
  let next = "";
  for (let i = 0; i < PAGES_MAX; i++) {
    const page = await get(`/v1/waits${next ? `?cursor=${next}` : ""}`);
    items.push(...page.items);
    next = page.next || "";
    if (!next) break;
  }
  return { items: items.sort((a, b) => (a.due_at < b.due_at ? -1 : 1)), isPart: Boolean(next) };
}

export function waitsScreen() {
  const own = { wanted: ROWS };
  const list = poll(() => readWaits(), POLL_MS, () => app.render());
  const filter = () => (app.route.params.get("q") || "").trim().toLowerCase();
  const send = async (wait) => {
    try {
      const { awaits } = await get(`${planPath(wait.plan_id)}/steps/${encodeURIComponent(wait.step_id)}`);
      ask(sendEvent(wait.plan_id, { event: wait.event, key: wait.key, ...awaits }, list.refresh));
    } catch (refusal) { app.announce(refusal.message); }
  };
  const shown = () => list.value.items.filter((wait) => !filter() || `${wait.event} ${wait.key || ""} ${wait.plan_id} ${wait.step_id}`.toLowerCase().includes(filter()));
  const row = (wait) => h("tr", { key: `${wait.plan_id}/${wait.step_id}` },
    rowHead(h("span", { class: "strong", dir: "auto" }, wait.event), wait.key ? h("div", { class: "dim", dir: "auto" }, `key ${wait.key}`) : null),
    cell(h("a", { href: planLink(wait.plan_id, `?step=${encodeURIComponent(wait.step_id)}`) }, wait.step_id), h("div", { class: "dim id" }, wait.plan_id)),
    figure(time(wait.due_at)),
    cell(can("submitter", "operator") ? button({ disabled: isStale(), onclick: () => send(wait) }, "Send …") : null));
  const view = () => {
    const { items, isPart } = list.value, found = shown();
    if (!items.length) return empty("No step waits for an event", "Steps of kind `wait` that wait for an event from outside appear here, with the event that completes them.", commands("goalmill event waits", curl("GET", "/v1/waits")));
    return [h("div", { class: "filters" }, searchBox("Event, key, plan or step", app.route.params.get("q") || "", (q) => { app.replace({ q: q || null }); own.wanted = ROWS; app.render(); }), dim(`${number(found.length)} of ${number(items.length)}`, isPart ? " and more" : "")),
      found.length ? table(isPart ? "Waits" : "Waits, the soonest end first", ["Event", "Step", { text: "Ends", num: true }, { text: "Actions", isHidden: true }], found.slice(0, own.wanted).map(row)) : empty("Nothing matches"),
      found.length > own.wanted ? button({ onclick: () => { own.wanted += ROWS; app.render(); } }, "Show more") : null,
      can("submitter", "operator") ? null : h("p", { class: "dim" }, "Sending an event needs the role submitter or operator."),
      commands("goalmill event waits", curl("GET", "/v1/waits"))];
  };
  return {
    title: () => "Waits",
    close: list.close,
    view: () => [pageHead("Waits", list.value ? upToDate() : null), trouble(list.refusal, list.refresh), list.value ? view() : list.refusal ? null : skeleton(6)],
  };
}
