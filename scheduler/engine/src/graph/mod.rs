//! The dependency graph of a plan: dependents, ranks, phases, resources.

pub(crate) mod checkpoint;
pub(crate) mod dependencies;
pub(crate) mod engine_steps;
pub(crate) mod open_dependencies;
pub(crate) mod phases;
pub(crate) mod running_plan;
pub(crate) mod unlock;

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Index, IndexMut};

use goalmill_common::hash::HashMap;
use goalmill_common::id::StepId;
use goalmill_common::number::{to_u32, to_usize};
use goalmill_common::plan::{Join, Plan, Step};

/// Marks a step without a phase or resource.
const NONE: u32 = u32::MAX;
/// Assumed duration of a step without an estimate, in seconds.
const SECONDS: f64 = 1.0;

/// A step's place in its plan, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepIndex(pub u32);

impl StepIndex {
    /// - `place`: in the plan's list of steps.
    pub fn new(place: usize) -> Self {
        Self(to_u32(place))
    }

    pub fn as_usize(self) -> usize {
        to_usize(self.0)
    }
}

impl Index<StepIndex> for Vec<Step> {
    type Output = Step;

    fn index(&self, i: StepIndex) -> &Step {
        &self[i.as_usize()]
    }
}

impl IndexMut<StepIndex> for Vec<Step> {
    fn index_mut(&mut self, i: StepIndex) -> &mut Step {
        &mut self[i.as_usize()]
    }
}

/// The graph of a plan; only revisions change it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PlanGraph {
    index: HashMap<StepId, StepIndex>,
    /// `targets[starts[i]..starts[i + 1]]` are the dependents of step `i`.
    starts: Vec<u32>,
    targets: Vec<StepIndex>,
    /// Dependencies of each step; one that is named twice counts once.
    waits: Vec<u32>,
    ranks: Vec<f64>,
    /// Empty when no step names a phase.
    phase_of: Vec<u32>,
    members: Vec<Vec<StepIndex>>,
    /// Empty when no step names a resource.
    resource_of: Vec<u32>,
    resources: usize,
    /// Steps that run after the outcome of the plan is known.
    cleanup_steps: Vec<StepIndex>,
    /// The undo steps of each step that has some.
    undos: BTreeMap<StepIndex, Vec<StepIndex>>,
}

impl PlanGraph {
    /// Builds the graph, or says why the plan could never end.
    pub(crate) fn new(plan: &Plan) -> Result<Self, String> {
        let index = index_of(plan)?;
        let Edges { starts, targets, waits } = edges_of(plan, &index)?;
        let (phase_of, members) = phases_of(plan)?;
        let (resource_of, resources) = resources_of(plan);
        let ranks = Vec::new();
        let is_cleanup = |i: &usize| plan.steps[*i].is_cleanup();
        let cleanup_steps = (0..plan.steps.len()).filter(is_cleanup).map(StepIndex::new).collect();
        let undos = undos_of(plan, &index);
        let mut graph = Self {
            index,
            starts,
            targets,
            waits,
            ranks,
            phase_of,
            members,
            resource_of,
            resources,
            cleanup_steps,
            undos,
        };
        let order = graph.order(plan)?;
        graph.ranks = graph.ranks_of(plan, &order);
        Ok(graph)
    }

    pub(crate) fn find(&self, step: &str) -> Option<StepIndex> {
        self.index.get(step).copied()
    }

    pub(crate) fn dependents(&self, i: StepIndex) -> &[StepIndex] {
        &self.targets[self.dependent_range(i)]
    }

    /// The range of [`PlanGraph::dependents`], for iterating while the state changes.
    pub(crate) fn dependent_range(&self, i: StepIndex) -> std::ops::Range<usize> {
        to_usize(self.starts[i.as_usize()])..to_usize(self.starts[i.as_usize() + 1])
    }

    pub(crate) fn dependent_at(&self, place: usize) -> StepIndex {
        self.targets[place]
    }

    /// Number of distinct dependencies.
    pub(crate) fn waits(&self, i: StepIndex) -> u32 {
        self.waits[i.as_usize()]
    }

    /// How many satisfied dependencies let the step start.
    pub(crate) fn needed(&self, i: StepIndex, join: Join) -> u32 {
        to_u32(needed(to_usize(self.waits(i)), join))
    }

    /// Estimated seconds from the step's start to the end of the longest path that begins with it.
    pub(crate) fn rank(&self, i: StepIndex) -> f64 {
        self.ranks[i.as_usize()]
    }

    pub(crate) fn longest(&self) -> f64 {
        self.ranks.iter().copied().fold(0.0, f64::max)
    }

    pub(crate) fn phase(&self, i: StepIndex) -> Option<usize> {
        self.phase_of.get(i.as_usize()).filter(|phase| **phase != NONE).map(|phase| to_usize(*phase))
    }

    /// Steps of each phase.
    pub(crate) fn members(&self) -> &[Vec<StepIndex>] {
        &self.members
    }

    pub(crate) fn resource(&self, i: StepIndex) -> Option<usize> {
        self.resource_of.get(i.as_usize()).filter(|r| **r != NONE).map(|r| to_usize(*r))
    }

