// Client of the HTTP API: submits goals and plans, follows and steers them.

import { randomUUID } from 'node:crypto';
import { type Duration, toMs } from './duration.js';
import { GoalmillError, PlanFailed } from './errors.js';
import { type PlanDocument, toDocument } from './plan.js';

/** Options of a client. */
export interface ConnectOptions {
  /** `Authorization: Bearer`; by default `GOALMILL_TOKEN`. */
  token?: string;
  /** The namespace, for a token of all namespaces. */
  namespace?: string;
  /** Another implementation of `fetch`. */
  fetch?: typeof fetch;
  /** How long a request is repeated while the server cannot be reached or refuses for the moment (30 s). */
  retryFor?: Duration;
}

/** A goal. Other fields: `goalmill schema goal`. */
export interface Goal {
  description: string;
  type?: string;
  constraints?: Record<string, unknown>;
  success_criteria?: unknown[];
  budget?: { tokens?: number; cost?: number; seconds?: number };
  metadata?: Record<string, unknown>;
  [field: string]: unknown;
}

/** A stored plan: `trip`, or a version of it, `trip@3`. */
export interface StoredPlan {
  use: string;
  inputs?: Record<string, unknown>;
}

/** Options of a submission. */
export interface SubmitOptions {
  /** What the plan works with: `refs.inputs.city`, in a document `{{ inputs.city }}`. Braces in them are text. */
  inputs?: Record<string, unknown>;
  /** The idempotency key: the same key gives the same run. By default a new one. */
  key?: string;
  /** W3C trace context, passed on to the agents. */
  traceparent?: string;
}

/** An event of the log of a plan. */
export interface PlanEvent {
  seq: number;
  time: string;
  type: string;
  /** The step that it is about. */
  step?: string;
  [field: string]: any;
}

const FINAL = new Set(['completed', 'partial', 'failed', 'cancelled', 'rejected']);
/** Status codes after which a request may be repeated: nothing was done. */
const REPEATABLE = new Set([408, 425, 429, 502, 503, 504]);
/** Milliseconds without a byte after which a stream of events is opened again; the server sends a comment every 15 s. */
const SILENCE_MS = 45_000;
/** Characters of one event. */
const EVENT_CHARS_MAX = 64 << 20;

/** A connection to the API of an installation. */
export class Client {
  private readonly base: string;
  private readonly headers: Record<string, string>;
  private readonly fetch: typeof fetch;
  private readonly retryMs: number;

  /** @internal */
  constructor(url: string, options: ConnectOptions) {
    this.base = new URL(url).href.replace(/\/+$/, '').replace(/\/v1$/, '');
    if (!/^https?:/.test(this.base)) throw new TypeError(`\`${url}\` is no HTTP address: clients use the API, workers use Redis`);
    const token = options.token ?? process.env.GOALMILL_TOKEN;
    this.headers = {
      ...(token !== undefined && token !== '' && { authorization: `Bearer ${token}` }),
      ...(options.namespace !== undefined && { 'goalmill-namespace': options.namespace }),
    };
    this.fetch = options.fetch ?? fetch;
    this.retryMs = toMs(options.retryFor ?? '30s');
  }

  /** Submits a goal (an object, or its description), a plan, or a stored plan by its name. */
  async submit(what: string | Goal | PlanDocument | StoredPlan, options: SubmitOptions = {}): Promise<Run> {
    const stored = typeof what === 'object' && typeof what.use === 'string' ? (what as StoredPlan) : undefined;
    const given = options.inputs === undefined ? {} : { inputs: options.inputs };
    const document = typeof what === 'string' ? { description: what } : (toDocument(what) as object);
    const body = stored ? { inputs: { ...stored.inputs, ...options.inputs } } : { ...document, ...given };
    const route = stored ? `/v1/stored-plans/${encodeURIComponent(stored.use)}:run` : 'steps' in body ? '/v1/plans' : '/v1/goals';
    const headers = {
      'idempotency-key': options.key ?? randomUUID(),
      ...(options.traceparent !== undefined && { traceparent: options.traceparent }),
    };
    const accepted = await this.request<{ plan_id: string }>('POST', route, body, headers);
    return this.run(accepted.plan_id);
  }

  /** The run of a plan that was submitted before. */
  run(plan: string): Run {
    return new Run(this, plan);
  }

