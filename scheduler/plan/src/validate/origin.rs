//! Positions of steps and dependencies in the document, for the pointers of issues.

use goalmill_common::id::StepId;
use goalmill_common::plan::ExpressionField;
use serde_json::Value;

use crate::document::DocumentPath;

/// Where a dependency was written.
#[derive(Clone, Debug)]
pub(super) enum DependencyPlace<'v> {
    /// An item of a list field of the step.
    Item { key: &'v str, index: usize },
    /// A text field of the step, alone or with other ids.
    Field { key: &'v str },
    /// An edge of the graph; `end` is the key of its source.
    Edge { parent: String, key: &'v str, index: usize, end: &'v str },
    /// Nowhere: an expression refers to the step.
    Expression { pointer: String },
}

/// A dependency as it was written in the document.
#[derive(Clone, Debug)]
pub(super) struct Dependency<'v> {
    pub id: StepId,
    pub place: DependencyPlace<'v>,
}

impl<'v> Dependency<'v> {
    /// One that stands in a list of the step.
    pub(super) fn item(id: String, key: &'v str, index: usize) -> Self {
        Self { id: id.into(), place: DependencyPlace::Item { key, index } }
    }
}

/// Where a step and its fields were written, by the names used in the document.
#[derive(Clone, Debug)]
pub(super) struct StepOrigin<'v> {
    /// JSON Pointer to the step.
    pub at: String,
    pub id_key: &'v str,
    pub action_key: &'v str,
    /// Empty when none was given.
    pub agent_key: &'v str,
    pub inputs_key: &'v str,
    pub repeat_key: &'v str,
    pub when_key: &'v str,
    /// Empty when the step has the fields of `wait` itself.
    pub wait_key: &'v str,
    pub join_key: &'v str,
    pub phase_key: &'v str,
    pub cache_key: &'v str,
    pub cache_is_text: bool,
    pub inputs: Option<&'v Value>,
    /// The key and the value of `for_each`.
    pub for_each: Option<(&'v str, &'v Value)>,
    pub dependencies: Vec<Dependency<'v>>,
}

impl StepOrigin<'_> {
    /// Runs `body` with the place of one of the step's dependencies.
    pub(super) fn with_dependency<T>(&self, index: usize, body: impl FnOnce(&DocumentPath<'_>) -> T) -> T {
        let step = DocumentPath::Pointer(&self.at);
        match &self.dependencies[index].place {
            DependencyPlace::Item { key, index } => body(&step.key(key).item(*index)),
            DependencyPlace::Field { key } => body(&step.key(key)),
            DependencyPlace::Edge { parent, key, index, end } => {
                let edges = DocumentPath::Pointer(parent);
                let edges = edges.key(key);
                let edge = edges.item(*index);
                if end.is_empty() { body(&edge) } else { body(&edge.key(end)) }
            }
            DependencyPlace::Expression { pointer } => body(&DocumentPath::Pointer(pointer)),
        }
    }

    /// Runs `body` with the place of one of the step's fields; of the step itself when `key` is empty.
    pub(super) fn with_key<T>(&self, key: &str, body: impl FnOnce(&DocumentPath<'_>) -> T) -> T {
        let step = DocumentPath::Pointer(&self.at);
        if key.is_empty() { body(&step) } else { body(&step.key(key)) }
    }

    /// Runs `body` with the place of a field that holds expressions.
    pub(super) fn with_expression<T>(&self, field: ExpressionField, body: impl FnOnce(&DocumentPath<'_>) -> T) -> T {
        let (key, inner) = match field {
            ExpressionField::ForEach => (self.for_each.map_or("for_each", |(key, _)| key), ""),
            ExpressionField::Inputs => (self.inputs_key, ""),
            ExpressionField::When => (self.when_key, ""),
            ExpressionField::Until => (self.repeat_key, "until"),
            ExpressionField::Question => ("ask", "question"),
            ExpressionField::WaitUntil => (self.wait_key, "until"),
            ExpressionField::WaitKey => (self.wait_key, "key"),
            ExpressionField::CacheKey => (self.cache_key, if self.cache_is_text { "" } else { "key" }),
        };
        self.with_key(key, |at| if inner.is_empty() { body(at) } else { body(&at.key(inner)) })
    }
}
