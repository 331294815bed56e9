// `kill -9` of an agent after each of its twenty model calls: each call is paid once, at most the one in flight again.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import test from 'node:test';
import { connect, plan } from 'goalmill';
import { freePort, start, startGoalmill } from './servers.mjs';

const CALLS = 20;
/** Agents that are tried at the same time. */
const LANES = 10;
const settings = '[scheduler]\ntask_lease_ms = 4000\n[worker]\nlease_margin_ms = 1000\n';

/** The plan that an idempotency key names: `<plan>:<step>/<hash>`. */
const planOf = (key) => key.split(':')[0];

/**
 * A model that counts what it is asked, for each key. It calls `answered` after each answer, and leaves a call without
 * one if `ignores` says so.
 */
async function startModel({ ignores, answered }) {
  /** By plan and number of the call, then by key. */
  const paid = new Map();
  const server = createServer((request, response) => {
    const key = request.headers['idempotency-key'];
    const number = Number(request.url.slice(1));
    const call = `${planOf(key)}/${number}`;
    paid.set(call, [...(paid.get(call) ?? []), key]);
    if (ignores(key, number)) return;
    response.end(JSON.stringify({ answer: number * number }), () => answered(key, number));
  });
  const port = await freePort();
  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${port}`, paid, end: () => server.close() };
}

test('after kill -9 at each of twenty calls, only the call in flight is made again', async () => {
  const goalmill = await startGoalmill({ settings });
  const client = connect(goalmill.url);
  const script = new URL('model_agent.mjs', import.meta.url).pathname;
  /** What to do when call `n` of a plan is answered. */
  const kills = new Map();
  let killed = 0;
  const agents = new Set();
  const model = await startModel({
    // An agent that is about to be killed may be quicker than the signal: its next call stays in flight.
    ignores: (key, n) => n > kills.get(planOf(key))?.n,
    answered(key, n) {
      const planned = kills.get(planOf(key));
      if (planned?.n !== n) return;
      kills.delete(planOf(key));
      killed += 1;
      planned.kill();
    },
  });
  const lane = async (first) => {
    const name = `asker_${first}`;
    const launch = () => {
      const agent = start(process.execPath, [script, name, model.url], { env: { GOALMILL_REDIS_URL: goalmill.redisUrl } });
      agents.add(agent);
      return agent;
    };
    for (let n = first; n <= CALLS; n += LANES) {
      // The agent starts after its plan is known, so that no call comes before the kill is planned.
      const run = await client.submit(plan(`kill after ${n}`, {}, (p) => p.step('s', name, { action: 'ask', retry: { initial: 1 } })));
      let agent;
      kills.set(run.id, { n, kill: () => (agent.end('SIGKILL'), (agent = launch())) });
      agent = launch();
      const { answers } = await run.result({ timeout: '60s' });
      await agent.end('SIGKILL');
      assert.deepEqual(answers, Array.from({ length: CALLS }, (_, i) => (i + 1) ** 2));
      const keys = Array.from({ length: CALLS }, (_, i) => model.paid.get(`${run.id}/${i + 1}`));
      assert.equal(new Set(keys.flat()).size, CALLS, 'a call has one key in all attempts');
      const counts = keys.map(({ length }) => length);
      const again = counts.flatMap((count, i) => (count === 1 ? [] : [[i + 1, count]]));
      const { steps: [step], usage } = await run.get();
      // A busy machine may lose a lease too: each lost attempt has one call in flight at most.
      const lost = step.attempt - 1;
      assert.ok(again.reduce((sum, [, count]) => sum + count - 1, 0) <= lost, `after ${n}, ${lost} lost: ${JSON.stringify(again)}`);
      if (lost === 1 && again.length > 0) assert.ok(again[0][0] === n || again[0][0] === n + 1, `after ${n}: ${JSON.stringify(again)}`);
      assert.ok(lost >= 1);
      assert.equal(usage.cost.toFixed(2), (CALLS * 0.01).toFixed(2));
    }
  };
  try {
    const lanes = await Promise.allSettled(Array.from({ length: LANES }, (_, i) => lane(i + 1)));
    assert.deepEqual(lanes.flatMap(({ reason }) => (reason === undefined ? [] : [String(reason)])), []);
    assert.equal(killed, CALLS);
    const total = [...model.paid.values()].flat().length;
    console.log(`# ${killed} kills, ${CALLS * CALLS} calls, ${total - CALLS * CALLS} made again`);
  } finally {
    await Promise.all([...agents].map((agent) => agent.end()));
    model.end();
    await goalmill.end();
  }
});
