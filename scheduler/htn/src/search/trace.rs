//! Converts a search path to a solution.

use std::collections::BTreeMap;

use crate::compile::{CompiledProblem, MethodId};
use crate::index::{Object, to_u32};
use crate::solution::{Decomposition, PlanNode, Solution};

use super::network::{StepId, Steps};

/// One thing that was done on the path.
pub(crate) struct TraceStep<'a> {
    pub step: StepId,
    /// The method, its binding, and the first of its subtasks.
    pub taken: Option<(MethodId, &'a [Object], StepId)>,
}

/// - `moves`: in the order in which they were made; the first one takes the initial network.
pub(crate) fn solution<'a>(
    compiled: &CompiledProblem,
    steps: &Steps,
    moves: impl Iterator<Item = TraceStep<'a>>,
) -> Solution {
    let mut solution = Solution::default();
    let mut places: BTreeMap<StepId, usize> = BTreeMap::new();
    let names = |objects: &[Object]| objects.iter().map(|o| compiled.objects[*o as usize].clone()).collect::<Vec<_>>();
    for TraceStep { step, taken } in moves {
        let task = steps.get(step).task;
        if task == compiled.goal {
            continue;
        }
        let mut children = Vec::new();
        if let Some((method, _, first)) = taken {
            let method = &compiled.methods[method as usize];
            children = vec![usize::MAX; method.subtasks.len()];
            for (n, position) in method.positions.iter().enumerate() {
                let child = first + to_u32(n);
                let task = steps.get(child).task;
                if task == compiled.goal {
                    continue;
                }
                let node = PlanNode {
                    task: compiled.tasks[task as usize].name.clone(),
                    arguments: names(steps.args(child)),
                    method: None,
                };
                places.insert(child, solution.nodes.len());
                children[*position] = solution.nodes.len();
                solution.nodes.push(node);
            }
        }
        if task == compiled.root {
            // The goal stands last.
            children.pop();
            solution.roots = children;
            if let Some((method, binding, _)) = taken {
                solution.binding = names(&binding[..compiled.methods[method as usize].sorts.len()]);
            }
            continue;
        }
        let Some(place) = places.get(&step).copied() else { continue };
        if let Some((method, binding, _)) = taken {
            let index = method as usize;
            let method = &compiled.methods[index];
            solution.nodes[place].method = Some(Decomposition {
                index,
                name: method.name.clone(),
                binding: names(&binding[..method.sorts.len()]),
                children,
            });
        }
        solution.events.push(place);
    }
    solution
}
