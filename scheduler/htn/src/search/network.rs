//! The remaining tasks: an arena that grows with applied methods and shrinks with undo.

use crate::compile::{GroundMethod, TaskId};
use crate::facts::{hash_words, mix};
use crate::index::{Object, to_u32};

pub(crate) type StepId = u32;
pub(crate) const NONE: StepId = StepId::MAX;

/// Steps above in other states that are looked at for loops.
const LOOK_ABOVE: u32 = 32;

/// A task within the network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetworkStep {
    pub task: TaskId,
    /// The step it comes from.
    pub parent: StepId,
    args: (u32, u32),
    after: (u32, u32),
    /// Of task and arguments.
    pub own: u64,
    /// Of task, arguments, and all that must come after.
    pub hash: u64,
    /// The state in which it was decomposed.
    pub opened: u64,
    /// Unfinished steps that it waits for.
    waits: u32,
}

/// All steps on the current path.
#[derive(Default)]
pub(crate) struct Steps {
    steps: Vec<NetworkStep>,
    args: Vec<Object>,
    after: Vec<StepId>,
}

/// Where the arena ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checkpoint {
    steps: usize,
    args: usize,
    after: usize,
}

impl Steps {
    pub fn get(&self, id: StepId) -> &NetworkStep {
        &self.steps[id as usize]
    }

    pub fn args(&self, id: StepId) -> &[Object] {
        let (from, count) = self.steps[id as usize].args;
        &self.args[from as usize..(from + count) as usize]
    }

    pub fn after(&self, id: StepId) -> &[StepId] {
        let (from, count) = self.steps[id as usize].after;
        &self.after[from as usize..(from + count) as usize]
    }

    pub fn open(&mut self, id: StepId, state: u64) {
        self.steps[id as usize].opened = state;
    }

    pub fn mark(&self) -> Checkpoint {
        Checkpoint { steps: self.steps.len(), args: self.args.len(), after: self.after.len() }
    }

    pub fn shrink(&mut self, mark: Checkpoint) {
        self.steps.truncate(mark.steps);
        self.args.truncate(mark.args);
        self.after.truncate(mark.after);
    }

    pub fn add_root(&mut self, task: TaskId) -> StepId {
        self.push(task, NONE, &[], (0, 0), 0)
    }

    /// Puts the method's subtasks in place of `parent`; gives the first of them: they are numbered in a row.
    pub fn expand(&mut self, parent: StepId, method: &GroundMethod, binding: &[Object]) -> StepId {
        let first = to_u32(self.steps.len());
        let inherited = self.steps[parent as usize].after;
        let mut args: Vec<Object> = Vec::new();
        for subtask in &method.subtasks {
            args.clear();
            args.extend(subtask.args.iter().map(|a| a.value(binding)));
            let after = if subtask.after.is_empty() {
                inherited
            } else {
                let from = to_u32(self.after.len());
                self.after.extend(subtask.after.iter().map(|n| first + to_u32(*n)));
                (from, to_u32(subtask.after.len()))
            };
            self.push(subtask.task, parent, &args, after, subtask.waits);
        }
        // What comes after is known by its hash, so the last are hashed first.
        for id in (first..to_u32(self.steps.len())).rev() {
            let sum = self.after(id).iter().fold(0u64, |sum, a| sum.wrapping_add(mix(self.get(*a).hash)));
            let step = &mut self.steps[id as usize];
            step.hash = mix(step.own.wrapping_add(sum.rotate_left(17)));
        }
        for n in inherited.0..inherited.0 + inherited.1 {
            let after = self.after[n as usize];
            let waits = &mut self.steps[after as usize].waits;
            // `parent` is replaced by the last of its subtasks.
            *waits = *waits + method.last - u32::from(method.last > 0);
        }
        first
    }

    /// Undoes what `expand` did to steps that are older.
    pub fn unexpand(&mut self, parent: StepId, method: &GroundMethod) {
        let (from, count) = self.steps[parent as usize].after;
        for n in from..from + count {
            let after = self.after[n as usize];
            let waits = &mut self.steps[after as usize].waits;
            *waits = *waits + u32::from(method.last > 0) - method.last;
        }
    }

    /// A step is done; calls `ready` for each that waited for nothing else.
    pub fn finish(&mut self, id: StepId, mut ready: impl FnMut(StepId)) {
        let (from, count) = self.steps[id as usize].after;
        for n in from..from + count {
            let after = self.after[n as usize];
            let step = &mut self.steps[after as usize];
            step.waits -= 1;
            if step.waits == 0 {
                ready(after);
            }
        }
    }

    pub fn unfinish(&mut self, id: StepId) {
        let (from, count) = self.steps[id as usize].after;
        for n in from..from + count {
            let after = self.after[n as usize];
            self.steps[after as usize].waits += 1;
        }
    }

    /// Whether the task stands above itself, in this very state.
    ///
    /// Looks at all steps above that were taken in this state in a row, and at a few more: loops are short, and a deep
    /// recursion would otherwise pay for its depth at each step.
    ///
    /// - `nest`: how many steps of the same task may stand in a row in this state before that counts as well.
    pub fn is_loop(&self, id: StepId, state: u64, nest: u32) -> bool {
        let NetworkStep { own, task, parent: mut above, .. } = *self.get(id);
        let (mut others, mut same) = (0, 0);
        while above != NONE && others < LOOK_ABOVE {
            let step = self.get(above);
            if step.opened != state {
                others += 1;
            } else if step.own == own {
                return true;
            } else if step.task == task {
                same += 1;
            }
            above = step.parent;
        }
        same >= nest
    }

    fn push(&mut self, task: TaskId, parent: StepId, args: &[Object], after: (u32, u32), waits: u32) -> StepId {
        let id = to_u32(self.steps.len());
        let from = to_u32(self.args.len());
        self.args.extend_from_slice(args);
        let own = hash_words(std::iter::once(task).chain(args.iter().copied()));
        self.steps.push(NetworkStep {
            task,
            parent,
            args: (from, to_u32(args.len())),
            after,
            own,
            hash: mix(own),
            opened: 0,
            waits,
        });
        id
    }
}
