//! The layout of a plan's graph: a layered drawing, computed once for every reader.
//!
//! Steps stand in ranks, one after the other; within a rank they have positions. Readers multiply both by the size of
//! their boxes. Source: K. Sugiyama, S. Tagawa, M. Toda, "Methods for Visual Understanding of Hierarchical System
//! Structures", 1981.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::StepId;
use crate::number::to_u32;
use crate::plan::{Plan, Step};

/// Sweeps over all ranks that reduce crossings, from each start.
const SWEEPS: usize = 8;
/// Orders that the sweeps start from, in graphs of up to [`STARTED_MAX`] boxes and bends; the first one in larger graphs.
const STARTS: u64 = 12;
/// Boxes and bends up to which the sweeps start again from other orders.
const STARTED_MAX: usize = 200;
/// Passes that move steps towards their neighbours.
const PASSES: usize = 6;
/// Bends of all edges together; beyond that edges are straight.
const BENDS_MAX: usize = 20_000;
/// Boxes and bends up to which neighbours are exchanged one by one.
const EXCHANGED_MAX: usize = 600;
/// What the clean-up is called among the phases.
const CLEANUP: &str = "clean-up";
/// Distance between a bend and its neighbours; boxes keep 1.
const BEND_GAP: f64 = 0.6;

/// Where the steps of a plan stand, and how the edges between them run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PlanLayout {
    /// The number of ranks.
    pub ranks: u32,
    /// The largest position, plus one.
    pub width: f64,
    /// In the plan's order.
    pub steps: Vec<StepPlace>,
    /// One for each dependency between steps of the plan.
    pub edges: Vec<EdgeRoute>,
    /// The ranks of each phase, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseSpan>,
}

/// The place of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StepPlace {
    /// The step's id.
    pub id: StepId,
    /// Counted from 0: the length of the longest path to the step.
    pub rank: u32,
    /// Across the ranks; steps of one rank are at least 1 apart.
    pub position: f64,
}

/// The way of an edge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct EdgeRoute {
    /// The dependency.
    pub from: StepId,
    /// The step that waits for it.
    pub to: StepId,
    /// Positions in the ranks between both, in their order; empty for a straight edge.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bends: Vec<f64>,
}

/// The ranks of a phase, or of the clean-up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PhaseSpan {
    /// The phase's id; `clean-up` for the clean-up, which is the last.
    pub id: String,
    /// The first rank.
    pub first: u32,
    /// The last rank.
    pub last: u32,
}

/// What the layout needs to know of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutStep {
    /// The step's id.
    pub id: StepId,
    /// Steps before it; unknown ones are left out.
    pub dependencies: Vec<StepId>,
    /// Its phase, counted from 0; steps of a phase stand after those of the phases before.
    pub phase: Option<usize>,
    /// Whether it belongs to the clean-up, which stands after everything else.
    pub cleanup: Option<CleanupPart>,
}

/// The parts of the clean-up, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CleanupPart {
    /// An undo step.
    Undo,
    /// A step of `always`.
    Always,
}

impl CleanupPart {
    /// The part that a step belongs to; none of the others.
    pub fn of(step: &Step) -> Option<Self> {
        Self::of_marks(step.undoes.as_ref(), step.always)
    }

    /// The same, from what a step says of itself.
    pub fn of_marks(undoes: Option<&StepId>, always: bool) -> Option<Self> {
        if undoes.is_some() { Some(Self::Undo) } else { always.then_some(Self::Always) }
    }
}

/// Lays out a plan.
pub fn layout_plan(plan: &Plan) -> PlanLayout {
    let phase = |name: &Option<String>| plan.phases.iter().position(|phase| Some(&phase.id) == name.as_ref());
    let steps = plan.steps.iter().map(|step| LayoutStep {
        id: step.id.clone(),
        dependencies: step.dependencies.clone(),
        phase: phase(&step.phase),
        cleanup: CleanupPart::of(step),
    });
    let phases: Vec<&str> = plan.phases.iter().map(|phase| phase.id.as_str()).collect();
    layout_steps(&steps.collect::<Vec<_>>(), &phases)
}

