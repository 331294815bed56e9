//! Pulls conditions up: necessary conditions of subtasks become conditions of their method.
//!
//! A fact that a later subtask requires, and that no earlier one can make true, must hold when the method is applied.
//! Source: the "pull up" of M. C. Magnaguagno, F. Meneguzzi, L. de Silva, "HyperTensioN: A three-stage compiler for
//! planning", IPC 2020; here for compound subtasks as well, as a greatest fixed point.

use std::collections::BTreeSet;

use crate::index::to_u16;

use super::{Arg, CompiledProblem, Condition, GroundMethod, Literal, Sort, SortId, TaskKind};

/// A fact that must hold, or must not.
type RequiredFact = (Literal, bool);

/// An argument of what a task may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pattern {
    /// The task's own parameter.
    Parameter(u16),
    Object(u32),
    /// Anything of the sort.
    Any(SortId),
}

/// What a task may make true (or not): predicate, arguments, which.
type Touches = BTreeSet<(u32, Vec<Pattern>, bool)>;

/// Patterns of one task; past that many, arguments are distinguished by their sorts only.
const PATTERNS_MAX: usize = 64;

pub(super) fn pull_up(compiled: &mut CompiledProblem) {
    let ordered = compiled.methods.iter().all(is_chain);
    let touched = touched(compiled, !ordered);
    // None: nothing is known yet, every demand is possible.
    let mut needs: Vec<Option<BTreeSet<RequiredFact>>> = compiled.tasks.iter().map(|_| None).collect();
    loop {
        let mut changed = false;
        for task in 0..compiled.tasks.len() {
            let found = match &compiled.tasks[task].kind {
                TaskKind::Primitive(action) => Some(demands(&action.condition, action.sorts.len())),
                TaskKind::Compound(methods) => methods
                    .iter()
                    .map(|m| &compiled.methods[*m as usize])
                    .filter_map(|m| of_method(compiled, m, &needs, &touched, ordered).map(|found| project(m, &found)))
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
        let found = of_method(compiled, &compiled.methods[n], &needs, &touched, ordered);
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
pub(crate) fn is_chain(method: &GroundMethod) -> bool {
    method.subtasks.iter().enumerate().all(|(n, s)| n + 1 == method.subtasks.len() || s.after == [n + 1])
}

fn demands(condition: &Condition, width: usize) -> BTreeSet<RequiredFact> {
    let mut conjuncts = Vec::new();
    condition.clone().conjuncts(&mut conjuncts);
    conjuncts.into_iter().filter_map(|c| demand(c, width)).collect()
}

fn demand(condition: Condition, width: usize) -> Option<RequiredFact> {
    let (condition, holds) = if let Condition::Not(inner) = condition { (*inner, false) } else { (condition, true) };
    let Condition::Fact(literal) = condition else { return None };
    let free = literal.args.iter().all(|a| match a {
        Arg::Variable(v) => usize::from(*v) < width,
        Arg::Object(_) => true,
    });
    free.then_some((literal, holds))
}

/// What must hold when the method is taken, over its own variables; none if a subtask can never be done.
fn of_method(
    compiled: &CompiledProblem,
    method: &GroundMethod,
    needs: &[Option<BTreeSet<RequiredFact>>],
    touched: &[Touches],
    ordered: bool,
) -> Option<BTreeSet<RequiredFact>> {
    let width = method.sorts.len();
    let mut found: BTreeSet<RequiredFact> = method.joins.iter().map(|l| (l.clone(), true)).collect();
    found.extend(method.checks.iter().filter_map(|c| demand(c.condition.clone(), width)));
    let mut before: Vec<(u32, Vec<Pattern>, bool)> = Vec::new();
    if !ordered {
        before.extend(touched.iter().flat_map(|t| t.iter().map(|(p, args, holds)| (*p, loosen(args), *holds))));
    }
    for subtask in &method.subtasks {
        for (literal, holds) in needs[subtask.task as usize].as_ref()? {
            let args = literal.args.iter().map(|a| match a {
                Arg::Variable(v) => subtask.args[*v as usize],
                Arg::Object(o) => Arg::Object(*o),
            });
            let needed = Literal { predicate: literal.predicate, args: args.collect() };
            let could_become = |(predicate, pattern, becomes): &(u32, Vec<Pattern>, bool)| {
                *predicate == needed.predicate
                    && becomes == holds
                    && needed.args.iter().zip(pattern).all(|(a, p)| may_be(compiled, method, *a, *p))
            };
            if !before.iter().any(could_become) {
                found.insert((needed, *holds));
            }
        }
        if ordered {
            for (predicate, pattern, holds) in &touched[subtask.task as usize] {
                before.push((*predicate, pattern.iter().map(|p| handed(*p, &subtask.args)).collect(), *holds));
            }
        }
    }
    Some(found)
}

/// The demands that speak of the task's own arguments only, over its parameters.
fn project(method: &GroundMethod, found: &BTreeSet<RequiredFact>) -> BTreeSet<RequiredFact> {
    let place = |arg: &Arg| match arg {
        Arg::Object(o) => Some(Arg::Object(*o)),
        Arg::Variable(_) => method.head.iter().position(|h| h == arg).map(|n| Arg::Variable(to_u16(n))),
    };
    let over_parameters = |(literal, holds): &RequiredFact| {
        let args = literal.args.iter().map(place).collect::<Option<Vec<_>>>()?;
        Some((Literal { predicate: literal.predicate, args }, *holds))
    };
    found.iter().filter_map(over_parameters).collect()
}

/// Within a method, `Parameter(n)` stands for the method's variable `n`.
fn handed(pattern: Pattern, args: &[Arg]) -> Pattern {
    match pattern {
        Pattern::Parameter(n) => match args[n as usize] {
            Arg::Variable(v) => Pattern::Parameter(v),
            Arg::Object(o) => Pattern::Object(o),
        },
        Pattern::Object(_) | Pattern::Any(_) => pattern,
    }
}

/// What is known about arguments apart from whose they are.
fn loosen(args: &[Pattern]) -> Vec<Pattern> {
    debug_assert!(args.iter().all(|a| !matches!(a, Pattern::Parameter(_))), "patterns of other tasks are loose");
    args.to_vec()
}

/// Whether an argument can be what the pattern stands for, both within the method.
fn may_be(compiled: &CompiledProblem, method: &GroundMethod, arg: Arg, pattern: Pattern) -> bool {
    let sort = |v: u16| &compiled.sorts[method.sorts[v as usize] as usize];
    let share = |a: &Sort, b: &Sort| a.members.iter().any(|o| b.has[*o as usize]);
    match (arg, pattern) {
        (Arg::Variable(a), Pattern::Parameter(b)) => {
            a == b || (share(sort(a), sort(b)) && !are_different(method, Arg::Variable(a), Arg::Variable(b)))
        }
        (Arg::Variable(a), Pattern::Object(o)) | (Arg::Object(o), Pattern::Parameter(a)) => {
            sort(a).has[o as usize] && !are_different(method, Arg::Variable(a), Arg::Object(o))
        }
        (Arg::Variable(a), Pattern::Any(b)) => share(sort(a), &compiled.sorts[b as usize]),
        (Arg::Object(a), Pattern::Object(b)) => a == b,
        (Arg::Object(a), Pattern::Any(b)) => compiled.sorts[b as usize].has[a as usize],
    }
}

fn are_different(method: &GroundMethod, a: Arg, b: Arg) -> bool {
    method.checks.iter().any(|check| {
        let Condition::Not(inner) = &check.condition else { return false };
        **inner == Condition::Equal(a, b) || **inner == Condition::Equal(b, a)
    })
}

fn touched(compiled: &CompiledProblem, loose: bool) -> Vec<Touches> {
    let mut touched: Vec<Touches> = vec![Touches::new(); compiled.tasks.len()];
    for (task, touched) in compiled.tasks.iter().zip(&mut touched) {
        let TaskKind::Primitive(action) = &task.kind else { continue };
        for change in &action.changes {
            let pattern = |arg: &Arg| match arg {
                Arg::Object(o) => Pattern::Object(*o),
                Arg::Variable(v) if usize::from(*v) >= action.sorts.len() => {
                    let bound = change.forall.iter().find(|(variable, _)| variable == v);
                    Pattern::Any(bound.map(|(_, sort)| *sort).expect("a variable of an effect is bound by it"))
                }
                Arg::Variable(v) if loose => Pattern::Any(action.sorts[*v as usize]),
                Arg::Variable(v) => Pattern::Parameter(*v),
            };
            for (literals, holds) in [(&change.adds, true), (&change.deletes, false)] {
                touched.extend(literals.iter().map(|l| (l.predicate, l.args.iter().map(pattern).collect(), holds)));
            }
        }
    }
    loop {
        let mut changed = false;
        for task in 0..touched.len() {
            let TaskKind::Compound(methods) = &compiled.tasks[task].kind else { continue };
            let mut all = touched[task].clone();
            for method in methods.iter().map(|m| &compiled.methods[*m as usize]) {
                for subtask in &method.subtasks {
                    for (predicate, args, holds) in &touched[subtask.task as usize] {
                        let lift = |p: &Pattern| match handed(*p, &subtask.args) {
                            Pattern::Parameter(v) => match method.head.iter().position(|h| *h == Arg::Variable(v)) {
                                Some(n) if !loose && all.len() < PATTERNS_MAX => Pattern::Parameter(to_u16(n)),
                                _ => Pattern::Any(method.sorts[v as usize]),
                            },
                            pattern @ (Pattern::Object(_) | Pattern::Any(_)) => pattern,
                        };
                        let args: Vec<Pattern> = args.iter().map(lift).collect();
                        if !covers(compiled, &all, *predicate, &args, *holds) {
                            all.insert((*predicate, args, *holds));
                        }
                    }
                }
            }
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

/// Whether something as wide is known already.
fn covers(compiled: &CompiledProblem, all: &Touches, predicate: u32, args: &[Pattern], holds: bool) -> bool {
    if all.contains(&(predicate, args.to_vec(), holds)) {
        return true;
    }
    let within = |narrow: &Pattern, wide: &Pattern| match (narrow, wide) {
        (Pattern::Any(a), Pattern::Any(b)) => {
            let wide = &compiled.sorts[*b as usize];
            compiled.sorts[*a as usize].members.iter().all(|o| wide.has[*o as usize])
        }
        (a, b) => a == b,
    };
    all.iter().any(|(p, wide, h)| *p == predicate && *h == holds && args.iter().zip(wide).all(|(a, b)| within(a, b)))
}
