// Durable calls: recorded in the log of the plan when they end, and given back to the next attempt instead of made again.

import { AsyncLocalStorage } from 'node:async_hooks';
import { Fatal, plain, toFailure, type Failure } from './errors.js';
import { digest, toJson } from './json.js';
import type { Payloads } from './payload.js';
import { CALL_NAME_MAX, type CallBudget, type RecordedCall, type Task } from './protocol.js';

/** What a call, or an attempt beside its calls, has used up. */
export interface Usage {
  /** US dollars. */
  cost?: number;
  promptTokens?: number;
  completionTokens?: number;
}

/** Options of a durable call. */
export interface CallOptions<T> {
  /** What the call depends on, any JSON: a recorded call with other inputs is made again. */
  inputs?: unknown;
  /** What the call has used up, or how its outcome says it. It counts against the budget of the plan. */
  usage?: Usage | ((outcome: T) => Usage);
  /** The most that the call may use up. If the budget has no room for it, the step waits for room. */
  needs?: { tokens?: number; cost?: number };
}

/** What a call waits for, as reports say it. */
export interface CallWait {
  for: 'approval' | 'answer' | 'plan' | 'budget' | 'callback';
  text: string;
  schema?: unknown;
  limit_ms?: number;
  plan?: unknown;
  inputs?: unknown;
  needs?: { tokens: number; cost: number };
}

/** The call that waits. */
export interface SuspendedCall {
  n: number;
  name: string;
  inputs?: string;
  wait: CallWait;
}

/** Ends an attempt one of whose calls waits: the next attempt goes on after the wait. Let it pass through. */
export class Suspended extends Error {
  override name = 'Suspended';
}

/** US dollars, or tokens, that one report may say. */
const USED_MAX = 1e15;

/** The call whose function runs here. */
const madeHere = new AsyncLocalStorage<{ calls: Calls; name: string; isOver: boolean }>();

/** The calls of one attempt. */
export class Calls {
  /** The log cannot have a call: the attempt has failed, whatever it returns. */
  refused: Fatal | undefined;
  private setOver = () => {};
  /** Ends when a call is refused. */
  readonly over = new Promise<void>((resolve) => (this.setOver = resolve));
  /** The call that waits: the attempt is over, whatever it returns. */
  suspended: SuspendedCall | undefined;
  private readonly recorded: RecordedCall[];
  private last = 0;
  private bytes = 0;
  private spent = { tokens: 0, cost: 0 };
  /** The end of the call before: calls are recorded in the order of their numbers. */
  private before = Promise.resolve();
  /** A call failed while a later one was made: later ones cannot be recorded without a gap. */
  private hasGap = false;

  constructor(
    private readonly task: Task,
    private readonly payloads: Payloads,
    private readonly checkRunning: () => void,
    private readonly report: (call: RecordedCall) => Promise<void>,
  ) {
    this.recorded = task.calls ?? [];
  }

  /** What further calls may use up. */
  budget(): CallBudget | undefined {
    const { tokens, cost, last } = this.task.budget ?? {};
    if (this.task.budget == null) return undefined;
    const left = (most: number | undefined, spent: number) => (most == null ? undefined : Math.max(0, most - spent));
    return { tokens: left(tokens, this.spent.tokens), cost: left(cost, this.spent.cost), last };
  }

  /** Makes a call, or gives back its recorded outcome. `make` gets the idempotency key of the call. */
  async call<T>(name: string, make: (key: string) => T | Promise<T>, options: CallOptions<T>): Promise<T> {
    const inputs = options.inputs === undefined ? undefined : digest(options.inputs);
    const { n, known } = this.next(name, inputs);
    if (known !== undefined) return (await this.replay(known)) as T;
    return this.inOrder(async (before) => {
      const call: RecordedCall = { n, name, inputs, started_ms: Date.now() };
      let [isBegun, isMade] = [false, false];
      let release = () => {};
      try {
        release = await this.reserve(call, options.needs, before);
        isBegun = true;
        const made = await this.make(name, () => make(`${this.task.plan}/${this.task.step}/${n}`));
        isMade = true;
        const text = this.count(name, toJson(made, `the outcome of call \`${name}\``, this.payloads.limits.nesting_max));
        const usage = usageFields(typeof options.usage === 'function' ? options.usage(made) : (options.usage ?? {}));
        const outcome = await this.payloads.storableOutcome(text);
        await before;
        await this.keep({ ...call, outcome, ...usage, finished_ms: Date.now() });
        // As the next attempt will get it: dates are texts, fields without a value are missing.
        return JSON.parse(text) as T;
      } catch (thrown) {
        await before;
        if (isMade && thrown instanceof Fatal) throw this.refuse(thrown);
        await this.keepFailure(call, isBegun, thrown);
        throw thrown;
      } finally {
        release();
      }
    });
  }

  /** Runs the function of a call: no other call may begin in it. */
  private async make<T>(name: string, run: () => T | Promise<T>): Promise<T> {
    const here = { calls: this, name, isOver: false };
    try {
      return await madeHere.run(here, async () => run());
    } finally {
      here.isOver = true;
    }
  }

  /** Ends the attempt: a call that the log cannot have would be made again, whatever the agent does next. */
  private refuse(failure: Fatal): Fatal {
    this.refused ??= failure;
    this.hasGap = true;
    this.setOver();
    return failure;
  }

  /** Ends the attempt until somebody or something answers; gives back the answer in a later attempt. */
  async wait(name: string, wait: CallWait): Promise<unknown> {
    const inputs = digest(wait);
    const { n, known } = this.next(name, inputs);
    if (known !== undefined) return this.replay(known);
    return this.inOrder((before) => this.suspend({ n, name, inputs, wait }, before));
  }

