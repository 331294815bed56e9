// What people do with the page, against a scheduler that is also killed.

import { close, counted, expect, finish, holds, open, settled } from "./browser.js";
import { HOUR, LONG, PARIS, step } from "./fixture.js";
import { Goalmill } from "./goalmill.js";

export function storyTests(given) {
  return [
    { name: "story: submit, approve with an edit, watch, retry from a step", run: () => edited(given) },
    { name: "story: the demo of an empty installation", run: demo },
    { name: "story: the scheduler is killed and comes back without a reload", run: killed },
    { name: "story: the inbox counts and decides", run: () => decided(given) },
    { name: "story: events are found by words, step, type and period", run: () => found(given) },
  ];
}

const mark = (page) => page.evaluate(() => { window.isSamePage = true; });
const isMarked = (page) => page.evaluate(() => window.isSamePage === true);
const planOf = (page) => decodeURIComponent(new URL(page.url()).hash.split("?")[0].split("/")[2]);
const head = (page, status) => page.locator(".plan-head .status, .plan .title-line .status", { hasText: status }).first().waitFor();

async function edited(given) {
  const { goalmill } = await given.filled();
  const own = await open(goalmill, "#/playground");
  const { page } = own;
  await settled(page);
  await mark(page);
  await page.getByLabel("Goal", { exact: true }).fill(PARIS);
  await page.getByRole("combobox", { name: "Planner" }).selectOption("rules");
  await page.getByLabel("A person approves the plan before it runs").check();
  await page.getByRole("button", { name: "Submit", exact: true }).click();
  await head(page, "awaiting approval");
  const id = planOf(page);
  await page.getByRole("link", { name: "Review and edit" }).click();
  const description = page.locator("#edit-flights").getByLabel("Description");
  await settled(page);
  // Before the draft is checked, which begins later than the next frames.
  const isOffered = await description.evaluate(async (field, text) => {
    field.value = text;
    field.dispatchEvent(new Event("input"));
    const name = "Approve with 1 change";
    const button = () => [...document.querySelectorAll("button")].find((one) => one.textContent === name);
    while (!button()) await new Promise((resolve) => requestAnimationFrame(resolve));
    return !button().disabled;
  }, "Search flights that leave after ten");
  expect(!isOffered, "an edit that was not checked cannot be approved");
  await page.getByText("was:").first().waitFor();
  await page.getByRole("button", { name: "Approve with 1 change" }).click();
  await page.getByRole("dialog").getByLabel("Reason").fill("no early flights");
  await page.getByRole("dialog").getByRole("button", { name: "Approve with changes" }).click();
  await head(page, "completed");
  const plan = await goalmill.get(`/v1/plans/${id}`);
  expect(plan.steps.find((one) => one.id === "flights").description === "Search flights that leave after ten", "the plan has the edit");
  await page.locator('.node[data-step="hotels"]').click();
  await page.locator("#step-title", { hasText: "hotels" }).waitFor();
  await page.getByRole("button", { name: "Retry from here" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Start a new plan" }).click();
  await page.waitForFunction((old) => !location.hash.includes(old), id);
  await head(page, "awaiting approval");
  await page.getByRole("button", { name: "Approve plan" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Approve plan" }).click();
  await head(page, "completed");
  const fork = await goalmill.get(`/v1/plans/${planOf(page)}`);
  expect(fork.plan_id !== id && fork.status === "completed", "the fork runs to its end");
  await page.getByRole("tab", { name: "Events" }).click();
  await page.getByRole("tabpanel").getByText("plan completed").waitFor();
  await page.goBack();
  expect(await isMarked(page), "nothing needed a reload");
  await finish(own);
  await close(own);
}

async function demo() {
  const goalmill = await Goalmill.start();
  const own = await open(goalmill);
  const { page } = own;
  await page.getByRole("button", { name: "Run the Paris demo" }).click();
  await head(page, "completed");
  // The log, which colours the boxes, may come after the status.
  await holds(page, "every box of the graph is completed", () => { const boxes = [...document.querySelectorAll(".node")]; return boxes.length > 2 && boxes.every((box) => box.matches(".status-completed")); });
  await page.getByRole("navigation").getByRole("link", { name: "Plans", exact: true }).click();
  await page.locator("main tbody tr .status", { hasText: "completed" }).first().waitFor();
  await finish(own);
  await close(own);
  await goalmill.stop();
}

async function killed() {
  const goalmill = await Goalmill.start();
  const id = await goalmill.submit({ name: "Outlives its scheduler", steps: [step("first", "echo"), step("gate", "echo", ["first"], {}, { approve: {} }), step("last", "echo", ["gate"])] });
  await goalmill.awaitPlan(id, (plan) => plan.steps.find((one) => one.id === "gate").status === "awaiting_approval");
  const own = await open(goalmill, `#/plans/${id}`);
  const { page } = own;
  await settled(page);
  await mark(page);
  await page.locator(".plan-head .live-live").waitFor();
  own.isInterrupted = true;
  await goalmill.kill();
  await page.locator(".banner").waitFor();
  await counted(page, ".node", 3);
  await goalmill.spawn();
  await page.locator(".banner").waitFor({ state: "detached" });
  await goalmill.call("POST", `/v1/plans/${id}/steps/gate:approve`, {});
  await head(page, "completed");
  await page.locator('.node.status-completed[data-step="last"]').waitFor();
  await page.getByRole("tab", { name: "Events" }).click();
  const { items } = await goalmill.get(`/v1/plans/${id}/events?limit=1000`);
  // Each event once; the panel of the tab before may still stand.
  await counted(page, "[role=tabpanel][aria-labelledby=tab-events] tbody tr", items.length);
  expect(await isMarked(page), "the page was not loaded again");
  await finish(own);
  await close(own);
  await goalmill.stop();
}

async function decided(given) {
  const { goalmill } = await given.filled();
  const plan = await goalmill.submit({ name: "Needs a decision", steps: [step("work", "sleep", ["gate"], HOUR, LONG), step("gate", "echo", [], {}, { approve: {} })] });
  const own = await open(goalmill, "#/approvals");
  const { page } = own;
  const card = page.locator(".card-item", { hasText: "Needs a decision" });
  await card.getByRole("button", { name: "Approve step" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Approve step" }).click();
  await goalmill.awaitPlan(plan, (one) => one.steps.find((other) => other.id === "work").status === "running");
  await card.waitFor({ state: "detached" });
  await page.goto(`${goalmill.url}/#/plans/${plan}`);
  await page.getByRole("button", { name: "Cancel plan" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel plan" }).click();
  await head(page, "cancelled");
  await finish(own);
  await close(own);
}

async function found(given) {
  const { goalmill, ids } = await given.filled();
  const own = await open(goalmill, "#/events", { before: (page) => { page.isInterrupted = true; } });
  const { page } = own;
  await settled(page);
  const box = page.getByRole("searchbox");
  const rows = page.locator(".event-table tbody tr");
  await box.fill("columns expected");
  await page.locator(".event-table mark", { hasText: "columns" }).first().waitFor();
  await page.getByRole("combobox", { name: "Kind" }).selectOption("step_failed");
  await counted(page, ".event-table tbody tr", 1);
  expect((await rows.first().textContent()).includes(ids.failing), "the step that failed is found");
  const field = page.getByRole("textbox", { name: "Step" });
  await field.fill("store");
  await page.evaluate(async () => (await import("./page/parts.js")).app.render());
  await settled(page);
  expect(await field.inputValue() === "store", "what is being written stays while the page is drawn again");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "No events" }).waitFor();
  await box.fill("!!!");
  await page.getByRole("alert").getByText("has no word").first().waitFor();
  await page.getByRole("button", { name: "Clear" }).click();
  await rows.nth(20).waitFor();
  expect(await page.getByRole("alert").count() === 0 && !new URL(page.url()).hash.includes("?"), "all filters are gone");
  await page.getByRole("combobox", { name: "Period" }).selectOption("all");
  await box.fill("BAD_ROW");
  await holds(page, "only events of the plan with that code are left", (id) => { const all = [...document.querySelectorAll(".event-table tbody tr")]; return all.length > 0 && all.every((row) => row.textContent.includes(id)); }, ids.failing);
  await page.getByRole("link", { name: "step failed" }).first().click();
  await page.locator(".plan-head").waitFor();
  expect(page.url().includes(ids.failing), "an event leads to its plan");
  await finish(own);
  await close(own);
}
