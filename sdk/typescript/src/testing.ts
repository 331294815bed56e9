// Runs plans with agents in this process: no server, no Redis, virtual time. It needs the program `goalmill` (docs/testing.md).

import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Redis } from 'ioredis';
import type { Agent } from './agent.js';
import { Calls } from './calls.js';
import { Context } from './context.js';
import { type Failure, toFailure } from './errors.js';
import type { Report } from './held_tasks.js';
import { type Log } from './log.js';
import { Payloads } from './payload.js';
import { Keys, readTask, type RecordedCall, type Task } from './protocol.js';
import { runAction } from './worker.js';

/** What happens in a run, as in a file of `goalmill test`. */
export interface TestOptions {
  /** What steps read as `goal.metadata.inputs`. */
  inputs?: Record<string, unknown>;
  /** Agents that only answer, by agent type and action. */
  mocks?: Record<string, Record<string, unknown>>;
  /** Stored plans that steps use, by name. */
  plans?: Record<string, unknown>;
  events?: { name: string; key?: string; data?: unknown; at?: string }[];
  approvals?: { step?: string; reject?: boolean; reason?: string; after?: string }[];
  answers?: { step: string; answer: unknown; after?: string }[];
  /** When the plan is submitted, RFC 3339. */
  start?: string;
  /** Of random numbers, such as the jitter of backoffs. */
  seed?: number;
  /** The program; by default `GOALMILL_BINARY`, else `goalmill` on `PATH`. */
  program?: string;
  /** Takes the lines of the log of actions. */
  log?: Log;
}

/** The end of a run. */
export interface TestResult {
  status: string;
  /** By step. */
  outputs: Record<string, any>;
  /** Of the plan as a whole. */
  output?: any;
  failure?: Failure;
  /** US dollars. */
  cost: number;
  tokens: number;
  /** Virtual time from submission to end. */
  seconds: number;
  /** The log, as `goalmill events -o jsonl` prints it. */
  events: Record<string, any>[];
  /** Of the plan, then of plans inside it. */
  steps: { id: string; status: string; attempt: number }[];
  /** What of the run was of no use. */
  warnings: string[];
}

/** The plan was not run, or has no end. */
export class RunRefused extends Error {
  override name = 'RunRefused';
  constructor(readonly problem: { detail?: string; title?: string; errors?: { pointer: string; detail: string }[] }) {
    const places = (problem.errors ?? []).map(({ pointer, detail }) => `\n  ${pointer} ${detail}`).join('');
    super(`${problem.detail ?? problem.title}${places}`);
  }
}

interface KitMessage {
  task?: unknown;
  error?: RunRefused['problem'];
  result?: Record<string, any>;
}

/** Runs a plan to its end with agents of this process. */
export async function run(plan: object, agents: Agent[] = [], options: TestOptions = {}): Promise<TestResult> {
  const { mocks, program, log = () => {}, ...rest } = options;
  const kit = spawn(program ?? process.env.GOALMILL_BINARY ?? 'goalmill', ['test', '--stdio'], { stdio: ['pipe', 'pipe', 'inherit'] }) as unknown as ChildProcessWithoutNullStreams;
  const failed = new Promise<never>((_, reject) => kit.once('error', reject));
  kit.stdin.on('error', () => {}); // its end is seen on standard output
  try {
    return await Promise.race([failed, new TestKit(kit, agents, log).run({ ...rest, plan, agents: mocks ?? {}, serve: agents.map(({ name }) => name) })]);
  } finally {
    kit.stdin.end();
  }
}

class TestKit {
  private readonly blobs = new Map<string, string>();
  private readonly keys = new Keys('goalmill');
  private readonly agents: Map<string, Agent>;

  constructor(private readonly process: ChildProcessWithoutNullStreams, agents: Agent[], private readonly log: Log) {
    this.agents = new Map(agents.map((agent) => [agent.name, agent]));
  }

  async run(test: object): Promise<TestResult> {
    this.send({ run: test });
    for await (const line of createInterface({ input: this.process.stdout })) {
      const { task, error, result } = JSON.parse(line) as KitMessage;
      if (error !== undefined) throw new RunRefused(error);
      if (result !== undefined) return toResult(result);
      const read = readTask(JSON.stringify(task));
      if (typeof read === 'string') throw new Error(`the program \`goalmill\` sent no task: ${read}`);
      void this.attempt(read);
    }
    throw new Error('the program `goalmill` has ended before the plan');
  }

  private send(message: object): void {
    this.process.stdin.write(`${JSON.stringify(message)}\n`);
  }

  private async attempt(task: Task): Promise<void> {
    const startedMs = Date.now();
    const head = { plan: task.plan, step: task.step, attempt: task.attempt, token: task.token, agent_type: task.agent_type, started_ms: startedMs };
    // Payloads are kept in memory.
    const store = {
      get: async (key: string) => this.blobs.get(key) ?? null,
      set: async (key: string, text: string) => { this.blobs.set(key, text); return 'OK'; },
    } as unknown as Redis;
    const payloads = new Payloads(store, this.keys, task, () => {});
    const record = async (call: RecordedCall) => this.send({ report: { ...head, what: 'call', call } });
    const calls = new Calls(task, payloads, () => {}, record);
    const context = new Context(task, { calls, startedMs, signal: new AbortController().signal, log: this.log, progress: () => {} });
    const ended = await runAction(this.agents.get(task.agent_type)!, task, context, payloads);
    const report: Report = calls.refused ? { what: 'failed', failure: toFailure(calls.refused) }
      : calls.suspended ? { what: 'suspended', suspended: calls.suspended } : ended;
    this.send({ report: { ...head, ...report, ...context.collected(), finished_ms: Date.now() } });
  }
}

function toResult(found: Record<string, any>): TestResult {
  return {
    status: found.status, outputs: found.results, output: found.final_output, failure: found.failure,
    cost: found.usage.cost, tokens: found.usage.tokens, seconds: found.duration_ms / 1000,
    events: found.events, steps: found.steps, warnings: found.warnings ?? [],
  };
}
