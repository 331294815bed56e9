//! What a run shows beside its times, and whether the times matter to it.

use std::collections::BTreeMap;

use goalmill_common::plan::{Plan, Step, StepKind};
use goalmill_common::status::{PlanStatus, StepStatus};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::case::Case;
use crate::engine_driver::{Stopped, drive};
use crate::interpreter::run;
use crate::quick_cases::ENDLESS_MS;
use crate::run::{ANY_MS, Ask, Run, StepEnd};
use crate::script::{Act, Does, Script};

/// Runs with other times that must end in the same way.
const RUNS: u64 = 20;
/// One of so many runs has about the times of real processes.
const REAL: u64 = 3;
/// Acts of each action that get a time.
const ACTS: usize = 100;
/// A case that takes longer is left out, milliseconds.
const LENGTH_MS_MAX: u64 = 22_000;
/// When a plan may be cancelled, or have its deadline: the first of these at which nothing happens any more.
const MOMENTS_MS: [u64; 8] = [2_000, 4_000, 6_000, 8_000, 10_000, 12_000, 14_000, 16_000];
/// How much later it is, so that real processes are done by then.
const MARGIN_MS: u64 = 4_000;
/// When everything has ended that has an end.
const END_MS: u64 = 50_000;

/// What a run shows, without its times.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub status: PlanStatus,
    pub code: Option<String>,
    pub steps: BTreeMap<String, StepEnd>,
    pub tokens: u64,
    /// Action and inputs of all questions, sorted.
    pub asks: Vec<(String, String)>,
    /// Those of undo steps in their order, and between them those of `always`, sorted as far as they stand together.
    pub cleanup: Vec<(String, String)>,
}

/// Why a case cannot be compared without its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Incomparable {
    /// Validation refuses the document.
    Invalid,
    /// The laws do not say what happens.
    Undecided,
    /// The outcome depends on times.
    Timed,
    /// It takes too long.
    Long,
}

/// A case whose outcome is the same whatever takes how long.
#[derive(Clone, Debug)]
pub struct Confluent {
    /// With a time for its cancellation or deadline at which nothing else happens.
    pub case: Case,
    pub expected: Outcome,
}

impl Outcome {
    /// - `prefix`: of all actions.
    pub fn of(run: &Run, prefix: &str) -> Self {
        let spell = |ask: &Ask| (ask.action.clone(), without_times(&ask.inputs).to_string());
        let kind = |ask: &(String, String)| ask.0.strip_prefix(prefix).and_then(|name| name.chars().next());
        let mut asks: Vec<_> = run.asks.iter().map(spell).collect();
        let mut cleanup: Vec<_> = asks.iter().filter(|ask| matches!(kind(ask), Some('u' | 'l'))).cloned().collect();
        cleanup.chunk_by_mut(|a, b| kind(a) == Some('l') && kind(b) == Some('l')).for_each(<[_]>::sort);
        asks.sort();
        let end = |step: &StepEnd| StepEnd { outputs: step.outputs.as_ref().map(without_times), ..step.clone() };
        let steps = run.steps.iter().map(|(id, step)| (id.clone(), end(step))).collect();
        // A plan inside ends a millisecond before its step, which may be no time at all.
        let code = run.code.as_ref().map(|code| code.replace("PLAN_TIMEOUT", "STEP_TIMEOUT"));
        Self { status: run.status, code, steps, tokens: run.tokens, asks, cleanup }
    }

    /// In what another outcome differs from this one.
    pub fn difference(&self, seen: &Self) -> Option<String> {
        let (expected, seen) = (format!("{self:#?}"), format!("{seen:#?}"));
        let other = expected.lines().zip(seen.lines()).find(|(a, b)| a != b);
        let (law, seen) = other.or((expected != seen).then_some(("the end", "more or less")))?;
        Some(format!("by the laws `{}`, seen `{}`", law.trim(), seen.trim()))
    }
}

/// The end of a wait is a time.
fn without_times(value: &Value) -> Value {
    match value {
        Value::Object(fields) if fields.contains_key("waited_until") => json!({"waited_until": ""}),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), without_times(value))).collect(),
        Value::Array(items) => items.iter().map(without_times).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Finds the outcome of a case if it does not depend on times.
