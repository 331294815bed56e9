// One plan: why it is where it is, its graph and timeline, its log with a slider, and a panel for the selected step.

import { find, findAll, h, memo } from "./dom.js";
import { can, follow, get, loadEvents, planPath, session } from "./api.js";
import { actionButtons, answerQuestion, decidePlan, decided, planActions, stepActions } from "./actions.js";
import { app, button, cell, commands, copyButton, curl, dim, empty, explainCommand, facts, figure, icon, isStale, issues, json, pageHead, planLink, problem, progress, prose, rowHead, skeleton, status, table, time, tone, trouble, wholeOf } from "./parts.js";
import { awaited, capital, clockTime, duration, exact, money, number, parseTime, percent, plural, shortTime, words, zone } from "./format.js";
import { apply, begin, fold, isFinal, shownStatus } from "./replay.js";
import { ASK_ABOVE, graph, longestId, order, runsDown } from "./graph.js";
import { legend, timeline } from "./timeline.js";
import { deadline, groupItems, waitingItems } from "./plans.js";
import { bulkProgress } from "./bulk.js";
import { itemButtons } from "./itemcards.js";
import { itemsPart, readMaps } from "./items.js";
import { stepPanel } from "./step.js";
import { shortMessage } from "./transcript.js";

const REFRESH_MS = 700;
const EVENTS_SHOWN = 100;
/** Reports of progress are most of a long log: the slider passes over them. */
const PROGRESS = "step_progress";
/** Steps from which on their list has a filter. */
const FILTER_FROM = 12;
/** How long events are collected before they are drawn, for plans up to the number of steps, and above it. */
const DRAW_MS = 40;
const DRAW_LARGE_MS = 250;
const LARGE = 100;
const TABS = [["steps", "Steps"], ["events", "Events"], ["revisions", "Revisions"], ["results", "Results"], ["goal", "Goal"]];

