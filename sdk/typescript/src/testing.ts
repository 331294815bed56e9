// Runs plans with agents in this process: no server, no Redis, virtual time. It needs the program `goalmill` (docs/testing.md).

import type { Agent } from './agent.js';
import type { Failure } from './errors.js';
import { KitAttempt, type KitTask } from './kit_attempt.js';
import type { Log } from './log.js';
import { readValues, startProgram } from './program.js';

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
  task?: KitTask;
  error?: RunRefused['problem'];
  result?: Record<string, any>;
}

/** Runs a plan to its end with agents of this process. */
export async function run(plan: object, agents: Agent[] = [], options: TestOptions = {}): Promise<TestResult> {
  const { mocks, program, log = () => {}, ...rest } = options;
  const kit = await startProgram(['test', '--stdio'], program);
  const send = (message: object) => void kit.stdin.write(`${JSON.stringify(message)}\n`);
  try {
    send({ run: { ...rest, plan, agents: mocks ?? {}, serve: agents.map(({ name }) => name) } });
    for await (const { task, error, result } of readValues(kit.stdout) as AsyncIterable<KitMessage>) {
      if (error !== undefined) throw new RunRefused(error);
      if (result !== undefined) return toResult(result);
      const { attempt } = new KitAttempt(task!, log, (report) => send({ report }));
      void attempt.run(agents.find(({ name }) => name === attempt.task.agent_type));
    }
  } finally {
    kit.stdin.end();
  }
  throw new Error('the program `goalmill` has ended before the plan');
}

function toResult(found: Record<string, any>): TestResult {
  return {
    status: found.status, outputs: found.results, output: found.final_output, failure: found.failure,
    cost: found.usage.cost, tokens: found.usage.tokens, seconds: found.duration_ms / 1000,
    events: found.events, steps: found.steps, warnings: found.warnings ?? [],
  };
}
