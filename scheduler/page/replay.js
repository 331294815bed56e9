// Folds the log of a plan: the state of its steps after any event, and when each attempt ran.

import { parseTime, words } from "./format.js";
import { EVENTS, STATUSES } from "./vocabulary.js";

export const isFinal = (status) => Boolean(STATUSES[status]?.isFinal);

/** Attempts that ended so are gone on with: the next one has their calls. */
const GOES_ON = new Set(["retrying", "released", "suspended"]);

/** How an attempt ended: `completed` for an iteration, `failed`, `released` and the like; the status of the step while it runs. */
export const outcomeOf = (attempt, step) => (attempt.iteration ? "completed" : attempt.outcome || step.status);

/** The status that a step is shown with: one that completed in part is `partial`. */
export const shownStatus = (step) => (step.status === "completed" && step.partial ? "partial" : step.status);

const wordAt = (data, place) => place.split(".").reduce((inside, name) => inside?.[name], data);

/** The status that an event leads to; none where the status stays. */
function statusAfter({ type }, data) {
  const { by, to } = EVENTS[type] || {};
  return by ? to[by.map((place) => wordAt(data, place)).join(" ")] : to;
}

/** The state before the first event. */
export function begin() {
  return {
    seq: 0, status: "planning", revision: 0, planner: "", confidence: null, goal: null, name: "", parent: null,
    steps: new Map(), phases: [], pending: { added: [], modified: [], removed: [] }, revisions: [], routes: new Map(), marks: [],
    startMs: NaN, lastMs: NaN, proposal: null, question: null, warnings: [], traceparent: "", fork: null, usage: { cost: 0, tokens: 0 },
    submission: "", planningMs: NaN, constraints: [],
  };
}

function addStep(state, definition) {
  const known = state.steps.get(definition.id);
  if (known) return touch(Object.assign(known, { definition }));
  const step = {
    id: definition.id, definition, status: "pending", attempts: [], waits: [], outputs: undefined, failure: null, reason: "",
    progress: null, message: "", question: null, round: 0, kept: [], since: state.lastMs, cost: 0, tokens: 0, finishedMs: NaN, addedBy: state.revision, cached: false,
    // Counts changes, for who keeps what it has drawn of the step.
    version: 0,
  };
  state.steps.set(step.id, step);
  return step;
}

function touch(step) {
  step.version += 1;
  return step;
}

function setStatus(step, status, ms) {
  touch(step);
  if (status === "awaiting_approval") step.waits.push({ kind: "person", from: ms, to: NaN });
  else closeWait(step, ms);
  step.status = status;
  step.since = ms;
  if (isFinal(status) || status === "pending") endWaiting(step);
  if (isFinal(status)) step.finishedMs = ms;
}

function closeWait(step, ms) {
  const wait = step.waits[step.waits.length - 1];
  if (wait && !Number.isFinite(wait.to)) wait.to = ms;
}

const lastAttempt = (step) => step.attempts[step.attempts.length - 1];

/** The call that waited does so no more. */
function endWaiting(step) {
  if (lastAttempt(step)) lastAttempt(step).waiting = null;
}

/** What a recorded call took. */
function callUsage(call) {
  const split = call.usage || {};
  return { cost: call.cost || 0, tokens: (split.prompt_tokens || 0) + (split.completion_tokens || 0) };
}

/** Adds a call to the attempt that made it, or whose call it was that waited. */
function addCall(step, event, call) {
  const attempt = lastAttempt(step);
  if (!attempt) return;
  attempt.calls.push({ ...call, seq: event.seq });
  attempt.waiting = null;
  attempt.message = "";
  step.message = "";
}

function endAttempt(step, outcome, ms, data) {
  const attempt = lastAttempt(step);
  if (!attempt || Number.isFinite(attempt.endMs)) return;
  Object.assign(attempt, { outcome, endMs: ms, durationMs: data.duration_ms, failure: data.failure || null, iteration: data.iteration, outputs: data.iteration ? data.outputs : undefined });
  attempt.cost += data.cost || 0;
  attempt.tokens += data.tokens || 0;
  step.cost += data.cost || 0;
  step.tokens += data.tokens || 0;
}

