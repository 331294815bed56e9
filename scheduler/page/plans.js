// The list of plans, live, with what needs attention on top; and the inbox that the frame counts.

import { h } from "./dom.js";
import { can, get, planPath, poll, post } from "./api.js";
import { withoutAnswer, withoutDecision } from "./actions.js";
import { app, button, cell, commands, curl, dim, empty, figure, icon, pageHead, planLink, problem, progress, rowHead, searchBox, skeleton, status, table, time, trouble, upToDate } from "./parts.js";
import { duration, money, number, plural, quote, words } from "./format.js";
import { isFinal } from "./replay.js";
import { PLAN_STATUSES } from "./vocabulary.js";

const POLL_MS = 2_000;
/** How often a search is repeated, and a list of more than a request. */
const SEARCH_MS = 20_000;
const TYPING_MS = 350;
const INBOX_MS = 3_000;
const LIMIT = 100;
/** Plans of one request, and requests before a person is asked whether to go on. */
const REQUEST_MAX = 500;
const REQUESTS_MAX = 20;
export const PARIS = "Plan a 3-day trip to Paris in May with a $2000 budget";

/**
 * The next `wanted` plans that fit, and where the ones after them begin: a page of a search may be short and not the last.
 *
 * - `query`: parameters of the API; `fits`: of a plan.
 */
export async function readPlans(query, wanted, cursor, fits = () => true) {
  const items = [];
  for (let i = 0; i < REQUESTS_MAX && items.length < wanted; i++) {
    const page = await get(`/v1/plans?${new URLSearchParams({ ...query, limit: Math.min(REQUEST_MAX, wanted - items.length), ...(cursor && { cursor }) })}`);
    items.push(...page.items.filter(fits));
    cursor = page.next;
    if (!cursor) break;
  }
  return { items, next: cursor || null };
}

/**
 * - `kept`: what the screen showed when it was left.
 */
export function plansScreen(kept) {
  const own = { wanted: LIMIT, typing: 0, isPointerOn: false, order: null, isSubmitting: false, demoRefusal: null };
  const param = (name) => app.route.params.get(name) || "";
  const query = () => Object.fromEntries([["status", param("status")], ["q", param("q").trim()], ["with_failures", param("failed") && "true"]].filter(([, value]) => value));
  const key = () => JSON.stringify([query(), own.wanted]);
  const list = poll(async () => { const asked = key(); return { ...await readPlans(query(), own.wanted), asked }; }, () => (param("q") || own.wanted > REQUEST_MAX ? SEARCH_MS : POLL_MS), () => app.render());
  const restore = (left) => {
    own.wanted = left?.wanted || LIMIT;
    if (left?.value?.asked === key()) list.value = left.value;
  };
  restore(kept);
  const workers = poll("/v1/workers", 4_000, () => app.render());
  const queues = poll("/v1/queues", 4_000, () => app.render());
  const read = () => { clearTimeout(own.typing); own.order = null; list.refresh(); app.render(); };
  const set = (changes) => { app.replace(changes); own.wanted = LIMIT; read(); };
  const type = (value) => { app.replace({ q: value || null }); own.wanted = LIMIT; clearTimeout(own.typing); own.typing = setTimeout(read, TYPING_MS); app.render(); };
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
    follow: (left) => { restore(left); read(); },
    keep: () => ({ wanted: own.wanted, value: list.value }),
    close: () => { clearTimeout(own.typing); list.close(); queues.close(); workers.close(); },
    view: () => {
      const counts = app.inbox()?.overview();
      return [
        pageHead("Plans", list.value ? upToDate() : null, can("submitter") ? h("a", { class: "button primary", href: "#/playground" }, "New goal") : null),
        counts?.plans ? strip(counts, queues.value, workers.value) : null,
        filters(counts, { set, type, param }),
        trouble(list.refusal, list.refresh),
        body({ own, list, isOld: list.value && list.value.asked !== key(), query: query(), runDemo, set, loadMore: () => { own.wanted = list.value.items.length + LIMIT; read(); } }),
      ];
    },
  };
}

/** What an operator looks at first: the numbers of all plans. */
function strip(counts, queues, workers) {
  const count = (...names) => names.reduce((sum, name) => sum + (counts.statuses[name] || 0), 0);
  const letters = queues ? queues.items.reduce((sum, queue) => sum + queue.dead_letters, 0) : null;
  const live = workers ? workers.items : null;
  const planned = count("planning", "replanning");
  const card = (href, sign, label, value, tone, note) => h("li", null, h("a", { href, class: `tone-${value && tone ? tone : "idle"}` }, icon(sign), h("span", { class: "big num" }, value === null ? "–" : number(value)), h("span", null, label), note ? dim(note) : null));
  return h("ul", { class: "strip", "aria-label": "Overview" },
    card("#/approvals", "awaiting_approval", "wait for people", counts.waits, "person"),
    card("#/plans?status=running", "running", "running", count("running"), "busy", planned ? `${number(planned)} being planned` : ""),
    card("#/plans?failed=1", "failed", "with failures", counts.with_failures, "bad", `of ${plural(counts.plans, "plan")}${counts.is_partial ? " and older ones" : ""}`),
    card("#/dead-letters", "dead", letters === 1 ? "dead letter" : "dead letters", letters, "bad"),
    card("#/workers", "workers", live && live.length === 1 ? "worker" : "workers", live && live.length, live && live.length ? "good" : "", live ? `${number(live.reduce((sum, one) => sum + one.busy, 0))} of ${number(live.reduce((sum, one) => sum + one.slots, 0))} slots busy` : ""));
}

