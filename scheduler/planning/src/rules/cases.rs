//! Cases of an installation: goals with the kind and the facts that rules should find in them.

use goalmill_common::goal::Goal;
use goalmill_common::limits::Limits;
use goalmill_plan::validate;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::RulesPlanner;
use crate::extraction::GoalFacts;
use crate::{CallLog, PlanRequest, PlannerAnswer};

/// Longest file of cases, in bytes.
pub const CASES_BYTES_MAX: usize = 1 << 20;
/// Most cases of one file.
const CASES_MAX: usize = 1_000;

/// The cases of one file.
#[derive(Clone, Debug)]
pub struct RuleCases(Vec<RuleCase>);

#[derive(Clone, Debug)]
struct RuleCase {
    goal: Goal,
    kind: String,
    facts: Map<String, Value>,
}

/// A case as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseDraft {
    /// A text, or an object as it is submitted.
    goal: Value,
    /// Added to those of the goal.
    #[serde(default)]
    constraints: Map<String, Value>,
    /// The id of a rule, or the type of its goals.
    kind: String,
    /// Facts that must be found, among others; `null` for one that must not.
    #[serde(default)]
    facts: Map<String, Value>,
}

/// Why a file of cases cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CasesError {
    #[error("it has more than {CASES_BYTES_MAX} bytes")]
    TooLong,
    #[error("it has {0} cases; at most {CASES_MAX} are tested at once")]
    TooMany(usize),
    #[error("it has no cases; write a list of `goal`, `kind` and `facts`")]
    Empty,
    #[error("{0}")]
    Malformed(String),
    #[error("case {case}: goal{pointer}: {reason}")]
    InvalidGoal { case: usize, pointer: String, reason: String },
}

/// What rules found in one case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CaseReport {
    /// Counted from 1.
    pub case: usize,
    pub goal: String,
    pub passed: bool,
    /// The rule that makes the plan.
    pub rule: String,
    pub failures: Vec<CaseFailure>,
    /// All facts of the goal, and its constraints.
    pub facts: Map<String, Value>,
}

/// A field of a case that is not as expected.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CaseFailure {
    /// `kind`, `plan`, or `facts.NAME`.
    pub field: String,
    pub expected: Value,
    pub found: Value,
}

impl RuleCases {
    /// Reads a YAML list of cases.
    pub fn from_yaml(text: &str, limits: &Limits) -> Result<Self, CasesError> {
        if text.len() > CASES_BYTES_MAX {
            return Err(CasesError::TooLong);
        }
        let drafts: Vec<CaseDraft> = serde_yaml_ng::from_str(text).map_err(|e| CasesError::Malformed(e.to_string()))?;
        match drafts.len() {
            0 => Err(CasesError::Empty),
            many if many > CASES_MAX => Err(CasesError::TooMany(many)),
            _ => {
                let cases = drafts.into_iter().enumerate().map(|(index, draft)| draft.case(index + 1, limits));
                cases.collect::<Result<_, _>>().map(Self)
            }
        }
    }

    /// Plans every case; no agent has to be there.
    ///
    /// - `now_ms`: Unix milliseconds; `in May` is the next May from then.
    pub fn test(&self, planner: &RulesPlanner, limits: &Limits, now_ms: u64) -> Vec<CaseReport> {
        let cases = self.0.iter().enumerate();
        cases.map(|(index, case)| case.test(index + 1, planner, limits, now_ms)).collect()
    }
}

impl CaseDraft {
    fn case(self, case: usize, limits: &Limits) -> Result<RuleCase, CasesError> {
        let mut goal = validate::goal(&self.goal, limits).map_err(|issues| {
            let first = issues.into_iter().next();
            let (pointer, reason) = first.map(|issue| (issue.pointer, issue.detail)).unwrap_or_default();
            CasesError::InvalidGoal { case, pointer, reason }
        })?;
        goal.constraints.extend(self.constraints);
        Ok(RuleCase { goal, kind: self.kind, facts: self.facts })
    }
}