export function planScreen(route) {
  const id = route.path[1];
  const base = planPath(id);
  const own = {
    id, view: null, explanation: null, layout: null, layouts: new Map(), refusal: null, events: [], state: begin(), isLogLoaded: false, stream: null, streamStatus: "connecting",
    graphCache: new Map(), timelineCache: new Map(), rowCache: new Map(), scroll: { top: 0 }, rowsShown: LARGE, maps: new Map(),
    stops: [], selected: null,
    at: null, past: null, draws: false, shown: EVENTS_SHOWN, filter: "", stepFilter: "", showsProgress: false, playing: 0, isClosed: false, logRefusal: null,
  };
  let timer = 0, lastRead = 0, readMs = 0, drawing = 0, isReading = false, readsAgain = false;

  const read = async () => {
    if (isReading) { readsAgain = true; return; }
    isReading = true;
    lastRead = Date.now();
    try {
      const explained = get(`${base}/explain`).catch(() => own.explanation);
      const layout = own.layout ? null : loadLayout(undefined, true).catch(() => null);
      const view = await get(base);
      if (own.isClosed) return;
      const isFirst = !own.view;
      const isOther = isFirst || own.view.revision !== view.revision || own.view.steps.length !== view.steps.length;
      // What is known is shown at once; later, both change together.
      if (isFirst) {
        own.view = view;
        app.render();
        requestAnimationFrame(() => requestAnimationFrame(() => { if (document.activeElement === document.body) document.getElementById("title")?.focus({ preventScroll: true }); }));
      }
      const explanation = await explained;
      if (own.isClosed) return;
      Object.assign(own, { view, explanation, refusal: null });
      const drawn = await layout;
      if (!own.layout || (isOther && !(drawn && isOf(drawn, view)))) await loadLayout(view.revision, true);
      await readMaps(own.maps, view, own.state.steps, app.route.params.get("step"));
    } catch (refusal) {
      own.refusal = refusal;
      if (refusal.status === 0 || refusal.status === 503) timer = setTimeout(read, 2_000);
    } finally {
      isReading = false;
      readMs = Date.now() - lastRead;
      if (!own.isClosed) app.render();
      if (readsAgain) { readsAgain = false; refresh(); }
    }
  };
  const refresh = () => {
    clearTimeout(timer);
    // A large plan is read less often.
    timer = setTimeout(read, Math.max(0, lastRead + Math.max(REFRESH_MS, 5 * readMs) - Date.now()));
  };
  const drawSoon = () => { if (!drawing) drawing = setTimeout(() => { drawing = 0; app.render(); }, own.state.steps.size > LARGE ? DRAW_LARGE_MS : DRAW_MS); };
  const loadLayout = async (revision, isCurrent) => {
    const known = own.layouts.get(revision);
    if (known && !isCurrent) return known;
    const layout = await get(`${base}/layout${isCurrent ? "" : `?revision=${revision}`}`);
    own.layouts.set(revision, layout);
    if (isCurrent) own.layout = layout;
    app.render();
    return layout;
  };
  const add = (event) => {
    if (event.seq <= own.state.seq) return;
    own.events.push(event);
    if (event.type !== PROGRESS) own.stops.push(event.seq);
    apply(own.state, event);
  };
  const start = async () => {
    try {
      await loadEvents(id, 0, (items) => { items.forEach(add); if (!own.isClosed) app.render(); });
      own.isLogLoaded = true;
      if (own.state.hasMaps) refresh();
    } catch (refusal) {
      own.logRefusal = refusal;
      if (refusal.status === 0) { setTimeout(() => { if (!own.isClosed) start(); }, 2_000); return; }
    }
    if (own.isClosed) return;
    app.render();
    if (app.route.params.get("seq")) moveTo(Number(app.route.params.get("seq")));
    own.stream = follow(id, own.state.seq, (event) => { add(event); refresh(); drawSoon(); }, (streamStatus) => { own.streamStatus = streamStatus; if (streamStatus === "ended" || streamStatus === "live") refresh(); app.render(); });
  };
  const moveTo = (seq) => {
    own.at = seq === null || seq >= own.state.seq ? null : Math.max(1, seq);
    own.past = own.at === null ? null : fold(own.events, own.at);
    if (own.past && own.past.revision !== own.state.revision) loadLayout(own.past.revision, false).catch(() => {});
    app.replace({ seq: own.at === null ? null : String(own.at) });
    app.render();
  };
  /** Moves along the log by events that say more than progress. */
  const moveBy = (count) => {
    const stop = stopAt(own);
    // From a report of progress, one back is the stop before it.
    const isBetween = own.at !== null && own.stops[stop] < own.at;
    moveTo(own.stops[Math.max(0, stop + count + (isBetween && count < 0 ? 1 : 0))] ?? null);
  };
  const select = (step) => {
    const now = app.route.params.get("step");
    app.replace({ step: now === step ? null : step });
    app.render();
    if (now === step) returnFocus(step);
    if (now !== step && window.innerWidth < 1200) requestAnimationFrame(() => document.getElementById("step-title")?.scrollIntoView({ block: "nearest" }));
  };
  const play = () => {
    if (own.playing) { clearInterval(own.playing); own.playing = 0; return app.render(); }
    if (own.at === null) moveTo(1);
    const stride = Math.max(1, Math.ceil(own.stops.length / 120));
    own.playing = setInterval(() => {
      moveBy(stride);
      if (own.at === null) { clearInterval(own.playing); own.playing = 0; app.render(); }
    }, 150);
    app.render();
  };
  const steps = () => {
    const state = own.past || own.state;
    if (own.past || own.isLogLoaded || !own.view) return state.steps;
    return new Map(own.view.steps.map((step) => [step.id, { id: step.id, definition: step, status: step.status, attempts: [], kept: [], waits: [], progress: step.progress }]));
  };
  const keys = (event) => {
    const ids = own.layout ? order(own.layout, steps()) : [];
    const selected = app.route.params.get("step");
    if (event.key === "f") {
      const failed = ids.find((one) => ["bad", "warn"].includes(tone(shownStatus(steps().get(one)))));
      if (failed) app.replace({ step: failed }); else app.announce("no step has failed");
    } else if ((event.key === "j" || event.key === "k") && ids.length) {
      const at = ids.indexOf(selected);
      app.replace({ step: ids[Math.max(0, Math.min(ids.length - 1, at + (event.key === "j" ? 1 : -1)))] });
    } else if (event.key === "Escape" && selected) { app.replace({ step: null }); returnFocus(selected); }
    else if (event.key === "p" && own.stream) { if (own.streamStatus === "held") own.stream.resume(); else own.stream.pause(); }
    else if (event.key === "[") moveBy(-1);
    else if (event.key === "]" && own.at !== null) moveBy(1);
    else if (event.key === "t") find(document.activeElement?.closest?.(".graph-frame") ? ".timeline .row" : ".graph [tabindex='0']")?.focus();
    else return false;
    app.render();
    return true;
  };
  // The plan first, then its log: a long one takes a while.
  read().then(() => { if (!own.isClosed && own.refusal?.status !== 404) start(); });
  const ticking = setInterval(() => { if (own.view && !isFinal(own.view.status) && !document.hidden) { app.render(); if (session.state === "in" && own.refusal?.status !== 403 && Date.now() - lastRead > 3_000) refresh(); } }, 1_000);
  return {
    title: () => (own.view ? own.view.name || own.id : own.id),
    keys,
    follow: () => {
      const seq = Number(app.route.params.get("seq")) || null;
      if (own.isLogLoaded && seq !== own.at) moveTo(seq); else app.render();
    },
    showSearch: () => { if (!["steps", "events", null].includes(app.route.params.get("tab"))) app.replace({ tab: null }); },
    close: () => { own.isClosed = true; clearTimeout(timer); clearTimeout(drawing); clearInterval(ticking); clearInterval(own.playing); if (own.stream) own.stream.close(); },
    view: () => {
      if (!own.view) return own.refusal ? missing(own, read) : [pageHead("Plan"), skeleton(9)];
      const selected = app.route.params.get("step");
      if (selected !== own.selected) { own.selected = selected; if (own.maps.has(selected)) refresh(); }
      const shown = steps();
      const context = { own, steps: shown, state: own.past || own.state, layout: known(own, (own.past && own.layouts.get(own.past.revision)) || own.layout, shown), select, moveTo, play, refresh: read, then: read };
      return planView(context);
    },
  };
}

