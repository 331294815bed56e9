// Workers behind TLS, and behind Sentinel while the primary is killed.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import test from 'node:test';
import { Redis } from 'ioredis';
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

test('a worker connects over TLS', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'goalmill-tls-'));
  const file = (name) => join(folder, name);
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1'];
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2', ...subject, '-keyout', file('key'), '-out', file('crt')], { stdio: 'ignore' });
  const port = await freePort();
  const redis = await startRedis(folder, ['--tls-port', `${port}`, '--tls-cert-file', file('crt'), '--tls-key-file', file('key'), '--tls-auth-clients', 'no', '--requirepass', 's3cret']);
  const goalmill = await startGoalmill({ redisUrl: `redis://:s3cret@127.0.0.1:${redis.port}` });
  const script = new URL('echo_agent.mjs', import.meta.url).pathname;
  const launch = (env) => start(process.execPath, [script], { env: { GOALMILL_REDIS_URL: `rediss://:s3cret@127.0.0.1:${port}`, ...env } });
  const refused = launch({});
  await until(() => refused.output().includes('self-signed certificate'), 'an unknown certificate is refused');
  await refused.end();
  const worker = launch({ NODE_EXTRA_CA_CERTS: file('crt') });
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
  const admin = new Redis(as('admin'));
  assert.deepEqual((await admin.call('ACL', 'LOG')).map(String), []);
  admin.disconnect();
  await goalmill.end();
  await redis.end();
  rmSync(folder, { recursive: true });
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
  await until(() => second.output().includes('"warn"'), 'the worker has lost Redis');
  assert.equal(await second.end('SIGTERM'), 0);
  await goalmill.end();
});

test('a worker follows Sentinel to the new primary', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'goalmill-sentinel-'));
  for (const name of ['a', 'b']) mkdirSync(join(folder, name));
  const first = await startRedis(join(folder, 'a'), ['--repl-diskless-sync-delay', '0']);
  const second = await startRedis(join(folder, 'b'), ['--replicaof', '127.0.0.1', `${first.port}`]);
  const replica = new Redis(second.url);
  const primary = new Redis(first.url);
  await primary.set('replicated', '1');
  // Until its first acknowledgement a replica whose link is up may get no writes.
  await until(async () => (await primary.wait(1, 1_000)) === 1, 'the replica follows');
  primary.disconnect();
  const port = await freePort();
  const config = join(folder, 'sentinel.conf');
  writeFileSync(config, `port ${port}\ndir ${folder}\nsentinel monitor plans 127.0.0.1 ${first.port} 1\nsentinel down-after-milliseconds plans 2000\nsentinel failover-timeout plans 5000\n`);
  const sentinel = start(process.env.REDIS_SERVER || 'redis-server', [config, '--sentinel']);
  const asked = new Redis({ port, retryStrategy: () => 50 });
  asked.on('error', () => {});
  await until(async () => (await asked.call('SENTINEL', 'REPLICAS', 'plans')).length === 1, 'the sentinel knows the replica');
  const url = `redis+sentinel://127.0.0.1:${port}/plans`;
  const goalmill = await startGoalmill({ redisUrl: url });
  const client = connect(goalmill.url, { retryFor: '60s' });
  await serving(url, async () => {
    assert.deepEqual(await (await client.submit(saying('before'))).result({ timeout: '30s' }), { text: 'before' });
    await first.end();
    await until(async () => (await replica.info('replication')).includes('role:master'), 'the replica is the primary', 60_000);
    assert.deepEqual(await (await client.submit(saying('after'))).result({ timeout: '30s' }), { text: 'after' });
  });
  replica.disconnect();
  asked.disconnect();
  await goalmill.end();
  await Promise.all([second.end(), sentinel.end()]);
  rmSync(folder, { recursive: true });
});
