// Signing in with a token, and what each role sees: every screen without a role, for a viewer, and for an administrator.

import { check, close, expect, finish, goTo, open, settled } from "./browser.js";
import { Goalmill } from "./goalmill.js";
import { PARIS } from "./fixture.js";
import { Provider } from "./provider.js";
import { screens } from "./screens.js";

const ADMIN = "an-administrator-of-this-test-run";
const STEPS = [{ id: "a", agent_type: "echo", inputs: { text: "hello" } }];
/** What only ask the API when a button is pressed. */
const BUTTONS = {
  playground: (page) => page.getByLabel("Goal", { exact: true }).fill(PARIS).then(() => page.getByRole("button", { name: "Preview the plan" }).click()),
  routing: (page) => page.getByLabel("A task, in words").fill("find a hotel").then(() => page.getByRole("button", { name: "Which agent would take it?" }).click()),
};

/** An installation that requires tokens, with a token for each role that is used here. */
async function guarded() {
  const goalmill = await Goalmill.startWith({ GOALMILL__API__AUTHENTICATION: "required", GOALMILL__API__ADMIN_TOKEN_ENV: "GOALMILL_TOKEN", GOALMILL_TOKEN: ADMIN });
  // Browsers keep a secure cookie for this name without TLS.
  goalmill.host = "localhost";
  goalmill.token = ADMIN;
  const made = async (role) => (await goalmill.call("POST", "/v1/tokens", { actor: `${role}-1`, roles: [role] })).token;
  const tokens = { scaler: await made("scaler"), viewer: await made("viewer"), admin: ADMIN };
  const plan = await goalmill.submit({ name: "Say hello", steps: STEPS });
  await goalmill.awaitStatus(plan, "completed");
  const waiting = await goalmill.submitGoal({ description: PARIS, planning: { planner: "rules", require_approval: true } });
  await goalmill.awaitStatus(waiting, "awaiting_approval");
  return { goalmill, tokens, ids: { release: plan, waiting, revised: plan } };
}

async function signIn(page, token) {
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: /^Sign in/ }).click();
}

/** Opens the page, signed in. Requests that are refused are what these tests are about. */
async function openAs({ goalmill, tokens }, role) {
  const own = await open(goalmill, "#/plans", { before: (page) => { page.isInterrupted = true; } });
  await settled(own.page);
  await signIn(own.page, tokens[role]);
  await own.page.locator("nav").first().waitFor();
  return own;
}

async function go(own, name, hash) {
  await goTo(own.page, hash);
  // Without the role, there is no button.
  if (!BUTTONS[name] || (name === "playground" && await own.page.locator(".notice.forbidden").count())) return;
  await BUTTONS[name](own.page);
  await own.page.locator("#preview-title, main h2, .notice.forbidden").first().waitFor();
  await settled(own.page);
}

export function accessTests(given) {
  return [
    { name: "access sign in and out", run: () => signInAndOut(given) },
    { name: "access sign in at the provider", run: signInAtProvider },
    { name: "access every screen without a role is forbidden", run: () => everyScreen(given, "scaler") },
    { name: "access every screen for a viewer", run: () => everyScreen(given, "viewer") },
    { name: "access every screen for an administrator", run: () => everyScreen(given, "admin") },
  ];
}

export { guarded };

async function signInAndOut(given) {
  const { goalmill, tokens } = await given.guarded();
  const own = await open(goalmill, "#/agents", { before: (page) => { page.isInterrupted = true; } });
  const { page } = own;
  await settled(page);
  await check(own, "sign-in");
  await signIn(page, "gm_wrong");
  await page.getByRole("alert").getByText("The token is not valid").waitFor();
  await check(own, "sign-in-refused");
  await signIn(page, tokens.viewer);
  await page.getByRole("heading", { name: "Agents" }).waitFor();
  expect((await page.locator(".who").textContent()).includes("viewer-1"), "the page says who is signed in");
  // The session outlives a reload, and scripts do not see its cookie; the token is nowhere.
  await page.reload();
  await page.getByRole("heading", { name: "Agents" }).waitFor();
  const seen = await page.evaluate(() => document.cookie + JSON.stringify({ ...localStorage }) + JSON.stringify({ ...sessionStorage }) + location.href);
  expect(!seen.includes("__Host-") && !seen.includes(tokens.viewer), "neither cookie nor token can be read");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Token").waitFor();
  expect((await own.context.cookies()).every((cookie) => !cookie.value), "the cookie is gone");
  await page.reload();
  await page.getByLabel("Token").waitFor();
  await finish(own);
  await close(own);
}

async function everyScreen(given, role) {
  const installation = await given.guarded();
  const own = await openAs(installation, role);
  const { page } = own;
  for (const [name, hash] of screens(installation.ids)) {
    await go(own, name, hash);
    const forbidden = page.locator(".notice.forbidden");
    // Previews are for submitters; everybody who reads may ask the router.
    if (role === "scaler" || (role === "viewer" && name === "playground")) await forbidden.first().waitFor();
    else expect((await forbidden.count()) === 0, `${name} is not forbidden to ${role}: ${await forbidden.allTextContents()}`);
    await check(own, `${name}-${role}`);
  }
  if (role !== "scaler") {
    await go(own, "review", `#/plans/${installation.ids.waiting}`);
    await page.locator(".plan-head").waitFor();
    const count = await page.getByRole("button", { name: "Cancel plan" }).count();
    expect(count === (role === "admin" ? 1 : 0), `${role} sees ${count} buttons that cancel`);
  }
  await finish(own);
  await close(own);
}

async function signInAtProvider() {
  const provider = await Provider.start();
  const goalmill = await Goalmill.startWith({ GOALMILL__API__AUTHENTICATION: "required", GOALMILL__API__ADMIN_TOKEN_ENV: "GOALMILL_TOKEN", GOALMILL_TOKEN: ADMIN });
  // The address of the page is known only now, and the provider must send browsers back to it.
  await goalmill.kill();
  goalmill.host = "localhost";
  goalmill.configure(`[api.oidc]\nissuer = "${provider.issuer}"\naudiences = ["goalmill"]\nroles_claim = "groups"\nroles = { viewer = ["team"] }\nclient_id = "page"\npublic_url = "${goalmill.url}"\nprovider_name = "Example"\n`);
  await goalmill.spawn();
  const own = await open(goalmill, "#/plans", { before: (page) => { page.isInterrupted = true; page.mayLeave = true; } });
  const { page } = own;
  const button = page.getByRole("link", { name: "Sign in with Example" });
  await button.waitFor();
  await check(own, "sign-in-provider");
  provider.refuses = true;
  await button.click();
  await page.getByRole("alert").getByText("The provider did not let you in").waitFor();
  await check(own, "sign-in-denied");
  provider.refuses = false;
  await button.click();
  await page.getByRole("heading", { name: "Plans", exact: true }).waitFor();
  expect((await page.locator(".who").textContent()).includes("oidc:ann"), "the page says who is signed in");
  expect(!page.url().includes("code=") && !page.url().includes("state="), "neither code nor state stays in the address");
  await page.reload();
  await page.getByRole("heading", { name: "Plans", exact: true }).waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await button.waitFor();
  await finish(own);
  await close(own);
  provider.close();
}
