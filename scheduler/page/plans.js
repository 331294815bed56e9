// The list of plans, live, with what needs attention on top; and the inbox that the frame counts.

import { h } from "./dom.js";
import { can, get, planPath, poll, post } from "./api.js";
import { bulkBar, bulkButtons, bulkProgress, planLabel, planVerbs, selectBox, selection } from "./bulk.js";
import { withoutAnswer, withoutDecision } from "./actions.js";
import { app, button, cell, commands, curl, dim, empty, figure, icon, pageHead, planLink, problem, progress, rowHead, searchBox, skeleton, status, table, time, trouble, upToDate } from "./parts.js";
import { duration, money, number, parseTime, plural, quote, relative, words } from "./format.js";
import { isFinal } from "./replay.js";
import { viewName, viewsLine } from "./views.js";
import { PLAN_STATUSES } from "./vocabulary.js";

const POLL_MS = 2_000;
/** How often a search is repeated, and a list of more than a request. */
const SEARCH_MS = 20_000;
/** How often the numbers of workers and dead letters above the list are read. */
const ROUND_MS = 10_000;
const TYPING_MS = 350;
const INBOX_MS = 3_000;
const LIMIT = 100;
/** Plans of one request, and requests before a person is asked whether to go on. */
const REQUEST_MAX = 500;
const REQUESTS_MAX = 20;
/** Plans whose plans inside are shown, and how many of each at first. */
const OPENED_MAX = 20;
const INSIDE = 100;
const INSIDE_MORE = 500;
const SINCE = [["", "Changed at any time"], ["3600000", "Changed within 1 hour"], ["86400000", "Changed within a day"], ["604800000", "Changed within a week"]];
const COSTS = [["", "Any cost"], ["0.01", "Costs $0.01 or more"], ["0.1", "Costs $0.10 or more"], ["1", "Costs $1 or more"], ["10", "Costs $10 or more"]];
export const PARIS = "Plan a 3-day trip to Paris in May with a $2000 budget";

/**
 * The next `wanted` plans that fit, and where the ones after them begin: a page of a search may be short and not the last.
 *
 * @param {Record<string, string>} query parameters of the API
 * @param {number} wanted
 * @param {string} [cursor]
 * @param {(plan: any) => boolean} [fits]
 */
