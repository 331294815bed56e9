//! Random plans and random histories: what must always hold, holds, and everything comes to an end.

use goalmill_common::call::{CallWait, CallWaitKind, SuspendedCall};
use goalmill_common::callback::{CallbackError, CallbackReport};
use goalmill_common::clock::rfc3339;
use goalmill_common::command::{Change, Proposal, RevisionStrategy, Verb};
use goalmill_common::event::{ModelAnswered, ModelAsked, Record, read_entry, write_entry};
use goalmill_common::external_event::ExternalEvent;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::{Budget, Usage};
use goalmill_common::id::StepId;
use goalmill_common::json::Json;
use goalmill_common::number::to_u32;
use goalmill_common::plan::{
    Approval, ApprovalDefault, DependencyStatus, Fallback, ForEach, Jitter, Join, OnFailure, OnItemFailure, OnMax,
    OnTimeout, Phase, Plan, Question, Repeat, Retry, RevisionPolicy, Step, StepKind, StepWait, Strategy as Width,
    UndoOn, Widen,
};
use goalmill_common::report::{Report, What};
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_engine::{Command, Effect, PlanAnswer, PlanState, StepIndex, SubPlanEnd, Timer, explain, replay, revise};
use proptest::prelude::*;
use serde_json::json;

use crate::audit::Audit;
use crate::world::{START_MS, World, completed, failed, planned, report, submission};

/// Words that choices are made from; all are the first one when used up, so that shorter is simpler.
struct Chance<'a>(std::slice::Iter<'a, u16>);

