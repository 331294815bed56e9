//! The order of the subtasks of a network.

use std::collections::BTreeSet;

use super::{Arg, GroundSubtask, TaskId};
use crate::facts::mix;

/// Puts calls into an order that agrees with `before`, and keeps of `before` only what does not follow.
///
/// - `line`: puts them one after the other, as written for 0, else in an order that follows from the number.
pub(super) fn arrange(
    calls: Vec<(TaskId, Vec<Arg>)>,
    before: &[(usize, usize)],
    line: Option<u64>,
) -> (Vec<GroundSubtask>, Vec<usize>) {
    let count = calls.len();
    let mut next = vec![Vec::new(); count];
    for (a, b) in before.iter().collect::<BTreeSet<_>>() {
        next[*a].push(*b);
    }
    let order = sort_calls(&next, line);
    let after = match line {
        None => reduce_edges(&order, &next),
        Some(_) => (0..count).map(|at| Vec::from_iter((at + 1 < count).then_some(at + 1))).collect(),
    };
    let mut waits = vec![0; count];
    for target in after.iter().flatten() {
        waits[*target] += 1;
    }
    let mut calls: Vec<Option<(TaskId, Vec<Arg>)>> = calls.into_iter().map(Some).collect();
    let subtasks = order.iter().zip(after).zip(waits).map(|((n, after), waits)| {
        let (task, args) = calls[*n].take().expect("each call is taken once");
        GroundSubtask { task, args, after, waits }
    });
    (subtasks.collect(), order)
}

/// A topological order; among the calls that are ready, `line` says which is next.
///
/// - `next`: the calls that come after each.
fn sort_calls(next: &[Vec<usize>], line: Option<u64>) -> Vec<usize> {
    let rank = |n: usize| match line {
        None | Some(0) => (0, n),
        Some(seed) => (mix(seed ^ mix(n as u64)), n),
    };
    let mut waits = vec![0usize; next.len()];
    for b in next.iter().flatten() {
        waits[*b] += 1;
    }
    let mut ready: BTreeSet<(u64, usize)> = (0..next.len()).filter(|n| waits[*n] == 0).map(rank).collect();
    let mut order = Vec::with_capacity(next.len());
    while let Some((_, n)) = ready.pop_first() {
        order.push(n);
        for b in &next[n] {
            waits[*b] -= 1;
            if waits[*b] == 0 {
                ready.insert(rank(*b));
            }
        }
    }
    order
}

/// The places in `order` after each place, without those that follow from others.
fn reduce_edges(order: &[usize], next: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let count = order.len();
    let mut place = vec![0; count];
    for (at, n) in order.iter().enumerate() {
        place[*n] = at;
    }
    // What is reached from each, as bits, last first: an edge is kept if no other successor leads there.
    let words = count.div_ceil(64);
    let mut reach = vec![0u64; count * words];
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); count];
    for at in (0..count).rev() {
        let targets: BTreeSet<usize> = next[order[at]].iter().map(|n| place[*n]).collect();
        for target in targets {
            if reach[at * words + target / 64] & (1 << (target % 64)) == 0 {
                after[at].push(target);
                let (low, high) = reach.split_at_mut(target * words);
                for (mine, further) in low[at * words..].iter_mut().zip(&high[..words]) {
                    *mine |= further;
                }
                reach[at * words + target / 64] |= 1 << (target % 64);
            }
        }
    }
    after
}
