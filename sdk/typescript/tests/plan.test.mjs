// The plan builder: what it emits, and what the program makes of it.
import assert from 'node:assert/strict';
import test from 'node:test';
import { agent, plan, ref, refs } from 'goalmill';
import { run } from 'goalmill/testing';
import { z } from 'zod';
import { validate } from './servers.mjs';

const hotels = agent('hotel_agent', { cost: 0.01 });
const search = hotels.action(
  'search',
  { input: z.object({ city: z.string() }), timeout: '60s', undo: 'cancel', retry: { max: 2, initial: 500, maxDelay: '5s' } },
  async ({ city }) => ({ best: { price: city.length } }),
);

const whole = () =>
  plan('trip', { strategy: 'parallel', maxParallel: 4, budget: { cost: 5 }, undoOn: ['failed'], startIn: 1_000, approve: { limit: '2h', default: 'approve' } }, (p) => {
    const find = p.step('find', 'city_agent', { action: 'list', inputs: { country: refs.goal.metadata.country } });
    const found = p.step('hotels', search, {
      forEach: { items: find.out.list, as: 'city', maxParallel: 2, onItemFailure: { atMost: 1 } },
      inputs: { city: ref('city') },
      undo: undefined,
      cache: { key: `c-${refs.inputs.city}`, ttl: '1h' },
    });
    const draft = p.step('draft', 'writer_agent', {
      inputs: { text: `Take ${found.out[0].best.price} or ${refs.previous.outputs.text}`, round: refs.iteration },
      repeat: { until: `${refs.outputs.score} > 0.8`, max: 3, delay: 10, onMax: 'continue' },
      when: `${found.out} | length > 0`,
      fallback: { agentType: 'other_agent', action: 'write' },
      onFailure: 'continue',
      onPartial: 'fail',
      expectedOutputs: ['score'],
      priority: 7,
      resource: 'pen',
      estimates: { seconds: 3 },
      join: { atLeast: 1 },
    });
    const book = p.step('book', search, { inputs: { city: 'Paris' }, after: [draft] });
    const paid = p.wait('paid', { event: 'payment', key: refs.goal.metadata.order, timeout: '2d', onTimeout: { default: { ok: false } } }, { after: [book] });
    p.wait('pause', { for: 3_600_000 }, { after: [paid] });
    p.wait('leave', { until: paid.out.departs });
    p.plan('inner', plan('inside', { collect: 'list' }, (q) => q.message('note', { inputs: { text: refs.inputs.text } })), { inputs: { text: draft.out.text } });
    p.step('sure', 'writer_agent', { ask: { question: 'Which one?', schema: { type: 'string' }, limit: '1h', into: 'which' }, after: [book] });
    p.finish('sum', { inputs: { hotels: found.out, ok: paid.out.ok } });
    p.always('report', 'writer_agent', { inputs: { status: refs.plan.status, book: book.status } });
  });

test('the whole vocabulary is emitted as JSON that the program accepts as it is meant', async () => {
  const document = whole();
  assert.deepEqual(document, JSON.parse(JSON.stringify(document)));
  const { plan: read, ...problem } = await validate(document);
  assert.ok(problem.valid, JSON.stringify(problem));
  const step = (id) => read.steps.find((one) => one.id === id);
  const { budget, max_parallel, undo_on, approve } = read;
  assert.deepEqual({ budget, max_parallel, undo_on, approve }, { budget: { cost: 5 }, max_parallel: 4, undo_on: ['failed'], approve: { limit_ms: 7_200_000, default: 'approve' } });
  assert.deepEqual(step('hotels'), {
    id: 'hotels', agent_type: 'hotel_agent', action: 'search', inputs: { city: '{{ city }}' }, dependencies: ['find'],
    timeout_ms: 60_000, retry: { max: 2, initial_ms: 500, factor: 2, max_ms: 5_000, jitter: 'full' },
    cache: { key: 'c-{{ inputs.city }}', ttl_ms: 3_600_000 },
    for_each: { items: '{{ steps.find.outputs.list }}', as: 'city', max_parallel: 2, on_item_failure: { at_most: 1 } },
  });
  assert.deepEqual(step('draft').repeat, { until: 'outputs.score > 0.8', max: 3, delay_ms: 10, on_max: 'continue' });
  assert.equal(step('draft').when, 'steps.hotels.outputs | length > 0');
  assert.equal(step('draft').inputs.text, 'Take {{ steps.hotels.outputs[0].best.price }} or {{ previous.outputs.text }}');
  assert.deepEqual([step('draft').fallback, step('draft').join], [{ agent_type: 'other_agent', action: 'write' }, { at_least: 1 }]);
  const undo = read.steps.find((one) => one.undoes === 'book');
  assert.deepEqual([undo.action, undo.inputs], ['cancel', { inputs: '{{ inputs }}', outputs: '{{ outputs }}' }]);
  assert.deepEqual(step('paid').wait, { event: 'payment', key: '{{ goal.metadata.order }}', timeout_ms: 172_800_000, on_timeout: { default: { ok: false } } });
  assert.deepEqual([step('pause').wait, step('leave').wait], [{ for_ms: 3_600_000 }, { until: '{{ steps.paid.outputs.departs }}' }]);
  assert.deepEqual(step('leave').dependencies, ['paid']);
  assert.deepEqual([step('inner').plan.collect, step('inner').dependencies], ['list', ['draft']]);
  assert.deepEqual(step('sure').ask, { question: 'Which one?', schema: { type: 'string' }, limit_ms: 3_600_000, into: 'which' });
  assert.deepEqual(step('sum').dependencies, ['hotels', 'paid']);
  assert.deepEqual([step('report').always, step('report').dependencies], [true, undefined]);
});

