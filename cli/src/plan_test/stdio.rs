//! `test --stdio`: the mode of test kits. They exchange the frames of the bridge, beside `run` and `result`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use goalmill_bridge::{Bridge, FRAME_BYTES_MAX};
use goalmill_common::call::RecordedCall;
use goalmill_common::failure::Failure;
use goalmill_common::id::AgentType;
use goalmill_common::json::Json;
use goalmill_common::limits::{Limits, TaskLimits};
use goalmill_common::problem::{ErrorCode, Issue, Problem};
use goalmill_common::report::{Report, What};
use goalmill_common::task::Task;
use goalmill_plan::document::{self, Format as DraftFormat};
use goalmill_testkit::{RunError, RunOutcome, RunProgress, TestRun, parse_test, prepare_submission};
use goalmill_worker::executor::{self, CallStore, ExecutionEnd, Executor, RecordedCalls, check_result};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::read_plans;
use crate::exit::{CommandResult, Failed};
use crate::roles::bridge;

/// The worker and the entry of the tasks.
const WORKER: &str = "test";
const NO_ENTRY: &str = "0-0";

/// The answer to a `run`.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum KitAnswer {
    Result(Box<KitResult>),
    Error(Box<Problem>),
}

#[derive(Serialize)]
struct KitResult {
    #[serde(flatten)]
    outcome: RunOutcome,
    /// The log of the plan, as `goalmill events -o jsonl` prints it.
    events: Vec<Box<RawValue>>,
}

pub async fn run(limits: &Limits) -> CommandResult {
    let program = bridge::connect().await?;
    let link = program.link();
    link.send_ready(WORKER, limits.nesting_max);
    while let Some(test) = link.next_run().await {
        let result = match start(&test, &program, limits) {
            Ok(run) => serve(run, &program, limits).await,
            Err(problem) => Err(problem),
        };
        link.send(&match result {
            Ok(result) => KitAnswer::Result(Box::new(result)),
            Err(problem) => KitAnswer::Error(Box::new(problem)),
        });
    }
    bridge::ended(&program)
}

/// Submits the plan of a test. It is read as strictly as documents are: bounded, and no field twice.
fn start(test: &Json, program: &Bridge, limits: &Limits) -> Result<TestRun, Problem> {
    let refused = |issues| Problem::new(ErrorCode::InvalidRequest, "the run is refused").with_errors(issues);
    let longest = Limits { plan_bytes_max: FRAME_BYTES_MAX, ..limits.clone() };
    let test = document::parse_document(test.text().as_bytes(), DraftFormat::Json, &longest).map_err(refused)?;
    let test = parse_test(&test).map_err(refused)?;
    let plans = read_plans("-", &test, limits).map_err(|failed| refused(vec![invalid("/plan", &failed)]))?;
    let (plan, stored) = plans.map_err(refused)?;
    let submit = prepare_submission(&test, plan, &stored, limits).map_err(refused)?;
    let served: Vec<String> = program.hello.agents.iter().map(|card| card.agent_type.to_string()).collect();
    TestRun::start(&test, submit, limits.clone(), &served, None).map_err(problem_of)
}

fn invalid(pointer: &str, failed: &Failed) -> Issue {
    Issue {
        code: "INVALID_VALUE".into(),
        pointer: pointer.into(),
        detail: failed.message.clone(),
        hint: "name a file that can be read, or send the plan itself".into(),
    }
}

fn problem_of(error: RunError) -> Problem {
    match error {
        RunError::Refused(problem) => problem,
        RunError::NoAnswer(reason) | RunError::Stuck(reason) => Problem::new(ErrorCode::NotAllowed, reason),
    }
}

/// Runs one plan to its end. The program gets a task for each of its slots.
async fn serve(mut run: TestRun, program: &Bridge, limits: &Limits) -> Result<KitResult, Problem> {
    let executors = program.executors();
    let slots = program.hello.slots.max(1) as usize;
    let (sender, mut reports) = unbounded_channel();
    let (mut waiting, mut running) = (VecDeque::new(), FuturesUnordered::new());
    let mut stops = BTreeMap::<_, CancellationToken>::new();
    loop {
        match run.advance().await.map_err(problem_of)? {
            RunProgress::Ended => break,
            RunProgress::Tasks(tasks) => waiting.extend(tasks),
        }
        waiting.retain(|task: &Task| run.is_outstanding(&task.token));
        stops.retain(|token, stop| {
            let is_outstanding = run.is_outstanding(token);
            if !is_outstanding {
                stop.cancel();
            }
            is_outstanding
        });
        while running.len() < slots
            && let Some(task) = waiting.pop_front()
        {
            let stop = stops.entry(task.token.clone()).or_default().clone();
            let calls = KitCalls::new(&task, limits, run.now_ms(), sender.clone());
            running.push(run_attempt(&executors, task, calls, stop));
        }
        tokio::select! {
            Some(report) = reports.recv() => {
                run.report(report);
            }
            Some(()) = running.next() => {}
            () = program.link().ended() => {
                return Err(Problem::new(ErrorCode::NotAllowed, "the program ended before the plan"));
            }
        }
    }
    let raw = |line: String| RawValue::from_string(line).expect("a line of a log is JSON");
    let events = run.log().iter().map(|record| raw(record.to_line())).collect();
    Ok(KitResult { outcome: run.outcome(), events })
}

/// Runs one attempt as a worker does, without its time limit.
async fn run_attempt(
    executors: &BTreeMap<AgentType, Arc<dyn Executor>>,
    task: Task,
    store: KitCalls,
    stop: CancellationToken,
) {
    let (mut report, reports, nesting_max) = (store.head.clone(), store.reports.clone(), store.limits.nesting_max);
    let calls = RecordedCalls::new(&task, store);
    let executor = executors.get(&task.agent_type).expect("tasks have the agent types of the program");
    let progress = executor::Progress::default();
    let result = executor.execute_with_calls(&task, &progress, &calls, &stop).await;
    let result = result.and_then(|result| check_result(&result, nesting_max).map(|()| result));
    ExecutionEnd::new(&task, calls.suspended(), result).fill(&mut report);
    // The reader is there until the end of the run.
    drop(reports.send(report));
}

/// The calls of an attempt in virtual time.
struct KitCalls {
    limits: TaskLimits,
    now_ms: u64,
    head: Report,
    reports: UnboundedSender<Report>,
}

impl KitCalls {
    fn new(task: &Task, limits: &Limits, now_ms: u64, reports: UnboundedSender<Report>) -> Self {
        let head = Report::on(task, task.agent_type.clone(), NO_ENTRY.into(), WORKER.into(), What::Call);
        Self { limits: TaskLimits::from(limits), now_ms, head, reports }
    }
}

#[async_trait]
impl CallStore for KitCalls {
    fn limits(&self) -> TaskLimits {
        self.limits
    }

    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Outcomes of any size stand in the records.
    async fn load(&self, reference: Json) -> Result<Json, Failure> {
        Ok(reference)
    }

    async fn store(&self, outcome: &Json) -> Json {
        outcome.clone()
    }

    async fn record(&self, call: RecordedCall) {
        drop(self.reports.send(Report { call: Some(Box::new(call)), ..self.head.clone() }));
    }
}
