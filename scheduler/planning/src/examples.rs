//! Example store: earlier goals with valid plans, shown in prompts for similar goals. In memory, bounded.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use goalmill_common::id::PlanId;
use goalmill_common::plan::Plan;
use goalmill_common::status::PlanStatus;
use serde_json::{Value, json};

use crate::retriever::Passage;

/// Letters of one run.
const RUN: usize = 3;
/// Least likeness of two goals, 0 to 1.
const LIKENESS_MIN: f64 = 0.25;
/// The source of an example whose plan has not ended.
const NO_PLAN_YET: &str = "earlier plan";
/// Characters of a goal and bytes of a plan that are remembered; larger plans are not.
const GOAL_CHARS_MAX: usize = 1_000;
const PLAN_BYTES_MAX: usize = 8_192;

/// The plans of earlier goals; the oldest are forgotten first.
#[derive(Debug, Default)]
pub struct ExampleStore {
    plans_max: usize,
    known: Mutex<VecDeque<StoredExample>>,
}

#[derive(Debug)]
struct StoredExample {
    example: Example,
    runs: BTreeSet<String>,
}

/// An earlier goal and its plan, as a prompt shows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    pub goal: String,
    /// JSON.
    pub plan: String,
    /// `plan p0-01kb…`, or `earlier plan` until it has ended.
    pub source: String,
    /// `completed`, `partial`; empty until it has ended.
    pub outcome: String,
}

impl ExampleStore {
    /// - `plans_max`: 0 remembers nothing.
    pub fn new(plans_max: usize) -> Self {
        Self { plans_max, known: Mutex::default() }
    }

    /// Whether plans are remembered at all.
    pub fn is_on(&self) -> bool {
        self.plans_max > 0
    }

    /// Remembers a valid plan; a goal that is known gets the newer one.
    pub fn store(&self, goal: &str, plan: &Plan) {
        if self.plans_max == 0 {
            return;
        }
        self.add(goal, plan, NO_PLAN_YET.into(), String::new());
    }

    /// Records how the plan of a goal ended. A plan that came to nothing is forgotten.
    ///
    /// - `plan`: as it ended, with its revisions.
    pub fn record_outcome(&self, plan_id: &PlanId, goal: &str, plan: &Plan, status: PlanStatus) {
        if self.plans_max == 0 || goal.is_empty() {
            return;
        }
        match status {
            PlanStatus::Completed | PlanStatus::Partial => {
                self.add(goal, plan, format!("plan {plan_id}"), status.as_str().into());
            }
            PlanStatus::Failed => {
                let goal: String = goal.chars().take(GOAL_CHARS_MAX).collect();
                self.all().retain(|old| old.example.goal != goal || !old.example.outcome.is_empty());
            }
            PlanStatus::Planning
            | PlanStatus::AwaitingApproval
            | PlanStatus::Running
            | PlanStatus::Replanning
            | PlanStatus::Paused
            | PlanStatus::Cancelled
            | PlanStatus::Rejected => {}
        }
    }

    fn add(&self, goal: &str, plan: &Plan, source: String, outcome: String) {
        let text = written(plan).to_string();
        if text.len() > PLAN_BYTES_MAX {
            return;
        }
        let goal: String = goal.chars().take(GOAL_CHARS_MAX).collect();
        let known = StoredExample { runs: runs(&goal), example: Example { goal, plan: text, source, outcome } };
        let mut all = self.all();
        all.retain(|old| old.example.goal != known.example.goal);
        while all.len() >= self.plans_max {
            all.pop_front();
        }
        all.push_back(known);
    }

    /// The plans of the goals most like this one, best first.
    pub fn nearest(&self, goal: &str, most: usize) -> Vec<Example> {
        self.ranked(goal, most).into_iter().map(|(_, example)| example).collect()
    }

    /// With the likeness of the goals, 0 to 1.
    fn ranked(&self, goal: &str, most: usize) -> Vec<(f64, Example)> {
        if self.plans_max == 0 || most == 0 {
            return Vec::new();
        }
        let asked = runs(goal);
        let all = self.all();
        let mut near: Vec<(f64, &StoredExample)> =
            all.iter().map(|known| (likeness(&asked, &known.runs), known)).collect();
        near.retain(|(likeness, _)| *likeness >= LIKENESS_MIN);
        near.sort_by(|a, b| b.0.total_cmp(&a.0));
        near.into_iter().take(most).map(|(likeness, known)| (likeness, known.example.clone())).collect()
    }

