// The worker of the conformance vectors (tests/conformance/protocol/README.md).
import { appendFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { agent, Fatal, PartialResult, RateLimited, Retry, serve } from 'goalmill';

const folder = process.env.GOALMILL_VECTOR_DIR;
const log = (line) => appendFileSync(join(folder, 'log'), `${line}\n`);
const isOpen = () => existsSync(join(folder, 'go'));

/** Until the file `go` exists; rejects when the attempt is stopped. */
async function gate(ctx) {
  while (!isOpen()) await sleep(20, undefined, { signal: ctx.cancelled });
}

function flaky({ after_ms } = {}) {
  return after_ms === undefined ? new Retry('try again', { code: 'FLAKY' }) : new RateLimited('try again', { code: 'FLAKY', after: after_ms });
}

function makeCall(ctx, n, options = {}, more = {}) {
  const make = (key) => {
    log(`made ${key}`);
    return { n, ...more };
  };
  return ctx.call('call', make, { inputs: { n }, usage: { cost: 0.25, promptTokens: 40, completionTokens: 2 }, ...options });
}

const behaviours = {
  echo: (inputs, ctx) => {
    log(`begin ${ctx.step}`);
    return inputs;
  },
  measure: ({ text }) => ({ length: [...text].length }),
  fail_retry: (inputs) => {
    throw flaky(inputs);
  },
  fail_fatal: () => {
    throw new Fatal('this cannot work', { code: 'NO_GOOD' });
  },
  crash: () => undefined.nothing,
  partial: () => new PartialResult({ found: 1 }, [{ code: 'SOURCE_DOWN', message: 'one source is down' }]),
  slow: async (_, ctx) => {
    log(`begin ${ctx.step}`);
    try {
      await gate(ctx);
    } catch (error) {
      log(`stopped ${ctx.step}`);
      throw error;
    }
    return { done: true };
  },
  stubborn: async (_, ctx) => {
    log(`begin ${ctx.step}`);
    while (!isOpen()) await sleep(20);
    return { done: true };
  },
  progress: async (_, ctx) => {
    ctx.progress(0.5, 'half');
    await gate(ctx);
    return { done: true };
  },
  calls: async ({ count, bytes, pause, fail }, ctx) => {
    log(`begin ${ctx.step}`);
    const outcomes = [];
    for (let n = 1; n <= count; n += 1) {
      outcomes.push((await makeCall(ctx, n, {}, bytes === undefined ? {} : { text: 'x'.repeat(bytes) })).n);
      if (n === pause) {
        log('pause');
        await gate(ctx);
        if (fail && ctx.attempt === 1) throw flaky();
      }
    }
    if (fail && ctx.attempt === 1) throw flaky();
    return { outcomes };
  },
  approve: async (_, ctx) => ({ decision: await ctx.approve('publish?') }),
  ask: async (_, ctx) => {
    await makeCall(ctx, 1);
    return { decision: { answer: await ctx.ask('which?', { schema: { type: 'string' } }) } };
  },
  sub_plan: async (_, ctx) => ({ decision: await ctx.submitPlan({ steps: [{ id: 'a', agent_type: 'echo' }] }, { text: 'look' }) }),
  budget: async ({ tokens }, ctx) => ({ outcomes: [(await makeCall(ctx, 1, { needs: { tokens } })).n] }),
  callback: (_, ctx) => {
    const { url, token } = ctx.callback;
    const work = async () => {
      while (!isOpen()) await sleep(20);
      const headers = { 'goalmill-callback-token': token, 'content-type': 'application/json' };
      await fetch(url, { method: 'POST', headers, body: JSON.stringify({ outputs: { done: ctx.step } }) });
    };
    void work();
    ctx.accepted();
  },
  huge: ({ bytes }) => ({ text: 'x'.repeat(bytes), small: 1 }),
  context: (_, ctx) => ({ attempt: ctx.attempt, idempotency_key: ctx.idempotencyKey, traceparent: ctx.traceparent }),
};

const agents = Object.entries(behaviours).map(([name, run]) => {
  const made = agent(name);
  made.action('*', run);
  return made;
});
await serve(agents, { slots: 4 });
