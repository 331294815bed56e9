// Dialogs of actions: what happens, why, and the commands that do the same.

import { find, h, openDialog } from "./dom.js";
import { can, planPath, post } from "./api.js";
import { draft, keep } from "./drafts.js";
import { FieldErrors, readSchema, schemaFields } from "./forms.js";
import { app, button, commands, curl, field, icon, isStale, problem, prose } from "./parts.js";
import { capital, exact, parseTime, quote } from "./format.js";
import { isFinal } from "./replay.js";

let open = null;

/**
 * Asks before an action.
 *
 * - `fields`: `[{name, label, type, value, hint, options}]`, or those of `schemaFields`; their values go to `request` and `cli`.
 * - `perform(values)`: in place of one request.
 * - `request(values)`: `{method, path, body}`; `cli(values)`: the command.
 */
export function ask(action) {
  const values = Object.fromEntries((action.fields || []).map((one) => [one.name, one.value ?? ""]));
  let name = "";
  try { const { path } = action.request(values); name = path && `dialog ${path}`; } catch { /* not complete yet */ }
  name ||= `dialog ${location.hash} ${action.title} ${action.text}`;
  open = { action, values: { ...values, ...draft(name) }, name, refusal: null, wrong: {}, isBusy: false };
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
  own.wrong = Object.fromEntries((own.action.fields || []).filter((one) => one.required && !String(own.values[one.name]).trim()).map((one) => [one.name, one.options ? "Choose one." : "Fill this in."]));
  for (const input of event.target.elements) if (input.validity?.badInput) own.wrong[input.name] = "Give a number.";
  own.refusal = null;
  try { request = own.action.request(own.values); } catch (error) {
    if (error instanceof FieldErrors) Object.assign(own.wrong, error.fields);
    else own.refusal = { status: 400, title: "Not complete", message: error.message, errors: [] };
  }
  if (!request || Object.keys(own.wrong).length) return showWrong(own);
  own.isBusy = true;
  app.render();
  try {
    const answer = own.action.perform ? await own.action.perform(own.values) : await post(request.path, request.body, request.headers);
    if (open === own) closeDialog();
    if (!own.action.perform) app.announce(`${own.action.title}: done`);
    if (own.action.then) own.action.then(answer);
  } catch (refusal) {
    own.refusal = refusal;
    own.isBusy = false;
    takeIssues(own);
    showWrong(own);
  }
}

/** What the scheduler refuses is shown at the field that it is about. */
function takeIssues(own) {
  const { errors } = own.refusal;
  for (const one of own.action.fields || []) {
    const issue = one.pointer && errors.find(({ pointer }) => pointer === one.pointer || pointer.startsWith(`${one.pointer}/`));
    if (issue) own.wrong[one.name] = capital(issue.detail);
  }
}

/** The focus goes to the first field that is wrong. */
function showWrong(own) {
  app.render();
  const first = (own.action.fields || []).find((one) => own.wrong[one.name]);
  if (first) requestAnimationFrame(() => requestAnimationFrame(() => find(`dialog [name="${CSS.escape(first.name)}"]`)?.focus()));
}

function control(own, one) {
  const set = (event) => { own.values[one.name] = event.target.value; delete own.wrong[one.name]; keep(own.name, own.values); app.render(); };
  const props = { name: one.name, value: own.values[one.name], oninput: set, "aria-required": one.required ? "true" : undefined, "aria-invalid": own.wrong[one.name] ? "true" : undefined };
  // Nothing is chosen before a person chooses.
  if (one.options) return h("select", { ...props, onchange: set }, ["", ...one.options].map((option) => h("option", { key: option, value: option, selected: option === own.values[one.name], disabled: !option && !one.isOptional }, option || (one.isOptional ? "–" : "Choose …"))));
  if (one.type === "text") return h("textarea", { ...props, rows: one.rows || 3, spellcheck: one.code ? "false" : "true", class: one.code ? "code-area" : "" });
  return h("input", { ...props, type: one.type || "text", step: one.type === "number" ? (one.isWhole ? "1" : "any") : undefined, min: one.min, max: one.max, autocomplete: "off" });
}

