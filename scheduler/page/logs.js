// Events of all plans, and the history with its search.

import { h } from "./dom.js";
import { get, poll } from "./api.js";
import { app, commands, curl, download, empty, icon, isStale, pageHead, planLink, problem, skeleton, table } from "./parts.js";
import { exact, parseTime, plural, shortTime, words } from "./format.js";
import { eventDetail } from "./plan.js";
import { planTable } from "./plans.js";
import { FINAL_STATUSES } from "./replay.js";

const SPANS = [["300000", "5 minutes"], ["3600000", "1 hour"], ["86400000", "24 hours"], ["604800000", "7 days"]];
const GROUPS = { "": "Every event", "step_failed,step_retrying,plan_failed,planning_failed": "Failures", "plan_revised,replan_triggered,revision_proposed,revision_refused": "Revisions", "plan_approval_requested,plan_approved,plan_rejected,step_approval_requested,step_approved,step_question_asked,step_question_answered,question_asked,question_answered": "People", "model_asked,model_answered,tools_called,call_recorded,calls_discarded": "Models", "goal_accepted,plan_created,plan_completed,plan_failed,plan_cancelled": "Plans" };

export function logsScreen() {
  const own = { isHeld: false, older: [], next: undefined, refusal: null };
  const param = (name) => app.route.params.get(name) || "";
  const path = () => `/v1/logs?limit=200&since_ms=${Date.now() - Number(param("span") || 3_600_000)}${param("types") ? `&types=${param("types")}` : ""}${param("plan") ? `&plan=${encodeURIComponent(param("plan"))}` : ""}`;
  const list = poll(() => (own.isHeld ? Promise.resolve(list.value) : path()), 2_500, () => app.render());
  const set = (changes) => { app.replace(changes); own.older = []; own.next = undefined; list.refresh(); app.render(); };
  const more = async (cursor) => {
    try { const page = await get(`${path()}&cursor=${encodeURIComponent(cursor)}`); own.older.push(...page.items.reverse()); own.next = page.next || null; own.refusal = null; } catch (refusal) { own.refusal = refusal; }
    app.render();
  };
  return {
    title: () => "Events",
    close: list.close,
    view: () => {
      const text = param("q").trim().toLowerCase();
      const all = list.value ? [...list.value.items].reverse().concat(own.older) : [];
      const found = all.filter((event) => !text || `${event.type} ${words(event.type)} ${event.plan_id} ${event.step_id || ""} ${event.actor || ""} ${eventDetail(event)}`.toLowerCase().includes(text));
      const next = own.next === undefined ? list.value && list.value.next : own.next;
      return [
        pageHead("Events", h("span", { class: "dim" }, isStale() ? "from before" : own.isHeld ? "paused" : "live"), h("button", { type: "button", "aria-pressed": String(own.isHeld), onclick: () => { own.isHeld = !own.isHeld; if (!own.isHeld) list.refresh(); app.render(); } }, own.isHeld ? "Resume" : "Pause"), h("button", { type: "button", disabled: !all.length, onclick: () => download("events.ndjson", all.map((event) => JSON.stringify(event)).join("\n"), "application/x-ndjson") }, "Download")),
        h("div", { class: "filters" }, search("Text in the events that are loaded", param("q"), (value) => { app.replace({ q: value || null }); app.render(); }),
          choice("Kind", param("types"), Object.entries(GROUPS), (value) => set({ types: value || null })), choice("Period", param("span") || "3600000", SPANS, (value) => set({ span: value })), param("plan") ? h("button", { type: "button", onclick: () => set({ plan: null }) }, `Only ${param("plan")} ×`) : null),
        list.refusal && list.refusal.status !== 0 ? problem(list.refusal, list.refresh) : null, problem(own.refusal),
        !list.value ? (list.refusal ? null : skeleton(10)) : found.length ? eventTable(found, set) : empty("No events", all.length ? "Nothing that is loaded fits the filter." : "Nothing happened in this period."),
        next ? h("button", { type: "button", onclick: () => more(next) }, "Load older events") : null,
        commands("goalmill logs", curl("GET", "/v1/logs?limit=200")),
      ];
    },
  };
}