    /// The same as passages for a prompt.
    pub fn passages(&self, goal: &str, most: usize) -> Vec<Passage> {
        let passage = |(likeness, example): (f64, Example)| {
            let outcome =
                if example.outcome.is_empty() { String::new() } else { format!("\nOutcome: {}", example.outcome) };
            let text = format!("An earlier goal: {}{outcome}\nIts plan: {}", example.goal, example.plan);
            Passage { source: example.source, text, likeness, retriever: "plans" }
        };
        self.ranked(goal, most).into_iter().map(passage).collect()
    }

    fn all(&self) -> MutexGuard<'_, VecDeque<StoredExample>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What of a plan a model is to learn from.
fn written(plan: &Plan) -> Value {
    let steps: Vec<Value> = plan
        .steps
        .iter()
        .map(|step| {
            json!({"id": step.id, "description": step.description, "agent_type": step.agent_type, "action": step.action,
                   "inputs": step.inputs.value(), "dependencies": step.dependencies})
        })
        .collect();
    json!({ "steps": steps })
}

fn runs(text: &str) -> BTreeSet<String> {
    let letters: Vec<char> =
        text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ").chars().take(GOAL_CHARS_MAX).collect();
    letters.windows(RUN).map(|run| run.iter().collect()).collect()
}

/// Jaccard index of two sets of runs.
fn likeness(a: &BTreeSet<String>, b: &BTreeSet<String>) -> f64 {
    let both = a.intersection(b).count();
    let all = a.len() + b.len() - both;
    if all == 0 { 0.0 } else { both as f64 / all as f64 }
}

#[cfg(test)]
mod tests {
    use goalmill_common::plan::Step;

    use super::*;

    fn plan(id: &str) -> Plan {
        Plan { steps: vec![Step::new(id, "a")], ..Plan::default() }
    }

    #[test]
    fn goals_like_this_one_are_found_and_old_ones_forgotten() {
        let examples = ExampleStore::new(2);
        examples.store("plan a trip to Rome", &plan("rome"));
        examples.store("plan a trip to Oslo", &plan("oslo"));
        examples.store("plan a trip to Oslo", &plan("oslo2"));
        let found = examples.nearest("Plan a trip to  Rome in May", 5);
        assert_eq!(
            found.iter().map(|e| e.goal.as_str()).collect::<Vec<_>>(),
            ["plan a trip to Rome", "plan a trip to Oslo"]
        );
        assert!(found[1].plan.contains("oslo2"));
        examples.store("bake bread", &plan("bread"));
        assert_eq!(examples.nearest("plan a trip to Rome", 5).len(), 1);
        assert_eq!(examples.nearest("quantum field theory", 5), []);
        let id = PlanId::from("p0-1");
        let store = ExampleStore::new(0);
        store.record_outcome(&id, "bake bread", &plan("bread"), PlanStatus::Completed);
        assert_eq!(store.nearest("bake bread", 5), []);
        assert_eq!(ExampleStore::new(0).nearest("bake bread", 5), []);
    }

    #[test]
    fn a_plan_that_ended_is_shown_with_its_outcome_and_one_that_failed_is_forgotten() {
        let (store, id) = (ExampleStore::new(5), PlanId::from("p0-1"));
        store.store("bake bread", &plan("a"));
        store.store("bake a cake", &plan("b"));
        store.record_outcome(&id, "bake bread", &plan("revised"), PlanStatus::Completed);
        store.record_outcome(&id, "bake a cake", &plan("b"), PlanStatus::Failed);
        let found = store.passages("bake bread", 5);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].source.as_str(), found[0].retriever), ("plan p0-1", "plans"));
        assert!(found[0].text.contains("completed") && found[0].text.contains("revised"));
        store.record_outcome(&id, "bake bread", &plan("c"), PlanStatus::Failed);
        assert_eq!(store.nearest("bake bread", 5).len(), 1, "one that succeeded before stays");
    }
}