/// Lays out steps. The same steps always give the same layout; a cycle is cut where it is met.
///
/// - `phases`: their ids, in their order.
pub fn layout_steps(steps: &[LayoutStep], phases: &[&str]) -> PlanLayout {
    let edges = find_edges(steps);
    let ranks = rank_steps(steps, &edges, phases.len());
    let mut grid = Grid::new(&ranks, edges);
    grid.reduce_crossings();
    grid.assign_positions();
    let places = steps.iter().enumerate().map(|(i, step)| StepPlace {
        id: step.id.clone(),
        rank: to_u32(ranks[i]),
        position: grid.positions[i],
    });
    let routes = grid.chains.iter().map(|chain| EdgeRoute {
        from: steps[chain[0]].id.clone(),
        to: steps[chain[chain.len() - 1]].id.clone(),
        bends: chain[1..chain.len() - 1].iter().map(|i| grid.positions[*i]).collect(),
    });
    PlanLayout {
        ranks: to_u32(grid.layers.len()),
        width: grid.positions.iter().fold(-1.0, |most: f64, at| most.max(*at)) + 1.0,
        steps: places.collect(),
        edges: routes.collect(),
        phases: phase_ranks(steps, &ranks, phases),
    }
}

/// Pairs of dependency and dependent, without doubles and without steps that depend on themselves.
fn find_edges(steps: &[LayoutStep]) -> Vec<(usize, usize)> {
    let known: BTreeMap<&StepId, usize> = steps.iter().enumerate().map(|(i, step)| (&step.id, i)).collect();
    let mut edges = Vec::new();
    for (to, step) in steps.iter().enumerate() {
        let mut from: Vec<usize> = step.dependencies.iter().filter_map(|id| known.get(id).copied()).collect();
        from.sort_unstable();
        from.dedup();
        edges.extend(from.into_iter().filter(|from| *from != to).map(|from| (from, to)));
    }
    edges
}

/// The length of the longest path to each step, counted from 0. A cycle adds nothing to its steps and to those after it.
pub fn longest_paths(steps: &[LayoutStep]) -> Vec<usize> {
    rank_steps(steps, &find_edges(steps), 0)
}

/// The longest path to each step; each phase begins after the one before.
fn rank_steps(steps: &[LayoutStep], edges: &[(usize, usize)], phases: usize) -> Vec<usize> {
    let mut open = vec![0_usize; steps.len()];
    let mut after = vec![Vec::new(); steps.len()];
    for (from, to) in edges {
        open[*to] += 1;
        after[*from].push(*to);
    }
    let mut free: Vec<usize> = (0..steps.len()).rev().filter(|i| open[*i] == 0).collect();
    let mut sorted = Vec::with_capacity(steps.len());
    while let Some(i) = free.pop() {
        sorted.push(i);
        for to in after[i].iter().rev() {
            open[*to] -= 1;
            if open[*to] == 0 {
                free.push(*to);
            }
        }
    }
    let mut ranks = vec![0_usize; steps.len()];
    let groups: Vec<Option<usize>> = std::iter::once(None).chain((0..phases).map(Some)).collect();
    let mut begin = 0;
    for group in groups {
        let mut end = begin;
        for i in sorted.iter().copied().filter(|i| steps[*i].phase == group) {
            ranks[i] = if group.is_some() { ranks[i].max(begin) } else { ranks[i] };
            end = end.max(ranks[i] + 1);
            for to in &after[i] {
                ranks[*to] = ranks[*to].max(ranks[i] + 1);
            }
        }
        begin = if group.is_some() { end } else { 0 };
    }
    rank_cleanup(steps, &sorted, &after, &mut ranks);
    compact_ranks(&mut ranks);
    ranks
}

/// Places the clean-up after all other steps: undo steps in one rank, then the steps of `always`.
fn rank_cleanup(steps: &[LayoutStep], sorted: &[usize], after: &[Vec<usize>], ranks: &mut [usize]) {
    let mut end = (0..steps.len()).filter(|i| steps[*i].cleanup.is_none()).map(|i| ranks[i] + 1).max().unwrap_or(0);
    for part in [CleanupPart::Undo, CleanupPart::Always] {
        let begin = end;
        let of_part: Vec<usize> = sorted.iter().copied().filter(|i| steps[*i].cleanup == Some(part)).collect();
        of_part.iter().for_each(|i| ranks[*i] = begin);
        for i in of_part {
            end = end.max(ranks[i] + 1);
            for to in after[i].iter().copied().filter(|to| steps[*to].cleanup == Some(part)) {
                ranks[to] = ranks[to].max(ranks[i] + 1);
            }
        }
    }
}

