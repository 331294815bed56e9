// What the page counts, sorts, hides and says, with more than a thousand plans and for nine kinds of people.

import { check, close, counted, expect, finish, goTo, holds, open, settled, wake } from "./browser.js";
import { step } from "./fixture.js";
import { Goalmill, until } from "./goalmill.js";
import { screens } from "./screens.js";

const ADMIN = "an-administrator-of-this-test-run";
const RUNNING = 1_000, CANCELLED = 130, AT_ONCE = 25;
/** The roles of nine tokens. */
export const NINE = ["viewer", "submitter", "approver", "operator", "scaler", "admin", "viewer+approver", "submitter+operator", "submitter+approver+operator"];
/** Minutes that plans have for a decision, not in their order. */
const MINUTES = [600, 45, 200, 5, 90];
const waits = (steps, more) => ({ steps: steps.map((one) => ({ ...step("a", "nobody-serves-this"), ...one })), ...more });

async function inBatches(goalmill, count, make) {
  const ids = [];
  while (ids.length < count) ids.push(...await Promise.all(Array.from({ length: Math.min(AT_ONCE, count - ids.length) }, (_, i) => goalmill.submit(make(ids.length + i)))));
  return ids;
}

/** An installation that requires tokens, with 1,140 plans and a token for each kind of person. */
export async function thousand() {
  const goalmill = await Goalmill.startWith({ GOALMILL__API__AUTHENTICATION: "required", GOALMILL__API__ADMIN_TOKEN_ENV: "GOALMILL_TOKEN", GOALMILL_TOKEN: ADMIN });
  goalmill.host = "localhost";
  goalmill.token = ADMIN;
  const tokens = {};
  for (const roles of NINE) tokens[roles] = (await goalmill.call("POST", "/v1/tokens", { actor: roles.replaceAll("+", "."), roles: roles.split("+") })).token;
  const ids = { needle: await goalmill.submit(waits([{}], { name: "Needle in the haystack" })) };
  ids.urgent = [];
  for (const minutes of MINUTES) ids.urgent.push(await goalmill.submit(waits([{}], { name: `Decide within ${minutes} minutes`, approve: { limit: `${minutes}m`, default: minutes < 60 ? "approve" : "reject" } })));
  ids.urgent.push(await goalmill.submit(waits([{ id: "pick", ask: { question: "Which one?", schema: { enum: ["red", "blue"] }, limit: "20m", into: "colour" } }], { name: "Pick a colour" })));
  const failing = await goalmill.submit({ name: "Fails", steps: [step("a", "fail", [], { code: "NO" })] });
  ids.done = await goalmill.submit({ name: "Done", steps: [step("a", "echo", [], { text: "x" })] });
  const ended = await inBatches(goalmill, CANCELLED, (i) => waits([{}], { name: `Ended ${i}` }));
  await inBatches(goalmill, RUNNING, (i) => waits([{}], { name: `Batch ${i}` }));
  for (const id of ended) await goalmill.call("POST", `/v1/plans/${id}:cancel`, {});
  await goalmill.awaitStatus(failing, "failed");
  await goalmill.awaitStatus(ids.done, "completed");
  await until("all are counted", async () => { const found = await goalmill.get("/v1/overview"); return found.statuses.cancelled === CANCELLED && found.waits === ids.urgent.length && found.with_failures === 1; });
  return { goalmill, tokens, ids };
}

export function thousandTests(given) {
  return [
    { name: "thousand: numbers are those of all plans, whatever the filter", run: () => numbers(given) },
    { name: "thousand: a search finds the oldest plan", run: () => searched(given) },
    { name: "thousand: older plans keep to the filter", run: () => older(given) },
    { name: "thousand: the most urgent decision comes first and says what happens without it", run: () => urgent(given) },
    ...NINE.map((roles) => ({ name: `roles: ${roles} sees what it may, and is refused once`, run: () => everyRole(given, roles) })),
  ];
}