test('places are quoted where names are no words', () => {
  const place = ref('steps.a.outputs');
  assert.equal(JSON.parse(JSON.stringify(place["it's"][3].x)), "{{ steps.a.outputs['it\\'s'][3].x }}");
  const document = plan('p', {}, (p) => {
    const first = p.step('a-b', 'echo');
    p.message('c', { inputs: { x: first.out.list } });
    p.message('d', { when: first.out.ok });
  });
  assert.deepEqual(document.steps[1], { id: 'c', kind: 'message', inputs: { x: "{{ steps['a-b'].outputs.list }}" }, dependencies: ['a-b'] });
  assert.deepEqual(document.steps[2], { id: 'd', kind: 'message', when: "steps['a-b'].outputs.ok", dependencies: ['a-b'] });
});

test('a text of the program is text', async () => {
  const evil = '{{ goal.description }} {% raw %} "\\" {# ß \u{1f600} steps.found';
  const document = plan('text', {}, (p) => {
    const found = p.message('found', { inputs: { said: evil, one: '{x}', '{{ key }}': 1 } });
    p.message('map', { forEach: [evil, { name: evil }], inputs: { item: refs.item } });
    p.finish('end', { inputs: { both: `${evil}${found.out.said}}`, same: found.out, first: ref('steps.map.outputs | first'), given: refs.inputs.text, at: new Date(0) } });
    p.always('alone', 'echo', { inputs: { said: 'steps.found' } });
  });
  assert.deepEqual(document.steps.map((step) => step.dependencies), [undefined, undefined, ['found', 'map'], undefined]);
  assert.equal(document.steps[0].inputs.one, '{x}');
  assert.ok(!JSON.stringify(document).includes('\ue000'));
  const result = await run({ ...document, steps: document.steps.slice(0, 3) }, [], { inputs: { text: evil } });
  assert.deepEqual(result.output, {
    both: `${evil}${evil}}`, same: { said: evil, one: '{x}', '{{ key }}': 1 }, first: { item: evil }, given: evil, at: '1970-01-01T00:00:00.000Z',
  });
  assert.equal(result.outputs.map[1].item.name, evil);
});

test('dependencies by outcome, stored plans and callbacks are said as plans say them', () => {
  const document = plan('p', {}, ({ step, use }) => {
    const charge = step('charge', 'pay_agent', { callback: true });
    step('refund', 'pay_agent', { after: [{ step: charge, is: ['failed'] }] });
    use('trip', 'trip@3', { inputs: { city: charge.out.city } });
  });
  assert.deepEqual(document.steps, [
    { id: 'charge', agent_type: 'pay_agent', callback: true },
    { id: 'refund', agent_type: 'pay_agent', dependencies: [{ step: 'charge', is: ['failed'] }] },
    { id: 'trip', kind: 'plan', use: 'trip@3', inputs: { city: '{{ steps.charge.outputs.city }}' }, dependencies: ['charge'] },
  ]);
});

test('two steps of one name and durations without a unit are refused while the plan is built', () => {
  const twice = () => plan('p', {}, (p) => [p.message('a'), p.message('a')]);
  assert.throws(twice, /two steps `a`/);
  assert.throws(() => plan('p', {}, (p) => p.wait('a', { for: -1 })), /`-1` is no duration/);
});
