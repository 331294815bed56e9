// Plans as code: a builder that emits JSON and nothing else. The server validates and prices it.

import { randomUUID } from 'node:crypto';
import type { Action } from './agent.js';
import { type Duration, toText } from './duration.js';
import type { JsonSchema } from './schema.js';

const EXPRESSION = Symbol('expression');
/** Stands before and after each expression that a reference writes into a text. No text from outside has it, so all other braces are text. */
const MARK = `\ue000${randomUUID()}\ue001`;

/** An expression; in a plan it is the text `{{ … }}`. */
export interface Expression {
  readonly [EXPRESSION]: string;
}

/** A place in the plan's data. Any field of it is a place too. */
export type Ref<T = any> = 0 extends 1 & T
  ? any
  : Expression &
      (T extends readonly (infer Item)[]
        ? { readonly [index: number]: Ref<Item> }
        : T extends object
          ? { readonly [Field in keyof T & string]-?: Ref<NonNullable<T[Field]>> }
          : unknown);

/** A value, or an expression that gives one. */
export type Templated<T> = T | Expression | (T extends object ? { [Field in keyof T]: Templated<T[Field]> } : never);

/** The place that an expression names: `ref("steps.find.outputs.list | first")`. */
export function ref<T = any>(expression: string): Ref<T> {
  const text = `{{ ${expression} }}`;
  const marked = () => `${MARK}${text}${MARK}`;
  const own: Record<PropertyKey, unknown> = { [EXPRESSION]: expression, toString: marked, toJSON: () => text, [Symbol.toPrimitive]: marked };
  return new Proxy(own, {
    get: (target, key) => {
      if (key in target) return target[key];
      // A promise would call `then`.
      if (typeof key === 'symbol' || key === 'then') return undefined;
      if (/^[A-Za-z_]\w*$/.test(key)) return ref(`${expression}.${key}`);
      return ref(/^\d+$/.test(key) ? `${expression}[${key}]` : `${expression}[${quoted(key)}]`);
    },
  }) as Ref<T>;
}

/** What steps see besides other steps. */
export const refs = {
  goal: ref('goal'),
  /** The item, and its place from 0, of a step with `forEach`. */
  item: ref('item'),
  index: ref<number>('index'),
  /** The number of the iteration, from 1, and the iteration before, of a step with `repeat`. */
  iteration: ref<number>('iteration'),
  previous: ref('previous'),
  /** The inputs of the plan; in the key of a cache those of the step, in an undo step those of the step that it undoes. */
  inputs: ref('inputs'),
  /** The outputs of the step that an undo step undoes, and of an iteration in `until`. */
  outputs: ref('outputs'),
  /** Status and failure of the plan, in steps that always run. */
  plan: ref('plan'),
  /** The time. */
  now: ref<string>('now'),
};

/** A condition: a bare expression, or a text with references (`${found.out.score} > 0.8`). */
export type Condition = string | Expression;

/** When, and how often, a failed attempt is tried again. */
export interface RetryPolicy {
  /** Attempts after the first one. */
  max?: number;
  initial?: Duration;
  factor?: number;
  maxDelay?: Duration;
  jitter?: 'full' | 'none';
}

/** What takes back what a step did; a text is the action of the same agent, with `inputs` and `outputs` of the step. */
export type Undo = string | { action?: string; agentType?: string; inputs?: unknown; retry?: RetryPolicy; timeout?: Duration };

/** Fields of steps that an action may set for all its steps. */
export interface StepDefaults {
  /** Limit of one attempt. */
  timeout?: Duration;
  retry?: RetryPolicy;
  undo?: Undo;
  fallback?: { agentType?: string; action?: string };
  onFailure?: 'abort' | 'skip' | 'continue' | 'replan' | 'ask_user';
  onPartial?: 'continue' | 'replan' | 'fail';
  cache?: boolean | { key?: string; ttl?: Duration };
  estimates?: { seconds?: number; tokens?: number; cost?: number };
  /** Steps of a plan with the same resource exclude each other. */
  resource?: string;
  /** 1 (last) to 10 (first). */
  priority?: number;
}

