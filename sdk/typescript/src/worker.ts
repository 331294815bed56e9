// A worker: the child process `goalmill worker --bridge`, which has leases, reports and records, and the agents of this process.
// `goalmill dev --agent` has the worker already, and names its socket in `GOALMILL_BRIDGE`.

import type { Agent } from './agent.js';
import { Attempt, type Link, type Task } from './attempt.js';
import { type Duration, toMs } from './duration.js';
import { Fatal, plain, Stopped, Suspended } from './errors.js';
import { type Log, writeLog } from './log.js';
import { connectBridge, type Program, readValues, startProgram } from './program.js';

/** Options of a worker. What is missing is taken from the settings of `goalmill worker`. */
export interface ServeOptions {
  /** Address of Redis: `redis://`, `rediss://`, `redis+sentinel://HOST,HOST/SERVICE`; by default `GOALMILL_REDIS_URL`. */
  redis?: string;
  /** Tasks that run at the same time (8). */
  slots?: number;
  /** `redis.prefix` of the installation (`goalmill`). */
  prefix?: string;
  /** How long running tasks may take after SIGTERM (20 s). */
  drain?: Duration;
  /** The name of this worker; unique. */
  id?: string;
  /** The program; by default `GOALMILL_BINARY`, else that of the package for this platform, else `goalmill` on `PATH`. */
  program?: string;
  /** Drains the worker when it aborts, beside SIGTERM and SIGINT. */
  signal?: AbortSignal;
  /** Takes the lines of the log of actions (JSON on standard error). */
  log?: Log;
}

/** The version of the frames. */
const FRAMES = 1;
/** Milliseconds that stopped attempts have to end after the child. */
const SETTLE_MS = 1_000;

/** The child process has ended by itself; its log on standard error says why. */
export class WorkerEnded extends Error {
  override name = 'WorkerEnded';
}

/** Serves agents until the process gets SIGTERM or SIGINT, or `options.signal` aborts; then drains. */
export async function serve(agents: Agent[], options: ServeOptions = {}): Promise<void> {
  const { redis, slots = 8, prefix, id: name, signal, log = writeLog } = options;
  if (agents.length === 0) throw new TypeError('a worker needs an agent');
  if (!Number.isSafeInteger(slots) || slots < 1) throw new TypeError('`slots` is a number from 1');
  const drain_ms = options.drain === undefined ? undefined : toMs(options.drain);
  const env = { ...(redis !== undefined && { GOALMILL_REDIS_URL: redis }), ...(prefix !== undefined && { GOALMILL__REDIS__PREFIX: prefix }) };
  const bridge = process.env.GOALMILL_BRIDGE;
  const worker = new Bridge(agents, log, await (bridge ? connectBridge(bridge) : startProgram(['worker', '--bridge'], options.program, env)));
  const drain = () => worker.send('drain', {});
  process.on('SIGTERM', drain).on('SIGINT', drain);
  signal?.addEventListener('abort', drain);
  worker.sendHello({ slots, name, drain_ms });
  if (signal?.aborted === true) drain();
  try {
    await worker.run();
  } finally {
    process.off('SIGTERM', drain).off('SIGINT', drain);
    signal?.removeEventListener('abort', drain);
  }
  // An action that does not stop would hold the process; its task is handed back already.
  if (worker.held.size > 0 && signal?.aborted !== true) process.exit(0);
}

/** The agents of this process, and the program that has their tasks: a child process, or the worker of `dev`. @internal */
export class Bridge implements Link {
  nestingMax = 64;
  /** Attempts whose actions run, by the numbers of their tasks. */
  readonly held = new Map<number, Attempt>();
  private frameMax = Infinity;

  constructor(private readonly agents: Agent[], readonly log: Log, private readonly program: Program) {}

  /** Says what is served. */
  sendHello(fields: { slots: number; name?: string | undefined; drain_ms?: number | undefined }): void {
    const agents = this.agents.map((agent) => agent.card());
    this.send('hello', { version: FRAMES, package: 'the TypeScript package 0.1.0', agents, ...fields });
  }

  send(kind: string, body: object): void {
    const line = `${JSON.stringify({ [kind]: body })}\n`;
    // A character has three bytes at most.
    if (line.length > this.frameMax / 3 && Buffer.byteLength(line) > this.frameMax) {
      throw new Fatal(`the frame \`${kind}\` has more than ${this.frameMax} bytes`, { code: 'OUTPUT_TOO_LARGE', effect: 'unknown' });
    }
    this.program.stdin.write(line);
  }

  /** Ends the program. */
  close(): void {
    this.program.stdin.end();
  }

  /** Runs tasks until the program has ended; throws unless that was asked for. */
  async run(): Promise<void> {
    if (!process.listeners('unhandledRejection').includes(passStopped)) process.on('unhandledRejection', passStopped);
    let unreadable: string | undefined;
    try {
      for await (const frame of readValues(this.program.stdout)) {
        const [kind, body] = Object.entries(frame)[0]!;
        this.handle(kind, body);
      }
    } catch (error) {
      unreadable = `a frame of the worker process cannot be handled: ${plain(error)}`;
    }
    this.close();
    for (const attempt of this.held.values()) attempt.stop();
    const code = await this.program.ended;
    const end = performance.now() + SETTLE_MS;
    while (this.held.size > 0 && performance.now() < end) await new Promise((resolve) => setTimeout(resolve, 10));
    if (unreadable !== undefined || code !== 0) {
      throw new WorkerEnded(unreadable ?? `the program \`goalmill\` has ended with ${code}: see its log on standard error`);
    }
  }

  protected handle(kind: string, body: any): void {
    switch (kind) {
      case 'ready':
        [this.frameMax, this.nestingMax] = [body.frame_bytes_max, body.nesting_max];
        break;
      case 'task':
        this.begin(body as Task);
        break;
      case 'stop':
        this.held.get(body.task)?.stop(body.failure);
        break;
      case 'call':
      case 'recorded':
      case 'reserved':
      case 'suspended':
        this.held.get(body.task)?.answer(kind, body);
    }
  }

  private begin(task: Task): void {
    const attempt = new Attempt(task, this);
    this.held.set(task.task, attempt);
    const agent = this.agents.find(({ name }) => name === task.agent_type);
    void attempt.run(agent).finally(() => this.held.delete(task.task));
  }
}

/** What ends an attempt is seen by the attempt: code of an action that still runs must not end the process by it. */
function passStopped(reason: unknown): void {
  if (reason instanceof Suspended || reason instanceof Stopped) return;
  // Without another listener the process ends, as it does without this one.
  if (process.listenerCount('unhandledRejection') === 1) throw reason;
}
