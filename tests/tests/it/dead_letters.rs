//! A retried dead letter: the recorded calls of the failed attempts are not made again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use async_trait::async_trait;
use goalmill_broker::{DeadLetter, embedded};
use goalmill_common::call::{call_key, inputs_digest};
use goalmill_common::clock::Clock;
use goalmill_common::config::Settings;
use goalmill_common::event::{Event, PlanEvent, StepEvent};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::PlanId;
use goalmill_common::random::Random;
use goalmill_common::report::TokenSplit;
use goalmill_common::task::Task;
use goalmill_tests::installation::{Installation, settings, step};
use goalmill_tests::wait::{SOON, until};
use goalmill_worker::WorkerOptions;
use goalmill_worker::executor::{CallResult, CallUsage, Calls, ExecutionResult, Executor, Kinds, MakeCall, Progress};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::archive::archived;

/// Over 16 KiB an outcome is stored beside the log.
const LARGE: usize = 40_000;

/// Makes four calls, one of which gives an error that is recorded. It fails for good before the last one until it is well.
#[derive(Default)]
struct Patient {
    /// Keys of the calls, in order.
    made: Mutex<Vec<String>>,
    tasks: Mutex<Vec<Task>>,
    is_well: AtomicBool,
}

impl Patient {
    async fn ask(&self, name: &str, idempotency_key: String) -> Result<CallResult, Failure> {
        tokio::task::yield_now().await;
        self.made.lock().unwrap_or_else(PoisonError::into_inner).push(idempotency_key);
        let usage = CallUsage { cost: 0.25, tokens: TokenSplit { prompt_tokens: 40, completion_tokens: 2 } };
        let length = if name == "large" { LARGE } else { 3 };
        let mut result = CallResult::new(json!("x".repeat(length)), usage);
        result.error = (name == "refused").then(|| Failure::new(FailureClass::Permanent, "REFUSED", "not today"));
        Ok(result)
    }

