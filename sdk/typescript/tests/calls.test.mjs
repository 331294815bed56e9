// Durable calls of an attempt, with the worker of the test kit.
import assert from 'node:assert/strict';
import test from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { agent, Fatal, PartialResult, Retry, Suspended } from 'goalmill';
import { KitAttempt } from '../dist/kit_attempt.js';

const TASK = { plan: 'p0-x', step: 's', attempt: 1, token: 't', agent_type: 'a', idempotency_key: 'p0-x:s', timeout_ms: 60_000, inputs: {} };

/** Begins an attempt whose action is `act`. */
function begin(act, task = {}) {
  const reports = [];
  const one = agent('a');
  one.action('*', act);
  const { attempt } = new KitAttempt({ ...TASK, ...task }, () => {}, (report) => reports.push(JSON.parse(JSON.stringify(report))));
  return { attempt, reports, ended: attempt.run(one) };
}

/** Runs an attempt; gives its recorded calls and its last report. */
async function run(act, task) {
  const { reports, ended } = begin((_, ctx) => act(ctx), task);
  await ended;
  assert.ok(reports.slice(0, -1).every(({ what }) => what === 'call'), 'it ends once');
  return { calls: reports.slice(0, -1).map(({ call }) => call), end: reports.at(-1) };
}

const rejected = (promise) => promise.then(() => assert.fail('it was made'), (error) => error);

test('calls that run at the same time are recorded as they end, and found in any order', async () => {
  const all = (order, made) => async (ctx) => Promise.all(order.map((n) => ctx.call('c', async () => (await sleep(30 * (3 - n)), made(n)), { inputs: n })));
  const first = await run(all([0, 1, 2], (n) => n));
  assert.deepEqual(first.end.outputs, [0, 1, 2]);
  assert.deepEqual(first.calls.map(({ n, outcome }) => [n, outcome]), [[1, 2], [2, 1], [3, 0]]);
  const second = await run(all([2, 0, 1], () => 'again'), { calls: first.calls });
  assert.deepEqual([second.end.outputs, second.calls], [[2, 0, 1], []]);
});

test('calls may stand inside calls', async () => {
  const nested = (inner) => (ctx) => ctx.call('outer', async () => (await ctx.call('inner', () => inner)) + 1);
  const first = await run(nested(5));
  assert.deepEqual([first.end.outputs, first.calls.map(({ name }) => name)], [6, ['inner', 'outer']]);
  const onlyInner = await run(nested(7), { calls: first.calls.slice(0, 1) });
  assert.deepEqual([onlyInner.end.outputs, onlyInner.calls.map(({ name }) => name)], [6, ['outer']]);
  assert.equal((await run(nested(7), { calls: first.calls })).end.outputs, 6);
});

test('a failed call is made again with the same key, and a fatal one is recorded', async () => {
  const keys = [];
  const busy = (key) => (keys.push(key), Promise.reject(new Retry('busy')));
  const { calls, end } = await run(async (ctx) => {
    for (const _ of [1, 2]) assert.equal((await rejected(ctx.call('a', busy))).message, 'busy');
    assert.equal((await rejected(ctx.call('b', () => { throw new Fatal('never', { code: 'NEVER' }); }))).code, 'NEVER');
    return ctx.call('c', () => ({ at: new Date(0), nothing: undefined }));
  });
  assert.equal(keys[0], keys[1]);
  assert.ok(keys[0].startsWith('p0-x:s/'));
  assert.deepEqual(calls.map(({ n, name }) => [n, name]), [[1, 'b'], [2, 'c']]);
  assert.deepEqual(end.outputs, { at: '1970-01-01T00:00:00.000Z' });
  const second = await run(async (ctx) => {
    const error = await rejected(ctx.call('b', () => 7));
    assert.ok(error instanceof Fatal);
    return [error.code, await ctx.call('c', () => 8)];
  }, { calls });
  assert.deepEqual([second.end.outputs, second.calls], [['NEVER', end.outputs], []]);
});

test('an outcome that cannot be recorded ends the attempt', async () => {
  for (const [make, usage, why] of [[() => NaN, {}, /NaN/], [() => 1, { cost: '1' }, /`cost` must be/], [() => 1, () => ({ promptTokens: 1.5 }), /integer/]]) {
    const { calls, end } = await run(async (ctx) => {
      assert.equal((await rejected(ctx.call('a', make, { usage }))).code, 'ANSWER_INVALID');
      assert.ok(ctx.cancelled.aborted);
      return rejected(ctx.call('b', () => 1)).then(() => 'fine'); // whatever the agent does with the error
    });
    assert.deepEqual([calls, end.what, end.failure.code], [[], 'failed', 'ANSWER_INVALID']);
    assert.match(end.failure.message, why);
  }
});

