//! The driver of the laws under faults: plans of `tests/spec` whose outcome depends on no time.
//!
//! What faults do to an attempt is put into the script of its plan, and the laws are asked again.

use std::sync::Arc;
use std::time::Duration;

use goalmill_common::command::Verb;
use goalmill_common::config::Settings;
use goalmill_common::external_event::ExternalEvent;
use goalmill_common::id::{Namespace, PlanId};
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;
use goalmill_common::wire::{Submission, SubmissionKind};
use goalmill_spec::{Case, Confluent, Outcome, Run, Script, add_withdrawn, confluent, hurry, step_ends};
use serde_json::json;

use crate::cluster::Cluster;
use crate::environment::Environment;
use crate::faults::Faults;
use crate::link::Link;
use crate::nemesis;
use crate::process::Process;
use crate::rng::Rng;
use crate::run::{FAULTS_MS, InjectedBug, RunReport, finish, report, settings, simulate};
use crate::users::{self, SubmissionResult};

/// Seeds of cases in one run; about half of them can be compared.
const CASES: u64 = 10;
/// How slow everything is: faults meet it, and time limits are longer than faults last.
const SLOWNESS: u64 = 4;
/// Tasks that one worker does at the same time: none waits for attempts that never end.
const SLOTS: u64 = 100;

/// A plan of a run.
struct ScriptedPlan {
    /// Of its actions and events.
    prefix: String,
    id: PlanId,
    confluent: Confluent,
}

/// Runs the cases of one seed in virtual time on this thread.
pub fn run(seed: u64, bug: InjectedBug, verbose: bool) -> RunReport {
    simulate(bug, world(seed, bug, verbose))
}

async fn world(seed: u64, bug: InjectedBug, verbose: bool) -> RunReport {
    let rng = Rng::new(seed);
    // What these do is in no script.
    let faults = Faults { rogue: false, people: false, ..Faults::draw(&rng) };
    let faults = Faults { clocks: rng.permille(400), ..faults };
    let env = Arc::new(Environment::new(&rng, faults, bug.of_network(), verbose));
    let shards = u16::try_from(rng.between(1, 3)).expect("a small number");
    let plans: Vec<Arc<ScriptedPlan>> =
        (seed * CASES..(seed + 1) * CASES).filter_map(|case| scripted_plan(&env, case, shards)).map(Arc::new).collect();
    let settings = Settings { limits: Limits::default(), ..settings(&rng, shards) };
    let mut cluster = Cluster::new(&env, &rng, settings);
    cluster.slots = SLOTS..=SLOTS;
    cluster.start_some(&rng);
    let mut submissions = Vec::new();
    for plan in &plans {
        submissions.push(tokio::spawn(play(env.clone(), plan.clone(), shards, rng.between(0, FAULTS_MS / 2))));
    }
    nemesis::run(&env, &mut cluster, &rng.split(), shards, FAULTS_MS).await;
    finish(&env, &mut cluster, shards, submissions).await;
    plans.iter().for_each(|plan| judge(&env, plan));
    report(&env)
}

fn scripted_plan(env: &Environment, seed: u64, shards: u16) -> Option<ScriptedPlan> {
    let prefix = format!("c{seed}-");
    let Ok(mut confluent) = confluent(&hurry(seed, &prefix, SLOWNESS), &prefix, SLOWNESS) else {
        env.auditor().count("not comparable");
        return None;
    };
    // Nothing happens from then on, but for faults.
    let script = &mut confluent.case.script;
    script.deadline_ms = script.deadline_ms.map(|at_ms| at_ms + FAULTS_MS);
    script.cancel_at(script.cancel_ms().unwrap_or_default() + FAULTS_MS);
    env.agents().add(&prefix, confluent.case.script.clone());
    let id = PlanId::derive(shards, &Namespace::default(), &prefix);
    Some(ScriptedPlan { prefix, id, confluent })
}

