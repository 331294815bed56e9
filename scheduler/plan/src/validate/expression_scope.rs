//! Validates expressions: each may refer only to steps that have finished when it is evaluated.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::id::StepId;
use goalmill_common::number::to_u32;
use goalmill_common::plan::{Plan, Step};
use serde_json::Value;

use super::conditions::{StepReads, check_failed_dependencies, warn_of_skips, warn_of_types};
use super::declared_outputs::DeclaredOutputs;
use super::graph::{Graph, StepNumbers};
use super::origin::{Dependency, DependencyPlace, Origin};
use crate::document::{DocumentPath, ValidationContext, shorten};
use goalmill_common::suggest::nearest;
use goalmill_expression::{self as expression, ExpressionError, Facts};

/// Adds a dependency for each step that an expression refers to, unless it cannot be one.
pub(super) fn imply_dependencies(
    context: &ValidationContext<'_>,
    plan: &Plan,
    origins: &mut [Origin<'_>],
    index: &StepNumbers,
) {
    let in_order = context.planner_rules().is_some_and(|rules| rules.in_order);
    for (i, (step, origin)) in plan.steps.iter().zip(origins).enumerate() {
        if step.is_cleanup() {
            continue;
        }
        let names = step.names();
        let inputs = origin.inputs.filter(|_| !expression::is_plain(step.inputs.text()));
        let mut seen = Vec::new();
        for (key, value) in inputs.map(|inputs| (origin.inputs_key, inputs)).into_iter().chain(origin.for_each) {
            origin.with_key(key, |at| {
                for_each_expression(at, value, &mut |at, text| {
                    for r in expression::references_seeing(text, &names).unwrap_or_default() {
                        seen.push((r.step, at.pointer()));
                    }
                });
            });
        }
        for (id, pointer) in seen {
            let id = StepId::from(id);
            let Some(target) = index.get(&id).map(|target| *target as usize) else { continue };
            let is_known = origin.dependencies.iter().any(|dependency| dependency.id == id);
            if target != i && !(in_order && target > i) && !is_known {
                origin.dependencies.push(Dependency { id, place: DependencyPlace::Expression { pointer } });
            }
        }
    }
}

/// Calls `visit` with every text that contains expressions, and its place.
fn for_each_expression(at: &DocumentPath<'_>, value: &Value, visit: &mut dyn FnMut(&DocumentPath<'_>, &str)) {
    match value {
        Value::String(text) if !expression::is_plain(text) => visit(at, text),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, item)| for_each_expression(&at.item(i), item, visit));
        }
        Value::Object(map) => map.iter().for_each(|(key, item)| for_each_expression(&at.key(key), item, visit)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A reference to a step that is no direct dependency.
struct ReachabilityQuery {
    step: u32,
    target: u32,
    pointer: String,
}

struct ExpressionCheck<'c, 'l> {
    context: &'c ValidationContext<'l>,
    plan: &'c Plan,
    index: &'c StepNumbers,
    needs: &'c [Vec<u32>],
    ranks: &'c [Option<usize>],
    queries: Vec<ReachabilityQuery>,
    /// Of the step at hand.
    reads: StepReads,
}

pub(super) fn check_expressions(
    context: &ValidationContext<'_>,
    plan: &Plan,
    origins: &[Origin<'_>],
    index: &StepNumbers,
    graph: &Graph,
    ranks: &[Option<usize>],
) {
    let mut check = ExpressionCheck {
        context,
        plan,
        index,
        needs: &graph.needs,
        ranks,
        queries: Vec::new(),
        reads: StepReads::default(),
    };
    for (i, (step, origin)) in plan.steps.iter().zip(origins).enumerate() {
        check.check_step(i, step, origin);
        let reads = std::mem::take(&mut check.reads);
        if !step.is_cleanup() {
            check_failed_dependencies(context, plan, (i, origin), &graph.needs[i]);
            warn_of_skips(context, plan, (i, origin), &graph.needs[i], &reads);
        }
    }
    // On a cycle everything is a dependency of everything; the cycle has its own issue.
    if graph.order.len() == plan.steps.len() {
        check.resolve_queries(graph);
    }
}

impl ExpressionCheck<'_, '_> {
    /// Checks each expression of a step with the names that it sees there.
    fn check_step(&mut self, i: usize, step: &Step, origin: &Origin<'_>) {
        let names = step.names();
        if let Some((key, value)) = origin.for_each {
            // The list of an undo step may be in what it undoes.
            let of_list: &[&str] = if step.undoes.is_some() { &["plan", "inputs", "outputs"] } else { &[] };
            origin.with_key(key, |at| {
                for_each_expression(at, value, &mut |at, text| {
                    self.check_references(i, at, expression::examine(text, of_list));
                });
                if let Some(declared) = self.declared() {
                    declared.check_list(value, at);
                }
            });
        }
        if let Some(inputs) = origin.inputs.filter(|_| !expression::is_plain(step.inputs.text())) {
            origin.with_key(origin.inputs_key, |at| {
                for_each_expression(at, inputs, &mut |at, text| {
                    self.check_references(i, at, expression::examine(text, &names));
                });
            });
        }
        if let Some(when) = &step.when {
            origin.with_key(origin.when_key, |at| {
                self.check_references(i, at, expression::examine_condition(when, &names));
            });
        }
        if let Some(repeat) = &step.repeat {
            let names = [&names[..], &["outputs"]].concat();
            origin.with_key(origin.repeat_key, |at| {
                let facts = expression::examine_condition(&repeat.until, &names);
                self.check_references(i, &at.key("until"), facts);
            });
        }
        if let Some(ask) = &step.ask {
            origin.with_key("ask", |at| {
                self.check_references(i, &at.key("question"), expression::examine(&ask.question, &names));
            });
        }
        for (field, text) in step.wait.iter().flat_map(|wait| wait.templates()) {
            origin.with_key(origin.wait_key, |at| {
                self.check_references(i, &at.key(field), expression::examine(text, &names));
            });
        }
        if let Some(cache) = &step.cache {
            origin.with_key(origin.cache_key, |at| {
                let key = if origin.cache_is_text { *at } else { at.key("key") };
                let names = [&names[..], &["inputs"]].concat();
                self.check_references(i, &key, expression::examine(&cache.key, &names));
            });
        }
    }

    fn check_references(&mut self, step: usize, at: &DocumentPath<'_>, facts: Result<Facts, ExpressionError>) {
        let facts = match facts {
            Ok(facts) => facts,
            Err(error) => {
                let hint = "correct it; to keep braces as text write `{% raw %}…{% endraw %}`";
                self.context.error("INVALID_EXPRESSION", at, error.message, hint);
                return;
            }
        };
        self.reads.add(&facts, self.index, at);
        warn_of_types(self.context, self.plan, self.index, at, &facts.comparisons);
        if let Some(declared) = self.declared() {
            declared.check(&self.plan.steps[step], at, &facts);
        }
        if self.plan.steps[step].undoes.is_some() {
            self.check_undo(step, at, &facts);
        }
        for r in facts.refs {
            let Some(&target) = self.index.get(r.step.as_str()) else {
                self.unknown_step(at, step, &r.step);
                continue;
            };
            if target as usize == step {
                self.own_outputs(at, &r.step);
                continue;
            }
            if target as usize > step
                && !self.plan.steps[step].is_cleanup()
                && self.context.planner_rules().is_some_and(|rules| rules.in_order)
            {
                self.later_step(at, step, &r.step);
                continue;
            }
            let is_earlier_phase = match (self.ranks[step], self.ranks[target as usize]) {
                (Some(own), Some(other)) => other < own,
                _ => false,
            };
            // A clean-up step runs when all others are final.
            let is_final = self.plan.steps[step].is_cleanup() && !self.plan.steps[target as usize].is_cleanup();
            if !is_earlier_phase && !is_final && !self.needs[step].contains(&target) {
                self.queries.push(ReachabilityQuery { step: to_u32(step), target, pointer: at.pointer() });
            }
        }
    }

    /// An undo step may run when nothing is done but the step that it undoes, and what that one needed.
    fn check_undo(&self, step: usize, at: &DocumentPath<'_>, facts: &Facts) {
        let undone = self.plan.steps[step].undoes.as_ref().and_then(|id| self.index.get(id));
        let (Some(undone), Some(rules)) = (undone, self.context.rules) else { return };
        let read: Vec<(&str, u32)> = facts
            .paths
            .iter()
            .filter(|path| !path.has_default)
            .filter_map(|path| match path.parts.as_slice() {
                [root, id, field, _, ..] if root == "steps" && field == "outputs" => {
                    Some((id.as_str(), *self.index.get(id.as_str())?))
                }
                _ => None,
            })
            .collect();
        if read.is_empty() {
            return;
        }
        let done = self.needed_for(*undone);
        for (id, _) in read.into_iter().filter(|(_, other)| !done.contains(other)) {
            let undone = &self.plan.steps[*undone as usize].id;
            let detail = format!("the undo step of `{undone}` reads outputs of `{id}`, which may not have run then");
            let hint = "read `outputs` and `inputs` of the undone step, or write `| default(…)` after the path";
            self.context.weigh(rules.weights.outputs, "CONDITIONAL_OUTPUTS", at, detail, hint);
        }
    }

    /// A step and all that it waits for, at whatever remove.
    fn needed_for(&self, step: u32) -> BTreeSet<u32> {
        let (mut known, mut open) = (BTreeSet::from([step]), vec![step]);
        while let Some(step) = open.pop() {
            open.extend(self.needs[step as usize].iter().copied().filter(|need| known.insert(*need)));
        }
        known
    }

    /// What steps declare to give, where agents are known.
    fn declared(&self) -> Option<DeclaredOutputs<'_, '_>> {
        let rules = self.context.rules?;
        Some(DeclaredOutputs { context: self.context, rules, plan: self.plan, index: self.index })
    }

    fn own_outputs(&self, at: &DocumentPath<'_>, id: &str) {
        let detail = format!("step `{id}` cannot see its own outputs");
        self.context.error("REF_NOT_DEPENDENCY", at, detail, "name another step");
    }

    fn later_step(&self, at: &DocumentPath<'_>, step: usize, id: &str) {
        let detail = format!("step `{}` sees `{id}`, which comes after it", self.plan.steps[step].id);
        self.context.error(
            "REF_LATER_STEP",
            at,
            detail,
            "name an earlier step, or write the steps in the order they run",
        );
    }

    fn unknown_step(&self, at: &DocumentPath<'_>, step: usize, id: &str) {
        let others = self.plan.steps.iter().enumerate().filter(|(i, _)| *i != step).map(|(_, step)| step.id.as_str());
        let near = if self.context.may_guess() { nearest(id, others) } else { None };
        let hint = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => "name a step of this plan".to_owned(),
        };
        self.context.error(
            "REF_UNKNOWN_STEP",
            at,
            format!("the expression sees step `{}`, which is not there", shorten(id)),
            hint,
        );
    }

    /// Finds out which targets are transitive dependencies, for up to 1,024 targets at a time.
    fn resolve_queries(&self, graph: &Graph) {
        let mut targets: Vec<u32> = self.queries.iter().map(|q| q.target).collect();
        targets.sort_unstable();
        targets.dedup();
        let mut found = vec![false; self.queries.len()];
        for chunk in targets.chunks(1_024) {
            let bit: BTreeMap<u32, usize> = chunk.iter().enumerate().map(|(bit, target)| (*target, bit)).collect();
            let words = chunk.len().div_ceil(64);
            let mut seen = vec![0_u64; graph.needs.len() * words];
            let mut own = vec![0_u64; words];
            for step in graph.order.iter().map(|step| *step as usize) {
                own.fill(0);
                for need in &graph.needs[step] {
                    let start = *need as usize * words;
                    own.iter_mut().zip(&seen[start..start + words]).for_each(|(word, other)| *word |= other);
                    if let Some(bit) = bit.get(need) {
                        own[bit / 64] |= 1 << (bit % 64);
                    }
                }
                seen[step * words..(step + 1) * words].copy_from_slice(&own);
            }
            for (query, found) in self.queries.iter().zip(&mut found) {
                if let Some(bit) = bit.get(&query.target) {
                    *found = seen[query.step as usize * words + bit / 64] >> (bit % 64) & 1 == 1;
                }
            }
        }
        self.queries.iter().zip(found).filter(|(_, found)| !found).for_each(|(query, _)| self.not_a_dependency(query));
    }

    fn not_a_dependency(&self, query: &ReachabilityQuery) {
        let target = &self.plan.steps[query.target as usize].id;
        let at = DocumentPath::Pointer(&query.pointer);
        let step = &self.plan.steps[query.step as usize].id;
        let detail = format!("the expression sees step `{target}`, on which step `{step}` does not depend");
        self.context.error(
            "REF_NOT_DEPENDENCY",
            &at,
            detail,
            format!("add `{target}` to the dependencies of `{step}`"),
        );
    }
}
