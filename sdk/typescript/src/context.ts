// What an action gets beside its inputs.

import type { Attempt, CallOptions } from './attempt.js';
import { type Duration, toMs } from './duration.js';
import { Fatal, plain, type Failure } from './errors.js';
import type { PlanDocument } from './plan.js';
import { jsonSchemaOf, type JsonSchema, type StandardSchema, validate } from './schema.js';
import { type CallBudget, checkUsed, type Usage, usageFields } from './usage.js';

/** The decision of a person. */
export interface Decision {
  approved: boolean;
  reason?: string;
}

/** How a submitted plan has ended. */
export interface PlanOutcome<T = any> {
  plan?: string;
  status?: string;
  outputs?: T;
  error?: Failure;
}

/** One attempt of one step. */
export class Context {
  /** The ids of plan and step. */
  readonly plan: string;
  readonly step: string;
  /** Counted from 1 over the life of the step. */
  readonly attempt: number;
  /** What the step is for, in words. */
  readonly description: string | undefined;
  /** Fields that the outputs must have. */
  readonly expectedOutputs: readonly string[];
  /** What the outputs are expected to be, in words. */
  readonly expectedOutput: string | undefined;
  /** The same for every attempt of the step: pass it to systems with side effects. */
  readonly idempotencyKey: string;
  /** When the attempt will be stopped. */
  readonly deadline: Date;
  /** W3C trace context; pass it on as the header `traceparent`. */
  readonly traceparent: string | undefined;
  /** Address and token for the outcome, if the step has `callback: true`. */
  readonly callback: { url: string; token: string } | undefined;
  private readonly used = { cost: 0, promptTokens: 0, completionTokens: 0 };
  private readonly suggestions: Record<string, unknown>[] = [];

  /** @internal */
  constructor(private readonly running: Attempt) {
    const { task } = running;
    ({ plan: this.plan, step: this.step, attempt: this.attempt, description: this.description, idempotency_key: this.idempotencyKey } = task);
    this.expectedOutputs = task.expected_outputs ?? [];
    this.expectedOutput = task.expected_output;
    this.deadline = new Date(running.startedMs + task.timeout_ms);
    this.traceparent = task.traceparent;
    this.callback = task.callback;
  }

  /** Aborts when the attempt must stop: cancelled, over its time limit, its lease lost, the worker at its end. */
  get cancelled(): AbortSignal {
    return this.running.signal;
  }
  /** What further calls may use up; `undefined` if nothing limits the plan. */
  get budget(): CallBudget | undefined {
    return this.running.budget;
  }

  /** Ends the attempt without an outcome: it comes by the callback, and no worker waits for it. */
  accepted(): never {
    if (this.callback === undefined) throw new Fatal('the step has no `callback: true`', { code: 'CALLBACK_MISSING' });
    return this.running.accept();
  }

  /** Reports progress, 0 to 1, with a line for people. */
  progress(fraction: number, message = ''): void {
    const share = Math.min(1, Math.max(0, Number(fraction) || 0));
    this.running.tell('progress', { share, message: plain(message ?? '').slice(0, 1_000).toWellFormed() });
  }

  /** Writes a line to the log of the worker, with plan, step and attempt. */
  log(message: string, fields: Record<string, unknown> = {}): void {
    this.running.log('info', message, { plan: this.plan, step: this.step, attempt: this.attempt, ...fields });
  }

  /** Adds what the attempt has used up beside its durable calls; a `Fatal` (`ANSWER_INVALID`) if a number cannot be kept. */
  addUsage({ cost = 0, promptTokens = 0, completionTokens = 0 }: Usage): void {
    checkUsed({ cost, promptTokens, completionTokens });
    this.used.cost += cost;
    this.used.promptTokens += promptTokens;
    this.used.completionTokens += completionTokens;
  }

  /** Suggests a change of the rest of the plan; `priority` 8 to 10 triggers a revision. */
  suggest(description: string, options: { priority?: number; step?: string } = {}): void {
    const { priority, step } = options;
    if (this.suggestions.length >= 20) return;
    this.suggestions.push({
      description: plain(description),
      ...(Number.isInteger(priority) && { priority }),
      ...(step !== undefined && { step: plain(step) }),
    });
  }

