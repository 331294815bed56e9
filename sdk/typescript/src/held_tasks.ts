// The tasks that a worker runs: their time limits, leases, progress, and what stops them.

import type { Redis } from 'ioredis';
import type { Agent } from './agent.js';
import { Retry, type Failure } from './errors.js';
import type { Log } from './log.js';
import type { Task } from './protocol.js';
import { Change } from './waiting.js';

/** Interval of looks at the running tasks. */
const TICK_MS = 50;
/** Executions over this time report that they have started; progress is sent at most so often. */
const STARTED_MS = 200;
/** Time that a stopped execution has to clean up. */
const CLEAN_UP_MS = 100;
/** A lease is trusted until so long before its end, at most half of it. */
export const LEASE_MARGIN_MS = 5_000;

/** Why an execution is stopped from outside. */
export type StopReason = 'timeout' | 'lost' | 'cancelled' | 'released';

/** A task that runs here. */
export class Held {
  /** Unix milliseconds, `undefined` until it begins; then by the monotonic clock, `Infinity` until it begins. */
  startedMs: number | undefined;
  begunAt = Infinity;
  renewedAt = performance.now();
  isStartReported = false;
  progress: { fraction: number; message: string } | undefined;
  progressSentAt = 0;
  stopped: StopReason | undefined;
  readonly controller = new AbortController();
  /** Ends the wait for the execution. */
  interrupt = () => {};
  readonly interrupted = new Promise<void>((resolve) => (this.interrupt = resolve));

  constructor(readonly task: Task, readonly agent: Agent, readonly stream: string, readonly entry: string) {}
}

/** What a report says beside the task. */
export interface Report {
  what: string;
  outputs?: unknown;
  failure?: Failure;
  errors?: Failure[];
  [field: string]: unknown;
}

/** The running tasks of one worker. */
export class HeldTasks {
  private readonly tasks = new Set<Held>();
  private ticker: NodeJS.Timeout | undefined;
  private isExtending = false;
  /** A task has ended, the drain has begun, or cancellations are heard again. */
  readonly changed = new Change();

  constructor(
    private readonly redis: Redis,
    private readonly worker: string,
    private readonly log: Log,
    private readonly report: (held: Held, report: Report) => void,
    private readonly onLost: (error: Error) => void,
  ) {}

  get size(): number {
    return this.tasks.size;
  }

  has(held: Held): boolean {
    return this.tasks.has(held);
  }

  add(held: Held): void {
    this.tasks.add(held);
    this.ticker ??= setInterval(() => this.tick(), TICK_MS);
  }

  remove(held: Held): void {
    this.tasks.delete(held);
    this.changed.wake();
  }

  /** Waits until no task runs. */
  async idle(): Promise<void> {
    await this.changed.until(() => this.tasks.size === 0);
  }

  /** Stops the executions that `filter` accepts. */
  stopAll(reason: StopReason, filter: (held: Held) => boolean = () => true): void {
    for (const held of this.tasks) if (filter(held)) this.stop(held, reason);
  }

  private stop(held: Held, reason: StopReason): void {
    if (held.stopped !== undefined) return;
    held.stopped = reason;
    held.controller.abort(new Retry(`the attempt was stopped: ${reason}`, { code: 'STOPPED' }));
    setTimeout(held.interrupt, CLEAN_UP_MS);
  }

  private tick(): void {
    if (this.tasks.size === 0) {
      clearInterval(this.ticker);
      this.ticker = undefined;
      return;
    }
    const now = performance.now();
    const due: Held[] = [];
    for (const held of this.tasks) {
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
      this.report(held, { what: 'progress', progress: held.progress.fraction, message: held.progress.message });
    } else if (!held.isStartReported) this.report(held, { what: 'started' });
    else return;
    held.isStartReported = true;
    held.progress = undefined;
    held.progressSentAt = now;
  }

  /** Extends leases; each counts from the sending, the only safe bound. */
  private async renew(due: Held[], sentAt: number): Promise<void> {
    this.isExtending = true;
    try {
      const ours = new Set(await this.extend(due));
      for (const held of due) {
        if (ours.has(held)) held.renewedAt = sentAt;
        else {
          this.log('warn', `the lease on step ${held.task.step} is lost, its execution is stopped`, { plan: held.task.plan });
          this.stop(held, 'lost');
        }
      }
    } catch (error) {
      this.onLost(error as Error);
    } finally {
      this.isExtending = false;
    }
  }

  /** Extends leases; gives those that are ours. */
  async extend<T extends { stream: string; entry: string }>(leases: T[]): Promise<T[]> {
    const streams = [...new Set(leases.map(({ stream }) => stream))];
    const groups = streams.map((name) => leases.filter(({ stream }) => stream === name));
    const entries = groups.flatMap((group) => [group.length, ...group.map(({ entry }) => entry)]);
    const ours = (await this.redis.fcall('goalmill_extend', streams.length, ...streams, this.worker, ...entries)) as number[];
    return groups.flat().filter((_, i) => ours[i] === 1);
  }
}
