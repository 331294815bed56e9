// Dialogs of actions: what happens, why, and the commands that do the same.

import { h, openDialog } from "./dom.js";
import { can, planPath, post } from "./api.js";
import { draft, keep } from "./drafts.js";
import { app, button, commands, curl, field, icon, isStale, problem } from "./parts.js";
import { capital, exact, parseTime, quote } from "./format.js";
import { isFinal } from "./replay.js";

let open = null;

/**
 * Asks before an action.
 *
 * - `fields`: `[{name, label, type, value, hint, options}]`; their values go to `request` and `cli`.
 * - `request(values)`: `{method, path, body}`; `cli(values)`: the command.
 */
export function ask(action) {
  const values = Object.fromEntries((action.fields || []).map((one) => [one.name, one.value ?? ""]));
  let name = "";
  try { name = `dialog ${action.request(values).path}`; } catch { /* not complete yet */ }
  name ||= `dialog ${location.hash} ${action.title} ${action.text}`;
  open = { action, values: { ...values, ...draft(name) }, name, refusal: null, isBusy: false };
  app.render();
}

export function closeDialog() {
  if (open) keep(open.name);
  open = null;
  app.render();
}

async function run(event) {
  event.preventDefault();
  const own = open;
  if (own.isBusy) return;
  let request;
  try { request = own.action.request(own.values); } catch (error) {
    own.refusal = { status: 400, title: "Not complete", message: error.message, errors: [] };
    return app.render();
  }
  own.isBusy = true;
  app.render();
  try {
    const answer = await post(request.path, request.body, request.headers);
    if (open === own) closeDialog();
    app.announce(`${own.action.title}: done`);
    if (own.action.then) own.action.then(answer);
  } catch (refusal) {
    own.refusal = refusal;
    own.isBusy = false;
    app.render();
  }
}

function control(own, one) {
  const set = (event) => { own.values[one.name] = event.target.value; keep(own.name, own.values); app.render(); };
  const props = { name: one.name, value: own.values[one.name], oninput: set, required: one.required };
  // Nothing is chosen before a person chooses.
  if (one.options) return h("select", { ...props, required: !one.isOptional, onchange: set }, ["", ...one.options].map((option) => h("option", { key: option, value: option, selected: option === own.values[one.name], disabled: !option && !one.isOptional }, option || (one.isOptional ? "–" : "Choose …"))));
  if (one.type === "text") return h("textarea", { ...props, rows: one.rows || 3, spellcheck: one.code ? "false" : "true", class: one.code ? "code-area" : "" });
  return h("input", { ...props, type: one.type || "text", step: one.type === "number" ? "any" : undefined, autocomplete: "off" });
}

/** The dialog that is open, if there is one. */
export function dialog() {
  if (!open) return null;
  const { action, values } = open;
  let request = { method: "POST", path: "", body: {} };
  try { request = action.request(values); } catch { /* not complete yet */ }
  const cancelled = (event) => { event.preventDefault(); closeDialog(); };
  return h("dialog", { class: "dialog", key: "dialog", "aria-labelledby": "dialog-title", ref: (el) => queueMicrotask(() => openDialog(el)), oncancel: cancelled },
    h("form", { onsubmit: run },
      h("header", null, h("h2", { id: "dialog-title" }, action.title), button({ class: "quiet icon-button", "aria-label": "Close", onclick: closeDialog }, icon("close"))),
      action.text && h("p", null, action.text),
      (action.fields || []).map((one) => field(one.label, control(open, one), one.hint)),
      problem(open.refusal && { ...open.refusal, message: open.refusal.message, title: open.refusal.title && `${action.title}: refused` }),
      commands(action.cli && action.cli(values), request.path && curl("POST", request.path, request.body)),
      h("footer", null,
        button({ onclick: closeDialog }, "Close"),
        h("button", { type: "submit", class: action.isDangerous ? "danger" : "primary", disabled: open.isBusy || isStale() }, open.isBusy ? "Sending …" : action.verb || action.title))));
}

export const isDialogOpen = () => open !== null;

const reasonField = { name: "reason", label: "Reason", hint: "Recorded in the log; may be empty" };
export const because = (values) => (values.reason ? { reason: values.reason } : {});
export const reasonFlag = (values) => (values.reason ? ` --reason ${quote(values.reason)}` : "");

