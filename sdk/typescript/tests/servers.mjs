// Real servers for the tests: redis-server and `goalmill scheduler` on free ports, with a directory of their own.
import { spawn } from 'node:child_process';
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect as open, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

const binary = process.env.GOALMILL_BINARY ?? new URL('../../../target/debug/goalmill', import.meta.url).pathname;
const running = new Set();
after(() => running.forEach((child) => child.kill('SIGKILL')));

/** A port that nothing listens on. */
export const freePort = () => new Promise((resolve, reject) => {
  const server = createServer().on('error', reject);
  server.listen(0, '127.0.0.1', () => {
    const { port } = server.address();
    server.close(() => resolve(port));
  });
});

/** Waits until `holds` gives a true value; looks every 20 ms. */
export async function until(holds, what, limit = 30_000) {
  for (const end = performance.now() + limit; performance.now() < end; await sleep(20)) {
    const value = await holds();
    if (value) return value;
  }
  throw new Error(`after ${limit} ms: ${what}`);
}

const listens = (port) => new Promise((resolve) => {
  const socket = open(port, '127.0.0.1', () => {
    socket.destroy();
    resolve(true);
  }).on('error', () => resolve(false));
});

/** Starts a process whose output goes to a file; `end` kills it. */
export function start(command, args, { env = {}, log } = {}) {
  const child = spawn(command, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  running.add(child);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (data) => {
      output += data;
      if (log) appendFileSync(log, data);
    });
  }
  const ended = new Promise((resolve) => child.on('exit', (code, signal) => {
    running.delete(child);
    resolve(code ?? signal);
  }));
  return { child, ended, output: () => output, end: (signal = 'SIGKILL') => (child.kill(signal), ended) };
}

export async function startRedis(folder, args = []) {
  const port = await freePort();
  const own = ['--port', `${port}`, '--bind', '127.0.0.1', '--dir', folder, '--save', '', '--appendonly', 'no'];
  const server = start(process.env.REDIS_SERVER || 'redis-server', [...own, ...args]);
  await until(() => listens(port), `redis listens on ${port}`);
  return { ...server, port, url: `redis://127.0.0.1:${port}` };
}

/** Starts Redis and a scheduler. `settings` are those of the scheduler, in TOML. */
export async function startGoalmill({ settings = '', redisArgs = [], redisUrl } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'goalmill-ts-'));
  const redis = redisUrl === undefined ? await startRedis(folder, redisArgs) : { url: redisUrl, end: () => {} };
  const config = join(folder, 'goalmill.toml');
  writeFileSync(config, settings);
  const port = await freePort();
  const args = ['scheduler', '--redis', redis.url, '--listen', `127.0.0.1:${port}`, '--metrics', 'off', '--config', config];
  const scheduler = start(binary, args, { log: join(folder, 'log') });
  const url = `http://127.0.0.1:${port}`;
  const isReady = () => fetch(`${url}/readyz`).then((answer) => answer.ok, () => false);
  await until(isReady, 'the scheduler is ready').catch((error) => {
    throw new Error(`${error.message}\n${scheduler.output()}`);
  });
  return {
    url,
    redis,
    redisUrl: redis.url,
    folder,
    log: () => readFileSync(join(folder, 'log'), 'utf8'),
    async end() {
      await scheduler.end();
      await redis.end();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Checks a plan with the program; gives the plan as it understands it. */
export async function validate(plan) {
  const folder = mkdtempSync(join(tmpdir(), 'goalmill-plan-'));
  try {
    writeFileSync(join(folder, 'plan.json'), JSON.stringify(plan));
    const run = start(binary, ['plan', 'validate', join(folder, 'plan.json'), '-o', 'json']);
    await run.ended;
    return JSON.parse(run.output().slice(run.output().indexOf('{')));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
