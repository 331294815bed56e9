//! Validates expressions: each may refer only to steps that have finished when it is evaluated.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::goal::INPUTS;
use goalmill_common::number::to_u32;
use goalmill_common::plan::{ExpressionField, ExpressionText, Join, Plan, Step};
use serde_json::Value;

use super::conditions::{StepReads, check_failed_dependencies, warn_of_skips, warn_of_types};
use super::declared_outputs::DeclaredOutputs;
use super::graph::{self, Graph, PhaseRanks, StepNumbers};
use super::origin::{Dependency, DependencyPlace, StepOrigin};
use crate::document::{DocumentPath, ValidationContext, shorten};
use goalmill_common::suggest::nearest;
use goalmill_expression::{self as expression, ExpressionError, Facts};

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
    /// Whether it reads outputs of the step, not its status or failure.
    reads_outputs: bool,
    pointer: String,
}

struct ExpressionCheck<'c, 'l> {
    context: &'c ValidationContext<'l>,
    plan: &'c Plan,
    index: &'c StepNumbers,
    needs: &'c [Vec<u32>],
    ranks: &'c PhaseRanks,
    queries: Vec<ReachabilityQuery>,
    /// Of the step at hand.
    reads: StepReads,
}

/// Checks every expression, and adds the dependencies that they need and the document does not have.
pub(super) fn check_expressions(
    context: &ValidationContext<'_>,
    at: &DocumentPath<'_>,
    plan: &mut Plan,
    origins: &mut [StepOrigin<'_>],
    index: &StepNumbers,
    (graph, ranks): (&mut Graph, &PhaseRanks),
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
    let mut reads = Vec::with_capacity(plan.steps.len());
    for (i, (step, origin)) in plan.steps.iter().zip(&*origins).enumerate() {
        check.check_step(i, step, origin);
        reads.push(std::mem::take(&mut check.reads));
    }
    let queries = check.queries;
    // On a cycle everything is a dependency of everything; the cycle has its own issue.
    if graph.order.len() == plan.steps.len() {
        let (inferred, missing) = infer_dependencies(plan, unreached(queries, graph));
        missing.iter().for_each(|query| not_a_dependency(context, plan, query));
        if !inferred.is_empty() {
            add_dependencies(context, plan, origins, &mut graph.needs, inferred);
            graph::check_order(context, at, plan, origins, graph);
        }
    }
    for (i, (step, origin)) in plan.steps.iter().zip(origins).enumerate() {
        if !step.is_cleanup() {
            check_failed_dependencies(context, plan, (i, origin), &graph.needs[i]);
            warn_of_skips(context, plan, (i, origin), &graph.needs[i], &reads[i]);
        }
    }
}

/// Splits references to steps that are no dependencies into those that make a dependency, and the others.
///
/// Who reads outputs waits for them. A status or a failure can be read after whichever end, so the author says after which;
/// and one more dependency would change what `join` says.
fn infer_dependencies(
    plan: &Plan,
    queries: Vec<ReachabilityQuery>,
) -> (Vec<ReachabilityQuery>, Vec<ReachabilityQuery>) {
    let reported: BTreeSet<(u32, u32)> =
        queries.iter().filter(|query| !query.reads_outputs).map(|query| (query.step, query.target)).collect();
    queries.into_iter().partition(|query| {
        let step = &plan.steps[query.step as usize];
        let target = &plan.steps[query.target as usize];
        step.join == Join::All
            && step.is_cleanup() == target.is_cleanup()
            && !reported.contains(&(query.step, query.target))
    })
}

/// Adds the dependencies that references make.
fn add_dependencies(
    context: &ValidationContext<'_>,
    plan: &mut Plan,
    origins: &mut [StepOrigin<'_>],
    needs: &mut [Vec<u32>],
    inferred: Vec<ReachabilityQuery>,
) {
    for ReachabilityQuery { step, target, pointer, .. } in inferred {
        let (i, id) = (step as usize, plan.steps[target as usize].id.clone());
        if needs[i].contains(&target) {
            continue;
        }
        // Models leave dependencies out as a matter of course.
        if !context.planner_rules().is_some_and(|rules| rules.in_order) {
            let at = DocumentPath::Pointer(&pointer);
            let detail = format!("step `{}` waits for `{id}`, whose outputs it reads", plan.steps[i].id);
            context.warn("DEPENDENCY_INFERRED", &at, detail, format!("write `{id}` into its dependencies"));
        }
        needs[i].push(target);
        plan.steps[i].dependencies.push(id.clone());
        origins[i].dependencies.push(Dependency { id, place: DependencyPlace::Expression { pointer } });
    }
}

/// The references to steps that are no dependencies, at whatever remove. Up to 1,024 targets are followed at a time.
fn unreached(queries: Vec<ReachabilityQuery>, graph: &Graph) -> Vec<ReachabilityQuery> {
    let mut targets: Vec<u32> = queries.iter().map(|q| q.target).collect();
    targets.sort_unstable();
    targets.dedup();
    let mut found = vec![false; queries.len()];
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
        for (query, found) in queries.iter().zip(&mut found) {
            if let Some(bit) = bit.get(&query.target) {
                *found = seen[query.step as usize * words + bit / 64] >> (bit % 64) & 1 == 1;
            }
        }
    }
    queries.into_iter().zip(found).filter(|(_, found)| !found).map(|(query, _)| query).collect()
}

fn not_a_dependency(context: &ValidationContext<'_>, plan: &Plan, query: &ReachabilityQuery) {
    let target = &plan.steps[query.target as usize].id;
    let at = DocumentPath::Pointer(&query.pointer);
    let step = &plan.steps[query.step as usize].id;
    let detail = format!("the expression sees step `{target}`, on which step `{step}` does not depend");
    context.error("REF_NOT_DEPENDENCY", &at, detail, format!("add `{target}` to the dependencies of `{step}`"));
}

impl ExpressionCheck<'_, '_> {
    /// Checks each expression of a step with the names that it sees there.
    fn check_step(&mut self, i: usize, step: &Step, origin: &StepOrigin<'_>) {
        for (field, text) in step.expressions() {
            let names = field.names(step);
            let is_list = field == ExpressionField::ForEach;
            origin.with_expression(field, |at| {
                let mut check = |at: &DocumentPath<'_>, text: &str| {
                    let facts = if field.is_condition() {
                        expression::examine_condition(text, &names)
                    } else {
                        expression::examine(text, &names)
                    };
                    let is_own = names.contains(&INPUTS);
                    self.check_references(i, at, facts, is_own);
                };
                let value = match text {
                    ExpressionText::Text(text) => return check(at, text),
                    ExpressionText::Value(json) if !is_list && expression::is_plain(json.text()) => return,
                    ExpressionText::Value(_) if is_list => origin.for_each.map(|(_, list)| list),
                    ExpressionText::Value(_) => origin.inputs,
                };
                let Some(value) = value else { return };
                for_each_expression(at, value, &mut check);
                if let Some(declared) = self.declared().filter(|_| is_list) {
                    declared.check_list(value, at);
                }
            });
        }
    }

    /// - `is_own`: whether `inputs` are those of a step, and not those of the plan.
    fn check_references(
        &mut self,
        step: usize,
        at: &DocumentPath<'_>,
        facts: Result<Facts, ExpressionError>,
        is_own: bool,
    ) {
        let facts = match facts {
            Ok(facts) => facts,
            Err(error) => {
                let hint = "correct it; to keep braces as text write `{% raw %}…{% endraw %}`";
                self.context.error("INVALID_EXPRESSION", at, error.message, hint);
                return;
            }
        };
        for path in facts.paths.iter().filter(|path| !is_own && path.parts[0] == INPUTS) {
            if let Some(name) = path.parts.get(1) {
                self.context.note_input(name, at, path.has_default);
            }
        }
        self.reads.add(&facts, self.index, at);
        warn_of_types(self.context, self.plan, self.index, at, &facts.comparisons);
        if let Some(declared) = self.declared() {
            declared.check_paths(&self.plan.steps[step], at, &facts);
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
                let reads_outputs = r.field.as_deref() == Some("outputs");
                let (step, pointer) = (to_u32(step), at.pointer());
                self.queries.push(ReachabilityQuery { step, target, reads_outputs, pointer });
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
}
