// The page folds a log to the same statuses as the scheduler, after each event.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { close, expect, open } from "./browser.js";
import { HOUR, LONG, step } from "./fixture.js";

export function foldTests(given) {
  return [{ name: "fold: replay.js gives the statuses of the scheduler after each event", run: () => fold(given) }, { name: "fold: recorded calls count once, whatever attempt made them", run: () => calls(given) }, { name: "fold: a status may depend on a word in the data of the event", run: () => choices(given) }];
}

/** Conditions, skips, retries, questions, decisions, a pause, an edit, a cancellation. */
async function more(goalmill) {
  const ids = [];
  const eventful = await goalmill.submit({
    name: "eventful", steps: [
      step("a", "echo", [], { x: 2 }), step("tries", "flaky", ["a"], { failures: 1 }, { retry: { max: 2, initial_ms: 1, max_ms: 1 } }), step("skips", "fail", ["a"], {}, { on_failure: "skip" }), step("never", "echo", ["a"], {}, { when: "steps.a.outputs.x > 5" }),
      step("gate", "echo", ["a"], {}, { approve: {} }), step("asks", "echo", ["a"], {}, { ask: { question: "go on?", into: "answer" } }), step("last", "echo", ["gate", "asks", "never", "skips"]),
    ],
  });
  ids.push(eventful);
  const waits = (id) => (plan) => plan.steps.find((one) => one.id === id).status === "awaiting_approval";
  await goalmill.awaitPlan(eventful, waits("gate"));
  await goalmill.call("POST", `/v1/plans/${eventful}:pause`, {});
  await goalmill.call("POST", `/v1/plans/${eventful}:resume`, {});
  await goalmill.call("POST", `/v1/plans/${eventful}:edit`, { changes: [{ set_fields: { step: "last", fields: { description: "edited" } } }] });
  await goalmill.call("POST", `/v1/plans/${eventful}/steps/gate:approve`, {});
  await goalmill.awaitPlan(eventful, waits("asks"));
  await goalmill.call("POST", `/v1/plans/${eventful}/steps/asks:answer`, { answer: "yes" });
  await goalmill.awaitStatus(eventful, "completed", "partial", "failed");
  ids.push((await goalmill.call("POST", `/v1/plans/${eventful}:fork`, { step: "tries" })).plan_id);
  const cancelled = await goalmill.submit({ name: "cancelled", steps: [step("long", "sleep", [], HOUR, LONG), step("gate", "echo", [], {}, { approve: {} }), step("after", "echo", ["long"])] });
  await goalmill.awaitPlan(cancelled, waits("gate"));
  await goalmill.call("POST", `/v1/plans/${cancelled}/steps/gate:reject`, {}).catch(() => {});
  await goalmill.call("POST", `/v1/plans/${cancelled}:cancel`, {}).catch(() => {});
  const rejected = await goalmill.submit({ name: "rejected", approve: {}, steps: [step("a", "echo")] });
  await goalmill.awaitStatus(rejected, "awaiting_approval");
  await goalmill.call("POST", `/v1/plans/${rejected}:reject`, {});
  return [...ids, cancelled, rejected];
}

/** A step whose second attempt replays the first call: what each call took is that of the plan, the step and its attempt. */
async function calls(given) {
  const { goalmill } = await given.filled();
  const call = (seq, attempt, n, cost) => ({ seq, attempt, type: "call_recorded", data: { n, name: "model", cost, usage: { prompt_tokens: 10, completion_tokens: 1 } } });
  const events = [
    { seq: 1, type: "plan_created", data: { planner: "submitted", confidence: 1, plan: { steps: [{ id: "a", agent_type: "w" }] } } }, { seq: 2, type: "step_ready", data: {} },
    { seq: 3, attempt: 1, type: "step_queued", data: { agent_type: "w" } }, { seq: 4, attempt: 1, type: "step_started", data: { started_ms: 1 } }, call(5, 1, 1, 0.5),
    { seq: 6, attempt: 1, type: "step_retrying", data: { failure: { code: "LEASE_EXPIRED", message: "lost" }, due_ms: 1 } }, { seq: 7, type: "step_ready", data: {} },
    { seq: 8, attempt: 2, type: "step_queued", data: { agent_type: "w" } }, { seq: 9, attempt: 2, type: "step_started", data: { started_ms: 1 } }, call(10, 2, 2, 0.25),
    { seq: 11, attempt: 2, type: "step_completed", data: { outputs: {} } },
  ].map((event) => ({ time: "2026-01-01T00:00:00Z", ...(event.type === "plan_created" ? {} : { step_id: "a" }), ...event }));
  const own = await open(goalmill, "#/stats");
  const folded = await own.page.evaluate(async (list) => {
    const { apply, begin } = await import("./page/replay.js");
    const state = begin();
    list.forEach((event) => apply(state, event));
    const step = state.steps.get("a");
    return { usage: state.usage, step: [step.cost, step.tokens], attempts: step.attempts.map((one) => [one.cost, one.tokens, one.calls.length]) };
  }, events);
  await close(own);
  const expected = { usage: { cost: 0.75, tokens: 22 }, step: [0.75, 22], attempts: [[0.5, 11, 1], [0.25, 11, 1]] };
  expect(JSON.stringify(folded) === JSON.stringify(expected), `the page counts ${JSON.stringify(folded)}`);
}

