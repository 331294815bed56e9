//! What the tags of a text mean where it stands.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::import::conversion::path;

/// What the tags of a text mean where it stands.
#[derive(Clone, Debug)]
pub(super) struct ArgoScope {
    /// The parameters of the workflow, as an expression.
    pub(super) workflow: String,
    /// Parameter of the template → a text with expressions.
    pub(super) inputs: BTreeMap<String, String>,
    /// Name of a task → the id of its step, and whether it is a plan.
    pub(super) tasks: BTreeMap<String, (String, bool)>,
    /// Whether the steps run after the outcome is known.
    pub(super) in_exit: bool,
    /// Whether a plan inside reads the parameters of the workflow.
    pub(super) reads_workflow: Rc<Cell<bool>>,
}

impl ArgoScope {
    /// Of the entry template, and of those that run at the end.
    pub(super) fn of_workflow() -> Self {
        Self {
            workflow: "goal.metadata.inputs".to_owned(),
            inputs: BTreeMap::new(),
            tasks: BTreeMap::new(),
            in_exit: false,
            reads_workflow: Rc::default(),
        }
    }

    /// Of a template inside, whose step gets these inputs.
    pub(super) fn of_plan_inside<'n>(inputs: impl Iterator<Item = &'n String>) -> Self {
        let read =
            |name: &String| (name.clone(), format!("{{{{ {} }}}}", path("goal.metadata.inputs", [name.as_str()])));
        Self {
            workflow: "goal.metadata.inputs.workflow".to_owned(),
            inputs: inputs.map(read).collect(),
            ..Self::of_workflow()
        }
    }

    /// A tag as a text with expressions.
    pub(super) fn tag_text(&self, tag: &str) -> Option<String> {
        let flat = tag.replace("['", ".").replace("']", "").replace('[', ".").replace(']', "");
        let parts: Vec<&str> = flat.split('.').collect();
        let expression = match parts[..] {
            ["item"] => "item".to_owned(),
            ["item", ref rest @ ..] => path("item", rest.iter().copied()),
            ["inputs", "parameters", name] => return self.inputs.get(name).cloned(),
            ["workflow", "parameters", ref rest @ ..] if !rest.is_empty() => {
                self.reads_workflow.set(true);
                path(&self.workflow, rest.iter().copied())
            }
            ["workflow", "status"] if self.in_exit => "plan.status".to_owned(),
            ["workflow", "failures"] if self.in_exit => "plan.reason".to_owned(),
            ["tasks" | "steps", task, "outputs", ref rest @ ..] if !rest.is_empty() => {
                let (id, is_plan) = self.tasks.get(task)?;
                if *is_plan {
                    return None;
                }
                path(&path("steps", [id.as_str(), "outputs"]), rest.iter().copied())
            }
            ["tasks" | "steps", task, "status"] => path("steps", [self.tasks.get(task)?.0.as_str(), "status"]),
            _ => return None,
        };
        Some(format!("{{{{ {expression} }}}}"))
    }
}
