// The transcript of a step: its attempts and iterations, and in each what it asked models and tools and what they gave.

import { h } from "./dom.js";
import { get, planPath, Refusal } from "./api.js";
import { onForget } from "./drafts.js";
import { app, button, copyButton, dim, download, icon, json, jsonSize, planLink, problem, prose, status } from "./parts.js";
import { bytes, clockTime, duration, exact, money, number, plural, words } from "./format.js";
import { isFinal, outcomeOf } from "./replay.js";
import { callKey, conversation, FINAL_ANSWER, isModel, parsed, resultOf, toolName } from "./replies.js";

/** Calls of an attempt that are shown at first: the last ones. */
const CALLS_SHOWN = 40;
const GIST_MAX = 200;
/** Characters of JSON that is shown as a line. */
const LINE_MAX = 120;
const STEPS_MAX = 50;
const WRITES = /^turn (\d+): the model writes: /;

/** What is opened, loaded and shown of the steps that were looked at. */
const known = new Map();
/** The JSON of the texts that are shown, by the name of their place. */
const texts = new Map();
const TEXTS_MAX = 50;
onForget(() => { known.clear(); texts.clear(); });

function memory(plan, step) {
  const key = `${plan} ${step}`;
  if (!known.has(key)) known.set(key, { opened: new Map(), wholes: new Map(), loading: new Map(), all: new Set() });
  if (known.size > STEPS_MAX) known.delete(known.keys().next().value);
  return known.get(key);
}

/** A part that is made when it is opened. */
function fold(memo, key, name, summary, content, isOpenAtFirst = false) {
  const isOpen = memo.opened.get(key) ?? isOpenAtFirst;
  return h("details", { key, class: name, open: isOpen, ontoggle: (event) => { if (event.target.open !== isOpen) { memo.opened.set(key, event.target.open); app.render(); } } }, h("summary", null, summary), isOpen ? content() : null);
}

/** The attempts of a step with their calls; null before the first one. */
export function transcript({ plan, step, now }) {
  const { attempts, kept } = step;
  if (!attempts.length && !kept.length) return null;
  const memo = memory(plan, step.id);
  const all = [...kept, ...attempts.flatMap((one) => one.calls)];
  const own = { plan, step, memo, now, base: `${plan}-${step.id}` };
  const tokens = all.reduce((sum, call) => sum + tokensOf(call), 0), cost = all.reduce((sum, call) => sum + (call.cost || 0), 0);
  return h("section", { class: "transcript" },
    h("div", { class: "title-line" }, h("h3", null, all.length ? "Transcript" : step.iterations ? "Iterations" : "Attempts"), all.length ? h("span", { class: "dim num" }, [plural(all.length, "call"), tokens ? `${number(tokens)} tokens` : "", cost ? money(cost) : ""].filter(Boolean).join(", ")) : null, h("div", { class: "spring" }),
      all.length ? button({ class: "quiet small", onclick: () => save(own) }, "Download") : null),
    kept.length ? h("div", { class: "round" }, h("div", { class: "dim" }, "Made by the plan that this one continues; neither made nor paid again:"), rows(own, kept, kept, undefined, `k`)) : null,
    h("ol", { class: "attempts" }, attempts.map((one, at) => attempt(own, one, at))));
}

const tokensOf = (call) => (call.usage?.prompt_tokens || 0) + (call.usage?.completion_tokens || 0);

/** An attempt goes on with the calls of those before it, unless they began anew. */
function callsBefore(step, at) {
  const { round } = step.attempts[at];
  return [...(round ? [] : step.kept), ...step.attempts.slice(0, at).filter((other) => other.round === round).flatMap((other) => other.calls)];
}

