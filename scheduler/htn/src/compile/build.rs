//! Compiles a domain and a problem: replaces names by numbers.

use std::collections::BTreeMap;

use crate::index::{Object, to_u32};
use crate::model::{self, ActionEffect, Domain, Formula, Network, PlanningProblem, Term, TypedName};

use super::arrange::arrange;
use super::ground_method::assemble;
use super::recursion::mark_recursive;
use super::{
    Arg, CompiledProblem, CompiledTask, Condition, ConditionalEffect, GroundAction, GroundMethod, GroundSubtask,
    Literal, Sort, SortId, TaskId, TaskKind, necessary,
};

/// Most variables of one method; more are no error of the language but of this planner.
const VARIABLES_MAX: usize = 128;

/// Why a problem cannot be searched: a sentence.
pub(crate) type CompileError = String;

/// Resolves every name and pulls conditions up to where they can be tested first.
///
/// - `line`: puts the subtasks of each network one after the other, as written for 0, else in an order that follows from
///   the number. What solves that solves the problem, but not the other way round.
pub(crate) fn compile(
    domain: &Domain,
    problem: &PlanningProblem,
    line: Option<u64>,
) -> Result<CompiledProblem, CompileError> {
    let mut build = NetworkBuild::new(domain, problem);
    build.line = line;
    let mut actions = Vec::new();
    for action in &domain.actions {
        actions.push(build.action(action)?);
    }
    let mut methods = Vec::new();
    for method in &domain.methods {
        methods.push(build.method(method)?);
    }
    let (root, goal) = (build.root(), build.goal());
    let (top, achieved) = build.top(problem, root, goal)?;
    methods.push(top);
    actions.push(achieved);
    let mut compiled = build.finish(problem, actions, methods, root, goal);
    necessary::pull_up(&mut compiled);
    Ok(compiled)
}

struct NetworkBuild<'a> {
    domain: &'a Domain,
    objects: BTreeMap<&'a str, Object>,
    /// Types of each object.
    of: Vec<Vec<&'a [String]>>,
    predicates: BTreeMap<&'a str, u32>,
    tasks: BTreeMap<&'a str, TaskId>,
    sorts: Vec<Sort>,
    sort_ids: BTreeMap<Vec<bool>, SortId>,
    by_types: BTreeMap<Vec<String>, SortId>,
    line: Option<u64>,
}

/// The variables of one rule: where each name stands in the binding.
#[derive(Default)]
struct Variables {
    places: Vec<(String, u16)>,
    width: usize,
}

impl Variables {
    fn declare(&mut self, name: &str) -> Result<u16, CompileError> {
        let place = u16::try_from(self.width).map_err(|_| "a rule has too many variables".to_owned())?;
        self.places.push((name.to_owned(), place));
        self.width += 1;
        Ok(place)
    }

    fn find(&self, name: &str) -> u16 {
        let found = self.places.iter().rev().find(|(n, _)| n == name);
        found.map(|(_, place)| *place).expect("the parser refuses variables that are not declared")
    }
}

impl<'a> NetworkBuild<'a> {
    fn new(domain: &'a Domain, problem: &'a PlanningProblem) -> Self {
        let mut objects = BTreeMap::new();
        let mut of: Vec<Vec<&[String]>> = Vec::new();
        for object in domain.constants.iter().chain(&problem.objects) {
            let id = *objects.entry(object.name.as_str()).or_insert_with(|| {
                of.push(Vec::new());
                to_u32(of.len()) - 1
            });
            of[id as usize].push(&object.types);
        }
        let names = domain.actions.iter().map(|a| a.name.as_str()).chain(domain.tasks.iter().map(|t| t.name.as_str()));
        Self {
            domain,
            objects,
            of,
            predicates: domain.predicates.iter().map(|p| p.name.as_str()).zip(0..).collect(),
            tasks: names.zip(0..).collect(),
            sorts: Vec::new(),
            sort_ids: BTreeMap::new(),
            by_types: BTreeMap::new(),
            line: None,
        }
    }

