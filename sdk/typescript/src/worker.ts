// A worker: reads tasks, runs actions, extends leases, reports, drains.

import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import type { Redis } from 'ioredis';
import type { Agent } from './agent.js';
import { Calls, Suspended, usageFields } from './calls.js';
import { Context } from './context.js';
import { type Duration, toMs } from './duration.js';
import { Fatal, PartialResult, Retry, toFailure, type Failure } from './errors.js';
import { toJson } from './json.js';
import { type Log, writeLog } from './log.js';
import { Outbox } from './outbox.js';
import { Payloads } from './payload.js';
import { Keys, PROTOCOL, readTask, type RecordedCall, type Task } from './protocol.js';
import { backoffMs, openRedis } from './redis.js';
import { validate } from './schema.js';

/** Options of a worker. */
export interface ServeOptions {
  /** Address of Redis: `redis://`, `rediss://`, `redis+sentinel://HOST,HOST/SERVICE`; by default `GOALMILL_REDIS_URL`. */
  redis?: string;
  /** Tasks that run at the same time (8). */
  slots?: number;
  /** `redis.prefix` of the installation (`goalmill`). */
  prefix?: string;
  /** How long running tasks may take after SIGTERM (30 s). */
  drain?: Duration;
  /** The name of this worker; unique. */
  id?: string;
  /** Drains the worker when it aborts, beside SIGTERM and SIGINT. */
  signal?: AbortSignal;
  /** Takes the lines of the log (JSON on standard error). */
  log?: Log;
}

const GROUP = 'workers';
/** Milliseconds that one read waits, tasks that it takes at most. */
const BLOCK_MS = 2_000;
const PULL_MAX = 512;
const HEARTBEAT_MS = 2_000;
/** Interval of looks at the running tasks: time limits, leases, progress. */
const TICK_MS = 50;
/** Executions over this time report that they have started; progress is sent at most so often. */
const STARTED_MS = 200;
/** Time that a stopped execution has to clean up. */
const CLEAN_UP_MS = 100;
/** A lease is trusted until so long before its end, at most half of it. */
const LEASE_MARGIN_MS = 5_000;
/** Time to send the last reports; to remove the heartbeat. */
const FLUSH_MS = 5_000;
const DEREGISTER_MS = 1_000;
/** Cancelled attempts that are remembered. */
const CANCELLED_MAX = 100_000;

type StopReason = 'timeout' | 'lost' | 'cancelled' | 'released';