/** The place among the stops of the slider of the event that is shown. */
const stopAt = (own) => (own.at === null ? own.stops.length - 1 : Math.max(0, own.stops.findLastIndex((seq) => seq <= own.at)));

/** The layout without the steps that the plan did not have yet at the event that is shown. */
function known(own, layout, steps) {
  if (!own.past || !layout || layout.steps.every((place) => steps.has(place.id))) return layout;
  if (own.known?.of !== layout || own.known.count !== steps.size) own.known = { of: layout, count: steps.size, layout: { ...layout, steps: layout.steps.filter((place) => steps.has(place.id)), edges: layout.edges.filter((edge) => steps.has(edge.from) && steps.has(edge.to)) } };
  return own.known.layout;
}

/** Whether a layout has the steps of the plan. */
function isOf(layout, view) {
  const ids = new Set(view.steps.map((step) => step.id));
  return layout.steps.length === ids.size && layout.steps.every((place) => ids.has(place.id));
}

/** A panel that closes with the focus in it gives the focus back to its box. */
function returnFocus(step) {
  if (!document.activeElement?.closest(".step-panel")) return;
  requestAnimationFrame(() => findAll("svg.graph .node").find((node) => node.dataset.step === step)?.focus());
}

function missing(own, retry) {
  if (own.refusal.status === 404) return [pageHead("Plan"), empty("There is no such plan", `${own.id} is not known here. Plans leave the list some time after they end.`, h("a", { class: "button", href: "#/plans" }, "All plans"), " ", h("a", { class: "button", href: `#/history?q=${encodeURIComponent(own.id)}` }, "Search the history"))];
  return [pageHead("Plan"), problem(own.refusal, retry)];
}

function planView(context) {
  const { own, layout } = context;
  const { view } = own;
  const selected = app.route.params.get("step");
  const step = selected && (context.steps.get(selected) || null);
  return h("div", { class: `plan ${step ? "with-panel" : ""} ${step && app.route.params.get("wide") ? "wide-panel" : ""} ${context.steps.size > LARGE ? "is-large" : ""}` },
    head(context),
    trouble(own.refusal),
    why(context),
    slider(context),
    h("div", { class: "plan-body" },
      h("div", { class: `plan-main ${isWide(layout) ? "stacked" : ""}` },
        h("section", { class: "panel graph-panel", "aria-labelledby": "graph-title" }, h("h2", { id: "graph-title" }, "Graph", own.past ? h("span", { class: "tag" }, `at event ${own.at}, revision ${own.past.revision}`) : null), graphPart(context, layout, selected)),
        h("section", { class: "panel timeline-panel", "aria-labelledby": "timeline-title" }, h("h2", { id: "timeline-title" }, "Timeline"), timelinePart(context, layout, selected))),
      step ? stepPanel({ plan: own.id, view, step, items: own.past ? null : itemsPart(own.maps.get(step.id), context.refresh, step.id, own.id), state: context.state, explanation: own.past ? null : own.explanation, isPast: Boolean(own.past), now: own.past ? own.past.lastMs : app.now, onClose: () => context.select(selected), then: context.then }) : null,
      tabs(context)));
}

/** A graph with many ranks takes the whole width, and the timeline stands below it. */
const isWide = (layout) => Boolean(layout && layout.ranks > 4);

