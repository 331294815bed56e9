// Approvals of the items of a map: one card, and one action for all or for some of them.

import { check, close, counted, expect, finish, goTo, settled } from "./browser.js";
import { step } from "./fixture.js";
import { Goalmill, until } from "./goalmill.js";
import { openAs } from "./thousand.js";

const ITEMS = 15;
const WIDTHS = [390, 1440];
const ADMIN = "an-administrator-of-this-test-run";

const pays = (name, more) => ({
  name, steps: [
    step("hotels", "echo", [], { list: Array.from({ length: ITEMS }, (_, n) => ({ name: `Hotel ${n}`, amount: 100 + n })) }),
    { id: "pay", agent_type: "echo", dependencies: ["hotels"], description: "Pay the hotel", for_each: "{{ steps.hotels.outputs.list }}", as: "hotel", inputs: { name: "{{ hotel.name }}", amount: "{{ hotel.amount }}", ...more }, on_item_failure: "continue", approve: { limit: "5h" } },
  ],
});

async function items() {
  const goalmill = await Goalmill.startWith({ GOALMILL__API__AUTHENTICATION: "required", GOALMILL__API__ADMIN_TOKEN_ENV: "GOALMILL_TOKEN", GOALMILL_TOKEN: ADMIN });
  goalmill.host = "localhost";
  goalmill.token = ADMIN;
  const made = async (role) => (await goalmill.call("POST", "/v1/tokens", { actor: `${role}-1`, roles: [role] })).token;
  const tokens = { viewer: await made("viewer"), approver: await made("approver"), admin: ADMIN };
  const ids = { flat: await goalmill.submit(pays("Pay every hotel")), nested: await goalmill.submit(pays("Pay with details", { to: { bank: "one", note: "x".repeat(300) } })) };
  await until("all items wait", async () => (await goalmill.get("/v1/overview")).waits === 2 * ITEMS);
  return { goalmill, tokens, ids };
}

export function itemTests() {
  let made;
  const given = () => (made ||= items());
  return [{ name: "items: approvals of a map are one card, decided for some or for all", run: () => decided(given) }];
}

const card = (page, name) => page.locator(".card-item", { hasText: name });

async function decided(given) {
  const installation = await given();
  const { goalmill, ids } = installation;
  const { steps } = await goalmill.get(`/v1/plans/${ids.flat}`);
  const inner = steps.find((one) => one.id === "pay").sub_plan;
  const statuses = async () => Object.fromEntries((await goalmill.get(`/v1/plans/${inner}`)).steps.map((one) => [one.id, one.status]));

  const viewer = await openAs(installation, "viewer", "#/approvals");
  await counted(viewer.page, ".card-item", 2);
  await card(viewer.page, "Pay every hotel").getByText("Hotel 3").waitFor();
  expect(await viewer.page.locator(".card-item input, .card-item button.danger-quiet").count() === 0, "a viewer decides nothing");
  await finish(viewer);
  await close(viewer);

  const own = await openAs(installation, "approver", "#/approvals");
  const { page } = own;
  await counted(page, ".card-item", 2);
  await page.getByRole("link", { name: "Approvals" }).locator(".count", { hasText: String(2 * ITEMS) }).waitFor();
  const flat = card(page, "Pay every hotel");
  await flat.getByText(`${ITEMS} items of pay wait for approval: Pay the hotel`).waitFor();
  expect((await flat.locator("thead").innerText()).toLowerCase().includes("amount"), "inputs are columns");
  await card(page, "Pay with details").locator("code", { hasText: '"bank":"one"' }).first().waitFor();
  await flat.getByRole("button", { name: "Show more of 3 items" }).click();
  await flat.getByText(`Hotel ${ITEMS - 1}`).waitFor();
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 900 });
    for (const theme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: theme });
      await check(own, `items-${width}-${theme}`);
    }
  }
  const nested = card(page, "Pay with details").locator("tbody tr").first();
  expect(!(await nested.innerText()).includes("x".repeat(200)), "long inputs are cut");
  await nested.getByRole("button", { name: "Show all" }).click();
  await nested.getByText("x".repeat(300)).waitFor();
  // Some, by the keyboard.
  for (const id of ["pay:0", "pay:3"]) { await flat.getByLabel(`Select ${id}`, { exact: true }).focus(); await page.keyboard.press("Space"); }
  await flat.getByRole("button", { name: "Approve 2 …" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").getByLabel("Reason").fill("within budget");
  await page.keyboard.press("Enter");
  await until("the two have run", async () => { const found = await statuses(); return found["pay:0"] === "completed" && found["pay:3"] === "completed"; });
  expect(Object.values(await statuses()).filter((one) => one === "awaiting_approval").length === ITEMS - 2, "the others wait");
  await flat.getByText(`${ITEMS - 2} items of pay`).waitFor();
  // What is decided elsewhere leaves the selection, and no button becomes another.
  await flat.getByLabel("Select pay:5", { exact: true }).check();
  await flat.getByRole("button", { name: "Approve 1 …" }).waitFor();
  await goalmill.call("POST", `/v1/plans/${inner}/steps/pay:5:approve`, {});
  await flat.getByRole("button", { name: "Approve 0 …" }).waitFor();
  expect(await flat.getByRole("button", { name: "Approve 0 …" }).isDisabled(), "nothing is left to approve");
  await flat.getByRole("button", { name: `Approve all ${ITEMS - 3} …` }).waitFor();
  await flat.getByLabel("Select pay:7", { exact: true }).check();
  await flat.getByRole("button", { name: "Reject 1 …" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Reject 1" }).click();
  await flat.getByText(`${ITEMS - 4} items of pay`).waitFor();
  // All, on the screen of the plan inside.
  await goTo(page, `#/plans/${inner}`);
  await page.locator(".why").getByRole("button", { name: `Reject all ${ITEMS - 4} …` }).waitFor();
  expect(await page.locator(".why button").count() < 12, "not two buttons for each item");
  await goTo(page, "#/approvals");
  await flat.getByRole("button", { name: `Approve all ${ITEMS - 4} …` }).click();
  await page.getByRole("dialog").getByRole("button", { name: `Approve all ${ITEMS - 4}` }).click();
  await goalmill.awaitStatus(ids.flat, "partial");
  const found = await statuses();
  expect(found["pay:7"] === "failed" && Object.values(found).filter((one) => one === "completed").length === ITEMS - 1, JSON.stringify(found));
  const { items: events } = await goalmill.get(`/v1/plans/${inner}/events?step=pay:0`);
  expect(JSON.stringify(events).includes("within budget") && JSON.stringify(events).includes("approver-1"), "the log says who and why");
  await counted(page, ".card-item", 1);
  // Steps that only have such ids are decisions of their own.
  await goalmill.submit({ name: "Two orders", steps: ["order:1", "order:2"].map((id) => step(id, "echo", [], {}, { approve: { limit: "5h" } })) });
  await counted(page, ".card-item", 3);
  // In the panel of the map.
  await goTo(page, `#/plans/${ids.nested}?step=pay`);
  await settled(page);
  await page.getByLabel("Items with the status").selectOption("awaiting_approval");
  await page.locator(".items").getByRole("button", { name: "Approve step" }).first().waitFor();
  await finish(own);
  await close(own);
}
