//! `test`: plans without a server. Files of tests, the repetition of a recorded plan, and the mode of test kits.

mod agent_command;
mod from_log;
mod junit;
mod stdio;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use goalmill_common::limits::Limits;
use goalmill_common::number::milliseconds;
use goalmill_common::problem::{ErrorCode, Issue, Problem};
use goalmill_plan::document::{self, Format as DraftFormat};
use goalmill_testkit::{
    PlanSource, PlanTest, RunError, RunOutcome, RunProgress, TestRun, check_expectations, duration_text,
    parse_test_file, prepare_submission,
};
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::args::TestArgs;
use crate::commands::config::settings;
use crate::commands::input;
use crate::commands::submit::at_file;
use crate::exit::{CommandResult, Exit, Failed};
use crate::output::{Screen, Tone};

/// Longest file of tests, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Files of one command, at most.
const FILES_MAX: usize = 1_000;

/// The result of one test.
#[derive(Debug, Serialize)]
pub struct TestResult {
    pub file: String,
    pub name: String,
    pub passed: bool,
    /// What is not as expected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
    /// What of the test was of no use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The end of the plan; none if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<RunOutcome>,
    /// Real time.
    #[serde(rename = "elapsed_ms", serialize_with = "as_milliseconds")]
    pub elapsed: Duration,
}

fn as_milliseconds<S: serde::Serializer>(elapsed: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(milliseconds(*elapsed))
}

#[derive(Debug, Serialize)]
struct TestReport<'a> {
    passed: usize,
    failed: usize,
    tests: &'a [TestResult],
}

pub async fn run(screen: &Screen, args: &TestArgs) -> CommandResult {
    let limits = settings(args.config.as_deref(), &[])?.settings.limits;
    if args.stdio {
        return Box::pin(stdio::run(&limits)).await;
    }
    if let Some(log) = &args.from_log {
        return from_log::run(screen, args, log, limits).await;
    }
    if args.files.len() > FILES_MAX {
        return Err(Failed::invalid(format!("there are {} files, and at most {FILES_MAX} are run", args.files.len())));
    }
    // Every file is read before the first test runs.
    let mut tests = Vec::new();
    for file in &args.files {
        tests.extend(read_tests(file)?.into_iter().map(|test| (file.as_str(), test)));
    }
    if let Some(words) = &args.filter {
        tests.retain(|(_, test)| test.name.contains(words.as_str()));
        if tests.is_empty() {
            return Err(Failed::new(Exit::NotFound, format!("no test has `{words}` in its name")));
        }
    }
    let mut results = Vec::new();
    for (file, test) in tests {
        let result = run_test(file, &test, &limits).await?;
        if screen.is_for_people() {
            show(screen, &result)?;
        }
        results.push(result);
    }
    finish(screen, args, &results)
}

fn read_tests(file: &str) -> Result<Vec<PlanTest>, Failed> {
    let text = input::read_bounded(file, FILE_BYTES_MAX)?;
    let parsed = parse_test_file(&input::parse(file, &text)?);
    let tests = parsed.map_err(|issues| {
        let problem = Problem::new(ErrorCode::InvalidRequest, "the tests cannot be run").with_errors(issues);
        Failed { exit: Exit::InvalidInput, ..at_file(problem.into(), file, &text) }
    })?;
    Ok(tests.tests)
}

async fn run_test(file: &str, test: &PlanTest, limits: &Limits) -> Result<TestResult, Failed> {
    let begun = Instant::now();
    let ended = match read_plans(file, test, limits)? {
        Ok((plan, stored)) => run_plan(test, plan, &stored, limits).await,
        Err(issues) => Err(vec![refused(&issues)]),
    };
    let (differences, outcome) = match ended {
        Ok(outcome) => (check_expectations(&test.expect, &outcome), Some(outcome)),
        Err(differences) => (differences, None),
    };
    Ok(TestResult {
        file: file.to_owned(),
        name: test.name.clone(),
        passed: differences.is_empty(),
        differences,
        warnings: outcome.as_ref().map(|outcome| outcome.warnings.clone()).unwrap_or_default(),
        outcome,
        elapsed: begun.elapsed(),
    })
}

