//! `test --stdio`: the mode of test kits. One JSON object per line: `run` in, then `task` out and `report` in, `result` out.

use std::io::{BufRead, Read, Write};

use goalmill_common::limits::Limits;
use goalmill_common::number::to_usize;
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::report::Report;
use goalmill_common::task::Task;
use goalmill_plan::document::{self, Format as DraftFormat};
use goalmill_testkit::{Progress, RunError, RunOutcome, TestRun, parse_test, prepare_submission};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::read_plan;
use crate::exit::{CommandResult, Exit, Failed};

/// Longest line, in bytes.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// Agent types that a kit serves, at most.
const SERVED_MAX: usize = 1_000;
/// The entry of a task on no stream.
const NO_ENTRY: &str = "0-0";

/// What a kit sends.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum KitMessage {
    /// A test as in a file, with the agent types that the kit serves in `serve`.
    Run(Value),
    /// About a task, as a worker appends it.
    Report(Box<Report>),
}

/// What a kit gets.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum KitAnswer<'a> {
    Task(&'a Task),
    Result(Box<KitResult>),
    Error(&'a Problem),
}

#[derive(Serialize)]
struct KitResult {
    #[serde(flatten)]
    outcome: RunOutcome,
    /// The log of the plan, as `goalmill events -o jsonl` prints it.
    events: Vec<Box<RawValue>>,
}

pub async fn run(limits: &Limits) -> CommandResult {
    let mut lines = std::io::stdin().lock();
    while let Some(line) = next_line(&mut lines)? {
        match parse_message(&line, limits) {
            Ok(KitMessage::Run(test)) => match serve(test, limits, &mut lines).await? {
                Ok(result) => send(&KitAnswer::Result(Box::new(result)))?,
                Err(problem) => send(&KitAnswer::Error(&problem))?,
            },
            // The report of an attempt that the end of its plan has stopped.
            Ok(KitMessage::Report(_)) => {}
            Err(problem) => send(&KitAnswer::Error(&problem))?,
        }
    }
    Ok(Exit::Done)
}

/// Runs one plan; the outer error ends the process.
async fn serve(
    mut test: Value,
    limits: &Limits,
    lines: &mut impl BufRead,
) -> Result<Result<KitResult, Problem>, Failed> {
    let served = match take_served(&mut test) {
        Ok(served) => served,
        Err(problem) => return Ok(Err(problem)),
    };
    let started = parse_test(&test).and_then(|test| {
        let plan = read_plan("-", test.plan.as_ref(), limits).map_err(|failed| vec![invalid("/plan", &failed)])??;
        Ok((prepare_submission(&test, plan, limits)?, test))
    });
    let (submit, test) = match started {
        Ok(started) => started,
        Err(issues) => {
            return Ok(Err(Problem::new(ErrorCode::InvalidRequest, "the run is refused").with_errors(issues)));
        }
    };
    let mut run = match TestRun::start(&test, submit, limits.clone(), &served, None) {
        Ok(run) => run,
        Err(error) => return Ok(Err(problem_of(error))),
    };
    loop {
        match run.advance().await {
            Ok(Progress::Ended) => break,
            Ok(Progress::Tasks(tasks)) => tasks.iter().try_for_each(|task| send(&KitAnswer::Task(task)))?,
            Err(error) => return Ok(Err(problem_of(error))),
        }
        let Some(line) = next_line(lines)? else {
            return Err(Failed::other("standard input ended before the plan"));
        };
        match parse_message(&line, limits) {
            Ok(KitMessage::Report(report)) => {
                run.report(*report);
            }
            Ok(KitMessage::Run(_)) => {
                send(&KitAnswer::Error(&Problem::new(ErrorCode::NotAllowed, "a plan runs already: send its reports")))?;
            }
            Err(problem) => send(&KitAnswer::Error(&problem))?,
        }
    }
    let raw = |line: String| RawValue::from_string(line).expect("a line of a log is JSON");
    let events = run.log().iter().map(|record| raw(record.to_line())).collect();
    Ok(Ok(KitResult { outcome: run.outcome(), events }))
}

fn take_served(test: &mut Value) -> Result<Vec<String>, Problem> {
    let served = test.as_object_mut().and_then(|fields| fields.remove("serve")).unwrap_or_else(|| json!([]));
    let served: Vec<String> = serde_json::from_value(served).map_err(|error| {
        Problem::new(ErrorCode::InvalidRequest, format!("`serve` is no list of agent types: {error}"))
    })?;
    if served.len() > SERVED_MAX {
        let detail = format!("`serve` names {} agent types, at most {SERVED_MAX} are served", served.len());
        return Err(Problem::new(ErrorCode::InvalidRequest, detail));
    }
    Ok(served)
}

fn invalid(pointer: &str, failed: &Failed) -> goalmill_common::problem::Issue {
    goalmill_common::problem::Issue {
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

/// Reads a message as strictly as documents are read: bounded, and no field twice. A report without an `entry` has none.
fn parse_message(line: &str, limits: &Limits) -> Result<KitMessage, Problem> {
    let limits = Limits { plan_bytes_max: to_usize(LINE_BYTES_MAX), ..limits.clone() };
    let mut value = document::read(line.as_bytes(), DraftFormat::Json, &limits)
        .map_err(|issues| Problem::new(ErrorCode::InvalidJson, "the line cannot be read").with_errors(issues))?;
    if let Some(report) = value.get_mut("report").and_then(Value::as_object_mut) {
        report.entry("entry").or_insert_with(|| NO_ENTRY.into());
        report.entry("worker").or_insert_with(|| "test".into());
    }
    serde_json::from_value(value).map_err(|error| {
        let detail = format!("a line is `{{\"run\": …}}` or `{{\"report\": …}}`: {error}");
        Problem::new(ErrorCode::InvalidRequest, detail)
    })
}

fn next_line(lines: &mut impl BufRead) -> Result<Option<String>, Failed> {
    loop {
        let mut line = String::new();
        let read = lines.by_ref().take(LINE_BYTES_MAX + 1).read_line(&mut line)?;
        if read as u64 > LINE_BYTES_MAX {
            return Err(Failed::invalid(format!("a line has more than {LINE_BYTES_MAX} bytes")));
        }
        if read == 0 {
            return Ok(None);
        }
        if !line.trim().is_empty() {
            return Ok(Some(line));
        }
    }
}

/// Not by the screen, which cleans texts for terminals.
fn send(answer: &KitAnswer<'_>) -> Result<(), Failed> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, answer).map_err(Failed::other)?;
    out.write_all(b"\n")?;
    out.flush()?;
    Ok(())
}
