// Failures of attempts: what an agent throws, and the form that a report has.

import { type Duration, toMs } from './duration.js';

/** Whether another attempt makes sense; `constraint_violation` may cause a revision of the plan. */
export type FailureClass = 'transient' | 'permanent' | 'timeout' | 'rate_limited' | 'constraint_violation';

/** The failure of an attempt, as reports carry it. */
export interface Failure {
  class: FailureClass;
  /** Stable, upper case: `HTTP_503`. */
  code: string;
  /** For people; without secrets. */
  message: string;
  /** Milliseconds. */
  retry_after_ms?: number;
  /** What is known of the work; without it a timeout means `unknown`, any other class `none`. */
  effect?: FailureEffect;
}

/**
 * `none` if nothing was done, or `unknown`: it decides whether the fallback of an action with a side effect may try, and
 * whether the step is undone.
 */
export type FailureEffect = 'none' | 'unknown';

/** Characters of a message. */
const MESSAGE_CHARS_MAX = 4_000;
const CLASSES = new Set<unknown>(['transient', 'permanent', 'timeout', 'rate_limited', 'constraint_violation']);

/** A text of any value, which UTF-8 can say: of an error its message; never throws. @internal */
export function plain(value: unknown): string {
  try {
    const text = value instanceof Error ? value.message || value.name : value;
    return String(text).slice(0, MESSAGE_CHARS_MAX).toWellFormed();
  } catch {
    return `a ${typeof value} without a text`;
  }
}

/** Thrown when another attempt may succeed. With `after` it starts so much later at the earliest. */
export class Retry extends Error {
  override name = 'Retry';
  readonly code: string;
  readonly afterMs: number | undefined;
  readonly effect: FailureEffect | undefined;

  constructor(
    message = 'another attempt may succeed',
    options: { after?: Duration; code?: string; effect?: FailureEffect } = {},
  ) {
    super(message);
    this.effect = options.effect;
    this.code = options.code ?? 'RETRY';
    this.afterMs = options.after === undefined ? undefined : toMs(options.after);
  }
}

/** Thrown when the service behind the agent asks to wait: all steps of the agent type are held for `after`, and no retry is used. */
export class RateLimited extends Retry {
  override name = 'RateLimited';
}

/** Thrown when no further attempt can succeed. */
export class Fatal extends Error {
  override name = 'Fatal';
  readonly code: string;
  readonly class: 'permanent' | 'constraint_violation';
  readonly effect: FailureEffect | undefined;

  constructor(
    message: string,
    options: { code?: string; class?: 'permanent' | 'constraint_violation'; effect?: FailureEffect } = {},
  ) {
    super(message);
    this.effect = options.effect;
    this.code = options.code ?? 'FAILED';
    this.class = options.class ?? 'permanent';
  }
}

/** Ends an attempt one of whose calls waits: the next attempt gets what it waits for. Let it pass through. */
export class Suspended extends Error {
  override name = 'Suspended';

  /** @internal */
  constructor() {
    super('the attempt waits');
  }
}

/** Why an attempt was stopped: the reason of `ctx.cancelled`. @internal */
export class Stopped extends Retry {
  override name = 'Stopped';

  constructor(message = 'the attempt was stopped', code = 'STOPPED') {
    super(message, { code });
  }
}

/** Returned instead of outputs when only a part of the work is done. The step's `onPartial` decides what follows. */
export class PartialResult<T = unknown> {
  readonly errors: Failure[];

  /** `missing` says what is missing and why. */
  constructor(readonly outputs: T, missing: string | { code?: string; message: string; class?: FailureClass }[]) {
    const list: Exclude<typeof missing, string> = typeof missing === 'string' ? [{ message: missing }] : missing;
    this.errors = list.map(({ code = 'INCOMPLETE', message, class: kind }) => failureOf(kind, code, message));
  }
}

/** A problem object of the API (RFC 9457). */
export class GoalmillError extends Error {
  override name = 'GoalmillError';

  constructor(
    message: string,
    /** The HTTP status; 0 if there was no answer. */
    readonly status: number,
    /** Stable, upper case: `PLAN_NOT_FOUND`. */
    readonly code: string,
    readonly problem: Record<string, unknown> = {},
  ) {
    super(message);
  }
}

/** A plan that has ended without a result. */
export class PlanFailed extends Error {
  override name = 'PlanFailed';

  constructor(
    /** The id of the plan. */
    readonly plan: string,
    /** `failed`, `cancelled` or `rejected`. */
    readonly planStatus: string,
    /** That of the failure of the plan; without one, its status in upper case. */
    readonly code: string,
    reason: string,
  ) {
    super(`plan ${plan} is ${planStatus}: ${reason}`);
  }
}

/** A failure that the bridge can read, whatever the fields are. */
function failureOf(kind: unknown, code: unknown, message: unknown, effect?: unknown, afterMs?: number): Failure {
  return {
    class: CLASSES.has(kind) ? (kind as FailureClass) : 'permanent',
    code: code == null || code === '' ? 'FAILED' : plain(code),
    message: plain(message),
    ...(afterMs !== undefined && { retry_after_ms: afterMs }),
    ...((effect === 'none' || effect === 'unknown') && { effect }),
  };
}

/** The failure that a thrown value stands for: any error but `Fatal` may pass. @internal */
export function toFailure(thrown: unknown): Failure {
  try {
    if (thrown instanceof Fatal) return failureOf(thrown.class, thrown.code, thrown, thrown.effect);
    const kind = thrown instanceof RateLimited ? 'rate_limited' : 'transient';
    if (thrown instanceof Retry) return failureOf(kind, thrown.code, thrown, thrown.effect, thrown.afterMs);
  } catch {
    // A field of it throws.
  }
  // Any other error is unexpected: the work may be done.
  return failureOf('transient', 'AGENT_EXCEPTION', thrown, 'unknown');
}

/** The error of a failure that a worker has sent: another attempt cannot succeed. @internal */
export function toError({ message, code, class: kind, effect }: Failure): Fatal {
  return new Fatal(message, { code, class: kind === 'constraint_violation' ? kind : 'permanent', ...(effect && { effect }) });
}