impl Chance<'_> {
    fn below(&mut self, bound: usize) -> usize {
        usize::from(*self.0.next().unwrap_or(&0)) % bound.max(1)
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

fn random_plan(chance: &mut Chance<'_>) -> Plan {
    let n = 1 + chance.below(30);
    let phases = if chance.one_in(4) { 3 } else { 0 };
    let phase = |k: usize| Phase { id: format!("f{k}"), description: String::new(), checkpoint: true };
    let plan = Plan {
        revision: random_policy(chance),
        continue_on_failure: chance.one_in(6),
        strategy: chance.pick(&[Width::Parallel, Width::Sequential, Width::Adaptive]),
        max_parallel: chance.one_in(3).then(|| 1 + to_u32(chance.below(4))),
        budget: if chance.one_in(6) { Budget { tokens: Some(20), ..Budget::default() } } else { Budget::default() },
        approve: random_approval(chance, 8),
        phases: (0..phases).map(phase).collect(),
        steps: (0..n).map(|i| random_step(chance, i, n, phases)).collect(),
        ..Plan::default()
    };
    moving(plan, chance)
}

/// Makes maps and loops of some steps, and adds clean-up steps.
fn moving(mut plan: Plan, chance: &mut Chance<'_>) -> Plan {
    if !chance.one_in(3) {
        return plan;
    }
    let mut undo = Vec::new();
    for step in &mut plan.steps {
        // A plan of other steps may end in the turn that starts it, whose effects are not those of one plan.
        if step.ask.is_none() && step.kind.needs_worker() && chance.one_in(6) {
            step.for_each = Some(Box::new(ForEach {
                items: (0..chance.below(4)).collect::<serde_json::Value>().into(),
                name: None,
                batch: chance.one_in(3).then_some(2),
                max_parallel: chance.one_in(3).then_some(1),
                items_max: None,
                on_item_failure: chance.pick(&[OnItemFailure::Fail, OnItemFailure::Continue, OnItemFailure::AtMost(1)]),
            }));
        } else if !step.kind.is_inline() && chance.one_in(6) {
            let until = chance.pick(&["iteration == 2", "(outputs.x | default(0)) > 2"]).to_owned();
            let on_max = chance.pick(&[OnMax::Fail, OnMax::Continue]);
            let delay_ms = chance.pick(&[0, 1_000]);
            step.repeat = Some(Box::new(Repeat { until, max: 2 + to_u32(chance.below(2)), delay_ms, on_max }));
        }
        if chance.one_in(4) {
            let undoes = Some(step.id.clone());
            undo.push(Step { undoes, ..Step::new(format!("{}:undo", step.id), "w") });
        }
    }
    plan.steps.extend(undo);
    for n in 0..chance.below(3) {
        let dependencies = if n > 0 && chance.one_in(2) { vec!["z0".into()] } else { Vec::new() };
        plan.steps.push(Step { always: true, dependencies, ..Step::new(format!("z{n}"), "w") });
    }
    plan.undo_on = chance.pick(&[None, Some(vec![UndoOn::Failed]), Some(Vec::new())]);
    plan
}

fn random_policy(chance: &mut Chance<'_>) -> Option<RevisionPolicy> {
    let widen = chance.pick(&[Widen::Allow, Widen::Approve, Widen::Refuse]);
    let max = chance.one_in(2).then(|| to_u32(chance.below(3)));
    let approve = random_approval(chance, 4);
    chance.one_in(3).then(|| RevisionPolicy { max, approve, widen, budget_low: 0.5, ..RevisionPolicy::default() })
}

/// Changes that may or may not fit the plan.
fn random_changes(world: &World, chance: &mut Chance<'_>) -> Vec<Change> {
    let steps = &world.state.plan().steps;
    if steps.is_empty() {
        return Vec::new();
    }
    let n = 1 + chance.below(3);
    (0..n).map(|_| random_change(world, steps, chance)).collect()
}

fn random_change(world: &World, steps: &[Step], chance: &mut Chance<'_>) -> Change {
    let old = chance.pick(steps);
    let other = chance.pick(steps).id;
    let reason = String::new();
    let new = |chance: &mut Chance<'_>| Step {
        dependencies: if chance.one_in(2) { vec![other.clone()] } else { Vec::new() },
        on_failure: chance.pick(&[OnFailure::Continue, OnFailure::Replan, OnFailure::Abort]),
        kind: chance.pick(&[StepKind::Tool, StepKind::Tool, StepKind::Message]),
        phase: old.phase.clone(),
        ..Step::new(format!("n{}-{}", world.state.seq(), chance.below(4)), "w")
    };
    let step = old.id.clone();
    match chance.below(12) {
        0 | 1 => Change::RetryStep { step, agent_type: Some("other".into()), action: None, inputs: None },
        2 => Change::RetryStep { step, agent_type: None, action: None, inputs: None },
        3 => Change::SkipStep { step, reason },
        4 => Change::RemoveStep { step },
        5 => Change::AddStep { step: Box::new(new(chance)), before: vec![step] },
        6 => Change::ReplaceStep { step, with: vec![new(chance)] },
        7 => Change::DecomposeStep {
            step,
            plan: Some(Box::new(Plan { steps: vec![Step::new("in", "w")], ..Plan::default() })),
        },
        8 => Change::Order { steps: vec![step, other] },
        9 => {
            let id = format!("g{}", world.state.seq());
            let phase = Phase { id, description: String::new(), checkpoint: chance.one_in(2) };
            let after = old.phase.clone().filter(|_| chance.one_in(2));
            Change::AddPhase { phase, after, steps: vec![new(chance)] }
        }
        10 => Change::SkipPhase { phase: old.phase.unwrap_or_else(|| "f1".into()), reason },
        _ => {
            let dependencies = if chance.one_in(2) { vec![other.clone()] } else { Vec::new() };
            let action = chance.pick(&[old.action.clone(), "changed".into()]);
            Change::ModifyStep { step: Box::new(Step { dependencies, action, ..old }) }
        }
    }
}

fn random_answer(world: &World, chance: &mut Chance<'_>) -> PlanAnswer {
    let strategy = chance.pick(&[
        RevisionStrategy::RetryWithAgent,
        RevisionStrategy::Workaround,
        RevisionStrategy::Adjust,
        RevisionStrategy::Decompose,
        RevisionStrategy::AskUser,
        RevisionStrategy::Abort,
    ]);
    let question = Question {
        question: "?".into(),
        schema: None,
        default: chance.one_in(2).then(|| json!(1).into()),
        limit_ms: 60_000,
        into: None,
    };
    match chance.below(5) {
        0 => PlanAnswer::Failed { reason: String::new(), issues: Vec::new(), provenance: None },
        1 => PlanAnswer::Plan(Box::new(planned(random_plan(chance)))),
        _ => {
            let question = Some(question);
            let changes = random_changes(world, chance);
            PlanAnswer::Revision(Box::new(Proposal { question, ..Proposal::new(strategy, changes) }))
        }
    }
}

