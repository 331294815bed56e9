// The list of plans, live, with what needs attention on top; and the inbox that the frame counts.

import { h } from "./dom.js";
import { can, get, planPath, poll, post } from "./api.js";
import { app, button, cell, commands, curl, dim, empty, figure, icon, isStale, pageHead, planLink, problem, progress, rowHead, skeleton, status, table, time } from "./parts.js";
import { duration, money, number, plural, words } from "./format.js";
import { FINAL_STATUSES, isFinal } from "./replay.js";

const STATUSES = ["planning", "awaiting_approval", "running", "replanning", "paused", ...FINAL_STATUSES];
const POLL_MS = 2_000;
const INBOX_MS = 5_000;
const LIMIT = 100;
export const PARIS = "Plan a 3-day trip to Paris in May with a $2000 budget";

export function plansScreen() {
  const own = { more: [], next: undefined, isPointerOn: false, order: null, isSubmitting: false, demoRefusal: null, moreRefusal: null };
  const path = () => {
    const name = app.route.params.get("status");
    return `/v1/plans?limit=${LIMIT}${name ? `&status=${name}` : ""}`;
  };
  const list = poll(path, POLL_MS, () => { app.render(); });
  const queues = poll("/v1/queues", 4_000, () => app.render());
  const workers = poll("/v1/workers", 4_000, () => app.render());
  const set = (changes) => { app.replace(changes); own.more = []; own.next = undefined; list.refresh(); app.render(); };
  const loadMore = async (next) => {
    try {
      const page = await get(`${path()}&cursor=${encodeURIComponent(next)}`);
      own.more.push(...page.items);
      own.next = page.next || null;
      own.moreRefusal = null;
    } catch (refusal) { own.moreRefusal = refusal; }
    app.render();
  };
  const runDemo = async () => {
    own.isSubmitting = true;
    app.render();
    try {
      const accepted = await post("/v1/goals", { description: PARIS });
      app.go(planLink(accepted.plan_id));
    } catch (refusal) { own.demoRefusal = refusal; }
    own.isSubmitting = false;
    app.render();
  };
  return {
    title: () => "Plans",
    close: () => { list.close(); queues.close(); workers.close(); },
    view: () => [
      pageHead("Plans", can("submitter") ? h("a", { class: "button primary", href: "#/playground" }, "New goal") : null),
      list.value && list.value.items.length ? strip(list.value.items, queues.value, workers.value) : null,
      filters(list, set),
      list.refusal && list.refusal.status !== 0 ? problem(list.refusal, list.refresh) : null,
      body({ own, list, loadMore, runDemo, set }),
    ],
  };
}

/** What an operator looks at first. */
function strip(items, queues, workers) {
  const count = (...names) => items.filter((plan) => names.includes(plan.status)).length;
  const letters = queues ? queues.items.reduce((sum, queue) => sum + queue.dead_letters, 0) : null;
  const live = workers ? workers.items : null;
  const waiting = app.inbox() ? app.inbox().count() : 0;
  const card = (href, sign, label, value, tone, note) => h("li", null, h("a", { href, class: `tone-${value && tone ? tone : "idle"}` }, icon(sign), h("span", { class: "big num" }, value === null ? "–" : number(value)), h("span", null, label), note ? dim(note) : null));
  return h("ul", { class: "strip", "aria-label": "Overview" },
    card("#/approvals", "awaiting_approval", "wait for you", waiting, "person"),
    card("#/plans?status=running", "running", "running", count("running", "planning", "replanning"), "busy"),
    card("#/plans?status=failed", "failed", "failed", count("failed", "partial"), "bad", items.length >= LIMIT ? `of the last ${LIMIT}` : ""),
    card("#/dead-letters", "dead", letters === 1 ? "dead letter" : "dead letters", letters, "bad"),
    card("#/workers", "workers", live && live.length === 1 ? "worker" : "workers", live && live.length, live && live.length ? "good" : "", live ? `${number(live.reduce((sum, one) => sum + one.busy, 0))} of ${number(live.reduce((sum, one) => sum + one.slots, 0))} slots busy` : ""));
}

