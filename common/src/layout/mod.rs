//! The layout of a plan's graph: a layered drawing, computed once for every reader.
//!
//! Steps stand in ranks, one after the other; within a rank they have positions. Readers multiply both by the size of
//! their boxes. Source: K. Sugiyama, S. Tagawa, M. Toda, "Methods for Visual Understanding of Hierarchical System
//! Structures", 1981.

mod grid;
mod rank;

use serde::{Deserialize, Serialize};

use self::grid::Grid;
pub use self::rank::longest_paths;
use self::rank::{find_edges, phase_ranks, rank_steps};
use crate::id::StepId;
use crate::number::to_u32;
use crate::plan::{Plan, Step};

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
    pub fn from_step(step: &Step) -> Option<Self> {
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
        cleanup: CleanupPart::from_step(step),
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

#[cfg(test)]
mod tests {
    use super::grid::BENDS_MAX;
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
