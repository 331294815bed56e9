// Durable agents and plans for Goalmill.

export { Action, agent, Agent, type ActionOptions, type AgentCard, type AgentOptions, type Handler, type PlanInputs, type ReviseInputs } from './agent.js';
export type { CallOptions, CallRetry } from './attempt.js';
export { Client, connect, Run, type ConnectOptions, type Goal, type PlanEvent, type StoredPlan, type SubmitOptions } from './client.js';
export { Context, type Decision, type PlanOutcome } from './context.js';
export type { Duration } from './duration.js';
export { Fatal, GoalmillError, PartialResult, PlanFailed, RateLimited, Retry, Suspended, type Failure, type FailureClass } from './errors.js';
export type { Level, Log } from './log.js';
export {
  plan, PlanBuilder, ref, refs, StepHandle,
  type Condition, type Dependency, type Expression, type ForEach, type PlanDocument, type PlanOptions, type Ref, type RetryPolicy,
  type StepDefaults, type StepOptions, type Templated, type Undo, type Wait,
} from './plan.js';
export type { JsonSchema, StandardResult, StandardSchema } from './schema.js';
export type { CallBudget, Usage } from './usage.js';
export { serve, WorkerEnded, type ServeOptions } from './worker.js';
