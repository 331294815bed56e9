//! Effects: what the shell does after a decision.

use goalmill_common::event::Record;
use goalmill_common::failure::Failure;
use goalmill_common::id::{AgentType, AttemptToken, EntryId};
use goalmill_common::json::Json;
use goalmill_common::task::Task;
use goalmill_expression::NeededPayload;

use crate::Timer;
use crate::budget::work_limit::WorkLimit;
use crate::graph::StepIndex;
use crate::sub_plan::family_plans::FamilyRequest;

/// The result of a command: events, already folded into the state, effects, and requests to other plans, which a
/// [`crate::FamilyQueue`] takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    pub records: Vec<Record>,
    pub effects: Vec<Effect>,
    pub(crate) family: Vec<FamilyRequest>,
    pub(crate) work: WorkLimit,
}

impl Decision {
    /// Whether other plans of the family have something to decide.
    pub fn has_requests(&self) -> bool {
        !self.family.is_empty()
    }
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
    /// Ask a model for the verdicts of [`crate::criteria::awaited_judgement`], and answer with
    /// [`crate::Command::Judged`].
    Judge,
    /// Look up cached outputs, and answer with [`crate::Command::CacheLookedUp`].
    CacheLookup { step: StepIndex, key: String },
    /// Load stored payloads that a step reads, or the criteria, and answer with [`crate::Command::PayloadsLoaded`].
    LoadPayloads { step: Option<StepIndex>, payloads: Vec<NeededPayload> },
    /// Ask the hooks about [`crate::people::hook_question()`], and answer with [`crate::Command::HookAnswered`].
    AskHooks { step: Option<StepIndex> },
    /// Cache the outputs.
    CacheStore { key: String, outputs: Json, ttl_ms: u64 },
    /// Register the wait of [`crate::wait::event_wait`], and send the kept events for it as
    /// [`goalmill_common::command::Verb::SendEvent`].
    AwaitEvent { step: StepIndex },
    /// Remove the registered wait.
    StopAwaiting { step: StepIndex },
    /// Stop the execution of a superseded attempt.
    Cancel(AttemptToken),
    /// Add the step to the dead letters.
    DeadLetter { step: StepIndex, failure: Failure },
    /// The plan is final.
    Ended,
}
