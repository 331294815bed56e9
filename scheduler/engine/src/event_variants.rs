//! The samples of events, with each word in their data on which a transition depends: for tests and generated documents.

use goalmill_common::call::CallWaitKind;
use goalmill_common::config::HookPoint;
use goalmill_common::event::{HookDecision, PlanEvent, StepEvent};
use goalmill_common::status::PlanStatus;

/// Places in the data of an event, such as `call.wait.for`, and the word at each.
pub type EventWords = Vec<(&'static str, &'static str)>;

/// The samples of the events of a step, in the order of [`StepEvent::samples`].
pub fn step_event_variants() -> Vec<(EventWords, StepEvent)> {
    let variants = |event| {
        if let StepEvent::HookAsked(asked) = &event {
            let asked = each(asked, "point", &HookPoint::ALL, HookPoint::as_str, |asked, point| asked.point = point);
            asked.into_iter().map(|(words, asked)| (words, StepEvent::HookAsked(asked))).collect()
        } else if let StepEvent::HookDecided(decided) = &event {
            let at = each(decided, "point", &HookPoint::ALL, HookPoint::as_str, |decided, point| decided.point = point);
            let decisions = at.into_iter().flat_map(|(at, decided)| {
                let (all, word) = (HookDecision::ALL, HookDecision::as_str);
                let each = each(&decided, "decision", all, word, |decided, decision| decided.decision = decision);
                each.into_iter().map(move |(words, decided)| ([at.clone(), words].concat(), decided))
            });
            decisions.map(|(words, decided)| (words, StepEvent::HookDecided(decided))).collect()
        } else if let StepEvent::Suspended(suspended) = &event {
            let (all, word) = (CallWaitKind::ALL, CallWaitKind::as_str);
            let kinds = each(suspended, "call.wait.for", all, word, |suspended, kind| suspended.call.wait.kind = kind);
            kinds.into_iter().map(|(words, suspended)| (words, StepEvent::Suspended(suspended))).collect()
        } else {
            vec![(Vec::new(), event)]
        }
    };
    StepEvent::samples().into_iter().flat_map(variants).collect()
}

/// The samples of the events of a plan, in the order of [`PlanEvent::samples`].
pub fn plan_event_variants() -> Vec<(EventWords, PlanEvent)> {
    let variants = |event| {
        if let PlanEvent::HookAsked(asked) = &event {
            let asked = each(asked, "point", &HookPoint::ALL, HookPoint::as_str, |asked, point| asked.point = point);
            asked.into_iter().map(|(words, asked)| (words, PlanEvent::HookAsked(asked))).collect()
        } else if let PlanEvent::HookDecided(decided) = &event {
            let at = each(decided, "point", &HookPoint::ALL, HookPoint::as_str, |decided, point| decided.point = point);
            at.into_iter().map(|(words, decided)| (words, PlanEvent::HookDecided(decided))).collect()
        } else if let PlanEvent::Completed(ended) = &event {
            let ends =
                each(ended, "status", PlanStatus::ALL, PlanStatus::as_str, |ended, status| ended.status = status);
            ends.into_iter().map(|(words, ended)| (words, PlanEvent::Completed(ended))).collect()
        } else {
            vec![(Vec::new(), event)]
        }
    };
    PlanEvent::samples().into_iter().flat_map(variants).collect()
}

/// The data with each of `words` at `place`.
fn each<D: Clone, W: Copy>(
    data: &D,
    place: &'static str,
    words: &[W],
    word: fn(W) -> &'static str,
    set: fn(&mut D, W),
) -> Vec<(EventWords, D)> {
    let with = |chosen: &W| {
        let mut data = data.clone();
        set(&mut data, *chosen);
        (vec![(place, word(*chosen))], data)
    };
    words.iter().map(with).collect()
}
