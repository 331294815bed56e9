//! Checks a plan with its decomposition against domain and problem.
//!
//! Independent of the planner: it shares only the parsed files and works on names.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_htn::{
    ActionEffect, ActionSchema, Atom, Decomposition, Domain, Formula, Network, PlanningProblem, Solution, Term,
    TypedName,
};

/// Checks every precondition, method and ordering of a solution, in the order of its events; the error names the node.
pub fn check(domain: &Domain, problem: &PlanningProblem, solution: &Solution) -> Result<(), String> {
    let mut replay = Replay::new(domain, problem, solution)?;
    for event in &solution.events {
        replay.apply(*event).map_err(|detail| format!("node {event}: {detail}"))?;
    }
    replay.end()
}

/// Whether the actions of a solution can be done in another order and reach the goal.
///
/// - `order`: positions in [`Solution::action_lines`].
pub fn check_order(
    domain: &Domain,
    problem: &PlanningProblem,
    solution: &Solution,
    order: &[usize],
) -> Result<(), String> {
    let mut replay = Replay::new(domain, problem, solution)?;
    let actions: Vec<usize> = solution.actions().collect();
    for position in order {
        let node = &solution.nodes[actions[*position]];
        let action = domain.actions.iter().find(|action| action.name == node.task);
        replay.world.act(action.ok_or("an action is unknown")?, &node.arguments)?;
    }
    let is_reached = replay.world.holds(&problem.goal, &Vec::new());
    if is_reached { Ok(()) } else { Err("the goal does not hold at the end".into()) }
}

type Fact<'a> = (&'a str, Vec<&'a str>);
type Binding<'a> = Vec<(&'a str, &'a str)>;

struct CheckState<'a> {
    domain: &'a Domain,
    objects: BTreeMap<&'a str, Vec<&'a [String]>>,
    facts: BTreeSet<Fact<'a>>,
}

/// Position of a node: its parent and its index among the subtasks.
#[derive(Clone, Copy)]
struct NodePosition {
    parent: Option<usize>,
    position: usize,
}

struct Replay<'a> {
    world: CheckState<'a>,
    problem: &'a PlanningProblem,
    solution: &'a Solution,
    places: Vec<Option<NodePosition>>,
    applied: Vec<bool>,
    /// Unfinished children; an action has none.
    open: Vec<usize>,
    finished: Vec<bool>,
}

impl<'a> Replay<'a> {
    fn new(domain: &'a Domain, problem: &'a PlanningProblem, solution: &'a Solution) -> Result<Self, String> {
        let mut objects: BTreeMap<&str, Vec<&[String]>> = BTreeMap::new();
        for object in domain.constants.iter().chain(&problem.objects) {
            objects.entry(&object.name).or_default().push(&object.types);
        }
        let facts = problem.init.iter().map(|(p, a)| (p.as_str(), a.iter().map(String::as_str).collect())).collect();
        let world = CheckState { domain, objects, facts };
        let count = solution.nodes.len();
        let mut replay = Self {
            world,
            problem,
            solution,
            places: vec![None; count],
            applied: vec![false; count],
            open: vec![0; count],
            finished: vec![false; count],
        };
        let binding = replay.world.bind(&problem.parameters, &solution.binding)?;
        if !replay.world.holds(&problem.constraint, &binding) {
            return Err("the constraint on the initial network does not hold".into());
        }
        replay.attach_children(None, &solution.roots, &problem.network, &binding)?;
        Ok(replay)
    }

    /// Checks the children of a node against the network of its method.
    fn attach_children(
        &mut self,
        parent: Option<usize>,
        children: &[usize],
        network: &'a Network,
        binding: &Binding<'a>,
    ) -> Result<(), String> {
        if children.len() != network.subtasks.len() {
            return Err(format!("{} subtasks are expected, not {}", network.subtasks.len(), children.len()));
        }
        for (position, (child, subtask)) in children.iter().zip(&network.subtasks).enumerate() {
            let Some(node) = self.solution.nodes.get(*child) else {
                return Err(format!("there is no node {child}"));
            };
            let wanted: Vec<&str> = subtask.terms.iter().map(|t| value(t, binding)).collect();
            if node.task != subtask.task || !node.arguments.iter().map(String::as_str).eq(wanted.iter().copied()) {
                return Err(format!("node {child} is not `{} {}`", subtask.task, wanted.join(" ")));
            }
            if self.places[*child].replace(NodePosition { parent, position }).is_some() {
                return Err(format!("node {child} occurs twice"));
            }
        }
        Ok(())
    }

