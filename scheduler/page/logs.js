// Events of all plans, and the history. The scheduler searches both, what it has archived too.

import { h } from "./dom.js";
import { get, isOutage, planPath, poll } from "./api.js";
import { app, button, cell, commands, curl, dim, download, empty, figure, pageHead, planLink, problem, rowHead, searchBox, skeleton, status, table, time, trouble, upToDate } from "./parts.js";
import { clockTime, exact, parseTime, plural, quote, shortTime, words, zone } from "./format.js";
import { eventDetail } from "./plan.js";
import { planTable, readPlans } from "./plans.js";
import { isFinal } from "./replay.js";
import { EVENTS, PLAN_STATUSES } from "./vocabulary.js";

const SPANS = [["300000", "5 minutes", "5m"], ["3600000", "1 hour", "1h"], ["86400000", "24 hours", "24h"], ["604800000", "7 days", "7d"], ["2592000000", "30 days", "30d"], ["all", "All time", "36500d"]];
const TYPES = Object.keys(EVENTS);
/** @type {[string, RegExp][]} */
const PATTERNS = [["Failures", /failed|retrying/], ["Revisions", /replan|revis/], ["People", /approv|question|rejected/], ["Models", /^model|^call|tools/], ["Plans", /^goal|^plan_(created|completed|failed|cancelled)/]];
const GROUPS = PATTERNS.map(([label, fits]) => [TYPES.filter((name) => fits.test(name)).join(","), label]);
const FIELDS = [["plan", "Plan", "id"], ["step", "Step", "id"], ["phase", "Phase", "id"]];

const LIVE_MS = 2_500;
/** How often a search that reads more than the newest events is repeated. */
const SEARCH_MS = 20_000;
const TYPING_MS = 350;
const EVENTS_MAX = 5_000;
/** Pages that are read without asking when the ones before had nothing that fits. */
const PAGES_MAX = 5;

const param = (name) => app.route.params.get(name) || "";
const wordsOf = (text) => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) || [];
const byTime = (a, b) => b.ms - a.ms || (a.plan_id === b.plan_id ? b.seq - a.seq : a.plan_id < b.plan_id ? 1 : -1);