///
/// - `prefix`: of all actions.
/// - `slowness`: how many times as long everything may take; that of [`hurry`](crate::hurry()).
pub fn confluent(case: &Case, prefix: &str, slowness: u64) -> Result<Confluent, Incomparable> {
    let plan = case.plan().map_err(|_| Incomparable::Invalid)?;
    // Questions in any order, so that other ones come first where the laws leave it free.
    let mut known = Vec::new();
    let mut expected = None;
    for seed in 0..RUNS {
        let mut random = StdRng::seed_from_u64(seed);
        let (plan, script) = match seed % REAL {
            0 => (plan.clone(), with_real_times(&case.script, END_MS * slowness, &mut random)),
            _ => with_random_times(&plan, &case.script, &mut random),
        };
        known.extend(match drive(&plan, &script) {
            Ok(run) => run.asks,
            Err(Stopped::Stuck(asks)) => asks,
            Err(Stopped::Refused(_)) => return Err(Incomparable::Invalid),
        });
        known.shuffle(&mut random);
        known.iter_mut().for_each(|ask| ask.at_ms = ANY_MS);
        let Ok(run) = run(&plan, &script, &known, Some(seed)) else { return Err(Incomparable::Undecided) };
        let outcome = Outcome::of(&run, prefix);
        if *expected.get_or_insert_with(|| outcome.clone()) != outcome {
            return Err(Incomparable::Timed);
        }
        known.extend(run.asks);
    }
    let expected = expected.ok_or(Incomparable::Undecided)?;
    let case = with_moment(case, &plan, &expected, prefix, slowness)?;
    Ok(Confluent { case, expected })
}

/// Adds the questions that were withdrawn before a worker took them.
pub fn add_withdrawn(seen: &mut Outcome, confluent: &Confluent, prefix: &str) {
    if seen.asks.len() >= confluent.expected.asks.len() {
        return;
    }
    for ask in unanswered(confluent, prefix) {
        let count = |asks: &[(String, String)]| asks.iter().filter(|other| **other == ask).count();
        if count(&seen.asks) < count(&confluent.expected.asks) {
            seen.asks.push(ask);
        }
    }
    seen.asks.sort();
}

/// Questions whose answers nobody takes: they may be withdrawn before an agent sees them.
fn unanswered(confluent: &Confluent, prefix: &str) -> Vec<(String, String)> {
    let Confluent { case, expected } = confluent;
    let Ok(plan) = case.plan() else { return Vec::new() };
    let Ok(whole) = run(&plan, &case.script, &[], None) else { return Vec::new() };
    let mut times = BTreeMap::<&str, usize>::new();
    let mut found = Vec::new();
    for ask in &whole.asks {
        let time = times.entry(&ask.action).or_default();
        let mut script = case.script.clone();
        let acts = script.acts.entry(ask.action.clone()).or_default();
        acts.extend((acts.len()..=*time).map(|n| case.script.act(&ask.action, n)));
        acts[*time].does = if acts[*time].does == Does::Refuse { Does::Answer(json!({})) } else { Does::Refuse };
        if run(&plan, &script, &whole.asks, None).is_ok_and(|run| Outcome::of(&run, prefix) == *expected) {
            found.push((ask.action.clone(), without_times(&ask.inputs).to_string()));
        }
        *time += 1;
    }
    found
}

/// Checks how long a case takes, and gives its cancellation or deadline a time.
fn with_moment(
    case: &Case,
    plan: &Plan,
    expected: &Outcome,
    prefix: &str,
    slowness: u64,
) -> Result<Case, Incomparable> {
    let moments_ms = MOMENTS_MS.map(|at_ms| at_ms * slowness);
    let at = |at_ms: u64| {
        let mut script = case.script.clone();
        script.cancel_at(at_ms);
        script.deadline_ms = script.deadline_ms.map(|_| at_ms);
        script
    };
    let length_ms = |script: &Script| {
        let run = run(plan, script, &[], None).ok()?;
        (Outcome::of(&run, prefix) == *expected).then_some(run.ended_ms)
    };
    let is_settled = |n: &usize| moments_ms[*n..].iter().all(|at_ms| length_ms(&at(*at_ms)).is_some());
    let first = (0..MOMENTS_MS.len()).find(is_settled).ok_or(Incomparable::Long)?;
    let script = at(moments_ms[first] + MARGIN_MS * slowness);
    if length_ms(&script).is_none_or(|length_ms| length_ms > LENGTH_MS_MAX * slowness) {
        return Err(Incomparable::Long);
    }
    let case = Case { script, ..case.clone() };
    if has_end_inside(&case, plan, expected) { Err(Incomparable::Timed) } else { Ok(case) }
}