    pub(crate) fn cleanup_steps(&self) -> &[StepIndex] {
        &self.cleanup_steps
    }

    pub(crate) fn has_undos(&self) -> bool {
        !self.undos.is_empty()
    }

    /// The undo steps of a step.
    pub(crate) fn undos_of(&self, i: StepIndex) -> &[StepIndex] {
        self.undos.get(&i).map_or(&[], Vec::as_slice)
    }

    /// The steps that have undo steps.
    pub(crate) fn undone_steps(&self) -> impl Iterator<Item = StepIndex> {
        self.undos.keys().copied()
    }

    pub(crate) fn resources(&self) -> usize {
        self.resources
    }

    /// Topological order of the steps, by dependencies and by phases.
    ///
    /// Source: A. B. Kahn, "Topological sorting of large networks", CACM 5(11), 1962. A phase is a node of its own
    /// that waits for the steps of the phase before it, so edges stay linear in the number of steps.
    fn order(&self, plan: &Plan) -> Result<Vec<StepIndex>, String> {
        let (steps, gates) = (plan.steps.len(), self.members.len());
        let mut open: Vec<u32> =
            (0..steps).map(StepIndex::new).map(|i| self.waits(i) + u32::from(self.phase(i).is_some())).collect();
        for gate in 0..gates {
            open.push(if gate == 0 { 0 } else { to_u32(self.members[gate - 1].len()) + 1 });
        }
        let mut free: VecDeque<usize> = (0..steps + gates).filter(|node| open[*node] == 0).collect();
        let mut order = Vec::with_capacity(steps);
        let mut seen = 0;
        while let Some(node) = free.pop_front() {
            seen += 1;
            let mut release = |next: usize| {
                open[next] -= 1;
                if open[next] == 0 {
                    free.push_back(next);
                }
            };
            if node < steps {
                let i = StepIndex::new(node);
                order.push(i);
                self.dependents(i).iter().for_each(|next| release(next.as_usize()));
                if let Some(gate) = self.phase(i).filter(|phase| phase + 1 < gates) {
                    release(steps + gate + 1);
                }
            } else {
                let gate = node - steps;
                self.members[gate].iter().for_each(|member| release(member.as_usize()));
                if gate + 1 < gates {
                    release(node + 1);
                }
            }
        }
        if seen == steps + gates {
            return Ok(order);
        }
        let stuck = (0..steps).find(|i| open[*i] > 0).map_or("", |i| plan.steps[i].id.as_str());
        Err(format!("step `{stuck}` waits for itself, through dependencies or the order of phases"))
    }

    fn ranks_of(&self, plan: &Plan, order: &[StepIndex]) -> Vec<f64> {
        let mut ranks = vec![0.0; plan.steps.len()];
        for &i in order.iter().rev() {
            let rest = self.dependents(i).iter().map(|next| ranks[next.as_usize()]).fold(0.0, f64::max);
            ranks[i.as_usize()] = rest + seconds(&plan.steps[i]);
        }
        ranks
    }
}

/// How many of `waits` dependencies must be satisfied before a step starts.
pub(crate) fn needed(waits: usize, join: Join) -> usize {
    match join {
        Join::All => waits,
        Join::Any => waits.min(1),
        Join::AtLeast(k) => to_usize(k),
    }
}

fn seconds(step: &Step) -> f64 {
    step.estimates.seconds.filter(|s| s.is_finite() && *s >= 0.0).unwrap_or(SECONDS)
}

fn index_of(plan: &Plan) -> Result<HashMap<StepId, StepIndex>, String> {
    let mut index = HashMap::default();
    index.reserve(plan.steps.len());
    for (i, step) in plan.steps.iter().enumerate() {
        if index.insert(step.id.clone(), StepIndex::new(i)).is_some() {
            return Err(format!("two steps are called `{}`", step.id));
        }
    }
    Ok(index)
}

fn undos_of(plan: &Plan, index: &HashMap<StepId, StepIndex>) -> BTreeMap<StepIndex, Vec<StepIndex>> {
    let mut undos: BTreeMap<StepIndex, Vec<StepIndex>> = BTreeMap::new();
    for (i, step) in plan.steps.iter().enumerate() {
        if let Some(target) = step.undoes.as_ref().and_then(|id| index.get(id)) {
            undos.entry(*target).or_default().push(StepIndex::new(i));
        }
    }
    undos
}

/// The dependents of every step, packed.
struct Edges {
    starts: Vec<u32>,
    targets: Vec<StepIndex>,
    waits: Vec<u32>,
}

