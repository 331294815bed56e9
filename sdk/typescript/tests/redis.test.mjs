// Workers behind TLS, with the rights of the Redis user `worker`, and while Redis is away.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { connect as open } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import test from 'node:test';
import { agent, connect, plan } from 'goalmill';
import { binary, freePort, start, startGoalmill, startRedis, until } from './servers.mjs';

const echo = agent('ts_echo');
const say = echo.action('say', (inputs) => inputs);
const saying = (text) => plan('say', {}, (p) => p.step('s', say, { inputs: { text } }));

/** Serves the agent while `act` runs. */
async function serving(redis, act) {
  const stop = new AbortController();
  const served = echo.serve({ redis, slots: 2, signal: stop.signal, drain: 0 });
  try {
    await act();
  } finally {
    stop.abort();
    await served;
  }
}

/** The answers of Redis to commands. */
async function ask(port, ...commands) {
  const socket = open(port, '127.0.0.1').setEncoding('utf8');
  socket.end(commands.map((command) => `${command}\r\n`).join(''));
  return (await socket.toArray()).join('');
}

test('a worker connects over TLS', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'goalmill-tls-'));
  const file = (name) => join(folder, name);
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1', '-addext', 'basicConstraints=critical,CA:FALSE'];
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2', ...subject, '-keyout', file('key'), '-out', file('crt')], { stdio: 'ignore' });
  const port = await freePort();
  const redis = await startRedis(folder, ['--tls-port', `${port}`, '--tls-cert-file', file('crt'), '--tls-key-file', file('key'), '--tls-auth-clients', 'no', '--requirepass', 's3cret']);
  const goalmill = await startGoalmill({ redisUrl: `redis://:s3cret@127.0.0.1:${redis.port}` });
  const script = new URL('echo_agent.mjs', import.meta.url).pathname;
  const launch = (env) => start(process.execPath, [script], { env: { GOALMILL_REDIS_URL: `rediss://:s3cret@127.0.0.1:${port}`, ...env } });
  const refused = launch({});
  await until(() => refused.output().includes('certificate'), 'an unknown certificate is refused');
  assert.equal(await refused.end('SIGTERM'), 0);
  const worker = launch({ SSL_CERT_FILE: file('crt') });
  const run = await connect(goalmill.url).submit(saying('hello'));
  assert.deepEqual(await run.result({ timeout: '30s' }), { text: 'hello' });
  assert.equal(await worker.end('SIGTERM'), 0);
  await goalmill.end();
  await redis.end();
  rmSync(folder, { recursive: true });
});

test('a worker needs no more than the Redis user `worker` may do', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'goalmill-acl-'));
  const redis = await startRedis(folder, ['--aclfile', resolve(binary, '../../../deploy/redis/users.acl')]);
  const as = (user) => `redis://${user}:CHANGE-${user}@127.0.0.1:${redis.port}`;
  const goalmill = await startGoalmill({ redisUrl: as('scheduler') });
  await serving(as('worker'), async () => {
    const run = await connect(goalmill.url).submit(saying('x'.repeat(400_000)));
    assert.equal((await run.result({ timeout: '30s' })).text.length, 400_000);
  });
  assert.equal(await ask(redis.port, 'AUTH admin CHANGE-admin', 'ACL LOG', 'QUIT'), '+OK\r\n*0\r\n+OK\r\n');
  await goalmill.end();
  await redis.end();
  rmSync(folder, { recursive: true });
});

test('Ctrl-C drains what is served, and ends what follows', async () => {
  const goalmill = await startGoalmill();
  const [script, served] = [new URL('echo_agent.mjs', import.meta.url).href, join(goalmill.folder, 'served')];
  const source = `await import('${script}'); (await import('node:fs')).writeFileSync('${served}', ''); setInterval(() => {}, 1_000);`;
  const program = start(process.execPath, ['--input-type=module', '-e', source], { env: { GOALMILL_REDIS_URL: goalmill.redisUrl } });
  const client = connect(goalmill.url);
  await until(async () => (await client.request('GET', '/v1/workers')).items.length === 1, 'the worker lives');
  program.child.kill('SIGINT');
  await until(() => existsSync(served), 'the worker has drained');
  assert.deepEqual([program.child.exitCode, program.child.signalCode], [null, null]);
  assert.equal(await program.end('SIGINT'), 'SIGINT');
  await goalmill.end();
});

test('a worker ends while Redis is away, and `goalmill worker drain` ends one too', async () => {
  const goalmill = await startGoalmill();
  const script = new URL('echo_agent.mjs', import.meta.url).pathname;
  const launch = () => start(process.execPath, [script], { env: { GOALMILL_REDIS_URL: goalmill.redisUrl } });
  const client = connect(goalmill.url);
  const lives = (count) => async () => (await client.request('GET', '/v1/workers')).items.length === count;
  const drained = launch();
  await until(lives(1), 'the worker lives');
  const [{ worker }] = (await client.request('GET', '/v1/workers')).items;
  await client.request('POST', `/v1/workers/${worker}:drain`);
  assert.equal(await drained.ended, 0);
  await until(lives(0), 'its heartbeat is removed');
  const second = launch();
  await until(lives(1), 'the worker lives');
  await goalmill.redis.end();
  await until(() => second.output().includes('WARN'), 'the worker has lost Redis');
  assert.equal(await second.end('SIGTERM'), 0);
  await goalmill.end();
});
