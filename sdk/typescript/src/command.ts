#!/usr/bin/env node
// The command `goalmill` of the packages from npm: runs the program of the package for this platform, with the same arguments
// and standard streams, and ends as it ends.

import { spawn } from 'node:child_process';
import { ADVICE, packagedProgram } from './program.js';

const program = packagedProgram();
if (program === undefined) {
  console.error(`error: the command \`goalmill\` of the npm package has no program for this platform: ${ADVICE}`);
  process.exit(1);
}
// In a session of its own: it gets each signal from this process, and Ctrl-C in a terminal once.
const child = spawn(program, process.argv.slice(2), { detached: true, stdio: 'inherit' });
const signals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const;
for (const signal of signals) process.on(signal, () => child.kill(signal));
child.on('exit', (code, signal) => {
  if (signal === null) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
