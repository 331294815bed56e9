// Parts of the package by themselves.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import * as goalmill from 'goalmill';
import { agent, connect, Fatal, GoalmillError, PartialResult, Retry } from 'goalmill';
import { Calls, usageFields } from '../dist/calls.js';
import { toFailure } from '../dist/errors.js';
import { digest, toJson } from '../dist/json.js';
import { LIMITS, readLimits, readTask } from '../dist/protocol.js';
import { parseAddress } from '../dist/redis.js';
import { Throttle } from '../dist/throttle.js';
import { freePort } from './servers.mjs';

test('addresses of Redis are read as Goalmill writes them', () => {
  const read = (address) => JSON.parse(JSON.stringify(parseAddress(address)));
  assert.deepEqual(read('redis://127.0.0.1:6380/2'), { host: '127.0.0.1', port: 6380, db: 2 });
  assert.deepEqual(read('redis+unix:///run/redis.sock'), { path: '/run/redis.sock', db: 0 });
  const tls = read('rediss://ann:s%40cret@[::1]?db=3');
  assert.deepEqual(tls, { username: 'ann', password: 's@cret', tls: {}, host: '::1', port: 6379, db: 3 });
  const { sentinels, name, password, sentinelPassword, db } = parseAddress('redis+sentinel://:secret@a:1,b/main/2?sentinel_password=own');
  assert.deepEqual([sentinels, name, password, sentinelPassword, db], [[{ host: 'a', port: 1 }, { host: 'b', port: 26379 }], 'main', 'secret', 'own', 2]);
  assert.ok(parseAddress('rediss+sentinel://a/main').enableTLSForSentinelMode);
  for (const [address, why] of [
    ['http://user:secret@host', /`http:\/\/\*\*\*@host` is no address/],
    ['redis+sentinel://a:1', /service's name is missing/],
    ['redis://a/x', /`x` is no number of a database/],
    ['redis://a?pool=3', /`pool` is none of the parameters `db`/],
    ['redis://a:b:c', /no host with a port/],
  ]) assert.throws(() => parseAddress(address), why);
});

test('what JSON cannot say is refused with its place', () => {
  assert.equal(toJson({ a: [1, null, undefined, new Date(0)] }, 'it'), '{"a":[1,null,null,"1970-01-01T00:00:00.000Z"]}');
  let deep = 1;
  for (let i = 0; i < 70; i += 1) deep = [deep];
  for (const [value, why] of [
    [{ a: [1, NaN] }, /it at `\/a\/1` is NaN/],
    [{ a: 1n }, /is a bigint/],
    [{ a: () => 1 }, /is a function/],
    [new Map(), /it is a Map/],
    ['\ud800', /unpaired surrogate/],
    [deep, /more than 64 nested/],
  ]) assert.throws(() => toJson(value, 'it'), (error) => error instanceof Fatal && error.code === 'ANSWER_INVALID' && why.test(error.message));
});

test('a digest does not depend on the order of fields', () => {
  assert.equal(digest({ a: 1, b: [{ c: 2, d: 3 }] }), digest({ b: [{ d: 3, c: 2 }], a: 1 }));
  assert.notEqual(digest({ a: 1 }), digest({ a: '1' }));
});

test('errors become failures of their class', () => {
  assert.deepEqual(toFailure(new Retry('busy', { after: '2s', code: 'BUSY' })), { class: 'rate_limited', code: 'BUSY', message: 'busy', retry_after_ms: 2_000 });
  assert.deepEqual(toFailure(new Retry('busy')), { class: 'transient', code: 'RETRY', message: 'busy' });
  assert.deepEqual(toFailure(new Fatal('no')), { class: 'permanent', code: 'FAILED', message: 'no' });
  assert.deepEqual(toFailure('text'), { class: 'transient', code: 'AGENT_EXCEPTION', message: 'text', effect: 'unknown' });
  assert.equal(toFailure(new Fatal('no', { effect: 'unknown' })).effect, 'unknown');
  assert.equal(toFailure(new Error('x'.repeat(10_000))).message.length, 4_000);
});

test('whatever is thrown has a class, a code and a message', () => {
  const odd = Object.defineProperty(new Error(), 'message', { get() { throw new Error('none'); } });
  for (const thrown of [Object.create(null), odd, undefined, Symbol('x'), new Error('a\ud800'), new Fatal(new Error('x'), { code: 404, class: 'odd' }), new Retry('x', { code: null })]) {
    const { class: kind, code, message } = toFailure(thrown);
    assert.ok(['transient', 'permanent'].includes(kind) && [code, message].every((text) => typeof text === 'string' && text !== '' && text.isWellFormed()));
  }
  assert.equal(toFailure(new Fatal('x', { code: 404 })).code, '404');
  const { errors } = new PartialResult({}, [{ message: 'b is missing' }, { code: 7, message: new Error('c'), class: 'odd' }]);
  assert.deepEqual(errors, [{ class: 'permanent', code: 'INCOMPLETE', message: 'b is missing' }, { class: 'permanent', code: '7', message: 'c' }]);
});

test('what was used up must be numbers', () => {
  for (const usage of [{ cost: '0.1' }, { promptTokens: 1.5 }, { cost: NaN }, { completionTokens: -1 }, { cost: 1e16 }]) {
    assert.throws(() => usageFields(usage), (error) => error instanceof Fatal && error.code === 'ANSWER_INVALID', JSON.stringify(usage));
  }
  assert.deepEqual(usageFields({ cost: 0.5, promptTokens: 3 }), { cost: 0.5, usage: { prompt_tokens: 3, completion_tokens: 0 } });
});

test('limits are those of the installation', () => {
  assert.deepEqual(readLimits(null), LIMITS);
  assert.deepEqual(readLimits('{"calls_max":5,"inline_bytes_max":"x","later":1}'), { ...LIMITS, calls_max: 5 });
});

test('a call that the log cannot have ends the attempt', async () => {
  for (const [limits, make, code, why] of [
    [{ ...LIMITS, calls_max: 2 }, () => 1, 'CALLS_EXCEEDED', /limits\.calls_max/],
    [{ ...LIMITS, calls_bytes_max: 8 }, () => 'xxx', 'CALLS_EXCEEDED', /limits\.calls_bytes_max/],
    [LIMITS, () => NaN, 'ANSWER_INVALID', /NaN/],
  ]) {
    const { calls, reported } = callsOf({}, limits);
    const all = async () => { for (let n = 0; n < 3; n += 1) await calls.call('a', make, {}); };
    await assert.rejects(all, (error) => error instanceof Fatal && error.code === code && why.test(error.message));
    await calls.over;
    assert.equal(calls.refused.code, code);
    const made = reported.length;
    await assert.rejects(calls.call('b', () => 1, {}), { code }); // whatever the agent does with the error
    assert.equal(reported.length, made);
  }
  const { calls } = callsOf({});
  await assert.rejects(calls.call('a', () => 1, { usage: { cost: '1' } }), { code: 'ANSWER_INVALID' });
  assert.equal(calls.refused.code, 'ANSWER_INVALID');
});

test('a call inside a call is refused, and one beside it or after it is not', async () => {
  const { calls } = callsOf({});
  let late;
  const inner = async () => { late = new Promise((resolve) => setTimeout(resolve, 20)).then(() => calls.call('late', () => 3, {})); return 1; };
  assert.deepEqual(await Promise.all([calls.call('a', inner, {}), calls.call('b', async () => 2, {})]), [1, 2]);
  assert.equal(await late, 3);
  const other = callsOf({}).calls;
  assert.equal(await calls.call('c', () => other.call('d', () => 4, {}), {}), 4);
  const why = /`inner` is made inside the function of call `outer`/;
  await assert.rejects(calls.call('outer', () => calls.call('inner', () => 5, {}), {}), why);
  assert.equal(calls.refused.code, 'CALL_INVALID');
  const waiting = callsOf({}).calls;
  await assert.rejects(waiting.call('pay', () => waiting.wait('approve', { for: 'approval', text: 'pay?' }), {}), /cannot be nested/);
});

test('entries that are no tasks are told apart', () => {
  const task = { plan: 'p0-a', step: 's', token: 't', agent_type: 'a', reply: 'r', idempotency_key: 'k', attempt: 1, timeout_ms: 1, lease_ms: 1 };
  assert.equal(readTask(JSON.stringify(task)).step, 's');
  for (const [change, why] of [[{ plan: 'x' }, /no plan id/], [{ attempt: 0 }, /`attempt`/], [{ lease_ms: 1.5 }, /`lease_ms`/], [{ calls: {} }, /`calls`/], [{ reply: null }, /`reply`/]]) {
    assert.match(readTask(JSON.stringify({ ...task, ...change })), why);
  }
});

test('the page lists the public names', () => {
  const file = (name) => readFileSync(new URL(`../${name}`, import.meta.url), 'utf8');
  const [, values, listed, types] = /exports (\d+) values: (.*?); and (\d+) types/.exec(file('README.md'));
  assert.deepEqual([...listed.matchAll(/`(\w+)`/g)].map(([, name]) => name), Object.keys(goalmill).sort());
  assert.equal(Number(values), Object.keys(goalmill).length);
  const declared = [...file('src/index.ts').matchAll(/export (?:type )?\{([^}]*)\}/g)].flatMap(([, names]) => names.split(',').filter((name) => name.trim() !== ''));
  assert.equal(Number(types), declared.length - Number(values));
});

