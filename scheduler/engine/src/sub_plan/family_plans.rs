//! What the plans of a family ask of each other and use up together, and how a shell finds them.

use goalmill_common::command::Submit;
use goalmill_common::event::{FamilyGrew, Parent};
use goalmill_common::external_event::ExternalEvent;
use goalmill_common::id::PlanId;
use goalmill_common::problem::Problem;

use crate::budget::work_limit::WorkLimit;
use crate::{Command, KeptFate, PlanState};

/// The plans in memory of a shell. The engine only reads them.
pub trait FamilyPlans {
    /// What the shell finds a plan by.
    type Key: Copy;

    /// Finds a plan in memory.
    fn find_plan(&self, plan: &PlanId) -> Option<Self::Key>;

    /// The state of a plan in memory.
    fn plan_state(&self, key: Self::Key) -> &PlanState;

    /// Number of dispatched steps of a plan whose outputs are looked up in the cache. Each keeps a place.
    fn looked_up(&self, _: Self::Key) -> u32 {
        0
    }

    /// Why a plan that is not in memory may not begin: the shell does not work on it.
    fn refusal(&self, _: &PlanId) -> Option<Problem> {
        None
    }
}

/// What a decision asks of its family.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FamilyRequest {
    /// Start the sub-plan of a step.
    Start { plan: PlanId, submit: Box<Submit> },
    /// Report an event that a plan has got to the plans above it.
    ReportEvent { plan: PlanId, id: String },
    /// Look for an event of a name and a key that the plans above keep: a step has begun to wait for it.
    ///
    /// - `refused`: number of such events that do not fit the step.
    ClaimEvent { plan: PlanId, name: String, key: String, refused: usize },
    /// Offer an event to plans, the last one first, until one takes it.
    OfferEvent { event: Box<ExternalEvent>, waiting_only: bool, plans: Vec<PlanId> },
    /// Count what a plan has more, in the outermost plan.
    Grow { plan: PlanId, grown: FamilyGrew },
    /// Stop the plan of a step, which reports its end once its clean-up has run.
    Stop { plan: PlanId, parent: Box<Parent> },
    /// Release a kept plan, or let it undo what it did.
    EndKept { plan: PlanId, parent: Box<Parent>, fate: KeptFate },
    /// Give a command to a sub-plan, to the parent or to the plan itself.
    Give { plan: PlanId, command: Box<Command> },
}

/// What a family has used up when one of its plans decides. The shell puts it into the [`crate::Envelope`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FamilyUse {
    /// Steps of the outermost plan, and of all plans that were ever started inside it, each of which counts as one step
    /// more.
    pub steps: u64,
    /// Bytes of the outputs of these plans, and of the plans inside as they started.
    pub bytes: u64,
    /// The work of the decisions of the same turn.
    pub work: WorkLimit,
}
