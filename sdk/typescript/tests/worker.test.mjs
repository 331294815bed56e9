// The worker process as this package sees it, played by a script.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { agent, serve, WorkerEnded } from 'goalmill';

const HEAD = `#!${process.execPath}
const { appendFileSync } = require('node:fs');
const send = (frame) => process.stdout.write(JSON.stringify(frame) + '\\n');
const ready = (frame_bytes_max = 1 << 20) => send({ ready: { worker: 'w', frame_bytes_max, nesting_max: 8 } });
const task = (task, more) => send({ task: { task, plan: 'p0-x', step: 's', attempt: 1, agent_type: 'a', inputs: {}, timeout_ms: 1000, idempotency_key: 'k', ...more } });
let rest = '';
process.stdin.on('data', (data) => {
  const lines = (rest + data).split('\\n');
  rest = lines.pop();
  for (const line of lines) {
    appendFileSync(__filename + '.frames', line + '\\n');
    const [[kind, body]] = Object.entries(JSON.parse(line));
    handle(kind, body);
  }
});
process.stdin.on('end', () => process.exit(0));
`;

/** Serves an agent with a worker process that is `script`; gives the frames of this package, and how it has ended. */
async function serving(script, act, options = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'goalmill-fake-'));
  const program = join(folder, 'goalmill');
  writeFileSync(program, HEAD + script, { mode: 0o755 });
  const one = agent('a', { description: 'works' });
  one.action('*', act);
  const error = await serve([one], { program, log: () => {}, ...options }).then(() => undefined, (thrown) => thrown);
  const frames = readFileSync(`${program}.frames`, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
  rmSync(folder, { recursive: true });
  return { error, frames };
}

test('the first frame says what is served, and answers are for their tasks', async () => {
  const script = `
    const handle = (kind, body) => {
      if (kind === 'hello') {
        ready();
        send({ of_a_later_version: { task: 1, call: 1 } });
        task(1, { inputs: { text: 'a\\u2028b' } });
        task(2, { agent_type: 'b' });
      }
      if (kind === 'ended' && body.task === 1) process.exit(0);
    };`;
  const { error, frames } = await serving(script, (inputs) => inputs, { slots: 3, id: 'me', drain: '5s' });
  assert.equal(error, undefined);
  const { version, package: name, agents, ...hello } = frames[0].hello;
  assert.deepEqual([version, hello], [1, { slots: 3, name: 'me', drain_ms: 5_000 }]);
  assert.match(name, /TypeScript/);
  assert.deepEqual([agents[0].agent_type, agents[0].description], ['a', 'works']);
  const ended = frames.slice(1).map(({ ended }) => ended);
  assert.deepEqual(ended.find(({ task }) => task === 1).answer, { outputs: { text: 'a\u2028b' } });
});

test('an agent that is not served, and a frame that is too large, fail their attempts', async () => {
  const script = `
    let left = 3;
    const handle = (kind, body) => {
      if (kind === 'hello') { ready(1000); task(1, { agent_type: 'b' }); task(2); task(3); }
      if (kind === 'call') send({ call: { task: body.task, call: body.call, key: 'k' } });
      if (kind === 'ended' && (left -= 1) === 0) process.exit(0);
    };`;
  let first = true;
  const big = async (_, ctx) => {
    if (!first) return 'x'.repeat(2_000);
    first = false;
    return ctx.call('big', () => 'é'.repeat(600));
  };
  const { error, frames } = await serving(script, big);
  assert.equal(error, undefined);
  const codes = frames.flatMap(({ ended }) => (ended ? [[ended.task, ended.answer.error.code]] : [])).sort();
  assert.deepEqual(codes, [[1, 'ACTION_UNKNOWN'], [2, 'OUTPUT_TOO_LARGE'], [3, 'OUTPUT_TOO_LARGE']]);
});

test('SIGTERM and the signal of the options ask for a drain', async () => {
  const script = `
    const handle = (kind) => {
      if (kind === 'hello') { ready(); task(1); }
      if (kind === 'ended') process.exit(0);
      if (kind === 'drain') send({ draining: {} });
    };`;
  const stop = new AbortController();
  const { error, frames } = await serving(script, async () => {
    stop.abort();
    process.emit('SIGTERM');
    return 1;
  }, { signal: stop.signal });
  assert.equal(error, undefined);
  assert.deepEqual(frames.slice(1).map((frame) => Object.keys(frame)[0]), ['drain', 'drain', 'ended']);
});

test('the end of the worker process stops what runs, and is an error unless it was a drain', async () => {
  for (const [end, why] of [
    ['process.exit(3)', /has ended with 3/],
    ["process.kill(process.pid, 'SIGKILL')", /has ended with SIGKILL/],
    ["process.stdout.write('no frame\\n')", /cannot be handled/],
    ["send({})", /cannot be handled/],
  ]) {
    let stopped;
    const { error } = await serving(`const handle = (kind) => { if (kind === 'hello') { ready(); task(1); } else ${end}; };`, async (_, ctx) => {
      ctx.progress(0.5);
      await new Promise((resolve) => ctx.cancelled.addEventListener('abort', resolve));
      stopped = ctx.cancelled.reason.code;
    });
    assert.ok(error instanceof WorkerEnded);
    assert.match(error.message, why);
    assert.equal(stopped, 'STOPPED');
  }
});

test('a failure of a call that cannot be recorded stops the attempt', async () => {
  const script = `
    const handle = (kind, body) => {
      if (kind === 'hello') { ready(); task(1); }
      if (kind === 'call') send({ stop: { task: 1, failure: { class: 'permanent', code: 'CALLS_EXCEEDED', message: 'too many' } } });
      if (kind === 'ended') process.exit(0);
    };`;
  const seen = [];
  await serving(script, (_, ctx) => ctx.call('a', () => 1).catch(async (error) => {
    seen.push(error.code, (await ctx.call('b', () => 1).catch((again) => again)).code);
  }));
  assert.deepEqual(seen, ['CALLS_EXCEEDED', 'CALLS_EXCEEDED']);
});

test('a worker that is there already is used, and its end is that of the service', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'goalmill-socket-'));
  const place = join(folder, '0.sock');
  const frames = [];
  const server = createServer((socket) => socket.setEncoding('utf8').on('data', (text) => {
    frames.push(...text.trim().split('\n').map((line) => Object.keys(JSON.parse(line))[0]));
    if (frames.at(-1) === 'hello') socket.write('{"ready":{"frame_bytes_max":100000,"nesting_max":8}}\n');
    if (frames.at(-1) === 'drain') socket.end('{"draining":{}}\n');
  }));
  await new Promise((resolve) => server.listen(place, resolve));
  process.env.GOALMILL_BRIDGE = place;
  const one = agent('a');
  one.action('*', () => 1);
  const stop = new AbortController();
  server.on('connection', (socket) => socket.once('data', () => stop.abort()));
  await serve([one], { program: '/nowhere/goalmill', signal: stop.signal }).finally(() => delete process.env.GOALMILL_BRIDGE);
  assert.deepEqual(frames, ['hello', 'drain']);
  server.close();
  rmSync(folder, { recursive: true });
});

test('what cannot be served is refused with what to do', async () => {
  const one = agent('a');
  one.action('*', () => 1);
  await assert.rejects(serve([one], { program: '/nowhere/goalmill' }), (error) => error.code === 'ENOENT' && /set GOALMILL_BINARY/.test(error.message));
  await assert.rejects(serve([]), /needs an agent/);
  await assert.rejects(serve([one], { slots: 0 }), /`slots`/);
  await assert.rejects(serve([one], { drain: 'soon' }), /no duration/);
});
