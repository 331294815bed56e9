// Agents, workers, queues, dead letters, statistics: what the installation has, and how it does.

import { h } from "./dom.js";
import { can, canShared, EVERY_NAMESPACE, get, isOutage, poll, post, session } from "./api.js";
import { actionButtons } from "./actions.js";
import { bulkAllButton, bulkBar, bulkButtons, bulkProgress, selectBox, selection } from "./bulk.js";
import { app, button, cell, commands, curl, dim, empty, facts, figure, icon, json, pageHead, planLink, problem, rowHead, searchBox, skeleton, status, table, time, trouble } from "./parts.js";
import { duration, money, number, percent, plural, words } from "./format.js";
import { costsView } from "./trends.js";

const POLL_MS = 3_000;
/** Letters that the scheduler lists. */
const LETTERS_MAX = 100;

/** A screen over polled lists: title, paths by name, and what to show once they are there. */
function listScreen(title, paths, show, tools) {
  const lists = Object.fromEntries(Object.entries(paths).map(([name, path]) => [name, poll(path, POLL_MS, () => app.render())]));
  const all = Object.values(lists);
  const refresh = () => all.forEach((list) => { list.refresh(); });
  return {
    title: () => title,
    close: () => all.forEach((list) => { list.close(); }),
    view: () => {
      const refusal = all.map((list) => list.refusal).find((one) => one && !isOutage(one));
      return [pageHead(title, tools ? tools(lists) : null), problem(refusal, refresh), all.every((list) => list.value) ? show(lists, refresh) : refusal ? null : skeleton(6)];
    },
  };
}

const filterText = () => (app.route.params.get("q") || "").trim().toLowerCase();
const filterBox = (label) => searchBox(label, app.route.params.get("q") || "", (text) => { app.replace({ q: text || null }); app.render(); });
/** Why an operator sees no buttons. */
const sharedNote = () => (can("operator") && !canShared("operator") ? h("p", { class: "dim" }, `All namespaces share what is here: changing it needs an operator of all of them, and you belong to ${session.namespace}.`) : null);

export function agentsScreen() {
  return listScreen("Agents", { agents: "/v1/agents", queues: "/v1/queues" }, ({ agents, queues }) => {
    const items = agents.value.items;
    if (!items.length) return empty("No agent is known", "An agent type appears with its first worker, or when its card is registered.", commands("goalmill agent init worker.py && python3 worker.py", "", true));
    const queueOf = new Map(queues.value.items.map((queue) => [queue.agent_type, queue]));
    const text = filterText();
    const found = items.filter((agent) => !text || `${agent.agent_type} ${agent.description} ${(agent.capabilities || []).join(" ")}`.toLowerCase().includes(text));
    return [h("div", { class: "filters" }, filterBox("Name, description or capability"), h("div", { class: "spring" }), h("a", { class: "button", href: "#/playground?tab=route" }, "Try the routing")),
      found.length ? table("Agents", ["Agent", "Can do", { text: "Workers", num: true }, { text: "Waiting", num: true }, { text: "Success", num: true }, { text: "Cost", num: true }, { text: "Time", num: true }], found.map((agent) => {
        const queue = queueOf.get(agent.agent_type) || { workers: 0, waiting: 0 };
        return h("tr", { key: agent.agent_type }, rowHead(h("span", { class: "strong" }, agent.agent_type), h("div", { class: "dim", dir: "auto" }, agent.description)),
          cell((agent.actions || []).length ? h("details", null, h("summary", null, plural(agent.actions.length, "action")), h("ul", null, agent.actions.map((action) => h("li", { key: action.name }, h("code", null, action.name), " ", dim(action.description), action.inputs ? json(action.inputs, `${agent.agent_type}-${action.name}`) : null)))) : dim("anything")),
          figure(queue.workers ? number(queue.workers) : h("span", { class: "status tone-warn" }, icon("low"), h("span", null, "0"))), figure(number(queue.waiting)), figure(percent(agent.success_rate)), figure(money(agent.cost)), figure(agent.latency_ms ? duration(agent.latency_ms) : "–"));
      })) : empty("Nothing matches"), commands("goalmill agent list", curl("GET", "/v1/agents"))];
  });
}