function attempt(own, one, at) {
  const { step, now } = own;
  const begun = Number.isFinite(one.startMs) ? one.startMs : Number.isFinite(one.endMs) ? one.endMs : now;
  const ran = Number.isFinite(one.startMs) ? (Number.isFinite(one.endMs) ? one.endMs : now) - one.startMs : NaN;
  const isOpen = !Number.isFinite(one.endMs) && !isFinal(step.status);
  const others = step.attempts.slice(0, at);
  const before = callsBefore(step, at), count = before.filter((call) => !call.isVoid).length;
  const tries = others.filter((other) => other.round === one.round).length + 1;
  const name = step.definition.repeat ? `Iteration ${one.iteration || Math.max(0, ...others.map((other) => other.iteration || 0)) + 1}` : `Attempt ${one.number}`;
  return h("li", { key: one.queuedMs, class: "round" },
    h("div", { class: "title-line" }, h("strong", { class: "num" }, name), status(outcomeOf(one, step)), step.definition.repeat && tries > 1 ? h("span", { class: "tag" }, `attempt ${tries}`) : null, h("span", { class: "num" }, duration(ran))),
    h("div", { class: "dim" }, h("span", { title: exact(one.queuedMs) }, `from ${clockTime(one.queuedMs)}`), `, ${duration(Math.max(0, begun - one.queuedMs))} in the queue`, one.worker ? `, on ${one.worker}` : "", one.agentType && one.agentType !== step.definition.agent_type ? ` as ${one.agentType}` : "", one.cost ? `, ${money(one.cost)}` : "", one.tokens ? `, ${number(one.tokens)} tokens` : ""),
    count && one.calls.length ? h("div", { class: "dim" }, `It has the ${plural(count, "call")} before, and does not make them again.`) : null,
    one.calls.length ? rows(own, one.calls, [...before, ...one.calls], one, `a${at}`) : null,
    one.waiting ? waitingRow(one.waiting) : isOpen && own.step.status === "running" && (one.calls.length || one.message) ? runningRow(one) : null,
    one.failure ? h("div", { class: "failure" }, h("code", { class: "code" }, one.failure.code), " ", one.failure.message) : null,
    one.outputs === undefined ? null : fold(own.memo, `out-${at}`, "", `Outputs of iteration ${one.iteration}`, () => tree(one.outputs, `${own.base}-iteration-${one.iteration}`)));
}

/** What is read of each call: of those that were dropped apart from the others. */
const rowsByCall = (all, wholes) => new Map([false, true].flatMap((isVoid) => conversation(all.filter((call) => Boolean(call.isVoid) === isVoid), wholes)).map((row) => [row.call, row]));

function rows(own, calls, all, one, place) {
  const { memo } = own;
  const read = rowsByCall(all, memo.wholes);
  const first = memo.all.has(place) ? 0 : Math.max(0, calls.length - CALLS_SHOWN);
  return [
    first ? button({ class: "quiet small", onclick: () => { memo.all.add(place); app.render(); } }, `Show ${plural(first, "earlier call")}`) : null,
    h("ol", { class: "calls", start: String(calls[first].n) }, calls.slice(first).map((call) => callRow(own, read.get(call), all.slice(0, all.indexOf(call)).filter((other) => !other.isVoid), one)))];
}

function callRow(own, row, earlier, one) {
  const { call, reply } = row;
  const isOfModel = Boolean(reply) || isModel(call);
  const took = call.finished_ms && call.started_ms ? duration(call.finished_ms - call.started_ms) : "";
  const sums = [tokensOf(call) ? `${number(tokensOf(call))} tokens` : "", call.cost ? money(call.cost) : "", took].filter(Boolean).join(" · ");
  const { text, isBad } = gist(row);
  const name = isOfModel ? "Model" : toolName(call);
  return h("li", { key: callKey(call), class: `call ${call.isVoid ? "void" : ""}` }, fold(own.memo, `c${callKey(call)}`, "", [
    h("span", { class: "call-head" }, h("span", { class: "num dim" }, call.n), icon(isOfModel ? "model" : call.name.startsWith("approve ") ? "awaiting_approval" : "tool"), h("strong", null, name), reply?.model ? h("span", { class: "tag" }, reply.model) : null, call.name.startsWith("approve ") ? h("span", { class: "tag" }, "decision") : null, call.isVoid ? h("span", { class: "tag" }, "dropped") : null, h("span", { class: "call-sums num dim" }, sums)),
    h("span", { class: `call-gist cut ${isBad ? "failure" : "dim"}`, dir: "auto" }, text)], () => callBody(own, row, earlier, one)));
}

const lines = new WeakMap();

/** The begin of a text, or of a value as JSON, in a line. */
function oneLine(value) {
  if (value === null || typeof value !== "object") return (value === undefined ? "" : String(value)).slice(0, 4 * GIST_MAX).replace(/\s+/g, " ").slice(0, GIST_MAX);
  if (!lines.has(value)) lines.set(value, oneLine(JSON.stringify(value)));
  return lines.get(value);
}

/** What a call came to, in a line. */
function gist({ call, reply, outcome, asked }) {
  if (call.error) return { text: `${call.error.code}: ${call.error.message}`, isBad: true };
  if (outcome && typeof outcome === "object" && outcome.$blob) return { text: `${bytes(outcome.bytes)}, stored apart` };
  if (reply) {
    const answer = reply.calls.find((one) => one.name === FINAL_ANSWER);
    const calls = reply.calls.filter((one) => one.name !== FINAL_ANSWER).map((one) => `${one.name}(${oneLine(one.arguments)})`);
    return { text: oneLine([oneLine(reply.text), answer ? `answers ${oneLine(answer.arguments)}` : "", calls.length ? `calls ${calls.join(", ")}` : ""].filter(Boolean).join(" – ")) || "an empty reply" };
  }
  const { value, error } = resultOf(outcome);
  const given = asked && Object.keys(asked.arguments || {}).length ? `${oneLine(asked.arguments).slice(0, 80)} → ` : "";
  return { text: `${given}${oneLine(error) || (value === undefined ? "nothing" : oneLine(value))}`, isBad: Boolean(error) };
}

