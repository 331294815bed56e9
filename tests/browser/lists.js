// Lists of many things: plans inside plans, filters, and actions on all that is selected.

import { check, close, counted, expect, finish, goTo, holds, open, settled } from "./browser.js";
import { step } from "./fixture.js";
import { Goalmill, until } from "./goalmill.js";
import { openAs } from "./thousand.js";

/** More than a request of the page lists. */
const MANY = 130;
const DEAD = 12;
/** More than are shown of one plan at first. */
const INSIDE = 104;
const wait = (name, more) => ({ name, steps: [step("a", "nobody")], ...more });

async function lists() {
  const goalmill = await Goalmill.startWith({ GOALMILL__API__AUTHENTICATION: "required", GOALMILL__API__ADMIN_TOKEN_ENV: "GOALMILL_TOKEN", GOALMILL_TOKEN: "an-administrator-of-this-test-run" });
  goalmill.host = "localhost";
  goalmill.token = "an-administrator-of-this-test-run";
  const made = async (role) => (await goalmill.call("POST", "/v1/tokens", { actor: `${role}-1`, roles: [role] })).token;
  const tokens = { viewer: await made("viewer"), operator: await made("operator"), admin: goalmill.token };
  const ids = { outer: await goalmill.submit({ name: "Around", steps: [{ id: "whole", kind: "plan", plan: { name: "Inside", steps: [step("say", "nobody")] } }] }) };
  for (let i = 0; i < MANY; i += 10) await Promise.all(Array.from({ length: 10 }, (_, n) => goalmill.submit(wait(`Order ${i + n}`))));
  ids.other = await goalmill.submit({ name: "Of another agent", steps: [step("a", "somebody-else")] });
  for (let i = 0; i < DEAD; i++) await goalmill.submit({ name: `Fails ${i}`, steps: [step("a", "fail", [], { code: "NO" }, { retry: { max: 0 } })] });
  await until("all are there", async () => (await goalmill.get("/v1/overview")).with_failures === DEAD && (await goalmill.get(`/v1/plans?parent=${ids.outer}`)).items.length === 1);
  return { goalmill, tokens, ids };
}

export function listTests() {
  let made;
  const given = () => (made ||= lists());
  return [
    { name: "lists: a plan inside a plan stands below it, when it is opened", run: () => inside(given) },
    { name: "lists: all plans inside are shown, and a selected one has its newest status", run: manyInside },
    { name: "lists: agent type and cost are filters", run: () => filters(given) },
    { name: "lists: all plans of a filter are paused, resumed and cancelled, with the count and the refusals", run: () => bulk(given) },
    { name: "lists: all dead letters are retried, page after page, and none twice", run: () => letters(given) },
  ];
}

async function inside(given) {
  const installation = await given();
  const own = await openAs(installation, "viewer", "#/plans");
  const { page } = own;
  await page.locator(".plan-table tbody tr").first().waitFor();
  while (!await page.getByRole("link", { name: "Around" }).count()) { await page.getByRole("button", { name: "Load older plans" }).click(); await page.waitForTimeout(300); }
  expect(await page.getByRole("link", { name: "Inside", exact: true }).count() === 0, "the plan inside is folded");
  await page.getByRole("button", { name: "1 plan inside" }).click();
  await page.locator(".plan-table tr.inside").getByRole("link", { name: "Inside", exact: true }).waitFor();
  await holds(page, "it stands below the plan around it", () => document.querySelector(".plan-table tr.inside").previousElementSibling.textContent.includes("Around"));
  await goTo(page, "#/plans?q=inside");
  await page.locator(".plan-table").getByText("inside ", { exact: false }).first().waitFor();
  expect(await page.locator(".select-box").count() === 0, "a viewer selects nothing");
  await finish(own);
  await close(own);
}

async function manyInside() {
  const goalmill = await Goalmill.start();
  const id = await goalmill.submit({ name: "Around many", steps: Array.from({ length: INSIDE }, (_, n) => ({ id: `part-${n}`, kind: "plan", plan: { name: `Part ${n}`, steps: [step("say", "nobody")] } })) });
  await until("all parts are there", async () => (await goalmill.get(`/v1/plans?parent=${id}&limit=500`)).items.length === INSIDE);
  const own = await open(goalmill, "#/plans");
  const { page } = own;
  await page.getByRole("button", { name: `${INSIDE} plans inside` }).click();
  await counted(page, ".plan-table tr.inside th a", 100);
  await check(own, "lists-inside");
  await page.setViewportSize({ width: 390, height: 800 });
  await check(own, "lists-inside-390");
  await page.setViewportSize({ width: 1100, height: 800 });
  await page.getByRole("button", { name: `Show more of ${INSIDE - 100} plans inside` }).click();
  await counted(page, ".plan-table tr.inside th a", INSIDE);
  const part = (await goalmill.get(`/v1/plans?parent=${id}&limit=500`)).items.find((plan) => plan.name === "Part 7");
  await page.getByLabel("Select Part 7", { exact: true }).check();
  await page.getByRole("button", { name: "Pause 1 …" }).waitFor();
  await goalmill.call("POST", `/v1/plans/${part.plan_id}:pause`, {});
  // The button is that of its status now.
  await page.getByRole("button", { name: "Resume 1 …" }).waitFor();
  // What is folded is selected no more.
  await page.getByRole("button", { name: `${INSIDE} plans inside`, exact: true }).click();
  await page.getByText("1 selected").waitFor({ state: "detached" });
  await finish(own);
  await close(own);
  await goalmill.stop();
}

