// Texts of goals, plans and agents stay texts.

import { check, close, expect, finish, open, settled } from "./browser.js";
import { step } from "./fixture.js";

const TEXTS = [
  "<script>window.isHurt = true</script>", "<img src=x onerror=\"window.isHurt = true\">", "<svg/onload=\"window.isHurt = true\">", "javascript:window.isHurt=true", "</title><script>window.isHurt = true</script>",
  "\"><iframe srcdoc=\"<script>parent.isHurt = true</script>\">", "'; window.isHurt = true; //", "${window.isHurt = true}", "{{constructor.constructor('window.isHurt = true')()}}", "<style>*{display:none}</style>", "<base href=\"https://example.org/\">", "<form action=\"https://example.org\"><button>Approve</button></form>",
  "&lt;b&gt; &amp; &#x3c;", "\u202Eevil\u202C \u2066isolated\u2069 \u200Fright", "\u0645\u0631\u062D\u0628\u0627 \u05E9\u05DC\u05D5\u05DD", `Z${"\u0300\u0301\u0302\u0303".repeat(60)}algo`, "\u001b[31mred\u001b[0m \u0007 \u0008", "\uD83D\uDC69\u200D\uD83D\uDC69\u200D\uD83D\uDC67\u200D\uD83D\uDC66", "w".repeat(4_000), "\u200B\uFEFF\u00AD", "`code` 2026-01-01T00:00:00Z", "line\nbreak\ttab\r\n", "__proto__", "constructor", "null",
];

export function hostileTests(given) {
  return [{ name: "hostile texts stay texts", run: () => hostile(given) }];
}

async function hostile(given) {
  const { goalmill } = await given.filled();
  const all = TEXTS.join(" ");
  // Two braces would be an expression.
  const outputs = Object.fromEntries(TEXTS.filter((text) => !text.includes("{{")).map((text, i) => [`${i} ${text.slice(0, 60)}`, text]));
  const id = await goalmill.submit({
    name: TEXTS.slice(0, 6).join(" ").slice(0, 190), steps: [
      step("out", "echo", [], outputs, { description: all.slice(0, 900) }),
      step("bad", "fail", [], { message: all.replaceAll("{{", "").slice(0, 1500), code: "HOSTILE" }, { on_failure: "skip" }),
      step("ask", "echo", [], {}, { ask: { question: TEXTS.slice(0, 5).join(" "), into: "answer" }, description: TEXTS[1] }),
    ],
  });
  await goalmill.awaitPlan(id, (plan) => plan.steps.every((one) => ["completed", "skipped", "failed", "awaiting_approval"].includes(one.status)));
  const goal = await goalmill.submitGoal({ description: TEXTS.slice(0, 12).join(" "), planning: { planner: "rules", require_approval: true } });
  await goalmill.awaitPlan(goal, (plan) => plan.status !== "planning").catch(() => {});
  const addresses = ["#/plans", `#/plans/${id}?step=out`, `#/plans/${id}?step=bad`, `#/plans/${id}?step=ask&tab=events`, `#/plans/${id}?tab=results`, `#/plans/${id}?tab=goal`, `#/plans/${goal}?tab=goal`, `#/approvals/${id}`, "#/approvals", `#/compare?a=${id}&b=${goal}`, "#/history", "#/events",
    `#/plans?q=${encodeURIComponent(TEXTS[1])}`, `#/plans/${encodeURIComponent(TEXTS[1])}`, `#/${encodeURIComponent(TEXTS[1])}`, `#/playground?goal=${encodeURIComponent(all.slice(0, 500))}`, `#/compare?a=${encodeURIComponent(TEXTS[0])}&b=${encodeURIComponent(TEXTS[1])}`];
  for (const address of addresses) {
    const own = await open(goalmill, address, { before: (page) => { page.isInterrupted = true; } });
    const { page } = own;
    await settled(page);
    await page.setViewportSize({ width: 320, height: 640 });
    const found = await page.evaluate(() => ({ isHurt: Boolean(window.isHurt), foreign: document.querySelectorAll("#app script, #app iframe, #app style, #app base, #app img:not([src='page/icon.svg']), #app form[action]").length }));
    expect(!found.isHurt, `a script ran at ${address}`);
    expect(!found.foreign, `${found.foreign} foreign elements at ${address}`);
    await check(own, `hostile-${addresses.indexOf(address)}`);
    if (address.endsWith("step=out")) {
      for (const text of TEXTS.filter((one) => /^</.test(one))) expect((await page.locator(".step-panel").innerText()).includes(text), `the panel shows ${text}`);
    }
    await finish(own);
    await close(own);
  }
  await goalmill.call("POST", `/v1/plans/${id}:cancel`, {});
  await goalmill.call("POST", `/v1/plans/${goal}:cancel`, {}).catch(() => {});
}