/// Removes empty ranks.
fn compact_ranks(ranks: &mut [usize]) {
    let mut used = ranks.to_vec();
    used.sort_unstable();
    used.dedup();
    for rank in ranks {
        *rank = used.binary_search(rank).unwrap_or(0);
    }
}

fn phase_ranks(steps: &[LayoutStep], ranks: &[usize], phases: &[&str]) -> Vec<PhaseSpan> {
    let of_phase = |(n, id): (usize, &&str)| {
        let own = || steps.iter().zip(ranks).filter(|(step, _)| step.phase == Some(n)).map(|(_, rank)| *rank);
        Some(PhaseSpan { id: (*id).to_owned(), first: to_u32(own().min()?), last: to_u32(own().max()?) })
    };
    let of_cleanup = || steps.iter().zip(ranks).filter(|(step, _)| step.cleanup.is_some()).map(|(_, rank)| *rank);
    let cleanup = of_cleanup().min().zip(of_cleanup().max());
    let cleanup =
        cleanup.map(|(first, last)| PhaseSpan { id: CLEANUP.into(), first: to_u32(first), last: to_u32(last) });
    phases.iter().enumerate().filter_map(of_phase).chain(cleanup).collect()
}

/// Boxes and bends in layers. The first indices are steps, the others are bends.
struct Grid {
    steps: usize,
    layers: Vec<Vec<usize>>,
    /// Neighbours in the layer before and in the layer after.
    before: Vec<Vec<usize>>,
    after: Vec<Vec<usize>>,
    /// Each edge as its boxes and bends.
    chains: Vec<Vec<usize>>,
    /// Places in the layers.
    places: Vec<usize>,
    positions: Vec<f64>,
}

impl Grid {
    fn new(ranks: &[usize], edges: Vec<(usize, usize)>) -> Self {
        let span = |(from, to): &(usize, usize)| ranks[*to].saturating_sub(ranks[*from] + 1);
        let has_bends = edges.iter().map(span).sum::<usize>() <= BENDS_MAX;
        let mut layers = vec![Vec::new(); ranks.iter().max().map_or(0, |most| most + 1)];
        for (i, rank) in ranks.iter().enumerate() {
            layers[*rank].push(i);
        }
        let mut grid = Self {
            steps: ranks.len(),
            layers,
            before: vec![Vec::new(); ranks.len()],
            after: vec![Vec::new(); ranks.len()],
            chains: Vec::with_capacity(edges.len()),
            places: Vec::new(),
            positions: Vec::new(),
        };
        for (from, to) in edges {
            let mut chain = vec![from];
            if ranks[from] < ranks[to] && has_bends {
                for rank in ranks[from] + 1..ranks[to] {
                    let bend = grid.before.len();
                    grid.layers[rank].push(bend);
                    grid.before.push(Vec::new());
                    grid.after.push(Vec::new());
                    chain.push(bend);
                }
            }
            chain.push(to);
            if has_bends || ranks[from] + 1 == ranks[to] {
                for pair in chain.windows(2).filter(|_| ranks[from] < ranks[to]) {
                    grid.after[pair[0]].push(pair[1]);
                    grid.before[pair[1]].push(pair[0]);
                }
            }
            grid.chains.push(chain);
        }
        grid.places = vec![0; grid.before.len()];
        grid.positions = vec![0.0; grid.before.len()];
        grid.number_places();
        grid
    }

    fn number_places(&mut self) {
        for layer in &self.layers {
            for (place, i) in layer.iter().enumerate() {
                self.places[*i] = place;
            }
        }
    }

    /// Orders each layer by the places of the neighbours, back and forth, from several starts, and keeps the best order.
    /// Of equally good orders it keeps the first, which is the nearest to the order of the steps.
    fn reduce_crossings(&mut self) {
        let first = self.layers.clone();
        let mut best = (self.count_crossings(), first.clone());
        let starts = if self.places.len() <= STARTED_MAX { STARTS } else { 1 };
        for start in 0..starts {
            if best.0 == 0 {
                break;
            }
            self.layers.clone_from(&first);
            self.shuffle_layers(start);
            self.sweep_layers(start % 2 == 1, &mut best);
        }
        self.layers = best.1;
        self.number_places();
    }