/** The actions on a plan that its status and the roles allow. */
export function planActions(view, then) {
  const id = view.plan_id;
  const isOver = isFinal(view.status);
  const simple = (verb, title, text, more) => ({
    title, text, verb: title, fields: [reasonField], then, key: verb,
    request: (values) => ({ path: `${planPath(id)}:${verb}`, body: because(values) }),
    cli: (values) => `goalmill plan ${verb} ${id}${reasonFlag(values)}`, ...more,
  });
  const actions = [];
  if (!isOver && can("operator", "submitter")) {
    if (view.status === "paused") actions.push(simple("resume", "Resume", "Steps start again."));
    else if (view.status === "running") actions.push(simple("pause", "Pause", "Running steps finish; no others start."));
    if (["running", "paused"].includes(view.status)) actions.push(replan(id, then));
    actions.push(simple("cancel", "Cancel plan", "The plan ends; attempts that run are stopped.", { isDangerous: true }));
  }
  if (isOver && can("submitter")) actions.push(fork(id, then));
  return actions;
}

function replan(id, then) {
  return {
    title: "Replan", text: "The planners are asked for another way to do what remains.", key: "replan", then,
    fields: [{ name: "hint", label: "Hint for the planners", hint: "What should be different" }, reasonField],
    request: (values) => ({ path: `${planPath(id)}:replan`, body: { ...because(values), ...(values.hint ? { hint: values.hint } : {}) } }),
    cli: (values) => `goalmill plan replan ${id}${values.hint ? ` --hint ${quote(values.hint)}` : ""}${reasonFlag(values)}`,
  };
}

/** A new plan that continues from this one; with `step`, that step and what follows run again. */
export function fork(id, then, step, inputs) {
  const parse = (text) => {
    const value = JSON.parse(text);
    if (value === null || typeof value !== "object" || Array.isArray(value)) throw new Error("the inputs must be a JSON object");
    return value;
  };
  return {
    title: step ? "Retry from here" : "Run again", key: "fork", verb: "Start a new plan",
    text: step ? `A new plan keeps the results before \`${step}\`, and runs it and what depends on it again.` : "A new plan starts from the state of this one and keeps its results.",
    fields: [...(step && inputs ? [{ name: "inputs", label: "Inputs of the step", type: "text", code: true, rows: 6, value: JSON.stringify(inputs, null, 2) }] : []), reasonField],
    request: (values) => {
      const given = values.inputs && values.inputs !== JSON.stringify(inputs, null, 2) ? { inputs: { [step]: parse(values.inputs) } } : {};
      return { path: `${planPath(id)}:fork`, body: { ...(step ? { step } : {}), ...given, ...because(values) } };
    },
    cli: (values) => `goalmill plan fork ${id}${step ? ` --step ${step}` : ""}${reasonFlag(values)}`,
    then: (answer) => { if (answer && answer.plan_id) app.go(`#/plans/${answer.plan_id}`); else if (then) then(); },
  };
}

const DECISIONS = {
  plan: [["Approve plan", "The plan is carried out as it is shown."], ["Reject plan", "The plan ends and nothing runs."]],
  revision: [["Approve revision", "The revision is carried out as it is shown."], ["Reject revision", "The plan goes on without this revision, or ends, as its policy says."]],
  failure: [["Go on without the step", "What depends on the step is skipped."], ["End the plan", "The plan ends; attempts that run are stopped."]],
};
/** What a person decides about: `plan`, `revision` or `failure`. */
export const decided = (view) => (view.proposal ? "revision" : view.decision?.failed_step ? "failure" : "plan");

export function decidePlan(id, verb, what, then) {
  const [title, text] = DECISIONS[what][verb === "approve" ? 0 : 1];
  return {
    title, text, key: verb, isDangerous: verb === "reject", then, fields: [reasonField],
    request: (values) => ({ path: `${planPath(id)}:${verb}`, body: because(values) }),
    cli: (values) => `goalmill plan ${verb} ${id}${reasonFlag(values)}`,
  };
}

/** What happens when nobody answers a question in time. */
export const withoutAnswer = (question, isStep) => (question.default !== undefined && question.default !== null ? `${JSON.stringify(question.default)} counts as the answer` : isStep ? "the step fails" : "it stays unanswered");

const OUTCOMES = {
  plan: { approve: "the plan is approved", reject: "the plan is rejected" },
  revision: { approve: "the revision is approved", reject: "the revision is rejected" },
  failure: { approve: "the plan goes on without the step", reject: "the plan ends" },
  step: { approve: "the step is approved", reject: "the step is rejected" },
};
/** What happens when nobody decides in time. */
export const withoutDecision = (decision, what) => OUTCOMES[what][decision.default] || "the agent goes on without it";