test('name, inputs and occurrence identify a call', async () => {
  const add = (...made) => async (ctx) => {
    const outcomes = [];
    for (const [name, inputs] of made) outcomes.push(await ctx.call(name, (key) => key, { inputs }));
    return outcomes;
  };
  const { calls, end: { outputs: keys } } = await run(add(['add', [2, 3]]));
  for (const [name, inputs, isMade] of [['add', [2, 3], false], ['add', [2, 4], true], ['sum', [2, 3], true]]) {
    assert.equal((await run(add([name, inputs]), { calls })).calls.length > 0, isMade);
  }
  const twice = await run(add(['add', [2, 3]], ['add', [2, 3]]), { calls });
  assert.deepEqual([twice.end.outputs[0], twice.calls.length], [keys[0], 1]);
  assert.notEqual(twice.end.outputs[1], keys[0]);
});

test('a call counts against the budget, and waits for room without a worker', async () => {
  const budget = { tokens: 100, cost: 1 };
  const usage = { promptTokens: 60, cost: 0.75 };
  const pay = async (ctx, tokens) => {
    await ctx.call('pay', () => 1, { usage, needs: { tokens: 100 } });
    assert.deepEqual([ctx.budget.tokens, ctx.budget.cost], [40, 0.25]);
    return ctx.call('more', () => 2, { needs: { tokens } });
  };
  const { calls, end } = await run((ctx) => pay(ctx, 50), { budget });
  assert.deepEqual([calls[0].cost, calls[0].usage], [0.75, { prompt_tokens: 60, completion_tokens: 0 }]);
  assert.deepEqual([end.what, end.suspended.n, end.suspended.wait.needs], ['suspended', 2, { tokens: 50, cost: 0 }]);
  assert.equal((await run((ctx) => pay(ctx, 40), { budget })).end.outputs, 2);
  const last = await run((ctx) => ctx.call('a', () => 1, { needs: { tokens: 2 } }), { budget: { tokens: 1, last: true } });
  assert.deepEqual([last.end.what, last.end.failure.class, last.end.failure.code], ['failed', 'constraint_violation', 'BUDGET_EXCEEDED']);
  const wrong = await run((ctx) => ctx.call('a', () => 1, { needs: { tokens: 1.5 } }));
  assert.match(wrong.end.failure.message, /`tokens` must be an integer/);
});

test('the first of several waits ends the attempt, after the calls beside it', async () => {
  const { calls, end } = await run(async (ctx) => {
    ctx.addUsage({ cost: 0.5 });
    const slow = ctx.call('slow', async () => (await sleep(30), 3));
    const waits = await Promise.allSettled([ctx.approve('one?'), ctx.approve('two?')]);
    assert.ok(waits.every(({ reason }) => reason instanceof Suspended));
    assert.ok((await rejected(ctx.call('late', () => 1))) instanceof Suspended);
    void slow;
    return { swallowed: true };
  });
  assert.deepEqual(calls.map(({ name, outcome }) => [name, outcome]), [['slow', 3]]);
  assert.deepEqual([end.what, end.suspended.n, end.suspended.wait.text, end.cost], ['suspended', 2, 'one?', 0.5]);
  const decided = { n: 2, name: end.suspended.name, inputs: end.suspended.inputs };
  const second = await run((ctx) => ctx.approve('one?'), { calls: [...calls, { ...decided, outcome: { approved: true } }] });
  assert.deepEqual(second.end.outputs, { approved: true });
  const late = await run((ctx) => ctx.approve('one?'), { calls: [...calls, { ...decided, outcome: { error: 'too late' } }] });
  assert.deepEqual([late.end.failure.code, late.end.failure.message, late.end.failure.class], ['NO_ANSWER', 'too late', 'permanent']);
});

test('a stopped attempt makes no calls', async () => {
  const { attempt, reports, ended } = begin(async (_, ctx) => {
    await new Promise((resolve) => ctx.cancelled.addEventListener('abort', resolve));
    return ctx.call('a', () => 1);
  });
  attempt.stop();
  await ended;
  assert.deepEqual(reports.map(({ what, failure }) => [what, failure.code]), [['failed', 'STOPPED']]);
});

test('a call that the action does not wait for does no harm', async () => {
  let made;
  const { calls, end } = await run((ctx) => {
    void ctx.call('late', async () => (await sleep(20), (made = true)));
    setTimeout(() => void ctx.call('after', () => 1), 20);
    return { done: true };
  });
  await sleep(60);
  assert.deepEqual([calls, end.outputs, made], [[], { done: true }, true]);
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
  ]) assert.equal((await run(act)).end.failure?.code, code, String(act));
  const frames = [];
  const { end } = await run((ctx) => (ctx.progress(NaN, undefined), ctx.progress('x', null), new PartialResult({ a: 1 }, 'b')));
  assert.deepEqual([end.what, end.outputs, end.errors[0].code, frames], ['partial_success', { a: 1 }, 'INCOMPLETE', []]);
  const accepted = await run((ctx) => ctx.accepted(), { callback: { url: 'u', token: 't' } });
  assert.deepEqual([accepted.end.what, accepted.end.suspended.wait.for], ['suspended', 'callback']);
});
