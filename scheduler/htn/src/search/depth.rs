//! Depth-first search through decompositions, on one state with undo and without recursion.

use crate::compile::{CompiledProblem, GroundAction, MethodId, Scratch, TaskKind, Truth, fill};
use crate::facts::{FactTable, FastSet, mix};
use crate::index::{Object, to_u32};
use crate::join::{RuleJoin, View};

use super::network::{Checkpoint, StepId, Steps};
use super::trace::{TraceStep, solution};
use super::{GoalProtection, MethodOrder, SearchEnd, SearchStrategy};

/// Nodes between two checks of the stop condition.
const STOP_EVERY: u64 = 1 << 10;

/// A choice point on the path.
struct SearchFrame {
    /// The steps that may be done next, in `Search::fronts`.
    front: (u32, u32),
    /// Which of them is being tried; counts from 0.
    choice: u32,
    step: StepId,
    /// Methods in the order of trial, and which comes next.
    methods: Vec<MethodId>,
    next: usize,
    join: Option<RuleJoin>,
    started: bool,
    /// What was done from here, to be undone.
    done: Option<UndoRecord>,
    /// Unfinished steps in the network, and the sum of what they are.
    count: u64,
    sum: u64,
}

struct UndoRecord {
    facts: usize,
    steps: Checkpoint,
    fronts: usize,
    /// The method taken and the first of its subtasks; none for an action.
    taken: Option<(MethodId, StepId)>,
    /// Whether the step was finished by it.
    finished: bool,
}

struct DepthFirstSearch<'a> {
    compiled: &'a CompiledProblem,
    how: SearchStrategy,
    facts: FactTable,
    steps: Steps,
    fronts: Vec<StepId>,
    frames: Vec<SearchFrame>,
    seen: FastSet<u64>,
    scratch: Scratch,
    nodes: u64,
    /// Something was left out that could have led to a plan.
    cut: bool,
}

/// Runs one search; also returns the number of nodes.
pub(super) fn search(
    compiled: &CompiledProblem,
    how: SearchStrategy,
    depth_max: usize,
    stop: &mut dyn FnMut() -> bool,
) -> (SearchEnd, u64) {
    let mut search = DepthFirstSearch::new(compiled, how);
    let end = search.run(depth_max, stop);
    (end, search.nodes)
}

impl<'a> DepthFirstSearch<'a> {
    fn new(compiled: &'a CompiledProblem, how: SearchStrategy) -> Self {
        let mut facts = FactTable::new(&compiled.arities, compiled.objects.len());
        for key in &compiled.init {
            facts.set(key, true);
        }
        for key in compiled.goals() {
            let watched = match how.protect {
                GoalProtection::None => false,
                GoalProtection::Achieved => !facts.holds(&key),
                GoalProtection::All => true,
            };
            if watched {
                facts.watch(&key);
            }
        }
        let mut steps = Steps::default();
        let root = steps.add_root(compiled.root);
        let mut search = Self {
            compiled,
            how,
            facts,
            steps,
            fronts: vec![root],
            frames: Vec::new(),
            seen: FastSet::default(),
            scratch: Scratch::new(),
            nodes: 0,
            cut: false,
        };
        let own = search.steps.get(root).own;
        search.push((0, 1), 1, own);
        search
    }

    fn run(&mut self, depth_max: usize, stop: &mut dyn FnMut() -> bool) -> SearchEnd {
        while !self.frames.is_empty() {
            self.undo();
            if !self.advance() {
                self.frames.pop();
                continue;
            }
            self.nodes += 1;
            if self.nodes.is_multiple_of(STOP_EVERY) && stop() {
                return SearchEnd::Stopped;
            }
            if self.nodes >= self.how.nodes {
                return SearchEnd::Limit;
            }
            let Some(front) = self.front() else { continue };
            if front.1 == 0 {
                return SearchEnd::Solved(self.solution());
            }
            if self.frames.len() >= depth_max {
                self.cut = true;
                continue;
            }
            let (count, sum) = self.measure();
            if self.is_new(front, count, sum) {
                self.push(front, count, sum);
            }
        }
        if self.cut { SearchEnd::Limit } else { SearchEnd::Exhausted }
    }

    fn push(&mut self, front: (u32, u32), count: u64, sum: u64) {
        self.frames.push(SearchFrame {
            front,
            choice: 0,
            step: self.fronts[front.0 as usize],
            methods: Vec::new(),
            next: 0,
            join: None,
            started: false,
            done: None,
            count,
            sum,
        });
    }

    /// Whether this state with this network was not met before.
    fn is_new(&mut self, front: (u32, u32), count: u64, sum: u64) -> bool {
        let steps = &self.fronts[front.0 as usize..(front.0 + front.1) as usize];
        let frontier = steps.iter().fold(0u64, |h, s| h.wrapping_add(mix(self.steps.get(*s).hash)));
        let network = mix(frontier ^ mix(count).rotate_left(9)) ^ sum;
        self.seen.insert(mix(self.facts.hash().wrapping_add(mix(network))))
    }

