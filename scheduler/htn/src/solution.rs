//! A plan with its decomposition.

use serde::{Deserialize, Serialize};

/// A task of the decomposition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanNode {
    pub task: String,
    pub arguments: Vec<String>,
    /// The method of a compound task; `None` for an action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Decomposition>,
}

/// A method with its variables bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decomposition {
    /// Position among the domain's methods; names need not be unique.
    pub index: usize,
    pub name: String,
    /// Values of the method's parameters.
    pub binding: Vec<String>,
    /// Positions in `Solution::nodes`, in the order of the method's subtasks.
    pub children: Vec<usize>,
}

/// The position of a node whose action or method was applied.
pub type Event = usize;

/// A plan and its decomposition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Solution {
    pub nodes: Vec<PlanNode>,
    /// The tasks of the initial network, in order.
    pub roots: Vec<usize>,
    /// Values of the initial network's parameters.
    pub binding: Vec<String>,
    /// Nodes in the order in which they were applied.
    pub events: Vec<Event>,
}

impl Solution {
    /// Nodes of the actions, in order of execution.
    pub fn actions(&self) -> impl Iterator<Item = usize> {
        self.events.iter().copied().filter(|n| self.nodes[*n].method.is_none())
    }

    /// One line per action: `(name argument …)`.
    pub fn action_lines(&self) -> Vec<String> {
        self.actions().map(|n| format!("({})", self.nodes[n].words())).collect()
    }
}

impl PlanNode {
    pub fn words(&self) -> String {
        let words: Vec<&str> =
            std::iter::once(self.task.as_str()).chain(self.arguments.iter().map(String::as_str)).collect();
        words.join(" ")
    }
}