/// Runs a plan whose agents are all mocks; the error says why it has no end.
async fn run_plan(
    test: &PlanTest,
    plan: Option<Value>,
    stored: &BTreeMap<String, Value>,
    limits: &Limits,
) -> Result<RunOutcome, Vec<String>> {
    let submit = prepare_submission(test, plan, stored, limits).map_err(|issues| vec![refused(&issues)])?;
    let failed = |error: RunError| vec![error.to_string()];
    let mut run = TestRun::start(test, submit, limits.clone(), &[], None).map_err(failed)?;
    match run.advance().await.map_err(failed)? {
        RunProgress::Ended => Ok(run.outcome()),
        RunProgress::Tasks(_) => Err(vec!["a task was given to an agent outside".into()]),
    }
}

fn refused(issues: &[Issue]) -> String {
    let shown = |issue: &Issue| {
        let hint = if issue.hint.is_empty() { String::new() } else { format!(" ({})", issue.hint) };
        format!("\n    {} {}: {}{hint}", issue.pointer, issue.code, issue.detail)
    };
    format!("the plan is refused:{}", issues.iter().map(shown).collect::<String>())
}

/// The document of the plan, and those of stored plans by name.
pub type PlanDocuments = (Option<Value>, BTreeMap<String, Value>);

/// Reads the plans of a test; paths are relative to the file that names them.
pub fn read_plans(file: &str, test: &PlanTest, limits: &Limits) -> Result<Result<PlanDocuments, Vec<Issue>>, Failed> {
    let plan = match test.plan.as_ref().map(|plan| read_plan(file, plan, limits)).transpose()? {
        Some(Err(issues)) => return Ok(Err(issues)),
        Some(Ok(plan)) => Some(plan),
        None => None,
    };
    let mut stored = BTreeMap::new();
    for (name, source) in &test.plans {
        match read_plan(file, source, limits)? {
            Ok(document) => stored.insert(name.clone(), document),
            Err(issues) => return Ok(Err(issues)),
        };
    }
    Ok(Ok((plan, stored)))
}

fn read_plan(file: &str, plan: &PlanSource, limits: &Limits) -> Result<Result<Value, Vec<Issue>>, Failed> {
    let path = match plan {
        PlanSource::Document(document) => return Ok(Ok(Value::Object(document.clone()))),
        PlanSource::Path(path) => beside(file, path),
    };
    let text = input::read_bounded(&path.to_string_lossy(), limits.plan_bytes_max as u64)?;
    Ok(document::parse_document(text.as_bytes(), DraftFormat::Auto, limits))
}

fn beside(file: &str, path: &str) -> PathBuf {
    let directory = if file == "-" { None } else { Path::new(file).parent() };
    directory.map_or_else(|| PathBuf::from(path), |directory| directory.join(path))
}

fn show(screen: &Screen, result: &TestResult) -> Result<(), Failed> {
    let palette = screen.palette;
    let mark = if result.passed { palette.tone(Tone::Good, "ok  ") } else { palette.tone(Tone::Bad, "FAIL") };
    let end = result.outcome.as_ref().map_or_else(String::new, |outcome| {
        let attempts: u32 = outcome.steps.iter().map(|step| step.attempt).sum();
        let (status, took) = (outcome.status.as_str(), duration_text(outcome.duration_ms));
        let attempts = if attempts == 1 { "1 attempt".into() } else { format!("{attempts} attempts") };
        format!("  {status} after {took} · {attempts}")
    });
    screen.line(format!("{mark}  {} · {}{end}", result.file, result.name))?;
    for difference in &result.differences {
        screen.line(format!("      {difference}"))?;
    }
    for warning in &result.warnings {
        screen.warn(format!("{}: {warning}", result.name));
    }
    Ok(())
}

/// Prints the sum, and writes the report of `--junit`.
fn finish(screen: &Screen, args: &TestArgs, results: &[TestResult]) -> CommandResult {
    let passed = results.iter().filter(|result| result.passed).count();
    let failed = results.len() - passed;
    if let Some(path) = &args.junit {
        std::fs::write(path, junit::report(results))
            .map_err(|error| Failed::other(format!("`{}` cannot be written: {error}", path.display())))?;
    }
    let report = TestReport { passed, failed, tests: results };
    screen.list(&report, results, |result| result.name.clone(), |_| format!("{passed} passed, {failed} failed"))?;
    Ok(if failed == 0 { Exit::Done } else { Exit::Other })
}
