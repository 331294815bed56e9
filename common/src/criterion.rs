//! Success criteria of a goal: how they are judged, and their verdicts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::word_enum::word_enum;

/// What must be true at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(from = "CriterionForm", into = "CriterionForm")]
pub struct Criterion {
    /// Names it in `judges` of a step and in verdicts: `c1`, `c2`, … in order when it is not given.
    pub id: String,
    /// In words.
    pub description: String,
    /// An expression over outputs that is true when the criterion is met: `steps.total.outputs.sum <= 2000`.
    pub check: Option<String>,
}

impl Criterion {
    /// The criterion for people: its words, else its expression.
    pub fn text(&self) -> &str {
        if self.description.is_empty() { self.check.as_deref().unwrap_or_default() } else { &self.description }
    }
}

impl From<String> for Criterion {
    fn from(description: String) -> Self {
        Self { description, ..Self::default() }
    }
}

impl From<&str> for Criterion {
    fn from(description: &str) -> Self {
        description.to_owned().into()
    }
}

/// A criterion as JSON has it: a sentence, or an object.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
enum CriterionForm {
    Text(String),
    Object {
        #[serde(default, skip_serializing_if = "String::is_empty")]
        id: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        description: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        check: Option<String>,
    },
}

impl From<CriterionForm> for Criterion {
    fn from(form: CriterionForm) -> Self {
        match form {
            CriterionForm::Text(description) => description.into(),
            CriterionForm::Object { id, description, check } => Self { id, description, check },
        }
    }
}

impl From<Criterion> for CriterionForm {
    fn from(criterion: Criterion) -> Self {
        let Criterion { id, description, check } = criterion;
        if id.is_empty() && check.is_none() { Self::Text(description) } else { Self::Object { id, description, check } }
    }
}

/// The id of the criterion at this place, counted from 0.
pub fn criterion_id(criterion: &Criterion, place: usize) -> String {
    if criterion.id.is_empty() { format!("c{}", place + 1) } else { criterion.id.clone() }
}

word_enum! {
    /// Whether a criterion is met.
    Judgement {
        /// It is met.
        Met = "met",
        /// It is not met.
        Unmet = "unmet",
        /// It was not judged.
        NotJudged = "not_judged",
    }
}

word_enum! {
    /// What follows from the verdicts.
    #[derive(Default)]
    CriteriaPolicy {
        /// They are reported.
        #[default]
        Report = "report",
        /// An unmet criterion asks for a revision; without one the plan ends `partial`, or `failed` when none is met.
        Require = "require",
        /// A person judges what is unmet or not judged.
        Ask = "ask",
    }
}

impl CriteriaPolicy {
    /// Whether it is the default.
    pub fn is_report(&self) -> bool {
        *self == Self::Report
    }
}

word_enum! {
    /// Who or what judged.
    JudgeKind {
        /// The criterion's expression.
        Expression = "expression",
        /// A step that `judges` it.
        Step = "step",
        /// A language model.
        Model = "model",
        /// A person.
        Person = "person",
    }
}

/// The verdict on one criterion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CriterionVerdict {
    /// The criterion's id.
    pub criterion: String,
    /// The criterion, in words or as its expression.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Whether it is met.
    pub verdict: Judgement,
    /// Who or what judged; none for `not_judged`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<JudgeKind>,
    /// The step, the model, or the person.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// What the verdict rests on, or why there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub evidence: String,
}

impl CriterionVerdict {
    /// The verdict on a criterion that is not judged.
    ///
    /// - `id`: see [`criterion_id`].
    pub fn not_judged(id: String, criterion: &Criterion) -> Self {
        Self {
            criterion: id,
            description: criterion.text().to_owned(),
            verdict: Judgement::NotJudged,
            judge: None,
            by: String::new(),
            evidence: String::new(),
        }
    }
}

/// The verdict on each criterion of a goal, in its order.
///
/// - `known`: the verdicts so far, by criterion id.
pub fn list_verdicts(criteria: &[Criterion], known: &BTreeMap<String, CriterionVerdict>) -> Vec<CriterionVerdict> {
    let verdict = |(place, criterion): (usize, &Criterion)| {
        let id = criterion_id(criterion, place);
        known.get(&id).cloned().unwrap_or_else(|| CriterionVerdict::not_judged(id, criterion))
    };
    criteria.iter().enumerate().map(verdict).collect()
}

/// Longest evidence that is kept, in characters.
pub const EVIDENCE_CHARS_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_criterion_is_a_sentence_or_an_object() {
        for form in [json!("done"), json!({"id": "sum", "check": "steps.a.outputs.n > 1"})] {
            let criterion: Criterion = serde_json::from_value(form.clone()).expect("it reads");
            assert_eq!(serde_json::to_value(&criterion).expect("it writes"), form);
        }
    }
}
