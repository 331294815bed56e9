//! WorkBench tasks as plans, through real processes: is every table in the end as it should be?
//!
//! Each task becomes a plan with a step a call. Steps of the same agent type, which work on the same table, run in
//! order; others beside each other. Two schedulers, three workers and a private Redis with an append-only file run as
//! processes; the tools are a web service in this program. Afterwards a task's tables are compared, cell by cell and
//! row by row, with tables to which the right calls were applied directly.
//!
//! With `--kill` something is killed with `kill -9` all the while: a scheduler, a worker, Redis, or everything.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use futures_util::{StreamExt, stream};
use goalmill_bench::kill::Killer;
use goalmill_bench::program::program;
use goalmill_bench::submit::Submitter;
use goalmill_common::id::PlanId;
use goalmill_common::random::Random;
use goalmill_tests::cluster::{Cluster, Options};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::rows::{Out, read};

mod call;
mod csv;
mod office;
mod tools;

use call::Call;
use office::Office;
use tools::{Arguments, Desk};

/// Until a plan must have ended, whatever is killed.
const LIMIT: Duration = Duration::from_mins(5);
/// Concurrent tasks.
const TOGETHER: usize = 16;
/// The same while something is killed all the time: fewer, so that more kills fall into the run.
const TOGETHER_KILLED: usize = 6;
/// Longest time between a tool's effect and its answer while something is killed, in milliseconds.
const PAUSE_MS_MAX: u64 = 200;

/// Losses of one step before it is taken for the cause, while something is killed all the time: the usual 3 is for
/// steps that end their worker, and here it is not the step.
const LOST_MAX: u32 = 50;

/// What to kill, if anything.
#[derive(Clone, Copy)]
pub struct Faults {
    pub kill: bool,
    pub seed: u64,
}

#[derive(Deserialize)]
struct Row {
    #[serde(default)]
    id: Option<String>,
    domain: String,
    query: String,
    /// The right calls, as a list in Python's spelling.
    answer: String,
}

struct Job {
    id: String,
    row: Row,
    calls: Vec<(Call, Arguments)>,
    /// Why the right calls cannot be read; such a task is not run.
    problem: Option<String>,
}

#[derive(Serialize)]
struct Told<'a> {
    id: &'a str,
    domain: &'a str,
    query: &'a str,
    status: &'a str,
    tables_equal: bool,
    done_twice: usize,
    /// By table: rows added, removed and changed.
    changes: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub async fn run(dir: &Path, out: &mut Out, faults: Faults) -> Result<Value> {
    let jobs = read_jobs(dir)?;
    let first = Desk::read(&dir.join("e2e/workbench_db"))?;
    let random = Random::seeded(faults.seed);
    let office = Office::new(first.clone(), if faults.kill { PAUSE_MS_MAX } else { 0 }, random.clone());
    let (mut cluster, _settings) = start(&office, faults).await?;
    let submitter = Submitter::new(&cluster);
    let done = CancellationToken::new();
    let begun = tokio::time::Instant::now();
    let mut killer = Killer::new(random);
    let killing = async { if faults.kill { killer.kill_until(&mut cluster, &submitter, &done).await } else { Ok(()) } };
    let working = async {
        let ended = work(&submitter, &jobs, if faults.kill { TOGETHER_KILLED } else { TOGETHER }).await;
        done.cancel();
        ended
    };
    let (killed, ended) = tokio::join!(killing, working);
    killed?;
    let seconds = begun.elapsed().as_secs_f64();
    let (mut equal, mut twice, mut completed) = (0, 0, 0);
    for (job, (plan, status)) in jobs.iter().zip(ended) {
        let desk = plan.as_ref().map_or_else(|_| first.clone(), |plan| office.desk(plan.as_str()));
        let mut error = plan.as_ref().err().map(ToString::to_string);
        if let Ok(plan) = &plan {
            error = match status.as_str() {
                "completed" => cluster.verify_completed(plan).await.err().map(|broken| format!("{broken:#}")),
                _ => Some(failures(&cluster, plan).await.unwrap_or_else(|unread| format!("{unread:#}"))),
            };
        }
        let done_twice = plan.as_ref().map_or(0, |plan| office.done_twice(plan.as_str()));
        let same = desk == gold(&first, job) && status == "completed" && error.is_none();
        equal += usize::from(same);
        twice += done_twice;
        completed += usize::from(status == "completed");
        out.row(&Told {
            id: &job.id,
            domain: &job.row.domain,
            query: &job.row.query,
            status: &status,
            tables_equal: same,
            done_twice,
            changes: json!(desk.changes_since(&first)),
            error,
        })?;
    }
    let steps: usize = jobs.iter().map(|job| job.calls.len()).sum();
    Ok(json!({
        "eval": "e2e", "tasks": jobs.len(), "calls": steps, "completed": completed, "tables_equal": equal,
        "done_twice": twice, "asked_again": office.repeated(), "killed": killer.counts(), "seed": faults.seed,
        "seconds": (seconds * 10.0).round() / 10.0,
    }))
}

fn read_jobs(dir: &Path) -> Result<Vec<Job>> {
    let rows: Vec<Row> = read(&dir.join("e2e/workbench_tasks.jsonl"))?;
    let job = |(n, row): (usize, Row)| {
        let (calls, problem) = match read_calls(&row.answer) {
            Ok(calls) => (calls, None),
            Err(problem) => (Vec::new(), Some(format!("{problem:#}"))),
        };
        let id = row.id.clone().unwrap_or_else(|| format!("workbench/{n}"));
        Job { id, row, calls, problem }
    };
    Ok(rows.into_iter().enumerate().map(job).collect())
}