export function answerQuestion(id, question, isStep, then) {
  const schema = question.schema || {};
  const text = (value) => (value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value));
  const choices = Array.isArray(schema.enum) ? schema.enum : schema.type === "boolean" ? [true, false] : null;
  const kind = choices ? { options: choices.map(text), value: text(question.default) } : { value: text(question.default), type: schema.type === "object" || schema.type === "array" ? "text" : "text-line" };
  const parse = (given) => {
    if (choices && !kind.options.includes(given)) throw new Error("choose an answer");
    if (choices) return choices[kind.options.indexOf(given)];
    if (schema.type === "string") return given;
    try { return JSON.parse(given); } catch { if (schema.type) throw new Error(`the answer must be JSON of the type ${schema.type}`); return given; }
  };
  return {
    title: "Answer", text: question.question, verb: "Send the answer", then,
    fields: [{ name: "answer", label: "Answer", hint: [schema.type ? `Type: ${schema.type}.` : "A text, or JSON.", question.due_at ? `${capital(withoutAnswer(question, isStep))} without an answer until ${exact(parseTime(question.due_at))}.` : ""].join(" "), ...kind }, reasonField],
    request: (values) => ({ path: isStep ? `${planPath(id)}/steps/${encodeURIComponent(question.id)}:answer` : `${planPath(id)}/questions/${encodeURIComponent(question.id)}:answer`, body: { answer: parse(values.answer), ...because(values) } }),
    cli: (values) => `goalmill ${isStep ? "step" : "plan"} answer ${id} ${question.id} ${quote(values.answer)}${reasonFlag(values)}`,
  };
}

/** Sends the event that a step waits for. */
const sendEvent = (plan, { event, key, schema }, then) => ({
  title: "Send the event", text: `The step completes with the data of ${event}.`, key: "send-event", then, isPrimary: true,
  fields: [{ name: "data", label: "Data (JSON)", type: "text", code: true, value: "{}", hint: schema ? `Schema: ${JSON.stringify(schema)}` : "" }],
  request: (values) => ({ path: `${planPath(plan)}/events`, body: { name: event, key: key || "", data: JSON.parse(values.data) } }),
  cli: (values) => `goalmill event send ${event} --plan ${plan}${key ? ` --key ${quote(key)}` : ""} --data ${quote(values.data)}`,
});

/** The actions on a step that its status and the roles allow. */
export function stepActions(plan, step, isOver, inputs, then) {
  const verbed = (verb, title, text, more = {}) => ({
    title, text, key: verb, then, isDangerous: more.isDangerous, fields: [...(more.fields || []), reasonField],
    request: (values) => ({ path: `${planPath(plan)}/steps/${encodeURIComponent(step.id)}:${verb}`, body: { ...(more.body ? more.body(values) : {}), ...because(values) } }),
    cli: (values) => `goalmill step ${verb} ${plan} ${step.id}${more.flags ? more.flags(values) : ""}${reasonFlag(values)}`,
  });
  const actions = [];
  if (!isOver && step.status === "awaiting_approval" && can("approver")) {
    if (step.question) actions.push(answerQuestion(plan, typeof step.question === "object" ? step.question : { id: step.id, question: step.question }, true, then));
    else {
      actions.push(verbed("approve", "Approve step", "The step starts."));
      actions.push(verbed("reject", "Reject step", "The step fails before it starts.", { isDangerous: true }));
    }
  }
  if (!isOver && step.status === "waiting" && step.awaits && (can("operator") || can("submitter"))) actions.push(sendEvent(plan, step.awaits, then));
  if (!isOver && can("operator")) {
    if (step.status === "retrying" || ["failed", "skipped"].includes(step.status)) actions.push(verbed("retry", "Retry step", step.status === "retrying" ? "The next attempt is made at once." : "The step starts again."));
    if (!isFinal(step.status) || step.status === "failed") {
      actions.push(verbed("skip", "Skip step", "The step counts as done, without outputs."));
      actions.push(verbed("complete", "Complete by hand", "The step counts as completed with these outputs.", {
        fields: [{ name: "outputs", label: "Outputs (JSON)", type: "text", code: true, value: "{}" }],
        body: (values) => ({ outputs: JSON.parse(values.outputs) }), flags: (values) => ` --outputs ${quote(values.outputs)}`,
      }));
    }
  }
  if (can("submitter")) actions.push(fork(plan, then, step.id, inputs && typeof inputs === "object" ? inputs : undefined));
  return actions;
}

export const actionButtons = (actions) => actions.map((action) => button({ key: action.key, disabled: isStale(), class: action.isDangerous ? "danger-quiet" : action.isPrimary ? "primary" : "", onclick: () => ask(action) }, `${action.title}${action.isDangerous ? " …" : ""}`));
