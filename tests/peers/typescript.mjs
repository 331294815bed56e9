// 10,000 steps that do nothing through a TypeScript worker with 32 slots, beside 10,000 jobs of BullMQ with concurrency 32.
//
//   (cd sdk/typescript && npm run prepare); npm install bullmq ioredis && node tests/peers/typescript.mjs [steps|tasks|bullmq …]
//
// `steps`: a plan of 10,000 steps, a scheduler and the worker. `tasks`: the worker alone, with the tasks on its stream.
// `bullmq`: the same number of jobs that wait in a queue. CPU is that of the Node process.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { binary, startGoalmill, startRedis, until } from '../../sdk/typescript/tests/servers.mjs';

const COUNT = 10_000;
const SLOTS = 32;
const self = new URL(import.meta.url).pathname;
const sdk = (name) => import(new URL(`../../sdk/typescript/${name}`, import.meta.url).href);
const peers = createRequire(pathToFileURL(join(process.cwd(), 'x.js')));
const folder = () => mkdtempSync(join(tmpdir(), 'goalmill-peers-'));

/** Seconds of processor time of a process (Linux). */
function cpu(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

function startWorker(kind, redis) {
  const worker = spawn(process.execPath, [self, 'worker', kind], { env: { ...process.env, GOALMILL_BINARY: binary, GOALMILL_REDIS_URL: redis }, stdio: ['ignore', 'inherit', 'inherit'] });
  return { pid: worker.pid, end: () => worker.kill('SIGKILL') };
}

/** Runs `begin` until `isDone`, and prints rate and processor time. */
async function measure(name, worker, begin, isDone) {
  const [from, used] = [performance.now(), cpu(worker.pid)];
  await begin();
  await until(isDone, `${name} is done`, 300_000);
  const seconds = (performance.now() - from) / 1_000;
  console.log(`${name}: ${Math.round(COUNT / seconds)} a second, ${Math.round(((cpu(worker.pid) - used) / COUNT) * 1e6)} us of CPU each`);
  worker.end();
}

const ways = {
  async steps() {
    const { connect } = await sdk('dist/index.js');
    const goalmill = await startGoalmill();
    const worker = startWorker('goalmill', goalmill.redisUrl);
    const client = connect(goalmill.url);
    const isLive = async () => (await client.request('GET', '/v1/workers')).items.length === 1;
    await until(isLive, 'the worker lives');
    const steps = Array.from({ length: COUNT }, (_, i) => ({ id: `s${i}`, agent_type: 'noop', inputs: { i } }));
    let run;
    const submit = async () => (run = await client.submit({ name: 'noop', steps }));
    const used = cpu(goalmill.pid);
    await measure('steps', worker, submit, async () => (await run.explain()).status === 'completed');
    console.log(`  the scheduler used ${Math.round(((cpu(goalmill.pid) - used) / COUNT) * 1e6)} us of CPU for each`);
    await goalmill.end();
  },
  async tasks() {
    const { Redis } = peers('ioredis');
    const server = await startRedis(folder());
    const redis = new Redis(server.url);
    await redis.hset('goalmill:meta', { instance: 'i', protocol: '1', shards: '1', streams: 'goalmill:steps:<agent_type>' });
    await redis.xgroup('CREATE', 'goalmill:steps:noop', 'workers', '0', 'MKSTREAM');
    const worker = startWorker('goalmill', server.url);
    await until(() => redis.exists('goalmill:workers'), 'the worker lives');
    const task = (i) => JSON.stringify({
      plan: 'p0-2j5k8m1n4p7q0r3s', step: `s${i}`, attempt: 1, token: `t${i}`, agent_type: 'noop', inputs: { i }, timeout_ms: 60_000,
      lease_ms: 30_000, reply: 'goalmill:{s0}:reports', idempotency_key: `p0-2j5k8m1n4p7q0r3s:s${i}`,
    });
    const fill = async () => {
      const pipeline = redis.pipeline();
      for (let i = 0; i < COUNT; i += 1) pipeline.xadd('goalmill:steps:noop', '*', 'v', '1', 'data', task(i));
      await pipeline.exec();
    };
    const [last, reported] = [{ id: '0' }, { count: 0 }];
    const isDone = async () => {
      for (const [id, fields] of await redis.xrange('goalmill:{s0}:reports', `(${last.id}`, '+', 'COUNT', 1_000)) {
        last.id = id;
        reported.count += [JSON.parse(fields[3])].flat().length;
      }
      return reported.count === COUNT;
    };
    await measure('tasks', worker, fill, isDone);
    console.log(`  ${(COUNT / (await redis.xlen('goalmill:{s0}:reports'))).toFixed(1)} reports in an entry`);
    redis.disconnect();
    await server.end();
  },
  async bullmq() {
    const { Queue } = peers('bullmq');
    const server = await startRedis(folder());
    const queue = new Queue('noop', { connection: { host: '127.0.0.1', port: server.port } });
    await queue.waitUntilReady();
    const worker = startWorker('bullmq', server.url);
    await until(async () => (await queue.getWorkersCount()) > 0, 'the worker lives');
    const fill = async () => {
      for (let i = 0; i < COUNT; i += 1_000) {
        await queue.addBulk(Array.from({ length: 1_000 }, (_, j) => ({ name: 'noop', data: { i: i + j }, opts: { removeOnComplete: true } })));
      }
    };
    await measure('bullmq', worker, fill, async () => {
      const { wait, active } = await queue.getJobCounts('wait', 'active');
      return wait + active === 0;
    });
    await queue.close();
    await server.end();
  },
};

if (process.argv[2] === 'worker') {
  const redis = process.env.GOALMILL_REDIS_URL;
  if (process.argv[3] === 'bullmq') {
    const { Worker } = peers('bullmq');
    new Worker('noop', async () => {}, { connection: { host: '127.0.0.1', port: Number(new URL(redis).port), maxRetriesPerRequest: null }, concurrency: SLOTS });
  } else {
    const { agent } = await sdk('dist/index.js');
    const noop = agent('noop');
    noop.action('*', () => ({}));
    await noop.serve({ slots: SLOTS, log: () => {} });
  }
} else {
  for (const way of process.argv.length > 2 ? process.argv.slice(2) : Object.keys(ways)) await ways[way]();
  process.exit(0);
}