    fn root(&self) -> TaskId {
        to_u32(self.tasks.len())
    }

    fn goal(&self) -> TaskId {
        self.root() + 1
    }

    fn sort(&mut self, types: &[String]) -> SortId {
        if let Some(id) = self.by_types.get(types) {
            return *id;
        }
        let has = self.of.iter().map(|of| of.iter().any(|have| self.domain.fits(have, types))).collect();
        let id = self.sort_of(has);
        self.by_types.insert(types.to_vec(), id);
        id
    }

    fn sort_of(&mut self, has: Vec<bool>) -> SortId {
        if let Some(id) = self.sort_ids.get(&has) {
            return *id;
        }
        let id = to_u32(self.sorts.len());
        let members = has.iter().zip(0..).filter(|(has, _)| **has).map(|(_, object)| object).collect();
        self.sort_ids.insert(has.clone(), id);
        self.sorts.push(Sort { members, has });
        id
    }

    fn sorts_of(&mut self, parameters: &[TypedName]) -> Vec<SortId> {
        parameters.iter().map(|p| self.sort(&p.types)).collect()
    }

    fn arg(&self, term: &Term, variables: &Variables) -> Arg {
        match term {
            Term::Variable(name) => Arg::Variable(variables.find(name)),
            Term::Constant(name) => Arg::Object(self.objects[name.as_str()]),
        }
    }

    fn literal(&self, atom: &model::Atom, variables: &Variables) -> Literal {
        Literal {
            predicate: self.predicates[atom.predicate.as_str()],
            args: atom.terms.iter().map(|t| self.arg(t, variables)).collect(),
        }
    }

    fn condition(&mut self, formula: &Formula, variables: &mut Variables) -> Result<Condition, CompileError> {
        let all = |this: &mut Self, parts: &[Formula], variables: &mut Variables| {
            parts.iter().map(|p| this.condition(p, variables)).collect::<Result<Vec<_>, _>>()
        };
        Ok(match formula {
            Formula::Atom(atom) => Condition::Fact(self.literal(atom, variables)),
            Formula::Equal(a, b) => Condition::Equal(self.arg(a, variables), self.arg(b, variables)),
            Formula::SortOf(term, types) => Condition::Sort(self.arg(term, variables), self.sort(types)),
            Formula::Not(inner) => Condition::Not(Box::new(self.condition(inner, variables)?)),
            Formula::And(parts) => Condition::And(all(self, parts, variables)?),
            Formula::Or(parts) => Condition::Or(all(self, parts, variables)?),
            Formula::Imply(a, b) => Condition::Or(vec![
                Condition::Not(Box::new(self.condition(a, variables)?)),
                self.condition(b, variables)?,
            ]),
            Formula::Forall(typed, body) => self.quantified(typed, body, variables, Condition::Forall)?,
            Formula::Exists(typed, body) => self.quantified(typed, body, variables, Condition::Exists)?,
        })
    }

    fn quantified(
        &mut self,
        typed: &[TypedName],
        body: &Formula,
        variables: &mut Variables,
        make: fn(u16, SortId, Box<Condition>) -> Condition,
    ) -> Result<Condition, CompileError> {
        let known = variables.places.len();
        let mut places = Vec::new();
        for variable in typed {
            places.push((variables.declare(&variable.name)?, self.sort(&variable.types)));
        }
        let body = self.condition(body, variables)?;
        variables.places.truncate(known);
        Ok(places.into_iter().rev().fold(body, |body, (place, sort)| make(place, sort, Box::new(body))))
    }

    fn action(&mut self, action: &model::ActionSchema) -> Result<GroundAction, CompileError> {
        let mut variables = Variables::default();
        for parameter in &action.parameters {
            variables.declare(&parameter.name)?;
        }
        let condition = self.condition(&action.precondition, &mut variables)?;
        let mut changes = Vec::new();
        self.changes(&action.effect, &mut variables, &[], None, &mut changes)?;
        Ok(GroundAction { sorts: self.sorts_of(&action.parameters), condition, changes, width: variables.width })
    }

