// Durable calls of attempts that the test kit runs.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import test from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { agent, Fatal, PartialResult, Retry, Suspended } from 'goalmill';
import { Attempt } from '../dist/attempt.js';
import { run as runPlan } from '../dist/testing.js';

/**
 * Runs a plan of one step. `acts[n - 1]` is its attempt `n`; an attempt that is not the last one fails after its act.
 * `made` gives the calls that an attempt has recorded.
 */
async function run(acts, { step, plan, ...options } = {}) {
  const values = [];
  const one = agent('a');
  one.action('*', async (_, ctx) => {
    const value = await acts[ctx.attempt - 1](ctx);
    values.push(value);
    if (ctx.attempt < acts.length) throw new Retry('the next attempt');
    return value instanceof PartialResult ? value : { value };
  });
  const document = { ...plan, steps: [{ id: 's', agent_type: 'a', retry: { max: acts.length - 1 }, ...step }] };
  const result = await runPlan(document, [one], options);
  const found = (type) => result.events.filter((event) => event.type === type);
  const made = (attempt) => found('call_recorded').filter((event) => event.attempt === attempt).map(({ data }) => data);
  return { ...result, values, value: values.at(-1), found, made };
}

const rejected = (promise) => promise.then(() => assert.fail('it was made'), (error) => error);

test('calls that run at the same time are recorded as they end, and found in any order', async () => {
  const all = (order, made) => (ctx) => Promise.all(order.map((n) => ctx.call('c', async () => (await sleep(150 * (3 - n)), made(n)), { inputs: n })));
  const { values, made } = await run([all([0, 1, 2], (n) => n), all([2, 0, 1], () => 'again')]);
  assert.deepEqual(values, [[0, 1, 2], [2, 0, 1]]);
  assert.deepEqual(made(1).map(({ n, outcome }) => [n, outcome]), [[1, 2], [2, 1], [3, 0]]);
  assert.deepEqual(made(2), []);
});

test('calls may stand inside calls', async () => {
  const nested = (inner) => (ctx) => ctx.call('outer', async () => (await ctx.call('inner', () => inner)) + 1);
  const { values, made } = await run([(ctx) => ctx.call('inner', () => 5), nested(7), nested(9)]);
  assert.deepEqual([values, made(2).map(({ name }) => name), made(3)], [[5, 6, 6], ['outer'], []]);
});

