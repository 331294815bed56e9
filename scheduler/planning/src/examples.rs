//! Example store and retriever: earlier goals with valid plans, shown in prompts for similar goals. In memory, bounded.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use goalmill_common::plan::Plan;
use serde_json::{Value, json};

/// Letters of one run.
const RUN: usize = 3;
/// Least likeness of two goals, 0 to 1.
const LIKENESS_MIN: f64 = 0.25;
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
}

impl ExampleStore {
    /// - `plans_max`: 0 remembers nothing.
    pub fn new(plans_max: usize) -> Self {
        Self { plans_max, known: Mutex::default() }
    }

    /// Remembers a valid plan; a goal that is known gets the newer one.
    pub fn store(&self, goal: &str, plan: &Plan) {
        if self.plans_max == 0 {
            return;
        }
        let text = written(plan).to_string();
        if text.len() > PLAN_BYTES_MAX {
            return;
        }
        let goal: String = goal.chars().take(GOAL_CHARS_MAX).collect();
        let known = StoredExample { runs: runs(&goal), example: Example { goal, plan: text } };
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|old| old.example.goal != known.example.goal);
        while all.len() >= self.plans_max {
            all.pop_front();
        }
        all.push_back(known);
    }

    /// The plans of the goals most like this one, best first.
    pub fn retrieve(&self, goal: &str, most: usize) -> Vec<Example> {
        if self.plans_max == 0 || most == 0 {
            return Vec::new();
        }
        let asked = runs(goal);
        let all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut near: Vec<(f64, &StoredExample)> =
            all.iter().map(|known| (likeness(&asked, &known.runs), known)).collect();
        near.retain(|(likeness, _)| *likeness >= LIKENESS_MIN);
        near.sort_by(|a, b| b.0.total_cmp(&a.0));
        near.into_iter().take(most).map(|(_, known)| known.example.clone()).collect()
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
        let found = examples.retrieve("Plan a trip to  Rome in May", 5);
        assert_eq!(
            found.iter().map(|e| e.goal.as_str()).collect::<Vec<_>>(),
            ["plan a trip to Rome", "plan a trip to Oslo"]
        );
        assert!(found[1].plan.contains("oslo2"));
        examples.store("bake bread", &plan("bread"));
        assert_eq!(examples.retrieve("plan a trip to Rome", 5).len(), 1);
        assert_eq!(examples.retrieve("quantum field theory", 5), []);
        assert_eq!(ExampleStore::new(0).retrieve("bake bread", 5), []);
    }
}
