// Every screen: empty, loading, filled, with an error, disconnected; in both themes and three widths.

import { check, checkEverywhere, close, expect, finish, hold, holds, interrupt, open, settled, wake } from "./browser.js";
import { LONG_ID, PARIS } from "./fixture.js";

const NOTHING = "p0-0000000000000000";

/** Screens by name with their addresses; those of plans need the id of one. */
export const screens = (ids) => [
  ["plans", "#/plans"], ["plan", `#/plans/${ids.release}`], ["approvals", "#/approvals"], ["review", `#/approvals/${ids.waiting}`], ["playground", "#/playground"], ["stored", "#/stored"], ["routing", "#/playground?tab=route"],
  ["compare", `#/compare?a=${ids.revised}@0&b=${ids.revised}@3`], ["history", "#/history"], ["agents", "#/agents"], ["workers", "#/workers"], ["queues", "#/queues"], ["dead-letters", "#/dead-letters"], ["events", "#/events?types=goal_accepted,plan_created,plan_completed,plan_failed,plan_cancelled"], ["stats", "#/stats"],
];

/** What only an installation with plans shows. */
const details = (ids) => [
  ["panel", `#/plans/${ids.release}?step=test-search`], ["past", `#/plans/${ids.revised}?seq=30`], ["revisions", `#/plans/${ids.revised}?tab=revisions`], ["log", `#/plans/${ids.revised}?tab=events`],
  ["results", `#/plans/${ids.revised}?tab=results&step=hotels`], ["goal", `#/plans/${ids.waiting}?tab=goal`], ["failed", `#/plans/${ids.failing}?step=parse`], ["long", `#/plans/${ids.long}?step=${LONG_ID}`], ["review-long", `#/approvals/${ids.long}`],
  ["map", `#/plans/${ids.map}?step=search`], ["stored-version", "#/stored/trip"], ["found", "#/plans?q=nothing-like-this"], ["missing", "#/nowhere"],
];

