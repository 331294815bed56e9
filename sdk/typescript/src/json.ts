// JSON that leaves and enters the process: bounded, and refused where it would be changed in silence.

import { createHash } from 'node:crypto';
import { Fatal } from './errors.js';

/**
 * Refuses what JSON cannot say: it would be dropped, become `null`, or could not be read.
 *
 * - `what`: what the value is, for the message. `nestingMax`: nested lists and objects that it may have.
 */
export function checkJson(value: unknown, what: string, nestingMax: number, at = '', left = nestingMax): void {
  switch (typeof value) {
    case 'string':
      if (!value.isWellFormed()) refuse(what, at, 'holds an unpaired surrogate');
      return;
    case 'number':
      if (!Number.isFinite(value)) refuse(what, at, `is ${value}, which JSON cannot say`);
      return;
    case 'bigint':
      return refuse(what, at, 'is a bigint: write it as text');
    case 'function':
    case 'symbol':
      return refuse(what, at, `is a ${typeof value}`);
    case 'object': {
      if (value === null) return;
      if (typeof (value as { toJSON?: unknown }).toJSON === 'function') {
        return checkJson((value as { toJSON(): unknown }).toJSON(), what, nestingMax, at, left - 1);
      }
      if (value instanceof Map || value instanceof Set) return refuse(what, at, 'is a Map or a Set: make it an object or a list');
      if (left <= 0) return refuse(what, at, `has more than ${nestingMax} nested lists and objects (\`limits.nesting_max\`)`);
      for (const key in value) {
        if (!key.isWellFormed()) refuse(what, at, 'has a name with an unpaired surrogate');
        checkJson((value as Record<string, unknown>)[key], what, nestingMax, `${at}/${key}`, left - 1);
      }
      return;
    }
    default:
  }
}

function refuse(what: string, at: string, why: string): never {
  throw new Fatal(`${what}${at === '' ? '' : ` at \`${at}\``} ${why}`, { code: 'ANSWER_INVALID' });
}

/** A digest that identifies a value, whatever the order of its fields. */
export function digest(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(sorted(value)) ?? '').digest('hex').slice(0, 32);
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== 'object') return value;
  if (typeof (value as { toJSON?: unknown }).toJSON === 'function') return sorted((value as { toJSON(): unknown }).toJSON());
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted((value as Record<string, unknown>)[key])]));
}