    /// Unfinished steps after what the last frame did, and the sum of what they are.
    fn measure(&self) -> (u64, u64) {
        let frame = self.frames.last().expect("there is a frame while something is being done");
        let (mut count, mut sum) = (frame.count - 1, frame.sum.wrapping_sub(self.steps.get(frame.step).own));
        if let Some((method, first)) = frame.done.as_ref().and_then(|d| d.taken) {
            for n in 0..to_u32(self.compiled.methods[method as usize].subtasks.len()) {
                count += 1;
                sum = sum.wrapping_add(self.steps.get(first + n).own);
            }
        }
        (count, sum)
    }

    /// Takes back what the last frame did.
    fn undo(&mut self) {
        let Some(frame) = self.frames.last_mut() else { return };
        let Some(done) = frame.done.take() else { return };
        self.fronts.truncate(done.fronts);
        if done.finished {
            self.steps.unfinish(frame.step);
        }
        if let Some((method, _)) = done.taken {
            self.steps.unexpand(frame.step, &self.compiled.methods[method as usize]);
        }
        self.steps.shrink(done.steps);
        self.facts.undo(done.facts);
    }

    /// Does the next thing that the last frame can do; false when there is none left.
    fn advance(&mut self) -> bool {
        loop {
            let at = self.frames.len() - 1;
            let step = self.frames[at].step;
            let task = &self.compiled.tasks[self.steps.get(step).task as usize];
            let applied = match &task.kind {
                TaskKind::Primitive(action) => !self.frames[at].started && self.act(at, action),
                TaskKind::Compound(methods) => self.decompose(at, methods, task.recursive),
            };
            if applied {
                return true;
            }
            let frame = &mut self.frames[at];
            frame.choice += 1;
            if frame.choice == frame.front.1 {
                return false;
            }
            frame.step = self.fronts[(frame.front.0 + frame.choice) as usize];
            (frame.started, frame.join, frame.next) = (false, None, 0);
        }
    }

    fn act(&mut self, at: usize, action: &GroundAction) -> bool {
        self.frames[at].started = true;
        let step = self.frames[at].step;
        let mut binding: Vec<Object> = Vec::with_capacity(action.width);
        binding.extend_from_slice(self.steps.args(step));
        binding.resize(action.width, 0);
        if !is_applicable(self.compiled, action, &self.facts, &mut binding, &mut self.scratch) {
            return false;
        }
        let done = self.begin(None);
        let held = self.facts.watched();
        apply(self.compiled, action, &mut self.facts, &mut binding, &mut self.scratch);
        if self.facts.watched() < held {
            self.facts.undo(done.facts);
            return false;
        }
        self.frames[at].done = Some(done);
        true
    }

    fn begin(&self, taken: Option<(MethodId, StepId)>) -> UndoRecord {
        UndoRecord {
            facts: self.facts.mark(),
            steps: self.steps.mark(),
            fronts: self.fronts.len(),
            taken,
            finished: false,
        }
    }

    fn decompose(&mut self, at: usize, methods: &[MethodId], recursive: bool) -> bool {
        let step = self.frames[at].step;
        if !self.frames[at].started {
            self.frames[at].started = true;
            let state = self.facts.hash();
            if recursive && self.how.loops && self.steps.is_loop(step, state, self.how.nest) {
                self.frames[at].methods.clear();
                return false;
            }
            self.steps.open(step, state);
            let ordered = self.ordered(methods);
            self.frames[at].methods = ordered;
        }
        loop {
            let Self { compiled, facts, steps, frames, scratch, .. } = self;
            let frame = &mut frames[at];
            if frame.join.is_none() {
                let Some(method) = frame.methods.get(frame.next) else { return false };
                frame.next += 1;
                let view = View { method: &compiled.methods[*method as usize], facts, sorts: &compiled.sorts };
                let seed = if self.how.seed == 0 { 0 } else { mix(self.how.seed ^ self.nodes) | 1 };
                frame.join = Some(RuleJoin::new(&view, steps.args(step), seed));
            }
            let id = frame.methods[frame.next - 1];
            let method = &compiled.methods[id as usize];
            let view = View { method, facts, sorts: &compiled.sorts };
            let join = frame.join.as_mut().expect("it was just made");
            if join.next(&view, scratch) {
                let (facts, fronts, mark) = (facts.mark(), self.fronts.len(), steps.mark());
                let first = steps.expand(step, method, &join.binding);
                frame.done = Some(UndoRecord { facts, steps: mark, fronts, taken: Some((id, first)), finished: false });
                return true;
            }
            frame.join = None;
        }
    }