/** Opens a screen, signed in. */
export async function openAs({ goalmill, tokens }, roles, hash = "#/plans", options = {}) {
  const own = await open(goalmill, hash, { ...options, before: async (page) => { page.isInterrupted = true; if (options.before) await options.before(page); } });
  await settled(own.page);
  await own.page.getByLabel("Token").fill(tokens[roles]);
  await own.page.getByRole("button", { name: /^Sign in/ }).click();
  await own.page.locator("nav").first().waitFor();
  await settled(own.page);
  return own;
}

const rows = (page) => page.locator(".plan-table tbody tr").count();
const number = (value) => value.toLocaleString("en-US");

async function numbers(given) {
  const installation = await given.thousand();
  const { goalmill } = installation;
  const own = await openAs(installation, "viewer");
  const { page } = own;
  const wanted = await goalmill.get("/v1/overview");
  const card = async (label, value) => holds(page, `${value} ${label}`, ([text, shown]) => [...document.querySelectorAll(".strip li")].some((li) => li.textContent.includes(text) && li.querySelector(".big").textContent === shown), [label, value]);
  for (const hash of ["#/plans", "#/plans?status=cancelled", "#/plans?failed=1", "#/plans?q=needle"]) {
    await goTo(page, hash);
    await card("running", number(wanted.statuses.running));
    await card("with failures", number(wanted.with_failures));
    await card("wait for people", number(wanted.waits));
  }
  expect(wanted.statuses.running > RUNNING, `${wanted.statuses.running} plans run`);
  expect(await page.locator("nav .count").count() === 0, "a viewer decides nothing, so nothing waits for them");
  const approver = await openAs(installation, "approver");
  await holds(approver.page, "the number beside Approvals is that of all plans", (value) => document.querySelector("nav .count")?.textContent === value, String(wanted.waits));
  await close(approver);
  await goTo(page, "#/plans?failed=1");
  await counted(page, ".plan-table tbody tr", 1);
  await check(own, "thousand-plans");
  await finish(own);
  await close(own);
}

async function searched(given) {
  const installation = await given.thousand();
  const own = await openAs(installation, "viewer");
  const { page } = own;
  await page.getByPlaceholder("Words of names, ids and goals").fill("needle haystack");
  await page.locator(`.plan-table a[href="#/plans/${installation.ids.needle}"]`).waitFor();
  await counted(page, ".plan-table tbody tr", 1);
  await page.getByPlaceholder("Words of names, ids and goals").fill("nothing is called so");
  await page.getByText("No plan fits the filter.").waitFor();
  await finish(own);
  await close(own);
}

async function older(given) {
  const installation = await given.thousand();
  const own = await openAs(installation, "viewer", "#/plans?status=running");
  const { page } = own;
  expect(await rows(page) === 100, `${await rows(page)} rows before more are asked for`);
  await page.getByRole("button", { name: "Load older plans" }).click();
  await counted(page, ".plan-table tbody tr", 200);
  const isAll = (word) => [...document.querySelectorAll(".plan-table tbody .status")].every((el) => el.textContent === word);
  await holds(page, "all of them run", isAll, "running");
  // The answer for older plans of one filter comes when another one is chosen.
  let release;
  const held = new Promise((resolve) => { release = resolve; });
  await own.context.route(/\/v1\/plans\?.*status=running/, async (route) => { await held; await route.continue().catch(() => {}); });
  await page.getByRole("button", { name: "Load older plans" }).click();
  await page.getByLabel("Status").selectOption("cancelled");
  release();
  await counted(page, ".plan-table tbody tr", 100);
  await holds(page, "only cancelled plans are shown", isAll, "cancelled");
  await page.getByRole("button", { name: "Load older plans" }).click();
  await counted(page, ".plan-table tbody tr", CANCELLED);
  await holds(page, "only cancelled plans are shown", isAll, "cancelled");
  await finish(own);
  await close(own);
}

