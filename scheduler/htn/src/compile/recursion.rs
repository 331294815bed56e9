//! Tasks that can occur below themselves.

use std::collections::BTreeSet;

use super::{CompiledProblem, TaskKind};

/// Finds the tasks that can occur below themselves.
pub(super) fn mark_recursive(compiled: &mut CompiledProblem) {
    let below: Vec<BTreeSet<usize>> = compiled
        .tasks
        .iter()
        .map(|task| match &task.kind {
            TaskKind::Primitive(_) => BTreeSet::new(),
            TaskKind::Compound(methods) => methods
                .iter()
                .flat_map(|m| &compiled.methods[*m as usize].subtasks)
                .map(|s| s.task as usize)
                .filter(|t| matches!(compiled.tasks[*t].kind, TaskKind::Compound(_)))
                .collect(),
        })
        .collect();
    for start in 0..below.len() {
        let mut seen = BTreeSet::new();
        let mut open: Vec<usize> = below[start].iter().copied().collect();
        while let Some(task) = open.pop() {
            if seen.insert(task) {
                open.extend(&below[task]);
            }
        }
        compiled.tasks[start].recursive = seen.contains(&start);
    }
}