fn random_approval(chance: &mut Chance<'_>, rarity: usize) -> Option<Approval> {
    let default = chance.pick(&[ApprovalDefault::Approve, ApprovalDefault::Reject]);
    chance.one_in(rarity).then_some(Approval { limit_ms: 60_000, default })
}

fn random_step(chance: &mut Chance<'_>, i: usize, n: usize, phases: usize) -> Step {
    let dependencies: Vec<_> =
        (0..i.min(5)).filter(|_| chance.one_in(2)).map(|k| format!("s{}", i - 1 - k).as_str().into()).collect();
    let wait = |ms| Retry { max: 1, initial_ms: ms, factor: 2.0, max_ms: 10_000, jitter: Jitter::Full };
    let first = dependencies.first().cloned();
    let statuses = [DependencyStatus::Failed, DependencyStatus::Skipped, DependencyStatus::Completed];
    let some = |chance: &mut Chance<'_>| -> Vec<_> { statuses.into_iter().filter(|_| chance.one_in(2)).collect() };
    let status = first.clone().filter(|_| chance.one_in(4)).map(|first| (first, some(chance)));
    let mut step = Step { dependencies, ..Step::new(format!("s{i}"), "w") };
    step.dependency_status = status.into_iter().collect();
    step.kind = chance.pick(&[
        StepKind::Tool,
        StepKind::Tool,
        StepKind::Tool,
        StepKind::Llm,
        StepKind::Message,
        StepKind::Plan,
        StepKind::Wait,
    ]);
    if step.kind == StepKind::Wait {
        step.wait = random_wait(chance);
    }
    // Seldom more than there are, which skips all that follows.
    let k = if chance.one_in(16) { 2 } else { to_u32(step.dependencies.len().min(2)) };
    step.join = chance.pick(&[Join::All, Join::All, Join::Any, Join::AtLeast(k)]);
    step.retry = chance.pick(&[wait(1_000), wait(0), Retry { max: 0, ..Retry::default() }, Retry::default()]);
    step.on_failure = chance.pick(&[
        OnFailure::Continue,
        OnFailure::Skip,
        OnFailure::Continue,
        OnFailure::Skip,
        OnFailure::Continue,
        OnFailure::Abort,
        OnFailure::Replan,
        OnFailure::AskUser,
    ]);
    step.ask = chance.one_in(16).then(|| Question {
        question: "?".into(),
        schema: Some(json!({"type": "integer"}).into()),
        default: chance.one_in(2).then(|| json!(1).into()),
        limit_ms: 60_000,
        into: chance.one_in(2).then(|| "answer".into()),
    });
    step.fallback = chance.one_in(4).then(|| Fallback { agent_type: Some("other".into()), action: Some("b".into()) });
    step.callback = step.kind.needs_worker() && chance.one_in(4);
    step.approve = random_approval(chance, 8);
    step.resource = chance.one_in(5).then(|| "r".to_owned());
    step.expected_outputs = if chance.one_in(8) { vec!["x".into()] } else { Vec::new() };
    step.phase = (phases > 0 && chance.below(4) > 0).then(|| format!("f{}", i * phases / n));
    if let Some(first) = first {
        step.when = chance.one_in(6).then(|| format!("steps.{first}.outputs.x > 1"));
        if chance.one_in(6) {
            step.inputs = json!({"v": format!("{{{{ steps.{first}.outputs.x }}}}")}).into();
        }
    }
    step
}

