// Parts of the package by themselves.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import * as goalmill from 'goalmill';
import { agent, connect, Fatal, GoalmillError, PartialResult, RateLimited, Retry } from 'goalmill';
import { toFailure } from '../dist/errors.js';
import { checkJson, digest } from '../dist/json.js';
import { usageFields } from '../dist/usage.js';
import { freePort } from './servers.mjs';

test('what JSON cannot say is refused with its place', () => {
  checkJson({ a: [1, null, undefined, new Date(0)] }, 'it', 64);
  let deep = 1;
  for (let i = 0; i < 70; i += 1) deep = [deep];
  for (const [value, why] of [
    [{ a: [1, NaN] }, /it at `\/a\/1` is NaN/],
    [{ a: 1n }, /is a bigint/],
    [{ a: () => 1 }, /is a function/],
    [new Map(), /it is a Map/],
    ['\ud800', /unpaired surrogate/],
    [deep, /more than 64 nested/],
  ]) assert.throws(() => checkJson(value, 'it', 64), (error) => error instanceof Fatal && error.code === 'ANSWER_INVALID' && why.test(error.message));
});

test('a digest does not depend on the order of fields', () => {
  assert.equal(digest({ a: 1, b: [{ c: 2, d: 3 }] }), digest({ b: [{ d: 3, c: 2 }], a: 1 }));
  assert.notEqual(digest({ a: 1 }), digest({ a: '1' }));
});

test('errors become failures of their class', () => {
  assert.deepEqual(toFailure(new Retry('busy', { after: '2s', code: 'BUSY' })), { class: 'transient', code: 'BUSY', message: 'busy', retry_after_ms: 2_000 });
  assert.deepEqual(toFailure(new RateLimited('busy', { after: 1 })), { class: 'rate_limited', code: 'RETRY', message: 'busy', retry_after_ms: 1 });
  assert.deepEqual(toFailure(new Retry('busy')), { class: 'transient', code: 'RETRY', message: 'busy' });
  assert.deepEqual(toFailure(new Fatal('no')), { class: 'permanent', code: 'FAILED', message: 'no' });
  assert.deepEqual(toFailure('text'), { class: 'transient', code: 'AGENT_EXCEPTION', message: 'text', effect: 'unknown' });
  assert.equal(toFailure(new Fatal('no', { effect: 'unknown' })).effect, 'unknown');
  assert.equal(toFailure(new Error('x'.repeat(10_000))).message.length, 4_000);
});

test('whatever is thrown has a class, a code and a message', () => {
  const odd = Object.defineProperty(new Error(), 'message', { get() { throw new Error('none'); } });
  const coded = Object.defineProperty(new Fatal('x'), 'code', { get() { throw new Error('none'); } });
  for (const thrown of [Object.create(null), odd, coded, new Fatal('x', { effect: 'odd' }), undefined, Symbol('x'), new Error('a\ud800'), new Fatal(new Error('x'), { code: 404, class: 'odd' }), new Retry('x', { code: null })]) {
    const { class: kind, code, message, effect = 'none' } = toFailure(thrown);
    assert.ok(['none', 'unknown'].includes(effect));
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
