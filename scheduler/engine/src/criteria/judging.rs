//! The verdicts on the criteria of a goal, and who was asked for them.

use std::collections::BTreeMap;

use goalmill_common::criterion::{CriterionVerdict, EVIDENCE_CHARS_MAX};
use goalmill_common::event::CriteriaJudged;
use goalmill_expression::NeededPayload;

/// A verdict, or the payloads that it needs first.
pub(crate) type Judged<T> = Result<T, Vec<NeededPayload>>;

/// The verdicts so far, and who was asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Judging {
    /// By criterion id.
    pub(crate) verdicts: BTreeMap<String, CriterionVerdict>,
    pub(crate) model_asked: bool,
    pub(crate) person_asked: bool,
    /// Whether an unmet criterion has asked for a revision since the last one.
    pub(crate) revision_asked: bool,
}

impl Judging {
    pub(crate) fn fold(&mut self, judged: &CriteriaJudged) {
        for verdict in &judged.verdicts {
            self.verdicts.insert(verdict.criterion.clone(), verdict.clone());
        }
    }

    /// A revision makes every verdict void.
    pub(crate) fn restart(&mut self) {
        let revision_asked = self.revision_asked;
        *self = Self { revision_asked, ..Self::default() };
    }
}

/// The beginning of a text, as evidence of a verdict.
pub(crate) fn clipped(text: &str) -> String {
    text.chars().take(EVIDENCE_CHARS_MAX).collect()
}
