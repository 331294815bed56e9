// The page without a pointer.

import { close, expect, finish, holds, open, settled, shown } from "./browser.js";
import { until } from "./goalmill.js";

const focused = (page, read) => page.evaluate(read);

/** Presses Tab until the focus is in `selector`. */
async function tabTo(page, selector, most = 150) {
  for (let i = 0; i < most; i++) {
    if (await page.evaluate((wanted) => document.activeElement && document.activeElement.matches(wanted), selector)) return;
    await page.keyboard.press("Tab");
  }
  throw new Error(`${most} times Tab do not reach \`${selector}\``);
}

export function keyboardTests(given) {
  return [
    { name: "keyboard from the plans over the graph to the panel of a step", run: () => walk(given) },
    { name: "keyboard reaches the graph wherever its boxes stand", run: () => reach(given) },
    { name: "keyboard approves a step", run: () => approve(given) },
  ];
}

async function walk(given) {
  const { goalmill, ids } = await given.filled();
  const own = await open(goalmill, "#/approvals");
  const { page } = own;
  await settled(page);
  // The second key counts for a moment only; a busy machine may be slower.
  await until("`g p` opens the plans", async () => {
    await page.keyboard.press("g");
    await page.keyboard.press("p");
    return new URL(page.url()).hash === "#/plans";
  });
  await shown(page, "#/plans");
  await tabTo(page, `main tbody a[href="#/plans/${ids.release}"]`);
  await page.keyboard.press("Enter");
  await shown(page, `#/plans/${ids.release}`);
  await tabTo(page, "svg.graph .node");
  const at = () => focused(page, () => document.activeElement.dataset.step);
  expect(await at() === "checkout", `the graph begins at its first step, not at ${await at()}`);
  await page.keyboard.press("ArrowRight");
  const built = await at();
  expect(/^build-|^audit$/.test(built), `an arrow follows an edge, to ${built}`);
  await page.keyboard.press("ArrowDown");
  expect(await at() !== built, "an arrow goes to the neighbour");
  const chosen = await at();
  await page.keyboard.press("Enter");
  await page.locator("#step-title").waitFor();
  await page.locator("#step-title", { hasText: chosen }).waitFor();
  expect(new URL(page.url()).hash.includes(`step=${encodeURIComponent(chosen)}`), "the address has the step");
  await tabTo(page, ".step-panel button");
  await page.keyboard.press("Escape");
  await page.locator("#step-title").waitFor({ state: "detached" });
  await holds(page, "the focus is back in the graph", (step) => document.activeElement.dataset.step === step, chosen);
  await page.keyboard.press("t");
  await holds(page, "`t` goes to the timeline", () => Boolean(document.activeElement.closest(".timeline")));
  await page.keyboard.press("[");
  await page.locator(".slider.past").waitFor();
  await finish(own);
  await close(own);
}

async function reach(given) {
  const { goalmill, ids } = await given.filled();
  for (const plan of [ids.revised, ids.long, ids.failing]) {
    for (const width of [320, 1100]) {
      const own = await open(goalmill, `#/plans/${plan}`, { viewport: { width, height: 800 } });
      await settled(own.page);
      await own.page.locator("svg.graph").waitFor();
      await tabTo(own.page, "svg.graph .node");
      await holds(own.page, "one box of the graph is in the order of the Tab key", () => document.querySelectorAll('svg.graph .node[tabindex="0"]').length === 1);
      await finish(own);
      await close(own);
    }
  }
}

async function approve(given) {
  const { goalmill } = await given.filled();
  const id = await goalmill.submit({ name: "By keyboard", steps: [{ id: "gate", agent_type: "echo", approve: {} }] });
  await goalmill.awaitPlan(id, (plan) => plan.steps[0].status === "awaiting_approval");
  const own = await open(goalmill, `#/plans/${id}?step=gate`);
  const { page } = own;
  await settled(page);
  await page.locator("#step-title").waitFor();
  await tabTo(page, ".step-panel .buttons button");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  await holds(page, "the focus is in the dialog", () => Boolean(document.activeElement.closest("dialog")));
  await tabTo(page, 'dialog input[name="reason"]');
  await page.keyboard.type("seen");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  const plan = await goalmill.awaitStatus(id, "completed");
  expect(plan.status === "completed", "the step runs");
  await page.locator(".plan .status", { hasText: "completed" }).first().waitFor();
  await finish(own);
  await close(own);
}