    /// Puts each layer into an order that depends on `start` alone; 0 leaves it as it is.
    fn shuffle_layers(&mut self, start: u64) {
        let mut word = start;
        for layer in self.layers.iter_mut().filter(|_| start > 0) {
            for place in (1..layer.len()).rev() {
                // Multiplier and increment of D. Knuth's MMIX.
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let other = usize::try_from(word >> 33).unwrap_or(0) % (place + 1);
                layer.swap(place, other);
            }
        }
        self.number_places();
    }

    /// Sweeps over all layers; `best` is the least number of crossings so far, and its order.
    fn sweep_layers(&mut self, by_median: bool, best: &mut (usize, Vec<Vec<usize>>)) {
        for sweep in 0..SWEEPS {
            let is_forward = sweep % 2 == 0;
            for n in 0..self.layers.len() {
                let n = if is_forward { n } else { self.layers.len() - 1 - n };
                self.order_layer(n, is_forward, by_median);
            }
            if self.places.len() <= EXCHANGED_MAX {
                self.exchange_neighbours();
            }
            let crossings = self.count_crossings();
            if crossings < best.0 {
                *best = (crossings, self.layers.clone());
            }
            if best.0 == 0 {
                return;
            }
        }
    }

    /// Orders a layer by the mean or median place of the neighbours in the layer before, or after.
    fn order_layer(&mut self, n: usize, is_forward: bool, by_median: bool) {
        let neighbours = if is_forward { &self.before } else { &self.after };
        let wanted = |i: usize| {
            let mut places: Vec<usize> = neighbours[i].iter().map(|other| self.places[*other]).collect();
            places.sort_unstable();
            match places.len() {
                0 => self.places[i] as f64,
                count if by_median => (places[(count - 1) / 2] + places[count / 2]) as f64 / 2.0,
                count => places.iter().sum::<usize>() as f64 / count as f64,
            }
        };
        let mut keyed: Vec<(f64, usize)> = self.layers[n].iter().map(|i| (wanted(*i), *i)).collect();
        keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.layers[n] = keyed.into_iter().map(|(_, i)| i).collect();
        for (place, i) in self.layers[n].iter().enumerate() {
            self.places[*i] = place;
        }
    }

    /// Exchanges neighbours of a layer as long as that removes crossings.
    fn exchange_neighbours(&mut self) {
        for _ in 0..4 {
            let mut has_changed = false;
            for n in 0..self.layers.len() {
                for place in 1..self.layers[n].len() {
                    let (a, b) = (self.layers[n][place - 1], self.layers[n][place]);
                    if self.crossings_between(a, b) > self.crossings_between(b, a) {
                        self.layers[n].swap(place - 1, place);
                        (self.places[a], self.places[b]) = (place, place - 1);
                        has_changed = true;
                    }
                }
            }
            if !has_changed {
                return;
            }
        }
    }

    /// Crossings of the edges of two boxes of one layer when `a` stands before `b`.
    fn crossings_between(&self, a: usize, b: usize) -> usize {
        let count = |own: &[usize], others: &[usize]| {
            let pairs = own.iter().flat_map(|x| others.iter().map(move |y| (x, y)));
            pairs.filter(|(x, y)| self.places[**x] > self.places[**y]).count()
        };
        count(&self.before[a], &self.before[b]) + count(&self.after[a], &self.after[b])
    }

    fn count_crossings(&self) -> usize {
        self.layers.iter().map(|layer| self.layer_crossings(layer)).sum()
    }

    /// Crossings of the edges that leave a layer, with a tree of sums.
    fn layer_crossings(&self, layer: &[usize]) -> usize {
        let mut ends = Vec::new();
        for i in layer {
            let mut own: Vec<usize> = self.after[*i].iter().map(|to| self.places[*to]).collect();
            own.sort_unstable();
            ends.extend(own);
        }
        let mut sums = vec![0_usize; ends.iter().max().map_or(0, |most| most + 2)];
        let mut crossings = 0;
        for (seen, end) in ends.iter().enumerate() {
            let (mut at, mut not_after) = (end + 1, 0);
            while at > 0 {
                not_after += sums[at];
                at &= at - 1;
            }
            crossings += seen - not_after;
            at = end + 1;
            while at < sums.len() {
                sums[at] += 1;
                at += at & at.wrapping_neg();
            }
        }
        crossings
    }

