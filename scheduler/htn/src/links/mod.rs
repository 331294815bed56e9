//! Dependencies between the actions of a plan: a partial order from causal links instead of the order of the search.
//!
//! An action depends on the producer of every fact that it reads, and no action may change that fact in between. For each
//! fact the plan is divided into phases with a constant value: readers depend on the first writer of their phase, and the
//! phases are ordered. Every order that respects the result reads the same values and ends in the same state. Reads are
//! all facts in preconditions and in conditions of effects.
//!
//! Source: the "producer, consumer, threat" orderings of partial-order planning (D. McAllester, D. Rosenblitt,
//! "Systematic Nonlinear Planning", AAAI 1991), read off a finished plan as in M. Veloso, A. Pérez, J. Carbonell,
//! "Nonlinear Planning with Parallel Resource Allocation", 1990.

use std::collections::BTreeMap;

use crate::compile::{CompiledProblem, Condition, Scratch, TaskKind, compile, fill};
use crate::facts::FactTable;
use crate::index::Object;
use crate::model::{Domain, PlanningProblem};
use crate::solution::Solution;

/// An action sets a fact that a later action reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CausalLink {
    /// Positions among the plan's actions.
    pub producer: usize,
    pub consumer: usize,
    /// `(predicate argument …)`
    pub fact: String,
    pub holds: bool,
}

/// The partial order of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// For each action, positions of its direct dependencies, ascending.
    pub before: Vec<Vec<usize>>,
    pub links: Vec<CausalLink>,
}

/// Longest plan whose transitive dependencies are removed: this takes quadratic memory.
const REDUCED_MAX: usize = 8_192;

/// An action reads or writes a fact.
#[derive(Clone, Copy)]
enum FactAccess {
    Read(usize),
    /// To this value.
    Write(usize, bool),
}

/// Computes the dependencies of a plan that `check` accepts.
pub fn dependencies(domain: &Domain, problem: &PlanningProblem, solution: &Solution) -> Dependencies {
    let Ok(compiled) = compile(domain, problem, None) else { return Dependencies::default() };
    let tasks: BTreeMap<&str, usize> = compiled.tasks.iter().enumerate().map(|(n, t)| (t.name.as_str(), n)).collect();
    let objects: BTreeMap<&str, Object> = compiled.objects.iter().map(String::as_str).zip(0..).collect();
    let mut facts = FactTable::new(&compiled.arities, compiled.objects.len());
    for key in &compiled.init {
        facts.set(key, true);
    }
    let mut touches: BTreeMap<Vec<u32>, Vec<FactAccess>> = BTreeMap::new();
    let mut count = 0;
    for (n, node) in solution.actions().map(|n| &solution.nodes[n]).enumerate() {
        count = n + 1;
        let task = tasks.get(node.task.as_str()).map(|t| &compiled.tasks[*t].kind);
        let Some(TaskKind::Primitive(action)) = task else { continue };
        let mut binding: Vec<Object> = node.arguments.iter().filter_map(|a| objects.get(a.as_str()).copied()).collect();
        binding.resize(action.width, 0);
        let mut watch = ReadCollector { compiled: &compiled, facts: &facts, reads: Vec::new() };
        watch.collect(&action.condition, &mut binding);
        let (mut adds, mut deletes) = (Vec::new(), Vec::new());
        for change in &action.changes {
            watch.change(change, 0, &mut binding, &mut adds, &mut deletes);
        }
        let reads: std::collections::BTreeSet<Vec<u32>> = watch.reads.into_iter().collect();
        for key in reads {
            touches.entry(key).or_default().push(FactAccess::Read(n));
        }
        deletes.retain(|key| !adds.contains(key));
        for (keys, holds) in [(deletes, false), (adds, true)] {
            for key in keys {
                facts.set(&key, holds);
                touches.entry(key).or_default().push(FactAccess::Write(n, holds));
            }
        }
    }
    let mut found = Dependencies { before: vec![Vec::new(); count], links: Vec::new() };
    for (key, touches) in &touches {
        let initially = compiled.init.contains(key);
        found.follow(key, initially, touches, &compiled, domain);
    }
    for before in &mut found.before {
        before.sort_unstable();
        before.dedup();
    }
    if count <= REDUCED_MAX {
        reduce(&mut found.before);
    }
    found
}

