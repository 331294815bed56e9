//! Workflows of any size and shape, made from a seed: as traces in WfFormat and as plans.

use goalmill_common::number::to_usize;
use goalmill_common::random::Random;
use serde_json::{Value, json};

/// How a workflow looks.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub steps: usize,
    /// Steps beside each other, about.
    pub width: usize,
    /// Most parents of one step.
    pub parents_max: usize,
    /// Longest traced runtime in seconds; runtimes are anywhere from 0 to it.
    pub seconds_max: f64,
}

/// One made workflow: step `n` depends on earlier steps only.
#[derive(Clone, Debug)]
pub struct Workflow {
    pub parents: Vec<Vec<usize>>,
    pub seconds: Vec<f64>,
}

/// Makes a workflow in layers, with a join here and there: the same one for the same seed.
pub fn workflow(shape: Shape, seed: u64) -> Workflow {
    let random = Random::seeded(seed);
    let below = |n: usize| to_usize(random.below(n as u64));
    let (mut parents, mut seconds) = (Vec::new(), Vec::new());
    let mut before = 0..0;
    while parents.len() < shape.steps {
        let start = parents.len();
        let joins = start > 0 && below(4) == 0;
        let width = if joins { 1 } else { 1 + below(shape.width * 2) }.min(shape.steps - start);
        for _ in 0..width {
            let mut chosen = Vec::new();
            if joins {
                chosen.extend(before.clone());
            } else if !before.is_empty() {
                for _ in 0..=below(shape.parents_max) {
                    // Mostly the layer before, at times any step before.
                    let parent = if below(5) == 0 { below(start) } else { before.start + below(before.len()) };
                    if !chosen.contains(&parent) {
                        chosen.push(parent);
                    }
                }
            }
            parents.push(chosen);
            seconds.push(shape.seconds_max * below(1_000) as f64 / 1_000.0);
        }
        before = start..parents.len();
    }
    Workflow { parents, seconds }
}

impl Workflow {
    fn id(n: usize) -> String {
        format!("task_{n:05}")
    }

    /// The trace as WfCommons would write it.
    pub fn wfformat(&self, name: &str) -> Value {
        let mut children = vec![Vec::new(); self.parents.len()];
        for (n, parents) in self.parents.iter().enumerate() {
            for parent in parents {
                children[*parent].push(Self::id(n));
            }
        }
        let specification: Vec<Value> = self
            .parents
            .iter()
            .zip(children)
            .enumerate()
            .map(|(n, (parents, children))| {
                let parents: Vec<String> = parents.iter().map(|parent| Self::id(*parent)).collect();
                json!({"name": format!("task {n}"), "id": Self::id(n), "parents": parents, "children": children})
            })
            .collect();
        let execution: Vec<Value> = self
            .seconds
            .iter()
            .enumerate()
            .map(|(n, seconds)| json!({"id": Self::id(n), "runtimeInSeconds": seconds}))
            .collect();
        json!({
            "name": name,
            "schemaVersion": "1.5",
            "workflow": {"specification": {"tasks": specification}, "execution": {"tasks": execution}},
        })
    }

    /// The workflow as a plan of steps that sleep.
    pub fn plan(&self, name: &str) -> Value {
        let steps: Vec<Value> = self
            .parents
            .iter()
            .zip(&self.seconds)
            .enumerate()
            .map(|(n, (parents, seconds))| {
                let parents: Vec<String> = parents.iter().map(|parent| Self::id(*parent)).collect();
                json!({"id": Self::id(n), "agent_type": "sleep", "dependencies": parents, "inputs": {"seconds": seconds}})
            })
            .collect();
        json!({"name": name, "steps": steps})
    }
}

/// Steps that sleep beside each other.
pub fn sleeps(name: &str, steps: usize, seconds: f64) -> Value {
    Workflow { parents: vec![Vec::new(); steps], seconds: vec![seconds; steps] }.plan(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_workflow_with_parents_before_children() {
        let shape = Shape { steps: 500, width: 8, parents_max: 3, seconds_max: 2.0 };
        let made = workflow(shape, 7);
        assert_eq!(made.parents.len(), 500);
        assert_eq!(made.wfformat("w"), workflow(shape, 7).wfformat("w"));
        assert_ne!(made.wfformat("w"), workflow(shape, 8).wfformat("w"));
        assert!(made.parents.iter().enumerate().all(|(n, parents)| parents.iter().all(|parent| *parent < n)));
        assert!(made.parents.iter().any(|parents| parents.len() > 1), "there are joins");
    }
}