/** A task that runs here. */
interface Held {
  task: Task;
  agent: Agent;
  stream: string;
  entry: string;
  /** Unix milliseconds; then by the monotonic clock. */
  startedMs: number;
  begunAt: number;
  renewedAt: number;
  isStartReported: boolean;
  progress: { fraction: number; message: string } | undefined;
  progressSentAt: number;
  controller: AbortController;
  stopped: StopReason | undefined;
  /** Ends the wait for the execution. */
  interrupt: () => void;
  interrupted: Promise<void>;
}

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
  private readonly startedMs = Date.now();
  /** The agent of each task stream. */
  private streams = new Map<string, Agent>();
  private instance: string | undefined;
  private readonly held = new Set<Held>();
  private readonly cancelled = new Set<string>();
  private readonly draining = new AbortController();
  private readonly forced = new AbortController();
  private readonly ended = new AbortController();
  private ticker: NodeJS.Timeout | undefined;
  private isExtending = false;
  private isPulling = false;
  /** The id of the reader's connection. */
  private readerId: number | undefined;
  private changed: (() => void)[] = [];
  private isConnected = true;

  constructor(agents: Agent[], options: ServeOptions) {
    this.agents = new Map(agents.map((agent) => [agent.name, agent]));
    const host = hostname().replace(/[^A-Za-z0-9._-]/g, '-').slice(0, 100) || 'worker';
    this.id = options.id ?? `${host}-${randomBytes(5).toString('hex')}`;
    this.slots = options.slots ?? 8;
    if (!Number.isSafeInteger(this.slots) || this.slots < 1) throw new TypeError('`slots` is a number from 1');
    this.drainMs = toMs(options.drain ?? '30s');
    this.keys = new Keys(options.prefix ?? 'goalmill');
    this.log = options.log ?? writeLog;
    const url = options.redis ?? process.env.GOALMILL_REDIS_URL ?? 'redis://127.0.0.1:6379';
    const onError = (error: Error) => this.setLost(error);
    const open = (use: string) => openRedis(url, `${this.id}:${use}`, onError);
    [this.main, this.reader, this.subscriber] = [open('main'), open('pull'), open('listen')];
    this.outbox = new Outbox(this.main, this.log);
  }

  /** The first call lets running tasks finish; the second one releases them. */
  drain(): void {
    (this.draining.signal.aborted ? this.forced : this.draining).abort();
    this.wake();
    void this.unblock();
  }

  async run(): Promise<void> {
    try {
      await this.untilConnected(() => this.register());
      if (this.streams.size > 0) {
        this.subscriber.on('ready', () => void this.listen());
        if (this.subscriber.status === 'ready') await this.listen();
        const beating = this.beat();
        this.log('info', `worker ${this.id} serves ${[...this.agents.keys()].join(', ')} with ${this.slots} slots`);
        await this.pull();
        await this.finish();
        this.ended.abort();
        await within(beating.then(() => this.deregister()), DEREGISTER_MS);
        this.log('info', `worker ${this.id} has ended`);
      }
    } finally {
      clearInterval(this.ticker);
      for (const redis of [this.main, this.reader, this.subscriber]) redis.disconnect();
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

  private async register(): Promise<void> {
    const streams = await this.readStreams();
    for (const [stream, agent] of streams) {
      await this.main.xgroup('CREATE', stream, GROUP, '0', 'MKSTREAM').catch((error: Error) => {
        if (!error.message.startsWith('BUSYGROUP')) throw error;
      });
      await this.main.sadd(this.keys.queues(), agent.name);
      const [card, known] = [JSON.stringify(agent.card()), await this.main.hget(this.keys.agents(), agent.name)];
      if (card !== known) {
        await this.main.hset(this.keys.agents(), agent.name, card);
        await this.main.publish(this.keys.agentsChanged(), agent.name);
      }
    }
    this.streams = streams;
  }

  /** The task streams, from what the schedulers have written about the installation. */
  private async readStreams(): Promise<Map<string, Agent>> {
    const [instance, protocol, patterns] = await this.main.hmget(this.keys.meta(), 'instance', 'protocol', 'streams');
    if (instance == null || protocol == null || patterns == null) {
      throw new Error(`\`${this.keys.meta()}\` is missing: no scheduler has started with this Redis`);
    }
    if (protocol !== PROTOCOL) throw new Fatal(`the schedulers speak protocol ${protocol}, this package protocol ${PROTOCOL}: install the version that fits`);
    if (this.instance !== undefined && this.instance !== instance) {
      throw new Error(`Redis holds another installation (${instance}) than before (${this.instance}): its data were lost; restore them, or restart this worker`);
    }
    this.instance = instance;
    const streams = new Map<string, Agent>();
    for (const pattern of patterns.split(' ')) {
      if (pattern.replace('<agent_type>', '').includes('<')) {
        throw new Fatal(`the installation has task streams \`${pattern}\`, which this package cannot read: install a newer one`);
      }
      for (const agent of this.agents.values()) streams.set(pattern.replace('<agent_type>', agent.name), agent);
    }
    return streams;
  }

  private async beat(): Promise<void> {
    while (!this.ended.signal.aborted) {
      try {
        await this.readStreams();
        if (!this.isConnected) await this.register();
        const [seconds, micros] = await this.main.time();
        const now = Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
        const beat = {
          worker: this.id,
          agents: [...this.agents.keys()],
          slots: this.slots,
          busy: this.held.size,
          ...(this.draining.signal.aborted && { draining: true }),
          version: PROTOCOL,
          host: hostname(),
          started_ms: this.startedMs,
          heartbeat_ms: HEARTBEAT_MS,
        };
        await this.main.hset(this.keys.beats(), this.id, JSON.stringify(beat));
        await this.main.zadd(this.keys.workers(), now, this.id);
        // Ends the connection of the listener if it gets no answer.
        if (this.subscriber.status === 'ready') void this.subscriber.ping().catch(() => {});
        if (!this.draining.signal.aborted && (await this.main.exists(this.keys.drain(this.id))) > 0) this.drain();
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
    for (const held of this.held) if (this.cancelled.has(held.task.token)) this.stop(held, 'cancelled');
  }

  // Tasks

  private async pull(): Promise<void> {
    const { signal } = this.draining;
    this.isPulling = true;
    this.reader.on('close', () => { this.readerId = undefined; });
    const names = [...this.streams.keys()];
    for (let failures = 0; !signal.aborted; ) {
      await this.outbox.room();
      while (this.held.size >= this.slots && !signal.aborted) await this.change();
      if (signal.aborted) break;
      const askedAt = performance.now();
      const count = Math.min(this.slots - this.held.size, PULL_MAX);
      try {
        this.readerId ??= Number(await this.reader.client('ID'));
        const read = (await this.reader.call(
          'XREADGROUP', 'GROUP', GROUP, this.id, 'COUNT', count, 'BLOCK', BLOCK_MS, 'STREAMS', ...names, ...names.map(() => '>'),
        )) as [string, [string, string[] | null][]][] | null;
        failures = 0;
        if (read === null) continue;
        const isLate = performance.now() - askedAt > BLOCK_MS + LEASE_MARGIN_MS;
        for (const [stream, entries] of read) {
          for (const [entry, fields] of isLate ? await this.owned(stream, entries) : entries) this.accept(stream, entry, fields);
        }
        // Lets short executions finish, so that the next read finds their slots free.
        await new Promise((resolve) => setImmediate(resolve));
      } catch (error) {
        this.setLost(error as Error);
        await sleep(backoffMs((failures += 1)), signal);
      }
    }
    this.isPulling = false;
  }

  /** Ends the blocking read, which may just begin: a dropped one could have taken tasks. */
  private async unblock(): Promise<void> {
    while (this.isPulling && this.main.status === 'ready') {
      if (this.readerId !== undefined) await this.main.client('UNBLOCK', this.readerId).catch(() => {});
      await sleep(20);
    }
  }

  private async owned<T>(stream: string, entries: [string, T][]): Promise<[string, T][]> {
    const ours = await this.extend([{ stream, entries: entries.map(([entry]) => entry) }]);
    return entries.filter((_, i) => ours[i] === 1);
  }

  private accept(stream: string, entry: string, fields: string[] | null): void {
    const agent = this.streams.get(stream)!;
    const value = (name: string) => {
      const at = fields === null ? -1 : fields.findIndex((field, i) => i % 2 === 0 && field === name);
      return at < 0 ? undefined : fields![at + 1];
    };
    if (value('v') !== PROTOCOL) return this.log('debug', `entry ${entry} of ${stream} has another version`);
    const task = readTask(value('data') ?? '');
    // The scheduler takes the entry back when its lease ends.
    if (typeof task === 'string') return this.log('warn', `entry ${entry} of ${stream} is no task: ${task}`);
    const now = performance.now();
    const held: Held = {
      task, agent, stream, entry,
      startedMs: Date.now(), begunAt: now, renewedAt: now,
      isStartReported: false, progress: undefined, progressSentAt: 0,
      controller: new AbortController(), stopped: undefined,
      interrupt: () => {}, interrupted: Promise.resolve(),
    };
    held.interrupted = new Promise((resolve) => (held.interrupt = resolve));
    if (this.cancelled.has(task.token) || this.draining.signal.aborted) return this.send(held, { what: 'released' });
    this.held.add(held);
    this.ticker ??= setInterval(() => this.tick(), TICK_MS);
    void this.attempt(held);
  }

  /** Runs one attempt and reports it. */
  private async attempt(held: Held): Promise<void> {
    const payloads = new Payloads(this.main, this.keys, held.task, () => this.checkRunning(held));
    const calls = new Calls(held.task, payloads, () => this.checkRunning(held), (call) => this.record(held, call));
    const context = new Context(held.task, {
      calls, startedMs: held.startedMs, signal: held.controller.signal, log: this.log,
      progress: (fraction, message) => { held.progress = { fraction, message }; },
    });
    this.executing += 1;
    const work = this.execute(held, context, payloads).catch((thrown: unknown) => failed(thrown));
    void work.finally(() => { this.executing -= 1; });
    const ended = await Promise.race([work, held.interrupted]);
    this.held.delete(held);
    this.wake();
    if (held.stopped === 'lost') return;
    const report = held.stopped !== undefined ? stopReport(held) : calls.suspended ? { what: 'suspended', suspended: calls.suspended } : ended!;
    const { used, suggestions } = context.collected();
    this.send(held, {
      ...report,
      ...(report.what !== 'released' && usageFields(used)),
      ...(suggestions.length > 0 && report.what !== 'released' && { suggested_adjustments: suggestions }),
      finished_ms: Date.now(),
    });
  }

  private async execute(held: Held, context: Context, payloads: Payloads): Promise<Report> {
    const { task, agent } = held;
    const action = agent.find(task.action);
    if (action === undefined) {
      throw new Fatal(`agent \`${agent.name}\` has no action \`${task.action ?? ''}\``, { code: 'UNKNOWN_ACTION' });
    }
    const { input, output } = action.options;
    let inputs = await payloads.inputs();
    if (input !== undefined) inputs = await validate(input, inputs, 'the inputs do not match', 'INPUT_INVALID');
    const result: unknown = await action.run(inputs, context);
    const isPartial = result instanceof PartialResult;
    let outputs: unknown = (isPartial ? result.outputs : result) ?? {};
    if (output !== undefined && !isPartial) outputs = await validate(output, outputs, 'the outputs do not match', 'OUTPUT_INVALID');
    const stored = await payloads.storableOutputs(outputs, toJson(outputs, 'the outputs'));
    return isPartial ? { what: 'partial_success', outputs: stored, errors: result.errors } : { what: 'completed', outputs: stored };
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

  private stop(held: Held, reason: StopReason): void {
    if (held.stopped !== undefined) return;
    held.stopped = reason;
    held.controller.abort(new Retry(`the attempt was stopped: ${reason}`, { code: 'STOPPED' }));
    setTimeout(held.interrupt, CLEAN_UP_MS);
  }

  // Time limits, leases, progress

  private tick(): void {
    if (this.held.size === 0) {
      clearInterval(this.ticker);
      this.ticker = undefined;
      return;
    }
    const now = performance.now();
    const due: Held[] = [];
    for (const held of this.held) {
      if (held.stopped !== undefined) continue;
      const { lease_ms, timeout_ms } = held.task;
      if (now - held.begunAt >= timeout_ms) this.stop(held, 'timeout');
      else if (now >= held.renewedAt + lease_ms - Math.min(LEASE_MARGIN_MS, lease_ms / 2)) {
        this.log('warn', `the lease on step ${held.task.step} could not be extended, its execution is stopped`, { plan: held.task.plan });
        this.stop(held, 'lost');
      } else if (now - held.renewedAt >= lease_ms / 3) due.push(held);
      this.sendProgress(held, now);
    }
    if (due.length > 0 && !this.isExtending) void this.renew(due, now);
  }

  private sendProgress(held: Held, now: number): void {
    if (now - held.begunAt < STARTED_MS || now - held.progressSentAt < STARTED_MS) return;
    if (held.progress !== undefined) {
      this.send(held, { what: 'progress', progress: held.progress.fraction, message: held.progress.message });
    } else if (!held.isStartReported) this.send(held, { what: 'started' });
    else return;
    held.isStartReported = true;
    held.progress = undefined;
    held.progressSentAt = now;
  }

  /** Extends leases; each counts from the sending, the only safe bound. */
  private async renew(due: Held[], sentAt: number): Promise<void> {
    this.isExtending = true;
    try {
      const streams = [...new Set(due.map((held) => held.stream))];
      const ordered = streams.flatMap((stream) => due.filter((held) => held.stream === stream));
      const groups = streams.map((stream) => ({ stream, entries: due.filter((held) => held.stream === stream).map((held) => held.entry) }));
      const ours = await this.extend(groups);
      ordered.forEach((held, i) => {
        if (ours[i] === 1) held.renewedAt = sentAt;
        else {
          this.log('warn', `the lease on step ${held.task.step} is lost, its execution is stopped`, { plan: held.task.plan });
          this.stop(held, 'lost');
        }
      });
    } catch (error) {
      this.setLost(error as Error);
    } finally {
      this.isExtending = false;
    }
  }

  private async extend(groups: { stream: string; entries: string[] }[]): Promise<number[]> {
    const streams = groups.map(({ stream }) => stream);
    const entries = groups.flatMap(({ entries }) => [entries.length, ...entries]);
    return (await this.main.fcall('goalmill_extend', streams.length, ...streams, this.id, ...entries)) as number[];
  }

  // The end

  private async finish(): Promise<void> {
    this.log('info', `worker ${this.id} drains`);
    await within(this.idle(), this.drainMs, this.forced.signal);
    for (const held of this.held) this.stop(held, 'released');
    await this.idle();
    await within(this.outbox.empty(), FLUSH_MS);
    if (this.outbox.length > 0) this.log('warn', `${this.outbox.length} reports could not be sent before the end`);
  }

  private async deregister(): Promise<void> {
    await this.main.zrem(this.keys.workers(), this.id);
    await this.main.hdel(this.keys.beats(), this.id);
  }

  private async idle(): Promise<void> {
    while (this.held.size > 0) await this.change();
  }

  /** Waits until a task has ended, or the drain begins. */
  private change(): Promise<void> {
    return new Promise((resolve) => this.changed.push(resolve));
  }

  private wake(): void {
    const { changed } = this;
    this.changed = [];
    for (const resolve of changed) resolve();
  }
}

/** What a report says beside the task. */
interface Report {
  what: string;
  outputs?: unknown;
  failure?: Failure;
  errors?: Failure[];
  [field: string]: unknown;
}

function failed(thrown: unknown): Report {
  return { what: 'failed', failure: thrown instanceof Suspended ? toFailure(new Error(thrown.message)) : toFailure(thrown) };
}

function stopReport({ stopped, task }: Held): Report {
  if (stopped !== 'timeout') return { what: 'released' };
  const message = `the attempt took longer than its limit of ${task.timeout_ms} ms`;
  return { what: 'failed', failure: { class: 'timeout', code: 'STEP_TIMEOUT', message } };
}

/** Waits; ends early if `signal` aborts. */
function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted === true) return Promise.resolve();
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener('abort', end);
  });
}

/** Waits for `promise`, at most so long. */
async function within(promise: Promise<unknown>, ms: number, signal?: AbortSignal): Promise<void> {
  const over = new AbortController();
  const end = () => over.abort();
  signal?.addEventListener('abort', end);
  if (signal?.aborted === true) end();
  await Promise.race([promise.catch(() => {}), sleep(ms, over.signal)]);
  signal?.removeEventListener('abort', end);
  end();
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
