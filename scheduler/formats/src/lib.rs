//! Documents that other planners write, converted to ours before validation.
//!
//! A form is recognised by its marks. What only spells a field in another way is read by the tables of `validate`; here
//! is what needs more than that: other layouts, state of an execution, settings that belong to the goal. Everything
//! that is dropped is noted, and places in the converted document lead back to places in the original one.

mod actions;
mod context;
mod context_inputs;
mod defaults;
mod detect;
mod executor;
mod export;
mod goals;
mod nodes;
mod phases;
mod plan_and_execute;
mod plans;
mod prompts;
mod references;
mod revision_changes;
mod rewrite;
mod schemas;
mod subtasks;
mod workflow;

pub use goalmill_common::document_format::DocumentFormat;
use goalmill_common::limits::Limits;
use goalmill_common::problem::Issue;
use goalmill_plan::foreign::foreign_document;
use serde_json::Value;

pub use context_inputs::withhold_context;
pub use export::{ExportState, export_plan};
pub use revision_changes::{checked_revision_changes, revision_changes};
pub use schemas::format_schema;
pub use workflow::workflow_plan;

use rewrite::Rewrite;

/// A document in our form, and how it came about.
#[derive(Clone, Debug)]
pub struct ConvertedDocument {
    pub document: Value,
    /// None when the document has no marks of another form.
    pub format: Option<DocumentFormat>,
    /// Code `FORMAT_CONVERTED`: one for the form, and one for each field that has no meaning here.
    pub notes: Vec<Issue>,
    /// Whether steps that say nothing about their order follow each other as listed.
    pub is_sequence: bool,
    /// Whether steps got the goal and results as inputs: see [`withhold_context`].
    pub hands_on: bool,
    rewrite: Rewrite,
}

impl ConvertedDocument {
    fn new(document: Value, format: Option<DocumentFormat>, mut rewrite: Rewrite) -> Self {
        let mut notes = Vec::new();
        if let Some(format) = format {
            notes.push(Issue {
                code: "FORMAT_CONVERTED".into(),
                pointer: String::new(),
                detail: format!("the document has the form `{format}` and was converted"),
                hint: "`goalmill schema plan` prints our own form".into(),
            });
        }
        notes.extend(rewrite.take_notes());
        Self { document, format, notes, is_sequence: rewrite.is_sequence, hands_on: rewrite.hands_on, rewrite }
    }

    fn checked(mut self) -> Result<Self, Vec<Issue>> {
        let refused = self.rewrite.take_refused();
        if refused.is_empty() { Ok(self) } else { Err(refused) }
    }

    /// Lets the pointers of issues lead into the original document.
    pub fn locate(&self, mut issues: Vec<Issue>) -> Vec<Issue> {
        for issue in &mut issues {
            issue.pointer = self.rewrite.original(&issue.pointer);
        }
        issues
    }
}

/// What a draft is, which decides what it means by what it leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DraftKind {
    /// Somebody's document: the defaults of its form hold.
    Document,
    /// A plan that a model answered with: it was asked for our form, so our defaults hold.
    Answer,
    /// Steps that a model corrects: nothing is added, so that it can take out what stood there.
    Correction,
}

/// Converts a plan, alone or in an object that wraps it; refuses what a form says and Goalmill cannot do.
pub fn convert_plan(draft: Value, limits: &Limits) -> Result<ConvertedDocument, Vec<Issue>> {
    convert_draft(draft, limits, DraftKind::Document).checked()
}

/// The same of any draft; what a model says and cannot be done is left out.
pub fn convert_draft(draft: Value, limits: &Limits, kind: DraftKind) -> ConvertedDocument {
    if foreign_document(&draft).is_some() {
        // Validation refuses it.
        return ConvertedDocument::new(draft, None, Rewrite::default());
    }
    let format = detect::detect_format(&draft);
    let mut rewrite = Rewrite::default();
    let mut document = draft;
    plans::convert(&mut document, format, (limits, kind), &mut rewrite);
    ConvertedDocument::new(document, format, rewrite)
}

/// Converts a goal, or the state of a planner that holds one; refuses what a form says and Goalmill cannot do.
pub fn convert_goal(draft: Value, limits: &Limits) -> Result<ConvertedDocument, Vec<Issue>> {
    if foreign_document(&draft).is_some() {
        // Validation refuses it.
        return Ok(ConvertedDocument::new(draft, None, Rewrite::default()));
    }
    let format = detect::goal(&draft);
    let mut rewrite = Rewrite::default();
    let mut document = draft;
    goals::convert(&mut document, format, limits, &mut rewrite);
    ConvertedDocument::new(document, format, rewrite).checked()
}