  /**
   * Makes a durable call: a finished one is recorded, and a later attempt gets its outcome instead of making it again. `make`
   * gets the idempotency key of the call. Other code of the action need not be deterministic.
   */
  call<T>(name: string, make: (key: string) => T | Promise<T>, options: CallOptions<T> = {}): Promise<T> {
    return this.running.track(name, this.running.call(name, make, options));
  }

  /** Asks a person to agree. The attempt ends; a later one gets the decision. */
  approve(text: string, options: { limit?: Duration } = {}): Promise<Decision> {
    return this.running.track('approve', this.decide<Decision>('approve', { for: 'approval', text: plain(text), ...limitOf(options.limit) }));
  }

  /** Asks a person a question. The attempt ends; a later one gets the answer. */
  ask<T = unknown>(text: string, options: { schema?: StandardSchema<any, T> | JsonSchema; limit?: Duration } = {}): Promise<T> {
    return this.running.track('ask', this.answer(text, options));
  }

  /** Runs a plan inside the step; its steps read `inputs` as `goal.metadata.inputs`. The attempt ends until the plan has. */
  submitPlan<T = any>(
    plan: PlanDocument | Record<string, unknown>,
    options: { inputs?: unknown; text?: string; limit?: Duration } = {},
  ): Promise<PlanOutcome<T>> {
    return this.running.track('submitPlan', this.submit<T>(plan, options));
  }

  /**
   * Waits for an event from outside (`POST /v1/events`, `goalmill event send`); gives its data, or `undefined` after `timeout`.
   * The attempt ends until then: the wait is a plan of one step.
   */
  waitEvent<T = unknown>(event: string, options: { key?: string; timeout?: Duration; schema?: JsonSchema } = {}): Promise<T | undefined> {
    return this.running.track('waitEvent', this.receive<T>(event, options));
  }

  private async answer<T>(text: string, { schema, limit }: { schema?: StandardSchema<any, T> | JsonSchema; limit?: Duration }): Promise<T> {
    const standard = schema !== undefined && '~standard' in schema ? (schema as StandardSchema<any, T>) : undefined;
    const json = standard === undefined ? schema : jsonSchemaOf(standard, 'input');
    const { answer } = await this.decide<{ answer: T }>('ask', { for: 'answer', text: plain(text), schema: json, ...limitOf(limit) });
    return standard === undefined ? answer : validate(standard, answer, 'the answer does not fit', 'ANSWER_INVALID');
  }

  private async submit<T>(plan: object, { inputs, text, limit }: { inputs?: unknown; text?: string; limit?: Duration }): Promise<PlanOutcome<T>> {
    const document = JSON.parse(JSON.stringify(plan)) as Record<string, unknown>;
    const shown = text ?? (typeof document.name === 'string' && document.name !== '' ? document.name : 'a plan of an agent');
    const wait = { for: 'plan', text: plain(shown), plan: document, inputs, ...limitOf(limit) };
    return (await this.running.wait('plan', wait)) as PlanOutcome<T>;
  }

  private async receive<T>(event: string, { key, timeout, schema }: { key?: string; timeout?: Duration; schema?: JsonSchema }): Promise<T | undefined> {
    const wait = { event, key, schema, ...(timeout !== undefined && { timeout_ms: toMs(timeout), on_timeout: 'skip' }) };
    const plan = { steps: [{ id: 'event', kind: 'wait', wait }] };
    const outcome = await this.submit<{ event?: T }>(plan, { text: `the event ${event}` });
    if (outcome.error != null) throw new Fatal(outcome.error.message, { code: outcome.error.code });
    return outcome.outputs?.event;
  }

  /** The decision of a person; a `Fatal` if there was none in time. */
  private async decide<T>(name: string, wait: object): Promise<T> {
    const outcome = (await this.running.wait(name, wait)) as { error?: { code?: string; message?: string } | string } | null;
    const error = outcome?.error;
    if (error == null) return outcome as T;
    const { code = 'NO_ANSWER', message = 'no decision in time' } = typeof error === 'string' ? { message: error } : error;
    throw new Fatal(message, { code });
  }

  /** The fields of the final report that the attempt has collected. @internal */
  collected(): Record<string, unknown> {
    return { ...usageFields(this.used), suggested_adjustments: this.suggestions.length > 0 ? this.suggestions : undefined };
  }
}

function limitOf(limit: Duration | undefined): { limit_ms?: number } {
  return limit === undefined ? {} : { limit_ms: toMs(limit) };
}