/// Whether plans inside may be running at the deadline. They end a millisecond before the plan around them; with no
/// scheduler at that time, they end together.
fn has_end_inside(case: &Case, plan: &Plan, expected: &Outcome) -> bool {
    let is_done = |step: &Step| {
        let end = &expected.steps[step.id.as_str()];
        end.status == StepStatus::Completed && !end.partial
    };
    let holders =
        plan.steps.iter().filter(|step| (step.plan.is_some() || step.for_each.is_some()) && !step.is_cleanup());
    case.script.deadline_ms.is_some() && !holders.into_iter().all(is_done)
}

/// The same with times as on a machine that is busy now and then.
fn with_real_times(script: &Script, end_ms: u64, random: &mut StdRng) -> Script {
    let mut script = script.clone();
    for act in script.acts.values_mut().flatten() {
        act.after_ms += random.random_range(0..500);
    }
    script.cancel_at(end_ms);
    script.deadline_ms = script.deadline_ms.map(|_| end_ms);
    script
}

/// The same with other times: attempts and short waits take up to 20 s, a loss about as long, time limits of attempts and
/// of waits for events 30 s and more, those of plans inside 60 s and more; what has no limit outlasts the plan.
fn with_random_times(plan: &Plan, script: &Script, random: &mut StdRng) -> (Plan, Script) {
    let (mut plan, mut script) = (plan.clone(), script.clone());
    change_times(&mut plan, random);
    // What ends in one millisecond is like what a scheduler reads together.
    let step_ms = if random.random_bool(0.25) { 4_000 } else { 1 };
    for (action, acts) in &mut script.acts {
        acts.extend((acts.len()..ACTS).map(|time| Act { after_ms: 0, ..Script::default().act(action, time) }));
        for act in acts {
            act.after_ms = if act.does == Does::Lost {
                random.random_range(10_000..28_000.max(2 * act.after_ms))
            } else {
                short(random)
            };
            act.after_ms = act.after_ms.next_multiple_of(step_ms);
        }
    }
    let mut times: Vec<u64> = script.events.iter().map(|_| short(random)).collect();
    times.sort_unstable();
    script.events.iter_mut().zip(times).for_each(|(event, at_ms)| event.at_ms = at_ms);
    let end_ms = random.random_range(1_000_000..2_000_000);
    script.cancel_at(end_ms);
    script.deadline_ms = script.deadline_ms.map(|_| end_ms);
    (plan, script)
}

fn change_times(plan: &mut Plan, random: &mut StdRng) {
    for step in &mut plan.steps {
        if step.kind.needs_worker() {
            let limit_ms = step.timeout_ms.filter(|limit_ms| *limit_ms < ENDLESS_MS);
            let limit_ms = limit_ms.map_or(10_000_000, |_| random.random_range(30_000..60_000));
            step.timeout_ms = Some(limit_ms);
        } else if step.kind == StepKind::Plan {
            step.timeout_ms = step.timeout_ms.map(|_| random.random_range(60_000..90_000));
        }
        step.retry.initial_ms = short(random);
        step.approve.iter_mut().for_each(|approve| approve.limit_ms = short(random));
        step.ask.iter_mut().for_each(|ask| ask.limit_ms = short(random));
        if let Some(repeat) = step.repeat.as_mut().filter(|repeat| repeat.delay_ms > 0) {
            repeat.delay_ms = short(random);
        }
        if let Some(wait) = &mut step.wait {
            wait.for_ms = wait.for_ms.map(|_| short(random));
            wait.timeout_ms = wait.timeout_ms.map(|_| random.random_range(30_000..60_000));
        }
        step.plan.as_deref_mut().into_iter().for_each(|inner| change_times(inner, random));
    }
}

/// A time of any magnitude up to 20 s.
fn short(random: &mut StdRng) -> u64 {
    let most = 20 * 10_u64.pow(random.random_range(1..4));
    random.random_range(1..most)
}
