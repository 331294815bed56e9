// A worker: reads tasks, runs actions, extends leases, reports, drains.

import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import type { Redis } from 'ioredis';
import type { Agent } from './agent.js';
import { Calls, Suspended } from './calls.js';
import { Context } from './context.js';
import { type Duration, toMs } from './duration.js';
import { Fatal, PartialResult, plain, Retry, toFailure } from './errors.js';
import { Held, HeldTasks, LEASE_MARGIN_MS, type Report } from './held_tasks.js';
import { toJson } from './json.js';
import { type Log, writeLog } from './log.js';
import { Outbox } from './outbox.js';
import { Payloads } from './payload.js';
import { GROUP, Keys, PROTOCOL, readTask, VERSION, type RecordedCall, type Task } from './protocol.js';
import { backoffMs, closeRedis, openRedis } from './redis.js';
import { Registration } from './registration.js';
import { validate } from './schema.js';
import { Throttle } from './throttle.js';
import { aborted, sleep, within } from './waiting.js';

/** Options of a worker. */
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
  /** Drains the worker when it aborts, beside SIGTERM and SIGINT. */
  signal?: AbortSignal;
  /** Takes the lines of the log (JSON on standard error). */
  log?: Log;
}

/** Milliseconds that one read waits, tasks that it takes at most. */
const BLOCK_MS = 500;
const PULL_MAX = 512;
/** The same while an agent has asked to wait. */
const PACED_BLOCK_MS = 50;
const PACED_PULL_MAX = 4;
const HEARTBEAT_MS = 2_000;
/** Time to send the last reports; to remove the heartbeat. */
const FLUSH_MS = 5_000;
/** The default of `drain`. With the last reports it must end before the 30 s that Kubernetes gives a pod. */
const DRAIN_MS = 20_000;
const DEREGISTER_MS = 1_000;
/** Cancelled attempts that are remembered. */
const CANCELLED_MAX = 100_000;

/** Serves agents until the process gets SIGTERM or SIGINT, or `options.signal` aborts; then drains. */
export async function serve(agents: Agent[], options: ServeOptions = {}): Promise<void> {
  if (agents.length === 0) throw new TypeError('a worker needs an agent');
  const worker = new Worker(agents, options);
  const stop = () => worker.drain();
  process.on('SIGTERM', stop).on('SIGINT', stop);
  options.signal?.addEventListener('abort', stop);
  if (options.signal?.aborted === true) stop();
  try {
    await worker.run();
  } finally {
    process.off('SIGTERM', stop).off('SIGINT', stop);
    options.signal?.removeEventListener('abort', stop);
  }
  // An execution that does not stop would hold the process; its task is released already.
  if (worker.executing > 0 && options.signal?.aborted !== true) process.exit(0);
}

class Worker {
  /** Executions that have not ended, also those that were given up. */
  executing = 0;
  private readonly id: string;
  private readonly slots: number;
  private readonly drainMs: number;
  private readonly keys: Keys;
  private readonly log: Log;
  private readonly main: Redis;
  private readonly reader: Redis;
  private readonly subscriber: Redis;
  private readonly outbox: Outbox;
  private readonly agents: Map<string, Agent>;
  private readonly throttles: Map<Agent, Throttle>;
  private readonly startedMs = Date.now();
  /** The agent of each task stream. */
  private streams = new Map<string, Agent>();
  private readonly registration: Registration;
  private readonly held: HeldTasks;
  private readonly cancelled = new Set<string>();
  private readonly draining = new AbortController();
  private readonly forced = new AbortController();
  private readonly ended = new AbortController();
  /** Cancellations reach this worker. */
  private isListening = false;
  private isConnected = true;

  constructor(agents: Agent[], options: ServeOptions) {
    this.agents = new Map(agents.map((agent) => [agent.name, agent]));
    this.throttles = new Map(agents.map((agent) => [agent, new Throttle()]));
    const host = hostname().replace(/[^A-Za-z0-9._-]/g, '-').slice(0, 100) || 'worker';
    this.id = options.id ?? `${host}-${randomBytes(5).toString('hex')}`;
    this.slots = options.slots ?? 8;
    if (!Number.isSafeInteger(this.slots) || this.slots < 1) throw new TypeError('`slots` is a number from 1');
    this.drainMs = toMs(options.drain ?? DRAIN_MS);
    this.keys = new Keys(options.prefix ?? 'goalmill');
    this.log = options.log ?? writeLog;
    const url = options.redis ?? process.env.GOALMILL_REDIS_URL ?? 'redis://127.0.0.1:6379';
    const onError = (error: Error) => this.setLost(error);
    const open = (use: string) => openRedis(url, `${this.id}:${use}`, onError);
    [this.main, this.reader, this.subscriber] = [open('main'), open('pull'), open('listen')];
    this.outbox = new Outbox(this.main, this.log);
    this.registration = new Registration(this.main, this.keys, this.id, agents);
    this.held = new HeldTasks(this.main, this.id, this.log, (held, report) => this.send(held, report), onError);
  }