fn read_calls(answer: &str) -> Result<Vec<(Call, Arguments)>> {
    let calls = call::read_list(answer)?.into_iter().map(|call| {
        let arguments = tools::arguments(&call).map_err(anyhow::Error::msg)?;
        Ok((call, arguments))
    });
    calls.collect()
}

/// Processes whose workers ask the office.
async fn start(office: &std::sync::Arc<Office>, faults: Faults) -> Result<(Cluster, tempfile::TempDir)> {
    let url = office.open().await?;
    let agent = |name: &str| (name.to_owned(), json!({"kind": "http", "url": url}));
    let agents: Map<String, Value> = tools::agent_types().map(agent).collect();
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("goalmill.yaml");
    std::fs::write(&file, json!({"worker": {"agents": agents}}).to_string())?;
    let mut environment = vec![("GOALMILL_CONFIG", file.display().to_string())];
    if faults.kill {
        environment.push(("GOALMILL__LIMITS__LOST_MAX", LOST_MAX.to_string()));
    }
    let options = Options { environment, binary: Some(program()?), ..Options::default() };
    Ok((Cluster::start(options).await?, dir))
}

/// Submits each task's plan and waits for its end: the plan and its status.
async fn work(submitter: &Submitter, jobs: &[Job], together: usize) -> Vec<(Result<PlanId>, String)> {
    let mut tasks = Vec::new();
    for (n, job) in jobs.iter().enumerate() {
        tasks.push(work_one(submitter, n, job));
    }
    let mut ended: Vec<_> = stream::iter(tasks).buffer_unordered(together).collect().await;
    ended.sort_by_key(|(n, _)| *n);
    ended
        .into_iter()
        .map(|(_, result)| match result {
            Ok((plan, status)) => (Ok(plan), status),
            Err(error) => (Err(error), String::new()),
        })
        .collect()
}

async fn work_one(submitter: &Submitter, n: usize, job: &Job) -> (usize, Result<(PlanId, String)>) {
    match &job.problem {
        Some(problem) => (n, Err(anyhow::Error::msg(problem.clone()))),
        None => (n, submitter.run(&format!("e2e-{n}"), &plan_of(job), LIMIT).await),
    }
}

/// Every line of a plan's log that tells of a failure.
async fn failures(cluster: &Cluster, plan: &PlanId) -> Result<String> {
    let lines = cluster.lines(plan).await?;
    let failures = lines.iter().filter(|line| line["data"]["failure"].is_object());
    Ok(failures.map(Value::to_string).collect::<Vec<_>>().join("\n"))
}

/// A step a call; calls on the same table in order. A task that asks for nothing is a plan that only finishes.
fn plan_of(job: &Job) -> Value {
    let mut last = std::collections::BTreeMap::<&str, String>::new();
    let mut steps = Vec::new();
    for (n, (call, arguments)) in job.calls.iter().enumerate() {
        let (agent_type, action) = call.tool.split_once('.').unwrap_or((&call.tool, ""));
        let id = format!("call_{}", n + 1);
        let before: Vec<String> = last.insert(agent_type, id.clone()).into_iter().collect();
        let inputs: Map<String, Value> = arguments.iter().map(|(name, text)| (name.clone(), literal(text))).collect();
        steps.push(json!({
            "id": id, "agent_type": agent_type, "action": action, "inputs": inputs, "dependencies": before,
        }));
    }
    if steps.is_empty() {
        steps.push(json!({"id": "nothing_to_do", "kind": "finish", "inputs": {"calls": 0}}));
    }
    json!({"name": job.id, "steps": steps})
}

/// A text that stays as it is, also when it looks like an expression.
fn literal(text: &str) -> Value {
    if ["{{", "{%", "{#"].iter().any(|open| text.contains(open)) {
        json!(format!("{{{{ {} }}}}", Value::from(text)))
    } else {
        text.into()
    }
}

/// The tables after the right calls, applied directly.
fn gold(first: &Desk, job: &Job) -> Desk {
    let mut desk = first.clone();
    for (call, arguments) in &job.calls {
        desk.call(&call.tool, arguments).expect("the arguments were checked against the tools");
    }
    desk
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(answer: &str) -> Job {
        let calls = read_calls(answer).unwrap();
        let row = Row { id: None, domain: "d".into(), query: "q".into(), answer: answer.into() };
        Job { id: "j".into(), row, calls, problem: None }
    }

    #[test]
    fn calls_on_one_table_are_a_chain_and_others_are_not() {
        let plan =
            plan_of(&job("['email.delete_email(\"1\")', 'calendar.delete_event(\"2\")', 'email.delete_email(\"3\")']"));
        let dependencies = |n: usize| plan["steps"][n]["dependencies"].clone();
        assert_eq!([dependencies(0), dependencies(1), dependencies(2)], [json!([]), json!([]), json!(["call_1"])]);
        assert_eq!(plan["steps"][1]["action"], "delete_event");
    }

    #[test]
    fn a_task_that_asks_for_nothing_is_a_plan_all_the_same() {
        assert_eq!(plan_of(&job("[]"))["steps"][0]["kind"], "finish");
    }

    #[test]
    fn a_call_of_an_unknown_tool_is_a_problem_of_its_row() {
        let problem = read_calls("['email.burn(email_id=\"1\")']").unwrap_err();
        assert!(problem.to_string().contains("`email.burn`"), "{problem}");
    }

    #[test]
    fn a_text_with_braces_is_not_taken_for_an_expression() {
        assert_eq!(literal("a"), "a");
        assert_eq!(literal("{{ x }}"), r#"{{ "{{ x }}" }}"#);
    }
}
