// What the page says while something is wrong, and what it keeps: typed texts, the focus, large payloads, names as they are.

import { check, close, expect, finish, goTo, holds, open, settled, wake } from "./browser.js";
import { PARIS, step } from "./fixture.js";
import { Goalmill } from "./goalmill.js";
import { openAs } from "./thousand.js";

export function truthTests(given) {
  return [
    { name: "truth: without Redis an open page says so, and a new one too", run: storeAway },
    { name: "truth: a scheduler that is not ready is not called silent", run: () => notReady(given) },
    { name: "truth: large payloads are read on demand", run: wholePayload },
    { name: "truth: a session that ends keeps what was typed", run: () => sessionEnds(given) },
    { name: "truth: another person finds nothing of what was typed", run: () => anotherPerson(given) },
    { name: "truth: the focus returns after every dialog", run: focusReturns },
    { name: "truth: printing is light in the dark", run: () => printed(given) },
    { name: "truth: hidden characters in names are shown", run: hiddenCharacters },
  ];
}

async function storeAway() {
  const goalmill = await Goalmill.startOnServers();
  const id = await goalmill.submit({ name: "Waits", steps: [step("a", "nobody-serves-this")] });
  const own = await open(goalmill, `#/plans/${id}`, { before: (page) => { page.isInterrupted = true; } });
  const { page } = own;
  await page.locator(".plan-head .live-live").waitFor();
  await goalmill.servers.stopRedis();
  const banner = page.locator(".banner");
  await banner.getByText("Redis").first().waitFor();
  await holds(page, "nothing is called live or connected", () => ![...document.querySelectorAll(".live, .page-tools, .filters")].some((el) => /\blive\b|\bconnected\b/.test(el.textContent)));
  await check(own, "store-away");
  await goTo(page, "#/plans").catch(() => {});
  await banner.getByText("Redis").first().waitFor();
  const other = await open(goalmill, "#/plans", { before: (one) => { one.isInterrupted = true; } });
  await other.page.getByText("Redis").first().waitFor();
  expect(!(await other.page.locator("body").textContent()).includes("Nothing listens"), "a new page does not say that nothing listens");
  await close(other);
  await goalmill.servers.startRedis();
  await banner.waitFor({ state: "detached" });
  await page.getByText("connected", { exact: true }).waitFor();
  await finish(own);
  await close(own);
  await goalmill.stop();
}

async function notReady(given) {
  const { goalmill } = await given.guarded();
  const problem = { title: "Redis cannot be reached", status: 503, code: "STORE_UNAVAILABLE", detail: "redis: connection refused", errors: [] };
  const own = await open(goalmill, "#/plans", { before: async (page) => {
    page.isInterrupted = true;
    await page.context.route(/\/v1\/|readyz/, (route) => route.fulfill({ status: 503, contentType: "application/problem+json", body: JSON.stringify(problem) }));
  } });
  const { page } = own;
  await page.getByRole("heading", { name: "Redis cannot be reached" }).waitFor();
  const text = await page.locator("main").textContent();
  expect(text.includes("connection refused") && !text.includes("Nothing listens") && !text.includes("goalmill dev"), text);
  await check(own, "not-ready");
  await own.context.unroute(/\/v1\/|readyz/);
  await page.getByLabel("Token").waitFor();
  await finish(own);
  await close(own);
}

async function wholePayload() {
  const goalmill = await Goalmill.start();
  const text = `begin ${"x".repeat(300_000)} end`;
  const id = await goalmill.submit({ name: "Large", steps: [step("large", "echo", [], { text })] });
  await goalmill.awaitStatus(id, "completed");
  const stored = (await goalmill.get(`/v1/plans/${id}`)).steps[0].outputs;
  expect(JSON.stringify(stored).includes("$blob"), `the outputs are stored apart: ${JSON.stringify(stored).slice(0, 200)}`);
  const own = await open(goalmill, `#/plans/${id}?step=large`);
  const { page } = own;
  await settled(page);
  for (const place of [".step-panel", "[role=tabpanel]"]) {
    if (place !== ".step-panel") await goTo(page, `#/plans/${id}?tab=results`);
    const part = page.locator(place);
    await part.getByText("stored apart").first().waitFor();
    const load = part.getByRole("button", { name: "Load 293.0 KiB" });
    while (await load.count()) { const left = await load.count(); await load.first().click(); await page.waitForFunction(([where, count]) => [...document.querySelectorAll(`${where} button`)].filter((one) => /^Load/.test(one.textContent)).length < count, [place, left]); }
    await part.getByRole("button", { name: /^show all/ }).first().click();
    await holds(page, `${place} has all of it`, ([where, wanted]) => document.querySelector(where).textContent.includes(wanted), [place, text]);
  }
  await finish(own);
  await close(own);
  await goalmill.stop();
}

