// One attempt: its durable calls, what stops it, and its end.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Agent } from './agent.js';
import { Context } from './context.js';
import { type Duration, toMs } from './duration.js';
import { type Failure, Fatal, PartialResult, plain, Retry, Stopped, Suspended, toError, toFailure } from './errors.js';
import { checkJson, digest } from './json.js';
import type { Log } from './log.js';
import { validate } from './schema.js';
import { type CallBudget, checkUsed, subtract, type Usage, usageFields } from './usage.js';

/** A task as the worker sends it (docs/protocol.md, section 11). */
export interface Task {
  /** Its number. */
  task: number;
  plan: string;
  step: string;
  attempt: number;
  agent_type: string;
  action?: string;
  description?: string;
  inputs: unknown;
  expected_outputs?: string[];
  expected_output?: string;
  callback?: { url: string; token: string };
  budget?: CallBudget;
  timeout_ms: number;
  idempotency_key: string;
  traceparent?: string;
}

/** A frame that answers one about a call. */
export interface CallAnswer {
  call: number;
  /** The call is to be made, with this idempotency key. */
  key?: string;
  outcome?: unknown;
  error?: Failure;
}

/** How an attempt has ended, beside what it has used up. */
export type Answer = { outputs: unknown; partial?: true; errors?: Failure[] } | { error: Failure };

/** Where the frames of an attempt go. */
export interface Link {
  /** Nested lists and objects that a value may have. */
  readonly nestingMax: number;
  readonly log: Log;
  /** Throws a `Fatal` if the frame is too large. */
  send(kind: string, body: object): void;
}

/** Options of a durable call. */
export interface CallOptions<T> {
  /** What the call depends on, any JSON: a recorded call with other inputs is another call. */
  inputs?: unknown;
  /** What the call has used up, or how its outcome says it. It counts against the budget of the plan. */
  usage?: Usage | ((outcome: T) => Usage);
  /** The most that the call may use up. If the budget has no room for it, the step waits for room. */
  needs?: { tokens?: number; cost?: number };
  /** Makes the call again in the same attempt, which keeps its slot. `Fatal` is not tried again. */
  retry?: CallRetry;
}

/** How often a call is made again, and how long after: at least as long as a `Retry` asks. */
export interface CallRetry {
  /** Tries after the first one. */
  max?: number;
  /** The first wait (1 s); each further one is twice as long. */
  initial?: Duration;
  /** The longest wait (60 s). */
  maxDelay?: Duration;
}

/** A task that runs here. */
export class Attempt {
  readonly startedMs = Date.now();
  readonly log: Log;
  /** What further calls may use up. */
  budget: CallBudget | undefined;
  private readonly controller = new AbortController();
  private readonly context: Context;
  /** Calls that wait for an answer of the worker, by their numbers. */
  private readonly asked = new Map<number, { resolve(answer: CallAnswer): void; reject(error: Error): void }>();
  /** Calls that have begun, by their promises. */
  private readonly open = new Map<Promise<unknown>, string>();
  private last = 0;
  /** The end of an attempt that waits, whatever its action does. */
  private waiting: Answer | undefined;
  private hasEnded = false;