/** A step whose call waits for a callback, and whose outputs the hooks are asked about. */
async function choices(given) {
  const { goalmill } = await given.filled();
  const moves = [
    ["step_ready", {}, "ready"], ["step_queued", { agent_type: "w" }, "queued"], ["step_started", { started_ms: 1 }, "running"],
    ["step_suspended", { due_ms: 1, worker: "w", call: { n: 1, name: "post", wait: { for: "callback", text: "accepted" } } }, "waiting"],
    ["step_hook_asked", { id: "p:1", point: "on_step_complete" }, "awaiting_approval"], ["step_hook_decided", { id: "p:1", point: "on_step_complete", decision: "allow" }, "awaiting_approval"],
    ["step_completed", { outputs: {} }, "completed"],
  ];
  const created = { type: "plan_created", data: { planner: "submitted", confidence: 1, plan: { steps: [{ id: "a", agent_type: "w" }] } } };
  const events = [created, ...moves.map(([type, data]) => ({ type, data, step_id: "a", attempt: 1 }))].map((event, i) => ({ seq: i + 1, time: "2026-01-01T00:00:00Z", ...event }));
  const own = await open(goalmill, "#/stats");
  const folded = await own.page.evaluate(async (list) => {
    const { apply, begin } = await import("./page/replay.js");
    const state = begin();
    return list.map((event) => apply(state, event).steps.get("a")?.status).slice(1);
  }, events);
  await close(own);
  const expected = moves.map(([, , status]) => status);
  expect(folded.join(" ") === expected.join(" "), `the page shows ${folded.join(" ")}`);
}

async function fold(given) {
  const { goalmill, ids } = await given.filled();
  const plans = [...Object.values(ids), ...(await more(goalmill))];
  const own = await open(goalmill, "#/stats");
  const wrong = [];
  let count = 0;
  for (const id of plans) {
    const { items } = await goalmill.get(`/v1/plans/${id}/events?limit=1000`);
    const file = join(goalmill.folder, `${id}.jsonl`);
    writeFileSync(file, items.map((event) => JSON.stringify(event)).join("\n"));
    const expected = (await goalmill.run("replay", file, "--each", "-o", "jsonl")).trim().split("\n").map((line) => JSON.parse(line));
    const folded = await own.page.evaluate(async (events) => {
      const { apply, begin } = await import("./page/replay.js");
      const state = begin();
      return events.map((event) => { apply(state, event); return { status: state.status, steps: Object.fromEntries([...state.steps].map(([name, one]) => [name, one.status])) }; });
    }, items);
    expect(expected.length === items.length, "each event has its statuses");
    expected.forEach((moment, i) => {
      count += 1;
      if (folded[i].status !== moment.status) wrong.push(`${id} after event ${moment.seq} (${moment.type}): the plan is ${folded[i].status}, not ${moment.status}`);
      for (const name of new Set([...Object.keys(moment.steps), ...Object.keys(folded[i].steps)])) {
        if (folded[i].steps[name] !== moment.steps[name]) wrong.push(`${id} after event ${moment.seq} (${moment.type}): ${name} is ${folded[i].steps[name]}, not ${moment.steps[name]}`);
      }
    });
  }
  await close(own);
  expect(count > 200, `only ${count} events were compared`);
  if (wrong.length) throw new Error([...wrong.slice(0, 30), `${wrong.length} in all, of ${count} events`].join("\n      "));
}