export function logsScreen() {
  const own = { isHeld: false, found: new Map(), next: undefined, limit: 200, isPending: true, taken: null, refusal: null, isLoading: false, pages: 0, timer: 0, readMs: 0, round: 0 };
  const span = () => param("span") || "3600000";
  const isSearch = () => Boolean(param("q").trim()) || !["300000", "3600000"].includes(span());
  const path = (cursor) => {
    const asked = new URLSearchParams({ limit: String(own.limit), since_ms: String(span() === "all" ? 0 : Date.now() - Number(span())) });
    for (const [name, value] of [["text", param("q").trim()], ["types", param("types")], ...FIELDS.map(([field]) => [field, param(field)]), ["cursor", cursor]]) if (value) asked.set(name, value);
    return `/v1/logs?${asked}`;
  };
  const add = (items) => {
    for (const event of items) own.found.set(`${event.plan_id}-${event.seq}`, Object.assign(event, { ms: parseTime(event.time) }));
    if (own.found.size > EVENTS_MAX) own.found = new Map([...own.found].sort((a, b) => byTime(a[1], b[1])).slice(0, EVENTS_MAX));
  };
  const more = async (cursor) => {
    const round = own.round;
    own.isLoading = true;
    app.render();
    try {
      const page = await get(path(cursor));
      if (round !== own.round) return;
      add(page.items);
      Object.assign(own, { next: page.next || null, refusal: null });
    } catch (refusal) { if (round === own.round) own.refusal = refusal; }
    own.isLoading = false;
    goFurther();
    app.render();
  };
  const goFurther = () => { if (!own.found.size && own.next && !own.refusal && own.pages < PAGES_MAX) { own.pages += 1; more(own.next); } };
  const take = () => {
    const page = list.value;
    if (!page || page === own.taken || (list.refusal && own.isPending)) return app.render();
    own.taken = page;
    own.readMs = Date.now();
    const isApart = own.found.size && page.next && !page.items.some((event) => own.found.has(`${event.plan_id}-${event.seq}`));
    if (own.isPending || isApart) Object.assign(own, { found: new Map(), next: undefined, isPending: false });
    add(page.items);
    if (own.next === undefined) own.next = page.next || null;
    goFurther();
    app.render();
  };
  const list = poll(() => (own.isHeld && !own.isPending ? Promise.resolve(list.value) : path()), () => (isSearch() ? SEARCH_MS : LIVE_MS), take);
  const search = () => { own.round += 1; Object.assign(own, { isPending: true, pages: 0, refusal: null, isLoading: false }); list.text = ""; list.refresh(); app.render(); };
  const set = (changes) => { clearTimeout(own.timer); app.replace(changes); own.limit = 200; search(); };
  const type = (value) => { app.replace({ q: value || null }); clearTimeout(own.timer); own.timer = setTimeout(() => set({}), TYPING_MS); app.render(); };
  const widen = () => { own.limit = 1_000; search(); };
  return {
    title: () => "Events",
    follow: () => set({}),
    close: () => { clearTimeout(own.timer); list.close(); },
    view: () => {
      const events = [...own.found.values()].sort(byTime);
      const isRefused = list.refusal && !isOutage(list.refusal);
      const tags = finder(param("q"));
      const flags = [param("q").trim() ? ` --text ${quote(param("q").trim())}` : "", param("types") ? ` --types ${param("types")}` : "", ...FIELDS.map(([name]) => (param(name) ? ` --${name} ${quote(param(name))}` : "")), span() === "3600000" ? "" : ` --since ${SPANS.find(([ms]) => ms === span())?.[2] || "1h"}`].join("");
      return [
        pageHead("Events", upToDate(own.isHeld ? "paused" : isSearch() && own.readMs ? `as of ${clockTime(own.readMs).slice(0, 8)}` : "live"), button({ "aria-pressed": String(own.isHeld), onclick: () => { own.isHeld = !own.isHeld; if (!own.isHeld) list.refresh(); app.render(); } }, own.isHeld ? "Resume" : "Pause"), button({ disabled: !events.length, onclick: () => download("events.ndjson", events.map(({ ms, ...event }) => JSON.stringify(event)).join("\n"), "application/x-ndjson") }, "Download")),
        eventFilters(set, type, span()),
        isRefused ? problem(list.refusal, list.refresh) : null, problem(own.refusal),
        isRefused && own.isPending ? null : !list.value ? (list.refusal ? null : skeleton(10)) : events.length ? h("div", { class: own.isPending ? "is-old" : "", "aria-busy": String(own.isPending) }, eventTable(events, tags, set)) : own.isPending || own.isLoading ? skeleton(6) : empty("No events", own.next ? "Nothing fits in the events that were read so far." : "Nothing happened that fits these filters."),
        own.isPending ? null : own.next ? button({ disabled: own.isLoading, onclick: () => { own.pages = 0; more(own.next); } }, own.isLoading ? "Searching …" : events.length ? "Load older events" : "Search further back")
          : events.length >= own.limit && own.limit < 1_000 ? button({ onclick: widen }, "Load older events") : events.length >= 1_000 ? h("p", { class: "dim" }, "Older events are there: choose a shorter period or more filters to see them.") : null,
        commands(`goalmill logs${flags}`, curl("GET", path())),
      ];
    },
  };
}

const choice = (label, value, options, onchange) => h("label", null, h("span", { class: "visually-hidden" }, label), h("select", { value, onchange: (event) => onchange(event.target.value) }, options));
const option = (value, text, chosen) => h("option", { key: value, value, selected: value === chosen }, text);

function eventFilters(set, type, span) {
  const types = param("types");
  const isOwn = types && !GROUPS.some(([one]) => one === types) && !TYPES.includes(types);
  const isNarrow = FIELDS.some(([name]) => param(name));
  return h("div", { class: "filters" }, searchBox("Words of types, ids, agents and data", param("q"), type),
    choice("Kind", types, [option("", "Every event", types), isOwn ? option(types, "Several types", types) : null, h("optgroup", { label: "Kinds" }, GROUPS.map(([value, text]) => option(value, text, types))), h("optgroup", { label: "Single types" }, TYPES.map((name) => option(name, words(name), types)))], (value) => set({ types: value || null })),
    choice("Period", span, SPANS.map(([value, text]) => option(value, text, span)), (value) => set({ span: value })),
    FIELDS.map(([name, label, hint]) => h("label", { key: name, class: "small-field" }, dim(label), h("input", { value: param(name), placeholder: hint, autocomplete: "off", spellcheck: "false", onchange: (event) => set({ [name]: event.target.value.trim() || null }) }))),
    param("q") || types || isNarrow || param("span") ? button({ class: "quiet", onclick: () => set({ q: null, types: null, span: null, ...Object.fromEntries(FIELDS.map(([name]) => [name, null])) }) }, "Clear") : null);
}

