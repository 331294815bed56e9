//! Effects: what the shell does after a decision.

use goalmill_common::command::{Submit, Verb};
use goalmill_common::event::{Parent, Record};
use goalmill_common::failure::Failure;
use goalmill_common::goal::Usage;
use goalmill_common::id::{AgentType, AttemptToken, EntryId, PlanId};
use goalmill_common::json::Json;
use goalmill_common::status::PlanStatus;
use goalmill_common::task::Task;

use crate::Timer;
use crate::graph::StepIndex;

/// The result of a command: events, already folded into the state, and effects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    pub records: Vec<Record>,
    pub effects: Vec<Effect>,
}

/// An action of the shell. Effects are idempotent. Those marked "in the commit" are written with the events;
/// the others run after it, and [`crate::pending`] names them again after a restart.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// In the commit: put the task on its stream.
    Send(Box<Task>),
    /// Before the commit: store what an attempt receives, for its record.
    StoreInputs { key: String, inputs: Json },
    /// In the commit: acknowledge the task, whose outcome is recorded or irrelevant.
    Acknowledge { agent_type: AgentType, entry: EntryId },
    /// Add the step to the ready set.
    Ready(StepIndex),
    /// The plan has capacity again: offer its ready steps again.
    Room,
    /// The decision stopped at its work limit: send [`crate::Command::Continue`] soon.
    Continue,
    /// Set the timer, Unix milliseconds; `None` clears it.
    Timer(Timer, Option<u64>),
    /// Ask the planners for a revision of [`crate::replan_context()`]; revision 0 is the plan itself.
    Plan { revision: u32 },
    /// Ask a model for the verdicts of [`crate::PlanState::awaited_judgement`], and answer with
    /// [`crate::Command::Judged`].
    Judge,
    /// The planner of a streamed plan may be gone: if it does not run here, send [`crate::Command::ClosePlan`].
    Close,
    /// Look up cached outputs, and answer with [`crate::Command::CacheLookedUp`].
    CacheLookup { step: StepIndex, key: String },
    /// Ask the hooks about [`crate::PlanState::hook_question`], and answer with [`crate::Command::HookAnswered`].
    AskHooks { step: Option<StepIndex> },
    /// Cache the outputs.
    CacheStore { key: String, outputs: Json, ttl_ms: u64 },
    /// Stop the execution of a superseded attempt.
    Cancel(AttemptToken),
    /// Start the sub-plan of a step.
    StartSubPlan { plan_id: PlanId, submit: Box<Submit> },
    /// Cancel, pause or resume a sub-plan with its parent.
    AskSubPlan { plan_id: PlanId, verb: Verb },
    /// Report the end of this sub-plan to its parent's step.
    RollUp { parent: Parent, status: PlanStatus, outputs: Json, usage: Usage, failure: Option<Failure> },
    /// Add the step to the dead letters.
    DeadLetter { step: StepIndex, failure: Failure },
    /// Answer the submission.
    Answer { submission: String },
    /// The plan is final.
    Ended,
}
