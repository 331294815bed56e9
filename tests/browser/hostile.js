// Texts of goals, outputs and names stay texts.

import { check, close, expect, finish, goTo, holds, open, settled } from "./browser.js";
import { step } from "./fixture.js";
import { Goalmill } from "./goalmill.js";

const HURT = "window.isHurt = true";
/** Forty texts that are not for a page: markup, scripts, addresses, directions, marks, controls, lengths. */
export const TEXTS = [
  `<script>${HURT}</script>`, `<img src=x onerror="${HURT}">`, `<svg/onload="${HURT}">`, "javascript:window.isHurt=true", `</title><script>${HURT}</script>`,
  `"><iframe srcdoc="<script>parent.isHurt = true</script>">`, `'; ${HURT}; //`, "${window.isHurt = true}", "{{constructor.constructor('window.isHurt = true')()}}", "<style>*{display:none}</style>",
  "<base href=\"https://example.org/\">", "<form action=\"https://example.org\"><button>Approve</button></form>", `<svg><animate onbegin="${HURT}" attributeName=x dur=1s>`, `<details open ontoggle="${HURT}">`, `<input autofocus onfocus="${HURT}">`,
  "<meta http-equiv=\"refresh\" content=\"0;url=https://example.org\">", "<link rel=\"stylesheet\" href=\"//example.org/x.css\">", `<object data="data:text/html,<script>${HURT}</script>"></object>`, `<math><mtext><table><mglyph><style><img src=x onerror="${HURT}">`, `<!--><img src=x onerror="${HURT}">-->`,
  `]]><script>${HURT}</script>`, "[click here](javascript:window.isHurt=true)", "%3Cscript%3Ewindow.isHurt=true%3C/script%3E", "&lt;b&gt; &amp; &#x3c;", "'; DROP TABLE plans; --",
  "\u202Eevil\u202C \u2066isolated\u2069 \u200Fright", "\u0645\u0631\u062D\u0628\u0627 \u05E9\u05DC\u05D5\u05DD", `Z${"\u0300\u0301\u0302\u0303".repeat(60)}algo`, "\uD83D\uDC69\u200D\uD83D\uDC69\u200D\uD83D\uDC67\u200D\uD83D\uDC66 \uD83C\uDFF4\u200D\u2620\uFE0F", "\u200B\uFEFF\u00AD\u3164\u115F",
  "\u001b[31mred\u001b[0m \u0007 \u0008", "\u001b]0;title\u0007\u001b[2J\u001b[H", "\u001b]8;;https://example.org\u001b\\link\u001b]8;;\u001b\\", "line\nbreak\ttab\r\n\u2028separator\u2029", "`code` 2026-01-01T00:00:00Z",
  "__proto__", "constructor", "null", "\uFFFD \uFFFE \uD835\uDD4F \u00C5 A\u030A", "w".repeat(1_000_000),
];
/** What no goal may have: control characters other than line ends and tabs. */
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/;
/** The longest name, and how much of a text a panel shows before it is asked for all. */
const NAME_MAX = 190;
const SHOWN_MAX = 2_000;

export function hostileTests(given) {
  return [{ name: "hostile texts stay texts", run: () => hostile(given) }, { name: "hostile texts are shown as they are in names, goals and outputs", run: shownAsTheyAre }];
}

/** Nothing of a text became markup or ran. */
async function harmless(page, address) {
  const found = await page.evaluate(() => ({ isHurt: Boolean(window.isHurt), foreign: document.querySelectorAll("#app script, #app iframe, #app style, #app base, #app meta, #app link, #app object, #app math, #app animate, #app a[href^='javascript'], #app img:not([src='page/icon.svg']), #app form[action], #app [autofocus]").length }));
  expect(!found.isHurt, `a script ran at ${address}`);
  expect(!found.foreign, `${found.foreign} foreign elements at ${address}`);
}

async function hostile(given) {
  const { goalmill } = await given.filled();
  const short = TEXTS.filter((text) => text.length < 500);
  const all = short.join(" ");
  // Two braces would be an expression.
  const inputs = Object.fromEntries(short.filter((text) => !text.includes("{{")).map((text, i) => [`${i} ${text.slice(0, 60)}`, text]));
  const id = await goalmill.submit({
    name: short.slice(0, 6).join(" ").slice(0, NAME_MAX), steps: [
      step("out", "echo", [], inputs, { description: all.slice(0, 900) }),
      step("bad", "fail", [], { message: all.replaceAll("{{", "").slice(0, 1500), code: "HOSTILE" }, { on_failure: "skip" }),
      step("ask", "echo", [], {}, { ask: { question: short.slice(0, 5).join(" "), into: "answer" }, description: short[1] }),
    ],
  });
  await goalmill.awaitPlan(id, (plan) => plan.steps.every((one) => ["completed", "skipped", "failed", "awaiting_approval"].includes(one.status)));
  const goal = await goalmill.submitGoal({ description: short.slice(0, 12).join(" "), planning: { planner: "rules", require_approval: true } });
  await goalmill.awaitPlan(goal, (plan) => plan.status !== "planning");
  const addresses = ["#/plans", `#/plans/${id}?step=out`, `#/plans/${id}?step=bad`, `#/plans/${id}?step=ask&tab=events`, `#/plans/${id}?tab=results`, `#/plans/${id}?tab=goal`, `#/plans/${goal}?tab=goal`, `#/approvals/${id}`, "#/approvals", `#/compare?a=${id}&b=${goal}`, "#/history", "#/history?q=script", "#/events", "#/events?q=onerror",
    `#/plans?q=${encodeURIComponent(TEXTS[1])}`, `#/plans/${encodeURIComponent(TEXTS[1])}`, `#/${encodeURIComponent(TEXTS[1])}`, `#/playground?goal=${encodeURIComponent(all.slice(0, 500))}`, `#/compare?a=${encodeURIComponent(TEXTS[0])}&b=${encodeURIComponent(TEXTS[1])}`, `#/events?plan=${encodeURIComponent(TEXTS[0])}&step=${encodeURIComponent(TEXTS[1])}`];
  for (const address of addresses) {
    const own = await open(goalmill, address, { before: (page) => { page.isInterrupted = true; } });
    const { page } = own;
    await settled(page);
    await page.setViewportSize({ width: 320, height: 640 });
    await harmless(page, address);
    await check(own, `hostile-${addresses.indexOf(address)}`);
    await finish(own);
    await close(own);
  }
  await goalmill.call("POST", `/v1/plans/${id}:cancel`, {});
  await goalmill.call("POST", `/v1/plans/${goal}:cancel`, {}).catch(() => {});
}

