//! What a decision makes the shell do.

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

/// What a command makes happen: events, already folded into the state, and what the shell is to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    pub records: Vec<Record>,
    pub effects: Vec<Effect>,
}

/// What the shell is to do. Effects are idempotent; those marked "in the commit" are written with the events,
/// the others run after it, and [`crate::pending`] names them again after a restart.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// In the commit: put the task on its stream.
    Send(Box<Task>),
    /// In the commit: the task's outcome is recorded (or does not matter any more).
    Acknowledge { agent_type: AgentType, entry: EntryId },
    /// The step belongs in the ready set.
    Ready(StepIndex),
    /// The plan has room again: steps that were passed over may be offered once more.
    Room,
    /// The decision stopped at its work limit: give [`crate::Command::Continue`] soon.
    Continue,
    /// The timer shall come due then; `None` clears it.
    Timer(Timer, Option<u64>),
    /// Ask the planners, for this revision: for 0 a plan, for any other a change of what [`crate::situation()`] shows.
    Plan { revision: u32 },
    /// Whoever wrote the plan may be gone: unless it is still at work here, say so by [`crate::Command::ClosePlan`].
    Close,
    /// See whether outputs are kept under this word, and answer by [`crate::Command::LookedUp`].
    LookUp { step: StepIndex, key: String },
    /// Keep the outputs under this word for so long.
    Keep { key: String, outputs: Json, ttl_ms: u64 },
    /// Stop the execution of a superseded attempt.
    Cancel(AttemptToken),
    /// Begin the plan that a step stands for.
    StartSubPlan { plan_id: PlanId, submit: Box<Submit> },
    /// Ask a sub-plan to end because its parent's step is over, or to pause and go on with its parent.
    AskSubPlan { plan_id: PlanId, verb: Verb },
    /// Tell the parent's step that its sub-plan is final.
    RollUp { parent: Parent, status: PlanStatus, outputs: Json, usage: Usage, failure: Option<Failure> },
    /// The step was given up on.
    Bury { step: StepIndex, failure: Failure },
    /// The caller waits for the answer to submission `submission`.
    Answer { submission: String },
    /// The plan is final.
    Ended,
}