function filters(list, set) {
  const chosen = app.route.params.get("status") || "";
  return h("div", { class: "filters" },
    h("label", { class: "search" }, h("span", { class: "visually-hidden" }, "Filter by name or id"), icon("search"), h("input", { type: "search", placeholder: "Name or id", value: app.route.params.get("q") || "", oninput: (event) => { app.replace({ q: event.target.value || null }); app.render(); } })),
    h("label", null, h("span", { class: "visually-hidden" }, "Status"), h("select", { value: chosen, onchange: (event) => set({ status: event.target.value || null }) }, h("option", { value: "", selected: !chosen }, "Every status"), STATUSES.map((name) => h("option", { key: name, value: name, selected: name === chosen }, words(name))))),
    h("label", { class: "check" }, h("input", { type: "checkbox", checked: app.route.params.get("failed") === "1", onchange: (event) => { app.replace({ failed: event.target.checked ? "1" : null }); app.render(); } }), " With failures only"),
    h("div", { class: "spring" }),
    dim(isStale() ? "from before" : list.value ? "live" : ""));
}

function body({ own, list, loadMore, runDemo, set }) {
  if (!list.value) return list.refusal ? null : skeleton(8);
  const seen = new Set();
  const all = [...list.value.items, ...own.more].filter((plan) => !seen.has(plan.plan_id) && seen.add(plan.plan_id));
  const text = (app.route.params.get("q") || "").trim().toLowerCase();
  const found = all.filter((plan) => (!text || `${plan.name} ${plan.plan_id} ${plan.namespace || ""}`.toLowerCase().includes(text)) && (app.route.params.get("failed") !== "1" || plan.counts.failed > 0 || plan.status === "failed"));
  const isFiltered = text || app.route.params.get("status") || app.route.params.get("failed");
  if (!all.length && !isFiltered) return firstVisit(own, runDemo);
  if (!found.length) return empty("Nothing matches", "No plan that is loaded fits the filter.", button({ onclick: () => set({ q: null, status: null, failed: null }) }, "Clear the filter"), " ", text ? h("a", { class: "button", href: `#/history?q=${encodeURIComponent(text)}` }, "Search the history") : null);
  const next = own.next === undefined ? list.value.next : own.next;
  return h("div", { onmouseenter: () => { own.isPointerOn = true; }, onmouseleave: () => { own.isPointerOn = false; app.render(); } },
    planTable(hold(own, found)),
    problem(own.moreRefusal),
    next ? button({ onclick: () => loadMore(next) }, "Load older plans") : null,
    commands("goalmill plan list", curl("GET", "/v1/plans")));
}

/** Rows keep their places while the pointer or the focus is on them; what they show is live. */
function hold(own, plans) {
  if ((own.isPointerOn || document.activeElement?.closest?.(".plan-table")) && own.order) {
    const places = new Map(own.order.map((id, i) => [id, i]));
    return [...plans].sort((a, b) => (places.get(a.plan_id) ?? -1) - (places.get(b.plan_id) ?? -1));
  }
  own.order = plans.map((plan) => plan.plan_id);
  return plans;
}

export function planTable(plans, caption = "Plans, last changed first") {
  const hasNamespaces = plans.some((plan) => plan.namespace && plan.namespace !== "default");
  const heads = ["Plan", "Status", "Steps", hasNamespaces ? "Namespace" : null, { text: "Revisions", num: true }, { text: "Time", num: true }, { text: "Cost", num: true }, { text: "Changed", num: true }].filter(Boolean);
  return table(caption, heads, plans.map((plan) => h("tr", { key: plan.plan_id },
    rowHead(h("a", { href: planLink(plan.plan_id), dir: "auto" }, plan.name || plan.plan_id), h("div", { class: "dim id" }, plan.plan_id)),
    cell(status(plan.status)), cell(progress(plan.counts)), hasNamespaces ? cell(plan.namespace || "") : null,
    h("td", { class: `num ${plan.revision ? "" : "no-revision"}` }, plan.revision ? number(plan.revision) : dim("0")), figure(elapsed(plan)), figure(money(plan.usage.cost)), figure(time(plan.updated_at)))), { class: "plan-table" });
}

