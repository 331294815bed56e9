//! The running plan that a proposal changes.

use goalmill_common::replan_situation::Situation;
use goalmill_common::status::StepStatus;
use goalmill_plan::validate::Catalogue;

use crate::ReviseRequest;

/// What a proposal is held against.
pub struct ReplanContext<'a> {
    pub(crate) request: &'a ReviseRequest,
    pub(crate) catalogue: Catalogue,
}

impl<'a> ReplanContext<'a> {
    pub fn new(request: &'a ReviseRequest) -> Self {
        Self { request, catalogue: Catalogue::from_agents(&request.agents) }
    }

    pub(crate) fn situation(&self) -> &Situation {
        &self.request.situation
    }

    pub(crate) fn knows(&self, id: &str) -> bool {
        self.situation().plan.steps.iter().any(|step| step.id.as_str() == id)
    }

    pub(crate) fn is_completed(&self, id: &str) -> bool {
        self.status(id) == Some(StepStatus::Completed)
    }

    pub(crate) fn is_final(&self, id: &str) -> bool {
        self.status(id).is_some_and(StepStatus::is_final)
    }

    /// Whether the step stays as it is whatever a new plan says of it. One that has failed may be another one.
    pub(crate) fn is_over(&self, id: &str) -> bool {
        self.is_final(id) && self.status(id) != Some(StepStatus::Failed)
    }

    fn status(&self, id: &str) -> Option<StepStatus> {
        let steps = &self.situation().steps;
        steps.iter().find(|(known, _)| known.as_str() == id).map(|(_, step)| step.status)
    }
}