/// A run of touches over which a fact keeps its value.
#[derive(Default)]
struct ValuePhase {
    writers: Vec<usize>,
    readers: Vec<usize>,
}

impl Dependencies {
    fn follow(
        &mut self,
        key: &[u32],
        initially: bool,
        touches: &[FactAccess],
        compiled: &CompiledProblem,
        domain: &Domain,
    ) {
        let (mut value, mut last, mut phase) = (initially, ValuePhase::default(), ValuePhase::default());
        for touch in touches {
            match *touch {
                FactAccess::Read(n) => {
                    if let Some(producer) = phase.writers.first().copied().filter(|p| *p != n) {
                        self.before[n].push(producer);
                        let fact = words(key, compiled, domain);
                        self.links.push(CausalLink { producer, consumer: n, fact, holds: value });
                    }
                    phase.readers.push(n);
                }
                FactAccess::Write(n, holds) => {
                    if holds != value {
                        value = holds;
                        last = std::mem::take(&mut phase);
                    }
                    phase.writers.push(n);
                    let earlier = last.writers.iter().chain(&last.readers).copied();
                    self.before[n].extend(earlier.filter(|other| *other != n));
                }
            }
        }
    }
}

fn words(key: &[u32], compiled: &CompiledProblem, domain: &Domain) -> String {
    let arguments = key[1..].iter().map(|o| compiled.objects[*o as usize].as_str());
    let words: Vec<&str> = std::iter::once(domain.predicates[key[0] as usize].name.as_str()).chain(arguments).collect();
    format!("({})", words.join(" "))
}

/// Leaves out what follows from other orderings.
fn reduce(before: &mut [Vec<usize>]) {
    let words = before.len().div_ceil(64);
    // For each action all that comes before it, as bits.
    let mut above = vec![0u64; before.len() * words];
    for (n, direct) in before.iter_mut().enumerate() {
        let (earlier, mine) = above.split_at_mut(n * words);
        let mine = &mut mine[..words];
        let mut kept = Vec::new();
        for other in direct.iter().copied().rev() {
            if mine[other / 64] & (1 << (other % 64)) == 0 {
                kept.push(other);
                mine[other / 64] |= 1 << (other % 64);
                for (mine, theirs) in mine.iter_mut().zip(&earlier[other * words..(other + 1) * words]) {
                    *mine |= theirs;
                }
            }
        }
        kept.reverse();
        *direct = kept;
    }
}

/// Notes which facts are looked at.
struct ReadCollector<'a> {
    compiled: &'a CompiledProblem,
    facts: &'a FactTable,
    reads: Vec<Vec<u32>>,
}

impl ReadCollector<'_> {
    fn collect(&mut self, condition: &Condition, binding: &mut [Object]) {
        match condition {
            Condition::Fact(literal) => {
                let mut key = Vec::new();
                fill(&mut key, literal, binding);
                self.reads.push(key);
            }
            Condition::Equal(..) | Condition::Sort(..) => {}
            Condition::Not(inner) => self.collect(inner, binding),
            Condition::And(parts) | Condition::Or(parts) => parts.iter().for_each(|p| self.collect(p, binding)),
            Condition::Forall(variable, sort, body) | Condition::Exists(variable, sort, body) => {
                for object in &self.compiled.sorts[*sort as usize].members {
                    binding[*variable as usize] = *object;
                    self.collect(body, binding);
                }
            }
        }
    }

    fn change(
        &mut self,
        change: &crate::compile::ConditionalEffect,
        depth: usize,
        binding: &mut [Object],
        adds: &mut Vec<Vec<u32>>,
        deletes: &mut Vec<Vec<u32>>,
    ) {
        if let Some((variable, sort)) = change.forall.get(depth) {
            for object in &self.compiled.sorts[*sort as usize].members {
                binding[*variable as usize] = *object;
                self.change(change, depth + 1, binding, adds, deletes);
            }
            return;
        }
        let mut scratch = Scratch::new();
        let due = change.when.as_ref().is_none_or(|when| {
            self.collect(when, binding);
            when.holds(self.facts, &self.compiled.sorts, binding, &mut scratch)
        });
        if due {
            for (literals, into) in [(&change.deletes, deletes), (&change.adds, adds)] {
                for literal in literals {
                    fill(&mut scratch, literal, binding);
                    into.push(scratch.clone());
                }
            }
        }
    }
}