function streamChip(own) {
  const texts = { live: "live", connecting: "connecting", reconnecting: "reconnecting", ended: "ended", paused: "paused: hidden tab", held: "paused", refused: "not followed" };
  const isHeld = own.streamStatus === "held";
  const isOld = isStale() && own.streamStatus === "live";
  return h("span", { class: `live live-${isOld ? "reconnecting" : own.streamStatus}` }, h("span", { class: "dot", "aria-hidden": "true" }), isOld ? "from before" : texts[own.streamStatus],
    ["live", "held"].includes(own.streamStatus) ? button({ class: "quiet small", onclick: () => (isHeld ? own.stream.resume() : own.stream.pause()) }, isHeld ? "Resume" : "Pause") : null);
}

function head(context) {
  const { own } = context;
  const { view } = own;
  const took = Number.isFinite(view.execution_seconds) ? view.execution_seconds * 1000 : NaN;
  return h("header", { class: "plan-head" },
    h("p", { class: "crumbs" }, h("a", { href: "#/plans" }, "Plans"), view.parent ? [" / ", h("a", { href: planLink(view.parent) }, `part of ${view.parent}`)] : null, view.forked_from ? [" / ", h("a", { href: planLink(view.forked_from) }, `continues ${view.forked_from}`)] : null),
    h("div", { class: "title-line" }, h("h1", { id: "title", tabindex: "-1", dir: "auto" }, view.name || view.goal.description || own.id), status(context.own.past ? own.past.status : view.status), streamChip(own)),
    h("div", { class: "tool-line" },
      h("code", { class: "id" }, own.id), copyButton(own.id, "Copy the id"),
      h("div", { class: "spring" }),
      actionButtons(planActions(view, context.then)),
      !isFinal(view.status) && view.status !== "awaiting_approval" && !view.proposal && can("approver", "operator") ? h("a", { class: "button quiet", href: `#/approvals/${encodeURIComponent(own.id)}` }, "Edit") : null,
      h("a", { class: "button quiet", href: `#/compare?a=${encodeURIComponent(own.id)}` }, "Compare")),
    facts([
      ["Steps", progress(view.counts)],
      ["Planner", `${view.planner || "–"}`],
      ["Confidence", percent(view.confidence)],
      ["Revision", number(view.revision)],
      ["Cost", h("span", { class: "num" }, money(view.usage.cost))],
      ["Tokens", h("span", { class: "num" }, number(view.usage.tokens))],
      ["Running time", h("span", { class: "num" }, duration(took))],
      ["Started", time(view.created_at)],
      view.finished_at ? ["Ended", time(view.finished_at)] : null,
      view.namespace && view.namespace !== "default" ? ["Namespace", view.namespace] : null,
    ]));
}

