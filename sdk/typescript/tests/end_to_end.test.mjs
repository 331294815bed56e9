// Agents and clients against a real scheduler and a real Redis.
import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { agent, connect, Fatal, GoalmillError, PartialResult, plan, PlanFailed, ref, refs, Retry, serve } from 'goalmill';
import { z } from 'zod';
import { startGoalmill, until } from './servers.mjs';

const travel = agent('travel_agent', { description: 'Books trips.', capabilities: ['book hotels'], cost: 0.01, latency: '2s' });
const search = travel.action(
  'search',
  { input: z.object({ city: z.string() }), output: z.object({ best: z.string(), price: z.number() }), description: 'Finds hotels.' },
  ({ city }) => ({ best: `Hotel ${city}`, price: city.length }),
);
const seen = new Map();
const see = (name, value) => seen.set(name, [...(seen.get(name) ?? []), value]);

const steps = agent('step_agent');
const act = (name, run) => steps.action(name, run);
const flaky = act('flaky', (_, ctx) => {
  if (ctx.attempt < 3) throw new Retry('not yet');
  return { attempt: ctx.attempt, key: ctx.idempotencyKey };
});
const fatal = act('fatal', () => {
  throw new Fatal('no such city', { code: 'NO_CITY' });
});
const partial = act('partial', () => new PartialResult({ found: 1 }, 'one source is down'));
const pays = act('pays', async (_, ctx) => {
  see('pays', ctx.budget);
  const first = await ctx.call('model', (key) => (see('call', key), { text: 'a', at: new Date(0) }), {
    inputs: { question: 1 }, usage: { cost: 0.5, promptTokens: 10, completionTokens: 5 },
  });
  ctx.addUsage({ cost: 0.25 });
  const [second, third] = await Promise.all([
    ctx.call('slow', async (key) => (see('call', key), await new Promise((done) => setTimeout(done, 30)), 2)),
    ctx.call('quick', (key) => (see('call', key), 3)),
  ]);
  if (ctx.attempt === 1) throw new Retry('after the calls');
  return { first, sum: second + third };
});
const undone = act('undo', (inputs) => (see('undo', inputs), {}));
const books = act('book', () => ({ order: 7 }));
const slow = act('slow', async (_, ctx) => {
  see('slow', ctx.step);
  ctx.progress(0.5, 'half');
  await new Promise((_, reject) => ctx.cancelled.addEventListener('abort', () => (see('stopped', ctx.step), reject(ctx.cancelled.reason))));
});
const publishes = act('publish', async (_, ctx) => {
  const decision = await ctx.approve('publish?');
  const colour = await ctx.ask('which colour?', { schema: z.enum(['red', 'blue']) });
  return { decision, colour };
});
const pair = plan('pair', {}, (p) => {
  const a = p.step('a', search, { inputs: { city: 'Rome' } });
  p.finish('b', { inputs: { best: a.out.best, text: refs.inputs.text } });
});
const submits = act('submit', async (_, ctx) => ctx.submitPlan(pair, { inputs: { text: 'hi' } }));
const waits = act('wait', async ({ key, timeout }, ctx) => ({ event: (await ctx.waitEvent('payment', { key, timeout })) ?? 'none' }));

const planner = agent('ts_planner', { plans: true });
planner.action('plan', ({ goal, agents, issues }) => {
  see('planned', agents.map(({ agent_type }) => agent_type));
  return issues === undefined ? '{"steps": [{"id": "a", "agent_type": "nobody"}]}' : plan('greet', {}, (p) => {
    const greet = p.step('greet', fatal, { onFailure: 'replan' });
    p.finish('end', { inputs: { text: goal.description, said: greet.out.said } });
  });
});
planner.action('revise', ({ situation }) => plan('other', {}, (p) => p.finish('other', { inputs: { text: `${situation.goal.description}!` } })));
const answers = act('print', (_, ctx) => {
  const { url, token } = ctx.callback ?? {};
  see('printed', { url, token });
  ctx.accepted();
});

let goalmill, client, stop, served;
before(async () => {
  goalmill = await startGoalmill({ settings: '[planner]\norder = ["rules", "agent:ts_planner"]\n' });
  client = connect(goalmill.url);
  stop = new AbortController();
  served = serve([travel, steps, planner], { redis: goalmill.redisUrl, slots: 4, signal: stop.signal, log: () => {} });
});
after(async () => {
  stop.abort();
  await served;
  await goalmill.end();
});

const run = async (action, options = {}, planOptions = {}) =>
  client.submit(plan('test', planOptions, (p) => p.step('s', action, { retry: { initial: 1 }, ...options })));
const stepOf = async (submitted, id = 's') => (await submitted.get()).steps.find((step) => step.id === id);

