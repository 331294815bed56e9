// Decisions, questions and waits: what is shown of each, forms made from schemas, and times of the place.

import { check, checkEverywhere, close, counted, expect, finish, goTo, holds, open, settled } from "./browser.js";
import { step } from "./fixture.js";
import { Goalmill, until } from "./goalmill.js";

/** More plans that wait than the inbox shows at first. */
const PLANS = 30;
const SHOWN = 25;

const SCHEMA = {
  type: "object", required: ["nights", "class"], properties: {
    nights: { type: "integer", minimum: 1, maximum: 30, description: "How many nights" }, class: { enum: ["standard", "first"] }, breakfast: { type: "boolean" },
    guests: { type: "array", items: { type: "string" } }, room: { type: "object", required: ["floor"], properties: { floor: { type: "integer" } } },
  },
};
const paid = { type: "object", required: ["amount"], properties: { amount: { type: "number", minimum: 0 }, method: { enum: ["card", "transfer"] } } };

async function inbox() {
  const goalmill = await Goalmill.start();
  const ids = {};
  for (let i = 0; i < PLANS; i++) await goalmill.submit({ name: `Decide ${i}`, approve: { limit: "5h" }, steps: [step("a", "nobody")] });
  ids.refund = await goalmill.submit({ name: "Refund", steps: [step("check", "echo", [], { order: 7 }), step("pay", "nobody", ["check"], { amount: 120, order: "{{ steps.check.outputs.order }}" }, { approve: { limit: "5m" } })] });
  ids.hotel = await goalmill.submit({ name: "Hotel", steps: [step("wishes", "echo", [], {}, { ask: { question: "What are your wishes?", schema: SCHEMA, limit: "20m", into: "wishes" } })] });
  ids.payment = await goalmill.submit({ name: "Payment", steps: [{ id: "paid", kind: "wait", wait: { event: "payment.done", key: "order-7", schema: paid } }] });
  ids.own = await goalmill.submit({ name: "Own code", steps: [step("a", "fail", [], { code: "BAD_ROW" }, { retry: { max: 0 } })] });
  ids.ours = await goalmill.submit({ name: "Our code", steps: [step("a", "sleep", [], { seconds: 60 }, { timeout_ms: 200, retry: { max: 0 } })] });
  ids.map = await goalmill.submit({ name: "Map", steps: [step("list", "echo", [], { list: [0, 1] }), { id: "search", agent_type: "flaky", dependencies: ["list"], for_each: "{{ steps.list.outputs.list }}", as: "n", on_item_failure: "continue", retry: { max: 0 }, inputs: { failures: "{{ n }}" } }] });
  for (const description of ["One", "Two"]) await goalmill.call("POST", "/v1/stored-plans/trip/versions", { name: "trip", description, steps: [step("a", "echo")] });
  await until("all wait", async () => (await goalmill.get("/v1/overview")).waits === PLANS + 2 && (await goalmill.get("/v1/waits")).items.length === 1);
  await Promise.all([goalmill.awaitStatus(ids.own, "failed"), goalmill.awaitStatus(ids.ours, "failed"), goalmill.awaitStatus(ids.map, "partial")]);
  return { goalmill, ids };
}

export function inboxTests() {
  let made;
  const given = () => (made ||= inbox());
  return [
    { name: "inbox: the next decisions are read on demand, and urgent ones are marked, with inputs", run: () => cards(given) },
    { name: "inbox: a question is a form with a field for each value, and errors stand at them", run: () => question(given) },
    { name: "inbox: null, the empty text and texts like numbers are choices", run: () => choices(given) },
    { name: "inbox: open waits are listed, and an event is sent by a form", run: () => waits(given) },
    { name: "inbox: what has not changed is not sent again", run: () => unchanged(given) },
    { name: "inbox: codes of agents are not explained, and a failed item is retried", run: () => codes(given) },
    { name: "inbox: times are of the place, with a switch, and numbers have their column on a phone", run: () => times(given) },
  ];
}

