// The panel of a step: what it does, what happened in each attempt, and what can be done.

import { h } from "./dom.js";
import { actionButtons, stepActions } from "./actions.js";
import { shortMessage, transcript } from "./transcript.js";
import { app, button, copyButton, explainCommand, facts, figure, icon, json, planLink, prose, rowHead, status, table, time, wholeOf } from "./parts.js";
import { allowedStatus, duration, money, number, percent, words } from "./format.js";
import { isFinal, shownStatus } from "./replay.js";

export function stepPanel({ plan, view, step, items, state, explanation, isPast, now, onClose, then }) {
  const live = isPast ? null : view.steps.find((one) => one.id === step.id) || null;
  const definition = step.definition;
  const last = step.attempts[step.attempts.length - 1];
  const cause = explanation?.steps.find((one) => one.step_id === step.id);
  const outputs = isPast ? step.outputs : live && live.outputs !== undefined ? live.outputs : step.outputs;
  const failure = isPast ? step.failure : live?.failure || step.failure;
  const inputs = last && last.inputs !== undefined && last.inputs !== null ? last.inputs : undefined;
  const explain = failure ? explainCommand(failure.code) : "";
  const isWide = Boolean(app.route.params.get("wide"));
  const actions = isPast ? [] : stepActions(plan, live || step, isFinal(view.status), inputs || definition.inputs, then);
  return h("aside", { class: "panel step-panel", key: "step-panel", "aria-labelledby": "step-title" },
    h("header", { class: "title-line" }, h("h2", { id: "step-title" }, step.id), status(shownStatus(step)), h("div", { class: "spring" }), button({ class: "quiet small wide-switch", "aria-pressed": String(isWide), onclick: () => { app.replace({ wide: isWide ? null : "1" }); app.render(); } }, isWide ? "Beside the graph" : "Whole width"), button({ class: "quiet icon-button", "aria-label": "Close the step", onclick: onClose }, icon("close"))),
    definition.description ? h("p", { dir: "auto" }, definition.description) : null,
    cause ? h("div", { class: "why tone-idle" }, h("p", null, prose(cause.because.join(" ← "))), cause.hint ? h("p", { class: "hint" }, prose(cause.hint)) : null) : null,
    failure && step.status !== "completed" ? h("div", { class: "notice bad" }, h("p", null, h("code", { class: "code" }, failure.code), " ", h("span", { dir: "auto" }, failure.message)), h("p", { class: "dim" }, words(failure.class), explain ? ["; ", h("code", null, explain), " ", copyButton(explain, "Copy the explain command")] : null),
      (failure.errors || []).length ? h("ul", null, failure.errors.map((one) => h("li", null, h("code", { class: "code" }, one.code), " ", one.message))) : null) : null,
    live?.message && step.status === "running" ? h("p", null, shortMessage(live.message), Number.isFinite(live.progress) ? ` (${percent(live.progress)})` : "") : null,
    live?.reason || step.reason ? h("p", { class: "dim" }, live?.reason || step.reason) : null,
    actions.length ? h("div", { class: "buttons" }, actionButtons(actions)) : null,
    facts([
      ["Agent", definition.agent_type || words(definition.kind || "engine")], ["Action", definition.action], ["Worker", last?.worker || ""],
      ["Waits for", (definition.dependencies || []).length ? h("span", null, definition.dependencies.map((id, i) => [i ? ", " : "", h("a", { href: planLink(plan, `?step=${encodeURIComponent(id)}`) }, id), allowedStatus(definition, id) ? ` (${allowedStatus(definition, id)})` : ""])) : null],
      ["Condition", definition.when], ["Phase", definition.phase], ["On failure", definition.on_failure && words(definition.on_failure)],
      ["Cost", h("span", { class: "num" }, money(step.cost))], ["Tokens", step.tokens ? h("span", { class: "num" }, number(step.tokens)) : null],
      ["Time limit", definition.timeout_ms ? duration(definition.timeout_ms) : null],
      ["Event", live?.awaits ? h("code", null, live.awaits.event) : null], ["Key", live?.awaits ? live.awaits.key : null],
      ["Due", live?.due_at && !live.finished_at ? time(live.due_at) : null],
      ["Sub-plan", live?.sub_plan ? h("a", { href: planLink(live.sub_plan) }, live.sub_plan) : null],
      ["Trace", traceId(state.traceparent) ? h("span", null, h("code", null, traceId(state.traceparent).slice(0, 12)), "… ", copyButton(traceId(state.traceparent), "Copy the trace id")) : null],
    ]),
    items,
    transcript({ plan, step, now }),
    route(state.routes.get(step.id)),
    h("section", null, h("h3", null, "Outputs", live?.partial ? h("span", { class: "tag" }, "incomplete") : null), outputs === undefined ? h("p", { class: "dim" }, step.status === "completed" ? "None." : "None yet.") : json(outputs, `${plan}-${step.id}-outputs`, wholeOf(plan, step.id))),
    live && (live.errors || []).length ? h("section", null, h("h3", null, "What is missing"), h("ul", null, live.errors.map((one) => h("li", null, h("code", { class: "code" }, one.code), " ", one.message)))) : null,
    live && (live.suggested_adjustments || []).length ? h("section", null, h("h3", null, "What the agent suggests"), json(live.suggested_adjustments, `${plan}-${step.id}-suggestions`)) : null,
    h("section", null, h("h3", null, "Inputs"), inputs !== undefined ? [h("p", { class: "dim" }, "As the agent received them."), json(inputs, `${plan}-${step.id}-inputs`)] : json(definition.inputs === undefined ? {} : definition.inputs, `${plan}-${step.id}-definition`)));
}

const traceId = (traceparent) => (traceparent || "").split("-")[1] || "";

function route(found) {
  if (!found) return null;
  return h("section", null, h("h3", null, "Why this agent"), h("p", { class: "dim" }, `The router chose ${found.agent_type}${Number.isFinite(found.confidence) ? ` with confidence ${percent(found.confidence)}` : ""}.`), candidates(found.candidates, found.agent_type));
}

/** The agents that the router weighed, with what counted. */
export function candidates(list, chosen) {
  const names = [...new Set(list.flatMap((one) => Object.keys(one.factors || {})))];
  return table("Candidates of the router", ["Agent", { text: "Score", num: true }, { text: "Similarity", num: true }, { text: "Success", num: true }, { text: "Cost", num: true }, { text: "Time", num: true }, "Factors"], list.slice(0, 12).map((one) => h("tr", { key: one.agent_type, class: one.agent_type === chosen ? "selected" : "" },
    rowHead(one.agent_type), figure(h("span", { class: "meter", "aria-hidden": "true" }, h("span", { style: { width: `${Math.max(0, Math.min(1, one.score)) * 100}%` } })), one.score.toFixed(2)), figure(one.similarity.toFixed(2)), figure(percent(one.success_rate)), figure(money(one.cost)), figure(one.latency_ms ? duration(one.latency_ms) : "–"),
    h("td", { class: "factors dim" }, names.filter((name) => one.factors && name in one.factors).map((name) => `${words(name)} ${one.factors[name].toFixed(2)}`).join(" · ")))));
}
