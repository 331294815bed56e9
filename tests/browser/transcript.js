// The transcript of a step: what it asked models and tools, attempt by attempt, with what is streamed and stored apart.

import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { check, close, expect, finish, goTo, holds, open, settled } from "./browser.js";
import { step } from "./fixture.js";
import { Goalmill } from "./goalmill.js";

/** More than a call keeps in the log. */
const LARGE = `A report on hotels. ${"The hotel by the river has a room. ".repeat(800)}`;
const WIDTHS = [390, 1440];

/** A model that looks something up, writes a long report, checks twice, and writes slowly. */
const SCRIPT = {
  answers: [
    { when: "Hotels in Paris", times: 1, text: "I look at what is known.", tool_calls: [{ name: "search_outputs", arguments: { query: "river" } }, { name: "search_outputs", arguments: { query: "breakfast" } }, { name: "read_file", arguments: { path: "missing.txt" } }], usage: { input: 310, output: 42 } },
    { when: "Hotels in Paris", times: 1, text: "", tool_calls: [{ name: "final_answer", arguments: { findings: [{ text: "The hotel by the river has rooms.", source: "inputs" }] } }], usage: { input: 480, output: 35 } },
    { when: "Write the report", tool_calls: [{ name: "final_answer", arguments: { text: LARGE } }], usage: { input: 200, output: 6000 } },
    { when: "Check the sum", tool_calls: [{ name: "final_answer", arguments: { valid: true, issues: [] } }], usage: { input: 90, output: 9 } },
    { when: "Write slowly", text: "One word after the other stands here, and it takes its time. ".repeat(40), chunk: 6, chunk_delay_ms: 120 },
  ],
};

export async function transcripts() {
  const goalmill = await Goalmill.prepare({});
  const script = join(goalmill.folder, "script.json");
  writeFileSync(script, JSON.stringify(SCRIPT));
  await goalmill.spawn(["--model", "scripted", "--model-script", script]);
  const id = await goalmill.submit({
    name: "A report on hotels", steps: [
      step("research", "research_agent", [], { topic: "Hotels in Paris", notes: "A hotel by the river, with breakfast." }, { action: "research", description: "Find hotels with a view" }),
      step("report", "writer_agent", ["research"], { title: "Write the report" }, { action: "write" }),
      step("check", "validation_agent", ["report"], { goal: "Check the sum", round: "{{ iteration }}" }, { action: "validate", repeat: { until: "iteration >= 2", max: 3 } }),
      step("slow", "writer_agent", ["check"], { title: "Write slowly" }, { action: "write" }),
    ],
  });
  await goalmill.awaitPlan(id, (plan) => plan.steps.find((one) => one.id === "slow").status === "running");
  return { goalmill, id };
}

export function transcriptTests() {
  let made;
  const given = () => (made ||= transcripts());
  return [
    { name: "transcript: what a model writes is shown while it writes", run: () => streamed(given) },
    { name: "transcript: a row for each call, with prompt, reply, arguments and result", run: () => calls(given) },
    { name: "transcript: a reply that is stored apart is loaded on demand", run: () => apart(given) },
    { name: "transcript: iterations have their calls and outputs", run: () => iterations(given) },
    { name: "transcript: replies are read in the forms of frameworks and providers", run: () => forms(given) },
  ];
}

const row = (page, text) => page.locator(".call > details > summary", { hasText: text });

async function streamed(given) {
  const { goalmill, id } = await given();
  const own = await open(goalmill, `#/plans/${id}?step=slow`);
  const { page } = own;
  await page.locator(".call.running .said", { hasText: "it takes its time" }).waitFor();
  await page.getByText("The model writes", { exact: true }).waitFor();
  await finish(own);
  await close(own);
}

