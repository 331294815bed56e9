// `goalmill dev --agent FILE`: agents of a program without Redis, started again when the file changes.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { connect, plan } from 'goalmill';
import { binary, freePort, start, until } from './servers.mjs';

const WORKER = `
import { agent } from 'goalmill';

const shout = agent('shout');
shout.action('shout', async ({ text }, ctx) => (await ctx.call('louder', () => text.toUpperCase())) + '!');
await shout.serve();
`;
// In the folder of the package, where `goalmill` is found.
const folder = mkdtempSync(join(import.meta.dirname, 'dev-'));
test.after(() => rmSync(folder, { recursive: true }));
const [major, minor] = process.versions.node.split('.').map(Number);
const runsTypes = major > 22 || (major === 22 && minor >= 6);

async function serves(name, source) {
  const file = join(folder, name);
  writeFileSync(file, source);
  const port = await freePort();
  const dev = start(binary, ['dev', '--agent', file, '--listen', `127.0.0.1:${port}`, '--metrics', 'off']);
  const served = (times) => until(() => dev.output().split('serves shout').length - 1 === times, `served ${times} times: ${dev.output()}`);
  const said = async () => {
    const say = plan('say', {}, (p) => void p.step('s', 'shout', { action: 'shout', inputs: { text: 'hi' }, timeout: '30s' }));
    return (await connect(`http://127.0.0.1:${port}`).submit(say)).result();
  };
  try {
    await served(1);
    assert.equal(await said(), 'HI!');
    writeFileSync(file, source.replace("'!'", "'?'"));
    await served(2);
    assert.equal(await said(), 'HI?');
  } finally {
    assert.equal(await dev.end('SIGINT'), 0);
  }
}

test('a program in JavaScript is served without Redis, and again when it changes', () => serves('worker.mjs', WORKER));

test('a program in TypeScript is served by a Node that strips types, and refused before', async () => {
  const source = WORKER.replace('{ text }', '{ text }: { text: string }');
  if (runsTypes) return serves('worker.mts', source);
  writeFileSync(join(folder, 'worker.ts'), source);
  const { status, stderr } = spawnSync(binary, ['dev', '--agent', join(folder, 'worker.ts')], { encoding: 'utf8' });
  assert.equal(status, 2, stderr);
  assert.match(stderr, /needs Node\.js 22\.6 or later, .* and `node` is v20[^]*--agent worker\.mjs/);
});
