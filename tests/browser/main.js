// Runs the tests in two lanes and prints one line for each; the last line counts them.

import { launch } from "./browser.js";
import { stopAll } from "./goalmill.js";
import { filled } from "./fixture.js";
import { Goalmill } from "./goalmill.js";
import { screenTests } from "./screens.js";
import { keyboardTests } from "./keyboard.js";
import { storyTests } from "./story.js";
import { journeyTests } from "./journey.js";
import { hostileTests } from "./hostile.js";
import { foldTests } from "./fold.js";
import { accessTests, guarded } from "./access.js";
import { thousand, thousandTests } from "./thousand.js";
import { truthTests } from "./truth.js";
import { placeTests } from "./places.js";
import { listTests } from "./lists.js";
import { inboxTests } from "./inbox.js";
import { itemTests } from "./items.js";
import { viewTests } from "./views.js";
import { trendTests } from "./trends.js";
import { tokenTests } from "./tokens.js";
import { transcriptTests } from "./transcript.js";

const LANES = 2;
const [folder, ...wanted] = process.argv.slice(2);
const counts = { passed: 0, failed: 0, skipped: 0 };

async function runTest({ name, run }) {
  const begun = Date.now();
  try {
    await run();
    counts.passed += 1;
    console.log(`ok      ${name} (${((Date.now() - begun) / 1000).toFixed(1)} s)`);
  } catch (error) {
    counts.failed += 1;
    console.log(`FAILED  ${name}\n      ${error.stack && error.name !== "Error" ? error.stack : error.message}`);
  }
}

async function main() {
  const browser = await launch(folder);
  // Installations start when a test needs them, and once.
  const shared = new Map();
  const once = (name, make) => () => { if (!shared.has(name)) shared.set(name, make()); return shared.get(name); };
  const given = { empty: once("empty", () => Goalmill.start()), filled: once("filled", filled), guarded: once("guarded", guarded), thousand: once("thousand", thousand) };
  const all = [...screenTests(given), ...storyTests(given), ...journeyTests(), ...keyboardTests(given), ...hostileTests(given), ...foldTests(given), ...accessTests(given), ...thousandTests(given), ...truthTests(given), ...placeTests(), ...listTests(), ...inboxTests(), ...transcriptTests(), ...itemTests(), ...viewTests(), ...trendTests(), ...tokenTests()];
  const queue = all.filter((test) => !wanted.length || wanted.some((word) => test.name.includes(word)));
  counts.skipped = all.length - queue.length;
  if (queue.some((test) => !test.name.includes("empty") && !/^(access|journey|thousand|roles|truth|places|lists|inbox|transcript|items|views|trends|tokens)/.test(test.name))) given.filled().catch(() => {});
  const lane = async () => { for (let test = queue.shift(); test; test = queue.shift()) await runTest(test); };
  await Promise.all(Array.from({ length: LANES }, lane));
  await browser.close();
}

try { await main(); } catch (error) {
  counts.failed += 1;
  console.log(`FAILED  ${error.stack}`);
} finally { await stopAll(); }
console.log(`browser: ${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
process.exit(counts.failed ? 1 : 0);
