//! The forms of documents that other planners write.

use serde::{Deserialize, Serialize};

use crate::word_enum::word_enum;

word_enum! {
    /// The form of a document that another planner writes.
    DocumentFormat {
        /// Goals, plans and capability cards with `goal_id`, `subtasks`, `agent_type`.
        Subtasks = "subtasks",
        /// Plans of plan-and-execute agents: a goal, steps with fallbacks, a configuration.
        PlanAndExecute = "plan_and_execute",
        /// Plan actions: nested subtasks with their results, and workflows of `plan.*` actions.
        Actions = "actions",
        /// Plans in phases, of planner tools.
        Phases = "phases",
        /// Nodes and edges of a planner contract, and its streams of steps.
        Nodes = "nodes",
    }
}

impl DocumentFormat {
    /// The form by its name, or by another name that people know it under.
    pub fn find(name: &str) -> Option<Self> {
        let folded = name.trim().to_ascii_lowercase().replace([' ', '-', '/'], "_");
        Some(match folded.as_str() {
            "f1" | "goal_subtasks" | "subtask" | "sub_tasks" => Self::Subtasks,
            "f2" | "goal_steps" | "plan_execute" | "steps" => Self::PlanAndExecute,
            "f3" | "plan_actions" | "plan_action" => Self::Actions,
            "f4" | "phase" => Self::Phases,
            "f5" | "nodes_edges" | "edges" => Self::Nodes,
            other => return Self::parse(other),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_found_by_its_name() {
        for form in DocumentFormat::ALL {
            assert_eq!(DocumentFormat::find(form.as_str()), Some(*form));
            assert_eq!(DocumentFormat::find(&form.as_str().replace('_', "-")), Some(*form));
        }
        assert_eq!(DocumentFormat::find("nodes/edges"), Some(DocumentFormat::Nodes));
        assert_eq!(DocumentFormat::find("nonsense"), None);
    }
}