async function cards(given) {
  const { goalmill } = await given();
  const own = await open(goalmill, "#/approvals");
  const { page } = own;
  await counted(page, ".card-item", SHOWN);
  const first = page.locator(".card-item").first();
  await first.getByText("Last ten minutes:").waitFor();
  const text = await first.innerText();
  expect(text.includes("Refund") && /amount:\s*120/.test(text) && /order:\s*7/.test(text), `the card has the inputs: ${text}`);
  await page.getByText("1 decision is due within ten minutes.").waitFor();
  await page.getByRole("button", { name: "Show more" }).click();
  await counted(page, ".card-item", PLANS + 2);
  await checkEverywhere(own, "inbox-approvals");
  await close(own);
}

async function question(given) {
  const { goalmill, ids } = await given();
  const own = await open(goalmill, "#/approvals");
  const { page } = own;
  await page.locator(".card-item", { hasText: "Hotel" }).getByRole("button", { name: "Answer" }).click();
  const dialog = page.getByRole("dialog"), send = dialog.getByRole("button", { name: "Send the answer" });
  await dialog.getByLabel("nights").fill("31");
  await send.click();
  await dialog.getByText("Give a number from 1 to 30.").waitFor();
  await dialog.locator(".field", { hasText: "class" }).getByText("Choose one.").waitFor();
  await holds(page, "the focus is in the first wrong field", () => document.activeElement.getAttribute("aria-invalid") === "true");
  await check(own, "inbox-question");
  await dialog.getByLabel("nights").fill("2.5");
  await send.click();
  await dialog.getByText("Give a whole number.").waitFor();
  await dialog.getByLabel("nights").fill("2");
  await dialog.getByLabel("class").selectOption("first");
  await dialog.getByLabel("breakfast").selectOption("true");
  await dialog.getByLabel("guests").fill("Ann\nBen");
  await dialog.getByLabel("room: floor").fill("4");
  await send.click();
  const plan = await goalmill.awaitStatus(ids.hotel, "completed");
  expect(JSON.stringify(plan.steps[0].outputs.wishes) === JSON.stringify({ nights: 2, class: "first", breakfast: true, guests: ["Ann", "Ben"], room: { floor: 4 } }), JSON.stringify(plan.steps[0].outputs));
  await finish(own);
  await close(own);
}

async function choices(given) {
  const { goalmill } = await given();
  const schema = { type: "object", required: ["until", "seat", "code", "sure"], properties: { until: { enum: ["soon", null] }, seat: { enum: ["", "window"] }, code: { enum: [1, "1", true, "true"] }, sure: { type: ["boolean", "null"] }, later: { type: ["string", "null"], enum: ["x", null], default: null } } };
  const id = await goalmill.submit({ name: "Choices", steps: [step("asks", "echo", [], {}, { ask: { question: "Which?", schema, into: "given" } })] });
  await goalmill.awaitPlan(id, (plan) => plan.steps[0].status === "awaiting_approval");
  const own = await open(goalmill, `#/plans/${id}`);
  const { page } = own;
  await page.locator(".why").getByRole("button", { name: "Answer: asks" }).click();
  const dialog = page.getByRole("dialog"), send = dialog.getByRole("button", { name: "Send the answer" });
  await send.click();
  await dialog.locator(".field", { hasText: "until" }).getByText("Choose one.").waitFor();
  await dialog.getByLabel("until").selectOption("null");
  await dialog.getByLabel("seat").selectOption('""');
  await dialog.getByLabel("code").selectOption('"1"');
  await dialog.getByLabel("sure").selectOption("null");
  expect(await dialog.getByLabel("later").inputValue() === "null", "a default of null is chosen");
  await send.click();
  const plan = await goalmill.awaitStatus(id, "completed");
  expect(JSON.stringify(plan.steps[0].outputs.given) === JSON.stringify({ until: null, seat: "", code: "1", sure: null, later: null }), JSON.stringify(plan.steps[0].outputs));
  await finish(own);
  await close(own);
}