/** Finds one of the words in a text; `null` without words. */
const finder = (text) => (wordsOf(text).length ? new RegExp(`(?<![\\p{L}\\p{N}])(?:${wordsOf(text).join("|")})(?![\\p{L}\\p{N}])`, "iu") : null);

/** Where the data of an event have one of the words; `null` if no text has it. */
function excerpt(value, tags, depth = 0) {
  if (depth > 6 || value === null || value === undefined) return null;
  if (typeof value === "object") {
    for (const part of Object.values(value)) { const found = excerpt(part, tags, depth + 1); if (found) return found; }
    return null;
  }
  const text = String(value);
  const found = tags.exec(text);
  if (!found) return null;
  const at = found.index, end = at + found[0].length, from = Math.max(0, at - 60);
  return [from ? "…" : "", text.slice(from, at), h("mark", null, found[0]), text.slice(end, end + 100), end + 100 < text.length ? "…" : ""];
}

const details = (event, tags) => (tags && excerpt(event.data, tags)) || eventDetail(event);

function eventTable(events, tags, set) {
  return table("Events, newest first", [`Time (${zone(app.now)})`, "Event", "Plan", "Step", "By", "Details"], events.map((event) => h("tr", { key: `${event.plan_id}-${event.seq}` },
    h("td", { class: "num", title: exact(event.ms) }, shortTime(event.ms, app.now)), rowHead(h("a", { href: planLink(event.plan_id, `?seq=${event.seq}&tab=events`) }, words(event.type))),
    cell(h("a", { class: "id", href: planLink(event.plan_id) }, event.plan_id), param("plan") ? null : [" ", button({ class: "quiet small", "aria-label": `Only plan ${event.plan_id}`, onclick: () => set({ plan: event.plan_id }) }, "only")]),
    cell(event.step_id ? h("code", { title: event.step_id }, event.step_id) : null), h("td", { class: "by" }, event.actor || null), h("td", { class: "detail", dir: "auto" }, details(event, tags) || null))), { class: "event-table" });
}

