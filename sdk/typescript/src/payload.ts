// Large payloads: references in inputs are read, large outputs and outcomes are stored.

import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';
import { Fatal, Retry } from './errors.js';
import { BLOB_MS, Keys, LIMITS, type Limits, OUTCOME_BYTES_MAX, type Task } from './protocol.js';
import { backoffMs } from './redis.js';

/** Smaller fields are not stored: their references would be no shorter. */
const FIELD_BYTES_MIN = 512;

/** Reads and stores the payloads of one task. */
export class Payloads {
  constructor(
    private readonly redis: Redis,
    private readonly keys: Keys,
    private readonly task: Task,
    private readonly checkRunning: () => void,
    readonly limits: Limits = LIMITS,
  ) {}

  /** The inputs of the task, with their references replaced. */
  async inputs(): Promise<unknown> {
    const text = JSON.stringify(this.task.inputs);
    return text?.includes('"$blob"') ? this.resolve(this.task.inputs, { bytes: text.length }) : this.task.inputs;
  }

  private async resolve(value: unknown, read: { bytes: number }): Promise<unknown> {
    if (value === null || typeof value !== 'object') return value;
    if (isReference(value)) {
      const text = await this.get(value.$blob);
      read.bytes += text.length;
      const most = this.limits.payload_bytes_max;
      if (read.bytes > most) {
        throw new Fatal(`the inputs have more than ${most} bytes (\`limits.payload_bytes_max\`)`, { code: 'INPUT_TOO_LARGE' });
      }
      return this.resolve(parse(text), read);
    }
    if (Array.isArray(value)) {
      const items: unknown[] = [];
      for (const item of value) items.push(await this.resolve(item, read));
      return items;
    }
    const fields: Record<string, unknown> = {};
    for (const [name, field] of Object.entries(value)) fields[name] = await this.resolve(field, read);
    return fields;
  }

  /** What a recorded outcome stands for. */
  async outcome(recorded: unknown): Promise<unknown> {
    return isReference(recorded) ? parse(await this.get(recorded.$blob)) : (recorded ?? null);
  }

  /** The form of an outcome in a report. */
  async storableOutcome(text: string): Promise<unknown> {
    const bytes = Buffer.byteLength(text);
    const outcome: unknown = JSON.parse(text);
    return bytes > Math.min(OUTCOME_BYTES_MAX, this.limits.inline_bytes_max) || isReference(outcome) ? this.store(text, bytes) : outcome;
  }

  /**
   * The form of outputs in a report. Of an object the largest fields are stored until the rest fits: conditions and other
   * steps can read the rest.
   */
  async storableOutputs(outputs: unknown, text: string): Promise<unknown> {
    const { inline_bytes_max: inline, payload_bytes_max: most } = this.limits;
    let bytes = text.length > inline / 3 ? Buffer.byteLength(text) : text.length;
    if (bytes <= inline) return outputs;
    if (bytes > most) {
      throw new Fatal(`the outputs have ${bytes} bytes, at most ${most} are taken (\`limits.payload_bytes_max\`)`, { code: 'OUTPUT_TOO_LARGE' });
    }
    const value: unknown = JSON.parse(text);
    if (value === null || typeof value !== 'object' || Array.isArray(value)) return this.store(text, bytes);
    const fields = value as Record<string, unknown>;
    const sized = Object.entries(fields).map(([name, field]) => {
      const json = JSON.stringify(field);
      return { name, json, size: Buffer.byteLength(json) };
    });
    for (const { name, json, size } of sized.sort((a, b) => b.size - a.size)) {
      if (bytes <= inline || size < FIELD_BYTES_MIN) break;
      fields[name] = await this.store(json, size);
      bytes -= size - JSON.stringify(fields[name]).length;
    }
    const left = JSON.stringify(fields);
    return bytes <= inline ? fields : this.store(left, Buffer.byteLength(left));
  }

  private async get(key: string): Promise<string> {
    if (!key.startsWith(this.keys.blobs(this.task))) {
      throw new Fatal(`\`${key.slice(0, 200)}\` is not the key of a payload of this plan`, { code: 'BLOB_INVALID' });
    }
    const text = await this.redis.get(key).catch((error: Error) => {
      throw new Retry(`a payload cannot be read: ${error.message}`, { code: 'BLOB_UNAVAILABLE' });
    });
    if (text === null) throw new Fatal(`the payload \`${key.slice(0, 200)}\` has expired`, { code: 'BLOB_MISSING' });
    return text;
  }

  private async store(text: string, bytes: number): Promise<{ $blob: string; bytes: number }> {
    const key = this.keys.blobs(this.task) + randomBytes(16).toString('hex');
    for (let failures = 1; ; failures += 1) {
      try {
        await this.redis.set(key, text, 'PX', BLOB_MS);
        return { $blob: key, bytes };
      } catch {
        // The work is done, only its result is missing; the attempt's time limit ends the wait.
        await new Promise((resolve) => setTimeout(resolve, backoffMs(failures)));
        this.checkRunning();
      }
    }
  }
}

function isReference(value: unknown): value is { $blob: string } {
  return typeof value === 'object' && value !== null && typeof (value as { $blob?: unknown }).$blob === 'string';
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Fatal(`a stored payload is not JSON: ${(error as Error).message}`, { code: 'BLOB_INVALID' });
  }
}