/** A dependency: a step, or a step with the outcomes after which this one runs. */
export type Dependency = string | StepHandle<any> | { step: string | StepHandle<any>; is: ('completed' | 'failed' | 'skipped' | 'undone')[] };

/** What a map runs over. */
export type ForEach = unknown[] | Expression | string | {
  items: unknown[] | Expression | string;
  as?: string;
  batch?: number;
  maxParallel?: number;
  itemsMax?: number;
  onItemFailure?: 'fail' | 'continue' | { atMost: number };
};

/** What a `wait` step waits for: one of `for`, `until`, `event`. */
export interface Wait {
  for?: Duration;
  until?: string | number | Date | Expression;
  event?: string;
  key?: string | Expression;
  schema?: JsonSchema;
  timeout?: Duration;
  onTimeout?: 'fail' | 'skip' | { default: unknown };
}

/** Fields of a step. */
export interface StepOptions<I = any> extends StepDefaults {
  description?: string;
  action?: string;
  inputs?: Inputs<I>;
  /** Steps that come before; those that the step refers to are added. */
  after?: Dependency[];
  when?: Condition;
  join?: 'all' | 'any' | { atLeast: number };
  forEach?: ForEach;
  repeat?: { until: Condition; max: number; delay?: Duration; onMax?: 'fail' | 'continue' };
  approve?: boolean | { limit?: Duration; default?: 'approve' | 'reject' };
  ask?: { question: string; schema?: JsonSchema; default?: unknown; limit?: Duration; into?: string };
  /** The answer of the agent may come later, by a call to an address in the task. */
  callback?: boolean;
  expectedOutputs?: string[];
  expectedOutput?: string;
  outputSchema?: JsonSchema;
  phase?: string;
  judges?: string[];
}

type Inputs<I> = 0 extends 1 & I ? unknown : { [Field in keyof I]?: Templated<I[Field]> };

/** Fields of a plan. */
export interface PlanOptions {
  strategy?: 'sequential' | 'parallel' | 'adaptive';
  maxParallel?: number;
  budget?: { tokens?: number; cost?: number; seconds?: number };
  approve?: boolean | { limit?: Duration; default?: 'approve' | 'reject' };
  /** After which outcomes done steps are undone; both by default. */
  undoOn?: ('failed' | 'cancelled')[];
  revision?: Record<string, unknown>;
  continueOnFailure?: boolean;
  failuresMax?: number;
  collect?: 'last' | 'list';
  phases?: { id: string; description?: string; checkpoint?: boolean }[];
  startAt?: string | number;
  startIn?: Duration;
  estimates?: { seconds?: number; tokens?: number; cost?: number };
  confidence?: number;
  /** JSON Schema of the inputs. */
  inputSchema?: JsonSchema;
  metadata?: Record<string, unknown>;
}

/** A plan as JSON. */
export interface PlanDocument {
  name: string;
  steps: Record<string, unknown>[];
  [field: string]: unknown;
}

/** A step of a plan that is being built. */
export class StepHandle<T = any> {
  /** The outputs of the step: `hotels.out.best.price`. */
  readonly out: Ref<T>;
  readonly status: Ref<string>;

  /** @internal */
  constructor(readonly id: string) {
    const place = /^[A-Za-z_]\w*$/.test(id) ? `steps.${id}` : `steps[${quoted(id)}]`;
    this.out = ref<T>(`${place}.outputs`);
    this.status = ref<string>(`${place}.status`);
  }
}

type Mapped<R, O> = O extends { forEach: unknown } ? R[] : R;

/** Adds steps to a plan. Its functions may be taken out of it: `({ step, finish }) => …`. */
export class PlanBuilder {
  /** @internal */
  readonly steps: Record<string, unknown>[] = [];