    /// Moves each box towards its neighbours, as far as its own neighbours in the layer allow.
    fn assign_positions(&mut self) {
        for n in 0..self.layers.len() {
            let start: Vec<f64> = vec![0.0; self.layers[n].len()];
            self.place_layer(n, &start);
        }
        for pass in 0..PASSES {
            let is_forward = pass % 2 == 0;
            for n in 0..self.layers.len() {
                let n = if is_forward { n } else { self.layers.len() - 1 - n };
                let wanted: Vec<f64> = self.layers[n].iter().map(|i| self.wanted_position(*i, is_forward)).collect();
                self.place_layer(n, &wanted);
            }
        }
        let least = self.positions.iter().copied().fold(f64::INFINITY, f64::min);
        for position in &mut self.positions {
            *position = ((*position - least) * 100.0).round() / 100.0;
        }
    }

    fn wanted_position(&self, i: usize, is_forward: bool) -> f64 {
        let (first, second) =
            if is_forward { (&self.before[i], &self.after[i]) } else { (&self.after[i], &self.before[i]) };
        let neighbours = if first.is_empty() { second } else { first };
        match neighbours.len() {
            0 => self.positions[i],
            count => neighbours.iter().map(|other| self.positions[*other]).sum::<f64>() / count as f64,
        }
    }

    /// The positions nearest to the wanted ones, in least squares, that keep order and distances: groups that would
    /// overlap share the mean of what they want.
    fn place_layer(&mut self, n: usize, wanted: &[f64]) {
        let layer = &self.layers[n];
        let mut offsets = Vec::with_capacity(layer.len());
        let mut at = 0.0;
        for (place, i) in layer.iter().enumerate() {
            let is_box = |i: usize| i < self.steps;
            if place > 0 {
                at += if is_box(*i) && is_box(layer[place - 1]) { 1.0 } else { BEND_GAP };
            }
            offsets.push(at);
        }
        // Sum of what a group wants, and its size.
        let mut groups: Vec<(f64, usize)> = Vec::new();
        for (want, offset) in wanted.iter().zip(&offsets) {
            let mut group = (want - offset, 1);
            while let Some((sum, size)) = groups.last().copied()
                && sum / size as f64 >= group.0 / group.1 as f64
            {
                groups.pop();
                group = (group.0 + sum, group.1 + size);
            }
            groups.push(group);
        }
        let bases = groups.iter().flat_map(|(sum, size)| std::iter::repeat_n(sum / *size as f64, *size));
        let placed: Vec<(usize, f64)> =
            layer.iter().zip(bases.zip(&offsets)).map(|(i, (base, offset))| (*i, base + offset)).collect();
        for (i, position) in placed {
            self.positions[i] = position;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(id: &str, dependencies: &[&str]) -> LayoutStep {
        LayoutStep {
            id: id.into(),
            dependencies: dependencies.iter().map(|id| StepId::from(*id)).collect(),
            phase: None,
            cleanup: None,
        }
    }

    /// Random steps that depend on earlier ones.
    fn random_steps(count: usize, seed: u64) -> Vec<LayoutStep> {
        let mut word = seed;
        let mut next = move |below: usize| {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(word >> 33).unwrap_or(0) % below
        };
        (0..count)
            .map(|i| {
                let dependencies = (0..next(3)).filter(|_| i > 0).map(|_| format!("s{}", next(i)).into()).collect();
                LayoutStep { id: format!("s{i}").into(), dependencies, phase: None, cleanup: None }
            })
            .collect()
    }

    fn place<'a>(layout: &'a PlanLayout, id: &str) -> &'a StepPlace {
        layout.steps.iter().find(|step| step.id.as_str() == id).expect("the step has a place")
    }

