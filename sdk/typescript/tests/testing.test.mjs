// The test kit: plans with agents in this process, in virtual time.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { agent, Fatal, Retry } from '../dist/index.js';
import { run, RunRefused } from '../dist/testing.js';

test('waits and backoffs take no time, and calls are made once', async () => {
  const paid = [];
  const shop = agent('shop');
  shop.action('order', async ({ article }, ctx) => {
    const number = await ctx.call('charge', () => { paid.push(article); return '17'; });
    if (ctx.attempt === 1) throw new Retry('the parcel is late', { after: '1h' });
    return { number };
  });
  const plan = { steps: [
    { id: 'order', agent_type: 'shop', action: 'order', inputs: { article: 'lamp' } },
    { id: 'rest', kind: 'wait', depends_on: ['order'], wait: { for: '3d' } },
  ] };
  const result = await run(plan, [shop]);
  assert.equal(result.status, 'completed');
  assert.deepEqual(result.outputs.order, { number: '17' });
  assert.deepEqual(paid, ['lamp']);
  assert.equal(result.steps.find(({ id }) => id === 'order').attempt, 2);
  assert.ok(result.seconds >= 3 * 86_400 + 3_600, `${result.seconds}`);
});

test('people decide, and steps run side by side', async () => {
  const writer = agent('writer');
  writer.action('publish', async ({ text }, ctx) => ({ published: (await ctx.approve(`publish ${text}?`)).approved }));
  const step = (id) => ({ id, agent_type: 'writer', action: 'publish', inputs: { text: '{{ goal.metadata.inputs.text }}' } });
  const approvals = [{ step: 'a', after: '2h' }, { step: 'b', reject: true, after: '1h' }];
  const result = await run({ steps: [step('a'), step('b')] }, [writer], { inputs: { text: 'hello' }, approvals });
  assert.deepEqual([result.outputs.a, result.outputs.b, result.seconds], [{ published: true }, { published: false }, 7200]);
});

test('mocks stand beside agents, and failures are results', async () => {
  const mine = agent('mine');
  mine.action('*', () => { throw new Fatal('no', { code: 'REFUSED' }); });
  const plan = { steps: [{ id: 'a', agent_type: 'other' }, { id: 'b', agent_type: 'mine', depends_on: ['a'] }] };
  const result = await run(plan, [mine], { mocks: { other: { '*': { outputs: { n: 1 }, cost: 0.5 } } } });
  assert.deepEqual([result.status, result.failure.code, result.outputs.a, result.cost], ['failed', 'REFUSED', { n: 1 }, 0.5]);
});

test('what cannot run is refused with the place', async () => {
  const refused = (error) => error instanceof RunRefused && /steps\/0\/depends_on\/0/.test(error.message);
  await assert.rejects(run({ steps: [{ id: 'a', agent_type: 'w', depends_on: ['x'] }] }), refused);
  await assert.rejects(run({ steps: [{ id: 'a', agent_type: 'w' }] }), /no mock stands for the agent `w`/);
  await assert.rejects(run({ steps: [] }, [], { program: '/nowhere/goalmill' }), { code: 'ENOENT' });
});
