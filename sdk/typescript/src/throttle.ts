// Holds the attempts of an agent type whose agent asked to wait: `new Retry(message, { after })`.

import type { Failure } from './errors.js';
import { sleep } from './waiting.js';

/** How far before a refusal successes count for the pace, and how many. */
const WINDOW_MS = 2_000;
const SUCCESSES_MAX = 1_000;
/** The longest time between two starts. */
const INTERVAL_MAX_MS = 1_000;
/** The time after which the pace is forgotten. */
const FORGET_MS = 30_000;
/** How long a task waits in the worker at most; how long before a start the next one is pulled. */
const HOLD_MAX_MS = 10_000;
const PULL_AHEAD_MS = 100;
/** The longest wait of a refusal. */
const AFTER_MAX_MS = 3_600_000;

/**
 * One refusal holds all: nothing starts before the time that it names. Then the attempts start one after the other, at the
 * pace that the agent has kept: its successes, divided by the time from the first of them to the end of the wait. Half a
 * minute without a refusal ends that.
 */
export class Throttle {
  private successes: number[] = [];
  private refusal: Failure | undefined;
  private refusedAt = -Infinity;
  private until = -Infinity;
  private next = -Infinity;
  private span = 0;
  private counted = 0;

  /** Whether the agent asked to wait a short time ago. */
  isOn(): boolean {
    return performance.now() < this.until + FORGET_MS;
  }

  /** Whether a task that is pulled now could start soon. */
  hasRoom(): boolean {
    return !this.isOn() || Math.max(this.next, this.until) <= performance.now() + PULL_AHEAD_MS;
  }

  /** Notes a success, or the failure by which the agent asked to wait. */
  record(begunAt: number, refusal?: Failure): void {
    const now = performance.now();
    const isOlder = begunAt < this.refusedAt; // it began together with what was refused
    if (refusal === undefined) {
      if (this.successes.push(now) > SUCCESSES_MAX) this.successes.shift();
      if (isOlder) this.counted += 1;
      return;
    }
    this.until = Math.max(this.until, now + Math.min(refusal.retry_after_ms ?? 0, AFTER_MAX_MS));
    if (isOlder) return;
    const recent = this.successes.filter((ended) => ended > now - WINDOW_MS);
    [this.refusal, this.refusedAt, this.next] = [refusal, now, -Infinity];
    [this.span, this.counted] = [this.until - (recent[0] ?? now), recent.length];
  }

  /** Waits until an attempt may start, or gives the failure of a task that would wait for too long. */
  async turn(signal: AbortSignal): Promise<Failure | undefined> {
    while (this.isOn() && !signal.aborted) {
      const now = performance.now();
      const interval = Math.min(INTERVAL_MAX_MS, this.span / Math.max(1, this.counted));
      // Other workers wait for the same time.
      if (this.next <= this.until) this.next = this.until + Math.random() * interval;
      const start = Math.max(now, this.next);
      if (start > now + HOLD_MAX_MS) {
        return { ...this.refusal!, message: `not asked: ${this.refusal!.message}`, retry_after_ms: Math.ceil(start - now) };
      }
      this.next = start + interval;
      await sleep(start - now, signal);
      if (performance.now() >= this.until) return undefined;
    }
    return undefined;
  }
}