test('names of agents and actions are checked', () => {
  assert.throws(() => agent('no spaces'), /no name of an agent type/);
  const twice = agent('a');
  twice.action('b', () => 1);
  assert.throws(() => twice.action('b', () => 2), /used once/);
});

test('one refusal holds all, and they start one after the other at the pace that the agent has kept', async () => {
  const throttle = new Throttle();
  const { signal } = new AbortController();
  const refuse = (retry_after_ms, begunAt = -1) => throttle.record(begunAt, { class: 'rate_limited', code: 'BUSY', message: 'slow down', retry_after_ms });
  assert.ok(throttle.hasRoom() && !throttle.isOn());
  for (let n = 0; n < 4; n += 1) throttle.record(-1);
  const begun = performance.now();
  refuse(200);
  assert.ok(throttle.isOn() && !throttle.hasRoom());
  await Promise.all([1, 2, 3].map(() => throttle.turn(signal)));
  const waited = performance.now() - begun;
  assert.ok(waited >= 299 && waited < 5_000, `${waited} ms: 200 ms, then two intervals of 50 ms`);
  refuse(60_000, performance.now());
  const { code, message, retry_after_ms } = await throttle.turn(signal);
  assert.deepEqual([code, message, retry_after_ms >= 59_000], ['BUSY', 'not asked: slow down', true]);
});