/** Plans that ended, by words of their names and goals; and plans whose logs have the words. */
export function historyScreen() {
  const own = { items: null, refusal: null, next: null, round: 0, isLoading: false, hits: null, hitsRefusal: null, views: new Map() };
  let timer = 0;
  const text = () => param("q").trim();
  const query = () => ({ ...(text() && { q: text() }), ...(param("status") && { status: param("status") }) });
  const logsQuery = () => `/v1/logs?${new URLSearchParams({ limit: "500", since_ms: "0", text: text() })}`;
  const readEnded = (cursor) => readPlans(query(), 100, cursor, (plan) => isFinal(plan.status));
  /** The newest fitting event of each plan, how many fit, and what the plan is. */
  const readHits = async (round) => {
    const plans = new Map();
    for (const event of (await get(logsQuery())).items) plans.set(event.plan_id, { event, count: (plans.get(event.plan_id)?.count || 0) + 1 });
    const hits = [...plans.values()].sort((a, b) => parseTime(b.event.time) - parseTime(a.event.time)).slice(0, 50);
    if (round === own.round) Object.assign(own, { hits, hitsRefusal: null });
    app.render();
    const unknown = hits.map((hit) => hit.event.plan_id).filter((id) => !own.views.has(id));
    for (let i = 0; i < unknown.length && round === own.round; i += 8) {
      await Promise.all(unknown.slice(i, i + 8).map((id) => get(planPath(id)).then((view) => own.views.set(id, { name: view.name, status: view.status, ended: view.finished_at }), () => {})));
      app.render();
    }
  };
  const load = async () => {
    const round = ++own.round;
    own.isLoading = true;
    app.render();
    const hits = wordsOf(text()).length ? readHits(round).catch((refusal) => { if (round === own.round) Object.assign(own, { hits: null, hitsRefusal: refusal }); }) : Promise.resolve(own.hits = own.hitsRefusal = null);
    const plans = readEnded().then((found) => { if (round === own.round) Object.assign(own, found, { refusal: null }); }, (refusal) => { if (round === own.round) own.refusal = refusal; });
    await Promise.all([plans, hits]);
    if (round === own.round) own.isLoading = false;
    app.render();
  };
  const loadMore = async () => {
    const round = own.round;
    own.isLoading = true;
    app.render();
    try { const found = await readEnded(own.next); if (round === own.round) { own.items.push(...found.items); own.next = found.next; own.refusal = null; } } catch (refusal) { own.refusal = refusal; }
    own.isLoading = false;
    app.render();
  };
  load();
  const type = (value) => { app.replace({ q: value || null }); clearTimeout(timer); timer = setTimeout(load, TYPING_MS); app.render(); };
  return {
    title: () => "History",
    follow: load,
    close: () => { own.round += 1; clearTimeout(timer); },
    view: () => {
      return [
        pageHead("History"),
        h("div", { class: "filters" }, searchBox("Words of goals, names, results and errors", param("q"), type), choice("Status", param("status"), [option("", "Every status", param("status")), ...PLAN_STATUSES.filter(isFinal).map((name) => option(name, words(name), param("status")))], (value) => { app.replace({ status: value || null }); load(); }),
          own.items ? h("span", { class: "dim", role: "status" }, own.isLoading ? "Searching …" : `${plural(own.items.length, "plan")}${own.next ? " and more" : ""}`) : null),
        trouble(own.refusal, load),
        h("div", { class: own.isLoading && own.items ? "is-old" : "" }, !own.items ? (own.refusal ? null : skeleton(8)) : own.items.length ? planTable(own.items, text() ? "Plans with these words in their name or goal" : "Plans that ended") : own.isLoading && !own.items.length && text() ? skeleton(3) : own.next ? empty("Nothing yet", "No plan that was looked at so far fits.") : text() ? (own.hits?.length ? h("p", { class: "dim" }, "No name or goal has all of these words.") : empty("Nothing found", "Try fewer or other words: every word must be there.")) : empty("No history yet", "Plans appear here when they have ended.")),
        own.next && own.items ? button({ disabled: own.isLoading, onclick: loadMore }, own.items.length ? "Load older plans" : "Search further back") : null,
        hitsView(own, finder(text())),
        commands(`goalmill plan list${text() ? ` --search ${quote(text())}` : ""}${param("status") ? ` --status ${param("status")}` : ""}`, curl("GET", `/v1/plans?${new URLSearchParams(query())}`)),
      ];
    },
  };
}

function hitsView(own, tags) {
  if (!tags) return null;
  if (own.hitsRefusal) return trouble(own.hitsRefusal);
  if (!own.hits?.length) return null;
  return h("section", { "aria-labelledby": "hits-title" }, h("div", { class: "title-line" }, h("h2", { id: "hits-title" }, "In their logs"), dim("Plans with an event that has all of these words"), h("div", { class: "spring" }), h("a", { href: `#/events?span=all&q=${encodeURIComponent(param("q").trim())}` }, "All events")),
    table("Plans whose events have these words", ["Plan", "Status", "Event", "Details", { text: "Events", num: true }, { text: "Time", num: true }], own.hits.map(({ event, count }) => {
      const view = own.views.get(event.plan_id) || {};
      return h("tr", { key: event.plan_id }, rowHead(h("a", { href: planLink(event.plan_id), dir: "auto" }, view.name || event.plan_id), h("div", { class: "dim id" }, event.plan_id)), cell(view.status ? status(view.status) : null),
        cell(h("a", { href: planLink(event.plan_id, `?seq=${event.seq}&tab=events`) }, words(event.type)), event.step_id ? h("div", null, h("code", { title: event.step_id }, event.step_id)) : null), h("td", { class: "detail", dir: "auto" }, details(event, tags)), figure(count), figure(time(event.time)));
    }), { class: "event-table" }));
}
