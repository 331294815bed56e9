//! What follows from a turn once its events are written. All of it may run twice.

use goalmill_common::commit::{DeadLetter, RefusedEntry};
use goalmill_common::event::ModelAnswered;
use goalmill_common::goal::Goal;
use goalmill_common::id::{AgentType, AttemptToken, EntryId, PlanId};
use goalmill_common::json::Json;
use goalmill_common::problem::Problem;
use goalmill_common::status::PlanStatus;
use goalmill_common::view::WaitView;
use goalmill_engine::{HookQuestion, NeededPayload, PlanState, Rejection, StepIndex};

use crate::message::{Reply, RequestReply, RequestResult};
use crate::{Suspects, stream_answers};

/// An action after the commit.
#[derive(Debug)]
pub enum PostCommit {
    /// Answer a request.
    Reply(Reply<RequestReply>, RequestResult),
    /// Tell an effect whether its command was accepted.
    CommandReply(Reply<Result<(), Rejection>>, Result<(), Rejection>),
    /// Name the queues that need a scan.
    SuspectsReply(Reply<Suspects>, Suspects),
    /// Ask the planners for a plan; their answer is a command.
    Plan {
        plan: PlanId,
        goal: Box<Goal>,
        /// Number of plans that contain it.
        depth: u32,
        /// Model answers from before a takeover.
        answers: Vec<ModelAnswered>,
    },
    /// Ask the planners for a revision of the plan; their answer is a command.
    Revise {
        state: Box<PlanState>,
        revision: u32,
        /// How many revisions were requested, including this one.
        request: u32,
    },
    /// Ask a model to judge success criteria; its answer is a command.
    Judge { state: Box<PlanState> },
    /// Look up a step's result in the cache; the answer is a command.
    CacheGet { plan: PlanId, step: StepIndex, key: String },
    /// Load stored payloads; the answer is a command.
    LoadPayloads { plan: PlanId, step: Option<StepIndex>, payloads: Vec<NeededPayload> },
    /// Ask the hooks; their answer is a command.
    AskHooks { plan: PlanId, question: Box<HookQuestion> },
    /// Register the wait for an event, and offer it the events that are kept.
    AwaitEvent(Box<WaitView>),
    /// Remove the registered wait.
    StopAwaiting(Box<WaitView>),
    /// Keep outputs in the cache.
    CachePut { key: String, outputs: Json, ttl_ms: u64 },
    /// Release a plan from quarantine.
    EndQuarantine(PlanId),
    /// Write to the store.
    Update(StoreUpdate),
}

/// A write to the store after a commit.
#[derive(Debug)]
pub enum StoreUpdate {
    Answer {
        id: String,
        json: String,
    },
    AcknowledgeSubmission(EntryId),
    /// Answers and lists a refused submission of the stream.
    Refuse(Box<RefusedEntry>),
    /// Stores the result of an ended plan that was submitted again, unless it is still stored.
    RenewResult {
        plan: PlanId,
        submission: String,
    },
    CancelAttempt(AttemptToken),
    DeadLetter(Box<DeadLetter>),
    /// Delete tasks of finished attempts from a stream.
    DiscardTasks {
        agent_type: AgentType,
        entries: Vec<EntryId>,
    },
}

impl StoreUpdate {
    /// Stores the result of a submission or a request under its id.
    pub fn answer(id: String, verdict: Result<(PlanId, PlanStatus), Problem>) -> Self {
        let json = match verdict {
            Ok((plan_id, status)) => stream_answers::accepted(plan_id, status, Vec::new(), None),
            Err(problem) => stream_answers::refused(problem),
        };
        Self::Answer { id, json }
    }
}
