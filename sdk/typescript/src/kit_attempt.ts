// An attempt of the test kit: it does what a worker does with recorded calls, and its frames become reports.

import { Attempt, type CallAnswer, type Link, type Task } from './attempt.js';
import type { Failure } from './errors.js';
import type { Log } from './log.js';

interface RecordedCall extends CallAnswer {
  n: number;
  name: string;
  inputs?: string;
}

/** A task as `goalmill test --stdio` writes it. */
export interface KitTask extends Task {
  token: string;
  calls?: RecordedCall[];
}

/** The worker of one attempt. */
export class KitAttempt implements Link {
  readonly nestingMax = 64;
  readonly attempt: Attempt;
  /** Recorded calls, and the calls of this attempt, by name, inputs and occurrence. */
  private readonly known = new Map<string, RecordedCall>();
  private readonly taken = new Set<string>();
  /** The same by their numbers in this attempt. */
  private readonly begun = new Map<number, { name: string; inputs: string }>();
  private unasked: number;
  private last: number;
  private suspended: { name: string; inputs: string; wait: object } | undefined;

  constructor(private readonly task: KitTask, readonly log: Log, private readonly write: (report: object) => void) {
    const calls = task.calls ?? [];
    for (const call of calls) this.known.set(`${call.name}/${occurrenceOf(call.name, call.inputs ?? '', this.known)}`, call);
    this.unasked = calls.length;
    this.last = calls.at(-1)?.n ?? 0;
    this.attempt = new Attempt({ ...task, task: 1 }, this);
  }

  send(kind: string, frame: Record<string, any>): void {
    const { call, outcome, error, cost, usage } = frame;
    switch (kind) {
      case 'call':
      case 'wait':
        return this.find(call, frame.name, occurrenceOf(frame.name, frame.inputs, this.taken), frame.wait);
      case 'made':
        this.last += 1;
        this.report({ what: 'call', call: { n: this.last, ...this.begun.get(call), outcome, error, cost, usage } });
        return this.attempt.answer('recorded', { call });
      case 'abandoned':
        this.taken.delete(`${this.begun.get(call)!.name}/${this.begun.get(call)!.inputs}`);
        return;
      case 'reserve':
        return this.reserve(call, { tokens: frame.tokens, cost });
      case 'ended':
        return this.end(frame.answer);
    }
  }

  private find(call: number, name: string, inputs: string, wait: object | undefined): void {
    const identity = `${name}/${inputs}`;
    this.taken.add(identity);
    this.begun.set(call, { name, inputs });
    const known = this.known.get(identity);
    if (known === undefined && wait !== undefined) return this.suspend(call, { name, inputs, wait });
    if (known === undefined) return this.attempt.answer('call', { call, key: `${this.task.idempotency_key}/${identity}` });
    this.unasked -= 1;
    this.attempt.answer('call', { call, outcome: known.outcome, error: known.error });
  }

  private reserve(call: number, needs: { tokens: number; cost: number }): void {
    const { tokens, cost, last } = this.attempt.budget ?? {};
    const hasRoom = needs.tokens <= (tokens ?? Infinity) && needs.cost <= (cost ?? Infinity);
    if (hasRoom || this.unasked > 0) return this.attempt.answer('reserved', { call });
    if (last !== true) return this.suspend(call, { name: 'budget', inputs: '', wait: { for: 'budget', text: 'the next call', needs } });
    const error: Failure = { class: 'constraint_violation', code: 'BUDGET_EXCEEDED', message: 'the budget of the plan has no room' };
    this.attempt.answer('call', { call, error });
  }

  private suspend(call: number, suspended: { name: string; inputs: string; wait: object }): void {
    this.suspended ??= suspended;
    this.attempt.answer('suspended', { call });
  }

  private end({ error, outputs, partial, errors, ...used }: Record<string, any>): void {
    if (error !== undefined && this.suspended !== undefined) {
      return this.report({ what: 'suspended', suspended: { n: this.last + 1, ...this.suspended }, ...used });
    }
    if (error !== undefined) return this.report({ what: 'failed', failure: error, ...used });
    if (this.task.callback != null && outputs.accepted === true) {
      const suspended = { n: 0, name: 'callback', wait: { for: 'callback', text: 'the outcome by callback' } };
      return this.report({ what: 'suspended', suspended, ...used });
    }
    this.report({ what: partial === true ? 'partial_success' : 'completed', outputs, errors, ...used });
  }

  private report(report: object): void {
    const { plan, step, attempt, token, agent_type } = this.task;
    this.write({ plan, step, attempt, token, agent_type, ...report });
  }
}

/** The inputs of the next call with this name and these inputs: the second one has `…#2`. */
function occurrenceOf(name: string, inputs: string, taken: { has(identity: string): boolean }): string {
  let found = inputs;
  for (let n = 2; taken.has(`${name}/${found}`); n += 1) found = `${inputs}#${n}`;
  return found;
}
