//! Ranks: how far each step stands from the beginning.

use std::collections::BTreeMap;

use super::{CleanupPart, LayoutStep, PhaseSpan};
use crate::id::StepId;
use crate::number::to_u32;

/// What the clean-up is called among the phases.
const CLEANUP: &str = "clean-up";

/// Pairs of dependency and dependent, without doubles and without steps that depend on themselves.
pub(super) fn find_edges(steps: &[LayoutStep]) -> Vec<(usize, usize)> {
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
pub(super) fn rank_steps(steps: &[LayoutStep], edges: &[(usize, usize)], phases: usize) -> Vec<usize> {
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

pub(super) fn phase_ranks(steps: &[LayoutStep], ranks: &[usize], phases: &[&str]) -> Vec<PhaseSpan> {
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
