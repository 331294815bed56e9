// Types that a user sees; `npm run check` compiles it with `--strict`. Lines after `@ts-expect-error` must not compile.
import { agent, connect, plan, refs, Retry, serve, type PlanInputs, type Ref, type ReviseInputs } from 'goalmill';
import { z } from 'zod';

const hotels = agent('hotel_agent', { capabilities: ['find hotels'] });
const search = hotels.action(
  'search',
  { input: z.object({ city: z.string(), nights: z.number().optional() }), output: z.object({ best: z.object({ price: z.number() }) }) },
  async ({ city, nights }, ctx) => {
    const text: string = city;
    const count: number | undefined = nights;
    const page = await ctx.call('ask', (key) => ({ key, rows: [1, 2] }), { inputs: [text, count], usage: (outcome) => ({ cost: outcome.rows.length }) });
    const { approved } = await ctx.approve('go on?');
    const colour: 'red' | 'blue' = await ctx.ask('which?', { schema: z.enum(['red', 'blue']) });
    const event = await ctx.waitEvent<{ paid: number }>('payment', { timeout: '1h' });
    if (!approved || colour === 'red' || event === undefined) throw new Retry('later', { after: '5s' });
    await fetch('http://127.0.0.1:1', { signal: ctx.cancelled });
    return { best: { price: page.rows[0] ?? event.paid } };
  },
);

// @ts-expect-error: the output has a price that is a number
hotels.action('wrong', { output: z.object({ price: z.number() }) }, () => ({ price: 'much' }));

const trip = plan('trip', { undoOn: ['failed'] }, ({ step, finish, wait }) => {
  const one = step('one', search, { inputs: { city: 'Paris', nights: refs.goal.metadata.nights } });
  // @ts-expect-error: the nights are a number, and a text is no expression
  step('late', search, { inputs: { nights: '{{ goal.metadata.nights }}' } });
  const price: Ref<number> = one.out.best.price;
  const all = step('all', search, { forEach: ['Rome', 'Oslo'], inputs: { city: refs.item } });
  const first: Ref<number> = all.out[0]!.best.price;
  // @ts-expect-error: there is no such output
  one.out.bset;
  // @ts-expect-error: the city is a text
  step('two', search, { inputs: { city: 3 } });
  // @ts-expect-error: no such policy
  step('three', search, { onFailure: 'ignore' });
  wait('paid', { event: 'payment', key: refs.goal.metadata.order });
  finish('sum', { inputs: { price, first }, when: `${price} > 3` });
});

const planner = agent('my_planner', { plans: true });
planner.action('plan', ({ goal, agents, limits }: PlanInputs) =>
  plan('made', {}, ({ step }) => {
    for (const { agent_type } of agents.slice(0, limits.steps_max)) step(agent_type, agent_type, { description: goal.description });
  }),
);
planner.action('revise', ({ situation, agents }: ReviseInputs) => plan('made', {}, ({ finish }) => finish('end', { inputs: [situation.plan, agents.length] })));

const run = await connect('http://127.0.0.1:8080', { token: 't' }).submit(trip, { key: 'trip-7' });
for await (const event of run.events()) {
  const type: string = event.type;
  console.log(type, event.step);
}
const output: { price: number } = await run.result({ timeout: '60s' });
console.log(output);
await serve([hotels], { slots: 8, drain: '10s' });
