// Addresses, the way back, and what stands where: items of maps, iterations, reports of progress, fields of dialogs.

import { close, counted, expect, finish, goTo, holds, open, settled, shown } from "./browser.js";
import { HOUR, LONG, step } from "./fixture.js";
import { Goalmill, until } from "./goalmill.js";

const ITEMS = 120;
/** More rows than the first page of the list has. */
const ROWS = 110;
const REPORTS = 300;

/** A map of which only an item near its end fails, and a loop of three iterations. */
const ended = () => ({
  name: "Ended with a failed item", steps: [
    step("cities", "echo", [], { list: Array.from({ length: ITEMS }, (_, n) => ({ name: `city-${n}`, failures: n === ITEMS - 3 ? 1 : 0 })) }),
    { id: "search", agent_type: "flaky", dependencies: ["cities"], for_each: "{{ steps.cities.outputs.list }}", as: "city", on_item_failure: "continue", retry: { max: 0 }, inputs: { failures: "{{ city.failures }}", city: "{{ city.name }}" } },
    { id: "again", agent_type: "echo", inputs: { round: "{{ iteration }}" }, repeat: { until: "iteration >= 3", max: 5 } },
  ],
});

const waits = () => ({ name: "Waits", steps: [step("wait", "sleep", [], HOUR, LONG)] });

/** An installation of its own, with so many plans that a list has a second page. */
async function places() {
  const goalmill = await Goalmill.start();
  const ids = { map: await goalmill.submit(ended()), waits: await goalmill.submit(waits()) };
  for (let i = 0; i < 13; i++) await Promise.all(Array.from({ length: 10 }, (_, n) => goalmill.submit({ name: `plan ${i * 10 + n}`, steps: [{ id: "end", kind: "finish" }] })));
  for (const description of ["First", "Second"]) await goalmill.call("POST", "/v1/stored-plans/trip/versions", { name: "trip", description, steps: [{ id: "end", kind: "finish" }] });
  await goalmill.awaitStatus(ids.map, "partial");
  await goalmill.awaitPlan(ids.waits, (plan) => plan.steps[0].status === "running");
  return { goalmill, ids };
}

export function placeTests() {
  let made;
  const given = () => (made ||= places());
  return [
    { name: "places: every address loads, also when only its query differs", run: () => everyAddress(given) },
    { name: "places: the way back keeps rows, scroll and focus", run: () => wayBack(given) },
    { name: "places: items of an ended map load however it is selected, failed ones first", run: () => itemsOfMap(given) },
    { name: "places: iterations are called so, with their outputs", run: () => iterations(given) },
    { name: "places: reports of progress are folded", run: () => progressFolded(given) },
    { name: "places: a dialog begins in its first field, and / finds a search on a plan", run: () => fields(given) },
  ];
}

/** What a screen says, without times that pass. */
const said = (page) => page.evaluate(() => document.getElementById("main").innerText.replace(/[\d.,]+ ?(ms|s|min|h)\b( ago)?|just now|now|\d\d:\d\d:\d\d[.\d]*/g, "_"));

async function everyAddress(given) {
  const { goalmill, ids } = await given();
  const plan = `#/plans/${ids.map}`;
  const pairs = [
    ["#/plans?q=nothing-like-this", "#/plans"], ["#/plans?status=running", "#/plans?status=partial"], ["#/history?q=nothing-like-this", "#/history?status=partial"],
    [`#/compare?a=${ids.map}@0&b=${ids.waits}`, `#/compare?a=${ids.waits}&b=${ids.map}`], ["#/stored/trip?version=1", "#/stored/trip?version=2"], ["#/stored?q=nothing", "#/stored?q=trip"],
    ["#/events?types=goal_accepted&q=nothing-like-this", `#/events?types=plan_created&plan=${ids.map}`], [`${plan}?tab=goal`, `${plan}?tab=results`], [`${plan}?step=cities`, `${plan}?step=again`], [`${plan}?seq=2`, `${plan}?seq=4&tab=events`], [`${plan}?seq=2`, plan],
    ["#/playground", "#/playground?tab=route"], ["#/dead-letters", "#/dead-letters?q=nothing"],
  ];
  for (const [first, second] of pairs) {
    for (const [from, to] of [[first, second], [second, first]]) {
      const fresh = await open(goalmill, to), walked = await open(goalmill, from);
      await shown(fresh.page, to);
      await shown(walked.page, from);
      await goTo(walked.page, to);
      // Both are live: they say the same within some polls.
      await until(`${from} → ${to} shows what the address shows`, async () => {
        const [expected, found] = await Promise.all([said(fresh.page), said(walked.page)]);
        if (expected !== found) throw new Error(`${JSON.stringify(found.slice(0, 600))}, not ${JSON.stringify(expected.slice(0, 600))}`);
        return true;
      }, 20_000);
      for (const own of [fresh, walked]) { await finish(own); await close(own); }
    }
  }
}

