// Tokens on the page: made, shown once, listed without their secrets, revoked; for administrators only.

import { check, close, counted, expect, finish, goTo, settled } from "./browser.js";
import { Goalmill, until } from "./goalmill.js";
import { openAs } from "./thousand.js";

const WIDTHS = [390, 1440];
const ADMIN = "an-administrator-of-this-test-run";

async function installation() {
  const goalmill = await Goalmill.startWith({ GOALMILL__API__AUTHENTICATION: "required", GOALMILL__API__ADMIN_TOKEN_ENV: "GOALMILL_TOKEN", GOALMILL_TOKEN: ADMIN });
  goalmill.host = "localhost";
  goalmill.token = ADMIN;
  return { goalmill, tokens: { admin: ADMIN } };
}

export function tokenTests() {
  return [{ name: "tokens: an administrator makes, lists and revokes them; others see none", run: managed }];
}

async function managed() {
  const given = await installation();
  const { goalmill } = given;
  const own = await openAs(given, "admin", "#/plans");
  const { page } = own;
  await page.locator("body").press("g");
  await page.locator("body").press("k");
  await page.getByText("No token yet").waitFor();
  await page.getByRole("button", { name: "New token …" }).click();
  const dialog = page.getByRole("dialog"), create = dialog.getByRole("button", { name: "Create" });
  await create.click();
  await dialog.getByText("Fill this in.").waitFor();
  await dialog.getByLabel("Name of the caller").fill("system:x");
  await create.click();
  await dialog.locator(".field", { hasText: "Name of the caller" }).getByText("reserved").waitFor();
  await dialog.getByLabel("Name of the caller").fill("ann");
  await dialog.getByLabel("approver").check();
  await check(own, "tokens-dialog");
  await create.click();
  const secret = (await page.locator(".token").innerText()).trim();
  const asAnn = await fetch(`${goalmill.url}/v1/session`, { headers: { Authorization: `Bearer ${secret}` } });
  const who = await asAnn.json();
  expect(who.actor === "ann" && who.roles.join() === "viewer,approver", JSON.stringify(who));
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 900 });
    for (const theme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: theme });
      await check(own, `tokens-${width}-${theme}`);
    }
  }
  // A screen that begins again still has it, and one that is left has not.
  await page.getByRole("button", { name: /^Times: / }).click();
  await page.locator(".token", { hasText: secret }).waitFor();
  await page.getByRole("button", { name: /^Times: / }).click();
  await page.locator(".token", { hasText: secret }).waitFor();
  expect(await page.locator("[role=status], [aria-live]").evaluateAll((all, text) => all.every((one) => !one.textContent.includes(text)), secret), "the secret is not read aloud");
  await page.getByRole("button", { name: "I have it" }).click();
  await page.locator(".token").waitFor({ state: "detached" });
  await counted(page, "tbody tr", 1);
  expect(!(await page.content()).includes(secret), "the secret is nowhere any more");
  await goTo(page, "#/plans");
  await goTo(page, "#/tokens");
  expect(!(await page.content()).includes(secret), "not after a while either");
  // Somebody else has no way to it.
  const viewer = await openAs({ goalmill, tokens: { ann: secret } }, "ann", "#/plans");
  expect(await viewer.page.getByRole("link", { name: "Tokens" }).count() === 0, "the navigation has no tokens");
  await goTo(viewer.page, "#/tokens");
  await viewer.page.getByText("Not allowed").waitFor();
  await finish(viewer);
  // An administrator of one namespace has none either.
  const { token: ofOne } = await goalmill.call("POST", "/v1/tokens", { actor: "ben", roles: ["admin"], namespace: "default" });
  const local = await openAs({ goalmill, tokens: { ben: ofOne } }, "ben", "#/plans");
  expect(await local.page.getByRole("link", { name: "Tokens" }).count() === 0, "nor that of a namespace");
  await goTo(local.page, "#/tokens");
  await local.page.getByText("Not allowed").waitFor();
  await finish(local);
  await close(local);
  await counted(page, "tbody tr", 2);
  await page.getByRole("button", { name: "Revoke the token of ann" }).click();
  await page.getByRole("dialog").getByText("which has the roles viewer, approver").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await counted(page, "tbody tr", 1);
  await until("it is not valid", async () => (await fetch(`${goalmill.url}/v1/plans`, { headers: { Authorization: `Bearer ${secret}` } })).status === 401);
  await close(viewer);
  await settled(page);
  await finish(own);
  await close(own);
  await goalmill.stop();
}
