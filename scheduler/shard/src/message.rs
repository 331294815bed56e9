//! What a loop takes: entries of its inbox, and messages from the same process.

use std::fmt;

use goalmill_common::command::{Request, Verb};
use goalmill_common::id::{EntryId, PlanId};
use goalmill_common::problem::Problem;
use goalmill_common::status::PlanStatus;
use goalmill_common::view::WaitView;
use goalmill_common::wire::{Inbox, InboxStream};
use goalmill_engine::{Command, Rejection};

use crate::{Scan, StatusSnapshot, Suspects};

/// The result of a request: the plan and its status, or a problem.
pub type RequestResult = Result<(PlanId, PlanStatus), Problem>;

/// What a loop gives back: the result of a request, or the request itself if the loop ended before it handled it.
pub type RequestReply = Result<RequestResult, Box<Request>>;

/// Takes an answer to the one that waits for it; dropped without one when there is none.
pub struct Reply<T>(Box<dyn FnOnce(T) + Send + Sync>);

impl<T> Reply<T> {
    /// - `send`: takes the answer to the one that waits for it.
    pub fn new(send: impl FnOnce(T) + Send + Sync + 'static) -> Self {
        Self(Box::new(send))
    }

    /// Gives the answer.
    pub fn send(self, answer: T) {
        (self.0)(answer);
    }
}

impl<T> fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}

/// Names one entry of the inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxPlace {
    pub stream: InboxStream,
    pub id: EntryId,
}

/// A message to a shard's loop from the same process.
#[derive(Debug)]
pub enum ShardMessage {
    /// A request of a client or a submission of the stream.
    Request {
        request: Box<Request>,
        reply: Option<Reply<RequestReply>>,
        /// The entry of the submission, acknowledged once the plan is stored.
        entry: Option<EntryId>,
        /// The status of the plan in the store, if it was read already.
        snapshot: Option<StatusSnapshot>,
    },
    /// The answer of an effect; `reply` gets whether it was accepted.
    Command {
        plan: PlanId,
        command: Box<Command>,
        /// The number of the revision request that it answers.
        request: Option<u32>,
        reply: Option<Reply<Result<(), Rejection>>>,
    },
    /// The wait of a step of this plan is registered, and the events that were kept for it are sent.
    WaitRegistered(PlanId),
    /// Asks about a wait for an event.
    AskWait(Box<WaitQuestion>),
    /// Asks which queues need a scan; answered once all earlier decisions are written.
    AskSuspects(Reply<Suspects>),
    /// The result of a scan.
    Reconcile(Box<Scan>),
}

/// A question about a wait for an event.
#[derive(Debug)]
pub struct WaitQuestion {
    pub wait: WaitView,
    /// Of events.
    pub ids: Vec<String>,
    pub reply: Reply<WaitState>,
}

/// How it stands with a wait for an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitState {
    /// Whether the step waits for the event.
    pub step_waits: bool,
    /// Whether any step of the plan does.
    pub plan_waits: bool,
    /// Those of the events that no plan of the family has.
    pub unknown_events: Vec<String>,
}

impl ShardMessage {
    /// Gives a request back to its sender, unhandled, who sends it to the next owner.
    pub fn give_back(self) {
        if let Self::Request { request, reply: Some(reply), .. } = self {
            reply.send(Err(request));
        }
    }
}

/// One thing for a turn to handle.
pub enum LoopInput {
    /// An entry of the inbox.
    Entry(InboxPlace, Inbox),
    /// A message from the same process.
    Message(ShardMessage),
}

impl LoopInput {
    /// The plans that it concerns.
    pub fn plans(&self) -> Vec<PlanId> {
        match self {
            Self::Entry(_, inbox) => plans_of(inbox),
            Self::Message(ShardMessage::Request { request, .. }) => vec![request.plan.clone()],
            Self::Message(ShardMessage::Command { plan, .. }) => vec![plan.clone()],
            // A registration must not bring back a plan that is parked.
            Self::Message(
                ShardMessage::WaitRegistered(_)
                | ShardMessage::AskWait(_)
                | ShardMessage::AskSuspects(_)
                | ShardMessage::Reconcile(_),
            ) => Vec::new(),
        }
    }

    /// The plan that it submits, if it is a submission, and what the store said of that plan, if it was asked.
    pub fn submits(&self) -> Option<(&PlanId, Option<StatusSnapshot>)> {
        let (request, snapshot) = match self {
            Self::Entry(_, Inbox::Request(request)) => (request, None),
            Self::Message(ShardMessage::Request { request, snapshot, .. }) => (request, snapshot.clone()),
            Self::Entry(_, Inbox::Reports(_) | Inbox::Unreadable(_) | Inbox::Misplaced)
            | Self::Message(
                ShardMessage::Command { .. }
                | ShardMessage::WaitRegistered(_)
                | ShardMessage::AskWait(_)
                | ShardMessage::AskSuspects(_)
                | ShardMessage::Reconcile(_),
            ) => return None,
        };
        matches!(request.verb, Verb::Submit(_)).then_some((&request.plan, snapshot))
    }
}

/// The plans of an inbox entry.
pub fn plans_of(inbox: &Inbox) -> Vec<PlanId> {
    let mut plans: Vec<PlanId> = match inbox {
        Inbox::Reports(reports) => reports.iter().map(|report| report.plan.clone()).collect(),
        Inbox::Request(request) => vec![request.plan.clone()],
        Inbox::Unreadable(_) | Inbox::Misplaced => Vec::new(),
    };
    plans.sort_unstable();
    plans.dedup();
    plans
}