/** The answer to "why is it not moving", with what a person can do about it. */
function why(context) {
  const { own } = context;
  const { view, explanation } = own;
  if (own.past) return null;
  const done = context.then;
  const decisions = [];
  const waits = groupItems(waitingItems(view));
  const isReview = Boolean(view.decision) && decided(view) !== "failure";
  const groups = waits.filter((one) => one.members);
  const isGrouped = new Set(groups.flatMap((group) => group.members.map((item) => item.id)));
  if (can("approver")) {
    if (view.decision) decisions.push({ ...decidePlan(own.id, "approve", decided(view), done), isPrimary: true }, decidePlan(own.id, "reject", decided(view), done));
    if (view.question) decisions.push({ ...answerQuestion(own.id, view.question, false, done), isPrimary: true });
    for (const step of view.steps) {
      if (step.status !== "awaiting_approval" || step.question || isGrouped.has(step.id)) continue;
      for (const action of stepActions(own.id, step, false, undefined, done)) if (["approve", "reject"].includes(action.key)) decisions.push({ ...action, title: step.id.length > 40 ? action.title : `${action.title} ${step.id}`, key: `${action.key}-${step.id}`, isPrimary: action.key === "approve" });
    }
    for (const step of view.steps) if (step.question) decisions.push({ ...answerQuestion(own.id, step.question, true, done), title: `Answer: ${step.id}`, key: `answer-${step.id}`, isPrimary: true });
  }
  const asked = [view.question, ...view.steps.map((step) => step.question)].filter(Boolean);
  const constraints = (view.constraints || []).filter((one) => one.status !== "not_measured");
  // What waits only for other steps says nothing that those do not say.
  const explained = explanation?.steps || [];
  const roots = explained.filter((cause) => cause.status !== "pending");
  const causes = roots.length ? roots : explained;
  const dependents = explained.length - causes.length;
  const name = view.status === "failed" ? "bad" : decisions.length || groups.length || asked.length || view.status === "awaiting_approval" ? "person" : tone(view.status);
  const summary = ending(view) || explanation?.summary || words(view.status);
  return h("section", { class: `why tone-${name}`, "aria-label": "Why it is where it is" },
    h("div", { class: "why-line" }, icon(view.status), h("p", null, h("strong", null, prose(capital(summary))))),
    view.failure ? h("p", { class: "failure" }, h("code", { class: "code" }, view.failure.code), " ", summary.includes(view.failure.message) ? null : prose(view.failure.message), explainCommand(view.failure.code) ? h("code", { class: "dim" }, ` ${explainCommand(view.failure.code)}`) : null) : null,
    view.reason && !summary.includes(view.reason) ? h("p", null, view.reason) : null,
    asked.map((question) => h("p", { key: `ask-${question.id}`, class: "question" }, h("strong", null, `${question.id} asks: `), h("span", { dir: "auto" }, question.question))),
    waits.length ? h("ul", { class: "deadlines" }, waits.slice(0, 5).map((one) => h("li", { key: one.key }, waits.length > 1 || one.members ? [one.members ? plural(one.members.length, "item") : one.id || one.kind, ": "] : null, deadline(one)))) : null,
    waits.length && !can("approver") ? dim("Deciding and answering need the role approver.") : null,
    view.proposal ? h("div", { class: "proposal" }, h("p", null, `Revision ${view.proposal.revision} (${words(view.proposal.strategy)}): ${view.proposal.summary}`), h("ul", null, view.proposal.changes.map((change) => h("li", null, change))), issues(view.proposal.widens)) : null,
    groups.length && can("approver") ? [groups.map((group) => h("div", { key: group.key, class: "buttons" }, itemButtons(group, null, done), h("a", { class: "button", href: "#/approvals" }, "Choose items"))), bulkProgress()] : null,
    decisions.length || isReview ? h("div", { class: "buttons" }, actionButtons(decisions), isReview ? h("a", { class: "button", href: `#/approvals/${encodeURIComponent(own.id)}` }, "Review and edit") : null) : null,
    causes.length ? h("ul", { class: "causes" }, causes.slice(0, 4).map((cause) => h("li", { key: cause.step_id },
      button({ class: "link", onclick: () => context.select(cause.step_id) }, cause.step_id), " ", status(cause.status), " ",
      h("span", null, prose(cause.because.join(" ← "))), cause.hint ? h("div", { class: "hint" }, prose(capital(cause.hint))) : null)),
    causes.length > 4 || dependents ? h("li", { class: "dim" }, [causes.length > 4 ? `${plural(causes.length - 4, "more step")} like these` : "", dependents ? `${plural(dependents, "step waits", "steps wait")} for them` : ""].filter(Boolean).join("; ")) : null) : null,
    constraints.length ? h("ul", { class: "constraints" }, constraints.map((one) => h("li", { key: one.name }, status(one.status), " ", h("span", null, one.name), " ", h("span", { class: "num dim" }, measured(one))))) : null);
}

/** How a plan ended that ended well, with its result where that is one line. */
function ending(view) {
  if (view.status !== "completed") return "";
  const result = view.final_output && typeof view.final_output === "object" ? view.final_output.summary : view.final_output;
  const took = Number.isFinite(view.execution_seconds) ? `completed in ${duration(view.execution_seconds * 1000)}` : "completed";
  return typeof result === "string" && result.length < 200 ? `${took}: ${result}` : took;
}

const measured = (one) => (one.unit === "unix_ms" ? `until ${exact(one.limit)}` : one.unit === "seconds" ? `${duration((one.measured || 0) * 1000)} of ${duration(one.limit * 1000)}` : `${number(one.measured || 0)} of ${number(one.limit)} ${one.unit}${{ spend: " spent by the run", amount: " for the result" }[one.measure] || ""}`);