/** Each text as the name of a plan, as a goal, and as an output; the page has it letter by letter. */
async function shownAsTheyAre() {
  const goalmill = await Goalmill.start();
  expect(TEXTS.length === 40 && new Set(TEXTS).size === 40, `there are ${TEXTS.length} texts`);
  const named = new Map(), described = new Map();
  for (const text of TEXTS) {
    const id = await goalmill.submit({ name: text.slice(0, NAME_MAX), steps: [step("hand", "nobody-serves-this", [], {}, { description: text.slice(0, NAME_MAX) })] });
    named.set(id, text.slice(0, NAME_MAX));
    // A goal with control characters is refused at the door; names and outputs may have them.
    const submitted = goalmill.submitGoal({ description: text.slice(0, 5_000), planning: { planner: "rules", require_approval: true } });
    if (CONTROL.test(text)) expect((await submitted.catch((error) => error)).message?.includes("INVALID_GOAL"), `the goal ${JSON.stringify(text)} is refused`);
    else described.set(await submitted, text.slice(0, 5_000));
  }
  const outputs = [...named.keys()][0];
  const own = await open(goalmill, "#/plans", { viewport: { width: 320, height: 640 }, before: (page) => { page.isInterrupted = true; } });
  const { page } = own;
  await settled(page);
  // Hidden characters are shown as what they are; the rest is there letter by letter.
  const visible = (text) => page.evaluate(async (one) => (await import("./page/dom.js")).visible(one), text);
  const isShown = (text) => [...document.querySelectorAll("main *")].some((el) => el.textContent.includes(text));
  for (const [id, text] of named) {
    await goTo(page, `#/plans/${id}?step=hand`);
    await holds(page, `the heading is ${JSON.stringify(text)}`, (wanted) => document.querySelector("h1").textContent === wanted, await visible(text));
    await holds(page, `the panel has ${JSON.stringify(text)}`, (wanted) => document.querySelector(".step-panel").textContent.includes(wanted), await visible(text));
    await harmless(page, id);
  }
  for (const [id, given] of described) {
    // Blank ends of a goal are left out.
    const text = (await goalmill.awaitPlan(id, (plan) => plan.status !== "planning")).goal.description;
    expect(given.includes(text) && text.length >= given.trim().length, `the goal ${JSON.stringify(given)} is kept, not as ${JSON.stringify(text)}`);
    await goTo(page, `#/plans/${id}?tab=goal`);
    await holds(page, `the goal is ${JSON.stringify(text.slice(0, 80))}`, (wanted) => document.querySelector("p.goal").textContent === wanted, await visible(text));
    await harmless(page, id);
  }
  for (const address of ["#/plans", "#/history", "#/approvals"]) {
    await goTo(page, address);
    const wanted = address === "#/approvals" ? described : address === "#/plans" ? named : new Map();
    if (address === "#/plans") for (const text of wanted.values()) await holds(page, `the list has ${JSON.stringify(text)}`, isShown, await visible(text));
    await harmless(page, address);
  }
  // Twenty outputs are shown without a click.
  for (let part = 0; part < 2; part++) {
    const texts = TEXTS.slice(part * 20, part * 20 + 20);
    const id = part ? await goalmill.submit({ name: "More outputs", steps: [step("hand", "nobody-serves-this")] }) : outputs;
    await goalmill.awaitPlan(id, (plan) => plan.steps[0].status === "queued");
    await goalmill.call("POST", `/v1/plans/${id}/steps/hand:complete`, { outputs: Object.fromEntries(texts.map((text, i) => [`text ${i}`, text.slice(0, 200_000)])) });
    await goTo(page, `#/plans/${id}?step=hand`);
    for (const text of texts) await holds(page, `the outputs have ${JSON.stringify(text.slice(0, 80))}`, (wanted) => document.querySelector(".step-panel .json-tree").textContent.includes(wanted), await visible(text.slice(0, SHOWN_MAX)));
    if (texts.some((text) => text.length > SHOWN_MAX)) {
      await page.locator(".step-panel").getByRole("button", { name: /^show all/ }).click();
      await holds(page, "all of a long word is shown", (length) => document.querySelector(".step-panel .json-tree").textContent.includes("w".repeat(length)), 200_000);
      await holds(page, "it stays in the window", () => document.scrollingElement.scrollWidth <= document.scrollingElement.clientWidth);
    }
    await harmless(page, id);
  }
  await finish(own);
  await close(own);
  await goalmill.stop();
}