  constructor(readonly task: Task, private readonly link: Link) {
    this.log = link.log;
    this.budget = task.budget;
    this.context = new Context(this);
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  // Calls

  /** Holds a call open: the action must await it. */
  track<T>(name: string, work: Promise<T>): Promise<T> {
    const call = work.finally(() => this.open.delete(call));
    this.open.set(call, name);
    call.catch(() => {}); // an action that does not wait for it must not end the process
    return call;
  }

  /** Makes a call, or gives back its recorded outcome. */
  async call<T>(name: string, make: (key: string) => T | Promise<T>, options: CallOptions<T>): Promise<T> {
    const call = this.begin();
    if (options.needs !== undefined) await this.reserve(call, options.needs);
    const { key, outcome } = await this.ask('call', call, { name: plain(name), inputs: digest(options.inputs) });
    if (key === undefined) return (outcome ?? null) as T;
    return this.record(call, name, await this.make(call, () => make(key), options.retry), options.usage);
  }

  /**
   * Runs the function of a call, and again as `retry` says. A failure for good is recorded; after another one the next try has
   * the same key.
   */
  private async make<T>(call: number, make: () => T | Promise<T>, { max = 0, initial = 1_000, maxDelay = 60_000 }: CallRetry = {}): Promise<T> {
    for (let wait = toMs(initial), tries = 0; ; wait = Math.min(wait * 2, toMs(maxDelay)), tries += 1) {
      try {
        return await make();
      } catch (thrown) {
        if (thrown instanceof Fatal) await this.ask('made', call, { error: toFailure(thrown) });
        else if (tries < max && !(thrown instanceof Suspended || this.signal.aborted)) {
          await this.pause(Math.max(wait, thrown instanceof Retry ? (thrown.afterMs ?? 0) : 0));
          continue;
        } else this.tell('abandoned', { call });
        throw thrown;
      }
    }
  }

  private async pause(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.signal }).catch(() => this.signal.throwIfAborted());
  }

  /** Records an outcome; gives it as the next attempt will get it: dates are texts, fields without a value are missing. */
  private async record<T>(call: number, name: string, value: T, usage: CallOptions<T>['usage'] = {}): Promise<T> {
    try {
      checkJson(value, `the outcome of call \`${plain(name)}\``, this.link.nestingMax);
      const outcome = JSON.parse(JSON.stringify(value) ?? 'null') as T;
      const used = usageFields(typeof usage === 'function' ? usage(value) : usage);
      this.budget = subtract(this.budget, used);
      await this.ask('made', call, { outcome, ...used });
      return outcome;
    } catch (thrown) {
      this.tell('abandoned', { call });
      // It would be made again, whatever the agent does with the error.
      if (thrown instanceof Fatal && !this.signal.aborted) this.fail(thrown);
      throw thrown;
    }
  }

  /** Gives the outcome of a wait (docs/protocol.md, section 5), or ends the attempt until somebody or something answers. */
  async wait(name: string, wait: object): Promise<unknown> {
    checkJson(wait, `what call \`${name}\` waits for`, this.link.nestingMax);
    return (await this.ask('wait', this.begin(), { name, inputs: digest(wait), wait })).outcome;
  }

  /** Holds a share of the budget for a call until it is made; ends the attempt if there is no room. */
  private async reserve(call: number, { tokens = 0, cost = 0 }: { tokens?: number; cost?: number }): Promise<void> {
    checkUsed({ tokens, cost });
    await this.ask('reserve', call, { tokens, cost });
  }

  /** Ends the attempt, whose outcome comes by its callback. */
  accept(): never {
    this.waiting ??= { outputs: { accepted: true } };
    throw new Suspended();
  }

  /** The number of the next call. */
  private begin(): number {
    if (this.waiting !== undefined) throw new Suspended();
    this.last += 1;
    return this.last;
  }

  private async ask(kind: string, call: number, fields: object): Promise<CallAnswer> {
    if (this.hasEnded) throw this.callAfterEnd();
    this.signal.throwIfAborted();
    return new Promise((resolve, reject) => {
      this.asked.set(call, { resolve, reject });
      this.tell(kind, { call, ...fields });
    });
  }

  /** Of an action that has ended before its call. There is no attempt any more that could fail. */
  private callAfterEnd(): Stopped {
    const { plan, step, attempt } = this.task;
    const message = 'a call was not made, because its attempt has ended: await every call';
    this.log('warn', message, { plan, step, attempt });
    return new Stopped(message, 'CALL_INVALID');
  }

  /** Sends a frame that has no answer. */
  tell(kind: string, fields: object): void {
    this.link.send(kind, { task: this.task.task, ...fields });
  }

  /** A frame of the worker about a call. */
  answer(kind: string, answer: CallAnswer): void {
    const asked = this.asked.get(answer.call);
    this.asked.delete(answer.call);
    if (kind === 'suspended') {
      const suspended = new Suspended();
      this.waiting ??= { error: toFailure(suspended) };
      asked?.reject(suspended);
    } else if (answer.error != null) asked?.reject(toError(answer.error));
    else asked?.resolve(answer);
  }

  // End

  /** Stops the attempt: what it returns does not count. */
  stop(failure?: Failure): void {
    const reason = new Stopped(failure?.message, failure?.code);
    this.controller.abort(reason);
    for (const { reject } of this.asked.values()) reject(reason);
    this.asked.clear();
  }

  /** Runs the action of the task; sends how it has ended, whatever is thrown. */
  async run(agent: Agent | undefined): Promise<void> {
    let answer: Answer;
    try {
      answer = await this.execute(agent);
    } catch (thrown) {
      answer = { error: toFailure(thrown) };
    }
    if (this.waiting !== undefined) await this.callsMade();
    else if ('outputs' in answer) answer = await this.awaited(answer);
    this.end(this.waiting ?? answer);
  }

  /** The same end, or a failure if the action has not awaited its calls. */
  private async awaited(answer: Answer): Promise<Answer> {
    if (this.open.size > 0) await new Promise(setImmediate); // what has just ended is seen
    const [name] = this.open.values();
    if (name === undefined) return answer;
    const error = new Fatal(`the action ended before its call \`${plain(name)}\`: await every call`, { code: 'CALL_INVALID', effect: 'unknown' });
    return { error: toFailure(error) };
  }

  private async execute(agent: Agent | undefined): Promise<Answer> {
    const { task, link } = this;
    const action = agent?.find(task.action);
    if (action === undefined) throw new Fatal(`agent \`${task.agent_type}\` has no action \`${task.action ?? ''}\``, { code: 'ACTION_UNKNOWN' });
    const { input, output } = action.options;
    const inputs = input === undefined ? task.inputs : await validate(input, task.inputs, 'the inputs do not match', 'INPUT_INVALID');
    const result: unknown = await action.run(inputs, this.context);
    const partial = result instanceof PartialResult ? { partial: true as const, errors: result.errors } : undefined;
    let outputs: unknown = (result instanceof PartialResult ? result.outputs : result) ?? {};
    if (output !== undefined && partial === undefined) outputs = await validate(output, outputs, 'the outputs do not match', 'OUTPUT_INVALID');
    checkJson(outputs, 'the outputs', link.nestingMax);
    return { outputs, ...partial };
  }

  /** Waits for calls that run beside the one that waits: they would be made again. */
  private async callsMade(): Promise<void> {
    const stopped = new Promise((resolve) => this.signal.addEventListener('abort', resolve));
    if (!this.signal.aborted) await Promise.race([Promise.allSettled(this.open.keys()), stopped]);
  }

  /** Sends the end, once. */
  private end(answer: Answer): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    try {
      this.tell('ended', { answer: { ...answer, ...this.context.collected() } });
    } catch (thrown) {
      this.tell('ended', { answer: { error: toFailure(thrown) } });
    }
  }

  /** Ends the attempt with a failure, whatever its action does. */
  private fail(failure: Fatal): void {
    this.end({ error: toFailure(failure) });
    this.stop(toFailure(failure));
  }
}