    /// Flattens an effect: all that happens under one condition is one change.
    fn changes(
        &mut self,
        effect: &ActionEffect,
        variables: &mut Variables,
        forall: &[(u16, SortId)],
        when: Option<&Condition>,
        into: &mut Vec<ConditionalEffect>,
    ) -> Result<(), CompileError> {
        match effect {
            ActionEffect::And(parts) => {
                for part in parts {
                    self.changes(part, variables, forall, when, into)?;
                }
            }
            ActionEffect::When(condition, inner) => {
                let condition = self.condition(condition, variables)?;
                let both = match when {
                    Some(outer) => Condition::And(vec![outer.clone(), condition]),
                    None => condition,
                };
                self.changes(inner, variables, forall, Some(&both), into)?;
            }
            ActionEffect::Forall(typed, inner) => {
                let known = variables.places.len();
                let mut places = forall.to_vec();
                for variable in typed {
                    places.push((variables.declare(&variable.name)?, self.sort(&variable.types)));
                }
                self.changes(inner, variables, &places, when, into)?;
                variables.places.truncate(known);
            }
            ActionEffect::Add(atom) | ActionEffect::Delete(atom) => {
                let literal = self.literal(atom, variables);
                let plain = forall.is_empty() && when.is_none();
                let join = plain.then(|| into.iter_mut().find(|c| c.forall.is_empty() && c.when.is_none())).flatten();
                let change = match join {
                    Some(change) => change,
                    None => {
                        let (forall, when) = (forall.to_vec(), when.cloned());
                        into.push(ConditionalEffect { forall, when, adds: Vec::new(), deletes: Vec::new() });
                        into.last_mut().expect("one was pushed")
                    }
                };
                if let ActionEffect::Add(_) = effect { change.adds.push(literal) } else { change.deletes.push(literal) }
            }
        }
        Ok(())
    }

    fn method(&mut self, method: &model::MethodSchema) -> Result<GroundMethod, CompileError> {
        let mut variables = Variables::default();
        for parameter in &method.parameters {
            variables.declare(&parameter.name)?;
        }
        if variables.width > VARIABLES_MAX {
            return Err(format!("method `{}` has more than {VARIABLES_MAX} parameters", method.name));
        }
        let condition = self.condition(&method.precondition, &mut variables)?;
        let head = method.terms.iter().map(|t| self.arg(t, &variables)).collect();
        let (subtasks, positions) = self.network(&method.network, &variables);
        let mut sorts = self.sorts_of(&method.parameters);
        self.narrow(&mut sorts, &method.network, &variables);
        Ok(assemble(method.name.clone(), head, sorts, condition, subtasks, positions, variables.width))
    }

    /// A variable that is handed on must fit there as well.
    fn narrow(&mut self, sorts: &mut [SortId], network: &Network, variables: &Variables) {
        for subtask in &network.subtasks {
            for (term, parameter) in subtask.terms.iter().zip(self.parameters(&subtask.task)) {
                let Arg::Variable(v) = self.arg(term, variables) else { continue };
                let wanted = self.sort(&parameter.types);
                let both = |a: &Sort, b: &Sort| a.has.iter().zip(&b.has).map(|(a, b)| *a && *b).collect();
                let has = both(&self.sorts[sorts[v as usize] as usize], &self.sorts[wanted as usize]);
                sorts[v as usize] = self.sort_of(has);
            }
        }
    }