  /** The first call lets running tasks finish; the second one releases them. */
  drain(): void {
    (this.draining.signal.aborted ? this.forced : this.draining).abort();
    this.held.changed.wake();
  }

  async run(): Promise<void> {
    try {
      await this.untilConnected(async () => { this.streams = await this.registration.register(); });
      if (this.streams.size > 0) {
        this.subscriber.on('ready', () => void this.listen()).on('close', () => { this.isListening = false; });
        if (this.subscriber.status === 'ready') await this.listen();
        const beating = this.beat();
        this.log('info', `worker ${this.id} serves ${[...this.agents.keys()].join(', ')} with ${this.slots} slots`);
        const pulling = this.pull();
        await aborted(this.draining.signal);
        await within(pulling, 2 * BLOCK_MS); // a read has no end while Redis is away
        await this.finish();
        this.ended.abort();
        await within(beating.then(() => this.registration.deregister()), DEREGISTER_MS);
        this.log('info', `worker ${this.id} has ended`);
      }
    } finally {
      [this.main, this.reader, this.subscriber].forEach(closeRedis);
    }
  }

  // Registration and heartbeats

  /** Acts until it succeeds or the worker drains; only a `Fatal` ends it before. */
  private async untilConnected(act: () => Promise<void>): Promise<void> {
    for (let failures = 1; !this.draining.signal.aborted; failures += 1) {
      try {
        return await Promise.race([act(), aborted(this.draining.signal)]);
      } catch (error) {
        if (error instanceof Fatal) throw error;
        this.setLost(error as Error);
        await sleep(backoffMs(failures), this.draining.signal);
      }
    }
  }

  private async beat(): Promise<void> {
    while (!this.ended.signal.aborted) {
      try {
        await (this.isConnected ? this.registration.readStreams() : this.registration.register());
        await this.registration.beat({
          agents: [...this.agents.keys()],
          slots: this.slots,
          busy: this.held.size,
          draining: this.draining.signal.aborted,
          version: VERSION,
          host: hostname(),
          started_ms: this.startedMs,
          heartbeat_ms: HEARTBEAT_MS,
        });
        // Ends the connection of the listener if it gets no answer.
        if (this.subscriber.status === 'ready') void this.subscriber.ping().catch(() => {});
        if ((await this.registration.isDrainAsked()) && !this.draining.signal.aborted) this.drain();
        if (!this.isConnected) this.log('info', 'redis answers again');
        this.isConnected = true;
      } catch (error) {
        this.setLost(error as Error);
      }
      await sleep(HEARTBEAT_MS, this.ended.signal);
    }
  }

  private setLost(error: Error): void {
    if (this.isConnected) this.log('warn', `redis: ${error.message}`);
    this.isConnected = false;
  }

  /** Listens for cancelled attempts, and reads those of before. */
  private async listen(): Promise<void> {
    try {
      this.subscriber.removeAllListeners('message').on('message', (_, tokens: string) => this.cancel(tokens.split(' ')));
      await this.subscriber.subscribe(this.keys.cancel());
      this.cancel(await this.main.zrangebyscore(this.keys.cancelled(), '-inf', '+inf'));
      this.isListening = this.subscriber.status === 'ready';
      this.held.changed.wake();
    } catch (error) {
      this.setLost(error as Error);
      this.subscriber.disconnect(true);
    }
  }

  private cancel(tokens: string[]): void {
    for (const token of tokens) {
      this.cancelled.add(token);
      if (this.cancelled.size > CANCELLED_MAX) this.cancelled.delete(this.cancelled.values().next().value!);
    }
    this.held.stopAll('cancelled', (held) => this.cancelled.has(held.task.token));
  }