test('a failed call is made again with the same key, and a fatal one is recorded', async () => {
  const keys = [];
  const busy = (key) => (keys.push(key), Promise.reject(new Retry('busy')));
  const { values, made } = await run([
    async (ctx) => {
      for (const _ of [1, 2]) assert.equal((await rejected(ctx.call('a', busy))).message, 'busy');
      assert.equal((await rejected(ctx.call('b', () => { throw new Fatal('never', { code: 'NEVER' }); }))).code, 'NEVER');
      return ctx.call('c', () => ({ at: new Date(0), nothing: undefined }));
    },
    async (ctx) => {
      const error = await rejected(ctx.call('b', () => 7));
      assert.ok(error instanceof Fatal);
      return [error.code, await ctx.call('c', () => 8)];
    },
  ]);
  assert.equal(keys[0], keys[1]);
  assert.match(keys[0], /:s\//);
  const date = { at: '1970-01-01T00:00:00.000Z' };
  assert.deepEqual([made(1).map(({ n, name }) => [n, name]), made(2)], [[[1, 'b'], [2, 'c']], []]);
  assert.deepEqual(values, [date, ['NEVER', date]]);
});

test('a call is made again in the same attempt, with the same key, as its `retry` says', async () => {
  const tries = (error, last) => {
    const keys = [];
    return [keys, (key) => { if (keys.push(key) < last) throw error; return keys.length; }];
  };
  for (const [error, last, tried, code] of [[new Error('x'), 3, 3], [new Retry('x', { after: 5 }), 9, 3, 'RETRY'], [new Fatal('x'), 2, 1, 'FAILED']]) {
    const [keys, make] = tries(error, last);
    const { value, failure, status } = await run([(ctx) => ctx.call('a', make, { retry: { max: 2, initial: 1 } })]);
    assert.deepEqual([keys.length, new Set(keys).size, value, failure?.code], [tried, 1, code ? undefined : last, code], status);
  }
});

test('an outcome that cannot be recorded ends the attempt', async () => {
  for (const [make, usage, why] of [[() => NaN, {}, /NaN/], [() => 1, { cost: '1' }, /`cost` must be/], [() => 1, () => ({ promptTokens: 1.5 }), /integer/]]) {
    const { failure, found } = await run([async (ctx) => {
      assert.equal((await rejected(ctx.call('a', make, { usage }))).code, 'ANSWER_INVALID');
      assert.ok(ctx.cancelled.aborted);
      return rejected(ctx.call('b', () => 1)).then(() => 'fine'); // whatever the agent does with the error
    }]);
    assert.deepEqual([found('call_recorded'), failure.code], [[], 'ANSWER_INVALID']);
    assert.match(failure.message, why);
  }
});

test('name, inputs and occurrence identify a call', async () => {
  const add = (...made) => async (ctx) => {
    const outcomes = [];
    for (const [name, inputs] of made) outcomes.push(await ctx.call(name, (key) => key, { inputs }));
    return outcomes;
  };
  const first = ['add', [2, 3]];
  const { values, made } = await run([add(first), add(first), add(['add', [2, 4]]), add(['sum', [2, 3]]), add(first, first)]);
  assert.deepEqual([2, 3, 4, 5].map((attempt) => made(attempt).length), [0, 1, 1, 1]);
  assert.equal(values[4][0], values[0][0]);
  assert.notEqual(values[4][1], values[0][0]);
});

test('calls hold their share of the budget while they are made', async () => {
  const usage = { promptTokens: 60, cost: 0.25 };
  const plan = { budget: { tokens: 100, cost: 1 } };
  const pay = (tokens) => async (ctx) => {
    await ctx.call('pay', () => 1, { usage, needs: { tokens: 100 } });
    if (ctx.attempt === 2) assert.deepEqual([ctx.budget.tokens, ctx.budget.cost], [40, 0.25]);
    return ctx.call('more', () => 2, { needs: { tokens } });
  };
  // The first attempt gets a part of the budget, and waits for the rest.
  const enough = await run([pay(40), pay(40)], { plan });
  assert.deepEqual([enough.values, enough.found('step_suspended')[0].data.call.wait.needs], [[2], { tokens: 100, cost: 0 }]);
  const over = await run([pay(50), pay(50), pay(50)], { plan });
  assert.deepEqual([over.failure.class, over.failure.code, over.made(2)[0].cost], ['constraint_violation', 'BUDGET_EXCEEDED', 0.25]);
  const both = async (ctx) => {
    const call = (name) => ctx.call(name, () => sleep(20, name), { needs: { tokens: 60 } });
    return (await Promise.allSettled([call('first'), call('second')])).map(({ value, reason }) => value ?? reason.name);
  };
  const { values, made } = await run([(ctx) => ctx.call('all', () => 1, { needs: { tokens: 100 } }), both, both], { plan });
  assert.deepEqual([made(2), made(3)].map((calls) => calls.map(({ name }) => name)), [['first'], ['second']]);
  assert.deepEqual(values, [['first', 'Suspended'], ['first', 'second']]);
  const wrong = await run([(ctx) => ctx.call('a', () => 1, { needs: { tokens: 1.5 } })]);
  assert.match(wrong.failure.message, /`tokens` must be an integer/);
});

test('the first of several waits ends the attempt, after the calls beside it', async () => {
  const waits = async (ctx) => {
    ctx.addUsage({ cost: 0.5 });
    const slow = ctx.call('slow', async () => (await sleep(30), 3));
    const ended = await Promise.allSettled([ctx.approve('one?'), ctx.approve('two?')]);
    assert.ok(ended.every(({ reason }) => reason instanceof Suspended));
    assert.ok((await rejected(ctx.call('late', () => 1))) instanceof Suspended);
    void slow;
    return { swallowed: true };
  };
  const { made, found, value, cost } = await run([waits, (ctx) => ctx.approve('one?')], { approvals: [{ step: 's' }] });
  assert.deepEqual(made(1).map(({ name, outcome }) => [name, outcome]), [['slow', 3]]);
  assert.deepEqual(found('step_suspended').map(({ data }) => [data.call.n, data.call.wait.text]), [[2, 'one?']]);
  assert.deepEqual([value.approved, cost], [true, 0.5]);
  const late = await run([waits, (ctx) => ctx.ask('why?', { limit: '1h' }), (ctx) => ctx.ask('why?', { limit: '1h' })], { approvals: [{ step: 's' }] });
  assert.deepEqual([late.failure.code, late.failure.class], ['NO_ANSWER', 'permanent']);
});

const FLOATING = `
  import { agent } from 'goalmill';
  import { run } from 'goalmill/testing';
  const one = agent('a');
  one.action('*', async (_, ctx) => {
    if (ctx.attempt > 1) return ctx.approve('may I?');
    void (async () => ctx.approve('may I?'))();
    await new Promise((resolve) => setTimeout(resolve, 50));
    return 'wrong';
  });
  const plan = { steps: [{ id: 's', agent_type: 'a' }] };
  const { outputs } = await run(plan, [one], { approvals: [{ step: 's' }] });
  const two = agent('a');
  two.action('*', (_, ctx) => {
    void (async () => {
      await new Promise((resolve) => setTimeout(resolve, 30));
      await ctx.call('late', () => 1);
    })();
  });
  const logged = [];
  await Promise.all([run(plan, [two], { log: (level, message) => logged.push(message) }), run(plan, [two])]);
  await new Promise((resolve) => setTimeout(resolve, 60));
  console.log(outputs.s.approved, logged.length);
  void run(plan, [one], { approvals: [{ step: 's' }] });
  await Promise.reject(new Error('another error'));
`;

test('a wait that the action does not await ends the attempt and not the process', () => {
  const { stdout, stderr, status } = spawnSync(process.execPath, ['--input-type=module', '-e', FLOATING], { cwd: import.meta.dirname, encoding: 'utf8' });
  assert.deepEqual([stdout, status, /another error/.test(stderr)], ['true 1\n', 1, true], stderr);
});

test('a call that the action does not await is a failure that says so', async () => {
  let after;
  for (const act of [(ctx) => void ctx.call('late', () => sleep(20)), (ctx) => void ctx.approve('late')]) {
    const floating = (ctx) => {
      setTimeout(() => (after = rejected(ctx.call('after', () => 1))), 20);
      act(ctx);
    };
    const { failure } = await run([floating, floating], { approvals: [{ step: 's' }] });
    assert.deepEqual([failure.code, failure.effect], ['CALL_INVALID', 'unknown']);
    assert.match(failure.message, /ended before its call `(late|approve)`: await every call/);
    await sleep(40);
    await after;
  }
});

test('a stopped attempt makes no calls', async () => {
  const answers = [];
  const task = { task: 1, plan: 'p', step: 's', attempt: 1, agent_type: 'a', inputs: {}, timeout_ms: 1_000, idempotency_key: 'k' };
  const attempt = new Attempt(task, { nestingMax: 64, log: () => {}, send: (kind, { answer }) => answers.push([kind, answer?.error.code]) });
  const one = agent('a');
  one.action('*', async (_, ctx) => {
    await new Promise((resolve) => ctx.cancelled.addEventListener('abort', resolve));
    return ctx.call('a', () => 1);
  });
  const ended = attempt.run(one);
  attempt.stop();
  await ended;
  assert.deepEqual(answers, [['ended', 'STOPPED']]);
});

test('whatever an action does, its attempt ends once', async () => {
  const throws = (value) => () => { throw value; };
  const deep = () => JSON.parse('['.repeat(100) + ']'.repeat(100));
  for (const [act, code] of [
    [throws(undefined), 'AGENT_EXCEPTION'],
    [throws(Object.create(null)), 'AGENT_EXCEPTION'],
    [throws(new Proxy({}, { getPrototypeOf: throws(1), get: throws(2) })), 'AGENT_EXCEPTION'],
    [throws(new Suspended()), 'AGENT_EXCEPTION'],
    [() => ({ toJSON: throws(new Error('no')) }), 'AGENT_EXCEPTION'],
    [() => ({ get a() { throw new Fatal('no'); } }), 'FAILED'],
    [() => 1n, 'ANSWER_INVALID'],
    [() => '\ud800', 'ANSWER_INVALID'],
    [deep, 'ANSWER_INVALID'],
    [(ctx) => ctx.addUsage({ cost: NaN }), 'ANSWER_INVALID'],
    [(ctx) => [1, 2].forEach(() => ctx.addUsage({ cost: 9e14 })), 'ANSWER_INVALID'],
    [(ctx) => ctx.approve('x', { limit: 1e30 }), 'AGENT_EXCEPTION'],
    [(ctx) => ctx.submitPlan({ name: '\udfff' }), 'ANSWER_INVALID'],
    [(ctx) => ctx.accepted(), 'CALLBACK_MISSING'],
  ]) assert.equal((await run([act])).failure?.code, code, String(act));
  const { status, outputs } = await run([(ctx) => (ctx.progress(NaN, undefined), ctx.progress('x', null), new PartialResult({ a: 1 }, 'b'))]);
  assert.deepEqual([status, outputs.s], ['partial', { a: 1 }]);
});