async function calls(given) {
  const { goalmill, id } = await given();
  const own = await open(goalmill, `#/plans/${id}?step=research`, { viewport: { width: 1440, height: 900 } });
  const { page } = own;
  await settled(page);
  await page.locator(".transcript").getByText("5 calls, 867 tokens").waitFor();
  await holds(page, "each call has a row", () => document.querySelectorAll(".call").length === 5);
  // Calls that ran at the same time have their own arguments.
  for (const query of ["river", "breakfast"]) {
    const found = row(page, `{"query":"${query}"} →`);
    await found.waitFor();
    await found.focus();
    await page.keyboard.press("Enter");
    await page.locator(".call", { hasText: `{"query":"${query}"} →` }).locator(".call-part", { hasText: "Arguments" }).getByText(`{"query":"${query}"}`).waitFor();
  }
  await row(page, "missing.txt\"} →").click();
  await page.locator(".call", { hasText: "read_file" }).last().locator(".said.failure").waitFor();
  await row(page, "I look at what is known").first().click();
  const first = page.locator(".call").first();
  await first.getByText("310 tokens of the prompt, 42 of the reply").waitFor();
  await first.locator(".tag", { hasText: "scripted" }).waitFor();
  expect(await first.getByText("Find hotels with a view").count() === 0, "the prompt is made on demand");
  await first.getByText("Prompt", { exact: true }).click();
  await first.getByText("Find hotels with a view").waitFor();
  await row(page, "answers").click();
  const last = page.locator(".call").last();
  await last.getByText("Prompt", { exact: true }).click();
  await last.locator(".message", { hasText: "Result of search_outputs" }).first().waitFor();
  await last.locator(".call-part .label", { hasText: "Answer" }).waitFor();
  await page.getByRole("button", { name: "Whole width" }).click();
  await holds(page, "the panel is as wide as the plan", () => document.querySelector(".step-panel").clientWidth > 900);
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 900 });
    for (const theme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: theme });
      await check(own, `transcript-${width}-${theme}`);
    }
  }
  const saved = page.waitForEvent("download");
  await page.getByRole("button", { name: "Download" }).first().click();
  expect((await saved).suggestedFilename().endsWith("research-transcript.json"), "the transcript can be saved");
  await finish(own);
  await close(own);
}

async function apart(given) {
  const { goalmill, id } = await given();
  const own = await open(goalmill, `#/plans/${id}?step=report`);
  const { page } = own;
  await settled(page);
  await row(page, "stored apart").click();
  await page.locator(".call").getByRole("button", { name: "Load" }).click();
  await page.locator(".call").getByText("A report on hotels").first().waitFor();
  await row(page, "answers").waitFor();
  await finish(own);
  await close(own);
}

async function iterations(given) {
  const { goalmill, id } = await given();
  const own = await open(goalmill, `#/plans/${id}?step=check`);
  const { page } = own;
  await settled(page);
  await page.locator(".round", { hasText: "Iteration 1" }).getByText("Outputs of iteration 1").click();
  await page.locator(".round").first().getByText("\"valid\":true").last().waitFor();
  await page.locator(".round", { hasText: "Iteration 2" }).locator(".call").waitFor();
  // Each begins its conversation anew.
  expect(await page.getByText("and does not make").count() === 0, "an iteration has no calls of the one before");
  await goTo(page, `#/plans/${id}?step=check&seq=8`);
  await page.locator("#step-title", { hasText: "check" }).waitFor();
  await check(own, "transcript-iterations");
  await finish(own);
  await close(own);
}

