// Keys and messages of protocol 1 (docs/protocol.md).

import type { Failure } from './errors.js';

/** The version that this package speaks. */
export const PROTOCOL = '1';
/** The consumer group of task streams. */
export const GROUP = 'workers';
/** The version of this package. */
export const VERSION = '0.1.0';
/** Bytes of the outcome of a call in a report; larger ones are stored, because every further attempt carries them. */
export const OUTCOME_BYTES_MAX = 16 << 10;
/** Characters of the name of a call. */
export const CALL_NAME_MAX = 200;
/** How long stored payloads are kept, in milliseconds: the longest duration of a plan. */
export const BLOB_MS = 604_800_000;

/** Limits of the installation that workers apply, under their names in the settings (`limits.calls_max`). */
export interface Limits {
  /** Calls of a step, and bytes of all their outcomes. */
  calls_max: number;
  calls_bytes_max: number;
  /** Bytes of outputs in a report; larger ones are stored. Bytes of outputs at all. */
  inline_bytes_max: number;
  payload_bytes_max: number;
  /** Nested lists and objects of an answer. */
  nesting_max: number;
}

/** The limits where the schedulers write none. */
export const LIMITS: Readonly<Limits> = {
  calls_max: 200,
  calls_bytes_max: 8 << 20,
  inline_bytes_max: 256 << 10,
  payload_bytes_max: 2 << 20,
  nesting_max: 64,
};

/** The limits of the installation: the field `limits` of `goalmill:meta`, which its schedulers write. */
export function readLimits(field: string | null | undefined): Limits {
  const found = JSON.parse(field ?? '{}') as Partial<Limits>;
  const named = (Object.keys(LIMITS) as (keyof Limits)[]).filter((name) => Number.isSafeInteger(found[name]));
  return { ...LIMITS, ...Object.fromEntries(named.map((name) => [name, found[name]])) };
}

/** What may still be used up. */
export interface CallBudget {
  tokens?: number;
  /** US dollars. */
  cost?: number;
  /** Nothing more becomes free. */
  last?: boolean;
}

/** A finished call of the step. */
export interface RecordedCall {
  n: number;
  name: string;
  inputs?: string;
  outcome?: unknown;
  error?: Failure;
  cost?: number;
  usage?: { prompt_tokens: number; completion_tokens: number };
  started_ms?: number;
  finished_ms?: number;
}

/** A task as it stands on the stream. */
export interface Task {
  plan: string;
  family?: string;
  step: string;
  attempt: number;
  token: string;
  agent_type: string;
  action?: string;
  description?: string;
  expected_outputs?: string[];
  expected_output?: string;
  inputs: unknown;
  timeout_ms: number;
  lease_ms: number;
  reply: string;
  idempotency_key: string;
  callback?: { url: string; token: string } | null;
  calls?: RecordedCall[];
  budget?: CallBudget;
  traceparent?: string;
}

/** The task in `data`; what is wrong with it, if it is none. */
export function readTask(data: string): Task | string {
  let task: Partial<Task>;
  try {
    task = JSON.parse(data) as Partial<Task>;
  } catch (error) {
    return `it is not JSON: ${(error as Error).message}`;
  }
  if (typeof task !== 'object' || task === null || Array.isArray(task)) return 'it is no object';
  for (const field of ['plan', 'step', 'token', 'agent_type', 'reply', 'idempotency_key'] as const) {
    if (typeof task[field] !== 'string') return `\`${field}\` is no text`;
  }
  for (const field of ['attempt', 'timeout_ms', 'lease_ms'] as const) {
    if (!Number.isSafeInteger(task[field]) || task[field]! < 1) return `\`${field}\` is no positive number`;
  }
  if (shardOf(task.plan!) === undefined) return `\`${task.plan}\` is no plan id`;
  if (task.calls !== undefined && !Array.isArray(task.calls)) return '`calls` is no list';
  return task as Task;
}

/** The shard that a plan id names. */
export function shardOf(plan: string): string | undefined {
  return /^p(\d{1,5})-/.exec(plan)?.[1];
}

/** The keys of an installation; `prefix` is `redis.prefix` of its settings. */
export class Keys {
  constructor(private readonly prefix: string) {}

  readonly meta = () => `${this.prefix}:meta`;
  readonly queues = () => `${this.prefix}:queues`;
  readonly agents = () => `${this.prefix}:agents`;
  readonly agentsChanged = () => `${this.prefix}:agents:changed`;
  readonly workers = () => `${this.prefix}:workers`;
  readonly beats = () => `${this.prefix}:workers:beats`;
  readonly drain = (worker: string) => `${this.prefix}:workers:drain:${worker}`;
  readonly cancel = () => `${this.prefix}:cancel`;
  readonly cancelled = () => `${this.prefix}:cancelled`;

  /** Where the blobs of a task stand. */
  blobs(task: Task): string {
    const family = task.family ?? task.plan;
    return `${this.prefix}:blob:{s${shardOf(family) ?? shardOf(task.plan)}}:${family}:`;
  }
}
