// The packages that `deploy/packages/npm` builds, installed in a new project without a registry. Agent and plan are those that
// the README prints.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { binary, freePort, start, startGoalmill, until } from './servers.mjs';

const KIT = `
import { run } from 'goalmill/testing';

console.log((await run({ steps: [{ id: 'end', kind: 'finish' }] })).status);
`;
const root = process.env.GOALMILL_ROOT ?? new URL('../../..', import.meta.url).pathname;
const platform = `@goalmill/${process.platform}-${process.arch}`;
const folder = mkdtempSync(join(tmpdir(), 'goalmill-packages-'));
const worker = join(folder, 'worker.mjs');
const [printedWorker, printedPlan] = [...readFileSync(join(root, 'sdk/typescript/README.md'), 'utf8').matchAll(/```js\n(.*?)```/gs)].map(([, block]) => block);
const commands = join(folder, 'node_modules', '.bin');
const program = join(folder, 'node_modules', platform);
const env = { ...process.env, GOALMILL_BINARY: '' };
const run = (command, ...args) => spawnSync(command, args, { cwd: folder, env, encoding: 'utf8' });
test.after(() => rmSync(folder, { recursive: true }));
test.before(() => {
  const built = execFileSync('bash', [join(root, 'deploy/packages/npm'), binary, folder], { encoding: 'utf8' });
  writeFileSync(join(folder, 'package.json'), '{"name":"my-agents","type":"module"}');
  const installed = run('npm', 'install', '--offline', '--no-audit', '--no-fund', ...built.trim().split('\n'));
  assert.equal(installed.status, 0, installed.stderr);
  writeFileSync(worker, printedWorker);
  writeFileSync(join(folder, 'greet.mjs'), printedPlan);
});

test('both packages have a licence, links, a changelog and a readme', () => {
  for (const name of ['goalmill', platform]) {
    const files = join(folder, 'node_modules', name);
    const fields = JSON.parse(readFileSync(join(files, 'package.json'), 'utf8'));
    assert.deepEqual([fields.license, fields.homepage], ['Apache-2.0', 'https://goalmill.dev'], name);
    assert.equal(fields.scripts, undefined, name);
    for (const file of ['LICENSE', 'CHANGELOG.md', 'README.md']) assert.ok(existsSync(join(files, file)), `${name} has ${file}`);
  }
  const { os, cpu, libc } = JSON.parse(readFileSync(join(program, 'package.json'), 'utf8'));
  assert.deepEqual([os, cpu, libc], [[process.platform], [process.arch], process.platform === 'linux' ? ['glibc'] : undefined]);
});

test('the command has the output and the exit code of the program', () => {
  const version = run('npx', 'goalmill', 'version');
  assert.match(version.stdout, /^goalmill /, version.stderr);
  assert.equal(run(join(commands, 'goalmill'), 'nothing').status, 2);
});

test('the command passes signals on, and its agents run without Redis', async () => {
  const port = await freePort();
  const dev = start(join(commands, 'goalmill'), ['dev', '--agent', worker, '--listen', `127.0.0.1:${port}`, '--metrics', 'off'], { env });
  try {
    await until(() => dev.output().includes('serves shout'), `the agent is served: ${dev.output()}`);
    assert.equal(printed(`http://127.0.0.1:${port}`), "{ said: 'HI!' }");
  } finally {
    assert.equal(await dev.end('SIGINT'), 0);
  }
});

test('an agent is served by the program of the package', async () => {
  const goalmill = await startGoalmill();
  const serving = start(process.execPath, [worker], { env: { ...env, GOALMILL_REDIS_URL: goalmill.redisUrl } });
  assert.equal(printed(goalmill.url), "{ said: 'HI!' }", serving.output());
  assert.equal(await serving.end('SIGTERM'), 0);
  await goalmill.end();
});

test('without the package for the platform, the program on PATH is used, or the error says what to do', () => {
  rmSync(program, { recursive: true });
  writeFileSync(join(folder, 'kit.mjs'), KIT);
  const advice = new RegExp(`install the package \`${platform}\` or the program \`goalmill\`, or set GOALMILL_BINARY`);
  for (const failed of [run('npx', 'goalmill', 'version'), run('npx', '-c', 'node kit.mjs')]) {
    assert.equal(failed.status, 1);
    assert.match(failed.stderr, advice);
  }
  symlinkSync(binary, join(folder, 'goalmill'));
  env.PATH = `${folder}:${env.PATH}`;
  const found = run('npx', '-c', 'node kit.mjs'); // npx puts the command of the package before it
  assert.equal(found.stdout, 'completed\n', found.stderr);
});

const printed = (url) => {
  const done = spawnSync(process.execPath, ['greet.mjs'], { cwd: folder, env: { ...env, GOALMILL_SERVER: url }, encoding: 'utf8', timeout: 60_000 });
  assert.equal(done.status, 0, done.stderr);
  return done.stdout.trim().split('\n').at(-1);
};