/// For some time, until a time, or until what is no time.
fn random_wait(chance: &mut Chance<'_>) -> Option<Box<StepWait>> {
    if chance.one_in(2) {
        let on_timeout = chance.pick(&[OnTimeout::Fail, OnTimeout::Skip, OnTimeout::Default(json!({"x": 2}).into())]);
        let schema = chance.one_in(3).then(|| json!({"type": "object"}).into());
        let timeout_ms = chance.pick(&[None, Some(1), Some(60_000)]);
        let event = Some(chance.pick(&["e0", "e1"]).to_owned());
        return Some(Box::new(StepWait { event, schema, timeout_ms, on_timeout, ..StepWait::default() }));
    }
    let (for_ms, until) = match chance.below(8) {
        0..=3 => (Some(chance.pick(&[1, 1_000, 60_000, 3_600_000])), None),
        4 | 5 => (None, Some(rfc3339(chance.pick(&[1, START_MS, START_MS + 90_000])))),
        6 => (None, Some("soon".into())),
        _ => return None,
    };
    Some(Box::new(StepWait { for_ms, until, ..StepWait::default() }))
}

/// One thing that may happen; what does not fit is refused, and that changes nothing.
fn happen(world: &mut World, chance: &mut Chance<'_>) {
    world.now_ms += [0, 10, 1_000, 30_000][chance.below(4)];
    world.random = (chance.below(1 << 16) as u64).wrapping_mul(0x0001_0001_0001_0001);
    let steps = world.state.len();
    let i = StepIndex(to_u32(chance.below(steps + 1)));
    let step = world.state.step(i).map_or_else(|| "zz".into(), |at| at.spec.id.clone());
    let reason = String::new();
    let command = match chance.below(40) {
        0..=7 => {
            let ready: Vec<u32> = world.ready.iter().copied().collect();
            if ready.is_empty() { Command::Dispatch(i) } else { Command::Dispatch(StepIndex(chance.pick(&ready))) }
        }
        8..=19 => match random_report(world, chance) {
            Some(report) => Command::Report(Box::new(report)),
            None => return,
        },
        20 | 21 => {
            let Some((timer, due)) = world.timers.iter().min_by_key(|(_, due)| **due).map(|(t, d)| (*t, *d)) else {
                return;
            };
            if chance.below(3) > 0 && timer != Timer::Plan {
                world.now_ms = world.now_ms.max(due);
            }
            Command::Due(timer)
        }
        22 => Command::Due(Timer::Step(i)),
        23 => Command::Due(Timer::Plan),
        24 => {
            let outputs = json!({"x": 1}).into();
            let status = chance.pick(&[PlanStatus::Completed, PlanStatus::Failed, PlanStatus::Cancelled]);
            let usage = Usage { tokens: 1, cost: 0.1 };
            Command::SubPlanEnded { step, attempt: 1, end: SubPlanEnd::new(status, outputs, usage, None) }
        }
        25 => {
            let revision = to_u32(chance.below(2));
            Command::Planned { revision, answer: PlanAnswer::Failed { reason, issues: Vec::new(), provenance: None } }
        }
        38 | 39 => {
            let (revision, call) = (chance.pick(&[0, world.state.revision() + 1]), to_u32(chance.below(3)));
            let (planner, usage) = ("llm".to_owned(), Usage { tokens: 1, cost: 0.1 });
            match chance.below(2) {
                0 => Command::ModelAsked(Box::new(ModelAsked { revision, planner, call, ..ModelAsked::default() })),
                _ => Command::ModelAnswered(Box::new(ModelAnswered {
                    revision,
                    planner,
                    call,
                    usage,
                    answer: Some(Json::empty_object()),
                    ..ModelAnswered::default()
                })),
            }
        }
        31..=34 if world.state.status() == PlanStatus::Replanning => {
            Command::Planned { revision: world.state.revision() + 1, answer: random_answer(world, chance) }
        }
        31 | 32 => {
            let changes = random_changes(world, chance);
            Command::Verb(Verb::Edit { changes, revision: None, reason })
        }
        33 => {
            let asked = revise::open_question(&world.state).map(|asked| asked.id.clone());
            let question = asked.unwrap_or_else(|| step.to_string());
            Command::Verb(Verb::AnswerQuestion { question, answer: json!(chance.below(2)).into(), reason })
        }
        36 | 37 => {
            let data = chance.pick(&[json!({"x": 3}), json!(7)]).into();
            let (id, name) = (format!("i{}", chance.below(20)), format!("e{}", chance.below(2)));
            let event = Box::new(ExternalEvent { id, name, key: String::new(), data });
            Command::Verb(Verb::SendEvent { event, waiting_only: chance.one_in(2) })
        }
        26 => Command::Verb(chance.pick(&[
            Verb::ApproveStep { step: step.clone(), reason: reason.clone() },
            Verb::RejectStep { step: step.clone(), reason: reason.clone() },
            Verb::Approve { reason: reason.clone() },
        ])),
        27 => Command::Verb(Verb::RetryStep { step, reason }),
        28 => Command::Verb(Verb::SkipStep { step, reason }),
        29 => Command::Verb(Verb::CompleteStep { step, outputs: json!({"x": 2}).into(), reason }),
        30 => Command::Verb(chance.pick(&[
            Verb::Pause { reason: reason.clone() },
            Verb::Resume { reason: reason.clone() },
            Verb::Resume { reason: reason.clone() },
            Verb::Replan {
                reason: reason.clone(),
                hint: String::new(),
                options: goalmill_common::planning::ReplanOptions::default(),
            },
        ])),
        35 if chance.one_in(8) => Command::Verb(Verb::Cancel { reason }),
        35 => Command::Verb(random_callback(world, step, chance)),
        _ => return world.restart(),
    };
    give(world, command);
}