const search = (label, value, oninput) => h("label", { class: "search" }, h("span", { class: "visually-hidden" }, label), icon("search"), h("input", { type: "search", placeholder: label, value, oninput: (event) => oninput(event.target.value) }));
const choice = (label, value, options, onchange) => h("label", null, h("span", { class: "visually-hidden" }, label), h("select", { value, onchange: (event) => onchange(event.target.value) }, options.map(([name, text]) => h("option", { key: name, value: name, selected: name === value }, text))));

function eventTable(events, set) {
  return table("Events, newest first", ["Time (UTC)", "Event", "Plan", "Step", "By", "Details"], events.map((event) => h("tr", { key: `${event.plan_id}-${event.seq}` },
    h("td", { class: "num", title: exact(parseTime(event.time)) }, shortTime(parseTime(event.time), app.now)), h("th", { scope: "row" }, h("a", { href: planLink(event.plan_id, `?seq=${event.seq}&tab=events`) }, words(event.type))),
    h("td", null, h("a", { class: "id", href: planLink(event.plan_id) }, event.plan_id), " ", h("button", { type: "button", class: "quiet small", "aria-label": `Only plan ${event.plan_id}`, onclick: () => set({ plan: event.plan_id }) }, "only")),
    h("td", null, event.step_id ? h("code", null, event.step_id) : ""), h("td", null, event.actor || ""), h("td", { class: "detail", dir: "auto" }, eventDetail(event)))));
}

/** Plans that ended, with full-text search where the scheduler has an archive. */
export function historyScreen() {
  const own = { value: null, refusal: null, isLoading: false, more: [], next: null, round: 0, isIgnored: false };
  const param = (name) => app.route.params.get(name) || "";
  let timer = 0;
  const query = (takesText) => `/v1/plans?limit=100${takesText && param("q") ? `&q=${encodeURIComponent(param("q"))}` : ""}${param("status") ? `&status=${param("status")}` : ""}`;
  const load = async () => {
    const round = ++own.round;
    own.isLoading = true;
    app.render();
    try {
      let page;
      try { page = await get(query(true)); own.isIgnored = false; } catch (refusal) {
        // A scheduler without an archive takes no text: what it lists is searched here.
        if (!refusal.errors.some((issue) => issue.code === "UNKNOWN_PARAMETER")) throw refusal;
        page = await get(query(false));
        own.isIgnored = true;
      }
      if (round === own.round) Object.assign(own, { value: page, refusal: null, more: [], next: page.next || null });
    } catch (refusal) { if (round === own.round) own.refusal = refusal; }
    own.isLoading = false;
    app.render();
  };
  const loadMore = async () => {
    try { const page = await get(`${query(!own.isIgnored)}&cursor=${encodeURIComponent(own.next)}`); own.more.push(...page.items); own.next = page.next || null; } catch (refusal) { own.refusal = refusal; }
    app.render();
  };
  load();
  const type = (value) => { app.replace({ q: value || null }); clearTimeout(timer); timer = setTimeout(load, 300); app.render(); };
  return {
    title: () => "History",
    close: () => clearTimeout(timer),
    view: () => {
      const text = param("q").trim().toLowerCase();
      const all = own.value ? [...own.value.items, ...own.more] : [];
      const found = own.isIgnored ? all.filter((plan) => !text || `${plan.name} ${plan.plan_id}`.toLowerCase().includes(text)) : all;
      return [
        pageHead("History"),
        h("div", { class: "filters" }, search("Words of goals, names and results", param("q"), type), choice("Status", param("status"), [["", "Every status"], ...FINAL_STATUSES.map((name) => [name, words(name)])], (value) => { app.replace({ status: value || null }); load(); }), own.value ? h("span", { class: "dim" }, `${plural(found.length, "plan")}${own.next ? " and more" : ""}`) : null),
        own.isIgnored && text ? h("p", { class: "dim" }, "This scheduler has no archive: only names and ids of the plans that it still keeps are searched.") : null,
        own.refusal && own.refusal.status !== 0 ? problem(own.refusal, load) : null,
        !own.value ? (own.refusal ? null : skeleton(8)) : found.length ? planTable(found, "Plans that were found") : empty(text ? "Nothing found" : "No history yet", text ? "Try fewer or other words." : "Plans appear here when they have ended."),
        own.next ? h("button", { type: "button", onclick: loadMore }, "Load older plans") : null,
        commands("goalmill plan list", curl("GET", query(!own.isIgnored))),
      ];
    },
  };
}
