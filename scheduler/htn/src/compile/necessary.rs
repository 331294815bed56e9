//! Pulls conditions up: what the subtasks of a method cannot do without is asked of the method itself.
//!
//! A fact that a later subtask needs, and that nothing before it could make true, must hold when the method is taken.
//! Source: the "pull up" of M. C. Magnaguagno, F. Meneguzzi, L. de Silva, "HyperTensioN: A three-stage compiler for
//! planning", IPC 2020; here for compound subtasks as well, as a greatest fixed point.

use std::collections::BTreeSet;

use super::{Arg, Compiled, Condition, Kind, Literal, Method};

/// A fact that must hold, or must not.
type Demand = (Literal, bool);

/// What a task may make true, and what it may make false, by predicate.
#[derive(Clone, PartialEq)]
struct Touched {
    adds: Vec<bool>,
    deletes: Vec<bool>,
}

pub(super) fn pull_up(compiled: &mut Compiled) {
    let touched = touched(compiled);
    let ordered = compiled.methods.iter().all(is_chain);
    // None: nothing is known yet, every demand is possible.
    let mut needs: Vec<Option<BTreeSet<Demand>>> = compiled.tasks.iter().map(|_| None).collect();
    loop {
        let mut changed = false;
        for task in 0..compiled.tasks.len() {
            let found = match &compiled.tasks[task].kind {
                Kind::Primitive(action) => Some(demands(&action.condition, action.sorts.len())),
                Kind::Compound(methods) => methods
                    .iter()
                    .map(|m| &compiled.methods[*m as usize])
                    .filter_map(|m| of_method(m, &needs, &touched, ordered).map(|found| project(m, &found)))
                    .reduce(|a, b| a.intersection(&b).cloned().collect()),
            };
            if found != needs[task] {
                needs[task] = found;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    for n in 0..compiled.methods.len() {
        let found = of_method(&compiled.methods[n], &needs, &touched, ordered);
        let method = &mut compiled.methods[n];
        for (literal, holds) in found.into_iter().flatten() {
            let fact = Condition::Fact(literal);
            let condition = if holds { fact } else { Condition::Not(Box::new(fact)) };
            if !method.checks.iter().any(|c| c.condition == condition) {
                method.demand(condition);
            }
        }
    }
}

/// Whether each subtask waits for the one before it.
pub(crate) fn is_chain(method: &Method) -> bool {
    method.subtasks.iter().enumerate().all(|(n, s)| n + 1 == method.subtasks.len() || s.after == [n + 1])
}

fn demands(condition: &Condition, width: usize) -> BTreeSet<Demand> {
    let mut conjuncts = Vec::new();
    condition.clone().conjuncts(&mut conjuncts);
    conjuncts.into_iter().filter_map(|c| demand(c, width)).collect()
}

fn demand(condition: Condition, width: usize) -> Option<Demand> {
    let (literal, holds) = match condition {
        Condition::Fact(literal) => (literal, true),
        Condition::Not(inner) => match *inner {
            Condition::Fact(literal) => (literal, false),
            _ => return None,
        },
        _ => return None,
    };
    let free = literal.args.iter().all(|a| match a {
        Arg::Variable(v) => usize::from(*v) < width,
        Arg::Object(_) => true,
    });
    free.then_some((literal, holds))
}

/// What must hold when the method is taken, over its own variables; none if a subtask can never be done.
fn of_method(
    method: &Method,
    needs: &[Option<BTreeSet<Demand>>],
    touched: &[Touched],
    ordered: bool,
) -> Option<BTreeSet<Demand>> {
    let width = method.sorts.len();
    let mut found: BTreeSet<Demand> = method.joins.iter().map(|l| (l.clone(), true)).collect();
    found.extend(method.checks.iter().filter_map(|c| demand(c.condition.clone(), width)));
    let all = touched.iter();
    let mut before: Touched = if ordered { none(touched) } else { all.fold(none(touched), |a, b| union(&a, b)) };
    for subtask in &method.subtasks {
        for (literal, holds) in needs[subtask.task as usize].as_ref()? {
            let predicate = literal.predicate as usize;
            let could_become = if *holds { before.adds[predicate] } else { before.deletes[predicate] };
            if !could_become {
                let args = literal.args.iter().map(|a| match a {
                    Arg::Variable(v) => subtask.args[*v as usize],
                    Arg::Object(o) => Arg::Object(*o),
                });
                found.insert((Literal { predicate: literal.predicate, args: args.collect() }, *holds));
            }
        }
        if ordered {
            before = union(&before, &touched[subtask.task as usize]);
        }
    }
    Some(found)
}

/// The demands that speak of the task's own arguments only, over its parameters.
fn project(method: &Method, found: &BTreeSet<Demand>) -> BTreeSet<Demand> {
    let place = |arg: &Arg| match arg {
        Arg::Object(o) => Some(Arg::Object(*o)),
        Arg::Variable(_) => method.head.iter().position(|h| h == arg).map(|n| Arg::Variable(n as u16)),
    };
    let over_parameters = |(literal, holds): &Demand| {
        let args = literal.args.iter().map(place).collect::<Option<Vec<_>>>()?;
        Some((Literal { predicate: literal.predicate, args }, *holds))
    };
    found.iter().filter_map(over_parameters).collect()
}

fn none(touched: &[Touched]) -> Touched {
    let predicates = touched.first().map_or(0, |t| t.adds.len());
    Touched { adds: vec![false; predicates], deletes: vec![false; predicates] }
}

fn union(a: &Touched, b: &Touched) -> Touched {
    let or = |a: &[bool], b: &[bool]| a.iter().zip(b).map(|(a, b)| *a || *b).collect();
    Touched { adds: or(&a.adds, &b.adds), deletes: or(&a.deletes, &b.deletes) }
}

fn touched(compiled: &Compiled) -> Vec<Touched> {
    let predicates = compiled.arities.len();
    let nothing = Touched { adds: vec![false; predicates], deletes: vec![false; predicates] };
    let mut touched = vec![nothing; compiled.tasks.len()];
    for (task, touched) in compiled.tasks.iter().zip(&mut touched) {
        let Kind::Primitive(action) = &task.kind else { continue };
        for change in &action.changes {
            change.adds.iter().for_each(|l| touched.adds[l.predicate as usize] = true);
            change.deletes.iter().for_each(|l| touched.deletes[l.predicate as usize] = true);
        }
    }
    loop {
        let mut changed = false;
        for task in 0..touched.len() {
            let Kind::Compound(methods) = &compiled.tasks[task].kind else { continue };
            let below = methods.iter().flat_map(|m| &compiled.methods[*m as usize].subtasks);
            let all = below.fold(touched[task].clone(), |all, s| union(&all, &touched[s.task as usize]));
            if all != touched[task] {
                touched[task] = all;
                changed = true;
            }
        }
        if !changed {
            return touched;
        }
    }
}