  /** Ends the attempt, whose outcome comes by its callback. */
  accept(): never {
    this.suspended ??= { n: 0, name: 'callback', wait: { for: 'callback', text: 'the outcome by callback' } };
    throw new Suspended('the task is accepted; its outcome comes by the callback');
  }

  private async suspend(call: SuspendedCall, before: Promise<void>): Promise<never> {
    await before;
    if (this.hasGap) throw new Error(`a call failed before call \`${call.name}\` could wait`);
    this.suspended ??= call;
    throw new Suspended(`call \`${call.name}\` waits; the attempt ends here and the next one goes on`);
  }

  /** Holds what a call may use up while it is made; gives what ends this. Waits for room in the budget by ending the attempt. */
  private async reserve(call: RecordedCall, needed: CallOptions<never>['needs'] = {}, before: Promise<void>): Promise<() => void> {
    const left = this.budget() ?? {};
    const { tokens = 0, cost = 0 } = needed;
    if (tokens <= (left.tokens ?? Infinity) && cost <= (left.cost ?? Infinity)) {
      this.spend(tokens, cost);
      return () => this.spend(-tokens, -cost);
    }
    const text = `call \`${call.name}\` may use up ${tokens} tokens and ${cost} dollars`;
    if (left.last === true) {
      const message = `${text}, and the plan has not so much left`;
      throw new Fatal(message, { code: 'BUDGET_EXCEEDED', class: 'constraint_violation' });
    }
    const { n, name, inputs } = call;
    return this.suspend({ n, name, inputs, wait: { for: 'budget', text, needs: { tokens, cost } } }, before);
  }

  private spend(tokens: number, cost: number): void {
    this.spent.tokens += tokens;
    this.spent.cost += cost;
  }

  /** Numbers the next call; from the first one that differs, recorded calls are void. */
  private next(name: string, inputs: string | undefined): { n: number; known?: RecordedCall } {
    this.checkRunning();
    if (name === '' || name.length > CALL_NAME_MAX) {
      throw new Fatal(`the name of a call must have 1 to ${CALL_NAME_MAX} characters`, { code: 'CALL_INVALID' });
    }
    if (this.refused !== undefined) throw this.refused;
    if (this.suspended !== undefined) throw new Suspended(`call \`${this.suspended.name}\` waits`);
    const here = madeHere.getStore();
    if (here?.calls === this && !here.isOver) {
      const why = `call \`${name}\` is made inside the function of call \`${here.name}\``;
      throw this.refuse(new Fatal(`${why}: durable calls cannot be nested, make one after the other`, { code: 'CALL_INVALID' }));
    }
    const most = this.payloads.limits.calls_max;
    const n = (this.last += 1);
    const known = this.recorded[n - 1];
    if (known?.n === n && known.name === name && (known.inputs ?? undefined) === inputs) return { n, known };
    this.recorded.length = Math.min(this.recorded.length, n - 1);
    if (n > most) throw this.refuse(new Fatal(`the step made more than ${most} calls (\`limits.calls_max\`)`, { code: 'CALLS_EXCEEDED' }));
    return { n };
  }

  private async replay(known: RecordedCall): Promise<unknown> {
    if (known.error != null) {
      const { message, code, class: kind } = known.error;
      throw new Fatal(message, { code, class: kind === 'constraint_violation' ? kind : 'permanent' });
    }
    return this.payloads.outcome(known.outcome);
  }

  private async inOrder<T>(act: (before: Promise<void>) => Promise<T>): Promise<T> {
    const { before } = this;
    let settle = () => {};
    this.before = new Promise((resolve) => (settle = resolve));
    try {
      return await act(before);
    } finally {
      settle();
    }
  }

  private count(name: string, text: string): string {
    const most = this.payloads.limits.calls_bytes_max;
    this.bytes += name.length + Buffer.byteLength(text);
    if (this.bytes <= most) return text;
    throw new Fatal(`the calls of the step have more than ${most} bytes (\`limits.calls_bytes_max\`)`, { code: 'CALLS_EXCEEDED' });
  }

  private async keep(call: RecordedCall): Promise<void> {
    this.spend((call.usage?.prompt_tokens ?? 0) + (call.usage?.completion_tokens ?? 0), call.cost ?? 0);
    if (!this.hasGap) await this.report(call);
  }

  /** A failure for good is an outcome. Another one is not recorded, and the number is free again if no later call has begun. */
  private async keepFailure(call: RecordedCall, isBegun: boolean, thrown: unknown): Promise<void> {
    if (isBegun && thrown instanceof Fatal) {
      const error: Failure = toFailure(thrown);
      await this.keep({ ...call, error, finished_ms: Date.now() });
    } else if (this.last === call.n) this.last -= 1;
    else this.hasGap = true;
  }
}

/** The fields of a report for what was used up; a `Fatal` (`ANSWER_INVALID`) if a number cannot be kept. */
export function usageFields(usage: Usage): { cost?: number; usage?: { prompt_tokens: number; completion_tokens: number } } {
  const { cost = 0, promptTokens = 0, completionTokens = 0 } = usage;
  for (const [name, value] of Object.entries({ cost, promptTokens, completionTokens })) {
    const isNumber = name === 'cost' ? typeof value === 'number' : Number.isInteger(value);
    if (!isNumber || !(value >= 0 && value <= USED_MAX)) {
      const expected = name === 'cost' ? 'a number' : 'an integer';
      throw new Fatal(`\`${name}\` must be ${expected} from 0 to 10^15, it is ${plain(value)} (${typeof value})`, { code: 'ANSWER_INVALID' });
    }
  }
  const split = promptTokens + completionTokens > 0 ? { prompt_tokens: promptTokens, completion_tokens: completionTokens } : undefined;
  return { cost: cost > 0 ? cost : undefined, usage: split };
}
