//! What a completed step gave.

use goalmill_common::event::StepCompleted;
use goalmill_common::failure::Failure;
use goalmill_common::json::Json;
use goalmill_common::report::SuggestedAdjustment;

/// What a completed step gave.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StepResult {
    outputs: Json,
    feedback: Option<Box<Feedback>>,
}

/// What a step reports beside its outputs.
#[derive(Clone, Debug, Default, PartialEq)]
struct Feedback {
    /// What is missing in its outputs.
    errors: Vec<Failure>,
    /// What its agent would change.
    suggested: Vec<SuggestedAdjustment>,
    /// The `adjustments` of its report.
    adjustments: Option<Json>,
}

impl StepResult {
    pub(crate) fn outputs(&self) -> &Json {
        &self.outputs
    }

    /// What is missing in the outputs, and why.
    pub(crate) fn errors(&self) -> &[Failure] {
        self.feedback.as_ref().map_or(&[], |feedback| &feedback.errors)
    }

    /// What the agent would change.
    pub(crate) fn suggested(&self) -> &[SuggestedAdjustment] {
        self.feedback.as_ref().map_or(&[], |feedback| &feedback.suggested)
    }

    /// The `adjustments` of the report.
    pub(crate) fn adjustments(&self) -> Option<&Json> {
        self.feedback.as_ref()?.adjustments.as_ref()
    }

    /// The result of a step that another plan has completed.
    ///
    /// - `errors`: what is missing in the outputs.
    pub(crate) fn kept(outputs: Json, errors: &[Failure]) -> Self {
        Self::new(outputs, Feedback { errors: errors.to_vec(), ..Feedback::default() })
    }

    pub(crate) fn from_completed(completed: &StepCompleted) -> Self {
        let (errors, suggested) = (completed.errors.clone(), completed.suggested_adjustments.clone());
        let feedback = Feedback { errors, suggested, adjustments: completed.adjustments.clone() };
        Self::new(completed.outputs.clone(), feedback)
    }

    fn new(outputs: Json, feedback: Feedback) -> Self {
        Self { outputs, feedback: (feedback != Feedback::default()).then(|| Box::new(feedback)) }
    }
}
