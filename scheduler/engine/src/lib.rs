//! The state machine of a plan: decide, apply, react, revise, explain. No I/O, no clock, no randomness.
//!
//! A shell creates a [`PlanState`] with [`submit()`] and sends it commands. [`decide()`] folds the events it
//! makes into the state, so the shell must commit them before it runs the effects. When a commit fails it
//! drops the state and folds the log again with [`replay()`]. [`pending`] then names the effects that may not have run.
//!
//! A decision may concern sub-plans and the parent: the shell puts it into a [`FamilyQueue`], which gives one
//! [`FamilyCommand`] after the other. What one command leads to is committed together.
//!
//! The shell must send: every [`Timer`] at its time, after the reports that arrived before it; every
//! [`Effect::Ready`] step once [`PlanState::can_dispatch`] allows it, checked again after [`Effect::Room`]; and an
//! answer to every [`Effect::Plan`].
//!
//! A concept is a folder: its state, the questions about it that a plan answers (mostly in `mod.rs`), and its rules. A rule is a function of the concept that decides. [`PlanState`] holds the values of all concepts.
//!
//! The files form layers, each of which uses the ones above it in this list, and no two files import each other:
//!
//! 1. The state and the questions about it: functions of a [`PlanState`].
//! 2. `apply` folds an event, `react` names its effects, `turn` does both: a `Turn` emits events.
//! 3. The rules: functions of a `Turn`, such as `attempt/failure.rs`, `revise/trigger.rs`, `cleanup/plan_end.rs`.
//! 4. `progress`: what a turn goes on with, until nothing changes.
//! 5. What arrives: `attempt/report.rs`, `requests.rs`, `planned.rs`, `people`, `sub_plan/notices.rs` and their like.
//! 6. `decide` gives each command to one of them; `submit` begins a plan.
//!
//! | concept | folder | state |
//! |---|---|---|
//! | definition and graph, phases, unlocking | `graph` | `RunningPlan`, `PlanGraph`, `Phases`, `ReadySteps`, `OpenDependencies` |
//! | a step: its status, attempts, reports, failures, retries | `attempt` | `StepState`, `StepRun`, `StepResult` |
//! | durable calls, callbacks | `calls` | `StepCalls`, `ReceivedCallback` |
//! | budgets, capacity, size, work | `budget` | `Reservations`, `CallGrant`, `Capacity`, `PlanSize`, `ModelCallLog` |
//! | waits and events from outside | `wait` | `ReceivedEvents`, `AwaitedEvent` |
//! | people and hooks | `people` | `Waiting`, `Decider`, `StepDecisions` |
//! | clean-up, undo, the end of a plan | `cleanup` | `CleanupState`, `DoneLog`, `Outcome` |
//! | revisions, edits, forks, streamed plans | `revise` | `Revising` |
//! | constraints | `constraints` | `ConstraintMonitor` |
//! | success criteria | `criteria` | `Judging` |
//! | plans inside: sub-plans, maps, loops, decomposition | `sub_plan` | `InnerPlans`, `Iterations` |
//! | inputs, conditions, payloads | `render` | `PayloadLoads` |

mod apply;
pub mod attempt;
pub mod budget;
pub mod calls;
mod cleanup;
mod command;
pub mod constraints;
pub mod criteria;
mod decide;
mod delayed_start;
mod due_time;
mod effect;
mod event_variants;
pub mod explain;
mod graph;
pub mod people;
mod planned;
mod progress;
mod react;
mod refusals;
mod render;
mod requests;
pub mod revise;
mod state;
pub mod sub_plan;
mod submit;
mod token;
mod transitions;
mod turn;
pub mod wait;

pub use apply::{apply, replay};
pub use attempt::cards::{CardLookup, Cards};
pub use attempt::recording::InputRecording;
pub use budget::places::{can_dispatch_in_family, family_members, has_room_in_family};
pub use budget::work_limit::WorkLimit;
pub use command::{Closing, Command, EngineContext, Envelope, PlanAnswer, Rejection, SubPlanEnd, SubmitCommand, Timer};
pub use decide::decide;
pub use effect::{Decision, Effect};
pub use event_variants::{EventWords, plan_event_variants, step_event_variants};
pub use explain::{AgentHealth, ExplainContext};
pub use goalmill_expression::{NeededPayload, Payload};
pub use graph::StepIndex;
pub use people::hook::{HookAnswer, HookRuling};
pub use people::hook_question::HookQuestion;
pub use react::pending;
pub use render::payload_loads::LoadedPayload;
pub use revise::fork::fork;
pub use revise::replan_context::replan_context;
pub use revise::validate_revision;
pub use state::PlanState;
pub use state::step_snapshot::StepSnapshot;
pub use state::view::{StepWindow, SummarySnapshot};
pub use sub_plan::family_plans::{FamilyPlans, FamilyUse};
pub use sub_plan::family_queue::{FamilyCommand, FamilyQueue};
pub use sub_plan::kept_plans::KeptFate;
pub use submit::{Engine, submit};
pub use token::TokenKey;
pub use transitions::{ReplayError, plan_transition, step_transition};
pub use wait::family_events::family_has_event;