  // Tasks

  private async pull(): Promise<void> {
    const { signal } = this.draining;
    const names = [...this.streams.keys()];
    let turn = 0;
    for (let failures = 0; !signal.aborted; ) {
      await this.outbox.room();
      await this.held.changed.until(() => this.held.size < this.slots || signal.aborted);
      if (signal.aborted) return;
      const askedAt = performance.now();
      // COUNT is for each stream: with fewer free slots than streams, they take turns.
      const free = this.slots - this.held.size;
      const open = [...names.slice(turn), ...names.slice(0, turn)].filter((name) => this.throttles.get(this.streams.get(name)!)!.hasRoom());
      const chosen = open.slice(0, free);
      if (chosen.length === 0) {
        await sleep(PACED_BLOCK_MS, signal);
        continue;
      }
      turn = (turn + chosen.length) % names.length;
      const isPaced = [...this.throttles.values()].some((throttle) => throttle.isOn());
      const count = Math.min(Math.floor(free / chosen.length), isPaced ? PACED_PULL_MAX : PULL_MAX);
      const block = isPaced || chosen.length < names.length ? PACED_BLOCK_MS : BLOCK_MS;
      try {
        const read = (await this.reader.call(
          'XREADGROUP', 'GROUP', GROUP, this.id, 'COUNT', count, 'BLOCK', block, 'STREAMS', ...chosen, ...chosen.map(() => '>'),
        )) as [string, [string, string[] | null][]][] | null;
        failures = 0;
        if (read === null) continue;
        // After a lost connection a cancellation may have been missed until the listener is back.
        while (!this.isListening && !signal.aborted) await within(this.held.changed.wait(), BLOCK_MS);
        const isLate = performance.now() - askedAt > BLOCK_MS + LEASE_MARGIN_MS;
        const deliveries = read.flatMap(([stream, entries]) => entries.map(([entry, fields]) => ({ stream, entry, fields })));
        for (const delivery of isLate ? await this.held.extend(deliveries) : deliveries) this.accept(delivery);
        // Lets short executions finish, so that the next read finds their slots free.
        await new Promise((resolve) => setImmediate(resolve));
      } catch (error) {
        this.setLost(error as Error);
        await sleep(backoffMs((failures += 1)), signal);
        if ((error as Error).message.startsWith('NOGROUP')) await this.registration.register().catch((problem: Error) => this.setLost(problem));
      }
    }
  }

  private accept({ stream, entry, fields }: { stream: string; entry: string; fields: string[] | null }): void {
    const agent = this.streams.get(stream)!;
    const value = (name: string) => {
      const at = fields === null ? -1 : fields.findIndex((field, i) => i % 2 === 0 && field === name);
      return at < 0 ? undefined : fields![at + 1];
    };
    if (value('v') !== PROTOCOL) return this.log('debug', `entry ${entry} of ${stream} has another version`);
    const task = readTask(value('data') ?? '');
    // The scheduler takes the entry back when its lease ends.
    if (typeof task === 'string') return this.log('warn', `entry ${entry} of ${stream} is no task: ${task}`);
    const held = new Held(task, agent, stream, entry);
    if (this.cancelled.has(task.token) || this.draining.signal.aborted) return this.send(held, { what: 'released' });
    this.held.add(held);
    void this.attempt(held);
  }

  /** Runs one attempt and reports it, whatever is thrown. */
  private async attempt(held: Held): Promise<void> {
    try {
      this.end(held, await this.outcome(held));
    } catch (thrown) {
      this.log('error', `step ${held.task.step} has no outcome: ${plain(thrown)}`, { plan: held.task.plan });
      this.end(held, failed(thrown));
    }
  }

