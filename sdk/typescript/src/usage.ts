// What calls use up, and what they may use up.

import { Fatal, plain } from './errors.js';

/** What a call, or an attempt beside its calls, has used up. */
export interface Usage {
  /** US dollars. */
  cost?: number;
  promptTokens?: number;
  completionTokens?: number;
}

/** What may still be used up. */
export interface CallBudget {
  tokens?: number;
  /** US dollars. */
  cost?: number;
  /** Nothing more becomes free. */
  last?: boolean;
}

/** Usage as frames and reports say it. */
export interface UsageFields {
  cost?: number;
  usage?: { prompt_tokens: number; completion_tokens: number };
}

/** US dollars, or tokens, that one report may say. */
const USED_MAX = 1e15;

/** Refuses numbers that cannot be kept: a `Fatal` (`ANSWER_INVALID`). Only `cost` may have a fraction. */
export function checkUsed(numbers: Record<string, unknown>): void {
  for (const [name, value] of Object.entries(numbers)) {
    const isNumber = name === 'cost' ? typeof value === 'number' : Number.isInteger(value);
    if (isNumber && (value as number) >= 0 && (value as number) <= USED_MAX) continue;
    const expected = name === 'cost' ? 'a number' : 'an integer';
    throw new Fatal(`\`${name}\` must be ${expected} from 0 to 10^15, it is ${plain(value)} (${typeof value})`, { code: 'ANSWER_INVALID' });
  }
}

/** The fields of a frame for what was used up; a `Fatal` (`ANSWER_INVALID`) if a number cannot be kept. */
export function usageFields({ cost = 0, promptTokens = 0, completionTokens = 0 }: Usage): UsageFields {
  checkUsed({ cost, promptTokens, completionTokens });
  const split = { prompt_tokens: promptTokens, completion_tokens: completionTokens };
  return { ...(cost > 0 && { cost }), ...(promptTokens + completionTokens > 0 && { usage: split }) };
}

/** What is left of a budget. */
export function subtract(budget: CallBudget | undefined, { cost = 0, usage }: UsageFields): CallBudget | undefined {
  if (budget === undefined) return undefined;
  const tokens = (usage?.prompt_tokens ?? 0) + (usage?.completion_tokens ?? 0);
  const left = (most: number | undefined, used: number) => (most == null ? undefined : Math.max(0, most - used));
  return { tokens: left(budget.tokens, tokens), cost: left(budget.cost, cost), last: budget.last };
}