/** A token of its own, so that it can be revoked. */
async function session(given, actor) {
  const { goalmill } = await given.guarded();
  const make = () => goalmill.call("POST", "/v1/tokens", { actor, roles: ["submitter", "approver", "operator"] });
  const first = await make();
  const tokens = { own: first.token };
  return { goalmill, tokens, make, revoke: () => goalmill.call("DELETE", `/v1/tokens/${first.id}`) };
}

async function signInAgain(page, token) {
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: /^Sign in/ }).click();
  await page.locator("nav").first().waitFor();
}

async function sessionEnds(given) {
  const at = await session(given, "typing");
  const own = await openAs(at, "own", "#/playground");
  const { page } = own;
  await page.getByLabel("Goal", { exact: true }).fill("A goal that took long to write");
  const plan = await at.goalmill.submitGoal({ description: PARIS, planning: { planner: "rules", require_approval: true } });
  await at.goalmill.awaitStatus(plan, "awaiting_approval");
  await goTo(page, `#/approvals/${plan}`);
  await page.locator("#edit-flights").getByLabel("Description").fill("Fly in the morning");
  await page.getByRole("button", { name: "Reject …" }).click();
  await page.getByRole("dialog").getByLabel("Reason").fill("a long reason");
  await at.revoke();
  // The page may learn of the end by itself before the click.
  await page.getByRole("dialog").getByRole("button", { name: "Reject plan" }).click({ timeout: 5_000 }).catch(() => {});
  await page.getByText("What you typed is kept").waitFor();
  await check(own, "session-ended");
  expect((await at.goalmill.get(`/v1/plans/${plan}`)).status === "awaiting_approval", "nothing was decided without a session");
  await signInAgain(page, (await at.make()).token);
  expect(await page.getByRole("dialog").getByLabel("Reason").inputValue() === "a long reason", "the reason is still there");
  await page.keyboard.press("Escape");
  expect(await page.locator("#edit-flights").getByLabel("Description").inputValue() === "Fly in the morning", "the edit is still there");
  await goTo(page, "#/playground");
  expect(await page.getByLabel("Goal", { exact: true }).inputValue() === "A goal that took long to write", "the goal is still there");
  // As when a provider's page comes between.
  await page.reload();
  await page.locator("nav").first().waitFor();
  await settled(page);
  expect(await page.getByLabel("Goal", { exact: true }).inputValue() === "A goal that took long to write", "the goal outlives a reload");
  await goTo(page, `#/approvals/${plan}`);
  expect(await page.locator("#edit-flights").getByLabel("Description").inputValue() === "Fly in the morning", "the edit outlives a reload");
  await at.goalmill.call("POST", `/v1/plans/${plan}:cancel`, {});
  await finish(own);
  await close(own);
}

async function anotherPerson(given) {
  const at = await session(given, "first-person");
  const own = await openAs(at, "own", "#/playground");
  const { page } = own;
  await page.getByLabel("Goal", { exact: true }).fill("A secret goal");
  await at.revoke();
  await wake(own);
  await page.getByText("What you typed is kept").waitFor();
  await signInAgain(page, (await given.guarded()).tokens.admin);
  await goTo(page, "#/plans");
  await goTo(page, "#/playground");
  expect(await page.getByLabel("Goal", { exact: true }).inputValue() === "", "another person does not see the goal");
  expect(!(await page.evaluate(() => JSON.stringify({ ...sessionStorage }))).includes("secret"), "nothing of it is stored");
  await finish(own);
  await close(own);
}