/// Submits a plan, does what its script says from outside, and follows it to its end.
async fn play(env: Arc<Environment>, plan: Arc<ScriptedPlan>, shards: u16, begin_ms: u64) -> SubmissionResult {
    pause(begin_ms).await;
    let link = Link::new(&env, &Arc::new(Process::new(format!("client-{}", plan.prefix))));
    let Case { mut document, script, .. } = plan.confluent.case.clone();
    if let Some(deadline_ms) = script.deadline_ms {
        document["goal"] = json!({"description": plan.prefix, "deadline_ms": env.clock.now_ms() + deadline_ms});
    }
    let submission = Submission {
        id: plan.prefix.clone(),
        source: "sim".into(),
        kind: SubmissionKind::Plan,
        data: document.to_string(),
        inputs: None,
        traceparent: None,
        namespace: None,
    };
    tokio::spawn(send(link.clone(), plan, script));
    users::follow(&link, &submission, shards, false).await
}

/// Sends the events of a script, again after the server has lost some, and its cancellation while the plan runs. The
/// server may lose the end of the plan, too, so there is no end to it.
async fn send(link: Link, plan: Arc<ScriptedPlan>, script: Script) {
    let env = &link.env;
    let begun_ms = env.at_ms();
    let runs = || env.auditor().plans().get(&plan.id).is_some_and(|state| !state.is_final());
    let (mut epoch, mut sent) = (env.epoch(), 0);
    loop {
        if std::mem::replace(&mut epoch, env.epoch()) != env.epoch() {
            sent = 0;
        }
        let is_due = |at_ms: u64| begun_ms + at_ms <= env.at_ms();
        if let Some(event) = script.events.get(sent).filter(|event| is_due(event.at_ms)) {
            let same = script.events.iter().enumerate().take(sent + 1).filter(|(_, other)| other.name == event.name);
            let events = same.map(|(n, event)| {
                let (name, key, data) = (event.name.clone(), event.key.clone(), Json::from_value(&event.data));
                ExternalEvent { id: format!("{}{n}", plan.prefix), name, key, data }
            });
            if users::publish(&link, &events.collect::<Vec<_>>()).await.is_ok() {
                sent += 1;
                continue;
            }
        } else if script.cancel_ms().is_some_and(is_due) && runs() {
            users::ask(&link, plan.id.clone(), Verb::Cancel { reason: "the script says so".into() }).await;
        }
        pause(200).await;
    }
}

/// Compares a plan that has ended with the laws.
fn judge(env: &Environment, ScriptedPlan { prefix, id, confluent: planned }: &ScriptedPlan) {
    let agents = env.agents();
    let mut auditor = env.auditor();
    // One that has not ended is named already.
    let Some(state) = auditor.plans().get(id).filter(|state| state.is_final()).cloned() else { return };
    let what_happened = Case { script: agents.script(prefix).clone(), ..planned.case.clone() };
    let is_changed = agents.changed.contains(prefix);
    let by_laws = if is_changed { confluent(&what_happened, prefix, SLOWNESS).ok() } else { Some(planned.clone()) };
    let moment_ms = |case: &Case| case.script.cancel_ms().or(case.script.deadline_ms);
    let is_settled = |by_laws: &Confluent| moment_ms(&by_laws.case) <= moment_ms(&planned.case);
    // The server may have lost one event and not the next one.
    let lost_events = planned.case.script.events.len() > 1 && env.epoch() > 0;
    let is_scripted = !agents.unscripted.contains(prefix) && !lost_events;
    let by_laws = by_laws.filter(|by_laws| is_settled(by_laws) && is_scripted);
    let Some(by_laws) = by_laws else { return auditor.count("changed by faults, not comparable") };
    auditor.count(if is_changed { "changed by faults, compared" } else { "compared" });
    let asks = agents.asks.iter().filter(|ask| ask.action.starts_with(prefix)).cloned().collect();
    let results = state.results().results;
    let run = Run {
        status: state.status(),
        code: state.ended().and_then(|ended| Some(ended.failure.as_ref()?.code.clone())),
        steps: step_ends(state.view(false).steps, |id| results.get(id).cloned()),
        asks,
        ended_ms: 0,
        tokens: state.usage().tokens,
        forked: None,
        laws: Default::default(),
    };
    let mut seen = Outcome::of(&run, prefix);
    add_withdrawn(&mut seen, &by_laws, prefix);
    if let Some(difference) = by_laws.expected.difference(&seen) {
        let case = serde_json::to_string(&by_laws.case).expect("a case is plain data");
        auditor.report(format!("[laws] `{id}`: {difference}\n  case {case}"));
    }
}

async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}