async function filters(given) {
  const installation = await given();
  const own = await openAs(installation, "viewer", "#/plans?agent=somebody-else");
  const { page } = own;
  await counted(page, ".plan-table tbody tr", 1);
  await goTo(page, "#/plans?cost=10");
  await page.getByText("No plan fits the filter.").waitFor();
  await page.getByLabel("Cost").selectOption("");
  await page.getByLabel("Time").selectOption("3600000");
  await page.getByLabel("Status").selectOption("failed");
  await counted(page, ".plan-table tbody tr", DEAD);
  await finish(own);
  await close(own);
}

async function bulk(given) {
  const installation = await given();
  const { goalmill } = installation;
  const own = await openAs(installation, "operator", "#/plans?q=order&status=running");
  const { page } = own;
  await counted(page, ".plan-table tbody tr", 100);
  await page.getByLabel("Select Order 125", { exact: true }).check();
  await page.getByRole("button", { name: "Pause 1 …" }).waitFor();
  await page.getByRole("button", { name: "Select all that fit" }).click();
  await page.getByRole("button", { name: `Pause ${MANY} …` }).waitFor();
  await check(own, "lists-bulk");
  await page.getByRole("button", { name: `Pause ${MANY} …` }).click();
  await page.getByLabel("Reason").fill("the shop is closed");
  // One of them is refused: it is no longer there for the verb.
  const { items } = await goalmill.get("/v1/plans?q=order&limit=1");
  await goalmill.call("POST", `/v1/plans/${items[0].plan_id}:cancel`, {});
  await page.getByRole("dialog").getByRole("button", { name: `Pause ${MANY}` }).click();
  await page.getByText(`${MANY} of ${MANY}, 1 refused: done`).waitFor();
  await page.getByText("1 refusal", { exact: true }).click();
  const paused = await until("all others are paused", async () => { const found = (await goalmill.get("/v1/plans?status=paused&limit=500")).items; return found.length === MANY - 1 && found; });
  const { items: events } = await goalmill.get(`/v1/plans/${paused[0].plan_id}/events`);
  expect(JSON.stringify(events.at(-1)).includes("the shop is closed"), "the log says why");
  await goTo(page, "#/plans?q=order&status=paused");
  await page.getByLabel("Select", { exact: true }).check();
  await page.getByRole("button", { name: "Resume 100 …" }).waitFor();
  await page.getByRole("button", { name: "Cancel 100 …" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel 100" }).click();
  await until("they are cancelled", async () => (await goalmill.get("/v1/plans?status=paused&limit=500")).items.length === MANY - 101);
  await finish(own);
  await close(own);
}

/** Dead letters as the scheduler lists them: the newest 100, without those that were retried. */
async function letters(given) {
  let left = Array.from({ length: 130 }, (_, n) => ({ entry: `${1_000 - n}-0`, agent_type: "film", plan_id: "p0-0000000000000000", step_id: `step-${n}`, attempt: 2, code: "LOST", reason: "the worker was lost", task: {} }));
  const refused = left[3].entry;
  const sent = [];
  const stub = async (own) => {
    own.isInterrupted = true;
    await own.context.route(/\/v1\/dead-letters/, (route) => {
      const { pathname } = new URL(route.request().url());
      if (route.request().method() === "GET") return route.fulfill({ contentType: "application/json", body: JSON.stringify({ items: left.slice(0, 100) }) });
      const entry = decodeURIComponent(pathname).split("/").pop().replace(":retry", "");
      // One that dies meanwhile is not one of those that a person saw.
      if (!sent.length) left = [{ ...left[0], entry: "2000-0" }, ...left];
      sent.push(entry);
      if (entry === refused) return route.fulfill({ status: 409, contentType: "application/problem+json", body: JSON.stringify({ title: "Not allowed", status: 409, code: "NOT_ALLOWED", detail: "a large input is no longer stored", errors: [] }) });
      left = left.filter((letter) => letter.entry !== entry);
      return route.fulfill({ contentType: "application/json", body: JSON.stringify({ plan_id: "p0-0000000000000001", status: "running" }) });
    });
    await own.context.route(/\/v1\/queues/, (route) => route.fulfill({ contentType: "application/json", body: JSON.stringify({ items: [{ agent_type: "film", waiting: 0, running: 0, workers: 0, slots: 0, dead_letters: left.length }] }) }));
  };
  const own = await openAs(await given(), "admin", "#/dead-letters", { before: stub });
  const { page } = own;
  await counted(page, ".card-item", 100);
  await page.getByLabel("Select step-0 of").check();
  await page.getByRole("button", { name: "Retry 1 …" }).waitFor();
  await check(own, "lists-letters");
  await page.getByRole("button", { name: "Retry all 130 …" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Retry all 130" }).click();
  await page.getByText("130 of 130, 1 refused: done").waitFor();
  expect(sent.length === 130 && new Set(sent).size === 130, `${sent.length} requests, of ${new Set(sent).size} letters`);
  expect(left.length === 2, "the refused one and the later one are left");
  await finish(own);
  await close(own);
}