impl RuleCase {
    fn test(&self, case: usize, planner: &RulesPlanner, limits: &Limits, now_ms: u64) -> CaseReport {
        let request = PlanRequest {
            goal: self.goal.clone(),
            agents: Vec::new(),
            limits: limits.clone(),
            now_ms,
            revision: 0,
            is_part: false,
            call_log: CallLog::default(),
            terms: Default::default(),
            reading: None,
        };
        let facts = GoalFacts::from_goal(&self.goal, now_ms).known();
        let mut failures = Vec::new();
        let rule = planner.choose(&request);
        let (id, kind) = rule.map(|rule| (rule.id.as_str(), rule.goal_type.as_str())).unwrap_or_default();
        if self.kind != id && self.kind != kind {
            failures.push(CaseFailure { field: "kind".into(), expected: self.kind.as_str().into(), found: id.into() });
        }
        for (name, expected) in &self.facts {
            let found = facts.get(name).unwrap_or(&Value::Null);
            if !holds(found, expected) {
                let field = format!("facts.{name}");
                failures.push(CaseFailure { field, expected: expected.clone(), found: found.clone() });
            }
        }
        let made = planner.plan_by_rules(&request).and_then(|planned| PlannerAnswer::validate(planned, &request));
        if let Err(error) = made {
            let issues = error.issues.iter().map(|issue| format!("{}: {}", issue.pointer, issue.detail));
            let reasons: Vec<String> = std::iter::once(error.reason.clone()).chain(issues).collect();
            let (field, found) = ("plan".into(), reasons.join("; ").into());
            failures.push(CaseFailure { field, expected: "a valid plan".into(), found });
        }
        let passed = failures.is_empty();
        CaseReport { case, goal: self.goal.description.clone(), passed, rule: id.into(), failures, facts }
    }
}

/// Whether a fact is as expected: objects hold at least what is expected, numbers are equal by value.
fn holds(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            expected.iter().all(|(name, value)| holds(found.get(name).unwrap_or(&Value::Null), value))
        }
        (Value::Number(found), Value::Number(expected)) => found.as_f64() == expected.as_f64(),
        (found, expected) => found == expected,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// 2026-11-21.
    const NOW_MS: u64 = 1_795_293_490_279;

    fn test(yaml: &str) -> Vec<CaseReport> {
        let limits = Limits::default();
        let cases = RuleCases::from_yaml(yaml, &limits).expect("the cases are well formed");
        cases.test(&RulesPlanner::built_in(), &limits, NOW_MS)
    }

    #[test]
    fn a_case_passes_if_kind_and_facts_are_as_expected() {
        let reports = test(
            "- goal: Plan a 3-day trip to Paris in May with a $2000 budget\n  kind: travel_planning\n  \
               facts: {destination: Paris, budget: {amount: 2000.0}, month: {number: 5}, origin: null}\n\
             - {goal: {description: Go, type: travel_planning}, constraints: {destination: Rome}, kind: travel, facts: {destination: Rome}}\n",
        );
        assert!(reports.iter().all(|report| report.passed && report.failures.is_empty()), "{reports:?}");
        assert_eq!((reports[1].case, reports[1].rule.as_str()), (2, "travel"));
    }

    #[test]
    fn every_difference_is_told() {
        let report = &test(
            "- {goal: Knit a sweater on a budget of 30 EUR, kind: travel, facts: {budget: {amount: 40}, month: {number: 5}}}",
        )[0];
        let fields: Vec<&str> = report.failures.iter().map(|failure| failure.field.as_str()).collect();
        assert_eq!(fields, ["kind", "facts.budget", "facts.month"]);
        assert_eq!((&report.failures[0].found, &report.failures[1].found["amount"]), (&json!("generic"), &json!(30)));
        assert_eq!(report.facts["budget"]["currency"], "EUR");
        assert!(!report.passed);
    }

    #[test]
    fn a_plan_that_does_not_fit_the_limits_fails_its_case() {
        let limits = Limits { planned_steps_max: 3, ..Limits::default() };
        let cases =
            RuleCases::from_yaml("[{goal: Plan a trip to Rome, kind: travel}]", &limits).expect("it is well formed");
        let reports = cases.test(&RulesPlanner::built_in(), &limits, NOW_MS);
        assert_eq!(reports[0].failures[0].field, "plan");
    }

    #[test]
    fn what_is_no_case_is_refused_with_its_place() {
        let refused =
            |text: &str| RuleCases::from_yaml(text, &Limits::default()).expect_err("the file is at fault").to_string();
        let unknown = refused("- goal: Knit\n  kind: generic\n  fact: {}\n");
        assert!(unknown.contains("`fact`") && unknown.contains("line 3"), "{unknown}");
        assert!(refused("- {goal: {description: Knit, prio: 1}, kind: generic}").contains("case 1: goal/prio"));
        assert!(refused("- {goal: {priority: 99, description: Knit}, kind: x}").contains("case 1: goal/priority"));
        assert!(refused("- {goal: Knit}").contains("kind"));
        assert!(refused("[]").contains("no cases"));
        assert!(refused("goal: Knit").contains("sequence"));
        assert!(refused(&"- {goal: Knit, kind: x}\n".repeat(CASES_MAX + 1)).contains("1001 cases"));
        assert!(refused(&"#".repeat(CASES_BYTES_MAX + 1)).contains("bytes"));
    }
}
