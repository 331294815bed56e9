//! Validates the dependency graph: unknown ids, cycles, path length, joins, phase order.

use std::collections::BTreeMap;

use goalmill_common::hash::HashMap;
use goalmill_common::id::StepId;
use goalmill_common::number::{to_u32, to_usize, whole_u64};
use goalmill_common::plan::{Join, Plan, Step, Strategy};
use petgraph::graph::{DiGraph, NodeIndex};

use super::origin::StepOrigin;
use crate::document::{DocumentPath, ValidationContext, shorten};
use goalmill_common::suggest::nearest;

/// The dependency graph of a plan; steps are numbered in the order of the document.
pub(super) struct Graph {
    /// The direct dependencies of each step.
    pub needs: Vec<Vec<u32>>,
    /// A topological order; shorter than the plan when there are cycles.
    pub order: Vec<u32>,
}

/// The number of each step by its id.
pub(super) type StepNumbers = HashMap<StepId, u32>;

/// The phase of each step by its position; `None` for a step outside of the phases.
pub(super) type PhaseRanks = Vec<Option<usize>>;

/// Resolves the dependencies and checks the graph: cycles, path length, joins, phases.
///
/// - `complete`: whether every step of the document could be read.
pub(super) fn check_graph(
    context: &ValidationContext<'_>,
    at: &DocumentPath<'_>,
    plan: &mut Plan,
    origins: &[StepOrigin<'_>],
    numbers: &StepNumbers,
    complete: bool,
) -> (Graph, PhaseRanks) {
    let needs = resolve(context, plan, origins, numbers, complete);
    let mut graph = Graph { order: Vec::new(), needs };
    let ranks = check_order(context, at, plan, origins, &mut graph);
    joins(context, plan, origins);
    (graph, ranks)
}

/// Orders the steps and checks the order: cycles, path length, phases.
pub(super) fn check_order(
    context: &ValidationContext<'_>,
    at: &DocumentPath<'_>,
    plan: &Plan,
    origins: &[StepOrigin<'_>],
    graph: &mut Graph,
) -> PhaseRanks {
    graph.order = order(&graph.needs);
    if graph.order.len() < plan.steps.len() {
        cycles(context, plan, origins, &graph.needs);
    } else {
        let longest = to_usize(whole_u64(longest(graph, |_| 1.0)));
        let limit = context.limits.path_max;
        if longest > limit {
            let detail = format!("the longest path has {longest} steps, at most {limit} are allowed");
            context.error("PATH_TOO_LONG", at, detail, "let steps run in parallel, or use sub-plans");
        }
    }
    phases(context, at, plan, origins, graph)
}

/// Numbers the steps; of several with one id the first counts, the others are errors.
pub(super) fn number_steps(context: &ValidationContext<'_>, plan: &Plan, origins: &[StepOrigin<'_>]) -> StepNumbers {
    let mut index: StepNumbers = HashMap::default();
    index.reserve(plan.steps.len());
    for (i, step) in plan.steps.iter().enumerate() {
        let number = u32::try_from(i).expect("the number of steps is limited");
        if let Some(first) = index.get(&step.id) {
            let detail = format!("duplicate step id `{}`, first used at {}", step.id, origins[*first as usize].at);
            origins[i].with_key(origins[i].id_key, |at| {
                context.error("DUPLICATE_STEP_ID", at, detail, "give each step an id of its own");
            });
        } else {
            index.insert(step.id.clone(), number);
        }
    }
    index
}

fn resolve(
    context: &ValidationContext<'_>,
    plan: &mut Plan,
    origins: &[StepOrigin<'_>],
    index: &StepNumbers,
    complete: bool,
) -> Vec<Vec<u32>> {
    let names: Vec<StepId> = plan.steps.iter().map(|step| step.id.clone()).collect();
    // Which step last named each step: finds what stands twice without a set per step.
    let mut named_by = vec![usize::MAX; names.len()];
    let mut all = Vec::with_capacity(names.len());
    for (i, origin) in origins.iter().enumerate() {
        let mut needs = Vec::with_capacity(origin.dependencies.len());
        for (d, dependency) in origin.dependencies.iter().enumerate() {
            let id = dependency.id.as_str();
            let Some(&target) = index.get(&dependency.id) else {
                // A step that could not be read may be the one that is meant.
                if complete || goalmill_common::id::is_id(id) {
                    // Not the step itself, which cannot wait for itself.
                    let others = names.iter().map(StepId::as_str).filter(|name| *name != names[i].as_str());
                    let near = if context.may_guess() { nearest(id, others) } else { None };
                    origin.with_dependency(d, |at| unknown(context, at, id, near));
                }
                continue;
            };
            if dependency.id == names[i] {
                let detail = format!("step `{id}` depends on itself");
                origin.with_dependency(d, |at| context.error("SELF_DEPENDENCY", at, detail, "remove this dependency"));
            } else if named_by[target as usize] == i {
                let detail = format!("`{id}` is named twice; it counts once");
                origin.with_dependency(d, |at| context.warn("DUPLICATE_DEPENDENCY", at, detail, "remove one of them"));
            } else {
                named_by[target as usize] = i;
                needs.push(target);
            }
        }
        if needs.len() > context.limits.dependencies_max {
            let detail = format!(
                "step `{}` has {} dependencies, at most {} are allowed",
                names[i],
                needs.len(),
                context.limits.dependencies_max
            );
            let hint = "join some of them in a step between";
            context.error("TOO_MANY_DEPENDENCIES", &DocumentPath::Pointer(&origin.at), detail, hint);
        }
        plan.steps[i].dependencies = needs.iter().map(|n| names[*n as usize].clone()).collect();
        all.push(needs);
    }
    all
}

pub(super) fn unknown(context: &ValidationContext<'_>, at: &DocumentPath<'_>, id: &str, near: Option<&str>) {
    let hint = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => "name a step of this plan, or remove the dependency".to_owned(),
    };
    context.error("UNKNOWN_DEPENDENCY", at, format!("there is no step `{}`", shorten(id)), hint);
}

/// Orders steps so that each comes after all it needs (A. B. Kahn, 1962); steps on cycles are left out.
fn order(needs: &[Vec<u32>]) -> Vec<u32> {
    let mut open: Vec<usize> = needs.iter().map(Vec::len).collect();
    let mut unlocks: Vec<Vec<u32>> = vec![Vec::new(); needs.len()];
    for (i, list) in needs.iter().enumerate() {
        for need in list {
            unlocks[*need as usize].push(to_u32(i));
        }
    }
    let mut order: Vec<u32> = (0..to_u32(needs.len())).filter(|i| open[*i as usize] == 0).collect();
    let mut next = 0;
    while let Some(&done) = order.get(next) {
        next += 1;
        for &waiting in &unlocks[done as usize] {
            open[waiting as usize] -= 1;
            if open[waiting as usize] == 0 {
                order.push(waiting);
            }
        }
    }
    order
}

/// Weight of the heaviest path.
fn longest(graph: &Graph, weight: impl Fn(usize) -> f64) -> f64 {
    let mut finish = vec![0.0_f64; graph.needs.len()];
    let mut most = 0.0_f64;
    for &i in &graph.order {
        let start = graph.needs[i as usize].iter().map(|n| finish[*n as usize]).fold(0.0, f64::max);
        finish[i as usize] = start + weight(i as usize);
        most = most.max(finish[i as usize]);
    }
    most
}

/// Most starts from which the shortest cycle of a component is searched.
const STARTS_MAX: usize = 64;
/// Most steps of a cycle that are spelled.
const SPELLED_MAX: usize = 20;

/// One issue for each knot of cycles, with the shortest cycle found in it.
fn cycles(context: &ValidationContext<'_>, plan: &Plan, origins: &[StepOrigin<'_>], needs: &[Vec<u32>]) {
    let mut graph: DiGraph<(), (), u32> = DiGraph::with_capacity(needs.len(), needs.iter().map(Vec::len).sum());
    (0..needs.len()).for_each(|_| {
        graph.add_node(());
    });
    for (i, list) in needs.iter().enumerate() {
        for need in list {
            graph.add_edge(NodeIndex::new(*need as usize), NodeIndex::new(i), ());
        }
    }
    let mut knots: Vec<Vec<usize>> = petgraph::algo::kosaraju_scc(&graph)
        .into_iter()
        .filter(|knot| knot.len() > 1)
        .map(|knot| {
            let mut knot: Vec<usize> = knot.into_iter().map(NodeIndex::index).collect();
            knot.sort_unstable();
            knot
        })
        .collect();
    knots.sort_unstable();
    for knot in knots {
        let cycle = shortest_cycle(&knot, needs);
        let id = |i: usize| plan.steps[i].id.as_str();
        let mut spelled: Vec<&str> = cycle.iter().take(SPELLED_MAX).map(|i| id(*i)).collect();
        if cycle.len() > SPELLED_MAX {
            spelled.push("…");
        }
        spelled.push(id(cycle[0]));
        let (first, last) = (cycle[0], cycle[cycle.len() - 1]);
        let detail = format!("cycle detected: {}", spelled.join(" -> "));
        let hint = format!("remove one of these dependencies, such as that of `{}` on `{}`", id(first), id(last));
        let closing = origins[first].dependencies.iter().position(|d| d.id == plan.steps[last].id);
        let place = |at: &DocumentPath<'_>| context.error("PLAN_CYCLE", at, detail, hint);
        match closing {
            Some(d) => origins[first].with_dependency(d, place),
            None => place(&DocumentPath::Pointer(&origins[first].at)),
        }
    }
}

