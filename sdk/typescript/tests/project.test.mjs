// A new project that installs this folder, and runs the examples of the README as they are printed.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { connect } from 'goalmill';
import { freePort, start, startGoalmill } from './servers.mjs';

const sdk = fileURLToPath(new URL('..', import.meta.url));
const [trip, weather] = [...readFileSync(join(sdk, 'README.md'), 'utf8').matchAll(/```ts\n(.*?)```/gs)].map(([, block]) => block);
const options = { module: 'nodenext', target: 'es2022', strict: true, noUncheckedIndexedAccess: true, exactOptionalPropertyTypes: true, types: ['node'] };

for (const how of [[], ['--install-links']]) {
  test(`the examples run in a new project after npm install ${how.join(' ')}`, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'goalmill-project-'));
    const own = JSON.parse(readFileSync(join(sdk, 'package.json'), 'utf8')).devDependencies;
    const others = Object.entries(own).map(([name, version]) => `${name}@${version}`);
    const npm = (...args) => execFileSync('npm', [...args, '--no-audit', '--no-fund', '--prefer-offline', '--loglevel=error'], { cwd: folder, encoding: 'utf8' });
    writeFileSync(join(folder, 'package.json'), '{"name":"my-agents","type":"module"}');
    npm('install', ...how, sdk, ...others);
    writeFileSync(join(folder, 'trip.ts'), trip);
    writeFileSync(join(folder, 'weather.ts'), weather);
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions: options }));
    execFileSync(join(folder, 'node_modules', '.bin', 'tsc'), ['-p', folder], { encoding: 'utf8' });
    const goalmill = await startGoalmill();
    const env = { GOALMILL_REDIS_URL: goalmill.redisUrl, GOALMILL_SERVER: goalmill.url };
    const run = start(process.execPath, [join(folder, 'trip.js')], { env });
    assert.equal(await run.ended, 0, run.output());
    assert.match(run.output(), /step_completed sum/);
    assert.match(run.output(), /rooms: \[ \{ city: 'Paris', price: 85 \}, \{ city: 'Rome', price: 84 \} \]/);
    const model = await startModel();
    const agent = start(process.execPath, [join(folder, 'weather.js')], { env: { ...env, OPENAI_BASE_URL: model.url } });
    const steps = [{ id: 'a', agent_type: 'weather_agent', action: 'answer', inputs: { question: '{{ inputs.question }}' } }];
    const answered = await connect(goalmill.url).submit({ name: 'weather', steps }, { inputs: { question: 'How is the weather?' } });
    assert.deepEqual(await answered.result({ timeout: '60s' }), { text: 'How is the weather? sun in Rome' });
    assert.equal((await answered.get()).usage.tokens, 84);
    await agent.end();
    model.end();
    await goalmill.end();
    rmSync(folder, { recursive: true });
  });
}

/** A model that asks for the weather in Rome, then answers. */
async function startModel() {
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const part of request) text += part;
    const { messages } = JSON.parse(text);
    const call = { id: 'c', type: 'function', function: { name: 'forecast', arguments: '{"city":"Rome"}' } };
    const message = messages.length === 1 ? { role: 'assistant', content: null, tool_calls: [call] } : { role: 'assistant', content: `${messages[0].content} ${messages[2].content}` };
    response.end(JSON.stringify({ choices: [{ message }], usage: { prompt_tokens: 40, completion_tokens: 2 } }));
  });
  const port = await freePort();
  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${port}`, end: () => server.close() };
}