test('a map over the outputs of another step runs, and the run gives the result and the events', async () => {
  const trip = plan('trip', {}, (p) => {
    const find = p.message('find', { inputs: { cities: ['Paris', 'Rome', 'Oslo'] } });
    const hotels = p.step('hotels', search, { forEach: find.out.cities, inputs: { city: refs.item } });
    p.finish('sum', { inputs: { hotels: hotels.out, first: hotels.out[0].best } });
  });
  const submitted = await client.submit(trip, { key: 'trip-1' });
  const output = await submitted.result({ timeout: '30s' });
  assert.deepEqual(output.hotels.map((hotel) => hotel.price), [5, 4, 4]);
  assert.equal(output.first, 'Hotel Paris');
  const events = [];
  for await (const event of submitted.events()) events.push(event);
  assert.deepEqual(events.map((event) => event.seq), events.map((_, i) => i + 1));
  assert.equal(events.at(-1).type, 'plan_completed');
  assert.ok(events.some((event) => event.type === 'step_completed' && event.step === 'sum'));
  const same = await client.submit(trip, { key: 'trip-1' });
  assert.equal(same.id, submitted.id);
  await assert.rejects(client.submit(pair, { key: 'trip-1' }), (error) => error instanceof GoalmillError && error.code === 'IDEMPOTENCY_KEY_REUSED');
});

test('the card has the schemas of the actions', async () => {
  const { items } = await client.request('GET', '/v1/agents');
  const card = items.find((item) => item.agent_type === 'travel_agent');
  assert.deepEqual([card.cost, card.latency_ms, card.capabilities], [0.01, 2_000, ['book hotels']]);
  assert.deepEqual(card.actions[0].inputs.required, ['city']);
  assert.deepEqual(card.actions[0].outputs.required, ['best', 'price']);
});

test('inputs and plans that do not fit are refused with their place', async () => {
  const wrong = await run(search, { inputs: { city: ref('[1]') }, onFailure: 'continue' });
  await wrong.result();
  const { failure } = await stepOf(wrong);
  assert.equal(failure.code, 'INPUT_INVALID');
  assert.match(failure.message, /`\/city`/);
  const circle = { name: 'circle', steps: [{ id: 'a', agent_type: 'x', dependencies: ['b'] }, { id: 'b', agent_type: 'x', dependencies: ['a'] }] };
  await assert.rejects(client.submit(circle), /cycle/);
});

test('Retry takes another attempt with the same idempotency key, Fatal takes none', async () => {
  const retried = await run(flaky);
  assert.deepEqual(await retried.result(), { attempt: 3, key: `${retried.id}:s` });
  const failed = await run(fatal);
  const error = await failed.result().then(() => undefined, (thrown) => thrown);
  assert.ok(error instanceof PlanFailed && /no such city/.test(error.message));
  // What an uncaught one prints.
  assert.deepEqual({ ...error }, { name: 'PlanFailed', plan: failed.id, planStatus: 'failed', code: 'NO_CITY' });
  assert.equal((await stepOf(failed)).attempt, 1);
});

test('a partial success says what is missing', async () => {
  const submitted = await run(partial);
  assert.deepEqual(await submitted.result(), { found: 1 });
  assert.equal((await submitted.get()).status, 'partial');
});

test('recorded calls are made once, each with its key, and count against the budget', async () => {
  const submitted = await run(pays, {}, { budget: { cost: 10 } });
  assert.deepEqual(await submitted.result(), { first: { text: 'a', at: '1970-01-01T00:00:00.000Z' }, sum: 5 });
  const keys = seen.get('call');
  assert.deepEqual([keys.length, new Set(keys).size, keys.every((key) => key.startsWith(`${submitted.id}:s/`))], [3, 3, true]);
  const [first, second] = seen.get('pays').map((budget) => budget.cost);
  assert.ok(first <= 10 && second <= 9.25, `${first}, ${second}`);
  const { usage, steps: [step] } = await submitted.get();
  assert.deepEqual([usage, step.attempt], [{ tokens: 15, cost: 1 }, 2]);
});

test('done steps are undone with their inputs and outputs when the plan fails', async () => {
  const saga = plan('saga', {}, (p) => {
    const book = p.step('book', books, { inputs: { hotel: 'Lux' }, undo: 'undo' });
    p.step('pay', fatal, { after: [book] });
  });
  await assert.rejects((await client.submit(saga)).result(), PlanFailed);
  assert.deepEqual(seen.get('undo'), [{ inputs: { hotel: 'Lux' }, outputs: { order: 7 } }]);
  assert.ok(undone);
});

test('a person approves and answers between attempts', async () => {
  const submitted = await run(publishes);
  await until(async () => (await stepOf(submitted)).status === 'awaiting_approval', 'the step waits');
  await submitted.approve('fine', { step: 's' });
  const question = async () => (await client.request('GET', `/v1/plans/${submitted.id}/questions`)).items?.length > 0 || (await stepOf(submitted)).ask;
  await until(async () => (await stepOf(submitted)).status === 'awaiting_approval' && (await question()), 'the question is asked');
  await submitted.answer('s', 'blue');
  assert.deepEqual(await submitted.result(), { decision: { approved: true, reason: 'fine' }, colour: 'blue' });
});