    fn ordered(&self, methods: &[MethodId]) -> Vec<MethodId> {
        let mut ordered = methods.to_vec();
        match self.how.order {
            MethodOrder::AsWritten => {}
            MethodOrder::BaseCasesFirst => ordered.sort_by_key(|m| self.recursions(*m)),
            MethodOrder::RecursiveFirst => ordered.sort_by_key(|m| std::cmp::Reverse(self.recursions(*m))),
            MethodOrder::Random => ordered.sort_by_key(|m| mix(self.how.seed ^ self.nodes ^ (u64::from(*m) << 40))),
        }
        ordered
    }

    /// How many of a method's subtasks may come to themselves again.
    fn recursions(&self, method: MethodId) -> usize {
        let subtasks = &self.compiled.methods[method as usize].subtasks;
        subtasks.iter().filter(|s| self.compiled.tasks[s.task as usize].recursive).count()
    }

    /// What may be done next after what the last frame did; none if that is nothing though tasks are left.
    fn front(&mut self) -> Option<(u32, u32)> {
        let at = self.frames.len() - 1;
        let frame = &mut self.frames[at];
        let done = frame.done.as_mut().expect("something was just done");
        let from = to_u32(self.fronts.len());
        // What comes from the step stands first, so that what was begun is finished before other things are.
        let mut children = 0;
        if let Some((method, first)) = done.taken {
            for (n, subtask) in self.compiled.methods[method as usize].subtasks.iter().enumerate() {
                children += 1;
                if subtask.waits == 0 {
                    self.fronts.push(first + to_u32(n));
                }
            }
        }
        if children == 0 {
            done.finished = true;
            let fronts = &mut self.fronts;
            self.steps.finish(frame.step, |ready| fronts.push(ready));
        }
        for n in 0..frame.front.1 {
            if n != frame.choice {
                let step = self.fronts[(frame.front.0 + n) as usize];
                self.fronts.push(step);
            }
        }
        Some((from, to_u32(self.fronts.len()) - from))
    }

    fn solution(&self) -> crate::solution::Solution {
        let moves = self.frames.iter().map(|frame| {
            let taken = frame.done.as_ref().and_then(|d| d.taken);
            let binding = frame.join.as_ref().map_or(&[][..], |j| j.binding.as_slice());
            TraceStep { step: frame.step, taken: taken.map(|(method, first)| (method, binding, first)) }
        });
        solution(self.compiled, &self.steps, moves)
    }
}

/// Whether the arguments fit the parameters and the precondition holds.
pub(super) fn is_applicable(
    compiled: &CompiledProblem,
    action: &GroundAction,
    facts: &FactTable,
    binding: &mut [Object],
    scratch: &mut Scratch,
) -> bool {
    let fits = action.sorts.iter().zip(&*binding).all(|(sort, o)| compiled.sorts[*sort as usize].has[*o as usize]);
    fits && action.condition.holds(facts, &compiled.sorts, binding, scratch)
}

/// Changes the state: conditions are tested before anything changes, deletions come before additions.
pub(super) fn apply(
    compiled: &CompiledProblem,
    action: &GroundAction,
    facts: &mut FactTable,
    binding: &mut [Object],
    scratch: &mut Scratch,
) {
    let plain = |n: usize| action.changes[n].forall.is_empty() && action.changes[n].when.is_none();
    if let [change] = action.changes.as_slice()
        && plain(0)
    {
        for (literals, holds) in [(&change.deletes, false), (&change.adds, true)] {
            for literal in literals {
                fill(scratch, literal, binding);
                facts.set(scratch, holds);
            }
        }
        return;
    }
    let (mut adds, mut deletes): (Vec<Vec<u32>>, Vec<Vec<u32>>) = (Vec::new(), Vec::new());
    for change in &action.changes {
        let sizes = change.forall.iter().map(|(_, sort)| compiled.sorts[*sort as usize].members.len());
        let rounds = sizes.clone().product::<usize>();
        for round in 0..rounds {
            let mut rest = round;
            for ((variable, sort), size) in change.forall.iter().zip(sizes.clone()) {
                binding[*variable as usize] = compiled.sorts[*sort as usize].members[rest % size];
                rest /= size;
            }
            let due = change.when.as_ref().is_none_or(|c| c.holds(facts, &compiled.sorts, binding, scratch));
            if due {
                for (literals, into) in [(&change.deletes, &mut deletes), (&change.adds, &mut adds)] {
                    for literal in literals {
                        fill(scratch, literal, binding);
                        into.push(scratch.clone());
                    }
                }
            }
        }
    }
    deletes.iter().for_each(|key| facts.set(key, false));
    adds.iter().for_each(|key| facts.set(key, true));
}