fn edges_of(plan: &Plan, index: &HashMap<StepId, StepIndex>) -> Result<Edges, String> {
    let mut starts = vec![0_u32; plan.steps.len() + 1];
    let mut waits = vec![0; plan.steps.len()];
    let mut edges = Vec::new();
    let mut named_by = vec![NONE; plan.steps.len()];
    for (i, step) in plan.steps.iter().enumerate() {
        for dependency in &step.dependencies {
            let Some(&from) = index.get(dependency) else {
                return Err(format!("step `{}` depends on `{dependency}`, which does not exist", step.id));
            };
            if named_by[from.as_usize()] != to_u32(i) {
                named_by[from.as_usize()] = to_u32(i);
                starts[from.as_usize() + 1] += 1;
                waits[i] += 1;
                edges.push((from, StepIndex::new(i)));
            }
        }
    }
    for i in 1..starts.len() {
        starts[i] += starts[i - 1];
    }
    let mut next = starts.clone();
    let mut targets = vec![StepIndex(0); edges.len()];
    for (from, to) in edges {
        let place = &mut next[from.as_usize()];
        targets[to_usize(*place)] = to;
        *place += 1;
    }
    Ok(Edges { starts, targets, waits })
}

fn phases_of(plan: &Plan) -> Result<(Vec<u32>, Vec<Vec<StepIndex>>), String> {
    let mut members = vec![Vec::new(); plan.phases.len()];
    let mut places = HashMap::default();
    for (k, phase) in plan.phases.iter().enumerate() {
        if places.insert(phase.id.as_str(), to_u32(k)).is_some() {
            return Err(format!("two phases are called `{}`", phase.id));
        }
    }
    if plan.steps.iter().all(|step| step.phase.is_none()) {
        return Ok((Vec::new(), members));
    }
    let mut phase_of = Vec::with_capacity(plan.steps.len());
    for (i, step) in plan.steps.iter().enumerate() {
        let Some(name) = step.phase.as_deref() else {
            phase_of.push(NONE);
            continue;
        };
        let Some(&phase) = places.get(name) else {
            return Err(format!("step `{}` is in phase `{name}`, which does not exist", step.id));
        };
        members[to_usize(phase)].push(StepIndex::new(i));
        phase_of.push(phase);
    }
    Ok((phase_of, members))
}

fn resources_of(plan: &Plan) -> (Vec<u32>, usize) {
    let mut names: HashMap<&str, u32> = HashMap::default();
    if plan.steps.iter().all(|step| step.resource.is_none()) {
        return (Vec::new(), 0);
    }
    let of = plan
        .steps
        .iter()
        .map(|step| {
            let next = to_u32(names.len());
            step.resource.as_deref().map_or(NONE, |name| *names.entry(name).or_insert(next))
        })
        .collect();
    (of, names.len())
}

#[cfg(test)]
mod tests {
    use goalmill_common::plan::{Phase, Step};

    use super::*;

    #[test]
    fn a_rank_is_the_longest_way_to_the_end() {
        let graph = PlanGraph::new(&plan(&[("a", &[]), ("b", &["a"]), ("c", &["a"]), ("d", &["b"])])).unwrap();
        let ranks: Vec<f64> = (0..4).map(|i| graph.rank(StepIndex(i))).collect();
        assert_eq!(ranks, [3.0, 2.0, 1.0, 1.0]);
        assert_eq!(graph.dependents(StepIndex(0)), [StepIndex(1), StepIndex(2)]);
    }

    #[test]
    fn a_dependency_that_is_named_twice_counts_once() {
        let graph = PlanGraph::new(&plan(&[("a", &[]), ("b", &["a", "a"])])).unwrap();
        assert_eq!((graph.waits(StepIndex(1)), graph.dependents(StepIndex(0))), (1, [StepIndex(1)].as_slice()));
        assert_eq!((graph.needed(StepIndex(1), Join::All), graph.needed(StepIndex(1), Join::AtLeast(2))), (1, 2));
    }

    #[test]
    fn a_plan_that_could_never_end_is_refused() {
        let refusal = |steps: &[(&str, &[&str])]| PlanGraph::new(&plan(steps)).unwrap_err();
        assert!(refusal(&[("a", &["b"]), ("b", &["a"])]).contains("`a`"));
        assert!(refusal(&[("a", &["a"])]).contains("`a`"));
        assert!(["`a`", "`zz`"].iter().all(|id| refusal(&[("a", &["zz"])]).contains(id)));
        assert!(refusal(&[("a", &[]), ("a", &[])]).contains("`a`"));
    }

    #[test]
    fn a_step_that_waits_for_a_later_phase_is_refused() {
        let mut plan = plan(&[("a", &["b"]), ("b", &[])]);
        let phase = |id: &str| Phase { id: id.into(), description: String::new(), checkpoint: false };
        plan.phases = vec![phase("one"), phase("two")];
        plan.steps[0].phase = Some("one".into());
        plan.steps[1].phase = Some("two".into());
        assert!(PlanGraph::new(&plan).unwrap_err().contains("`a`"));
        plan.steps[0].dependencies.clear();
        assert!(PlanGraph::new(&plan).is_ok());
        plan.steps[0].phase = Some("three".into());
        assert!(PlanGraph::new(&plan).unwrap_err().contains("`three`"));
    }

    fn plan(steps: &[(&str, &[&str])]) -> Plan {
        let steps = steps
            .iter()
            .map(|(id, dependencies)| Step {
                dependencies: dependencies.iter().map(|d| (*d).into()).collect(),
                ..Step::new(*id, "w")
            })
            .collect();
        Plan { steps, ..Plan::default() }
    }
}