  /** Sends an event to all plans that wait for it. With `id` it may be sent again. */
  async sendEvent(name: string, options: { key?: string; data?: unknown; id?: string } = {}): Promise<void> {
    await this.request('POST', '/v1/events', { name, id: randomUUID(), ...options });
  }

  /** One request; repeated while the server cannot be reached or refuses for the moment. */
  async request<T = any>(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<T> {
    const end = performance.now() + this.retryMs;
    for (let failures = 1; ; failures += 1) {
      try {
        const response = await this.open(method, path, body, { accept: 'application/json', ...headers }, AbortSignal.timeout(60_000));
        const text = await response.text();
        return (text === '' ? undefined : JSON.parse(text)) as T;
      } catch (error) {
        const failure = error instanceof GoalmillError ? error : new GoalmillError(`${this.base} does not answer: ${reason(error)}`, 0, 'UNREACHABLE');
        const asked = Number(failure.problem.retry_after_s ?? 0) * 1_000;
        const pause = Math.max(asked, backoffMs(failures));
        const isSafe = method === 'GET' || headers['idempotency-key'] !== undefined || path === '/v1/events';
        const isOver = performance.now() + pause > end;
        if (isOver || !(failure.status === 0 ? isSafe : REPEATABLE.has(failure.status))) throw failure;
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    }
  }

  /** One request without repetition; refusals are errors. @internal */
  async open(method: string, path: string, body: unknown, headers: Record<string, string>, signal: AbortSignal): Promise<Response> {
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const type: Record<string, string> = body === undefined ? {} : { 'content-type': 'application/json' };
    const response = await this.fetch(this.base + path, { method, headers: { ...this.headers, ...type, ...headers }, ...sent, signal });
    if (response.ok) return response;
    const text = (await response.text()).slice(0, 1 << 20);
    let problem: Record<string, unknown> = { detail: text.slice(0, 500) };
    try {
      problem = JSON.parse(text) as Record<string, unknown>;
    } catch {
      // Not of this API, for example of a proxy.
    }
    const after = Number(response.headers.get('retry-after'));
    if (problem.retry_after_s === undefined && after > 0) problem.retry_after_s = after;
    const issues = (problem.errors as { pointer?: string; detail?: string; message?: string; hint?: string }[] | undefined) ?? [];
    const lines = issues.slice(0, 10).map(({ pointer, detail, message, hint }) => `\n  ${pointer ?? ''}: ${message ?? detail ?? ''}${hint ? ` (${hint})` : ''}`);
    const message = `${method} ${path}: ${String(problem.detail ?? problem.title ?? response.statusText)}${lines.join('')}`;
    throw new GoalmillError(message, response.status, String(problem.code ?? `HTTP_${response.status}`), problem);
  }
}

/** A plan that was submitted. */
export class Run {
  /** @internal */
  constructor(private readonly client: Client, readonly id: string) {}

  /** The plan with its steps. */
  get(): Promise<Record<string, any>> {
    return this.client.request('GET', this.path());
  }

  /** Why the plan is not moving. */
  explain(): Promise<Record<string, any>> {
    return this.client.request('GET', this.path('/explain'));
  }

  /** Lets the plan, or the revision that is proposed, start; or one step. */
  async approve(reason = '', options: { step?: string } = {}): Promise<void> {
    await this.act('approve', reason, options.step);
  }

  /** Refuses the plan, or the revision that is proposed; or one step. */
  async reject(reason = '', options: { step?: string } = {}): Promise<void> {
    await this.act('reject', reason, options.step);
  }

  /** Answers the question of a step. */
  async answer(step: string, answer: unknown): Promise<void> {
    await this.client.request('POST', this.path(`/steps/${encodeURIComponent(step)}:answer`), { answer });
  }

  /** Ends the plan. */
  async cancel(reason = ''): Promise<void> {
    await this.act('cancel', reason);
  }

  /** Sends an event to this plan. */
  async sendEvent(name: string, options: { key?: string; data?: unknown; id?: string } = {}): Promise<void> {
    await this.client.request('POST', this.path('/events'), { name, id: randomUUID(), ...options });
  }

  /** The events of the plan in their order, until it has ended. After a lost connection it goes on where it was. */
  async *events(options: { after?: number; types?: string[]; signal?: AbortSignal } = {}): AsyncGenerator<PlanEvent, void, void> {
    const query = options.types === undefined ? '' : `?types=${encodeURIComponent(options.types.join())}`;
    let last = options.after ?? 0;
    for (let failures = 0; ; ) {
      options.signal?.throwIfAborted();
      const silence = new AbortController();
      const signal = options.signal === undefined ? silence.signal : AbortSignal.any([options.signal, silence.signal]);
      let timer = setTimeout(() => silence.abort(), SILENCE_MS);
      try {
        const headers = { accept: 'text/event-stream', 'last-event-id': String(last) };
        const response = await this.client.open('GET', this.path('/events') + query, undefined, headers, signal);
        if (response.status === 204 || response.body === null) return;
        for await (const message of messages(response.body)) {
          failures = 0;
          clearTimeout(timer);
          timer = setTimeout(() => silence.abort(), SILENCE_MS);
          if (message.data === '') continue;
          const event = JSON.parse(message.data) as PlanEvent;
          last = Number(message.id ?? event.seq);
          yield typeof event.step_id === 'string' ? { ...event, step: event.step_id } : event;
        }
      } catch (error) {
        options.signal?.throwIfAborted();
        if (error instanceof GoalmillError && error.status < 500 && !REPEATABLE.has(error.status)) throw error;
        failures += 1;
      } finally {
        clearTimeout(timer);
        silence.abort();
      }
      if (failures > 0) await new Promise((resolve) => setTimeout(resolve, backoffMs(failures)));
    }
  }

  /**
   * Waits for the end of the plan and gives its output: of the `finish` step, else of the step that finished last. Throws
   * `PlanFailed` if the plan has failed, was cancelled or rejected, and a `TimeoutError` after `timeout`.
   */
  async result<T = any>(options: { timeout?: Duration } = {}): Promise<T> {
    const signal = options.timeout === undefined ? undefined : AbortSignal.timeout(toMs(options.timeout));
    const end = this.events({ types: ['plan_completed', 'plan_failed', 'plan_cancelled', 'plan_rejected'], ...(signal && { signal }) });
    for await (const _ of end);
    const plan = await this.get();
    if (!FINAL.has(plan.status as string)) return this.result(options);
    if (plan.status === 'completed' || plan.status === 'partial') {
      return (await this.client.request('GET', this.path('/results?whole=true'))).final_output as T;
    }
    throw new PlanFailed(this.id, plan.status as string, String(plan.failure?.code ?? plan.status).toUpperCase(), String(plan.failure?.message ?? plan.reason ?? 'no reason'));
  }

  private async act(verb: string, reason: string, step?: string): Promise<void> {
    const path = step === undefined ? this.path(`:${verb}`) : this.path(`/steps/${encodeURIComponent(step)}:${verb}`);
    await this.client.request('POST', path, reason === '' ? {} : { reason });
  }

  private path(rest = ''): string {
    return `/v1/plans/${encodeURIComponent(this.id)}${rest}`;
  }
}

/** Connects to the API; by default `GOALMILL_SERVER`, else http://127.0.0.1:8080. */
export function connect(url?: string, options: ConnectOptions = {}): Client {
  return new Client(url ?? process.env.GOALMILL_SERVER ?? 'http://127.0.0.1:8080', options);
}

/** Server-sent events (HTML Standard, 9.2.6). Comments are messages without data. */
async function* messages(body: ReadableStream<Uint8Array>): AsyncGenerator<{ id?: string; data: string }> {
  let rest = '';
  let id: string | undefined;
  let data: string[] = [];
  for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
    rest += chunk;
    if (rest.length > EVENT_CHARS_MAX) throw new GoalmillError(`an event has more than ${EVENT_CHARS_MAX} characters`, 200, 'EVENT_TOO_LARGE');
    const lines = rest.split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop()!;
    for (const line of lines) {
      if (line === '') {
        if (data.length > 0) yield { ...(id !== undefined && { id }), data: data.join('\n') };
        [id, data] = [undefined, []];
      } else if (line.startsWith(':')) yield { data: '' };
      else if (line.startsWith('data:')) data.push(line.slice(line[5] === ' ' ? 6 : 5));
      else if (line.startsWith('id:')) id = line.slice(3).trim();
    }
  }
}

/** Waits between requests: up to 2 s, doubled with each failure, with jitter. */
function backoffMs(failures: number): number {
  return Math.ceil((0.5 + Math.random() / 2) * Math.min(50 * 2 ** Math.min(failures, 10), 2_000));
}

function reason(error: unknown): string {
  const { cause, message } = error as Error & { cause?: { code?: string; message?: string } };
  return cause?.code ?? cause?.message ?? message;
}
