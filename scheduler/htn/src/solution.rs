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
    pub fn plan(&self) -> Vec<String> {
        self.actions().map(|n| format!("({})", self.nodes[n].words())).collect()
    }

    /// The plan in the text format of the International Planning Competition 2020.
    ///
    /// Source: G. Behnke et al., "HDDL plan output", IPC 2020, track on hierarchical planning.
    pub fn to_text(&self) -> String {
        let mut text = String::from("==>\n");
        for n in self.actions() {
            text += &format!("{n} {}\n", self.nodes[n].words());
        }
        text += &format!("root{}\n", numbers(&self.roots));
        for (n, node) in self.nodes.iter().enumerate() {
            if let Some(method) = &node.method {
                text += &format!("{n} {} -> {}{}\n", node.words(), method.name, numbers(&method.children));
            }
        }
        text + "<==\n"
    }
}

impl PlanNode {
    pub fn words(&self) -> String {
        let words: Vec<&str> =
            std::iter::once(self.task.as_str()).chain(self.arguments.iter().map(String::as_str)).collect();
        words.join(" ")
    }
}

fn numbers(nodes: &[usize]) -> String {
    nodes.iter().map(|n| format!(" {n}")).collect()
}