/** Applies one event; `state` is changed and given back. */
export function apply(state, event) {
  const ms = parseTime(event.time);
  const data = event.data || {};
  state.seq = event.seq;
  if (!Number.isFinite(state.startMs)) state.startMs = ms;
  state.lastMs = ms;
  const isOfStep = Boolean(event.step_id);
  if (isOfStep) applyStep(state, event, data, ms);
  else applyPlan(state, event, data, ms);
  const spent = event.type === "call_recorded" ? callUsage(data) : data.usage && !isOfStep ? data.usage : data;
  if (spent.cost || spent.tokens) {
    state.usage.cost += spent.cost || 0;
    state.usage.tokens += spent.tokens || 0;
  }
  return state;
}

function applyStep(state, event, data, ms) {
  if (event.type === "step_added") return void state.pending.added.push(data.step);
  if (event.type === "step_modified") return void state.pending.modified.push(data.step);
  if (event.type === "step_removed") return void state.pending.removed.push(event.step_id);
  const step = state.steps.get(event.step_id);
  if (!step) return;
  touch(step);
  const to = statusAfter(event, data);
  if (to) setStatus(step, to, ms);
  const outcome = EVENTS[event.type]?.outcome;
  if (outcome) endAttempt(step, data.failure ? "failed" : outcome, Math.min(ms, data.finished_ms || ms), data);
  // The next attempt makes its calls anew.
  if (outcome && (data.fallback || !GOES_ON.has(outcome))) step.round += 1;
  switch (event.type) {
    case "step_blocked": case "step_cancelled": step.reason = data.reason || ""; break;
    case "step_approval_requested": step.dueMs = data.due_ms; break;
    case "step_question_asked": step.question = data.question; step.dueMs = data.due_ms; break;
    case "step_suspended":
      step.dueMs = data.due_ms;
      if (data.call.wait.for === "answer") step.question = data.call.wait.text;
      else step.reason = data.call.wait.text;
      if (lastAttempt(step)) lastAttempt(step).waiting = data.call;
      break;
    case "step_resumed":
      step.question = null;
      step.reason = "";
      addCall(step, event, data.call);
      break;
    case "calls_discarded": {
      const drop = (calls) => calls.map((call) => (call.n >= data.from ? { ...call, isVoid: true } : call));
      if (!step.round) step.kept = drop(step.kept);
      for (const attempt of step.attempts) if (attempt.round === step.round) attempt.calls = drop(attempt.calls);
      break;
    }
    case "step_question_answered": step.question = null; break;
    case "step_queued":
      step.progress = null;
      step.message = "";
      endWaiting(step);
      step.attempts.push({ number: event.attempt, queuedMs: ms, startMs: NaN, endMs: NaN, outcome: "", agentType: data.agent_type, action: data.action, inputs: data.inputs, inputsBytes: data.inputs_bytes, worker: "", failure: null, cost: 0, tokens: 0, calls: [], message: "", waiting: null, round: step.round });
      break;
    case "step_started": {
      const attempt = lastAttempt(step);
      if (attempt) Object.assign(attempt, { startMs: Math.min(ms, data.started_ms || ms), worker: data.worker || "", dueMs: data.due_ms });
      break;
    }
    case "call_recorded": {
      const attempt = lastAttempt(step);
      const spent = callUsage(data);
      for (const sums of [attempt, step]) if (sums) { sums.cost += spent.cost; sums.tokens += spent.tokens; }
      addCall(step, event, data);
      break;
    }
    case "step_progress":
      step.progress = data.progress;
      step.message = data.message || step.message;
      if (lastAttempt(step)) lastAttempt(step).message = step.message;
      break;
    case "step_completed": Object.assign(step, { outputs: data.outputs, partial: Boolean(step.partial || data.partial), cached: Boolean(data.cache_key && !step.attempts.length), failure: null }); break;
    case "step_retrying":
      step.failure = data.failure;
      step.dueMs = data.due_ms;
      step.toldToWait = Boolean(data.told_to_wait);
      step.waits.push({ kind: "retry", told: step.toldToWait, from: ms, to: NaN });
      break;
    case "step_wait_started":
      step.dueMs = data.due_ms || NaN;
      step.waits.push({ kind: data.event ? "event" : "time", event: data.event, key: data.key, dueMs: data.due_ms || NaN, from: ms, to: NaN });
      break;
    case "step_expanded": step.items = data.items; state.hasMaps = true; break;
    case "step_iterated": step.iterations = data.iteration; step.partial = Boolean(step.partial || data.partial); break;
    case "step_failed": step.failure = data.failure; break;
    case "step_skipped": step.reason = data.reason || words(data.cause); if (data.failure) step.failure = data.failure; break;
    default: break;
  }
}