export function workersScreen() {
  return listScreen("Workers", { workers: "/v1/workers" }, ({ workers }, refresh) => {
    const items = workers.value.items;
    if (!items.length) return empty("No worker is connected", "Steps wait in their queues until a worker takes them.", commands("goalmill worker", "", true));
    return [table("Workers", ["Worker", "State", { text: "Slots", num: true }, "Serves", "Version", { text: "Started", num: true }, { text: "Heartbeat", num: true }, canShared("operator") ? { text: "Actions", isHidden: true } : null].filter((one) => one !== null), items.map((worker) => h("tr", { key: worker.worker },
      rowHead(h("span", { class: "strong" }, worker.worker), h("div", { class: "dim" }, worker.host)),
      cell(worker.draining ? h("span", { class: "status tone-warn" }, icon("paused"), h("span", null, "draining")) : h("span", { class: "status tone-good" }, icon("running"), h("span", null, "serves"))),
      figure(h("span", { class: "meter", "aria-hidden": "true" }, h("span", { style: { width: `${Math.min(100, (worker.busy / Math.max(1, worker.slots)) * 100)}%` } })), `${number(worker.busy)} / ${number(worker.slots)}`),
      cell(h("details", null, h("summary", null, plural(worker.agents.length, "agent")), worker.agents.join(", "))), cell(worker.version), figure(time(worker.started_ms)), figure(time(worker.seen_ms)),
      canShared("operator") ? cell(worker.draining ? null : actionButtons([{ title: "Drain", text: `${worker.worker} finishes what it has, takes nothing new, and ends.`, key: worker.worker, isDangerous: true, then: refresh, request: () => ({ path: `/v1/workers/${encodeURIComponent(worker.worker)}:drain`, body: {} }), cli: () => `goalmill worker drain ${worker.worker}` }])) : null))),
    sharedNote(), commands("goalmill worker list", curl("GET", "/v1/workers"))];
  });
}

const history = new Map();

/** Remembers how many tasks waited, for the small curves. */
function remember(queues) {
  for (const queue of queues) {
    const line = history.get(queue.agent_type) || history.set(queue.agent_type, []).get(queue.agent_type);
    const last = line[line.length - 1];
    if (!last || app.now - last.ms >= POLL_MS - 500) line.push({ ms: app.now, value: queue.waiting + queue.running });
    while (line.length > 60) line.shift();
  }
}

function spark(points) {
  if (points.length < 2) return null;
  const most = Math.max(1, ...points.map((point) => point.value));
  const path = points.map((point, i) => `${i ? "L" : "M"}${((i / (points.length - 1)) * 88 + 1).toFixed(1)} ${(19 - (point.value / most) * 17).toFixed(1)}`).join("");
  return h("svg", { class: "spark", viewBox: "0 0 90 20", width: 90, height: 20, role: "img", "aria-label": `last minutes: at most ${number(most)} tasks` }, h("path", { d: path }));
}

export function queuesScreen() {
  return listScreen("Queues", { queues: "/v1/queues" }, ({ queues }, refresh) => {
    remember(queues.value.items);
    const text = filterText();
    const found = queues.value.items.filter((queue) => !text || queue.agent_type.toLowerCase().includes(text));
    if (!queues.value.items.length) return empty("No queue yet", "A queue comes with the first step or worker of an agent type.");
    const action = (queue) => {
      const verb = queue.paused ? "resume" : "pause";
      return { title: queue.paused ? "Resume" : "Pause", key: verb, text: queue.paused ? `Tasks of ${queue.agent_type} are put on the queue again.` : `Nothing new is put on the queue of ${queue.agent_type}; what is on it is still taken.`, then: refresh, request: () => ({ path: `/v1/queues/${encodeURIComponent(queue.agent_type)}:${verb}`, body: {} }), cli: () => `goalmill queue ${verb} ${queue.agent_type}` };
    };
    return [h("div", { class: "filters" }, filterBox("Agent type")),
      table("Queues", ["Agent type", "State", { text: "Waiting", num: true }, { text: "Running", num: true }, "Load", { text: "Workers", num: true }, { text: "Slots", num: true }, { text: "Dead letters", num: true }, { text: "Actions", isHidden: true }], found.map((queue) => h("tr", { key: queue.agent_type },
        rowHead(queue.agent_type, queue.quarantined ? h("div", { class: "failure" }, queue.quarantined) : null),
        cell(queue.quarantined ? h("span", { class: "status tone-bad" }, icon("failed"), h("span", null, "quarantined")) : queue.paused ? status("paused") : !queue.workers && queue.waiting ? h("span", { class: "status tone-warn" }, icon("low"), h("span", null, "no worker")) : h("span", { class: "status tone-idle" }, icon("running"), h("span", null, "open"))),
        figure(number(queue.waiting)), figure(number(queue.running)), cell(spark(history.get(queue.agent_type) || [])), figure(number(queue.workers)), figure(number(queue.slots)),
        figure(queue.dead_letters ? h("a", { href: `#/dead-letters?q=${encodeURIComponent(queue.agent_type)}` }, number(queue.dead_letters)) : "0"), cell(canShared("operator") ? actionButtons([action(queue)]) : null)))),
      sharedNote(), commands("goalmill queue list", curl("GET", "/v1/queues"))];
  });
}