async function waits(given) {
  const { goalmill, ids } = await given();
  const own = await open(goalmill, "#/waits");
  const { page } = own;
  await page.getByText("payment.done").waitFor();
  await checkEverywhere(own, "inbox-waits");
  await page.getByRole("button", { name: "Send …" }).click();
  const dialog = page.getByRole("dialog"), send = dialog.getByRole("button", { name: "Send the event" });
  await dialog.getByLabel("amount").fill("-1");
  await send.click();
  await dialog.getByText("Give a number at least 0.").waitFor();
  await dialog.getByLabel("amount").fill("99.5");
  await dialog.getByLabel("method").selectOption("card");
  await send.click();
  const plan = await goalmill.awaitStatus(ids.payment, "completed");
  expect(JSON.stringify(plan.steps[0].outputs) === JSON.stringify({ amount: 99.5, method: "card" }), JSON.stringify(plan.steps[0].outputs));
  await page.getByText("No step waits for an event").waitFor();
  await finish(own);
  await close(own);
}

async function unchanged(given) {
  const { goalmill } = await given();
  const statuses = new Map();
  const own = await open(goalmill, "#/approvals", { before: ({ page }) => page.on("response", (response) => { const { pathname } = new URL(response.url()); statuses.set(pathname, [...(statuses.get(pathname) || []), response.status()]); }) });
  await settled(own.page);
  await until("the list is not sent twice", () => statuses.get("/v1/overview")?.includes(304));
  await goTo(own.page, "#/plans");
  await until("that of plans is not either", () => statuses.get("/v1/plans")?.includes(304));
  await finish(own);
  await close(own);
}

async function codes(given) {
  const { goalmill, ids } = await given();
  const own = await open(goalmill, `#/plans/${ids.own}?step=a`);
  const { page } = own;
  await page.locator(".step-panel .code", { hasText: "BAD_ROW" }).first().waitFor();
  expect(!(await page.locator("main").innerText()).includes("goalmill explain BAD_ROW"), "nothing explains the code of an agent");
  await goTo(page, `#/plans/${ids.ours}?step=a`);
  await page.locator(".step-panel").getByText("goalmill explain STEP_TIMEOUT").waitFor();
  await goTo(page, `#/plans/${ids.map}?step=search`);
  await page.locator(".items").getByRole("button", { name: "Retry in a new plan" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Start a new plan" }).click();
  await page.waitForFunction((before) => location.hash.startsWith("#/plans/") && !location.hash.includes(before), ids.map);
  await finish(own);
  await close(own);
}

async function times(given) {
  const { goalmill, ids } = await given();
  const own = await open(goalmill, `#/plans/${ids.own}?tab=events`, { timezoneId: "Asia/Kolkata" });
  const { page } = own;
  await page.locator(".event-table").getByText("Time (UTC+5:30)").waitFor();
  const local = await page.locator(".event-table tbody td[title]").first().getAttribute("title");
  await page.getByRole("button", { name: "Times: UTC+5:30" }).click();
  await page.locator(".event-table").getByText("Time (UTC)").waitFor();
  const utc = await page.locator(".event-table tbody td[title]").first().getAttribute("title");
  const ms = (text) => Date.parse(`${text.slice(0, 23).replace(" ", "T")}Z`);
  expect(ms(local) - ms(utc) === 5.5 * 3_600_000 && local.endsWith("UTC+5:30") && utc.endsWith("UTC"), `${local}, ${utc}`);
  await page.reload();
  await page.getByRole("button", { name: "Times: UTC", exact: true }).waitFor();
  await page.setViewportSize({ width: 390, height: 800 });
  await goTo(page, "#/stored");
  await page.locator("tbody tr").first().waitFor();
  const labels = await page.locator("tbody td.num").evaluateAll((cells) => cells.map((cell) => cell.dataset.label));
  expect(labels.join() === "Version,Steps", `the numbers are of ${labels}`);
  await finish(own);
  await close(own);
}
