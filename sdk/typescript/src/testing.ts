// Runs plans with agents in this process: no server, no Redis, virtual time. It needs the program `goalmill` (docs/testing.md).

import type { Agent } from './agent.js';
import type { Failure } from './errors.js';
import type { Log } from './log.js';
import { startProgram } from './program.js';
import { Bridge } from './worker.js';

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
  /** The program; by default `GOALMILL_BINARY`, else that of the package for this platform, else `goalmill` on `PATH`. */
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

/** Runs a plan to its end with agents of this process, one attempt at a time. */
export async function run(plan: object, agents: Agent[] = [], options: TestOptions = {}): Promise<TestResult> {
  const { mocks, program, log = () => {}, ...rest } = options;
  const kit = new Kit(agents, log, await startProgram(['test', '--stdio'], program));
  kit.sendHello({ slots: 1 });
  kit.send('run', { ...rest, plan, agents: mocks ?? {} });
  await kit.run();
  if (kit.problem !== undefined) throw new RunRefused(kit.problem);
  if (kit.result === undefined) throw new Error('the program `goalmill` has ended before the plan');
  return toResult(kit.result);
}

/** The program in the mode of test kits: it has the plan and the time, and gives tasks as a worker does. */
class Kit extends Bridge {
  problem: RunRefused['problem'] | undefined;
  result: Record<string, any> | undefined;

  protected override handle(kind: string, body: any): void {
    if (kind === 'error') this.problem = body;
    else if (kind === 'result') this.result = body;
    else return super.handle(kind, body);
    this.close();
  }
}

function toResult(found: Record<string, any>): TestResult {
  return {
    status: found.status, outputs: found.results, output: found.final_output, failure: found.failure,
    cost: found.usage.cost, tokens: found.usage.tokens, seconds: found.duration_ms / 1000,
    events: found.events, steps: found.steps, warnings: found.warnings ?? [],
  };
}
