//! What the tasks of a workflow are called, and where their outputs are read.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::import::conversion::{Place, path};

/// The tasks of one plan, and of the plans around it.
pub(super) struct ConductorScope<'s> {
    outer: Option<&'s ConductorScope<'s>>,
    /// The loop that the plan is the body of.
    pub(super) looping: Option<String>,
    pub(super) own: BTreeSet<String>,
    /// Task in a loop of this plan → the loop.
    in_loops: BTreeMap<String, String>,
    /// What is read from outside.
    pub(super) read: RefCell<BTreeSet<String>>,
}

impl<'s> ConductorScope<'s> {
    pub(super) fn new(tasks: &[Place<'_>], outer: Option<(&'s ConductorScope<'s>, &str)>) -> Self {
        let (mut own, mut in_loops) = (BTreeSet::new(), BTreeMap::new());
        find_names(tasks, None, &mut own, &mut in_loops);
        let looping = outer.map(|(_, name)| name.to_owned());
        Self { outer: outer.map(|(scope, _)| scope), looping, own, in_loops, read: RefCell::default() }
    }

    pub(super) fn free_id(&self, id: &str) -> String {
        let taken = |id: &str| self.own.contains(id);
        if taken(id) { format!("{id}_of_workflow") } else { id.to_owned() }
    }

    /// The outputs of a task, as an expression.
    pub(super) fn outputs(&self, task: &str) -> Option<String> {
        if self.own.contains(task) {
            return Some(path("steps", [task, "outputs"]));
        }
        if let Some(around) = self.in_loops.get(task) {
            return Some(path("steps", [around.as_str(), "outputs", task]));
        }
        self.outer?.outputs(task)?;
        self.read.borrow_mut().insert(task.to_owned());
        Some(path("goal.metadata.inputs", [task]))
    }

    /// The inputs of the workflow, as an expression.
    pub(super) fn inputs(&self) -> String {
        if self.outer.is_none() {
            return "goal.metadata.inputs".to_owned();
        }
        self.read.borrow_mut().insert("workflow".to_owned());
        "goal.metadata.inputs.workflow".to_owned()
    }

    /// What the step around the plan gives to it.
    pub(super) fn given(&self) -> Map<String, Value> {
        let Some(outer) = self.outer else { return Map::new() };
        let value = |name: &String| match name.as_str() {
            "workflow" => format!("{{{{ {} }}}}", outer.inputs()),
            "iteration" => "{{ iteration }}".to_owned(),
            task => format!("{{{{ {} }}}}", outer.outputs(task).unwrap_or_default()),
        };
        self.read.borrow().iter().map(|name| (name.clone(), value(name).into())).collect()
    }
}

/// Collects the reference names of tasks; those in loops are outputs of the loop.
fn find_names(
    tasks: &[Place<'_>],
    looping: Option<&str>,
    own: &mut BTreeSet<String>,
    in_loops: &mut BTreeMap<String, String>,
) {
    for task in tasks {
        let Some(name) = task.text("taskReferenceName") else { continue };
        match looping {
            Some(around) => drop(in_loops.insert(name.to_owned(), around.to_owned())),
            None => drop(own.insert(name.to_owned())),
        }
        for list in inner_lists(task) {
            find_names(&list, looping, own, in_loops);
        }
        if let Some(body) = task.get("loopOver") {
            find_names(&body.items(), looping.or(Some(name)), own, in_loops);
        }
    }
}

/// The lists of tasks of a fork or a switch.
pub(super) fn inner_lists<'v>(task: &Place<'v>) -> Vec<Vec<Place<'v>>> {
    let forks = task.get("forkTasks").map(|forks| forks.items()).unwrap_or_default();
    let cases = task.get("decisionCases").map(|cases| cases.fields()).unwrap_or_default();
    let cases = cases.into_iter().map(|(_, tasks)| tasks);
    forks.into_iter().chain(cases).chain(task.get("defaultCase")).map(|list| list.items()).collect()
}

/// Finds which tasks set each variable.
pub(super) fn find_variables(tasks: &[Place<'_>], found: &mut BTreeMap<String, BTreeSet<String>>) {
    for task in tasks {
        if task.text("type") == Some("SET_VARIABLE")
            && let (Some(name), Some(set)) = (task.text("taskReferenceName"), task.get("inputParameters"))
        {
            for (variable, _) in set.fields() {
                found.entry(variable.to_owned()).or_default().insert(name.to_owned());
            }
        }
        inner_lists(task).iter().for_each(|list| find_variables(list, found));
        if let Some(body) = task.get("loopOver") {
            find_variables(&body.items(), found);
        }
    }
}
