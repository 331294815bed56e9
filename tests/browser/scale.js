// Measures the page with a large plan: 500 steps whose attempts make 20,000 events in about ten minutes. Prints figures; it
// asserts nothing and is no part of the tests.
//
//   bash tests/browser/run nothing      installs what it needs
//   node tests/browser/scale.js         MINUTES=10 and STEPS=500 are the defaults; PROGRAM names the program,
//                                       such as target/release/goalmill

import { fileURLToPath } from "node:url";
import { close, launch, open, settled } from "./browser.js";
import { Goalmill, stopAll } from "./goalmill.js";
import { step } from "./fixture.js";

const STEPS = Number(process.env.STEPS || 500);
const MINUTES = Number(process.env.MINUTES || 10);
/** Attempts of each step; one makes four events. */
const ATTEMPTS = 10;
const LAYERS = 10;
const FRAMES_MS = 60_000;

const print = (name, value) => console.log(`${name.padEnd(52)} ${value}`);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Layers side by side, so that all steps run from the beginning: waits before attempts spread them over the time. */
function large() {
  const waitMs = Math.round((MINUTES * 60_000 * 2) / ATTEMPTS);
  const across = Math.ceil(STEPS / LAYERS);
  return {
    name: `${STEPS} steps with ${ATTEMPTS} attempts each`, max_parallel: STEPS,
    steps: Array.from({ length: STEPS }, (_, i) => {
      const layer = Math.floor(i / across);
      const before = layer && i % across === 0 ? [`step-${i - across}`] : [];
      // One chain through the layers; the others have no step before them that they would wait for.
      return step(`step-${i}`, "flaky", i % across ? [] : before, { failures: layer && i % across === 0 ? 0 : ATTEMPTS - 1 }, { retry: { max: ATTEMPTS, initial_ms: waitMs, max_ms: waitMs } });
    }),
  };
}

async function measurePaint(goalmill, id, name) {
  const own = await open(goalmill, `#/plans/${id}`, { viewport: { width: 1920, height: 1080 } });
  const { page } = own;
  const since = () => page.evaluate(() => Math.round(performance.now()));
  await page.locator(".plan-head h1").waitFor();
  const head = await since();
  await page.locator("svg.graph .node, .graph-panel .empty").first().waitFor();
  const graph = await since();
  await page.locator(".timeline .row").first().waitFor();
  const timeline = await since();
  const paint = await page.evaluate(() => Math.round(performance.getEntriesByName("first-contentful-paint")[0].startTime));
  await settled(page);
  await page.waitForFunction(async (plan) => {
    const shown = Number(document.querySelector(".slider-text")?.textContent.split("/")[1].replaceAll(/[^0-9]/g, ""));
    return shown >= (await (await fetch(`v1/plans/${plan}`)).json()).seq - 50;
  }, id, { polling: 200 });
  print(`${name}: first paint, heading, graph, timeline, whole log`, `${paint}, ${head}, ${graph}, ${timeline}, ${await since()} ms`);
  return own;
}

/** Watches all frames for a minute: the longest, how many took more than 50 and 100 ms, and the longest task. */
async function measureFrames(page, id, goalmill, name) {
  const before = (await goalmill.get(`/v1/plans/${id}`)).seq;
  const found = await page.evaluate((limit) => new Promise((resolve) => {
    const frames = [], tasks = [];
    const observer = new PerformanceObserver((list) => tasks.push(...list.getEntries().map((one) => one.duration)));
    observer.observe({ entryTypes: ["longtask"] });
    const begun = performance.now();
    let last = begun;
    const frame = (now) => {
      frames.push(now - last);
      last = now;
      if (now - begun < limit) return requestAnimationFrame(frame);
      observer.disconnect();
      const over = (ms) => frames.filter((one) => one > ms).length;
      resolve({ frames: frames.length, longest: Math.round(Math.max(...frames)), over50: over(50), over100: over(100), task: Math.round(Math.max(0, ...tasks)), tasks: tasks.length });
    };
    requestAnimationFrame(frame);
  }), FRAMES_MS);
  const events = (await goalmill.get(`/v1/plans/${id}`)).seq - before;
  print(`${name}: ${events} live events in ${FRAMES_MS / 1000} s`, `${found.frames} frames, longest ${found.longest} ms, ${found.over50} over 50 ms, ${found.over100} over 100 ms; longest task ${found.task} ms, ${found.tasks} tasks over 50 ms`);
}

/** The longest task by the clock of its thread: what the page itself needs, however busy the machine is. */
async function measureTasks(session, id, goalmill) {
  const before = (await goalmill.get(`/v1/plans/${id}`)).seq;
  const events = [];
  session.on("Tracing.dataCollected", ({ value }) => events.push(...value.filter((one) => one.name === "FireAnimationFrame" || one.name.endsWith("RunTask"))));
  await session.send("Tracing.start", { categories: "toplevel,devtools.timeline,disabled-by-default-devtools.timeline", transferMode: "ReportEvents" });
  await sleep(FRAMES_MS);
  const complete = new Promise((resolve) => session.once("Tracing.tracingComplete", resolve));
  await session.send("Tracing.end");
  await complete;
  const main = events.find((one) => one.name === "FireAnimationFrame");
  const times = events.filter((one) => one.tid === main.tid && one.pid === main.pid && one.name.endsWith("RunTask")).map((one) => (one.tdur || 0) / 1_000);
  print(`thread time: ${(await goalmill.get(`/v1/plans/${id}`)).seq - before} live events in ${FRAMES_MS / 1000} s`, `${times.length} tasks, the longest ${Math.round(Math.max(...times))} ms`);
}

async function heap(session) {
  await session.send("HeapProfiler.collectGarbage");
  const { metrics } = await session.send("Performance.getMetrics");
  const value = (name) => metrics.find((one) => one.name === name).value;
  return { megabytes: value("JSHeapUsedSize") / (1 << 20), nodes: value("Nodes"), listeners: value("JSEventListeners") };
}

async function main() {
  await launch(fileURLToPath(new URL("../../target/browser", import.meta.url)));
  const goalmill = await Goalmill.start();
  const id = await goalmill.submit(large());
  const begun = Date.now();
  const own = await measurePaint(goalmill, id, "at the begin");
  const session = await own.context.newCDPSession(own.page);
  await session.send("Performance.enable");
  const end = begun + MINUTES * 60_000 - 2 * FRAMES_MS;
  while (Date.now() < end) {
    const { megabytes, nodes, listeners } = await heap(session);
    print(`after ${Math.round((Date.now() - begun) / 1000)} s, ${await own.page.locator(".slider-text").textContent()} events`, `${megabytes.toFixed(1)} MiB of JavaScript, ${nodes} nodes, ${listeners} listeners`);
    await sleep(Math.min(30_000, Math.max(1_000, end - Date.now())));
  }
  await measureTasks(session, id, goalmill);
  await measureFrames(own.page, id, goalmill, "steps tab");
  const last = await heap(session);
  print(`after ${Math.round((Date.now() - begun) / 1000)} s`, `${last.megabytes.toFixed(1)} MiB of JavaScript, ${last.nodes} nodes, ${last.listeners} listeners`);
  await close(own);
  await close(await measurePaint(goalmill, id, `with ${(await goalmill.get(`/v1/plans/${id}`)).seq} events`));
}

try { await main(); } finally { await stopAll(); }
process.exit(0);
