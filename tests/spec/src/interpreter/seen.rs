//! What the expressions of a step see.

use std::collections::BTreeMap;

use goalmill_common::failure::Failure;
use goalmill_common::goal::Goal;
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;
use goalmill_common::status::StepStatus;
use goalmill_expression::{self as expression, ExpressionError, Scope, ScopedStep};

/// Values of names beside `goal` and `steps`.
pub(super) type Locals = Vec<(String, Json)>;

/// The goal and the steps that have ended, as they are at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) goal: Goal,
    pub(super) steps: BTreeMap<String, SeenStep>,
}

#[derive(Clone, Debug)]
pub(super) struct SeenStep {
    pub(super) status: StepStatus,
    pub(super) outputs: Option<Json>,
    pub(super) partial: bool,
    pub(super) failure: Option<Failure>,
}

impl Seen {
    pub(super) fn render(&self, value: &Json, locals: &Locals) -> Result<Json, ExpressionError> {
        self.within(locals, |scope| expression::render(value, scope, &Limits::default()))
    }

    pub(super) fn render_text(&self, text: &str, locals: &Locals) -> Result<String, ExpressionError> {
        self.within(locals, |scope| expression::render_text(text, scope, &Limits::default()))
    }

    pub(super) fn is_true(&self, text: &str, locals: &Locals) -> Result<bool, ExpressionError> {
        self.within(locals, |scope| expression::is_true(text, scope, &Limits::default()))
    }

    fn within<T>(&self, locals: &Locals, evaluate: impl FnOnce(&Scope<'_>) -> T) -> T {
        let locals: Vec<(&str, Json)> = locals.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        let look = |id: &str| {
            let step = self.steps.get(id)?;
            let (outputs, failure) = (step.outputs.as_ref(), step.failure.as_ref());
            Some(ScopedStep { status: step.status, outputs, partial: step.partial, failure })
        };
        evaluate(&Scope::new(&self.goal, &look).with_locals(&locals))
    }
}
