//! The state machine of a plan: decide, apply, react, revise, explain. No I/O, no clock, no randomness.
//!
//! A shell creates a [`PlanState`] with [`submit()`] and sends it commands. [`decide()`] folds the events it
//! makes into the state, so the shell must commit them before it runs the effects. When a commit fails it
//! drops the state and folds the log again with [`replay()`]. [`pending`] then names the effects that may not have run.
//!
//! A decision may concern sub-plans and the parent: [`decide_in_family`] and [`settle_family`] decide for all of them,
//! and call the shell back as [`FamilyPlans`]. What one call decides is committed together.
//!
//! The shell must send: every [`Timer`] at its time, after the reports that arrived before it; every
//! [`Effect::Ready`] step once [`PlanState::can_dispatch`] allows it, checked again after [`Effect::Room`]; and an
//! answer to every [`Effect::Plan`].

mod capacity;
mod cleanup_state;
mod command;
mod constraint_monitor;
mod effect;

mod event_variants;
mod graph;
mod implied_criteria;
mod inner_plans;
mod judging;
mod kept_plans;
mod outcome;
mod phases;
mod ready_steps;
mod received_events;
mod recorded_calls;
mod reservations;
mod running_plan;
mod state;
mod step_calls;
mod step_snapshot;
mod step_state;
mod step_verdict;
mod token;
mod transitions;
mod waiting;

mod apply;
mod awaited;

mod attempt;
mod budget;
mod call_budget;
mod call_plan;
mod callback;
mod cards;
mod checkpoint;
mod cleanup;
mod constraints;
mod criteria;
mod decide;
mod decompose;
mod delayed_start;
mod done_work;
mod expand;
mod failure;
mod hook;
mod hook_question;
mod human_review;
mod model_calls;
mod output_check;
mod payload_loads;
mod payloads;
mod recording;
mod render;
mod repeat;
mod report;
mod requests;
mod result_amount;
mod result_cache;
mod retry;
mod revise;
mod streaming;
mod sub_plan;
mod submit;
mod unlock;
mod wait;
mod work_limit;

mod react;

mod family;
mod family_events;

mod explain;
mod fork;
mod places;
mod plan_size;
mod queries;
mod replan_context;
mod view;

pub use apply::{ReplayError, apply, replay};
pub use cards::{CardLookup, Cards};
pub use command::{Closing, Command, EngineContext, Envelope, PlanAnswer, Rejection, SubPlanEnd, SubmitCommand, Timer};
pub use decide::decide;
pub use effect::{Decision, Effect};
pub use event_variants::{EventWords, plan_event_variants, step_event_variants};
pub use explain::{AgentHealth, ExplainContext};
pub use family::{FamilyPlans, FamilyUse, settle_family};
pub use family_events::{decide_in_family, family_has_event};
pub use fork::fork;
pub use goalmill_expression::{NeededPayload, Payload};
pub use graph::StepIndex;
pub use hook::{HookAnswer, HookRuling};
pub use hook_question::HookQuestion;
pub use kept_plans::KeptFate;
pub use payload_loads::LoadedPayload;
pub use places::{can_dispatch_in_family, family_members, has_room_in_family};
pub use react::pending;
pub use recording::InputRecording;
pub use replan_context::replan_context;
pub use revise::validate_revision;
pub use state::PlanState;
pub use step_snapshot::StepSnapshot;
pub use submit::{Engine, submit};
pub use token::TokenKey;
pub use transitions::{plan_transition, step_transition};
pub use view::SummarySnapshot;
pub use work_limit::WorkLimit;
