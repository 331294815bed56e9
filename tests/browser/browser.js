// Chromium, pages that are watched for errors, and what every screen must fulfil.

import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
export const WIDTHS = [320, 1100, 1920];
export const THEMES = ["light", "dark"];
const HEIGHTS = { 320: 640, 1100: 800, 1920: 1080 };

let chromium, axe;

/** Starts Chromium; `folder` holds the packages. It makes a new empty profile for each run. */
export async function launch(folder) {
  const require = createRequire(join(folder, "package.json"));
  axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
  chromium = await require("playwright-core").chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: FLAGS, chromiumSandbox: false });
  return chromium;
}

/** A page in a context of its own; `faults` fills while it is used. */
export async function open(goalmill, hash = "#/plans", options = {}) {
  const context = await chromium.newContext({ viewport: { width: 1100, height: 800 }, colorScheme: "light", reducedMotion: "reduce", ...options });
  await context.addInitScript(axe);
  await context.addInitScript(() => {
    window.violations = [];
    document.addEventListener("securitypolicyviolation", (event) => window.violations.push(`${event.violatedDirective}: ${event.blockedURI}`));
  });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const own = { page, context, faults: [], isInterrupted: false, assets: new Map(), goalmill };
  page.on("pageerror", (error) => own.faults.push(`error: ${error.message}`));
  page.on("console", (message) => {
    if (message.type() !== "error" && message.type() !== "warning") return;
    const isRequest = message.text().startsWith("Failed to load resource");
    // A request that fails is what some tests are about.
    if (isRequest && own.isInterrupted) return;
    own.faults.push(`console: ${message.text()} (${message.location().url})`);
  });
  page.on("dialog", (dialog) => { own.faults.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (request) => { if (!own.mayLeave && !/^(data|blob):/.test(request.url()) && !request.url().startsWith(goalmill.url)) own.faults.push(`foreign request: ${request.url()}`); });
  if (options.before) await options.before(own);
  await page.goto(`${goalmill.url}/${hash}`);
  return own;
}

/** Waits until the screen shows what it has. */
export async function settled(page) {
  await page.waitForFunction(() => document.querySelector("#title, .alone") && !document.querySelector(".skeleton, .is-checking, .is-old"));
}

/** Goes to an address of the page without a reload, and waits until its screen is shown, not the one before. */
export async function goTo(page, hash) {
  await page.evaluate((to) => { location.hash = to; }, hash);
  await shown(page, hash);
}

/** Waits until the screen of this address is shown. */
export async function shown(page, hash) {
  const [path, query] = hash.split("?");
  const params = new URLSearchParams(query || "").toString();
  await page.waitForFunction((wanted) => document.getElementById("main")?.dataset.address === wanted, path + (params ? `?${params}` : "")).catch((error) => { throw new Error(`${hash} is not shown: ${error.message}`); });
  await settled(page);
}

/** Waits until `count` elements fit `selector`; the error says how many did. */
export async function counted(page, selector, count) {
  await page.waitForFunction(([wanted, number]) => document.querySelectorAll(wanted).length === number, [selector, count]).catch(async (error) => {
    throw new Error(`${await page.locator(selector).count()} of \`${selector}\`, not ${count}: ${error.message}`);
  });
}

/** The frames that a change of size or theme needs. */
const drawn = (page) => page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(resolve)))));

/** Checks the page as it is now in every theme and width; `name` names its pictures. */
export async function checkEverywhere(own, name) {
  const { page } = own;
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: HEIGHTS[width] });
    for (const theme of THEMES) {
      await page.emulateMedia({ colorScheme: theme });
      await drawn(page);
      await check(own, `${name}-${width}-${theme}`);
    }
  }
  await finish(own);
}

/** No accessibility violation, nothing wider than the window, no text out of its box. */
export async function check(own, name) {
  const { page } = own;
  if (process.env.PICTURES) {
    mkdirSync(process.env.PICTURES, { recursive: true });
    await page.screenshot({ path: join(process.env.PICTURES, `${name}.png`), fullPage: true });
  }
  const found = await page.evaluate(async () => {
    const faults = [];
    const result = await window.axe.run(document, { preload: false, resultTypes: ["violations"] });
    for (const one of result.violations) faults.push(`${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join(" | ")}`);
    const root = document.scrollingElement;
    if (root.scrollWidth > root.clientWidth) {
      const wide = [...document.querySelectorAll("main *, nav *")].filter((el) => el.getBoundingClientRect().right > root.clientWidth + 1).slice(0, 3).map((el) => `${el.tagName}.${el.getAttribute("class")}`);
      faults.push(`the page is ${root.scrollWidth} px wide in a window of ${root.clientWidth} px: ${wide.join(", ")}`);
    }
    for (const node of document.querySelectorAll("svg.graph .node")) {
      const box = node.querySelector(".box").getBBox();
      for (const text of node.querySelectorAll("text")) if (text.getBBox().x + text.getBBox().width > box.width) faults.push(`the text "${text.textContent}" is wider than its box`);
    }
    for (const el of document.querySelectorAll("main p, main h1, main h2, main h3, main dd, main td, main th, main li, main button, main a, main label, main .status")) {
      const style = getComputedStyle(el);
      if (el.clientWidth > 1 && style.display !== "inline" && style.overflowX === "visible" && el.scrollWidth > el.clientWidth + 2 && !el.closest("svg, .lane, .axis")) faults.push(`the content of ${el.tagName}.${el.getAttribute("class") || ""} is ${el.scrollWidth} px wide in ${el.clientWidth} px: ${el.textContent.slice(0, 60)}`);
    }
    return faults;
  });
  own.faults.push(...found.map((fault) => `${name}: ${fault}`));
}

/** Waits until a reading of the page fits. */
export async function holds(page, text, read, value) {
  await page.waitForFunction(read, value).catch((error) => { throw new Error(`${text}: ${error.message}`); });
}

/** Fails when anything was wrong. */
export async function finish(own) {
  own.faults.push(...(await own.page.evaluate(() => window.violations)).map((one) => `policy: ${one}`));
  const { faults } = own;
  if (faults.length) throw new Error([...new Set(faults)].slice(0, 12).join("\n      ") + (faults.length > 12 ? `\n      … ${faults.length} in all` : ""));
}

export const close = (own) => own.context.close();

/** Every call of the API fails: with this status, or without an answer. */
export async function interrupt(own, status) {
  own.isInterrupted = true;
  await own.context.route(/\/v1\//, (route) => {
    if (route.request().url().endsWith("/v1/session")) return route.continue();
    if (!status) return route.abort("connectionrefused");
    return route.fulfill({ status, contentType: "application/problem+json", body: JSON.stringify({ title: "Internal error", status, code: "INTERNAL", detail: "the store did not answer in time", errors: [] }) });
  });
}

/** Calls of the API get no answer, except the one that asks who is signed in. */
export const hold = (own) => own.context.route(/\/v1\//, (route) => (route.request().url().endsWith("/v1/session") ? route.continue() : undefined));

/** The page reads at once what it polls, as when its tab is shown again. */
export const wake = (own) => own.page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));

export function expect(isTrue, text) {
  if (!isTrue) throw new Error(text);
}