async function wayBack(given) {
  const { goalmill } = await given();
  const own = await open(goalmill, "#/plans");
  const { page } = own;
  await settled(page);
  await page.getByRole("button", { name: "Load older plans" }).click();
  await page.locator(".plan-table tbody tr").nth(ROWS).waitFor();
  const row = page.locator(".plan-table tbody th a").nth(ROWS);
  await row.scrollIntoViewIfNeeded();
  const before = await page.evaluate(() => window.scrollY), href = await row.getAttribute("href");
  expect(before > 500, `the list is scrolled, by ${before}`);
  await row.click();
  await page.locator(".plan-head").waitFor();
  await page.goBack();
  await page.locator(".plan-table tbody tr").nth(ROWS).waitFor();
  await holds(page, "the list is where it was", (top) => Math.abs(window.scrollY - top) < 30, before);
  await holds(page, "the focus is on the row", (to) => document.activeElement.getAttribute("href") === to, href);
  await finish(own);
  await close(own);
}

async function itemsOfMap(given) {
  const { goalmill, ids } = await given();
  const first = async (page) => {
    await page.locator(".items tbody tr").first().waitFor();
    expect((await page.locator(".items tbody tr").first().textContent()).includes(`${ITEMS - 3}`), "the failed item is the first");
  };
  const linked = await open(goalmill, `#/plans/${ids.map}?step=search`);
  await first(linked.page);
  await linked.page.locator(".step-panel .status", { hasText: "partial" }).first().waitFor();
  const { page } = linked;
  await page.locator(".items select").selectOption("failed");
  await counted(page, ".items tbody tr", 1);
  await page.locator(".items select").selectOption("");
  await counted(page, ".items tbody tr", 51);
  await finish(linked);
  await close(linked);
  const own = await open(goalmill, `#/plans/${ids.map}`);
  await settled(own.page);
  await own.page.locator(".timeline .row").first().waitFor();
  await own.page.keyboard.press("f");
  await first(own.page);
  await finish(own);
  await close(own);
}

async function iterations(given) {
  const { goalmill, ids } = await given();
  const own = await open(goalmill, `#/plans/${ids.map}?step=again`);
  const { page } = own;
  await page.locator(".step-panel .attempts").waitFor();
  const text = await page.locator(".step-panel .attempts").innerText();
  expect(!text.includes("revised") && text.includes("iteration 1") && text.includes("iteration 2"), `the attempts are iterations: ${text}`);
  await page.getByText("Outputs of iteration 1").click();
  await page.locator(".step-panel .attempts .line", { hasText: "round" }).first().waitFor();
  expect(await page.locator(".timeline .attempt.tone-idle").count() === 0, "no iteration is grey");
  await finish(own);
  await close(own);
}

async function progressFolded(given) {
  const { goalmill, ids } = await given();
  // A step that reports its progress 300 times: its log is the recorded one with more events.
  const { items } = await goalmill.get(`/v1/plans/${ids.map}/events?limit=1000`);
  const begun = items.find((event) => event.type === "step_started");
  const reports = Array.from({ length: REPORTS }, (_, n) => ({ ...begun, type: "step_progress", data: { progress: n / REPORTS, message: `row ${n}` } }));
  const log = [...items.slice(0, begun.seq), ...reports, ...items.slice(begun.seq)].map((event, n) => ({ ...event, seq: n + 1 }));
  // The scheduler does not know the last of them.
  const long = (page) => { page.isInterrupted = true; return page.context.route(/\/events\?limit=/, (route) => route.fulfill({ contentType: "application/json", body: JSON.stringify({ items: log }) })); };
  const own = await open(goalmill, `#/plans/${ids.map}?tab=events`, { before: long });
  const { page } = own;
  await page.locator(".event-table tbody tr").first().waitFor();
  expect(!(await page.locator(".event-table").innerText()).includes("step progress"), "no report of progress is listed");
  await page.getByLabel(`${REPORTS} reports of progress`).check();
  await page.locator(".event-table", { hasText: "step progress" }).waitFor();
  await page.getByLabel("Event", { exact: true }).focus();
  expect(await page.getByLabel("Event", { exact: true }).getAttribute("max") === String(items.length), "the slider has a place for each other event");
  for (let i = 0; i < items.length; i++) {
    await page.keyboard.press("ArrowLeft");
    expect(!(await page.locator(".slider-event").innerText()).includes("step progress"), "the slider passes over them");
  }
  await finish(own);
  await close(own);
}

async function fields(given) {
  const { goalmill, ids } = await given();
  const own = await open(goalmill, `#/plans/${ids.waits}?tab=goal`);
  const { page } = own;
  await settled(page);
  await page.getByRole("button", { name: "Pause", exact: true }).last().click();
  await page.getByRole("dialog").waitFor();
  await holds(page, "the focus is in the first field", () => document.activeElement.closest("dialog") && document.activeElement.name === "reason");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await goTo(page, `#/plans/${ids.waits}?tab=events`);
  await page.keyboard.press("/");
  await holds(page, "the focus is in a search", () => document.activeElement.type === "search");
  await finish(own);
  await close(own);
}
