// Agents and their actions: plain functions with a schema, and the card that the router and planners read.

import type { Goal } from './client.js';
import type { Context } from './context.js';
import { type Duration, toMs } from './duration.js';
import type { PartialResult } from './errors.js';
import type { StepDefaults } from './plan.js';
import { jsonSchemaOf, type JsonSchema, type StandardSchema } from './schema.js';
import { serve, type ServeOptions } from './worker.js';

/** What an agent type says about itself. */
export interface AgentOptions {
  /** What it is for, in words; the router reads it. */
  description?: string;
  /** What it is good at, in words; the router reads them. */
  capabilities?: string[];
  /** US dollars of one step. */
  cost?: number;
  /** How long one step takes. */
  latency?: Duration;
  /** Share of attempts that succeed, 0 to 1. */
  successRate?: number;
  /** It plans: `planner.order` may name it as `agent:NAME`. Its actions are `plan` (`PlanInputs`) and `revise` (`ReviseInputs`). */
  plans?: boolean;
}

/** What the action `plan` of an agent that plans is asked. It answers with a plan: a `PlanDocument`, or the text of a model. */
export interface PlanInputs {
  goal: Goal;
  /** The cards of the agents that steps may name. */
  agents: AgentCard[];
  limits: { steps_max: number; depth_max: number };
  /** Its last answer that was not valid, and why. */
  draft?: unknown;
  issues?: Record<string, any>[];
}

/** What the action `revise` is asked. It answers with a proposal (`goalmill schema proposal`), or a whole plan. */
export interface ReviseInputs extends Omit<PlanInputs, 'goal'> {
  /** Goal, plan, outputs and failures of steps, what triggered the revision, the budget that is left. */
  situation: Record<string, any>;
}

/** A registration (`goalmill schema agent`). */
export interface AgentCard {
  agent_type: string;
  description?: string;
  capabilities?: string[];
  actions?: { name: string; description?: string; inputs?: JsonSchema; outputs?: JsonSchema; side_effect?: boolean }[];
  success_rate?: number;
  cost?: number;
  latency_ms?: number;
  plans?: boolean;
}

/** What an action says about itself. `timeout`, `retry`, `undo` and other fields of steps are defaults of its steps in plans. */
export interface ActionOptions<I = any, R = any> extends StepDefaults {
  /** What it does, in words. */
  description?: string;
  /** Validates the inputs (Standard Schema: zod, valibot, arktype …); its JSON Schema is on the card. */
  input?: StandardSchema<any, I>;
  /** Validates the outputs. */
  output?: StandardSchema<any, R>;
  /** JSON Schema of the inputs, if the library of `input` gives none, or there is none. */
  inputSchema?: JsonSchema;
  /** JSON Schema of the outputs. */
  outputSchema?: JsonSchema;
  /** It changes something outside of the plan. */
  sideEffect?: boolean;
}

/** What an action runs. */
export type Handler<I = any, R = any> = (inputs: I, ctx: Context) => R | PartialResult<R> | Promise<R | PartialResult<R>>;

/** One thing that an agent does. Steps of plans take it in place of names. */
export class Action<I = any, R = any> {
  constructor(
    readonly agentType: string,
    readonly name: string,
    readonly options: ActionOptions<I, R>,
    readonly run: Handler<I, R>,
  ) {}

  /** Its part of the card. @internal */
  card(): NonNullable<AgentCard['actions']>[number] {
    const { description, sideEffect, input, output } = this.options;
    const inputs = this.options.inputSchema ?? jsonSchemaOf(input, 'input');
    const outputs = this.options.outputSchema ?? jsonSchemaOf(output, 'output');
    return { name: this.name, description, inputs, outputs, side_effect: sideEffect };
  }
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/;

/** An agent type with its actions. */
export class Agent {
  private readonly actions = new Map<string, Action>();

  constructor(readonly name: string, private readonly options: AgentOptions = {}) {
    if (!NAME.test(name)) {
      throw new TypeError(`\`${name}\` is no name of an agent type: 1 to 128 letters, digits, \`.\`, \`_\`, \`:\`, \`-\`, a letter or digit first`);
    }
  }

  /** Adds an action. The action `*` runs steps whose action has no other name here, or none. */
  action<I = any, R = any>(name: string, run: Handler<I, R>): Action<I, R>;
  action<I = any, R = any>(name: string, options: ActionOptions<I, R>, run: Handler<I, R>): Action<I, R>;
  action<I, R>(name: string, first: ActionOptions<I, R> | Handler<I, R>, second?: Handler<I, R>): Action<I, R> {
    const [options, run] = typeof first === 'function' ? [{}, first] : [first, second!];
    if (name === '' || this.actions.has(name)) throw new TypeError(`agent \`${this.name}\` has no room for an action \`${name}\`: a name is not empty, and used once`);
    const action = new Action<I, R>(this.name, name, options, run);
    this.actions.set(name, action);
    return action;
  }

  /** The action of a task: by its name, else `*`, else the only one if the task names none. @internal */
  find(name: string | undefined): Action | undefined {
    const only = !name && this.actions.size === 1 ? this.actions.values().next().value : undefined;
    return this.actions.get(name ?? '') ?? this.actions.get('*') ?? only;
  }

  /** What is registered. */
  card(): AgentCard {
    const { description, capabilities, cost, latency, successRate, plans } = this.options;
    // With `*` anything may be asked of the agent, which a card says by naming nothing.
    const actions = this.actions.has('*') ? undefined : [...this.actions.values()].map((action) => action.card());
    const latency_ms = latency === undefined ? undefined : toMs(latency);
    return { agent_type: this.name, description, capabilities, actions, success_rate: successRate, cost, latency_ms, plans };
  }

  /** Takes tasks until the process gets SIGTERM or SIGINT, or `options.signal` aborts. */
  serve(options: ServeOptions = {}): Promise<void> {
    return serve([this], options);
  }
}

/** An agent type with its actions. */
export function agent(name: string, options: AgentOptions = {}): Agent {
  return new Agent(name, options);
}