function slider(context) {
  const { own } = context;
  const last = own.stops.length;
  if (last < 2) return null;
  const at = stopAt(own) + 1;
  const event = own.events[Math.min(own.at ?? own.stops[last - 1], own.events.length) - 1];
  return h("section", { class: `slider ${own.past ? "past" : ""}`, "aria-label": "Position in the log" },
    button({ class: "quiet icon-button", onclick: context.play, "aria-label": own.playing ? "Stop the replay" : "Replay the log" }, icon(own.playing ? "paused" : "ready")),
    h("input", { type: "range", min: 1, max: last, step: 1, value: String(at), "aria-label": "Event", "aria-valuetext": event ? `event ${at} of ${last}: ${words(event.type)}` : String(at), oninput: (input) => context.moveTo(Number(input.target.value) === last ? null : own.stops[Number(input.target.value) - 1]) }),
    h("span", { class: "slider-text num" }, `${number(at)} / ${number(last)}`),
    h("span", { class: "slider-event" }, event ? [h("span", null, words(event.type)), event.step_id ? h("code", null, event.step_id) : null, h("span", { class: "dim", title: exact(parseTime(event.time)) }, clockTime(parseTime(event.time)))] : null),
    own.past ? button({ class: "primary small", onclick: () => context.moveTo(null) }, isFinal(own.state.status) ? "To the end" : "Back to live") : null);
}

function graphPart(context, layout, selected) {
  const { own } = context;
  if (!layout) return own.refusal ? problem(own.refusal) : skeleton(3);
  if (!layout.steps.length) return empty(own.view.status === "planning" ? "Planning …" : "No steps", own.view.status === "planning" ? "The planner is at work; steps appear here as soon as they are known." : "The plan never got any steps.");
  if (layout.steps.length > ASK_ABOVE && !own.draws) {
    return h("div", { class: "empty" }, h("p", null, `The plan has ${number(layout.steps.length)} steps. The table below lists them.`), button({ onclick: () => { own.draws = true; app.render(); } }, "Draw the graph"));
  }
  return graph(layout, context.steps, { id: "plan", selected, maps: own.past ? null : own.maps, onSelect: context.select, cache: own.graphCache, room: graphRoom(layout, selected), isDown: runsDown(layout, isWide(layout) ? 1 : 0.5), label: `Graph of ${plural(layout.steps.length, "step")}; arrow keys follow the edges` });
}

/** What the panel of a step and the timeline beside it leave for the graph. */
function graphRoom(layout, selected) {
  const width = window.innerWidth;
  const panel = !selected || width < 1180 || app.route.params.get("wide") ? 0 : width < 1500 ? 396 : 476;
  return (width - 320 - panel) * (isWide(layout) || selected || width < 1500 ? 1 : 0.53);
}

function timelinePart(context, layout, selected) {
  const { own, state } = context;
  if (own.logRefusal && !own.isLogLoaded) return problem(own.logRefusal);
  if (!own.isLogLoaded && !state.steps.size) return skeleton(4);
  if (!state.steps.size) return empty("Nothing has run yet");
  const now = own.past ? own.past.lastMs : Math.max(Date.now(), state.lastMs);
  return [timeline(state, order(layout || { steps: [] }, state.steps), now, { selected, layout, onSelect: context.select, cache: own.timelineCache, scroll: own.scroll, onScroll: (top) => { own.scroll.top = top; app.render(); }, isNarrow: window.innerWidth < 640, nameWidth: window.innerWidth < 640 ? 104 : Math.min(230, Math.max(120, layout ? longestId(layout) + 38 : 0)) }), legend()];
}

function tabs(context) {
  const current = TABS.some(([name]) => name === app.route.params.get("tab")) ? app.route.params.get("tab") : "steps";
  const move = (event) => {
    const at = TABS.findIndex(([name]) => name === current);
    const to = event.key === "ArrowRight" ? at + 1 : event.key === "ArrowLeft" ? at - 1 : NaN;
    if (!TABS[to]) return;
    app.replace({ tab: TABS[to][0] });
    app.render();
    requestAnimationFrame(() => document.getElementById(`tab-${TABS[to][0]}`)?.focus());
  };
  const body = { steps: stepsTab, events: eventsTab, revisions: revisionsTab, results: resultsTab, goal: goalTab }[current];
  return h("section", { class: "panel tabs" },
    h("div", { role: "tablist", "aria-label": "Details", onkeydown: move }, TABS.map(([name, text]) => button({ key: name, id: `tab-${name}`, role: "tab", "aria-selected": String(name === current), "aria-controls": "tab-body", tabindex: name === current ? "0" : "-1", onclick: () => { app.replace({ tab: name }); app.render(); } }, text, name === "revisions" && context.own.state.revisions.length ? h("span", { class: "count" }, context.own.state.revisions.length) : null))),
    h("div", { role: "tabpanel", id: "tab-body", "aria-labelledby": `tab-${current}`, tabindex: "0", key: `body-${current}` }, body(context)));
}

