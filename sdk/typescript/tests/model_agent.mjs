// An agent that asks a model twenty times. `node model_agent.mjs NAME MODEL_URL`
import { agent } from 'goalmill';

const [, , name, model] = process.argv;
const asker = agent(name);
asker.action('ask', async (_, ctx) => {
  const answers = [];
  for (let n = 1; n <= 20; n += 1) {
    const ask = async (key) => (await fetch(`${model}/${n}`, { method: 'POST', headers: { 'idempotency-key': key } })).json();
    answers.push((await ctx.call('ask', ask, { inputs: n, usage: { cost: 0.01 } })).answer);
  }
  return { answers };
});
await asker.serve({ slots: 1, log: () => {} });
