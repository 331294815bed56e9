//! What is undone when a plan ends, and in which order.

use goalmill_common::failure::FailureClass;
use goalmill_common::json::Json;
use goalmill_common::plan::{Step, UndoOn};
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_expression as expression;

use super::attempt::{CUT, UNEXPECTED};
use super::plan_run::{PlanRun, Stage, invalid};
use super::step_run::{Begun, Part, Piece, StepRun};
use super::world::World;
use crate::law::Law;

/// The undo steps of one step.
struct Unit {
    begun: Begun,
    /// When its last attempt began, Unix milliseconds.
    last_ms: u64,
    /// Whether its place among those of the same millisecond is certain: an agent was asked.
    is_exact: bool,
    steps: Vec<StepRun>,
}

impl PlanRun {
    /// Law 4.2: undoes what was done, once everything inside has ended.
    pub(super) fn begin_undo(&mut self, world: &mut World<'_>) {
        let wanted = match self.end.as_ref().map(|end| end.status) {
            Some(PlanStatus::Failed) => Some(UndoOn::Failed),
            Some(PlanStatus::Cancelled) => Some(UndoOn::Cancelled),
            _ => None,
        };
        let is_wanted = wanted.is_some_and(|wanted| self.plan.undo_on.as_ref().is_none_or(|on| on.contains(&wanted)));
        if is_wanted {
            let steps = self.to_undo(&self.plan_as_seen(), world);
            self.steps.extend(steps);
        }
        self.stage = Stage::Undoing;
    }

    /// The undo steps of what was done in this plan and inside it, in their order.
    ///
    /// - `plan`: the plan that ends, as expressions see it.
    fn to_undo(&self, plan: &Json, world: &mut World<'_>) -> Vec<StepRun> {
        let mut units = Vec::new();
        for (i, step) in self.steps.iter().enumerate().filter(|(_, step)| step.part == Part::Main) {
            let mut steps = self.undo_of(i, plan, world);
            steps.iter_mut().for_each(|undo| undo.undoes = Some(step.spec.id.clone()));
            if let (Some(begun), false) = (step.begun, steps.is_empty()) {
                units.push(Unit { begun, last_ms: step.last_ms, is_exact: step.asks_agent(), steps });
            }
        }
        in_order(units, world)
    }

    /// Law 4.3: the undo steps of one step: one for what each of its agents did in each iteration. Law 4.4: the last one
    /// first.
    pub(super) fn undo_of(&self, i: usize, plan: &Json, world: &mut World<'_>) -> Vec<StepRun> {
        let step = &self.steps[i];
        let is_done = |inner: &&PlanRun| {
            let status = inner.end.as_ref().map(|end| end.status);
            inner.is_ended() && matches!(status, Some(PlanStatus::Completed | PlanStatus::Partial))
        };
        let mut undo: Vec<StepRun> = Vec::new();
        for inner in step.plans.iter().rev().filter(is_done) {
            let steps = inner.to_undo(plan, world);
            if !steps.is_empty() && inner.outer.is_none() {
                world.note(Law::CompletedInside);
            }
            undo.extend(steps);
        }
        let template = self.undo.iter().find(|undo| undo.undoes.as_ref() == Some(&step.spec.id));
        let Some(template) = template.filter(|_| step.spec.for_each.is_none()) else { return undo };
        let done = step.pieces.iter().rev().filter(|piece| piece.unknown || piece.outputs.is_some());
        let own: Vec<StepRun> = done.map(|piece| self.undo_step(i, template, piece, plan)).collect();
        if !own.is_empty() {
            self.note_unknown(step, own.len(), world);
        } else if step.status() == Some(StepStatus::Cancelled) && step.begun.is_some() {
            world.note(Law::AnsweredThenCancelled);
        }
        undo.extend(own);
        undo
    }

    /// Law 4.5: an undo step sees the inputs and the outputs of what it undoes.
    fn undo_step(&self, i: usize, template: &Step, done: &Piece, plan: &Json) -> StepRun {
        let mut locals = self.steps[i].locals.clone();
        let outputs = done.outputs.clone().unwrap_or_else(Json::empty_object);
        locals.extend([
            ("inputs".into(), done.inputs.clone()),
            ("outputs".into(), outputs),
            ("plan".into(), plan.clone()),
        ]);
        let inputs = self.seen(i).render(&template.inputs, &locals);
        let spec = Step { for_each: None, ..template.clone() };
        match inputs {
            Ok(inputs) => {
                let inputs = Json::from_value(&expression::literal(&inputs.value()));
                StepRun::new(Step { inputs, ..spec }, Part::Undo)
            }
            Err(error) => StepRun { failure: Some(invalid(error.code)), ..StepRun::new(spec, Part::Undo) },
        }
    }

    fn note_unknown(&self, step: &StepRun, count: usize, world: &mut World<'_>) {
        if step.spec.repeat.is_some() && (count != 1 || step.status() != Some(StepStatus::Completed)) {
            world.note(Law::LoopPerIteration);
        }
        if step.pieces.iter().all(|piece| piece.outputs.is_some() || !piece.unknown) {
            return;
        }
        if step.pieces.iter().any(|piece| piece.unknown && !piece.is_fallback && step.has_fallen_back(piece.round)) {
            world.note(Law::UnknownThenFallback);
        }
        if self.outer.is_some() {
            world.note(Law::UnknownItem);
        }
        let failure = step.failure.as_ref().map(|failure| (failure.class, failure.code.as_str()));
        match (step.status(), failure) {
            (Some(StepStatus::Skipped), _) => world.note(Law::SkippedAfterUnknown),
            (Some(StepStatus::Failed), Some((_, UNEXPECTED))) => world.note(Law::RefusedAnswer),
            (Some(StepStatus::Failed), Some((_, CUT))) => world.note(Law::CutConnection),
            (Some(StepStatus::Failed), Some((class, _))) if class != FailureClass::Timeout => {
                world.note(Law::UnknownThenAnswered);
            }
            _ => {}
        }
    }
}

/// Law 4.4: the one that was sent last comes first. A step that holds a plan has no place among the questions of its
/// millisecond, so the order to follow decides there.
fn in_order(mut units: Vec<Unit>, world: &mut World<'_>) -> Vec<StepRun> {
    let mut steps = Vec::new();
    let is_later = |a: &Unit, b: &Unit| {
        let in_one = a.begun.ms == b.begun.ms && a.is_exact && b.is_exact;
        a.begun.ms > b.begun.ms || in_one && a.begun.asks > b.begun.asks
    };
    let ms = |unit: &Unit| unit.begun.ms;
    let is_together = (1..units.len()).any(|n| units[..n].iter().any(|other| ms(other) == ms(&units[n])));
    if is_together {
        world.note(Law::OneMillisecond);
    }
    let overtakes = |a: &Unit, b: &Unit| ms(a) < ms(b) && a.last_ms >= b.last_ms;
    if units.iter().any(|a| units.iter().any(|b| overtakes(a, b))) {
        world.note(Law::FirstAttempt);
    }
    while !units.is_empty() {
        let may_be_next = |n: &usize| !units.iter().any(|other| is_later(other, &units[*n]));
        // Two units may ask the same.
        let next = world.in_free_order((0..units.len()).filter(may_be_next));
        let place = |n: &usize| {
            let first = units[*n].steps.first().filter(|_| world.is_by_age);
            first.map(|step| world.place(step.action(), &step.spec.inputs.value(), false))
        };
        let next = next.into_iter().min_by_key(place).unwrap_or_default();
        steps.extend(units.remove(next).steps);
    }
    steps
}
