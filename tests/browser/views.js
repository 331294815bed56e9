// Saved views of the list of plans: named filters in the browser, with an address that can be sent.

import { check, close, counted, expect, finish, goTo, holds, open, settled } from "./browser.js";
import { step } from "./fixture.js";
import { Goalmill } from "./goalmill.js";

const WIDTHS = [390, 1440];

async function plans() {
  const goalmill = await Goalmill.start();
  for (const name of ["alpha", "bravo", "delta"]) await goalmill.submit({ name: `Order ${name}`, steps: [step("a", "nobody")] });
  const failed = await goalmill.submit({ name: "Order that fails", steps: [step("a", "fail", [], { code: "NO" }, { retry: { max: 0 } })] });
  await goalmill.awaitStatus(failed, "failed");
  return goalmill;
}

export function viewTests() {
  let made;
  const given = () => (made ||= plans());
  return [{ name: "views: filters are kept under a name, found again, changed, shared and deleted", run: () => kept(given) }];
}

const dialog = (page) => page.getByRole("dialog");
const view = (page, name) => page.locator("nav.views").getByRole("link", { name, exact: true });

async function save(page, name) {
  await dialog(page).getByLabel("Name").fill(name);
  await page.keyboard.press("Enter");
  await dialog(page).waitFor({ state: "detached" });
}

async function kept(given) {
  const goalmill = await given();
  const own = await open(goalmill, "#/plans");
  const { page } = own;
  await counted(page, ".plan-table tbody tr", 4);
  expect(await page.locator("nav.views").count() === 0, "nothing is there to be saved");
  await page.getByLabel("Status").selectOption("failed");
  await counted(page, ".plan-table tbody tr", 1);
  await page.getByRole("button", { name: "Save as a view …" }).click();
  await dialog(page).getByRole("button", { name: "Save" }).click();
  await dialog(page).getByText("Fill this in.").waitFor();
  await save(page, "Failed orders");
  await view(page, "Failed orders").waitFor();
  await holds(page, "the address has the view", () => location.hash.includes("status=failed") && location.hash.includes("view=Failed"));
  await page.reload();
  await settled(page);
  await view(page, "Failed orders").waitFor();
  await page.getByLabel("Status").selectOption("running");
  await counted(page, ".plan-table tbody tr", 3);
  await page.locator("nav.views").getByText("(changed)").waitFor();
  await page.getByRole("button", { name: "Save as another …" }).click();
  await dialog(page).getByLabel("Name").fill("Failed orders");
  await dialog(page).getByRole("button", { name: "Save" }).click();
  await dialog(page).getByText("There is a view Failed orders already.").waitFor();
  await save(page, "Running");
  await view(page, "Failed orders").click();
  await counted(page, ".plan-table tbody tr", 1);
  expect(await page.getByLabel("Status").inputValue() === "failed", "the first view is as it was");
  await view(page, "All plans").focus();
  await page.keyboard.press("Enter");
  await counted(page, ".plan-table tbody tr", 4);
  await goTo(page, "#/plans?status=running&view=Running");
  await page.getByPlaceholder("Words of names").fill("bravo");
  await page.getByRole("button", { name: "Update the view" }).click();
  await page.locator("nav.views").getByText("(changed)").waitFor({ state: "detached" });
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 900 });
    for (const theme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: theme });
      await check(own, `views-${width}-${theme}`);
    }
  }
  // Somebody else gets the address.
  const other = await open(goalmill, new URL(page.url()).hash);
  await counted(other.page, ".plan-table tbody tr", 1);
  await other.page.getByText("The view Running of this address is not saved here.").waitFor();
  await other.page.getByRole("button", { name: "Save as a view …" }).click();
  expect(await dialog(other.page).getByLabel("Name").inputValue() === "Running", "its name is offered");
  await page.keyboard.press("Escape");
  await finish(other);
  await close(other);
  await page.getByRole("button", { name: "Rename …" }).click();
  await dialog(page).getByLabel("Name").fill("Failed orders");
  await page.keyboard.press("Enter");
  await dialog(page).getByText("There is a view Failed orders already.").waitFor();
  await save(page, "Running bravos");
  await page.getByRole("button", { name: "Delete …" }).click();
  await dialog(page).getByRole("button", { name: "Delete" }).click();
  await view(page, "Running bravos").waitFor({ state: "detached" });
  await view(page, "Failed orders").waitFor();
  // What storage has may be anything.
  await page.evaluate(() => localStorage.setItem("goalmill.views", '[{"name":1},null,{"owner":"x","name":"y","query":"z"}]'));
  await page.reload();
  await settled(page);
  await finish(own);
  await close(own);
}