/// For the current attempt of a step, or for another one.
fn random_callback(world: &World, step: StepId, chance: &mut Chance<'_>) -> Verb {
    let attempt = world.state.step_index(&step).and_then(|i| world.state.step(i)).map_or(0, |at| at.attempt);
    let attempt = if chance.one_in(8) { attempt + 1 } else { attempt };
    let report = if chance.one_in(3) {
        let class = Some(chance.pick(&[FailureClass::Transient, FailureClass::Permanent]));
        let error = Some(CallbackError { class, ..CallbackError::default() });
        CallbackReport { error, ..CallbackReport::default() }
    } else {
        let outputs = Some(json!({"x": chance.below(4)}).into());
        CallbackReport { outputs, tokens: Some(1), ..CallbackReport::default() }
    };
    Verb::ReportCallback { step, attempt, report: Box::new(report) }
}

/// Of any attempt there ever was: current, stale, reported before, or forged.
fn random_report(world: &World, chance: &mut Chance<'_>) -> Option<Report> {
    let open = world.open_tasks();
    let from = if open.is_empty() || chance.one_in(4) { &world.tasks } else { &open };
    let task = (!from.is_empty()).then(|| chance.pick(from))?;
    let failure = Failure {
        retry_after_ms: chance.one_in(4).then_some(20_000),
        ..Failure::new(
            chance.pick(&[
                FailureClass::Transient,
                FailureClass::Transient,
                FailureClass::Transient,
                FailureClass::Permanent,
                FailureClass::RateLimited,
                FailureClass::ConstraintViolation,
                FailureClass::Lost,
            ]),
            "X",
            "x",
        )
    };
    let mut done = completed(&task, json!({"x": chance.below(4)}));
    done.adjustments = chance.one_in(24).then(|| json!({"new": true}).into());
    let made = match chance.below(12) {
        0..=8 if task.callback.is_some() && chance.one_in(2) => {
            let wait = CallWait::new(CallWaitKind::Callback, "");
            let call = SuspendedCall { n: 0, name: "callback".into(), inputs: None, wait };
            Report { suspended: Some(Box::new(call)), tokens: Some(1), ..report(&task, What::Suspended) }
        }
        0..=2 => Report { tokens: Some(3), cost: Some(0.1), ..done },
        3..=6 => Report { tokens: Some(1), cost: Some(0.7), ..failed(&task, failure) },
        7 => report(&task, What::Started),
        8 => Report { progress: Some(0.3), ..report(&task, What::Progress) },
        9 | 10 => report(&task, What::Lost),
        _ if chance.one_in(3) => {
            let failure = Failure { code: "TOO_COMPLEX".into(), ..failure };
            Report { tokens: Some(1), ..failed(&task, failure) }
        }
        _ => report(&task, What::Released),
    };
    Some(if chance.one_in(16) { Report { token: "forged".into(), ..made } } else { made })
}