    fn keys(&self) -> Vec<String> {
        std::mem::take(&mut self.made.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl Executor for Patient {
    async fn execute(&self, _: &Task, _: &Progress, _: &CancellationToken) -> Result<ExecutionResult, Failure> {
        Err(Failure::new(FailureClass::Permanent, "NO_CALLS", "the worker offers calls"))
    }

    async fn execute_with_calls(
        &self,
        task: &Task,
        _: &Progress,
        calls: &dyn Calls,
        _: &CancellationToken,
    ) -> Result<ExecutionResult, Failure> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(task.clone());
        let mut lengths = Vec::new();
        for name in ["small", "large", "refused", "last"] {
            if name == "last" && !self.is_well.load(Ordering::Relaxed) {
                return Err(Failure::new(FailureClass::Permanent, "ILL", "it fails for good"));
            }
            let make: MakeCall<'_> = Box::new(|id| Box::pin(self.ask(name, id.idempotency_key)));
            let result = calls.call_or_error(name, "x", make).await?;
            lengths.push(if result.error.is_some() { None } else { result.outcome.value().as_str().map(str::len) });
        }
        Ok(ExecutionResult::new(json!({"lengths": lengths})))
    }
}

/// An installation with a patient whose step has failed, and the dead letter of its attempt.
async fn dead(settings: Settings) -> Result<(Installation, Arc<Patient>, PlanId)> {
    let mut it = Installation::start(embedded::open(None, Clock::system())?, settings).await?;
    let patient = Arc::new(Patient::default());
    let options = WorkerOptions {
        settings: it.settings.worker.clone(),
        limits: it.settings.limits.clone(),
        broker: it.broker.clone(),
        clock: Clock::system(),
        random: Random::system(),
        executors: BTreeMap::from([("patient".into(), Arc::clone(&patient) as Arc<dyn Executor>)]),
        kinds: Kinds::new(),
    };
    it.workers.push(goalmill_worker::start(options).await?);
    let plan = it.submit(&json!({"steps": [step("a", "patient", &[], json!({}))]})).await?;
    until(SOON, async || {
        let shown = it.get(&format!("/v1/plans/{plan}")).await.expect("the plan is there");
        shown["status"] == "failed" || shown["status"] == 404
    })
    .await;
    assert_eq!(patient.keys().len(), 3);
    let task = patient.tasks.lock().unwrap_or_else(PoisonError::into_inner).pop().context("it had a task")?;
    it.broker
        .add_dead_letter(&DeadLetter {
            agent_type: "patient".into(),
            plan: plan.clone(),
            step: "a".into(),
            attempt: task.attempt,
            code: "STEP_POISONED".into(),
            reason: "3 workers were lost with it".into(),
            task: serde_json::to_string(&task)?,
        })
        .await?;
    patient.is_well.store(true, Ordering::Relaxed);
    Ok((it, patient, plan))
}

/// Retries the letter; returns the answer and the plan that has completed.
async fn retry(it: &Installation) -> Result<(Value, PlanId)> {
    let listed = it.get("/v1/dead-letters/patient").await?;
    let entry = listed["items"][0]["entry"].as_str().context("there is a letter")?;
    let (status, answer) = it.post(&format!("/v1/dead-letters/patient/{entry}:retry"), &json!({})).await?;
    assert_eq!(status, 202, "{answer:#}");
    let plan = PlanId::from(answer["plan_id"].as_str().context("it is accepted")?);
    let path = format!("/v1/plans/{plan}");
    until(SOON, async || it.get(&path).await.expect("the plan is there")["status"] == "completed").await;
    let results = it.get(&format!("{path}/results")).await?;
    assert_eq!(results["results"]["a"], json!({"lengths": [3, LARGE, null, 3]}), "{results:#}");
    Ok((answer, plan))
}

/// Keys of these calls of the retried step.
fn keys(plan: &PlanId, names: &[&str]) -> Vec<String> {
    names.iter().map(|name| call_key(&format!("{plan}:a"), name, &inputs_digest("x"))).collect()
}

/// The installation without an archive whose plans stay, or of an archive that alone has them.
fn stored(archive: Option<&Path>) -> Settings {
    archive.map_or_else(settings, |file| archived(file, 0))
}

async fn keeps_calls(archive: Option<&Path>) -> Result<()> {
    let (it, patient, plan) = dead(stored(archive)).await?;
    if archive.is_some() {
        until(SOON, async || it.broker.summary(&plan).await.expect("the store answers").is_empty()).await;
    }
    let (answer, again) = retry(&it).await?;
    assert_eq!(answer["warnings"], Value::Null, "{answer:#}");
    // The call that gave an error, and the one that was not recorded, under keys of the new plan.
    assert_eq!(patient.keys(), keys(&again, &["refused", "last"]));
    let view = it.get(&format!("/v1/plans/{again}")).await?;
    assert_eq!((&view["forked_from"], &view["usage"]["tokens"]), (&json!(plan), &json!(84)), "{view:#}");
    let task = patient.tasks.lock().unwrap_or_else(PoisonError::into_inner).pop().context("it had a task")?;
    let given: Vec<(u32, &str, f64)> = task.calls.iter().map(|call| (call.n, call.name.as_str(), call.cost)).collect();
    assert_eq!(given, [(1, "small", 0.0), (2, "large", 0.0)]);
    if archive.is_none() {
        let log = it.log(&again).await?;
        let recorded = log.iter().filter_map(|record| match &record.event {
            Event::Step { event: StepEvent::CallRecorded(call), .. } => Some(call.n),
            Event::Plan(_) | Event::Step { .. } => None,
        });
        assert_eq!(recorded.collect::<Vec<_>>(), [3, 4]);
        let is_kept = |event: &Event| {
            matches!(event, Event::Plan(PlanEvent::PlanCreated(created))
                if created.fork.as_ref().is_some_and(|fork| fork.step == Some("a".into())))
        };
        assert!(log.iter().any(|record| is_kept(&record.event)));
    }
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retried_task_does_not_make_its_recorded_calls_again() -> Result<()> {
    keeps_calls(None).await
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_only_the_archive_has_are_kept() -> Result<()> {
    let dir = tempfile::tempdir()?;
    keeps_calls(Some(&dir.path().join("archive.sqlite"))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_log_is_gone_makes_all_calls_again_and_the_answer_says_so() -> Result<()> {
    let mut settings = settings();
    (settings.scheduler.retention_ms, settings.scheduler.trim_ms) = (500, 100);
    let (it, patient, plan) = dead(settings).await?;
    until(SOON, async || it.broker.log(&plan, 0, 1).await.expect("the store answers").is_empty()).await;
    let listed = it.get("/v1/dead-letters/patient").await?;
    let entry = listed["items"][0]["entry"].as_str().context("there is a letter")?;
    let (status, answer) = it.post(&format!("/v1/dead-letters/patient/{entry}:retry"), &json!({})).await?;
    assert_eq!((status, &answer["warnings"][0]["code"]), (202, &json!("CALLS_NOT_KEPT")), "{answer:#}");
    until(SOON, async || patient.made.lock().unwrap_or_else(PoisonError::into_inner).len() == 4).await;
    let again = PlanId::from(answer["plan_id"].as_str().context("it is accepted")?);
    assert_eq!(patient.keys(), keys(&again, &["small", "large", "refused", "last"]));
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_large_outcome_is_gone_is_made_again_and_the_answer_says_so() -> Result<()> {
    let (it, patient, plan) = dead(settings()).await?;
    for record in it.log(&plan).await? {
        let Event::Step { event: StepEvent::CallRecorded(call), .. } = &record.event else { continue };
        let outcome = call.outcome.as_ref().map(goalmill_common::json::Json::value).unwrap_or_default();
        if let Some(key) = outcome["$blob"].as_str() {
            it.broker.remove_blob(key).await?;
        }
    }
    let (answer, again) = retry(&it).await?;
    assert_eq!(answer["warnings"][0]["code"], "CALLS_NOT_KEPT", "{answer:#}");
    assert!(answer["warnings"][0]["detail"].as_str().is_some_and(|detail| detail.starts_with("1 of 2")), "{answer:#}");
    assert_eq!(patient.keys(), keys(&again, &["large", "refused", "last"]));
    it.stop().await;
    Ok(())
}