    fn apply(&mut self, n: usize) -> Result<(), String> {
        let Some(place) = self.places.get(n).copied().flatten() else {
            return Err("comes from no method that was taken before".into());
        };
        if std::mem::replace(&mut self.applied[n], true) {
            return Err("is done twice".into());
        }
        self.is_its_turn(place)?;
        let node = &self.solution.nodes[n];
        match &node.method {
            Some(taken) => self.apply_method(n, taken),
            None => {
                let action = self.world.domain.actions.iter().find(|a| a.name == node.task);
                let action = action.ok_or_else(|| format!("`{}` is no action, and no method is named", node.task))?;
                self.world.act(action, &node.arguments)?;
                self.finish(n);
                Ok(())
            }
        }
    }

    /// Whether everything that must come before is finished.
    fn is_its_turn(&self, place: NodePosition) -> Result<(), String> {
        let (network, children) = match place.parent {
            None => (&self.problem.network, &self.solution.roots),
            Some(parent) => {
                let taken = self.solution.nodes[parent].method.as_ref();
                let taken = taken.ok_or_else(|| format!("node {parent} is an action and has no children"))?;
                (&self.world.domain.methods[taken.index].network, &taken.children)
            }
        };
        let early = network.before.iter().find(|(a, b)| *b == place.position && !self.finished[children[*a]]);
        match early {
            Some((a, _)) => Err(format!("comes before node {} is finished", children[*a])),
            None => Ok(()),
        }
    }

    fn apply_method(&mut self, n: usize, taken: &'a Decomposition) -> Result<(), String> {
        let node = &self.solution.nodes[n];
        let method = self.world.domain.methods.get(taken.index).filter(|m| m.name == taken.name);
        let method = method.ok_or_else(|| format!("there is no method `{}`", taken.name))?;
        if method.task != node.task {
            return Err(format!("method `{}` is for `{}`, not for `{}`", method.name, method.task, node.task));
        }
        let binding = self.world.bind(&method.parameters, &taken.binding)?;
        let task = self.world.domain.tasks.iter().find(|t| t.name == node.task);
        let task = task.ok_or_else(|| format!("`{}` is no compound task", node.task))?;
        self.world.bind(&task.parameters, &node.arguments)?;
        let head = method.terms.iter().map(|t| value(t, &binding));
        if !head.eq(node.arguments.iter().map(String::as_str)) {
            return Err(format!("method `{}` is bound to other arguments", method.name));
        }
        if !self.world.holds(&method.precondition, &binding) {
            return Err(format!("the precondition of method `{}` does not hold", method.name));
        }
        self.attach_children(Some(n), &taken.children, &method.network, &binding)?;
        self.open[n] = taken.children.len();
        if taken.children.is_empty() {
            self.finish(n);
        }
        Ok(())
    }

    fn finish(&mut self, n: usize) {
        let mut done = Some(n);
        while let Some(n) = done {
            self.finished[n] = true;
            done = self.places[n].and_then(|p| p.parent).filter(|parent| {
                self.open[*parent] -= 1;
                self.open[*parent] == 0
            });
        }
    }

    fn end(&self) -> Result<(), String> {
        if let Some(n) = self.finished.iter().position(|f| !f) {
            return Err(format!("node {n}: is never finished"));
        }
        if !self.world.holds(&self.problem.goal, &Vec::new()) {
            return Err("the goal does not hold at the end".into());
        }
        Ok(())
    }
}

impl<'a> CheckState<'a> {
    fn is_of(&self, object: &str, types: &[String]) -> bool {
        let have = self.objects.get(object);
        have.is_some_and(|have| have.iter().any(|have| self.domain.fits(have, types)))
    }