/** Boxes of which any number is checked; the value is their names, with commas between them. */
function checks(own, one) {
  const chosen = new Set(own.values[one.name].split(",").filter(Boolean));
  const set = (choice, isOn) => { if (isOn) chosen.add(choice); else chosen.delete(choice); own.values[one.name] = [...chosen].join(","); delete own.wrong[one.name]; keep(own.name, own.values); app.render(); };
  return h("fieldset", { class: `field ${own.wrong[one.name] ? "wrong" : ""}` }, h("legend", { class: "label" }, one.label), h("div", { class: "chips" }, one.choices.map((choice) => h("label", { key: choice, class: "chip" }, h("input", { type: "checkbox", name: one.name, checked: chosen.has(choice), onchange: (event) => set(choice, event.target.checked) }), choice))), own.wrong[one.name] ? h("span", { class: "issue" }, own.wrong[one.name]) : null);
}

/** The dialog that is open, if there is one. */
export function dialog() {
  if (!open) return null;
  const { action, values } = open;
  let request = { method: "POST", path: "", body: {} };
  try { request = action.request(values); } catch { /* not complete yet */ }
  const cancelled = (event) => { event.preventDefault(); closeDialog(); };
  return h("dialog", { class: "dialog", key: "dialog", "aria-labelledby": "dialog-title", ref: (el) => queueMicrotask(() => openDialog(el)), oncancel: cancelled },
    h("form", { onsubmit: run, novalidate: true },
      h("header", null, h("h2", { id: "dialog-title" }, action.title), button({ class: "quiet icon-button", "aria-label": "Close", onclick: closeDialog }, icon("close"))),
      action.text && h("p", null, prose(action.text)),
      action.note && h("p", { class: "dim" }, action.note),
      (action.fields || []).map((one) => (one.type === "checks" ? checks(open, one) : field(one.label, control(open, one), one.hint, open.wrong[one.name]))),
      problem(open.refusal && { ...open.refusal, message: open.refusal.message, title: open.refusal.title && `${action.title}: refused` }),
      commands(action.cli?.(values), request.path && curl(request.method || "POST", request.path, request.body)),
      h("footer", null,
        button({ onclick: closeDialog }, "Close"),
        h("button", { type: "submit", class: action.isDangerous ? "danger" : "primary", disabled: open.isBusy || isStale() }, open.isBusy ? "Sending …" : action.verb || action.title))));
}

export const isDialogOpen = () => open !== null;

export const reasonField = { name: "reason", label: "Reason", hint: "Recorded in the log; may be empty" };
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
    then: (answer) => { if (answer?.plan_id) app.go(`#/plans/${answer.plan_id}`); else if (then) then(); },
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
  const answer = (values) => readSchema(schema, "answer", values);
  const note = question.due_at ? `${capital(withoutAnswer(question, isStep))} without an answer until ${exact(parseTime(question.due_at))}.` : "";
  return {
    title: "Answer", text: question.question, note, verb: "Send the answer", then,
    fields: [...schemaFields(schema, { name: "answer", label: "Answer", pointer: "/answer", given: question.default }), reasonField],
    request: (values) => ({ path: isStep ? `${planPath(id)}/steps/${encodeURIComponent(question.id)}:answer` : `${planPath(id)}/questions/${encodeURIComponent(question.id)}:answer`, body: { answer: answer(values), ...because(values) } }),
    cli: (values) => `goalmill ${isStep ? "step" : "plan"} answer ${id} ${question.id} ${shellValue(() => answer(values))}${reasonFlag(values)}`,
  };
}

/** A value for a shell, or what stands for it while it is not complete. */
function shellValue(read) {
  try { const value = read(); return quote(typeof value === "string" ? value : JSON.stringify(value ?? null)); } catch { return "…"; }
}

/** Sends the event that a step waits for. */
export function sendEvent(plan, { event, key, schema }, then) {
  const form = schema || { type: "object", default: {} };
  const data = (values) => readSchema(form, "data", values);
  return {
    title: "Send the event", text: `The step completes with the data of ${event}.`, key: "send-event", then, isPrimary: true,
    fields: schemaFields(form, { name: "data", label: "Data", pointer: "/data" }),
    request: (values) => ({ path: `${planPath(plan)}/events`, body: { name: event, key: key || "", data: data(values) } }),
    cli: (values) => `goalmill event send ${event} --plan ${plan}${key ? ` --key ${quote(key)}` : ""} --data ${shellValue(() => data(values))}`,
  };
}

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