/// The steps of a cycle in the order they would run, beginning with the one that was written first.
fn shortest_cycle(knot: &[usize], needs: &[Vec<u32>]) -> Vec<usize> {
    let mut best: Vec<usize> = Vec::new();
    for &start in knot.iter().take(STARTS_MAX) {
        let found = cycle_through(start, knot, needs);
        if !found.is_empty() && (best.is_empty() || found.len() < best.len()) {
            best = found;
        }
        if best.len() == 2 {
            break;
        }
    }
    // The search goes from a step to what it needs; a plan runs the other way.
    best.reverse();
    let first = best.iter().enumerate().min_by_key(|(_, step)| **step).map_or(0, |(at, _)| at);
    best.rotate_left(first);
    best
}

fn cycle_through(start: usize, knot: &[usize], needs: &[Vec<u32>]) -> Vec<usize> {
    let mut from: BTreeMap<usize, usize> = BTreeMap::new();
    let mut queue = std::collections::VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for need in needs[at].iter().map(|n| *n as usize) {
            if need == start {
                let mut cycle = vec![at];
                while let Some(before) = from.get(cycle.last().expect("it has at least one step")) {
                    cycle.push(*before);
                }
                cycle.reverse();
                return cycle;
            }
            if knot.binary_search(&need).is_ok() && !from.contains_key(&need) {
                from.insert(need, at);
                queue.push_back(need);
            }
        }
    }
    Vec::new()
}