function stepsTab(context) {
  const { layout, steps, own } = context;
  const filter = own.stepFilter.trim().toLowerCase();
  const fits = (step) => `${step.id} ${step.definition.description || ""} ${step.definition.agent_type || ""} ${words(shownStatus(step))}`.toLowerCase().includes(filter);
  const everyone = order(layout || { steps: [] }, steps);
  const all = filter ? everyone.filter((id) => fits(steps.get(id))) : everyone;
  const selected = app.route.params.get("step");
  // A long list is cut, behind the selected step if need be.
  const ids = all.slice(0, Math.max(own.rowsShown, all.indexOf(selected) + 1));
  const byId = new Map(own.view.steps.map((step) => [step.id, step]));
  const rest = all.length - ids.length;
  return [everyone.length > FILTER_FROM || filter ? h("div", { class: "filters" }, h("input", { type: "search", placeholder: "Step, agent or status", "aria-label": "Filter steps", value: own.stepFilter, oninput: (event) => { own.stepFilter = event.target.value; app.render(); } }), h("span", { class: "dim num" }, filter ? `${number(all.length)} of ${plural(everyone.length, "step")}` : plural(everyone.length, "step"))) : null,
    table("Steps", ["Step", "Status", "Agent", "Waits for", { text: "Attempts", num: true }, { text: "Time", num: true }, { text: "Cost", num: true }], ids.map((id) => {
    const step = steps.get(id), live = byId.get(id) || {};
    const first = step.attempts[0], last = step.attempts[step.attempts.length - 1];
    const took = first ? (last && Number.isFinite(last.endMs) ? last.endMs : own.past ? own.past.lastMs : Date.now()) - (Number.isFinite(first.startMs) ? first.startMs : first.queuedMs) : NaN;
    const failure = step.failure || (!own.past && live.failure);
    return memo(own.rowCache, id, [step, step.version, id === selected, failure?.message, live.message, took], () => h("tr", { key: id, class: id === selected ? "selected" : "" },
      rowHead(button({ class: "link", onclick: () => context.select(id) }, id), h("div", { class: "dim", dir: "auto" }, step.definition.description)),
      cell(status(shownStatus(step)), failure && (["bad", "warn"].includes(tone(step.status)) || step.status === "skipped") ? h("div", { class: "failure" }, h("code", { class: "code" }, failure.code), " ", step.status === "retrying" && step.toldToWait ? "told to wait: " : "", failure.message) : null, live.message && step.status === "running" ? h("div", { class: "dim" }, shortMessage(live.message)) : null),
      cell(step.definition.agent_type || dim(words(step.definition.kind || "engine"))),
      cell(awaited(step.definition).join(", ") || dim("–")),
      figure(number(step.attempts.length)), figure(duration(took)), figure(money(step.cost))));
  }), { class: "step-table" }),
  rest ? button({ onclick: () => { own.rowsShown = Infinity; app.render(); } }, `Show ${plural(rest, "more step")}`) : null];
}

function eventsTab(context) {
  const { own } = context;
  const filter = own.filter.trim().toLowerCase();
  const list = own.past ? own.events.slice(0, own.at) : own.events;
  const found = [];
  for (let i = list.length - 1; i >= 0 && found.length < own.shown; i--) {
    const event = list[i];
    if (event.type === PROGRESS && !own.showsProgress) continue;
    if (!filter || `${event.type} ${words(event.type)} ${event.step_id || ""} ${event.actor || ""}`.toLowerCase().includes(filter)) found.push(event);
  }
  const isAll = found.length < own.shown;
  const reports = own.events.length - own.stops.length;
  return [
    h("div", { class: "filters" }, h("input", { type: "search", placeholder: "Type, step or actor", "aria-label": "Filter events", value: own.filter, oninput: (event) => { own.filter = event.target.value; app.render(); } }),
      h("span", { class: "dim num" }, plural(own.state.seq, "event")),
      reports ? h("label", { class: "check" }, h("input", { type: "checkbox", checked: own.showsProgress, onchange: (event) => { own.showsProgress = event.target.checked; app.render(); } }), ` ${plural(reports, "report")} of progress`) : null, h("div", { class: "spring" }), commands(`goalmill events ${own.id}`, curl("GET", `${planPath(own.id)}/events`))),
    table("Events, newest first", [{ text: "#", num: true }, `Time (${zone(app.now)})`, "Event", "Step", "By", "Details"], found.map((event) => h("tr", { key: event.seq, class: own.at === event.seq ? "selected" : "" },
      figure(button({ class: "link", onclick: () => context.moveTo(event.seq), "aria-label": `Show the plan at event ${event.seq}` }, event.seq)),
      h("td", { class: "num", title: exact(parseTime(event.time)) }, shortTime(parseTime(event.time), app.now)),
      cell(words(event.type)), cell(event.step_id ? [h("code", null, event.step_id), event.attempt > 1 ? dim(` ×${event.attempt}`) : null] : null), h("td", { class: "by" }, event.actor || null),
      h("td", { class: "detail", dir: "auto" }, eventDetail(event) || null))), { class: "event-table" }),
    isAll ? null : button({ onclick: () => { own.shown += 500; app.render(); } }, "Load older events"),
  ];
}

