//! Answers of planners that were refused, and what provenance says of them.

use goalmill_common::command::Planned;
use goalmill_common::goal::Planning;
use goalmill_common::json::Json;
use goalmill_common::problem::Issue;
use serde_json::{Value, json};

use super::asks_models;
use crate::stage::Stages;
use crate::{CallLog, NOT_VALID, Planner, PlanningError};

/// A planner's answer that was refused.
pub(crate) struct PlannerRefusal {
    pub(crate) planner: &'static str,
    pub(crate) why: RefusalReason,
    pub(crate) reason: String,
    pub(crate) issues: Vec<Issue>,
    /// The provenance of the answer.
    pub(crate) account: Option<Value>,
}

/// Why an answer was refused: a label of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalReason {
    /// The planner gave no answer in time.
    Timeout,
    /// The planner returned an error.
    Error,
    /// The plan is not valid.
    Invalid,
}

impl RefusalReason {
    fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Error => "error",
            Self::Invalid => "invalid",
        }
    }
}

impl PlannerRefusal {
    /// Its entry in the provenance of another planner's plan: the prompts of the accepted plan are enough.
    pub(crate) fn to_json(&self) -> Value {
        without_prompts(self.to_full_json())
    }

    /// Its entry in the provenance of a failure, with prompts.
    fn to_full_json(&self) -> Value {
        let mut entry = json!({"planner": self.planner, "reason": self.reason, "issues": self.issues});
        for (key, value) in self.account.iter().filter_map(Value::as_object).flatten() {
            entry[key.as_str()] = value.clone();
        }
        entry
    }

    /// The reason, with the first issue.
    fn in_words(&self) -> String {
        let first = self.issues.first().map(|issue| format!("; {} at {}: {}", issue.code, place(issue), issue.detail));
        format!("{}{}", self.reason, first.unwrap_or_default())
    }

    /// Counts that the next planner is asked instead, in `goalmill_planner_fallbacks_total`.
    pub(crate) fn falls_back_to(&self, next: &dyn Planner) {
        let labels = [("from", self.planner), ("to", next.name()), ("reason", self.why.as_str())];
        metrics::counter!("goalmill_planner_fallbacks_total", &labels).increment(1);
    }
}

pub(crate) fn invalid(planner: &dyn Planner, issues: Vec<Issue>, provenance: Option<&Json>) -> PlannerRefusal {
    PlannerRefusal {
        planner: planner.name(),
        why: RefusalReason::Invalid,
        reason: NOT_VALID.into(),
        issues,
        account: provenance.map(Json::value),
    }
}

/// Says that a model was asked and gave no plan, and which planner took over. A generic plan advises to set up a model:
/// the reason replaces that advice.
///
/// - `planner`: of the plan that was taken.
pub(crate) fn explain_model_failure(planner: &str, warnings: &mut Vec<Issue>, refusals: &[PlannerRefusal]) {
    let Some(refusal) = refusals.iter().find(|refusal| asks_models(refusal.planner)) else { return };
    let reason = format!("planner `{}` gave no plan: {}", refusal.planner, refusal.in_words());
    let hint = "correct what kept the model from planning; `explain` shows what each planner answered".to_owned();
    if let Some(generic) = warnings.iter_mut().find(|warning| warning.code == "GENERIC_PLAN") {
        (generic.detail, generic.hint) = (format!("no rule matched, and {reason}"), hint);
    } else {
        let detail = format!("{reason}; the plan is from planner `{planner}`");
        warnings.push(Issue { code: "PLANNER_FALLBACK".into(), pointer: String::new(), detail, hint });
    }
}

fn place(issue: &Issue) -> &str {
    if issue.pointer.is_empty() { "/" } else { &issue.pointer }
}

/// The planner's own provenance, with the goal's parameters, the stages and the refusals before it.
pub(crate) fn merge_provenance(
    planned: &Planned,
    refusals: &[PlannerRefusal],
    stages: &Stages,
    planning: &Planning,
) -> Json {
    let mut account = match planned.provenance.as_ref().map(Json::value) {
        Some(Value::Object(fields)) => fields,
        Some(other) => serde_json::Map::from_iter([("account".to_owned(), other)]),
        None => serde_json::Map::new(),
    };
    account.insert("planner".into(), planned.planner.clone().into());
    account.insert("said".into(), planned.confidence.into());
    account.insert("stages".into(), stages.account());
    if !planning.is_default() {
        account.insert("planning".into(), json!(planning));
    }
    if !refusals.is_empty() {
        account.insert("tried".into(), refusals.iter().map(PlannerRefusal::to_json).collect());
    }
    Json::from_value(&account)
}

/// The refusal of a planner that returned an error, with its model calls.
pub(crate) fn refusal(planner: &dyn Planner, error: PlanningError, call_log: &CallLog) -> PlannerRefusal {
    let PlanningError { reason, issues, provenance, is_invalid } = error;
    if is_invalid {
        return invalid(planner, issues, provenance.as_ref());
    }
    let account = provenance.as_ref().map(Json::value).or_else(|| call_log.to_json());
    PlannerRefusal { planner: planner.name(), why: RefusalReason::Error, reason, issues, account }
}

/// Removes the prompts.
pub(crate) fn without_prompts(mut account: Value) -> Value {
    let rounds = account.get_mut("rounds").and_then(Value::as_array_mut);
    for round in rounds.into_iter().flatten().filter_map(Value::as_object_mut) {
        round.remove("prompt");
    }
    account
}

/// All reasons, with the issues of the attempt that has the fewest.
pub(crate) fn failure(refusals: Vec<PlannerRefusal>, stages: &Stages) -> PlanningError {
    combine("no planner could make a valid plan", refusals, stages, PlannerRefusal::to_full_json)
}

/// The same for a revision.
pub(crate) fn no_revision(refusals: Vec<PlannerRefusal>, stages: &Stages) -> PlanningError {
    combine("no planner could make a valid revision", refusals, stages, PlannerRefusal::to_json)
}

fn combine(
    what: &str,
    refusals: Vec<PlannerRefusal>,
    stages: &Stages,
    account: fn(&PlannerRefusal) -> Value,
) -> PlanningError {
    let reasons: Vec<String> = refusals.iter().map(|r| format!("`{}`: {}", r.planner, r.in_words())).collect();
    let tried: Value = refusals.iter().map(account).collect();
    let provenance = Some(Json::from_value(&json!({"tried": tried, "stages": stages.account()})));
    let nearest = refusals.into_iter().filter(|r| !r.issues.is_empty()).min_by_key(|r| r.issues.len());
    PlanningError {
        reason: format!("{what}: {}", reasons.join("; ")),
        issues: nearest.map(|r| r.issues).unwrap_or_default(),
        provenance,
        is_invalid: false,
    }
}