    #[test]
    fn edges_run_forward_and_boxes_of_a_rank_do_not_overlap() {
        for seed in 0..40 {
            let steps = random_steps(60, seed);
            let layout = layout_steps(&steps, &[]);
            assert_eq!(layout, layout_steps(&steps, &[]), "the layout is stable");
            for edge in &layout.edges {
                let (from, to) = (place(&layout, edge.from.as_str()).rank, place(&layout, edge.to.as_str()).rank);
                assert!(from < to, "{edge:?}");
                assert_eq!(edge.bends.len(), (to - from - 1) as usize, "{edge:?}");
            }
            for (i, a) in layout.steps.iter().enumerate() {
                for b in layout.steps[..i].iter().filter(|b| b.rank == a.rank) {
                    assert!((a.position - b.position).abs() > 0.98, "seed {seed}: {a:?} {b:?}");
                }
            }
        }
    }

    #[test]
    fn a_chain_is_straight_and_a_diamond_has_no_crossing() {
        let chain = layout_steps(&[step("a", &[]), step("b", &["a"]), step("c", &["b"])], &[]);
        assert!(chain.steps.iter().all(|step| step.position == 0.0), "{chain:?}");
        assert_eq!((chain.ranks, chain.width), (3, 1.0));
        let steps = [step("a", &[]), step("b", &[]), step("x", &["b"]), step("y", &["a"])];
        let crossed = layout_steps(&steps, &[]);
        let order = |a: &str, b: &str| place(&crossed, a).position < place(&crossed, b).position;
        assert_eq!(order("a", "b"), order("y", "x"));
    }

    #[test]
    fn further_starts_remove_crossings_and_never_add_any() {
        let fewer = |seed: u64| {
            let steps = random_steps(24, seed);
            let ranks = rank_steps(&steps, &find_edges(&steps), 0);
            let (mut grid, mut once) = (Grid::new(&ranks, find_edges(&steps)), Grid::new(&ranks, find_edges(&steps)));
            grid.reduce_crossings();
            let mut best = (once.count_crossings(), once.layers.clone());
            once.sweep_layers(false, &mut best);
            best.0.checked_sub(grid.count_crossings()).expect("no order is worse than that of the first start")
        };
        assert!((0..40).map(fewer).sum::<usize>() > 0);
    }

    #[test]
    fn phases_stand_one_after_the_other() {
        let phased = |id: &str, phase| LayoutStep { phase: Some(phase), ..step(id, &[]) };
        let layout = layout_steps(&[phased("late", 1), phased("early", 0)], &["first", "second"]);
        assert_eq!((place(&layout, "early").rank, place(&layout, "late").rank), (0, 1));
        assert_eq!(layout.phases[1], PhaseSpan { id: "second".into(), first: 1, last: 1 });
    }

    #[test]
    fn cycles_unknown_dependencies_and_nothing_at_all_have_a_layout() {
        assert_eq!(layout_steps(&[], &[]), PlanLayout::default());
        let layout = layout_steps(&[step("a", &["b"]), step("b", &["a"]), step("c", &["c", "nowhere"])], &[]);
        assert_eq!(layout.steps.len(), 3);
        assert!(layout.edges.iter().all(|edge| edge.bends.is_empty()));
    }

    #[test]
    fn clean_up_stands_after_everything_else_as_a_group_of_its_own() {
        let part = |id: &str, after: &[&str], part| LayoutStep { cleanup: Some(part), ..step(id, after) };
        let steps = [
            part("a:undo", &[], CleanupPart::Undo),
            part("tidy", &["report"], CleanupPart::Always),
            step("a", &[]),
            part("report", &[], CleanupPart::Always),
            step("b", &["a"]),
        ];
        let layout = layout_steps(&steps, &[]);
        let ranks: Vec<u32> = layout.steps.iter().map(|place| place.rank).collect();
        assert_eq!(ranks, [2, 4, 0, 3, 1]);
        assert_eq!(layout.phases, [PhaseSpan { id: "clean-up".into(), first: 2, last: 4 }]);
        let only = [part("report", &[], CleanupPart::Always)];
        assert_eq!(layout_steps(&only, &[]).steps[0].rank, 0);
    }

    #[test]
    fn a_large_graph_is_laid_out_with_bounded_work() {
        let mut steps = random_steps(2_000, 7);
        let all: Vec<StepId> = steps.iter().map(|step| step.id.clone()).collect();
        steps.push(LayoutStep { id: "end".into(), dependencies: all, phase: None, cleanup: None });
        let layout = layout_steps(&steps, &[]);
        let bends: usize = layout.edges.iter().map(|edge| edge.bends.len()).sum();
        assert!(bends <= BENDS_MAX, "{bends}");
    }
}