/// Gives a command and checks what a shell relies on.
fn give(world: &mut World, command: Command) {
    let admitted: Vec<bool> = (0..world.state.len()).map(|i| world.state.can_dispatch(StepIndex(to_u32(i)))).collect();
    let dispatched = if let Command::Dispatch(i) = command { Some(i) } else { None };
    let dispatched = dispatched.filter(|i| world.ready.remove(&i.0));
    match world.command(command) {
        Ok(_) => {
            // Plans inside may have answered.
            let own = world.decided.iter().filter(|(place, _)| *place == 0);
            let effects: Vec<Effect> = own.flat_map(|(_, decision)| decision.effects.clone()).collect();
            check_offers(world, &admitted, &effects);
        }
        Err(_) => {
            // What was passed over is offered again later.
            let ready = |i: &StepIndex| world.state.step(*i).is_some_and(|at| at.status == StepStatus::Ready);
            let back = dispatched.filter(ready);
            world.ready.extend(back.map(|i| i.0));
        }
    }
    check_timers(&world.state, world);
}

/// Every step that may go out is known to the shell, and it hears of it when one newly may.
fn check_offers(world: &World, before: &[bool], effects: &[Effect]) {
    for i in 0..world.state.len() {
        let index = StepIndex(to_u32(i));
        if !world.state.can_dispatch(index) {
            continue;
        }
        assert!(world.ready.contains(&index.0), "the shell knows each step that may go out");
        let told = effects.contains(&Effect::Room) || effects.contains(&Effect::Ready(index));
        assert!(before.get(i).copied().unwrap_or(false) || told, "the shell hears of each step that newly may go out");
    }
}

/// Every wait has exactly one timer, and every timer a wait.
fn check_timers(state: &PlanState, world: &World) {
    let mut expected = std::collections::BTreeMap::new();
    expected.extend(state.plan_due().map(|due| (Timer::Plan, due)));
    for i in 0..state.len() {
        let index = StepIndex(to_u32(i));
        let at = state.step(index).expect("the step exists");
        // An event is awaited until it comes, or the plan ends.
        let has_end = at.spec.wait.as_ref().is_none_or(|wait| wait.event.is_none() || wait.timeout_ms.is_some());
        let waits =
            at.status.is_unlocked() && at.status != StepStatus::Ready && (at.status != StepStatus::Waiting || has_end);
        assert_eq!(at.due_ms.is_some(), waits, "{} {:?}", at.spec.id, at.status);
        expected.extend(at.due_ms.map(|due| (Timer::Step(index), due)));
    }
    assert_eq!(world.timers, expected);
    let budget = state.plan().budget.tokens.unwrap_or(u64::MAX);
    let done = state.counts().progress() >= 1.0;
    assert!(state.usage().tokens <= budget || state.is_final() || done, "budgets hold");
}

/// Workers that do their work, sub-plans that end, and timers: nobody decides anything.
fn drive(world: &mut World) {
    for _ in 0..2_000 {
        if world.state.is_final() {
            return;
        }
        let mut moved = world.dispatch_all() > 0;
        for task in world.open_tasks() {
            moved |= world.report(completed(&task, json!({"x": 2}))).is_ok();
        }
        for i in world.state.steps_in_flight().collect::<Vec<_>>() {
            let Some(at) = world.state.step(i).filter(|at| at.spec.kind == StepKind::Plan) else {
                continue;
            };
            let (step, attempt, outputs) = (at.spec.id.clone(), at.attempt, json!({"x": 3}).into());
            let (status, usage, failure) = (PlanStatus::Completed, Usage::default(), None);
            moved |= world
                .command(Command::SubPlanEnded { step, attempt, end: SubPlanEnd::new(status, outputs, usage, failure) })
                .is_ok();
        }
        if !moved && !world.state.is_final() {
            let next = world.timers.iter().min_by_key(|(_, due)| **due).map(|(timer, _)| *timer);
            world.due(next.expect("what waits has a timer")).expect("the timer is due");
        }
    }
    panic!("the plan does not end: {:?}", explain::explain(&world.state, world.now_ms));
}