export async function readPlans(query, wanted, cursor, fits = () => true) {
  const items = [];
  for (let i = 0; i < REQUESTS_MAX && items.length < wanted; i++) {
    const page = await get(`/v1/plans?${new URLSearchParams({ ...query, limit: String(Math.min(REQUEST_MAX, wanted - items.length)), ...(cursor && { cursor }) })}`);
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
  const own = { wanted: LIMIT, typing: 0, isPointerOn: false, order: null, isSubmitting: false, demoRefusal: null, opened: new Set(), insideWanted: new Map(), selected: selection(), isReading: false };
  const param = (name) => app.route.params.get(name) || "";
  const query = () => Object.fromEntries([["status", param("status")], ["q", param("q").trim()], ["with_failures", param("failed") && "true"], ["agent_type", param("agent").trim()], ["where", conditions(param)]].filter(([, value]) => value));
  const key = () => JSON.stringify([["status", "q", "failed", "agent", "since", "cost"].map((name) => param(name).trim()), own.wanted]);
  // Without a filter, plans inside plans stand below those.
  const asked = () => { const given = query(); return Object.keys(given).length ? given : { outermost: "true" }; };
  const list = poll(async () => {
    const asKey = key();
    const inside = [...own.opened].slice(-OPENED_MAX).map(async (id) => [id, await readPlans({ parent: id }, own.insideWanted.get(id) || INSIDE)]);
    const [page, ...opened] = await Promise.all([readPlans(asked(), own.wanted), ...inside]);
    for (const plan of [...page.items, ...opened.flatMap(([, part]) => part.items)]) own.selected.renew(plan.plan_id, plan);
    return { ...page, inside: Object.fromEntries(opened), asked: asKey };
  }, () => (param("q") || own.wanted > REQUEST_MAX ? SEARCH_MS : POLL_MS), () => app.render());
  const restore = (left) => {
    own.wanted = left?.wanted || LIMIT;
    own.opened = new Set(left?.opened);
    own.selected.items.clear();
    for (const plan of left?.selected || []) own.selected.items.set(plan.plan_id, plan);
    if (left?.value?.asked === key()) list.value = left.value;
  };
  restore(kept);
  const workers = poll("/v1/workers", ROUND_MS, () => app.render());
  const queues = poll("/v1/queues", ROUND_MS, () => app.render());
  const read = () => { clearTimeout(own.typing); own.order = null; list.refresh(); app.render(); };
  const set = (changes) => { app.replace(changes); own.wanted = LIMIT; own.selected.items.clear(); read(); };
  const showInside = (id, count) => { own.insideWanted.set(id, count); list.refresh(); };
  // What is not shown any more is not selected.
  const drop = (id) => { for (const plan of list.value?.inside[id]?.items || []) { own.selected.items.delete(plan.plan_id); drop(plan.plan_id); } };
  const toggle = (id) => { if (own.opened.delete(id)) drop(id); else own.opened.add(id); list.refresh(); app.render(); };
  const selectAll = async () => {
    const asKey = key();
    own.isReading = true;
    app.render();
    try {
      const { items } = await readPlans(asked(), REQUEST_MAX * REQUESTS_MAX);
      if (asKey === key()) for (const plan of items) own.selected.items.set(plan.plan_id, plan);
    } catch (refusal) { app.announce(refusal.message); }
    own.isReading = false;
    app.render();
  };
  const type = (value) => { app.replace({ q: value || null }); own.selected.items.clear(); own.wanted = LIMIT; clearTimeout(own.typing); own.typing = setTimeout(read, TYPING_MS); app.render(); };
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
    title: () => viewName() || "Plans",
    follow: (left) => { restore(left); read(); },
    keep: () => ({ wanted: own.wanted, value: list.value, opened: [...own.opened], selected: own.selected.list() }),
    close: () => { clearTimeout(own.typing); list.close(); queues.close(); workers.close(); },
    view: () => {
      const counts = app.inbox()?.overview();
      return [
        pageHead("Plans", list.value ? upToDate() : null, can("submitter") ? h("a", { class: "button primary", href: "#/playground" }, "New goal") : null),
        counts?.plans ? strip(counts, queues.value, workers.value) : null,
        viewsLine(),
        filters(counts, { set, type, param, agents: (queues.value?.items || []).map((queue) => queue.agent_type) }),
        bulkProgress(),
        trouble(list.refusal, list.refresh),
        body({ own, list, isOld: list.value && list.value.asked !== key(), query: query(), runDemo, set, toggle, showInside, selectAll, loadMore: () => { own.wanted = list.value.items.length + LIMIT; read(); } }),
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
    card("#/workers", "workers", live && live.length === 1 ? "worker" : "workers", live?.length, live?.length ? "good" : "", live ? `${number(live.reduce((sum, one) => sum + one.busy, 0))} of ${number(live.reduce((sum, one) => sum + one.slots, 0))} slots busy` : ""));
}

/** What the API is asked for beside words and statuses; times by the minute, so that the question stays the same for a while. */
function conditions(param) {
  const chosen = (name, options) => options.map(([value]) => value).find((value) => value === param(name));
  const since = chosen("since", SINCE), cost = chosen("cost", COSTS);
  if (!since && !cost) return "";
  const begin = new Date(Math.floor((app.now - Number(since || 0)) / 60_000) * 60_000).toISOString();
  return [since && `$.updated_at >= "${begin}"`, cost && `$.usage.cost >= ${Number(cost)}`].filter(Boolean).join(" && ");
}

function filters(counts, { set, type, param, agents }) {
  const chosen = param("status");
  const choice = (name, label, options) => h("label", null, h("span", { class: "visually-hidden" }, label), h("select", { value: param(name), onchange: (event) => set({ [name]: event.target.value || null }) }, options.map(([value, text]) => h("option", { key: value, value, selected: value === param(name) }, text))));
  return h("div", { class: "filters" },
    searchBox("Words of names, ids and goals", param("q"), type),
    h("label", null, h("span", { class: "visually-hidden" }, "Status"), h("select", { value: chosen, onchange: (event) => set({ status: event.target.value || null }) }, h("option", { value: "", selected: !chosen }, "Every status"), PLAN_STATUSES.map((name) => h("option", { key: name, value: name, selected: name === chosen }, words(name), counts ? ` (${number(counts.statuses[name] || 0)})` : "")))),
    choice("agent", "Agent type", [["", "Every agent type"], ...[...new Set([...agents, param("agent")].filter(Boolean))].sort().map((name) => [name, name])]),
    choice("since", "Time", SINCE), choice("cost", "Cost", COSTS),
    h("label", { class: "check" }, h("input", { type: "checkbox", checked: param("failed") === "1", onchange: (event) => set({ failed: event.target.checked ? "1" : null }) }), " With failures only"));
}

function body({ own, list, isOld, query, loadMore, runDemo, set, toggle, showInside, selectAll }) {
  if (!list.value) return list.refusal ? null : skeleton(8);
  const { items, next, inside } = list.value;
  const { selected } = own, verbs = planVerbs();
  const isFiltered = Object.keys(query).length;
  if (!items.length && !isFiltered) return firstVisit(own, runDemo);
  const more = next ? button({ onclick: loadMore }, items.length ? "Load older plans" : "Search further back") : null;
  if (!items.length) return h("div", { class: isOld ? "is-old" : "" }, empty("Nothing matches", next ? "No plan that was looked at so far fits." : "No plan fits the filter.", more, " ", button({ onclick: () => set({ q: null, status: null, failed: null, agent: null, since: null, cost: null, view: null }) }, "Clear the filter"), " ", query.q ? h("a", { class: "button", href: `#/history?q=${encodeURIComponent(query.q)}` }, "Search the logs") : null));
  return h("div", { class: isOld ? "is-old" : "", onmouseenter: () => { own.isPointerOn = true; }, onmouseleave: () => { own.isPointerOn = false; app.render(); } },
    verbs.length ? bulkBar({ selected, shown: items.map((plan) => [plan.plan_id, plan]), selectAll: next ? selectAll : null, isReading: own.isReading, buttons: bulkButtons(verbs, selected.list(), planLabel, () => { selected.clear(); list.refresh(); }) }) : null,
    planTable(nested(hold(own, items), inside, own.opened), undefined, { toggle, showInside, selected: verbs.length ? selected : null }), more,
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

/** The plans with those inside them below: the opened ones, or in a list with a filter those that fit too. */
function nested(plans, inside, opened) {
  const ids = new Set(plans.map((plan) => plan.plan_id));
  const childrenOf = (plan) => [...(opened.has(plan.plan_id) ? inside[plan.plan_id]?.items || [] : []), ...plans.filter((one) => one.parent === plan.plan_id)];
  const rows = [], seen = new Set();
  const add = (plan, depth) => {
    if (seen.has(plan.plan_id)) return;
    seen.add(plan.plan_id);
    rows.push({ ...plan, depth, isOpen: opened.has(plan.plan_id) });
    for (const child of childrenOf(plan)) add(child, depth + 1);
    const part = opened.has(plan.plan_id) && inside[plan.plan_id];
    if (part?.next) rows.push({ moreOf: plan.plan_id, shown: part.items.length, rest: plan.plans_inside - part.items.length, depth: depth + 1 });
  };
  for (const plan of plans) if (!plan.parent || !ids.has(plan.parent)) add(plan, 0);
  return rows;
}

/**
 * @param {any[]} plans
 * @param {string} [caption]
 * @param {{toggle?: (id: string) => void, showInside?: (id: string, count: number) => void, selected?: any}} [options]
 *
 * - `toggle(id)`: shows or hides the plans inside a plan; `selected`: see `selection`, or null where nothing can be done.
 */
export function planTable(plans, caption = "Plans, last changed first", { toggle, showInside, selected } = {}) {
  const hasNamespaces = plans.some((plan) => plan.namespace && plan.namespace !== "default");
  const heads = [selected ? { text: "Selection", isHidden: true } : null, "Plan", "Status", "Steps", hasNamespaces ? "Namespace" : null, { text: "Revisions", num: true }, { text: "Time", num: true }, { text: "Cost", num: true }, { text: "Changed", num: true }].filter(Boolean);
  const more = (row) => h("tr", { key: `more ${row.moreOf}`, class: `inside depth-${Math.min(row.depth, 3)}` }, selected ? h("td", { class: "select" }) : null, h("th", { scope: "row", colspan: String(heads.length - (selected ? 1 : 0)) }, button({ class: "small", onclick: () => showInside(row.moreOf, row.shown < INSIDE_MORE ? INSIDE_MORE : row.shown + INSIDE_MORE) }, row.rest > 0 ? `Show more of ${plural(row.rest, "plan")} inside` : "Show more plans inside")));
  return table(caption, heads, plans.map((plan) => plan.moreOf ? more(plan) : h("tr", { key: plan.plan_id, class: plan.depth ? `inside depth-${Math.min(plan.depth, 3)}` : "" },
    selected ? h("td", { class: "select" }, selectBox(selected, plan.plan_id, plan, plan.name || plan.plan_id)) : null,
    rowHead(h("a", { href: planLink(plan.plan_id), dir: "auto" }, plan.name || plan.plan_id), h("div", { class: "dim id" }, plan.plan_id),
      plan.parent && !plan.depth ? h("div", { class: "dim" }, "inside ", h("a", { href: planLink(plan.parent) }, plan.parent)) : null,
      plan.plans_inside && toggle ? button({ class: "quiet small", "aria-expanded": String(plan.isOpen), onclick: () => toggle(plan.plan_id) }, icon(plan.isOpen ? "down" : "right"), h("span", null, `${plural(plan.plans_inside, "plan")} inside`)) : null),
    cell(status(plan.status), plan.waits?.due_at ? h("div", { class: "dim" }, "decision due ", time(plan.waits.due_at)) : null), cell(progress(plan.counts)), hasNamespaces ? cell(plan.namespace || "") : null,
    h("td", { class: `num ${plan.revision ? "" : "no-revision"}` }, plan.revision ? number(plan.revision) : dim("0")), figure(elapsed(plan)), figure(money(plan.usage.cost)), figure(time(plan.updated_at)))), { class: `plan-table ${selected ? "selectable" : ""}` });
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
 * The scheduler says which plans wait; while `show` asks for them, each of them is read when it has changed.
 */
export function inbox(onUpdate) {
  const known = new Map();
  let wanted = 0;
  const read = async () => {
    const limit = wanted;
    let failed = null;
    const overview = await get(`/v1/overview?limit=${limit}`);
    const changed = overview.waiting.filter((plan) => known.get(plan.plan_id)?.seq !== plan.seq);
    for (let i = 0; i < changed.length; i += 8) {
      await Promise.all(changed.slice(i, i + 8).map(async ({ plan_id, seq }) => { const items = await readWaiting(plan_id).catch((refusal) => { if (refusal.status !== 404) failed ||= refusal; return null; }); if (items) known.set(plan_id, { seq, items }); }));
    }
    if (!limit) return { overview, items: list?.value?.items || [] };
    const ids = new Set(overview.waiting.map((plan) => plan.plan_id));
    for (const id of known.keys()) if (!ids.has(id)) known.delete(id);
    const items = [...known.values()].flatMap((one) => one.items).sort((a, b) => (Date.parse(a.due) || Infinity) - (Date.parse(b.due) || Infinity) || Date.parse(a.since) - Date.parse(b.since));
    return { overview, items: groupItems(items), failed, plans: overview.waiting.length, isRead: true };
  };
  let list = null;
  list = poll(read, INBOX_MS, onUpdate);
  return {
    overview: () => list.value?.overview, all: () => list.value?.overview.waits || 0, items: () => list.value?.items || [],
    /** What the person who looks may decide. */
    count: () => (can("approver") ? list.value?.overview.waits || 0 : 0),
    /** Plans that are shown; fewer than asked for are all. */
    plans: () => list.value?.plans || 0, isLoaded: () => Boolean(list.value?.isRead), refusal: () => list.refusal || list.value?.failed, refresh: () => list.refresh(), close: () => list.close(),
    /** From now on so many of the plans that wait are read. */
    show: (count) => { wanted = count; if (count) list.refresh(); },
  };
}

/** What a plan needs from people; of steps with the inputs that they would get. */
async function readWaiting(plan) {
  const view = await get(planPath(plan));
  const hasSteps = view.steps.some((step) => step.status === "awaiting_approval");
  const items = waitingItems(view, hasSteps ? (await get(`${planPath(plan)}/graph`)).steps : []);
  // Items of a map say which plan they are of.
  const isMap = view.parent && items.some((item) => item.kind === "step");
  const parentName = isMap ? await get(`${planPath(view.parent)}?steps_limit=0`).then((one) => one.name, () => "") : "";
  return isMap ? items.map((item) => ({ ...item, parentName })) : items;
}

/** Inputs as they would be sent: what only names an output is that output, if it is there and not stored apart. */
function filledIn(value, view) {
  if (Array.isArray(value)) return value.map((one) => filledIn(one, view));
  if (value !== null && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, filledIn(one, view)]));
  const [, id, path] = (typeof value === "string" && /^\{\{\s*steps\.([\w-]+)\.outputs((?:\.\w+)*)\s*\}\}$/.exec(value)) || [];
  const found = id && path.split(".").slice(1).reduce((part, name) => part?.[name], view.steps.find((step) => step.id === id)?.outputs);
  return found === undefined ? value : found;
}

/** What a plan needs from people, each with its deadline and with what happens then. */
export function waitingItems(view, definitions = []) {
  const { decision } = view;
  const definitionOf = new Map(definitions.map((step) => [step.id, step]));
  const inputsOf = (step) => filledIn(definitionOf.get(step.id)?.inputs, view);
  const item = (kind, what, due, otherwise, more) => ({ key: `${view.plan_id}/${kind}/${more?.id || ""}`, plan: view.plan_id, name: view.name, kind, what, due, otherwise, since: view.updated_at, parent: view.parent, ...more });
  const items = [];
  if (decision && view.proposal) items.push(item("revision", `Revision ${view.proposal.revision}: ${view.proposal.summary || plural(view.proposal.changes.length, "change")}`, decision.due_at, withoutDecision(decision, "revision")));
  else if (decision?.failed_step) items.push(item("failure", `${decision.failed_step} has failed: go on without it?`, decision.due_at, withoutDecision(decision, "failure")));
  else if (decision) items.push(item("plan", view.planner === "submitted" ? `A submitted plan of ${plural(view.steps.length, "step")}` : `A plan of ${plural(view.steps.length, "step")} by ${view.planner}`, decision.due_at, withoutDecision(decision, "plan"), { steps: view.steps }));
  if (view.question) items.push(item("question", view.question.question, view.question.due_at, withoutAnswer(view.question, false), { id: view.question.id, question: view.question }));
  for (const step of view.steps) {
    if (step.status !== "awaiting_approval") continue;
    if (step.question) items.push(item("answer", `${step.id} asks: ${step.question.question}`, step.question.due_at, withoutAnswer(step.question, true), { id: step.id, question: step.question, step, inputs: inputsOf(step) }));
    else if (step.decision) items.push(item("step", `${step.id}: ${step.reason || step.description || step.agent_type}`, step.decision.due_at, withoutDecision(step.decision, "step"), { id: step.id, step, inputs: inputsOf(step) }));
  }
  return items;
}

/** The map of an item: its plan is inside another and has the name of the map, and its id is `map:7`. */
const mapOf = ({ id, name, parent }) => (parent && id.startsWith(`${name}:`) && /^\d+$/.test(id.slice(name.length + 1)) ? name : "");

/** Decisions on items of the same map become one, with `members`, at the place of the first. */
export function groupItems(items) {
  const groups = new Map();
  const all = [];
  for (const item of items) {
    const map = item.kind === "step" && mapOf(item);
    if (!map) { all.push(item); continue; }
    // Items are copies of one step.
    const key = `${item.plan}/items/${map}/${item.step.agent_type}/${item.step.description}`;
    const known = groups.get(key);
    if (known) { known.members.push(item); continue; }
    const group = { ...item, key, kind: "items", map, members: [item] };
    groups.set(key, group);
    all.push(group);
  }
  // One alone is a decision like any other.
  return all.map((item) => (item.members?.length === 1 ? item.members[0] : item));
}

/** How many decisions these are. */
export const countDecisions = (items) => items.reduce((sum, item) => sum + (item.members?.length || 1), 0);

const SOON_MS = 600_000;
/** Whether a deadline is so near that it is marked. */
export const isSoon = (due) => parseTime(due) - app.now < SOON_MS;

/** `in 2 h, without a decision: the plan is rejected`: the deadline, and what happens then; of a group over all its members. */
export function deadline({ due, otherwise, since, question, members }) {
  const dues = (members || [{ due }]).map((one) => parseTime(one.due)).filter(Number.isFinite).sort((a, b) => a - b);
  const first = dues[0], last = dues[dues.length - 1];
  if (first === undefined) return dim("no time limit; waits since ", time(since));
  const then = members ? [...new Set(members.map((one) => one.otherwise))].slice(0, 3).join(", or ") : otherwise;
  const isRange = relative(first, app.now) !== relative(last, app.now);
  return h("span", { class: isSoon(first) ? "soon" : "dim" }, isSoon(first) ? h("strong", null, "Last ten minutes: ") : null, isRange ? "from " : "", time(first), isRange ? [" to ", time(last)] : null, `, without ${question ? "an answer" : "a decision"}: ${then}`);
}