function takePending(state, ms) {
  const { added, modified, removed } = state.pending;
  added.forEach((definition) => { addStep(state, definition); });
  modified.forEach((definition) => { addStep(state, definition); });
  for (const id of removed) {
    const step = state.steps.get(id);
    if (step) setStatus(step, "revised", ms);
  }
  state.pending = { added: [], modified: [], removed: [] };
}

function cancel(state, ids, ms) {
  for (const id of ids || []) {
    const step = state.steps.get(id);
    if (step && !isFinal(step.status)) { setStatus(step, "cancelled", ms); endAttempt(step, "cancelled", ms, {}); }
  }
}

function takeRoutes(state, routes) {
  for (const route of routes || []) state.routes.set(route.step, route);
}

function applyPlan(state, event, data, ms) {
  const to = statusAfter(event, data);
  if (to) state.status = to;
  switch (event.type) {
    case "goal_accepted":
      Object.assign(state, { goal: data.goal, name: data.goal?.description || "", parent: data.parent || null, traceparent: data.traceparent || "", submission: data.submission });
      break;
    case "goal_changed":
      state.goal = { ...state.goal, constraints: data.constraints, success_criteria: data.success_criteria, deadline_ms: data.deadline_ms };
      break;
    case "plan_created":
      Object.assign(state, { planner: data.planner, confidence: data.confidence, name: data.plan.name || state.name, phases: data.plan.phases || [], fork: data.fork || null, planningMs: ms - state.startMs });
      data.plan.steps.forEach((step) => { addStep(state, step); });
      for (const [id, outputs] of Object.entries(data.fork?.kept || {})) {
        const step = state.steps.get(id);
        if (step) { setStatus(step, "completed", ms); step.outputs = outputs; step.cached = true; }
      }
      for (const [id, calls] of Object.entries(data.fork?.calls || {})) {
        const step = state.steps.get(id);
        if (step) step.kept = calls.map((call) => ({ ...call, seq: event.seq }));
      }
      break;
    case "plan_validated": state.warnings = data.warnings || []; takeRoutes(state, data.routes); break;
    case "plan_approval_requested": state.dueMs = data.due_ms; break;
    case "plan_rejected": cancel(state, data.cancelled, ms); break;
    case "phase_added": state.phases = [...state.phases, { id: data.phase, description: data.description }]; break;
    case "replan_triggered": state.marks.push({ kind: "replan", ms, seq: event.seq, text: data.reason || data.trigger }); break;
    case "revision_proposed": state.proposal = data; break;
    case "revision_refused": state.proposal = null; break;
    case "question_asked": state.question = { id: data.id, ...data.question, due_ms: data.due_ms }; break;
    case "question_answered": state.question = null; break;
    case "plan_revised":
      state.revision = data.revision;
      for (const step of state.steps.values()) if (step.status === "blocked") { setStatus(step, "pending", ms); step.reason = ""; }
      takePending(state, ms);
      for (const id of data.restarted || []) { const step = state.steps.get(id); if (step) setStatus(step, "pending", ms); }
      for (const id of data.skipped || []) { const step = state.steps.get(id); if (step) setStatus(step, "skipped", ms); }
      takeRoutes(state, data.routes);
      state.revisions.push({ ...data, provenance: undefined, ms, seq: event.seq, actor: event.actor });
      state.marks.push({ kind: "revision", ms, seq: event.seq, revision: data.revision, text: data.summary || data.reason || data.trigger });
      state.proposal = null;
      if (data.confidence_after) state.confidence = data.confidence_after;
      if (state.status === "replanning") state.status = "running";
      break;
    case "plan_extended": takePending(state, ms); takeRoutes(state, data.routes); if (data.confidence) state.confidence = data.confidence; break;
    case "plan_paused": state.marks.push({ kind: "pause", ms, seq: event.seq, text: data.reason || "paused" }); break;
    case "plan_quarantined": state.marks.push({ kind: "quarantine", ms, seq: event.seq, text: data.reason }); break;
    case "plan_completed": case "plan_failed": case "plan_cancelled":
      Object.assign(state, { failure: data.failure || null, reason: data.reason || "", endMs: ms });
      cancel(state, data.cancelled, ms);
      break;
    default: break;
  }
}

/** The state after the events up to `seq`. */
export function fold(events, seq = Infinity) {
  const state = begin();
  for (const event of events) {
    if (event.seq > seq) break;
    apply(state, event);
  }
  return state;
}
