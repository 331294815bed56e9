// The program `goalmill`: a child process, or a worker that is there already. Both exchange lines of JSON.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { connect } from 'node:net';
import { delimiter, join } from 'node:path';
import type { Readable, Writable } from 'node:stream';

/** A program that runs. */
export interface Program {
  stdin: Writable;
  stdout: Readable;
  /** Its code, or the signal that has ended it. */
  ended: Promise<number | string>;
}

const platformPackage = `@goalmill/${process.platform}-${process.arch}`;
/** What to do without a program. */
export const ADVICE = `install the package \`${platformPackage}\` or the program \`goalmill\`, or set GOALMILL_BINARY to its path`;

/** The program of the package for this platform, which npm installs as an optional dependency. */
export function packagedProgram(): string | undefined {
  try {
    return createRequire(import.meta.url).resolve(`${platformPackage}/bin/goalmill`);
  } catch {
    return undefined;
  }
}

/** The program on `PATH`. The command of this package, which npm puts there for its scripts, is none. */
function installedProgram(): string | undefined {
  const folders = (process.env.PATH ?? '').split(delimiter).filter((folder) => !folder.endsWith(join('node_modules', '.bin')));
  return folders.map((folder) => join(folder, 'goalmill')).find((path) => existsSync(path));
}

/** Starts the given program, that of `GOALMILL_BINARY`, that of the package for this platform, or `goalmill` on `PATH`. */
export async function startProgram(args: string[], program?: string, env: Record<string, string> = {}): Promise<Program> {
  const path = program || process.env.GOALMILL_BINARY || packagedProgram() || installedProgram();
  if (path === undefined) throw Object.assign(new Error(`the program \`goalmill\` is not installed: ${ADVICE}`), { code: 'ENOENT' });
  // In a session of its own: Ctrl-C in a terminal reaches this process only.
  const child = spawn(path, args, { detached: true, env: { ...process.env, ...env }, stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.on('error', () => {}); // its end is seen on standard output
  try {
    await once(child, 'spawn');
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw Object.assign(new Error(`the program \`${path}\` cannot be started (${message}): ${ADVICE}`), { code });
  }
  return { stdin: child.stdin, stdout: child.stdout, ended: once(child, 'close').then(([code, signal]) => code ?? signal) };
}

/** Connects to the socket of a worker that is there already. */
export async function connectBridge(path: string): Promise<Program> {
  const socket = connect(path);
  await once(socket, 'connect');
  socket.on('error', () => {}); // `close` follows
  return { stdin: socket, stdout: socket, ended: new Promise((resolve) => socket.once('close', () => resolve(0))) };
}

/** The values that a stream has, one a line. `node:readline` would also end a line at U+2028, which may stand in a text. */
export async function* readValues(stream: Readable): AsyncGenerator<any> {
  let line: Buffer[] = [];
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    let from = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, from)) {
      yield JSON.parse(Buffer.concat([...line, chunk.subarray(from, end)]).toString());
      [line, from] = [[], end + 1];
    }
    line.push(chunk.subarray(from));
  }
}