fn joins(context: &ValidationContext<'_>, plan: &Plan, origins: &[StepOrigin<'_>]) {
    for (step, origin) in plan.steps.iter().zip(origins) {
        // What is written counts: a dependency that leads nowhere has its own issue.
        let most = origin.dependencies.len();
        if let Join::AtLeast(k) = step.join
            && (k == 0 || k as usize > most)
        {
            let detail = format!("step `{}` waits for {k} of its {most} dependencies", step.id);
            let hint = if most == 0 {
                "give it dependencies, or remove `join`".into()
            } else {
                format!("give a number in 1..={most}")
            };
            origin.with_key(origin.join_key, |at| context.error("JOIN_IMPOSSIBLE", at, detail, hint));
        }
    }
}

/// The place of each step's phase in the order of phases; `None` for steps outside of phases.
fn phases(
    context: &ValidationContext<'_>,
    at: &DocumentPath<'_>,
    plan: &Plan,
    origins: &[StepOrigin<'_>],
    graph: &Graph,
) -> PhaseRanks {
    let known: HashMap<&str, usize> = plan.phases.iter().enumerate().rev().map(|(i, p)| (p.id.as_str(), i)).collect();
    let mut ranks = Vec::with_capacity(plan.steps.len());
    for (step, origin) in plan.steps.iter().zip(origins) {
        let rank = step.phase.as_deref().and_then(|phase| known.get(phase).copied());
        if let (Some(phase), None) = (&step.phase, rank) {
            let names = plan.phases.iter().map(|p| p.id.as_str());
            let near = if context.may_guess() { nearest(phase, names) } else { None };
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => "list it under `phases`".to_owned(),
            };
            let detail = format!("there is no phase `{}`", shorten(phase));
            origin.with_key(origin.phase_key, |at| context.error("PHASE_UNKNOWN", at, detail, hint));
        }
        ranks.push(rank);
    }
    let before = context.errors();
    for (i, needs) in graph.needs.iter().enumerate() {
        for need in needs.iter().map(|n| *n as usize) {
            let (Some(own), Some(other)) = (ranks[i], ranks[need]) else { continue };
            if other > own {
                let (step, later) = (&plan.steps[i].id, &plan.steps[need].id);
                let detail = format!("step `{step}` depends on `{later}`, which belongs to a later phase");
                let written = origins[i].dependencies.iter().position(|d| d.id == *later).unwrap_or_default();
                origins[i].with_dependency(written, |at| {
                    context.error("PHASE_ORDER", at, detail, "move one of the steps to another phase");
                });
            }
        }
    }
    let is_sound = context.errors() == before && graph.order.len() == plan.steps.len();
    if is_sound && !plan.phases.is_empty() && with_barriers(plan, &ranks, &graph.needs).1 < plan.steps.len() {
        let detail = "a step outside of the phases waits for a phase that waits for it";
        context.error("PHASE_ORDER", at, detail, "put that step into a phase");
    }
    ranks
}