fn check_log(world: &World) {
    let mut audit = Audit::default();
    let mut replayed = None;
    for record in &world.log {
        audit.read(record);
        let entry = String::from_utf8(write_entry(std::slice::from_ref(record))).expect("JSON is UTF-8");
        let again = read_entry(&entry, record.time_ms).expect("an entry reads back").remove(0);
        assert_eq!(again, *record);
        replay(&mut replayed, &again).expect("the log folds");
    }
    assert_eq!(replayed, world.state.0, "the written log gives the state");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_history_keeps_the_rules_and_comes_to_an_end(
        words in proptest::collection::vec(any::<u16>(), 200..1_500),
        goal_first in any::<bool>(),
        length in 0..300_usize,
    ) {
        let mut chance = Chance(words.iter());
        let plan = random_plan(&mut chance);
        let mut world = World::new();
        if goal_first {
            world.submit_as(submission(None)).expect("a goal is accepted");
            let answer = PlanAnswer::Plan(Box::new(planned(plan)));
            give(&mut world, Command::Planned { revision: 0, answer });
        } else {
            world.submit(plan).expect("the plan is fit");
        }
        for _ in 0..length {
            happen(&mut world, &mut chance);
        }
        drive(&mut world);
        prop_assert!(world.timers.is_empty());
        check_log(&world);
    }

    #[test]
    fn a_log_without_one_of_its_events_or_with_two_swapped_is_refused(
        words in proptest::collection::vec(any::<u16>(), 0..300),
        place in any::<prop::sample::Index>(),
    ) {
        let mut chance = Chance(words.iter());
        let mut world = World::new();
        world.submit(random_plan(&mut chance)).expect("the plan is fit");
        for _ in 0..40 {
            happen(&mut world, &mut chance);
        }
        drive(&mut world);
        let i = place.index(world.log.len() - 1);
        let mut without = world.log.clone();
        without.remove(i);
        prop_assert!(fold(&without).is_none_or(|state| state.seq() != world.state.seq()));
        prop_assert!(i + 1 == world.log.len() || fold(&without).is_none());
        let mut swapped = world.log.clone();
        swapped.swap(i, i + 1);
        prop_assert!(fold(&swapped).is_none());
    }
}

/// A plan that goes on whatever fails, so that there is much to revise.
fn random_tough_plan(chance: &mut Chance<'_>) -> Plan {
    let mut plan = random_plan(chance);
    (plan.approve, plan.budget) = (None, Budget::default());
    plan.revision = Some(RevisionPolicy { confidence_floor: 0.0, widen: Widen::Allow, ..RevisionPolicy::default() });
    for step in &mut plan.steps {
        step.description = "something".into();
        (step.approve, step.ask) = (step.approve.filter(|_| chance.one_in(4)), None);
        step.on_failure = chance.pick(&[OnFailure::Replan, OnFailure::Continue, OnFailure::Skip]);
        (step.inputs, step.when, step.join) = (json!({}).into(), None, chance.pick(&[Join::All, Join::Any]));
    }
    plan
}