const letterPath = (letter, verb) => `/v1/dead-letters/${encodeURIComponent(letter.agent_type)}/${encodeURIComponent(letter.entry)}:${verb}`;
const letterVerb = (verb, title, text, isDangerous) => ({ title, text, isDangerous, noun: "dead letter", fits: () => true, send: (letter) => post(letterPath(letter, verb), {}) });
const LETTER_VERBS = [letterVerb("retry", "Retry", "Each task runs again as a plan of its own; the plans that they come from do not change."), letterVerb("discard", "Discard", "The letters are dropped. This cannot be undone.", true)];
const letterKey = (letter) => `${letter.agent_type}/${letter.entry}`;

export function deadLettersScreen() {
  const selected = selection();
  return listScreen("Dead letters", { letters: "/v1/dead-letters", queues: "/v1/queues", refused: "/v1/refused-submissions" }, ({ letters, queues, refused }, refresh) => {
    const text = filterText();
    const items = letters.value.items;
    const others = refusedSubmissions(refused.value.items.filter((entry) => !text || `${entry.submission_id} ${entry.source} ${entry.code} ${entry.detail}`.toLowerCase().includes(text)));
    if (!items.length) return [empty("No dead letters", "Tasks that were given up on appear here, with what they were and why."), others];
    const isPart = items.length >= LETTERS_MAX && session.namespace === EVERY_NAMESPACE && !session.selected;
    const total = isPart ? Math.max(items.length, queues.value.items.reduce((sum, queue) => sum + queue.dead_letters, 0)) : items.length;
    const found = items.filter((letter) => !text || `${letter.agent_type} ${letter.code} ${letter.reason} ${letter.plan_id} ${letter.step_id}`.toLowerCase().includes(text));
    const actions = (letter) => [
      { title: "Retry", key: "retry", text: "The task runs again as a plan of its own; the plan that it came from does not change.", then: (answer) => { refresh(); if (answer?.plan_id) app.go(planLink(answer.plan_id)); }, request: () => ({ path: letterPath(letter, "retry"), body: {} }), cli: () => `goalmill dead retry ${letter.agent_type} ${letter.entry}` },
      { title: "Discard", key: "discard", isDangerous: true, text: "The letter is dropped. This cannot be undone.", then: refresh, request: () => ({ path: letterPath(letter, "discard"), body: {} }), cli: () => `goalmill dead discard ${letter.agent_type} ${letter.entry}` },
    ];
    return [h("div", { class: "filters" }, filterBox("Agent, code, reason or plan"), dim(`${number(found.length)} of ${number(total)}`, total > items.length ? `: the newest ${number(items.length)} are searched` : items.length >= LETTERS_MAX && !isPart ? " and more" : "")),
      bulkProgress(),
      found.length && can("operator") ? bulkBar({ selected, shown: found.map((letter) => [letterKey(letter), letter]), buttons: bulkButtons(LETTER_VERBS, selected.list(), (letter) => letterKey(letter), () => { selected.clear(); refresh(); }) }) : null,
      total > items.length && !text && can("operator") ? h("div", { class: "buttons" }, LETTER_VERBS.map((verb) => bulkAllButton(verb, unseenLetters(total), letterKey, refresh))) : null,
      found.length ? h("ul", { class: "cards" }, found.map((letter) => h("li", { key: letterKey(letter), class: "card-item tone-bad" },
        h("div", { class: "title-line" }, can("operator") ? selectBox(selected, letterKey(letter), letter, `${letter.step_id} of ${letter.plan_id}`) : null, h("code", { class: "code" }, letter.code), h("span", { class: "strong" }, letter.agent_type), h("div", { class: "spring" }), h("span", { class: "dim num" }, plural(letter.attempt, "attempt"))),
        h("p", { dir: "auto" }, letter.reason), h("p", null, "Step ", h("a", { href: planLink(letter.plan_id, `?step=${encodeURIComponent(letter.step_id)}`) }, letter.step_id), " of ", h("a", { href: planLink(letter.plan_id) }, letter.plan_id)),
        h("details", null, h("summary", null, "The task"), json(letter.task, `letter-${letter.entry}`)), can("operator") ? h("div", { class: "buttons" }, actionButtons(actions(letter))) : null))) : empty("Nothing matches"),
      others, commands("goalmill dead list", curl("GET", "/v1/dead-letters"))];
  });
}