const part = (name, ...content) => h("div", { class: "call-part" }, h("div", { class: "label" }, name), ...content);

/** JSON as a tree; a short one as a line. */
function tree(value, name) {
  return jsonSize(value) > LINE_MAX ? json(value, name) : h("pre", { class: "line", dir: "auto" }, JSON.stringify(value));
}

/** A text as it is; JSON as a tree. */
function said(text, name) {
  if (texts.get(name)?.text !== text) texts.set(name, { text, value: /^\s*[[{]/.test(text) ? parsed(text) : text });
  const { value } = texts.get(name);
  if (texts.size > TEXTS_MAX) texts.delete(texts.keys().next().value);
  if (typeof value === "object") return tree(value, name);
  return [h("pre", { class: "said", dir: "auto", tabindex: "0" }, text), text.length > 300 ? copyButton(text) : null];
}

function callBody(own, row, earlier, one) {
  const { call, reply, outcome, asked, fitting } = row;
  const name = `${own.base}-call-${callKey(call)}`;
  const isOfModel = Boolean(reply) || isModel(call);
  const { value, error, cutAt } = reply ? { value: undefined, error: "", cutAt: 0 } : resultOf(outcome);
  const inner = outcome && typeof outcome === "object" && typeof outcome.plan === "string" && outcome.status ? outcome.plan : "";
  return h("div", { class: "call-body" },
    isOfModel ? fold(own.memo, `p${callKey(call)}`, "prompt", "Prompt", () => prompt(own, earlier, one, name, reply)) : null,
    isOfModel ? null : part("Arguments", asked ? tree(asked.arguments ?? null, `${name}-arguments`) : h("p", { class: "dim" }, fitting > 1 ? `They are those of one of ${number(fitting)} calls that replies ask for; the log has only their digest` : "The log has only their digest", call.inputs ? [": ", h("code", null, call.inputs.slice(0, 16)), "…"] : "", ".")),
    isStored(outcome) ? part(isOfModel ? "Reply" : "Result", stored(own, call, outcome)) : null,
    reply?.thoughts ? part("Thoughts", said(reply.thoughts, `${name}-thoughts`)) : null,
    reply?.text ? part("Reply", said(reply.text, `${name}-reply`)) : null,
    reply?.isCut ? h("p", { class: "dim" }, "The reply was cut at its token limit.") : null,
    (reply?.calls || []).map((one, at) => part(one.name === FINAL_ANSWER ? "Answer" : ["Calls ", h("code", null, one.name)], tree(one.arguments ?? null, `${name}-asked-${at}`))),
    reply?.further ? dim(`and ${plural(reply.further, "more call")}`) : null,
    call.error ? part("Error", h("p", { class: "failure" }, h("code", { class: "code" }, call.error.code), " ", call.error.message)) : null,
    inner ? part("Plan", h("a", { href: planLink(inner) }, inner), " ", status(outcome.status)) : null,
    error ? part("Error", h("pre", { class: "said failure", tabindex: "0" }, error)) : null,
    !reply && !error && !call.error && !isStored(outcome) ? part(isOfModel ? "Reply" : "Result", typeof value === "string" ? said(value, `${name}-result`) : value === undefined ? h("p", { class: "dim" }, "Nothing.") : tree(value, `${name}-result`), cutAt ? dim(`cut at ${bytes(cutAt)}`) : null) : null,
    h("p", { class: "dim" }, [call.usage ? `${number(call.usage.prompt_tokens || 0)} tokens of the prompt, ${number(call.usage.completion_tokens || 0)} of the reply. ` : "", call.started_ms ? `Began at ${clockTime(call.started_ms)}. ` : "", call.isVoid ? "A later attempt made other calls, so this one counts no more." : ""]));
}

const isStored = (outcome) => Boolean(outcome && typeof outcome === "object" && outcome.$blob);

/** What is stored apart is read when somebody wants to see it. */
function stored(own, call, outcome) {
  const { loading, wholes } = own.memo;
  const key = callKey(call), state = loading.get(key) || {};
  const load = async () => {
    loading.set(key, { isLoading: true });
    app.render();
    try {
      const page = await get(`${planPath(own.plan)}/events?after=${call.seq - 1}&limit=1&whole=true`);
      const { type, data } = page.items.find((event) => event.seq === call.seq) || {};
      const whole = type === "step_resumed" ? data.call.outcome : type === "call_recorded" ? data.outcome : data?.fork?.calls?.[own.step.id]?.find((one) => one.n === call.n)?.outcome;
      loading.delete(key);
      if (whole === undefined || isStored(whole)) loading.set(key, { refusal: new Refusal(404, { title: "It is gone", detail: "its payload has expired, or is over 16 MiB" }) }); else wholes.set(key, whole);
    } catch (refusal) { loading.set(key, { refusal }); }
    app.render();
  };
  return [dim(`${bytes(outcome.bytes)}, stored apart `), button({ class: "quiet small", disabled: state.isLoading, onclick: load }, state.isLoading ? "Loading …" : `Load ${bytes(outcome.bytes)}`), state.refusal ? problem(state.refusal) : null];
}

/** What the model was sent: the task, and all that was said before. */
function prompt(own, earlier, one, name, reply) {
  const { definition } = own.step;
  const inputs = one?.inputs ?? own.step.attempts[0]?.inputs;
  const isShipped = reply?.isShipped;
  const task = [definition.description, definition.action && `Action: ${definition.action}`, definition.expected_output && `Expected of the answer: ${definition.expected_output}`].filter(Boolean).join("\n");
  return h("div", { class: "messages" },
    h("p", { class: "dim" }, isShipped ? "Before it stand the instructions of the agent, which are in its settings and not in the log." : "The program of the agent makes its prompt from this; the log has no copy of it."),
    message("Task", task ? h("pre", { class: "said", dir: "auto", tabindex: "0" }, task) : null, inputs === undefined ? h("p", { class: "dim" }, "Inputs are not recorded here.") : tree(inputs, `${name}-inputs`)),
    conversation(earlier, own.memo.wholes).map((row) => earlierMessage(row, `${name}-${row.call.n}`)));
}

const message = (who, ...content) => h("div", { class: "message" }, h("div", { class: "label" }, who), ...content);

function earlierMessage({ call, reply, outcome }, name) {
  if (reply) return message("Model", reply.text ? said(reply.text, `${name}-m`) : null, reply.calls.map((one) => h("div", null, "calls ", h("code", null, one.name), " ", h("code", { class: "dim" }, oneLine(one.arguments)))), reply.further ? dim(`and ${plural(reply.further, "more call")}`) : null);
  const { value, error } = resultOf(outcome);
  return message(["Result of ", h("code", null, toolName(call))], isStored(outcome) ? dim(`${bytes(outcome.bytes)}, stored apart: load it at call ${call.n}`) : error ? h("pre", { class: "said failure", tabindex: "0" }, error) : typeof value === "string" ? said(value, `${name}-m`) : tree(value ?? null, `${name}-m`));
}

/** What a step says of itself, without the text that its model writes. */
export const shortMessage = (message) => (WRITES.test(message) ? `${message.split(" writes: ")[0]} writes` : message);

/** What is being done now, with the text that a model writes as far as it came. */
function runningRow(one) {
  const written = WRITES.exec(one.message || "");
  return h("div", { class: "call running" }, h("div", { class: "call-head" }, h("span", { class: "dot", "aria-hidden": "true" }), h("strong", null, written ? "The model writes" : one.message ? one.message.replace(/^turn \d+: /, "") : "Working")), written ? h("pre", { class: "said", dir: "auto" }, one.message.slice(written[0].length)) : null);
}

const WAITS = { approval: "Waits for approval", answer: "Waits for an answer", plan: "Waits for a plan", budget: "Waits for room in the budget", callback: "Waits for the callback of its agent" };

const waitingRow = ({ name, wait }) => h("div", { class: "call running" }, h("div", { class: "call-head" }, icon("awaiting_approval"), h("strong", null, WAITS[wait.for] || words(wait.for)), h("code", null, name)), h("p", { dir: "auto" }, prose(wait.text)));

/** Saves the transcript as JSON, as far as it is loaded. */
function save({ plan, step, memo }) {
  const calls = (before, list) => { const read = rowsByCall([...before, ...list], memo.wholes); return list.map((call) => read.get(call)).map(({ call, outcome, reply, asked }) => ({ n: call.n, name: call.name, model: reply?.model || undefined, arguments: asked?.arguments, outcome, error: call.error, cost: call.cost, usage: call.usage, started_ms: call.started_ms, finished_ms: call.finished_ms, dropped: call.isVoid })); };
  const value = { plan_id: plan, step_id: step.id, description: step.definition.description, kept: calls([], step.kept), attempts: step.attempts.map((one, at) => ({ attempt: one.number, iteration: one.iteration, inputs: one.inputs, calls: calls(callsBefore(step, at), one.calls), outputs: one.outputs, failure: one.failure || undefined })), outputs: step.outputs };
  download(`${plan}-${step.id}-transcript.json`.replace(/[^A-Za-z0-9_.-]+/g, "-"), JSON.stringify(value, null, 2));
}

