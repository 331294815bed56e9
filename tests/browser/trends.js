// Trends: the last runs of a stored plan, and what the cost of a period was for.

import { check, close, counted, expect, finish, goTo, open, settled } from "./browser.js";
import { step } from "./fixture.js";
import { Goalmill } from "./goalmill.js";

const WIDTHS = [390, 1440];
const RUNS = 7;

const bill = (description, more = []) => ({
  name: "bill", description, input_schema: { type: "object", required: ["cost"], properties: { cost: { type: "number" } } },
  steps: [step("pay", "spend", [], { cost: "{{ inputs.cost }}" }), ...more],
});

async function trends() {
  const goalmill = await Goalmill.start();
  await goalmill.call("POST", "/v1/stored-plans/bill/versions", bill("Pays a bill"));
  await goalmill.call("POST", "/v1/stored-plans/bill/versions", bill("Pays a bill and fails", [step("say", "fail", ["pay"], { code: "NO" }, { retry: { max: 0 } })]));
  await goalmill.call("POST", "/v1/stored-plans/unused/versions", { name: "unused", steps: [step("a", "echo")] });
  // One that has its name, and was not begun from it.
  const other = await goalmill.submit({ ...bill("Of its own"), inputs: { cost: 4 } });
  await goalmill.awaitStatus(other, "completed");
  const ids = [];
  for (let i = 0; i < RUNS; i++) {
    const { plan_id } = await goalmill.call("POST", `/v1/stored-plans/bill@${i === 4 ? 2 : 1}:run`, { inputs: { cost: 0.5 + i } });
    await goalmill.awaitStatus(plan_id, "completed", "failed");
    ids.push(plan_id);
  }
  return { goalmill, ids };
}

export function trendTests() {
  let made;
  const given = () => (made ||= trends());
  return [
    { name: "trends: the last runs of a stored plan, with a table behind the charts", run: () => runs(given) },
    { name: "trends: the cost of a period by day, namespace, agent type and model", run: () => costs(given) },
  ];
}

async function everywhere(own, name) {
  for (const width of WIDTHS) {
    await own.page.setViewportSize({ width, height: 900 });
    for (const theme of ["light", "dark"]) {
      await own.page.emulateMedia({ colorScheme: theme });
      await check(own, `${name}-${width}-${theme}`);
    }
  }
}

async function runs(given) {
  const { goalmill, ids } = await given();
  const own = await open(goalmill, "#/stored/bill");
  const { page } = own;
  await settled(page);
  await counted(page, ".trend:first-child .column", RUNS);
  await page.getByText("6 of 7 (86 %)").waitFor();
  expect(await page.locator(".trend:first-child .column.tone-bad").count() === 1, "the failed one is seen");
  const heights = await page.locator(".trend:last-child .column > span").evaluateAll((bars) => bars.map((bar) => bar.getBoundingClientRect().height));
  expect(heights.every((height, i) => !i || height > heights[i - 1]), `the oldest is on the left: ${heights}`);
  await page.getByText(`Table of ${RUNS} runs`).click();
  const rows = page.locator("table", { hasText: "Last runs" }).locator("tbody tr");
  expect((await rows.first().innerText()).includes(ids[RUNS - 1]) && (await rows.first().innerText()).includes("$6.50"), "the newest is the first row");
  expect((await rows.nth(2).innerText()).includes("failed"), "with its status");
  await everywhere(own, "trends-runs");
  await rows.first().getByRole("link", { name: "Compare with the one before" }).click();
  await page.waitForFunction((id) => location.hash.startsWith("#/compare") && location.hash.includes(id), ids[RUNS - 2]);
  await goTo(page, "#/stored/unused");
  await page.getByText("No run yet").waitFor();
  // It is live.
  await goTo(page, "#/stored/bill");
  await goalmill.call("POST", "/v1/stored-plans/bill@1:run", { inputs: { cost: 1 } });
  await counted(page, ".trend:first-child .column", RUNS + 1);
  await finish(own);
  await close(own);
}

async function costs(given) {
  const { goalmill } = await given();
  const own = await open(goalmill, "#/stats?period=604800000");
  const { page } = own;
  await settled(page);
  const agents = page.locator("table", { hasText: "Cost by agent type" });
  await agents.locator("tbody tr", { hasText: "spend" }).waitFor();
  await page.locator("table", { hasText: "Cost by namespace" }).locator("tbody tr", { hasText: "default" }).getByText("100 %").waitFor();
  await counted(page, ".columns .column", 8);
  await page.getByText("Table of 8 days").click();
  const day = new Date().toISOString().slice(0, 10);
  const row = page.locator("table", { hasText: "Cost by day" }).locator("tbody tr", { hasText: day });
  expect(/\$\d/.test(await row.innerText()) && !(await row.innerText()).includes("$0\n"), "today has its cost");
  await everywhere(own, "trends-costs");
  await goTo(page, "#/stats");
  await settled(page);
  await finish(own);
  await close(own);
}