test('an agent runs a plan and gets its outputs', async () => {
  const { plan: inner, status, outputs } = await (await run(submits)).result();
  assert.deepEqual([status, outputs], ['completed', { best: 'Hotel Rome', text: 'hi' }]);
  assert.match(inner, /^p\d+-/);
});

test('an agent waits for an event, and for its time-out', async () => {
  const submitted = await run(waits, { inputs: { key: 'o-1', timeout: '1h' } });
  await client.sendEvent('payment', { key: 'o-1', data: { paid: 3 } });
  assert.deepEqual(await submitted.result({ timeout: '30s' }), { event: { paid: 3 } });
  await client.sendEvent('nothing', { key: 'o-1', data: null });
  const waited = await client.submit({ steps: [{ id: 'n', wait: { event: 'nothing', key: 'o-1' } }] });
  assert.equal(await waited.result({ timeout: '30s' }), null);
  assert.deepEqual(await (await run(waits, { inputs: { key: 'o-2', timeout: 20 } })).result(), { event: 'none' });
});

test('an outcome comes by callback', async () => {
  const submitted = await run(answers, { callback: true });
  await until(async () => (await stepOf(submitted)).status === 'waiting', 'the task is accepted');
  const [{ url, token }] = seen.get('printed');
  const headers = { 'goalmill-callback-token': token, 'content-type': 'application/json' };
  await fetch(url, { method: 'POST', headers, body: '{"outputs": {"pages": 3}}' });
  assert.deepEqual(await submitted.result({ timeout: '30s' }), { pages: 3 });
  await assert.rejects((await run(answers)).result(), /no `callback: true`/);
});

test('an agent plans, corrects its plan, and revises it', async () => {
  const goal = { description: 'Greet the moon', planning: { planner: 'agent:ts_planner' } };
  const preview = async () => JSON.stringify(await client.request('POST', '/v1/plans:preview', goal));
  await until(async () => (await preview()).includes('step_agent'), 'the scheduler has read the card of the planner');
  const submitted = await client.submit(goal);
  assert.deepEqual(await submitted.result({ timeout: '30s' }), { text: 'Greet the moon!' });
  assert.ok(seen.get('planned').length > 1);
  assert.ok(seen.get('planned').every((agents) => agents.includes('travel_agent') && !agents.includes('ts_planner')));
});

test('cancel stops the action, explain says what runs', async () => {
  const submitted = await run(slow);
  await until(() => seen.get('slow'), 'the step runs');
  assert.match(JSON.stringify(await submitted.explain()), /running/);
  for await (const event of submitted.events({ types: ['step_progress'] })) {
    assert.deepEqual([event.data.progress, event.data.message], [0.5, 'half']);
    break;
  }
  await submitted.cancel('enough');
  await assert.rejects(submitted.result(), (error) => error.planStatus === 'cancelled');
  await until(() => seen.get('stopped'), 'the action is stopped');
});

test('result gives up after its time-out, and goes on later', async () => {
  const submitted = await run(slow);
  await assert.rejects(submitted.result({ timeout: 50 }), { name: 'TimeoutError' });
  await submitted.cancel();
  await assert.rejects(submitted.result(), PlanFailed);
});

test('a stored plan runs by its name, alone and inside another plan', async () => {
  const inputSchema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
  const greet = plan('greet', { inputSchema }, (p) => p.finish('end', { inputs: { to: refs.inputs.city } }));
  await client.request('POST', '/v1/stored-plans/greet/versions', greet);
  const submitted = await client.submit({ use: 'greet@1', inputs: { city: 'Oslo' } });
  assert.deepEqual(await submitted.result(), { to: 'Oslo' });
  await assert.rejects(client.submit({ use: 'greet', inputs: {} }), /city/);
  assert.deepEqual(await (await client.submit(greet, { inputs: { city: '{{ 1 }}' } })).result(), { to: '{{ 1 }}' });
  await assert.rejects(client.submit(greet), /reads the input `city`/);
  const around = plan('around', {}, (p) => {
    const inner = p.use('inner', 'greet', { inputs: { city: 'Rome' } });
    p.finish('end', { inputs: { said: inner.out } });
  });
  assert.deepEqual(await (await client.submit(around)).result(), { said: { to: 'Rome' } });
});

test('a branch for a failed step runs, and the plan goes on', async () => {
  const branches = plan('branches', {}, (p) => {
    const pay = p.step('pay', fatal);
    p.step('refund', books, { after: [{ step: pay, is: ['failed'] }] });
  });
  const submitted = await client.submit(branches);
  assert.deepEqual(await submitted.result(), { order: 7 });
});
