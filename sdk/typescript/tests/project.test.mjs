// A new project that installs this folder, and runs the example of the README as it is printed.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { start, startGoalmill } from './servers.mjs';

const sdk = fileURLToPath(new URL('..', import.meta.url));
const example = /```ts\n(.*?)```/s.exec(readFileSync(join(sdk, 'README.md'), 'utf8'))[1];
const options = { module: 'nodenext', target: 'es2022', strict: true, noUncheckedIndexedAccess: true, exactOptionalPropertyTypes: true, types: ['node'] };

for (const how of [[], ['--install-links']]) {
  test(`the example runs in a new project after npm install ${how.join(' ')}`, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'goalmill-project-'));
    const own = JSON.parse(readFileSync(join(sdk, 'package.json'), 'utf8')).devDependencies;
    const others = Object.entries(own).map(([name, version]) => `${name}@${version}`);
    const npm = (...args) => execFileSync('npm', [...args, '--no-audit', '--no-fund', '--prefer-offline', '--loglevel=error'], { cwd: folder, encoding: 'utf8' });
    writeFileSync(join(folder, 'package.json'), '{"name":"my-agents","type":"module"}');
    npm('install', ...how, sdk, ...others);
    writeFileSync(join(folder, 'trip.ts'), example);
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions: options }));
    execFileSync(join(folder, 'node_modules', '.bin', 'tsc'), ['-p', folder], { encoding: 'utf8' });
    const goalmill = await startGoalmill();
    const env = { GOALMILL_REDIS_URL: goalmill.redisUrl, GOALMILL_SERVER: goalmill.url };
    const run = start(process.execPath, [join(folder, 'trip.js')], { env });
    assert.equal(await run.ended, 0, run.output());
    assert.match(run.output(), /step_completed sum/);
    assert.match(run.output(), /rooms: \[ \{ city: 'Paris', price: 85 \}, \{ city: 'Rome', price: 84 \} \]/);
    await goalmill.end();
    rmSync(folder, { recursive: true });
  });
}
