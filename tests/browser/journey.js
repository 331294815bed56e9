// A plan from its goal to the archive: three people, two namespaces, a scheduler that is killed; once by pointer, once by
// the keyboard alone. No page is loaded again.

import { close, expect, finish, holds, open, settled } from "./browser.js";
import { PARIS } from "./fixture.js";
import { Goalmill } from "./goalmill.js";
import { Keyboard, Pointer } from "./hands.js";

const ADMIN = "an-administrator-of-this-journey";
/** A lost attempt is a dead letter after 12 s, and a plan that ended is in the archive only after a second. */
const SETTINGS = "[limits]\nlost_max = 1\n[scheduler]\ntask_lease_ms = 12000\nretention_ms = 1000\n";
const PEOPLE = { ann: ["research", "viewer", "submitter"], ben: ["research", "viewer", "approver", "operator"], cleo: ["finance", "viewer", "submitter"], dan: ["*", "viewer"] };

export function journeyTests() {
  return [
    { name: "journey by pointer: from a goal to the archive", run: () => journey(Pointer, Goalmill.startWith) },
    { name: "journey by keyboard alone: from a goal to the archive", run: () => journey(Keyboard, Goalmill.startWith) },
    { name: "journey on Redis and PostgreSQL: from a goal to the archive", run: () => journey(Pointer, Goalmill.startOnServers) },
  ];
}

async function start(begin) {
  const goalmill = await begin({ GOALMILL__API__AUTHENTICATION: "required", GOALMILL__API__ADMIN_TOKEN_ENV: "GOALMILL_TOKEN", GOALMILL_TOKEN: ADMIN });
  await goalmill.kill();
  goalmill.configure(SETTINGS);
  await goalmill.spawn();
  goalmill.host = "localhost";
  goalmill.token = ADMIN;
  return goalmill;
}

/** Opens the page and signs a person in. */
async function enter(goalmill, Hand, name) {
  const [scope, ...roles] = PEOPLE[name];
  const { token } = await goalmill.call("POST", "/v1/tokens", { actor: name, roles, namespace: scope });
  const own = await open(goalmill, "#/plans", { before: (page) => { page.isInterrupted = true; } });
  const { page } = own;
  const hand = new Hand(page);
  await hand.write(page.getByLabel("Token"), token);
  await hand.press(page.getByRole("button", { name: "Sign in", exact: true }));
  await page.locator(".who", { hasText: name }).waitFor();
  await settled(page);
  await page.evaluate(() => { window.isSamePage = true; });
  return { name, own, page, hand };
}

async function leave(person) {
  expect(await person.page.evaluate(() => window.isSamePage === true), `the page of ${person.name} was not loaded again`);
  await finish(person.own);
  await close(person.own);
}

const planOf = (page) => decodeURIComponent(new URL(page.url()).hash.split("?")[0].split("/")[2]);
const head = (page, status) => page.locator(".plan-head .status", { hasText: status }).first().waitFor();
const node = (page, step, status) => page.locator(`.node.status-${status}[data-step="${step}"]`).waitFor();
const confirm = async ({ page, hand }, button, reason) => {
  const dialog = page.getByRole("dialog");
  if (reason) await hand.write(dialog.getByLabel("Reason"), reason);
  await hand.press(dialog.getByRole("button", { name: button, exact: true }));
  await dialog.waitFor({ state: "detached" });
};

async function submit({ page, hand }) {
  await hand.visit("Playground");
  await hand.write(page.getByLabel("Goal", { exact: true }), PARIS);
  await hand.choose(page.getByRole("combobox", { name: "Planner" }), "rules");
  await hand.check(page.getByLabel("A person approves the plan before it runs"));
  await hand.press(page.getByRole("button", { name: "Submit", exact: true }));
  await head(page, "awaiting approval");
  await page.getByRole("link", { name: "Review and edit" }).waitFor();
  const count = await page.getByRole("button", { name: /^Approve/ }).count();
  expect(count === 0, `who may not approve sees ${count} buttons for it`);
  return planOf(page);
}

/** Approves with an edit: the activities take an hour, and the budget counts them as nothing. */
async function approve(ben, id) {
  const { page, hand } = ben;
  await hand.visit("Approvals");
  await hand.press(page.locator(".card-item").getByRole("link", { name: "Review and edit" }));
  const activities = page.locator("#edit-activities"), budget = page.locator("#edit-budget");
  await hand.write(activities.getByLabel("Agent"), "sleep");
  await hand.write(activities.getByLabel("Action"), "sleep");
  await hand.write(activities.getByLabel("Inputs (JSON)"), '{"seconds": 3600}');
  await hand.write(activities.getByLabel("Time limit (ms)"), "7200000");
  await hand.write(budget.getByLabel("Inputs (JSON)"), '{"budget": 2000, "currency": "USD", "days": 3, "travellers": 1, "flights": "{{ steps.flights.outputs.total }}", "hotels": "{{ steps.hotels.outputs.total }}", "activities": 100}');
  await hand.press(page.getByRole("button", { name: "Approve with 2 changes" }));
  await confirm(ben, "Approve with changes", "walk first");
  await node(page, "activities", "running");
  await node(page, "hotels", "completed");
  expect(planOf(page) === id, "the plan is shown after the decision");
}