/** The time in the id of an entry, milliseconds. */
const entryTime = (letter) => Number(letter.entry.split("-")[0]);

/** Letters that were not given before, and none that came after the first; those that are refused stay in the list. */
function unseenLetters(total) {
  const seen = new Set();
  let newest = null;
  return { total, read: async () => {
    const { items } = await get("/v1/dead-letters");
    newest ??= Math.max(...items.map(entryTime));
    const fresh = items.filter((letter) => entryTime(letter) <= newest && !seen.has(letterKey(letter)));
    for (const letter of fresh) seen.add(letterKey(letter));
    return fresh;
  } };
}

/** Submissions by stream that were refused in the last week. */
function refusedSubmissions(entries) {
  if (!entries.length) return null;
  return h("section", null, h("h2", null, "Refused submissions"), table("Refused submissions", ["Id", "Refused", "Source", "Code", "Reason"], entries.map((entry) => h("tr", { key: `${entry.namespace}/${entry.entry}` },
    rowHead(entry.submission_id, entry.excerpt ? h("div", { class: "dim", dir: "auto" }, entry.excerpt) : null), cell(time(entry.refused_at)), cell(entry.source), cell(h("code", { class: "code" }, entry.code)),
    cell(entry.detail, entry.errors.length && entry.errors[0].pointer ? h("div", { class: "dim" }, entry.errors[0].pointer) : null)))),
  commands("goalmill dead list --submissions", curl("GET", "/v1/refused-submissions")));
}

const PERIODS = [["3600000", "1 hour"], ["86400000", "24 hours"], ["604800000", "7 days"]];

export function statsScreen() {
  const period = () => app.route.params.get("period") || "86400000";
  const list = poll(() => `/v1/stats?since_ms=${Date.now() - Number(period())}`, 15_000, () => app.render());
  return {
    title: () => "Statistics",
    close: list.close,
    view: () => [pageHead("Statistics", h("div", { class: "switch", role: "group", "aria-label": "Period" }, PERIODS.map(([ms, text]) => button({ key: ms, "aria-pressed": String(period() === ms), onclick: () => { app.replace({ period: ms }); list.refresh(); app.render(); } }, text)))), trouble(list.refusal, list.refresh), list.value ? statsView(list.value) : list.refusal ? null : skeleton(8)],
  };
}

const isSeconds = (name) => /_p\d+$/.test(name);
const amount = (name, value) => (value === null || value === undefined ? "–" : isSeconds(name) ? duration(value * 1000) : name === "confidence_correlation" || name === "calibration_error" ? value.toFixed(2) : percent(value, 1));

function statsView(report) {
  if (!report.plans) return empty("No plan ended in this period", "Measures of planning and execution are made from plans that have ended.");
  const target = (one) => (one.target ? `${one.target.above !== undefined || one.target.Above !== undefined ? "above" : "below"} ${amount(one.measure, Object.values(one.target)[0])}` : "–");
  return [facts([["Plans that ended", number(report.plans)], ["Cost of steps", money(report.step_cost)], ["Cost of planning", money(report.planning_cost)], ["Cost of routing", money(report.routing_cost)], report.is_partial ? ["Note", "only the latest plans were read"] : null]),
    table("Measures", ["Measure", { text: "Value", num: true }, { text: "Target", num: true }, "Met", { text: "Samples", num: true }], report.measures.map((one) => h("tr", { key: one.measure }, rowHead(words(one.measure)), figure(amount(one.measure, one.value)), figure(target(one)), cell(one.is_met === true ? h("span", { class: "status tone-good" }, icon("met"), h("span", null, "met")) : one.is_met === false ? h("span", { class: "status tone-warn" }, icon("low"), h("span", null, "missed")) : null), figure(number(one.samples))))),
    report.models?.length ? [h("h2", null, "Models"), table("Models", ["Model", { text: "Calls", num: true }, { text: "Success", num: true }, { text: "Median", num: true }, { text: "95 %", num: true }, { text: "Cost", num: true }, { text: "Cost per plan", num: true }], report.models.map((model) => h("tr", { key: model.model }, rowHead(model.model), figure(number(model.calls)), figure(percent(model.success)), figure(duration((model.latency_p50 ?? NaN) * 1000)), figure(duration((model.latency_p95 ?? NaN) * 1000)), figure(money(model.cost)), figure(model.cost_per_usable === undefined || model.cost_per_usable === null ? "–" : money(model.cost_per_usable)))))] : null,
    costsView(report),
    commands("goalmill stats", curl("GET", `/v1/stats?since_ms=${report.since_ms}`))];
}