    fn bind(&self, parameters: &'a [TypedName], values: &'a [String]) -> Result<Binding<'a>, String> {
        if parameters.len() != values.len() {
            return Err(format!("{} values are expected, not {}", parameters.len(), values.len()));
        }
        for (parameter, value) in parameters.iter().zip(values) {
            if !self.is_of(value, &parameter.types) {
                return Err(format!("`{value}` does not fit `{}`", parameter.name));
            }
        }
        Ok(parameters.iter().map(|p| p.name.as_str()).zip(values.iter().map(String::as_str)).collect())
    }

    fn members(&self, typed: &TypedName) -> Vec<&'a str> {
        self.objects.keys().copied().filter(|object| self.is_of(object, &typed.types)).collect()
    }

    /// All ways to bind the variables in addition to what is bound.
    fn extensions(&self, typed: &'a [TypedName], binding: &Binding<'a>) -> Vec<Binding<'a>> {
        let mut all = vec![binding.clone()];
        for variable in typed {
            let members = self.members(variable);
            let extend = |b: Binding<'a>| {
                members
                    .iter()
                    .map(move |m| b.iter().copied().chain([(variable.name.as_str(), *m)]).collect())
                    .collect::<Vec<_>>()
            };
            all = all.into_iter().flat_map(extend).collect();
        }
        all
    }

    fn holds(&self, formula: &'a Formula, binding: &Binding<'a>) -> bool {
        match formula {
            Formula::Atom(atom) => self.facts.contains(&fact(atom, binding)),
            Formula::Equal(a, b) => value(a, binding) == value(b, binding),
            Formula::SortOf(term, types) => self.is_of(value(term, binding), types),
            Formula::Not(inner) => !self.holds(inner, binding),
            Formula::And(parts) => parts.iter().all(|p| self.holds(p, binding)),
            Formula::Or(parts) => parts.iter().any(|p| self.holds(p, binding)),
            Formula::Imply(a, b) => !self.holds(a, binding) || self.holds(b, binding),
            Formula::Forall(typed, body) => self.extensions(typed, binding).iter().all(|b| self.holds(body, b)),
            Formula::Exists(typed, body) => self.extensions(typed, binding).iter().any(|b| self.holds(body, b)),
        }
    }

    fn act(&mut self, action: &'a ActionSchema, arguments: &'a [String]) -> Result<(), String> {
        let binding = self.bind(&action.parameters, arguments)?;
        if !self.holds(&action.precondition, &binding) {
            return Err(format!("the precondition of `{} {}` does not hold", action.name, arguments.join(" ")));
        }
        let (mut adds, mut deletes) = (Vec::new(), Vec::new());
        self.gather(&action.effect, &binding, &mut adds, &mut deletes);
        for fact in &deletes {
            self.facts.remove(fact);
        }
        self.facts.extend(adds);
        Ok(())
    }

    fn gather(
        &self,
        effect: &'a ActionEffect,
        binding: &Binding<'a>,
        adds: &mut Vec<Fact<'a>>,
        deletes: &mut Vec<Fact<'a>>,
    ) {
        match effect {
            ActionEffect::Add(atom) => adds.push(fact(atom, binding)),
            ActionEffect::Delete(atom) => deletes.push(fact(atom, binding)),
            ActionEffect::And(parts) => parts.iter().for_each(|p| self.gather(p, binding, adds, deletes)),
            ActionEffect::When(condition, inner) => {
                if self.holds(condition, binding) {
                    self.gather(inner, binding, adds, deletes);
                }
            }
            ActionEffect::Forall(typed, inner) => {
                for binding in self.extensions(typed, binding) {
                    self.gather(inner, &binding, adds, deletes);
                }
            }
        }
    }
}

/// Inner variables hide outer ones.
fn value<'a>(term: &'a Term, binding: &Binding<'a>) -> &'a str {
    match term {
        Term::Constant(name) => name,
        Term::Variable(name) => binding.iter().rev().find(|(n, _)| n == name).map_or("", |(_, value)| value),
    }
}

fn fact<'a>(atom: &'a Atom, binding: &Binding<'a>) -> Fact<'a> {
    (&atom.predicate, atom.terms.iter().map(|t| value(t, binding)).collect())
}