/// Most of the time what fits: work, failures, and answers to what is asked.
fn go_on(world: &mut World, chance: &mut Chance<'_>) {
    world.now_ms += 10;
    if world.state.status() == PlanStatus::Replanning && chance.below(3) > 0 {
        let command = if revise::proposed(&world.state).is_some() {
            Command::Verb(Verb::Approve { reason: String::new() })
        } else if let Some(asked) = revise::open_question(&world.state) {
            let (question, answer) = (asked.id.clone(), json!(1).into());
            Command::Verb(Verb::AnswerQuestion { question, answer, reason: String::new() })
        } else {
            let strategy = chance.pick(&[RevisionStrategy::Workaround, RevisionStrategy::AskUser]);
            let answer = if chance.below(3) > 0 {
                let proposal = Proposal::new(RevisionStrategy::Workaround, vec![random_mend(world, chance)]);
                PlanAnswer::Revision(Box::new(proposal))
            } else if strategy == RevisionStrategy::AskUser && chance.one_in(2) {
                PlanAnswer::Plan(Box::new(planned(random_rest(world, chance))))
            } else {
                random_answer(world, chance)
            };
            Command::Planned { revision: world.state.revision() + 1, answer }
        };
        return give(world, command);
    }
    match chance.below(8) {
        0 | 1 => {
            let ready: Vec<u32> = world.ready.iter().copied().collect();
            if !ready.is_empty() {
                give(world, Command::Dispatch(StepIndex(chance.pick(&ready))));
            }
        }
        2..=4 => {
            if let Some(report) = random_report(world, chance) {
                give(world, Command::Report(Box::new(report)));
            }
        }
        5 => {
            let changes = random_changes(world, chance);
            let edit = Verb::Edit { changes, revision: None, reason: String::new() };
            give(world, Command::Verb(edit));
        }
        6 => world.restart(),
        _ => happen(world, chance),
    }
}

/// The failed step once more, or another one for it.
fn random_mend(world: &World, chance: &mut Chance<'_>) -> Change {
    let failed = world.state.plan().steps.iter().filter(|spec| {
        let i = world.state.step_index(&spec.id).expect("the step exists");
        world.state.step(i).expect("the step exists").status == StepStatus::Failed
    });
    let failed: Vec<Step> = failed.cloned().collect();
    if failed.is_empty() {
        return random_change(world, &world.state.plan().steps, chance);
    }
    random_change(world, &failed, chance)
}

/// The plan with some of its steps left out, and others added.
fn random_rest(world: &World, chance: &mut Chance<'_>) -> Plan {
    let mut plan = revise::live_plan(&world.state);
    let gone: Vec<_> = plan.steps.iter().filter(|_| chance.one_in(6)).map(|step| step.id.clone()).collect();
    plan.steps.retain(|step| !gone.contains(&step.id));
    for step in &mut plan.steps {
        step.dependencies.retain(|id| !gone.contains(id));
    }
    plan.steps.push(Step::new(format!("r{}", world.state.seq()), "w"));
    plan
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_history_of_revisions_keeps_the_rules_and_comes_to_an_end(
        words in proptest::collection::vec(any::<u16>(), 2_000..4_000),
        length in 40..200_usize,
    ) {
        let mut chance = Chance(words.iter());
        let mut world = World::new();
        world.context.limits.revisions_max = 20;
        world.submit(random_tough_plan(&mut chance)).expect("the plan is fit");
        for _ in 0..length {
            go_on(&mut world, &mut chance);
        }
        drive(&mut world);
        prop_assert!(world.timers.is_empty());
        check_log(&world);
    }

    #[test]
    fn a_plan_that_nobody_validated_is_refused_or_comes_to_an_end(
        words in proptest::collection::vec(any::<u16>(), 0..400),
    ) {
        let mut chance = Chance(words.iter());
        let mut plan = random_plan(&mut chance);
        for _ in 0..chance.below(4) {
            let (i, k) = (chance.below(plan.steps.len()), chance.below(31));
            match chance.below(5) {
                0 => plan.steps[i].dependencies.push(format!("s{k}").as_str().into()),
                1 => plan.steps[i].id = format!("s{k}").as_str().into(),
                2 => plan.steps[i].phase = Some(format!("f{}", k % 4)),
                3 => plan.steps[i].join = Join::AtLeast(u32::MAX),
                _ => plan.steps[i].retry = Retry { factor: f64::NAN, max: u32::MAX, ..Retry::default() },
            }
        }
        let mut world = World::new();
        world.now_ms = 0;
        if world.submit(plan).is_ok() {
            drive(&mut world);
            check_log(&world);
        }
    }
}

fn fold(log: &[Record]) -> Option<PlanState> {
    let mut state = None;
    log.iter().try_for_each(|record| replay(&mut state, record)).ok()?;
    state
}