  /** A step for an agent type, or for an action of an agent. */
  readonly step = <I, R, O extends StepOptions<I>>(id: string, of: Action<I, R> | string, options?: O): StepHandle<Mapped<R, O>> =>
    this.addFor(id, of, options, false);

  /** A step that runs once the outcome of the plan is known, whatever that is. */
  readonly always = <I, R, O extends StepOptions<I>>(id: string, of: Action<I, R> | string, options?: O): StepHandle<Mapped<R, O>> =>
    this.addFor(id, of, options, true);

  /** A step that waits for a time, or for an event from outside, whose data are its outputs. */
  readonly wait = <T = any>(id: string, wait: Wait, options?: StepOptions): StepHandle<T> => this.add(id, { kind: 'wait' }, options, wait);

  /** A step of the engine: its inputs, with their expressions replaced, are its outputs. */
  readonly message = <T = any>(id: string, options?: StepOptions<any>): StepHandle<T> => this.add(id, { kind: 'message' }, options);

  /** The same; by custom the last step, whose outputs are those of the plan. */
  readonly finish = <T = any>(id: string, options?: StepOptions<any>): StepHandle<T> => this.add(id, { kind: 'finish' }, options);

  /** A plan inside the plan. Its steps read the inputs of the step as `refs.inputs`. */
  readonly plan = <T = any>(id: string, plan: PlanDocument, options?: StepOptions<any>): StepHandle<T> => this.add(id, { kind: 'plan', plan }, options);

  /** A stored plan inside the plan: `trip`, or a version of it, `trip@3`. */
  readonly use = <T = any>(id: string, name: string, options?: StepOptions<any>): StepHandle<T> => this.add(id, { kind: 'plan', use: name }, options);

  private addFor<T>(id: string, of: Action | string, options: StepOptions<any> | undefined, isAlways: boolean): StepHandle<T> {
    const always = isAlways ? { always: true } : {};
    if (typeof of === 'string') return this.add(id, { agent_type: of, ...always }, options);
    return this.add(id, { agent_type: of.agentType, action: of.name, ...always }, { ...defaultsOf(of.options), ...options });
  }

  private add<T>(id: string, head: Record<string, unknown>, options: StepOptions<any> = {}, wait?: Wait): StepHandle<T> {
    if (this.steps.some((step) => step.id === id)) throw new TypeError(`the plan has two steps \`${id}\``);
    const { after, ...fields } = options;
    const read: string[] = [];
    const waits = wait === undefined ? {} : { wait: emit(wait, read, true) };
    const step: Record<string, unknown> = { id, ...head, ...waits, ...emit(fields, read) };
    // What always runs waits only for steps that do too.
    const before = dependenciesOf(read, after, this.steps.filter(({ always }) => always || !head.always));
    if (before.length > 0) step.dependencies = before;
    this.steps.push(step);
    return new StepHandle<T>(id);
  }
}

/** A plan, as JSON. `build` adds the steps. */
export function plan(name: string, options: PlanOptions, build: (plan: PlanBuilder) => void): PlanDocument {
  const builder = new PlanBuilder();
  build(builder);
  return toDocument({ name, ...emit(options, []), steps: builder.steps }) as PlanDocument;
}

/** A value as JSON in which texts with braces are expressions, as in a document. */
export function toDocument(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value).replaceAll(MARK, ''));
}

/** Fields that are durations; numbers in them are milliseconds. */
const DURATIONS = new Set(['timeout', 'delay', 'limit', 'ttl', 'for', 'initial', 'maxDelay', 'startIn']);
/** Fields whose content is the user's. */
const OPAQUE = new Set(['schema', 'outputSchema', 'inputSchema', 'default', 'metadata', 'plan', 'judges']);
/** Fields with values of the program, for references to fill. */
const DATA = new Set(['inputs', 'items', 'question', 'key']);
/** Fields that are bare expressions. */
const CONDITIONS = new Set(['when', 'until']);

/**
 * The fields of options as documents have them.
 *
 * - `read`: gets the expressions in them.
 */