async function focusReturns() {
  const goalmill = await Goalmill.start();
  const gates = { steps: ["one", "two", "three"].map((id) => ({ ...step(id, "echo"), approve: {} })) };
  const ids = [];
  for (const name of ["First", "Second"]) ids.push(await goalmill.submit({ name, ...gates }));
  for (const id of ids) await goalmill.awaitPlan(id, (plan) => plan.steps.every((one) => one.status === "awaiting_approval"));
  const own = await open(goalmill, `#/plans/${ids[0]}`);
  const { page } = own;
  await settled(page);
  for (const name of ["Cancel plan …", "Replan", "Pause"]) {
    for (const leave of [() => page.keyboard.press("Escape"), () => page.getByRole("dialog").locator("footer").getByRole("button", { name: "Close" }).click(), () => page.getByRole("dialog").getByLabel("Close").click()]) {
      await page.locator(".tool-line").getByRole("button", { name, exact: true }).click();
      await page.getByRole("dialog").waitFor();
      await leave();
      await page.getByRole("dialog").waitFor({ state: "detached" });
      await holds(page, `the focus is back on ${name}`, (wanted) => document.activeElement.textContent === wanted, name);
    }
  }
  const keys = page.getByRole("navigation").getByRole("button", { name: /^Keys/ });
  await keys.click();
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await holds(page, "the focus is back on the button for the keys", () => /^Keys/.test(document.activeElement.textContent));
  // What opened the dialog may be gone: the next row has the focus, or the title.
  await goTo(page, "#/approvals");
  for (let left = 6; left > 0; left--) {
    await page.locator(".card-item").first().getByRole("button", { name: "Approve step" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Approve step" }).click();
    await page.waitForFunction((count) => document.querySelectorAll(".card-item").length < count, left);
    await holds(page, `the focus is in a card or on the title with ${left - 1} left`, () => Boolean(document.activeElement.closest(".card-item, #title")));
  }
  await finish(own);
  await close(own);
  await goalmill.stop();
}

/** The colours of everything that is printed: dark on light. */
async function printed(given) {
  const { goalmill, ids } = await given.filled();
  for (const theme of ["system", "dark"]) {
    const own = await open(goalmill, `#/plans/${ids.release}?step=checkout`, { colorScheme: "dark" });
    const { page } = own;
    await settled(page);
    if (theme === "dark") await page.getByRole("button", { name: "dark theme" }).click();
    await page.emulateMedia({ media: "print", colorScheme: "dark" });
    const faults = await page.evaluate(() => {
      const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
      const light = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return a < 20 ? null : (0.299 * r + 0.587 * g + 0.114 * b) / 255; };
      const found = [];
      for (const el of document.querySelectorAll("body, main *")) {
        if (!el.checkVisibility?.() || el.closest("svg")) continue;
        const style = getComputedStyle(el);
        const back = light(style.backgroundColor);
        if (back !== null && back < 0.75 && el.textContent.trim()) found.push(`${el.tagName}.${el.className} is dark: ${style.backgroundColor}`);
        if (el.childNodes.length && [...el.childNodes].some((one) => one.nodeType === 3 && one.data.trim()) && light(style.color) > 0.55) found.push(`${el.tagName}.${el.className} has light text: ${style.color}`);
      }
      return [...new Set(found)];
    });
    expect(!faults.length, faults.slice(0, 8).join("\n      "));
    if (process.env.PICTURES) await page.pdf({ path: `${process.env.PICTURES}/printed-${theme}.pdf`, printBackground: true });
    await finish(own);
    await close(own);
  }
}

async function hiddenCharacters() {
  const goalmill = await Goalmill.start();
  const hidden = { "\u202e": "\\u202e", "\u2066": "\\u2066", "\u200b": "\\u200b", "\u200f": "\\u200f", "\u00ad": "\\u00ad", "\ufeff": "\\ufeff", "\u3164": "\\u3164", "\u{e0041}": "\\udb40\\udc41", "\u200d": "\\u200d" };
  const name = `pay${Object.keys(hidden).join("-")}load`, shownName = `pay${Object.values(hidden).join("-")}load`;
  const family = "\u{1f469}\u200d\u{1f467} \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645";
  const id = await goalmill.submit({ name, steps: [step("a", "nobody-serves-this", [], { [name]: name, family }, { description: name, ask: { question: name, into: "answer" } })] });
  await goalmill.awaitPlan(id, (plan) => plan.steps[0].status === "awaiting_approval");
  const own = await open(goalmill, "#/plans");
  const { page } = own;
  for (const address of ["#/plans", `#/plans/${id}?step=a`, `#/plans/${id}?tab=goal`, `#/plans/${id}?tab=events`, "#/approvals", `#/approvals/${id}`, "#/events", `#/compare?a=${id}&b=${id}`]) {
    await goTo(page, address);
    const raw = await page.evaluate(() => {
      const pattern = /[\u202e\u2066\u200b\u200f\u00ad\ufeff\u3164\u{e0041}]/u, found = [];
      const walk = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
      for (let node = walk.currentNode; node; node = walk.nextNode()) {
        if (node.nodeType === 3 && pattern.test(node.data) && node.parentElement.tagName !== "TEXTAREA") found.push(node.data);
        if (node.nodeType === 1) for (const one of node.attributes) if (pattern.test(one.value) && !["value", "href"].includes(one.name)) found.push(`${one.name}=${one.value}`);
      }
      return found;
    });
    expect(!raw.length, `${address} has ${JSON.stringify(raw.slice(0, 3))}`);
    if (!address.includes("tab=") && address !== "#/events") await holds(page, `${address} shows what is hidden`, (wanted) => document.querySelector("main").textContent.includes(wanted), shownName);
  }
  await goTo(page, `#/plans/${id}?step=a`);
  await holds(page, "joiners of emoji and of Persian words stay", (wanted) => document.querySelector(".step-panel").textContent.includes(wanted), family);
  await check(own, "hidden-characters");
  await finish(own);
  await close(own);
  await goalmill.stop();
}