/// The graph with a barrier behind each phase, and how many steps can be reached in it.
fn with_barriers(plan: &Plan, ranks: &[Option<usize>], needs: &[Vec<u32>]) -> (Graph, usize) {
    let steps = plan.steps.len();
    let mut all: Vec<Vec<u32>> = needs.to_vec();
    all.resize(steps + plan.phases.len(), Vec::new());
    for (step, rank) in ranks.iter().enumerate() {
        let Some(rank) = rank else { continue };
        all[steps + rank].push(to_u32(step));
        if *rank > 0 {
            all[step].push(to_u32(steps + rank - 1));
        }
    }
    for rank in 1..plan.phases.len() {
        all[steps + rank].push(to_u32(steps + rank - 1));
    }
    let order = order(&all);
    let reached = order.iter().filter(|i| (**i as usize) < steps).count();
    (Graph { needs: all, order }, reached)
}

/// Seconds from start to end when nothing has to wait for a worker; where those of a step are unknown, a plan inside it
/// counts.
pub(super) fn critical_path_by(plan: &Plan, seconds: &dyn Fn(&Step) -> Option<f64>) -> f64 {
    let of = |step: &Step| {
        seconds(step).unwrap_or_else(|| step.plan.as_ref().map_or(0.0, |inner| critical_path_by(inner, seconds)))
    };
    let own = |i: usize| plan.steps.get(i).map_or(0.0, of);
    if plan.strategy == Strategy::Sequential {
        return (0..plan.steps.len()).map(own).sum();
    }
    let index: HashMap<&StepId, u32> = plan.steps.iter().enumerate().map(|(i, step)| (&step.id, to_u32(i))).collect();
    let needs: Vec<Vec<u32>> = plan
        .steps
        .iter()
        .map(|step| step.dependencies.iter().filter_map(|d| index.get(d).copied()).collect())
        .collect();
    let rank = |phase: &String| plan.phases.iter().position(|p| p.id == *phase);
    let ranks: Vec<Option<usize>> = plan.steps.iter().map(|step| step.phase.as_ref().and_then(rank)).collect();
    longest(&with_barriers(plan, &ranks, &needs).0, own)
}