function emit(options: object, read: string[], isWait = false): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(options)) {
    if (value !== undefined) fields[snake(name)] = emitField(name, value, read, isWait);
  }
  return fields;
}

function emitField(name: string, value: unknown, read: string[], isWait: boolean): unknown {
  if (OPAQUE.has(name)) return value;
  if (name === 'items' && typeof value === 'string') return template(value, read);
  if (DATA.has(name) || (name === 'until' && isWait)) return emitData(value, read);
  if (DURATIONS.has(name) && typeof value === 'number') return toText(value);
  if (CONDITIONS.has(name)) return template(bare(String(value)), read);
  if (name === 'forEach' && (isRef(value) || typeof value === 'string' || Array.isArray(value))) return emit({ items: value }, read);
  if (name === 'undo') {
    const undo = typeof value === 'string' ? { action: value, inputs: { inputs: refs.inputs, outputs: refs.outputs } } : (value as object);
    return emit(undo, []);
  }
  if (Array.isArray(value)) return value.map((item: unknown) => (isPlain(item) ? emit(item, read) : item));
  return isPlain(value) ? emit(value, read) : value;
}

/** A text that is an expression, or has some. */
function template(text: string, read: string[]): string {
  read.push(text);
  return text;
}

/** A value of the program: what references write are expressions, all other texts stay as they are. */
function emitData(value: unknown, read: string[]): unknown {
  if (isRef(value)) return template(`{{ ${(value as Expression)[EXPRESSION]} }}`, read);
  if (typeof value === 'string') {
    const parts = value.split(MARK);
    const opening = parts.length > 1 ? /\{/ : /\{[{%]/;
    return parts.map((part, n) => (n % 2 === 1 ? template(part, read) : opening.test(part) ? literal(part) : part)).join('');
  }
  if (typeof value !== 'object' || value === null) return value;
  const { toJSON } = value as { toJSON?: unknown };
  if (typeof toJSON === 'function') return emitData(toJSON.call(value), read);
  if (Array.isArray(value)) return value.map((item: unknown) => emitData(item, read));
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, emitData(item, read)]));
}

/** The expression that gives a text. */
function literal(text: string): string {
  return `{{ ${JSON.stringify(text).replaceAll('{', '\\u007b').replaceAll('}', '\\u007d')} }}`;
}

/** The step's own dependencies, and the steps that its expressions read. */
function dependenciesOf(read: string[], after: Dependency[] = [], earlier: Record<string, unknown>[]): unknown[] {
  const known = new Set(earlier.map(({ id }) => id));
  const list: unknown[] = after.map((of) => {
    if (of instanceof StepHandle) return of.id;
    return typeof of === 'string' ? of : { step: of.step instanceof StepHandle ? of.step.id : of.step, is: of.is };
  });
  const named = new Set(list.map((of) => (typeof of === 'string' ? of : (of as { step: string }).step)));
  for (const [, plain, single, double] of read.join('\n').matchAll(/\bsteps(?:\.([A-Za-z_]\w*)|\['([^']+)'\]|\["([^"]+)"\])/g)) {
    const id = (plain ?? single ?? double)!;
    if (known.has(id) && !named.has(id)) {
      named.add(id);
      list.push(id);
    }
  }
  return list;
}

function defaultsOf(options: StepDefaults): StepDefaults {
  const { timeout, retry, undo, fallback, onFailure, onPartial, cache, estimates, resource, priority } = options;
  return { timeout, retry, undo, fallback, onFailure, onPartial, cache, estimates, resource, priority } as StepDefaults;
}

/** A condition without the braces of the references in it. */
function bare(text: string): string {
  return text.replaceAll(MARK, '').replace(/\{\{\s*(.*?)\s*\}\}/g, '$1');
}

function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function quoted(text: string): string {
  return `'${text.replace(/[\\']/g, '\\$&')}'`;
}

function isRef(value: unknown): boolean {
  return typeof value === 'object' && value !== null && EXPRESSION in value;
}

function isPlain(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !isRef(value) && !(value instanceof Date);
}
