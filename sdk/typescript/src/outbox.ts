// Sends reports in batches: while one entry of a stream is being sent, the next one collects.

import type { Redis } from 'ioredis';
import type { Log } from './log.js';
import { backoffMs } from './redis.js';
import { Change } from './waiting.js';

/** Reports, and bytes of them, in one entry. */
const ENTRY_REPORTS_MAX = 500;
const ENTRY_BYTES_MAX = 1 << 20;
/** Unsent reports, and bytes of them, at which the worker stops reading tasks. */
const UNSENT_MAX = 10_000;
const UNSENT_BYTES_MAX = 64 << 20;

interface Unsent {
  text: string;
  sent: (() => void) | undefined;
}

/** Reports on their way to the streams that tasks name. Nothing is lost while Redis is away: it is tried again for ever. */
export class Outbox {
  private readonly streams = new Map<string, Unsent[]>();
  private unsent = 0;
  private bytes = 0;
  private readonly sent = new Change();

  constructor(private readonly redis: Redis, private readonly log: Log) {}

  /** Queues a report; `sent` is called when Redis has it. */
  push(stream: string, report: object, sent?: () => void): void {
    const text = JSON.stringify(report);
    this.unsent += 1;
    this.bytes += text.length;
    const waiting = this.streams.get(stream);
    if (waiting !== undefined) {
      waiting.push({ text, sent });
      return;
    }
    this.streams.set(stream, [{ text, sent }]);
    // The tasks of one read end together: their reports go as one entry.
    setImmediate(() => void this.flush(stream));
  }

  /** Waits until there is room for the reports of new tasks. */
  async room(): Promise<void> {
    await this.sent.until(() => this.unsent < UNSENT_MAX && this.bytes < UNSENT_BYTES_MAX);
  }

  /** Waits until everything is sent. */
  async empty(): Promise<void> {
    await this.sent.until(() => this.unsent === 0);
  }

  get length(): number {
    return this.unsent;
  }

  private async flush(stream: string): Promise<void> {
    const waiting = this.streams.get(stream) ?? [];
    while (waiting.length > 0) {
      let count = 1;
      let bytes = waiting[0]!.text.length;
      while (count < waiting.length && count < ENTRY_REPORTS_MAX && bytes + waiting[count]!.text.length <= ENTRY_BYTES_MAX) {
        bytes += waiting[count]!.text.length;
        count += 1;
      }
      const batch = waiting.splice(0, count);
      await this.send(stream, count === 1 ? batch[0]!.text : `[${batch.map((report) => report.text).join()}]`);
      this.unsent -= count;
      this.bytes -= bytes;
      for (const { sent } of batch) sent?.();
      this.sent.wake();
    }
    this.streams.delete(stream);
  }

  private async send(stream: string, data: string): Promise<void> {
    for (let failures = 1; ; failures += 1) {
      try {
        await this.redis.xadd(stream, '*', 'v', '1', 'data', data);
        return;
      } catch (error) {
        // A report frees memory, so it may be sent when Redis refuses other writes.
        const isFull = (error as Error).message.startsWith('OOM');
        if (isFull && (await this.redis.fcall('goalmill_send', 1, stream, 'v', '1', 'data', data).catch(() => null)) !== null) return;
        if (failures === 1) this.log('warn', `reports cannot be sent: ${(error as Error).message}`);
        await new Promise((resolve) => setTimeout(resolve, backoffMs(failures)));
      }
    }
  }
}