async function forms(given) {
  const { goalmill } = await given();
  const own = await open(goalmill, "#/plans");
  const asked = { city: "Paris" }, written = JSON.stringify(asked);
  const outcomes = {
    shipped: { text: "look", tool_calls: [{ id: "1", name: "search", arguments: written }], is_cut: false, is_text: false, model: "m" },
    langchain: { type: "ai", data: { content: "look", tool_calls: [{ id: "1", name: "search", args: asked }], response_metadata: { model_name: "m" } } },
    pydantic: { kind: "response", model_name: "m", parts: [{ part_kind: "text", content: "look" }, { part_kind: "tool-call", tool_name: "search", args: written, tool_call_id: "1" }] },
    agents: { output: [{ type: "message", content: [{ type: "output_text", text: "look" }] }, { type: "function_call", call_id: "1", name: "search", arguments: written }], model: "m" },
    chat: { model: "m", choices: [{ message: { role: "assistant", content: "look", tool_calls: [{ id: "1", function: { name: "search", arguments: written } }] } }] },
    messages: { model: "m", role: "assistant", content: [{ type: "text", text: "look" }, { type: "tool_use", id: "1", name: "search", input: asked }] },
  };
  const read = await own.page.evaluate(async (outcomes) => {
    const { readReply, digest } = await import("./page/replies.js");
    const short = (reply) => reply && [reply.text, reply.model, reply.calls.length, reply.calls[0]?.name, JSON.stringify(reply.calls[0]?.arguments)].join(" ");
    // Calls that a plan took over stand in one event, and each has its own outcome.
    const { apply, begin } = await import("./page/replay.js");
    const { conversation, callKey } = await import("./page/replies.js");
    const model = (text, more) => ({ text, tool_calls: [], is_cut: false, is_text: true, model: "m", ...more });
    const calls = [1, 2].map((n) => ({ n, name: "model", outcome: { $blob: `b${n}`, bytes: 9 } }));
    const state = apply(begin(), { seq: 2, type: "plan_created", time: "2026-01-01T00:00:00Z", data: { plan: { steps: [{ id: "a" }] }, fork: { calls: { a: calls } } } });
    const kept = [...state.steps.get("a").kept];
    const taken = conversation(kept, new Map([[callKey(kept[0]), model("one")]])).map((row) => row.reply?.text);
    // Arguments are those of a call only where it must be that one.
    const tool = (given) => ({ id: given, name: "search", arguments: given });
    const asked = (inputs) => conversation([{ seq: 1, n: 1, name: "model", outcome: model("", { tool_calls: [tool("a"), tool("b")] }) }, { seq: 2, n: 2, name: "tool search", inputs }], new Map())[1];
    const deep = readReply(model("", { tool_calls: [tool("[".repeat(50_000) + "]".repeat(50_000))] })).calls[0];
    // Calls that are discarded count no more, also those of the plan before; a call that waited ends with its step.
    const after = (type, data, seq) => apply(state, { seq, type, data, step_id: "a", attempt: 1, time: "2026-01-01T00:00:00Z" }).steps.get("a");
    after("step_queued", {}, 3);
    after("calls_discarded", { from: 2 }, 4);
    after("step_suspended", { call: { n: 2, name: "approve search", wait: { for: "approval", text: "May it?" } } }, 5);
    const { attempts, kept: left } = after("step_cancelled", {}, 6);
    const facts = [left.map((call) => Boolean(call.isVoid)).join(), attempts[0].waiting, taken.join(), asked(digest("b")).asked?.given, asked("another").asked, asked("another").fitting, typeof deep.arguments];
    return { facts, replies: Object.entries(outcomes).map(([name, outcome]) => [name, short(readReply(outcome))]), others: [readReply(null), readReply("text"), readReply({ rows: [1] }), readReply({ $blob: "k", bytes: 1 })], digest: digest("a") };
  }, outcomes);
  for (const [name, reply] of read.replies) expect(reply === `look m 1 search ${written}`, `${name}: ${reply}`);
  expect(read.others.every((one) => one === null), `what is no reply: ${JSON.stringify(read.others)}`);
  expect(JSON.stringify(read.facts) === JSON.stringify(["false,true", null, "one,", "b", null, 2, "string"]), `calls: ${JSON.stringify(read.facts)}`);
  expect(read.digest === "d228cb696f1a8caf78912b704e4a8964", `the digest is ${read.digest}`);
  await finish(own);
  await close(own);
}