    fn parameters(&self, task: &str) -> &'a [TypedName] {
        let action = self.domain.actions.iter().find(|a| a.name == task).map(|a| a.parameters.as_slice());
        let task = || self.domain.tasks.iter().find(|t| t.name == task).map(|t| t.parameters.as_slice());
        action.or_else(task).unwrap_or_default()
    }

    fn network(&self, network: &Network, variables: &Variables) -> (Vec<GroundSubtask>, Vec<usize>) {
        let calls = network
            .subtasks
            .iter()
            .map(|s| (self.tasks[s.task.as_str()], s.terms.iter().map(|t| self.arg(t, variables)).collect::<Vec<_>>()));
        arrange(calls.collect(), &network.before, self.line)
    }

    /// The initial network as a method of `root`, ending in `goal`.
    fn top(
        &mut self,
        problem: &PlanningProblem,
        root: TaskId,
        goal: TaskId,
    ) -> Result<(GroundMethod, GroundAction), CompileError> {
        let mut variables = Variables::default();
        for parameter in &problem.parameters {
            variables.declare(&parameter.name)?;
        }
        if variables.width > VARIABLES_MAX {
            return Err(format!("the initial network has more than {VARIABLES_MAX} parameters"));
        }
        let condition = self.condition(&problem.constraint, &mut variables)?;
        let mut sorts = self.sorts_of(&problem.parameters);
        self.narrow(&mut sorts, &problem.network, &variables);
        let mut calls: Vec<(TaskId, Vec<Arg>)> = Vec::new();
        for subtask in &problem.network.subtasks {
            let args = subtask.terms.iter().map(|t| self.arg(t, &variables)).collect();
            calls.push((self.tasks[subtask.task.as_str()], args));
        }
        let end = calls.len();
        let before: Vec<_> = problem.network.before.iter().copied().chain((0..end).map(|n| (n, end))).collect();
        calls.push((goal, Vec::new()));
        let (subtasks, positions) = arrange(calls, &before, self.line);
        debug_assert!(root < goal);
        let top = assemble(String::new(), Vec::new(), sorts, condition, subtasks, positions, variables.width);
        let mut variables = Variables::default();
        let condition = self.condition(&problem.goal, &mut variables)?;
        Ok((top, GroundAction { sorts: Vec::new(), condition, changes: Vec::new(), width: variables.width }))
    }

    fn finish(
        self,
        problem: &PlanningProblem,
        mut actions: Vec<GroundAction>,
        methods: Vec<GroundMethod>,
        root: TaskId,
        goal: TaskId,
    ) -> CompiledProblem {
        let achieved = actions.pop().expect("the goal was pushed last");
        let mut tasks: Vec<CompiledTask> = Vec::new();
        for (action, source) in actions.into_iter().zip(&self.domain.actions) {
            tasks.push(CompiledTask { name: source.name.clone(), kind: TaskKind::Primitive(action), recursive: false });
        }
        for task in &self.domain.tasks {
            let of = self.domain.methods.iter().zip(0..).filter(|(m, _)| m.task == task.name).map(|(_, id)| id);
            tasks.push(CompiledTask {
                name: task.name.clone(),
                kind: TaskKind::Compound(of.collect()),
                recursive: false,
            });
        }
        let top = to_u32(methods.len()) - 1;
        tasks.push(CompiledTask { name: String::new(), kind: TaskKind::Compound(vec![top]), recursive: false });
        tasks.push(CompiledTask { name: String::new(), kind: TaskKind::Primitive(achieved), recursive: false });
        let init = problem.init.iter().map(|(predicate, arguments)| {
            let head = std::iter::once(self.predicates[predicate.as_str()]);
            head.chain(arguments.iter().map(|a| self.objects[a.as_str()])).collect()
        });
        let mut compiled = CompiledProblem {
            init: init.collect(),
            arities: self.domain.predicates.iter().map(|p| p.parameters.len()).collect(),
            objects: names(&self.objects),
            sorts: self.sorts,
            tasks,
            methods,
            root,
            goal,
        };
        mark_recursive(&mut compiled);
        compiled
    }
}

fn names(objects: &BTreeMap<&str, Object>) -> Vec<String> {
    let mut names = vec![String::new(); objects.len()];
    for (name, id) in objects {
        (*name).clone_into(&mut names[*id as usize]);
    }
    names
}