async function urgent(given) {
  const installation = await given.thousand();
  const { goalmill } = installation;
  const own = await openAs(installation, "approver", "#/approvals");
  const { page } = own;
  await counted(page, ".card-item", installation.ids.urgent.length);
  const shown = await page.locator(".card-item .title-line a").allTextContents();
  const wanted = ["Decide within 5 minutes", "Pick a colour", "Decide within 45 minutes", "Decide within 90 minutes", "Decide within 200 minutes", "Decide within 600 minutes"];
  expect(JSON.stringify(shown) === JSON.stringify(wanted), `the order is ${shown.join(", ")}`);
  const texts = await page.locator(".card-item").allTextContents();
  for (const [i, text] of ["the plan is approved", "the step fails", "the plan is approved", "the plan is rejected", "the plan is rejected", "the plan is rejected"].entries()) expect(texts[i].includes(`without ${i === 1 ? "an answer" : "a decision"}: ${text}`), `${wanted[i]}: ${texts[i]}`);
  await check(own, "thousand-approvals");
  // Nothing is chosen for a person.
  await page.locator(".card-item", { hasText: "Pick a colour" }).getByRole("button", { name: "Answer" }).click();
  const choice = page.getByRole("dialog").getByLabel("Answer", { exact: false }).first();
  expect(await choice.inputValue() === "", `the choice begins with ${await choice.inputValue()}`);
  await page.getByRole("dialog").getByRole("button", { name: "Send the answer" }).click();
  await page.getByRole("dialog").waitFor();
  const { steps } = await goalmill.get(`/v1/plans/${installation.ids.urgent.at(-1)}`);
  expect(steps[0].status === "awaiting_approval", "no answer was sent");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await goTo(page, `#/plans/${installation.ids.urgent[3]}`);
  await page.locator(".why").getByText("without a decision: the plan is approved").waitFor();
  await finish(own);
  await close(own);
}

async function everyRole(given, roles) {
  const installation = await given.thousand();
  const own = await open(installation.goalmill, "#/plans", { before: async (page) => { page.isInterrupted = true; await page.page.clock.install(); } });
  const { page } = own;
  const refused = [];
  page.on("response", (response) => { if (response.status() === 403) refused.push(`${response.request().method()} ${response.url().slice(new URL(response.url()).origin.length)}`); });
  await settled(page);
  await page.getByLabel("Token").fill(installation.tokens[roles]);
  await page.getByRole("button", { name: /^Sign in/ }).click();
  await page.locator("nav").first().waitFor();
  const ids = { release: installation.ids.done, waiting: installation.ids.urgent[0], revised: installation.ids.done };
  for (const [name, hash] of screens(ids)) {
    const start = refused.length;
    await goTo(page, hash);
    const forbidden = page.locator(".notice.forbidden");
    const isForbidden = roles === "scaler" || (name === "playground" && !/submitter|admin/.test(roles));
    if (isForbidden && !["routing", "compare"].includes(name)) {
      await forbidden.first().waitFor();
      expect(/needs the role/.test(await forbidden.first().textContent()), `${name} says which role is missing: ${await forbidden.first().textContent()}`);
    } else if (!isForbidden) expect((await forbidden.count()) === 0, `${name} is not forbidden to ${roles}: ${await forbidden.allTextContents()}`);
    // What the screen asked for when it was opened is answered: two sides of a comparison ask for the same plan.
    await settled(page);
    const before = refused.length;
    await page.clock.fastForward(60_000);
    await wake(own);
    await settled(page);
    // A first answer may come late on a busy machine, and a comparison has two of them for the same plan.
    const first = name === "compare" ? 2 : 1;
    const asked = (request, at, all) => all.slice(0, at).filter((other) => other === request).length;
    const again = refused.slice(start).filter((request, at, all) => start + at >= before && asked(request, at, all) >= first);
    expect(again.length === 0, `${name} asks again for what is refused: ${again.join(", ")}`);
  }
  if (roles !== "scaler") expect(refused.length === 0, `${roles} is refused ${refused.join(", ")}`);
  await goTo(page, `#/plans/${ids.waiting}`);
  if (roles !== "scaler") {
    const count = async (name) => page.getByRole("button", { name }).count();
    await page.locator(".plan-head").waitFor();
    expect(await count("Approve plan") === (/approver|admin/.test(roles) ? 1 : 0), `${roles}: buttons that approve`);
    expect(await count("Cancel plan …") === (/submitter|operator|admin/.test(roles) ? 1 : 0), `${roles}: buttons that cancel`);
  }
  await finish(own);
  await close(own);
}