export function screenTests(given) {
  const none = { release: NOTHING, waiting: NOTHING, revised: NOTHING };
  const names = screens(none).map(([name]) => name);
  const address = (ids, name) => [...screens(ids), ...details(ids)].find(([one]) => one === name)[1];
  const tests = [];
  for (const name of names) {
    tests.push({
      name: `screen ${name} empty`, run: async () => {
        const isAbsent = ["plan", "review", "compare"].includes(name);
        const own = await open(await given.empty(), address(none, name), { before: (page) => { page.isInterrupted = isAbsent; } });
        await settled(own.page);
        await checkEverywhere(own, `${name}-empty`);
        await close(own);
      },
    });
  }
  tests.push({
    name: "screens while they load", run: async () => {
      const { goalmill, ids } = await given.filled();
      // The playground shows a form at once.
      for (const name of names.filter((one) => one !== "playground" && one !== "routing")) {
        const own = await open(goalmill, address(ids, name), { before: hold });
        await own.page.locator(".skeleton").first().waitFor();
        await check(own, `${name}-loading`);
        await finish(own);
        await close(own);
      }
    },
  });
  const detailNames = details(none).map(([name]) => name);
  for (const name of [...names, ...detailNames]) {
    tests.push({
      name: `screen ${name} filled`, run: async () => {
        const { goalmill, ids } = await given.filled();
        const own = await open(goalmill, address(ids, name));
        await settled(own.page);
        if (name === "playground") await preview(own.page);
        if (name === "routing") await route(own.page);
        await checkEverywhere(own, `${name}-filled`);
        await close(own);
      },
    });
  }
  for (const name of names) {
    tests.push({
      name: `screen ${name} with an error`, run: async () => {
        const { goalmill, ids } = await given.filled();
        const own = await open(goalmill, address(ids, name), { before: (page) => interrupt(page, 500) });
        await settled(own.page);
        if (["playground", "routing"].includes(name)) await (name === "routing" ? route(own.page) : preview(own.page));
        await own.page.getByText("the store did not answer in time").first().waitFor();
        await checkEverywhere(own, `${name}-error`);
        await close(own);
      },
    });
    tests.push({
      name: `screen ${name} disconnected`, run: async () => {
        const { goalmill, ids } = await given.filled();
        const own = await open(goalmill, address(ids, name));
        const { page } = own;
        await settled(page);
        const parts = "main table, main .cards, main .graph-frame";
        const before = await page.locator(parts).count();
        await interrupt(own, 0);
        await wake(own);
        await page.locator(".banner").waitFor();
        // What was asked for before may still have arrived.
        const after = await page.locator(parts).count();
        expect(after >= before, `what was shown stays while the scheduler does not answer: ${after} of ${before} tables, lists and graphs`);
        await checkEverywhere(own, `${name}-disconnected`);
        await own.context.unroute(/\/v1\//);
        await wake(own);
        await page.locator(".banner").waitFor({ state: "detached" });
        await close(own);
      },
    });
  }
  tests.push({ name: "a map counts its items in its box, and opens to them", run: () => items(given) });
  tests.push({ name: "a stored plan runs with what its form says", run: () => runStored(given) });
  tests.push({ name: "screen frame: menu, keys and a dialog", run: () => frame(given) });
  tests.push({ name: "screen frame: the files of the page are small and its own", run: () => assets(given) });
  return tests;
}

async function items(given) {
  const { goalmill, ids } = await given.filled();
  const own = await open(goalmill, `#/plans/${ids.map}`);
  const { page } = own;
  await page.locator('.node[data-step="search"] .attempts', { hasText: "12/12" }).waitFor();
  const parts = await page.locator('.node[data-step="search"]').evaluate((node) => [".done-part", ".failed-part"].map((part) => Number(node.querySelector(part).getAttribute("width"))));
  expect(Math.abs(parts[0] - 11 * parts[1]) < 1, `eleven parts are done for one that failed: ${parts}`);
  await page.locator('.node[data-step="search"]').click();
  const list = page.locator(".step-panel .items tbody tr");
  await list.nth(11).waitFor();
  expect((await list.count()) === 12, "every item is listed");
  expect(/failed/.test(await list.first().innerText()), "the item that failed is the first");
  await list.first().getByRole("link").click();
  await page.locator(".step-panel", { hasText: "failed" }).waitFor();
  await finish(own);
  await close(own);
}

async function runStored(given) {
  const { goalmill } = await given.filled();
  // The first answer to the form is a refusal, which the console notes.
  const own = await open(goalmill, "#/stored", { before: (page) => { page.isInterrupted = true; } });
  const { page } = own;
  await page.getByRole("link", { name: "trip", exact: true }).click();
  await page.getByRole("button", { name: "Show version 1" }).click();
  await page.getByRole("heading", { name: "Version 1", exact: true }).waitFor();
  await page.getByRole("button", { name: "Show version 2" }).click();
  await page.getByRole("heading", { name: "Version 2", exact: true }).waitFor();
  await page.getByRole("button", { name: "Run trip@2" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("nights").fill("0");
  await dialog.getByLabel("city").fill("Porto");
  await dialog.getByRole("button", { name: "Run", exact: true }).click();
  await dialog.getByText("Give a number at least 1.").waitFor();
  await dialog.getByLabel("nights").fill("2");
  await dialog.getByLabel("guests").fill("Ann\nBen");
  await dialog.getByLabel("class").selectOption("first");
  await dialog.getByRole("button", { name: "Run", exact: true }).click();
  await page.locator(".plan-head .status", { hasText: "completed" }).first().waitFor();
  const { goal, steps } = await goalmill.get(`/v1/plans/${decodeURIComponent(new URL(page.url()).hash.split("?")[0].split("/")[2])}`);
  expect(JSON.stringify(goal.metadata.inputs) === JSON.stringify({ city: "Porto", nights: 2, class: "first", insured: false, guests: ["Ann", "Ben"] }), JSON.stringify(goal.metadata.inputs));
  expect(steps[0].outputs.city === "Porto", JSON.stringify(steps[0].outputs));
  await finish(own);
  await close(own);
}

async function preview(page) {
  await page.getByLabel("Goal", { exact: true }).fill(PARIS);
  await page.getByRole("button", { name: "Preview the plan" }).click();
  await page.locator("#preview-title, .notice.bad").first().waitFor();
}

async function route(page) {
  await page.getByLabel("A task, in words").fill("find me a quiet hotel near the river");
  await page.getByRole("button", { name: "Which agent would take it?" }).click();
  await page.locator("main h2, .notice.bad").first().waitFor();
}

async function frame(given) {
  const { goalmill, ids } = await given.filled();
  const own = await open(goalmill, `#/plans/${ids.release}`);
  const { page } = own;
  await settled(page);
  await page.setViewportSize({ width: 320, height: 640 });
  await page.getByRole("button", { name: "Menu" }).click();
  await check(own, "menu");
  await page.keyboard.press("?");
  await page.getByRole("dialog").waitFor();
  await check(own, "keys");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Cancel plan" }).click();
  await page.getByRole("dialog").locator("summary").click();
  await check(own, "dialog");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  // The switch outlives a reload, and counts before the first paint.
  await page.getByRole("button", { name: "dark theme" }).click();
  await page.reload();
  await holds(page, "the theme is kept", () => document.documentElement.dataset.theme === "dark");
  await finish(own);
  await close(own);
}

async function assets(given) {
  const own = await open(await given.empty(), "#/plans");
  await settled(own.page);
  // The screen is drawn by the last module, so all of them are there.
  const sizes = await own.page.evaluate(() => performance.getEntriesByType("resource").filter((one) => !one.name.includes("/v1/")).map((one) => [one.name, one.decodedBodySize]).concat([[location.href, performance.getEntriesByType("navigation")[0].decodedBodySize]]));
  const total = sizes.reduce((sum, [, size]) => sum + size, 0);
  expect(sizes.length > 15 && sizes.every(([, size]) => size > 0) && total < 400_000, `${sizes.length} files have ${total} bytes: ${JSON.stringify(sizes)}`);
  await finish(own);
  await close(own);
}