/** The few words of an event that people look for. */
export function eventDetail(event) {
  const data = event.data || {};
  const failure = data.failure;
  if (failure) return `${failure.code}: ${failure.message}`;
  const text = data.reason || data.summary || data.message || data.error || (data.question && (data.question.question || data.question)) || data.worker || (data.n ? `${data.n} ${data.name}` : "") || data.agent_type || data.trigger || "";
  return typeof text === "string" ? text.slice(0, 300) : "";
}

function revisionsTab(context) {
  const { own } = context;
  const list = [...own.state.revisions].reverse();
  if (!list.length) return empty("No revision yet", "Revisions appear here when planners or people change the plan while it runs.");
  return h("ol", { class: "revisions", reversed: true }, list.map((one) => h("li", { key: one.revision, class: "revision" },
    h("div", { class: "title-line" }, h("h3", null, `Revision ${one.revision}`), h("span", { class: "tag" }, words(one.trigger)), one.strategy ? h("span", { class: "tag" }, words(one.strategy)) : null, time(one.ms), h("div", { class: "spring" }),
      button({ class: "small", onclick: () => context.moveTo(one.seq - 1) }, "Just before"), button({ class: "small", onclick: () => context.moveTo(one.seq) }, "Just after"),
      h("a", { class: "button small", href: `#/compare?a=${encodeURIComponent(`${own.id}@${one.revision - 1}`)}&b=${encodeURIComponent(`${own.id}@${one.revision}`)}` }, "Compare")),
    one.summary || one.reason ? h("p", null, [one.summary, one.reason].filter(Boolean).join(" – ")) : null,
    h("ul", null, (one.changes || []).map((change) => h("li", null, change))),
    facts([["By", one.planner || one.actor || "a person"], ["Confidence", one.confidence_after ? `${percent(one.confidence_before)} → ${percent(one.confidence_after)}` : null], ["Added", (one.added || []).join(", ")], ["Changed", (one.modified || []).join(", ")], ["Removed", (one.removed || []).join(", ")], ["Skipped", (one.skipped || []).join(", ")]]))));
}

function resultsTab(context) {
  const { view } = context.own;
  const withOutputs = view.steps.filter((step) => step.outputs !== undefined);
  return [
    view.final_output !== undefined && view.final_output !== null ? h("section", null, h("h3", null, "Result of the plan"), json(view.final_output, `${view.plan_id}-result`, wholeOf(view.plan_id))) : null,
    (view.criteria || []).length ? h("section", null, h("h3", null, "Success criteria"), h("ul", null, view.criteria.map((one) => h("li", null, h("span", { class: "tag" }, words(one.verdict)), " ", one.description || one.id, one.evidence ? dim(` – ${one.evidence}`) : null)))) : null,
    withOutputs.length ? withOutputs.map((step) => h("section", { key: step.id }, h("h3", null, step.id), json(step.outputs, `${view.plan_id}-${step.id}-outputs`, wholeOf(view.plan_id, step.id)))) : empty("No results yet", "Outputs of steps appear here when they complete."),
  ];
}

function goalTab(context) {
  const { view } = context.own;
  return [
    h("p", { class: "goal", dir: "auto" }, view.goal.description || view.name),
    (view.constraints || []).length ? table("Constraints", ["Constraint", "Status", "Measured", "Priority"], view.constraints.map((one) => h("tr", { key: one.name }, rowHead(one.name), cell(status(one.status)), figure(one.status === "not_measured" ? "–" : measured(one)), cell(`${one.priority}${one.hard ? ", hard" : ""}`)))) : null,
    (view.goal_read || []).length ? h("div", { class: "notice" }, h("p", null, h("strong", null, "Read by a model in the text of the goal: "), view.goal_read.map((place) => h("span", { key: place, class: "tag" }, place.slice(1).replaceAll("/", " "))))) : null,
    h("h3", null, "Its fields"), json(view.goal, `${view.plan_id}-goal`),
    context.own.state.warnings.length ? [h("h3", null, "Notes of the planner"), issues(context.own.state.warnings)] : null,
    commands(`goalmill plan get ${view.plan_id}`, curl("GET", planPath(view.plan_id)), true),
  ];
}