  private async outcome(held: Held): Promise<Report> {
    const throttle = this.throttles.get(held.agent)!;
    const refusal = await throttle.turn(held.controller.signal);
    if (refusal !== undefined || held.stopped !== undefined) return { what: 'failed', failure: refusal };
    [held.startedMs, held.begunAt] = [Date.now(), performance.now()];
    const payloads = new Payloads(this.main, this.keys, held.task, () => this.checkRunning(held), this.registration.limits);
    const calls = new Calls(held.task, payloads, () => this.checkRunning(held), (call) => this.record(held, call));
    const context = new Context(held.task, {
      calls, startedMs: held.startedMs, signal: held.controller.signal, log: this.log,
      progress: (fraction, message) => { held.progress = { fraction, message }; },
    });
    this.executing += 1;
    const work = runAction(held.agent, held.task, context, payloads);
    void work.finally(() => { this.executing -= 1; });
    const ended = (await Promise.race([work, held.interrupted, calls.over])) ?? { what: 'released' };
    if (calls.refused !== undefined) {
      held.controller.abort(calls.refused);
      return { ...failed(calls.refused), ...context.collected() };
    }
    if (ended.outputs !== undefined || ended.failure?.class === 'rate_limited') throttle.record(held.begunAt, ended.failure);
    const report = calls.suspended ? { what: 'suspended', suspended: calls.suspended } : ended;
    return { ...report, ...context.collected() };
  }

  /** Reports how an attempt has ended, or what stopped it. */
  private end(held: Held, report: Report): void {
    this.held.remove(held);
    if (held.stopped === 'lost') return;
    this.send(held, { ...(held.stopped === undefined ? report : stopReport(held, report)), finished_ms: Date.now() });
  }

  private checkRunning(held: Held): void {
    if (held.stopped !== undefined) throw new Retry(`the attempt was stopped: ${held.stopped}`, { code: 'STOPPED' });
    if (!this.held.has(held)) throw new Fatal('the attempt has ended: await every call before you return', { code: 'CALL_AFTER_END' });
  }

  /** Reports a finished call; waits until Redis has it. */
  private async record(held: Held, call: RecordedCall): Promise<void> {
    this.checkRunning(held);
    await new Promise<void>((resolve) => this.send(held, { what: 'call', call }, resolve));
  }

  private send(held: Held, report: Report, sent?: () => void): void {
    const { plan, step, attempt, token, agent_type, reply } = held.task;
    const head = { plan, step, attempt, token, agent_type, entry: held.entry, worker: this.id, started_ms: held.startedMs };
    this.outbox.push(reply, { ...head, ...report }, sent);
  }

  // The end

  private async finish(): Promise<void> {
    this.log('info', `worker ${this.id} drains`);
    await within(this.held.idle(), this.drainMs, this.forced.signal);
    this.held.stopAll('released');
    await this.held.idle();
    await within(this.outbox.empty(), FLUSH_MS);
    if (this.outbox.length > 0) this.log('warn', `${this.outbox.length} reports could not be sent before the end`);
  }
}

function failed(thrown: unknown): Report {
  return { what: 'failed', failure: thrown instanceof Suspended ? toFailure(new Error(thrown.message)) : toFailure(thrown) };
}

/** What has ended by its time limit has still used something up. */
function stopReport({ stopped, task }: Held, { cost, usage, suggested_adjustments }: Report): Report {
  if (stopped !== 'timeout') return { what: 'released' };
  const message = `the attempt took longer than its limit of ${task.timeout_ms} ms`;
  return { what: 'failed', failure: { class: 'timeout', code: 'STEP_TIMEOUT', message }, cost, usage, suggested_adjustments };
}

/** Runs the action of a task; its report, also if it fails. @internal */
export async function runAction(agent: Agent, task: Task, context: Context, payloads: Payloads): Promise<Report> {
  try {
    return await execute(agent, task, context, payloads);
  } catch (thrown) {
    return failed(thrown);
  }
}

async function execute(agent: Agent, task: Task, context: Context, payloads: Payloads): Promise<Report> {
  const action = agent.find(task.action);
  if (action === undefined) {
    throw new Fatal(`agent \`${agent.name}\` has no action \`${task.action ?? ''}\``, { code: 'ACTION_UNKNOWN' });
  }
  const { input, output } = action.options;
  let inputs = await payloads.inputs();
  if (input !== undefined) inputs = await validate(input, inputs, 'the inputs do not match', 'INPUT_INVALID');
  const result: unknown = await action.run(inputs, context);
  const isPartial = result instanceof PartialResult;
  let outputs: unknown = (isPartial ? result.outputs : result) ?? {};
  if (output !== undefined && !isPartial) outputs = await validate(output, outputs, 'the outputs do not match', 'OUTPUT_INVALID');
  const stored = await payloads.storableOutputs(outputs, toJson(outputs, 'the outputs', payloads.limits.nesting_max));
  return isPartial ? { what: 'partial_success', outputs: stored, errors: result.errors } : { what: 'completed', outputs: stored };
}