/** The calls of an attempt, and what they report. */
function callsOf(task, limits = LIMITS) {
  const reported = [];
  const payloads = { limits, storableOutcome: async (text) => JSON.parse(text), outcome: async (outcome) => outcome };
  const calls = new Calls({ plan: 'p0-a', step: 's', ...task }, payloads, () => {}, async (call) => void reported.push(call));
  return { calls, reported };
}

/** A promise with its end. */
function deferred() {
  let settle;
  const promise = new Promise((resolve, reject) => (settle = { resolve, reject }));
  return { promise, ...settle };
}

test('calls that run at the same time are recorded in the order in which they began', async () => {
  const { calls, reported } = callsOf({});
  const [first, second] = [deferred(), deferred()];
  const both = Promise.all([calls.call('a', () => first.promise, {}), calls.call('b', () => second.promise, {})]);
  second.resolve(2);
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(reported, []);
  first.resolve(1);
  assert.deepEqual(await both, [1, 2]);
  assert.deepEqual(reported.map(({ n, name, outcome }) => [n, name, outcome]), [[1, 'a', 1], [2, 'b', 2]]);
});

test('the number of a failed call is used again, and nothing is recorded after a gap', async () => {
  const { calls, reported } = callsOf({});
  const fails = () => Promise.reject(new Error('busy'));
  await assert.rejects(calls.call('a', fails, {}), /busy/);
  await assert.rejects(calls.call('a', () => { throw new Fatal('never'); }, {}), /never/);
  assert.equal(await calls.call('b', (key) => key, {}), 'p0-a/s/2');
  const late = deferred();
  const [lost, made] = [calls.call('c', () => late.promise, {}), calls.call('d', () => 4, {})];
  late.reject(new Error('gone'));
  await assert.rejects(lost, /gone/);
  assert.equal(await made, 4);
  assert.deepEqual(reported.map(({ n, name, error }) => [n, name, error?.code]), [[1, 'a', 'FAILED'], [2, 'b', undefined]]);
  await assert.rejects(calls.wait('e', { for: 'approval', text: 'go on?' }), /failed before/);
});