async function revise(ben) {
  const { page, hand } = ben;
  await hand.press(page.getByRole("link", { name: "Edit", exact: true }));
  await hand.write(page.locator("#edit-budget").getByLabel("Description"), "Compare the total with the budget, to the cent");
  await hand.press(page.getByRole("button", { name: "Save the edit only" }));
  await confirm(ben, "Save the edit", "be exact");
  await head(page, "running");
}

async function restart(goalmill, people) {
  await goalmill.kill();
  for (const { page } of people) await page.locator(".banner").waitFor();
  await goalmill.spawn();
  for (const { page } of people) await page.locator(".banner").waitFor({ state: "detached" });
}

async function retry(ann, id) {
  const { page, hand } = ann;
  await hand.press(page.getByRole("table", { name: "Steps" }).getByRole("button", { name: "activities", exact: true }));
  await hand.press(page.locator(".step-panel").getByRole("button", { name: "Retry from here" }));
  await hand.write(page.getByRole("dialog").getByLabel("Inputs of the step"), '{"seconds": 0.2}');
  await confirm(ann, "Start a new plan", "a short walk");
  await page.waitForFunction((old) => !location.hash.includes(old), id);
}

/** Approves the new plan with the agent that finds activities: a sleep gives none, and no other agent takes its place. */
async function repair(ben) {
  const { page, hand } = ben;
  await hand.visit("Approvals");
  await hand.press(page.locator(".card-item").getByRole("link", { name: "Review and edit" }));
  const activities = page.locator("#edit-activities");
  await hand.write(activities.getByLabel("Agent"), "activity_agent");
  await hand.write(activities.getByLabel("Action"), "find_activities");
  await hand.write(activities.getByLabel("Inputs (JSON)"), '{"destination": "Paris", "count": 5}');
  await hand.press(page.getByRole("button", { name: "Approve with 1 change" }));
  await confirm(ben, "Approve with changes", "a real walk");
}

async function discard(ben) {
  const { page, hand } = ben;
  await hand.visit("Dead letters");
  const letter = page.locator(".card-item", { hasText: "activities" });
  await hand.press(letter.getByRole("button", { name: "Discard …" }));
  await confirm(ben, "Discard");
  await letter.waitFor({ state: "detached" });
}

/** Finds the plan in the archive, by words of its goal and by a word of its log. */
async function search({ page, hand }, id) {
  await hand.visit("History");
  const box = page.getByRole("searchbox");
  await hand.write(box, "trip paris");
  await page.locator(`table.plan-table a[href*="${id}"]`).waitFor();
  await hand.write(box, "walk");
  const hit = page.getByRole("table", { name: "Plans whose events have these words" }).locator(`th a[href*="${id}"]`);
  await hand.press(hit);
  await head(page, "completed");
  await page.locator(".plan-head .live-ended").waitFor();
}

async function journey(Hand, begin) {
  const goalmill = await start(begin);
  const ann = await enter(goalmill, Hand, "ann"), ben = await enter(goalmill, Hand, "ben");
  const id = await submit(ann);
  await approve(ben, id);
  await node(ann.page, "activities", "running");
  await revise(ben);
  await ann.page.locator(".facts", { hasText: "Revision2" }).waitFor();
  await restart(goalmill, [ann, ben]);
  for (const { page } of [ann, ben]) await node(page, "activities", "failed");
  await discard(ben);
  await head(ann.page, "failed");
  await retry(ann, id);
  const fork = planOf(ann.page);
  await head(ann.page, "awaiting approval");
  await repair(ben);
  await head(ann.page, "completed");
  await archived(goalmill, fork);
  await search(ann, fork);
  await leave(ann);
  await leave(ben);
  await others(goalmill, Hand, fork);
  await goalmill.stop();
}

/** Somebody of another namespace finds nothing; somebody of all namespaces looks into one after the other. */
async function others(goalmill, Hand, id) {
  const cleo = await enter(goalmill, Hand, "cleo");
  await cleo.hand.visit("History");
  await cleo.hand.write(cleo.page.getByRole("searchbox"), "trip paris");
  await cleo.page.getByRole("heading", { name: "Nothing found" }).waitFor();
  await leave(cleo);
  const dan = await enter(goalmill, Hand, "dan");
  const choose = async (name) => {
    const box = dan.page.getByLabel("Namespace");
    await dan.hand.write(box, name);
    await dan.page.keyboard.press("Tab");
    await holds(dan.page, `the address has ${name}`, (wanted) => new URLSearchParams(location.hash.split("?")[1]).get("namespace") === wanted, name);
    await settled(dan.page);
  };
  await dan.hand.visit("History");
  await dan.page.locator(`a[href*="${id}"]`).first().waitFor();
  await choose("finance");
  await dan.page.getByRole("heading", { name: "No history yet" }).waitFor();
  await choose("research");
  await dan.page.locator(`a[href*="${id}"]`).first().waitFor();
  await leave(dan);
}

/** Waits until only the archive has the plan: Redis has let it go. */
async function archived(goalmill, id) {
  await goalmill.awaitPlan(id, (plan) => Date.now() - Date.parse(plan.finished_at) > 4_000);
}