const elapsed = (plan) => (isFinal(plan.status) ? duration((plan.execution_seconds ?? NaN) * 1000) : duration(app.now - Date.parse(plan.created_at)));

function firstVisit(own, runDemo) {
  return h("section", { class: "first" },
    h("h2", null, "No plans yet"),
    h("p", null, "A goal becomes a plan: a graph of steps that agents carry out. See it happen with a trip to Paris: flights, a hotel, activities, and a check of the budget. It uses demo agents and costs nothing."),
    can("submitter") ? h("div", { class: "buttons" }, button({ class: "primary large", disabled: own.isSubmitting, onclick: runDemo }, own.isSubmitting ? "Starting …" : "Run the Paris demo"), h("a", { class: "button large", href: "#/playground" }, "Write a goal of your own")) : null,
    problem(own.demoRefusal),
    h("p", { class: "dim" }, "The demo agents belong to `goalmill dev`. Elsewhere its steps wait until workers serve them."),
    commands(`goalmill submit '${PARIS}' --watch`, curl("POST", "/v1/goals", { description: PARIS }), true));
}

/**
 * What waits for a person, over all plans that are not over.
 *
 * Summaries do not say which steps wait, so the plans that run are read too, as far as they have changed.
 */
export function inbox(onUpdate) {
  const known = new Map();
  let items = [], isLoaded = false, refusal = null, isClosed = false, timer = 0, isPartial = false;
  const read = async () => {
    clearTimeout(timer);
    try {
      const pages = await Promise.all(["awaiting_approval", "replanning", "running", "paused"].map((name) => get(`/v1/plans?limit=50&status=${name}`)));
      const plans = pages.flatMap((page) => page.items);
      isPartial = pages.some((page) => page.next);
      const changed = plans.filter((plan) => !known.has(plan.plan_id) || known.get(plan.plan_id).seq !== plan.seq);
      for (let i = 0; i < changed.length && i < 40; i += 8) {
        const views = await Promise.all(changed.slice(i, i + 8).map((plan) => get(planPath(plan.plan_id)).catch(() => null)));
        for (const view of views) if (view) known.set(view.plan_id, { seq: view.seq, items: waitingItems(view) });
      }
      const ids = new Set(plans.map((plan) => plan.plan_id));
      for (const id of known.keys()) if (!ids.has(id)) known.delete(id);
      items = [...known.values()].flatMap((one) => one.items).sort((a, b) => (Date.parse(a.due) || Infinity) - (Date.parse(b.due) || Infinity));
      isLoaded = true;
      refusal = null;
    } catch (error) { refusal = error; }
    if (isClosed) return;
    onUpdate();
    if (!document.hidden) timer = setTimeout(read, INBOX_MS);
  };
  const wake = () => { if (!document.hidden && !isClosed) read(); };
  document.addEventListener("visibilitychange", wake);
  read();
  return { count: () => items.length, items: () => items, isLoaded: () => isLoaded, refusal: () => refusal, isPartial: () => isPartial, refresh: read, close: () => { isClosed = true; clearTimeout(timer); document.removeEventListener("visibilitychange", wake); } };
}

function waitingItems(view) {
  const item = (kind, what, due, more) => ({ key: `${view.plan_id}/${kind}/${(more && more.id) || ""}`, plan: view.plan_id, name: view.name, kind, what, due, since: view.updated_at, view, ...more });
  const items = [];
  if (view.proposal) items.push(item("revision", `Revision ${view.proposal.revision}: ${view.proposal.summary || plural(view.proposal.changes.length, "change")}`, view.proposal.due_at));
  else if (view.status === "awaiting_approval") items.push(item("plan", `A plan of ${plural(view.steps.length, "step")} by ${view.planner}`, undefined));
  if (view.question) items.push(item("question", view.question.question, view.question.due_at, { id: view.question.id, question: view.question }));
  for (const step of view.steps) {
    if (step.status !== "awaiting_approval") continue;
    if (step.question) items.push(item("answer", `${step.id} asks: ${step.question.question}`, step.question.due_at, { id: step.id, question: step.question, step }));
    else items.push(item("step", `${step.id}: ${step.reason || step.description || step.agent_type}`, step.due_at, { id: step.id, step }));
  }
  return items;
}