function filters(counts, { set, type, param }) {
  const chosen = param("status");
  return h("div", { class: "filters" },
    searchBox("Words of names, ids and goals", param("q"), type),
    h("label", null, h("span", { class: "visually-hidden" }, "Status"), h("select", { value: chosen, onchange: (event) => set({ status: event.target.value || null }) }, h("option", { value: "", selected: !chosen }, "Every status"), PLAN_STATUSES.map((name) => h("option", { key: name, value: name, selected: name === chosen }, words(name), counts ? ` (${number(counts.statuses[name] || 0)})` : "")))),
    h("label", { class: "check" }, h("input", { type: "checkbox", checked: param("failed") === "1", onchange: (event) => set({ failed: event.target.checked ? "1" : null }) }), " With failures only"));
}

function body({ own, list, isOld, query, loadMore, runDemo, set }) {
  if (!list.value) return list.refusal ? null : skeleton(8);
  const { items, next } = list.value;
  const isFiltered = Object.keys(query).length;
  if (!items.length && !isFiltered) return firstVisit(own, runDemo);
  const more = next ? button({ onclick: loadMore }, items.length ? "Load older plans" : "Search further back") : null;
  if (!items.length) return h("div", { class: isOld ? "is-old" : "" }, empty("Nothing matches", next ? "No plan that was looked at so far fits." : "No plan fits the filter.", more, " ", button({ onclick: () => set({ q: null, status: null, failed: null }) }, "Clear the filter"), " ", query.q ? h("a", { class: "button", href: `#/history?q=${encodeURIComponent(query.q)}` }, "Search the logs") : null));
  return h("div", { class: isOld ? "is-old" : "", onmouseenter: () => { own.isPointerOn = true; }, onmouseleave: () => { own.isPointerOn = false; app.render(); } },
    planTable(hold(own, items)), more,
    commands(`goalmill plan list${query.q ? ` --search ${quote(query.q)}` : ""}${query.status ? ` --status ${query.status}` : ""}`, curl("GET", `/v1/plans${isFiltered ? `?${new URLSearchParams(query)}` : ""}`)));
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
    cell(status(plan.status), plan.waits?.due_at ? h("div", { class: "dim" }, "decision due ", time(plan.waits.due_at)) : null), cell(progress(plan.counts)), hasNamespaces ? cell(plan.namespace || "") : null,
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
 * The numbers of all plans, and what waits for people, the most urgent first.
 *
 * The scheduler says which plans wait; each of them is read when it has changed.
 */
export function inbox(onUpdate) {
  const known = new Map();
  const read = async () => {
    const overview = await get("/v1/overview");
    const changed = overview.waiting.filter((plan) => known.get(plan.plan_id)?.seq !== plan.seq);
    for (let i = 0; i < changed.length; i += 8) {
      await Promise.all(changed.slice(i, i + 8).map(async ({ plan_id, seq }) => { const view = await get(planPath(plan_id)).catch(() => null); if (view) known.set(plan_id, { seq, items: waitingItems(view) }); }));
    }
    const ids = new Set(overview.waiting.map((plan) => plan.plan_id));
    for (const id of known.keys()) if (!ids.has(id)) known.delete(id);
    const items = [...known.values()].flatMap((one) => one.items).sort((a, b) => (Date.parse(a.due) || Infinity) - (Date.parse(b.due) || Infinity) || Date.parse(a.since) - Date.parse(b.since));
    return { overview, items };
  };
  const list = poll(read, INBOX_MS, onUpdate);
  const items = () => list.value?.items || [];
  return { overview: () => list.value?.overview, count: () => list.value?.overview.waits || 0, items, isLoaded: () => Boolean(list.value), refusal: () => list.refusal, refresh: list.refresh, close: list.close };
}

/** What a plan needs from people, each with its deadline and with what happens then. */
export function waitingItems(view) {
  const { decision } = view;
  const item = (kind, what, due, otherwise, more) => ({ key: `${view.plan_id}/${kind}/${(more && more.id) || ""}`, plan: view.plan_id, name: view.name, kind, what, due, otherwise, since: view.updated_at, ...more });
  const items = [];
  if (decision && view.proposal) items.push(item("revision", `Revision ${view.proposal.revision}: ${view.proposal.summary || plural(view.proposal.changes.length, "change")}`, decision.due_at, withoutDecision(decision, "revision")));
  else if (decision?.failed_step) items.push(item("failure", `${decision.failed_step} has failed: go on without it?`, decision.due_at, withoutDecision(decision, "failure")));
  else if (decision) items.push(item("plan", view.planner === "submitted" ? `A submitted plan of ${plural(view.steps.length, "step")}` : `A plan of ${plural(view.steps.length, "step")} by ${view.planner}`, decision.due_at, withoutDecision(decision, "plan")));
  if (view.question) items.push(item("question", view.question.question, view.question.due_at, withoutAnswer(view.question, false), { id: view.question.id, question: view.question }));
  for (const step of view.steps) {
    if (step.status !== "awaiting_approval") continue;
    if (step.question) items.push(item("answer", `${step.id} asks: ${step.question.question}`, step.question.due_at, withoutAnswer(step.question, true), { id: step.id, question: step.question, step }));
    else if (step.decision) items.push(item("step", `${step.id}: ${step.reason || step.description || step.agent_type}`, step.decision.due_at, withoutDecision(step.decision, "step"), { id: step.id, step }));
  }
  return items;
}

/** `in 2 h, without a decision: the plan is rejected`: the deadline, and what happens then. */
export const deadline = ({ due, otherwise, since, question }) => (Number.isFinite(Date.parse(due)) ? dim(time(due), `, without ${question ? "an answer" : "a decision"}: ${otherwise}`) : dim("no time limit; waits since ", time(since)));