test('a recorded failure is thrown again, and a call with other inputs ends the replay', async () => {
  const recorded = [{ n: 1, name: 'a', error: { class: 'permanent', code: 'NO', message: 'never' } }, { n: 2, name: 'b', inputs: 'x', outcome: 2 }];
  const { calls, reported } = callsOf({ calls: recorded });
  await assert.rejects(calls.call('a', () => 1, {}), (error) => error instanceof Fatal && error.code === 'NO');
  assert.equal(await calls.call('b', () => 3, { inputs: 'y' }), 3);
  assert.deepEqual(reported.map(({ n }) => n), [2]);
});

test('a call holds its share of the budget while it is made', async () => {
  const { calls } = callsOf({ budget: { tokens: 100, cost: 1 } });
  const slow = deferred();
  const usage = { promptTokens: 10, completionTokens: 20, cost: 0.25 };
  const first = calls.call('a', () => slow.promise, { needs: { tokens: 60 }, usage });
  assert.equal(calls.budget().tokens, 40);
  const second = calls.call('b', () => 2, { needs: { tokens: 60 } });
  slow.resolve(1);
  await assert.rejects(second, { name: 'Suspended' });
  assert.equal(await first, 1);
  assert.deepEqual([calls.suspended.n, calls.suspended.wait.needs], [2, { tokens: 60, cost: 0 }]);
  assert.deepEqual(calls.budget(), { tokens: 70, cost: 0.75, last: undefined });
  await assert.rejects(calls.call('c', () => 3, {}), { name: 'Suspended' });
});

/** A server whose answers are the given functions, one after the other. */
async function serveAnswers(answers) {
  const requests = [];
  const server = createServer((request, response) => {
    requests.push(request);
    answers[requests.length - 1](response, request);
  });
  const port = await freePort();
  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${port}`, requests, end: () => (server.closeAllConnections(), server.close()) };
}

const line = (seq) => `id: ${seq}\nevent: step_ready\ndata: {"seq":${seq},"type":"step_ready","step_id":"a"}\n\n`;

test('events go on after the last one when the connection breaks', async () => {
  const stream = { 'content-type': 'text/event-stream' };
  const server = await serveAnswers([
    (response) => (response.writeHead(200, stream), response.write(`: hello\n\n${line(1)}${line(2)}id: 3\nda`, () => response.destroy())),
    (response) => (response.writeHead(503), response.end('{"code":"STARTING"}')),
    (response) => (response.writeHead(200, stream), response.write(line(3).slice(0, 20)), setImmediate(() => response.end(line(3).slice(20)))),
    (response) => (response.writeHead(204), response.end()),
  ]);
  const events = [];
  for await (const event of connect(server.url).run('p0-a').events()) events.push([event.seq, event.step]);
  assert.deepEqual(events, [[1, 'a'], [2, 'a'], [3, 'a']]);
  assert.deepEqual(server.requests.map((request) => request.headers['last-event-id']), ['0', '2', '2', '3']);
  server.end();
});

test('a submission is repeated with the same key while the server refuses for the moment', async () => {
  const server = await serveAnswers([
    (response) => response.destroy(),
    (response) => (response.writeHead(503, { 'retry-after': '0' }), response.end('{"code":"REDIS_MEMORY_PRESSURE","detail":"full"}')),
    (response) => (response.writeHead(202), response.end('{"plan_id":"p0-x"}')),
    (response) => (response.writeHead(422), response.end('{"code":"PLAN_INVALID","detail":"no","errors":[{"pointer":"/steps/0","detail":"odd","hint":"even"}]}')),
  ]);
  const client = connect(server.url, { token: 'gm_t', namespace: 'team' });
  assert.equal((await client.submit('Plan a trip')).id, 'p0-x');
  const keys = server.requests.map((request) => request.headers['idempotency-key']);
  assert.ok(keys[0] && keys.every((key) => key === keys[0]), keys.join());
  assert.deepEqual([server.requests[0].url, server.requests[0].headers.authorization, server.requests[0].headers['goalmill-namespace']], ['/v1/goals', 'Bearer gm_t', 'team']);
  await assert.rejects(client.submit({ name: 'p', steps: [] }), (error) => error instanceof GoalmillError && error.status === 422 && error.message.endsWith('no\n  /steps/0: odd (even)'));
  assert.throws(() => connect('redis://127.0.0.1'), /no HTTP address/);
  server.end();
});
