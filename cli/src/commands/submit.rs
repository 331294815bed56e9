//! `submit` and `run`: submits a goal or a plan and waits for its end if wanted.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use goalmill_broker::Broker;
use goalmill_client::{Document, traceparent};
use goalmill_common::config::RedisSettings;
use goalmill_common::limits::Limits;
use goalmill_common::random::Random;
use goalmill_common::stored_plan::StoredPlanRef;
use goalmill_common::view::{Accepted, Preview};
use goalmill_common::wire::{Submission, SubmissionAnswer, SubmissionKind, qualify};
use goalmill_plan::document::{self, Format as DraftFormat};
use goalmill_plan::foreign;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use super::goal_document::{goal_of, object, put};
use super::plan_inputs::{plan_inputs, with_inputs};
use super::results::show_results;
use super::{checked_id, input, preview, source_lines};
use crate::args::{Format, PlanningArgs, RunArgs, SubmitArgs, WaitArgs};
use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit, Failed};
use crate::shell_quoting::lacks_amount;
use crate::watch::{Patience, Source, Waited, left_alone, wait};

/// Default timeout of an answer on the stream.
const ANSWER: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);
/// CloudEvents `source` of submissions.
const SOURCE: &str = "urn:goalmill:cli";

/// Submits a goal.
pub async fn goal(context: &CommandContext, args: &SubmitArgs) -> CommandResult {
    if let Some(file) = args.goal.as_deref().filter(|goal| Path::new(goal).is_file()) {
        let message = format!("`{file}` is a file, and a goal is said in words");
        return Err(
            Failed::new(Exit::Usage, message).help(format!("submit what it holds: goalmill submit --file {file}"))
        );
    }
    let document = args.file.as_deref().map(input::document).transpose()?;
    if let (Some(file), Some(plan)) = (&args.file, document.as_ref().filter(|document| is_plan(document))) {
        return plan_file(context, args, file, plan).await;
    }
    let goal = goal_of(args, document.as_ref(), context.clock.now_ms())?;
    warn_of_lost_budget(context, &goal);
    if args.dry_run {
        let planned = preview::ask(context, "planning", &goal).await?;
        return preview(context, &planned);
    }
    let data = Document { text: goal.to_string(), media: "application/json" };
    submit(context, &args.wait, SubmissionKind::Goal, &data, &goal).await
}

/// Submits a plan.
pub async fn plan(context: &CommandContext, args: &RunArgs) -> CommandResult {
    let inputs = plan_inputs(&args.input)?;
    if let Some(plan) = stored_plan(&args.file) {
        return run_stored(context, args, &plan, &inputs).await;
    }
    let source = input::document(&args.file)?;
    let plan = with_planning(&source, &args.planning)?;
    // Without any, a preview takes them for not known yet.
    let plan = if inputs.is_empty() && !args.dry_run { plan } else { with_inputs(plan, inputs) };
    run_plan(context, &args.wait, args.dry_run, (&args.file, &source), &plan).await
}

/// The stored plan that is named where there is no file of this name.
fn stored_plan(text: &str) -> Option<StoredPlanRef> {
    if text == "-" || Path::new(text).exists() { None } else { StoredPlanRef::parse(text) }
}

async fn run_stored(
    context: &CommandContext,
    args: &RunArgs,
    plan: &StoredPlanRef,
    inputs: &Map<String, Value>,
) -> CommandResult {
    let mut planning = Map::new();
    args.planning.set(&mut planning);
    if !planning.is_empty() || args.wait.redis.is_some() {
        let message = format!("`{plan}` is a stored plan: flags for planners and `--redis` are for documents");
        return Err(Failed::new(Exit::Usage, message)
            .help(format!("write it into a file, goalmill plan get --stored {plan} > plan.yaml, and run that")));
    }
    if args.dry_run {
        let stored = context.client.stored_plan(plan).await?;
        let document = Document { text: stored.document.to_string(), media: "application/json" };
        let document = with_inputs(document, inputs.clone());
        return preview(context, &context.client.validate(&document).await?);
    }
    let key = submission_key(&args.wait)?;
    let accepted = context.client.run_stored_plan(plan, inputs, &key).await?;
    follow(context, &args.wait, &accepted, Source::Api(context.client.clone())).await
}

/// The fields of a plan and its goal; `None` when it cannot be read: the server says what is wrong with it.
fn split_goal(plan: &Document) -> Option<(Map<String, Value>, Map<String, Value>)> {
    let mut document = match document::parse_document(plan.text.as_bytes(), DraftFormat::Auto, &Limits::default()) {
        Ok(Value::Object(document)) => document,
        Ok(steps) => Map::from_iter([("steps".to_owned(), steps)]),
        Err(_) => return None,
    };
    let goal = match document.remove("goal") {
        Some(Value::Object(goal)) => goal,
        Some(Value::String(text)) => Map::from_iter([("description".to_owned(), Value::String(text))]),
        _ => {
            let name = ["description", "name"].iter().find_map(|key| document.get(*key)?.as_str());
            Map::from_iter([("description".to_owned(), json!(name.unwrap_or("run a plan")))])
        }
    };
    Some((document, goal))
}

/// Submits a plan in place of a goal.
async fn plan_file(context: &CommandContext, args: &SubmitArgs, file: &str, plan: &Document) -> CommandResult {
    if let Some(flag) = goal_flag(args) {
        let message = format!("`{file}` is a plan, and `{flag}` is for goals");
        return Err(Failed::new(Exit::Usage, message).help("set the value under `goal` in the plan"));
    }
    let source = plan;
    let plan = with_planning(source, &args.planning)?;
    let plan = if args.input.is_empty() { plan } else { with_inputs(plan, plan_inputs(&args.input)?) };
    run_plan(context, &args.wait, args.dry_run, (file, source), &plan).await
}

/// - `file`: the name of the file, and what is in it.
async fn run_plan(
    context: &CommandContext,
    wait: &WaitArgs,
    is_dry: bool,
    (file, source): (&str, &Document),
    plan: &Document,
) -> CommandResult {
    if is_dry {
        return preview(context, &context.client.validate(plan).await?);
    }
    submit(context, wait, SubmissionKind::Plan, plan, &Value::Null)
        .await
        .map_err(|failed| at_file(failed, file, &source.text))
}

/// Whether a document is a plan, also one of another planner.
fn is_plan(document: &Document) -> bool {
    let read = document::parse_document(document.text.as_bytes(), DraftFormat::Auto, &Limits::default());
    // What is wrong with it is said later.
    read.is_ok_and(|draft| input::is_plan(&draft) && !foreign::is_workflow(&draft))
}

/// The first flag that a plan has no place for.
fn goal_flag(args: &SubmitArgs) -> Option<&'static str> {
    let given = [
        ("--constraint", !args.constraint.is_empty()),
        ("--state", !args.state.is_empty()),
        ("--criterion", !args.criterion.is_empty()),
        ("--priority", args.priority.is_some()),
        ("--max-cost", args.max_cost.is_some()),
        ("--max-tokens", args.max_tokens.is_some()),
        ("--deadline", args.deadline.is_some()),
        ("--require-approval", args.require_approval),
        ("--approve-revisions", args.approve_revisions),
        ("--min-confidence", args.min_confidence.is_some()),
        ("--demo-fault", !args.demo_fault.is_empty()),
    ];
    given.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag)
}

/// The plan with the given planning parameters in its goal.
fn with_planning(plan: &Document, args: &PlanningArgs) -> Result<Document, Failed> {
    let mut parameters = Map::new();
    args.set(&mut parameters);
    if parameters.is_empty() {
        return Ok(plan.clone());
    }
    let Some((mut document, mut goal)) = split_goal(plan) else { return Ok(plan.clone()) };
    let mut planning = object(&mut goal, "planning")?;
    planning.extend(parameters);
    put(&mut goal, "planning", planning);
    document.insert("goal".into(), Value::Object(goal));
    Ok(Document { text: Value::Object(document).to_string(), media: "application/json" })
}

/// Adds the file and the source lines to a problem.
pub fn at_file(mut failed: Failed, file: &str, text: &str) -> Failed {
    let file = if file == "-" { "standard input" } else { file };
    if let Some(problem) = &mut failed.problem
        && !problem.errors.is_empty()
    {
        problem.detail = format!("{file}: {}", problem.detail);
        failed.places = source_lines::excerpts(file, text, &problem.errors);
    }
    failed
}

fn preview(context: &CommandContext, preview: &Preview) -> CommandResult {
    preview::show(&context.screen, preview)?;
    Ok(if preview.valid { Exit::Done } else { Exit::InvalidInput })
}

fn warn_of_lost_budget(context: &CommandContext, goal: &Value) {
    let words = ["description", "goal", "query", "job"].iter().find_map(|name| goal.get(*name)?.as_str());
    let is_given = goal.pointer("/constraints/budget").is_some();
    if !is_given && words.is_some_and(lacks_amount) {
        context.screen.warn(
            "the goal speaks of a budget, but no amount can be read; in double quotes the shell turns `$2000` into \
             `000`: use single quotes, or `--constraint budget=2000`",
        );
    }
}

async fn submit(
    context: &CommandContext,
    args: &WaitArgs,
    kind: SubmissionKind,
    data: &Document,
    goal: &Value,
) -> CommandResult {
    let key = submission_key(args)?;
    let (accepted, source) = match &args.redis {
        Some(url) => {
            let broker = connect(url).await?;
            let (source, traceparent, id) = (SOURCE.into(), traceparent(), key.clone());
            let namespace = context.client.namespace();
            let submission =
                Submission { id, source, kind, data: data.text.clone(), inputs: None, traceparent, namespace };
            let accepted = submit_by_stream(&broker, &submission, args.timeout.unwrap_or(ANSWER)).await?;
            (accepted, Source::Log(broker))
        }
        None => {
            let accepted = match kind {
                SubmissionKind::Goal => context.client.submit_goal(goal, &key).await?,
                SubmissionKind::Plan => context.client.submit_plan(data, &key).await?,
            };
            (accepted, Source::Api(context.client.clone()))
        }
    };
    follow(context, args, &accepted, source).await
}

fn submission_key(args: &WaitArgs) -> Result<String, Failed> {
    match &args.idempotency_key {
        Some(key) => {
            checked_id("idempotency key", key)?;
            Ok(key.clone())
        }
        None => Ok(format!("cli-{}", Random::system().token())),
    }
}

/// Connects to the Redis at `url`.
pub async fn connect(url: &str) -> Result<Arc<dyn Broker>, Failed> {
    let settings = RedisSettings { url: url.into(), ..RedisSettings::default() };
    Ok(goalmill_broker::redis::connect(&settings).await?)
}

async fn submit_by_stream(
    broker: &Arc<dyn Broker>,
    submission: &Submission,
    limit: Duration,
) -> Result<Accepted, Failed> {
    let key = submission.answer_id();
    let entry = broker.submit(&submission.fields()).await?;
    let deadline = Instant::now() + limit;
    // The id may have an answer to another submission.
    let ids = [qualify(submission.namespace.as_ref(), entry.as_str())];
    while Instant::now() < deadline {
        if let Some(Some(text)) = broker.answers(&ids).await?.into_iter().next() {
            return match serde_json::from_str(&text) {
                Ok(SubmissionAnswer::Accepted { plan_id, status, warnings, .. }) => {
                    Ok(Accepted { plan_id, status, warnings })
                }
                Ok(SubmissionAnswer::Refused(problem)) => Err(problem.into()),
                Err(error) => Err(Failed::other(format!("the answer of `{key}` cannot be read: {error}"))),
            };
        }
        sleep(LOOK).await;
    }
    Err(Failed::new(Exit::Timeout, format!("no scheduler has answered submission `{key}` yet"))
        .help("it stays on the stream; is a scheduler running? check: goalmill doctor"))
}

pub async fn follow(context: &CommandContext, args: &WaitArgs, accepted: &Accepted, source: Source) -> CommandResult {
    let CommandContext { screen, client, .. } = context;
    let plan = &accepted.plan_id;
    accepted.warnings.iter().for_each(|issue| screen.warn(&issue.detail));
    if !args.wait && !args.watch {
        screen.show(accepted, plan.as_str(), |_| {
            format!("{plan} {}\n  watch it: goalmill watch {plan}", accepted.status)
        })?;
        return Ok(Exit::Done);
    }
    let over_http = matches!(source, Source::Api(_));
    let patience =
        Patience { show: args.watch, warned: accepted.warnings.clone(), stop_at_approval: true, timeout: args.timeout };
    let waited = wait(screen, source, plan, patience).await?;
    let exit = left_alone(screen, plan, &waited);
    let Waited::Settled(board) = waited else {
        if !screen.is_for_people() {
            screen.show(accepted, plan.as_str(), |_| String::new())?;
        }
        return Ok(exit);
    };
    if screen.is_for_people() && !board.status().is_final() {
        return Ok(exit);
    }
    let results = if over_http { None } else { board.results() };
    let results = match results {
        Some(results) => results,
        None => client.results(plan).await?,
    };
    match screen.format {
        Format::Table | Format::Wide if args.watch => screen.note(format!("  results: goalmill plan results {plan}")),
        Format::Table | Format::Wide => {
            show_results(screen, &results)?;
            crate::watch::ending(&board, screen.palette).iter().for_each(|line| screen.note(line));
        }
        Format::Json | Format::Yaml | Format::Jsonl | Format::Name | Format::None => show_results(screen, &results)?,
    }
    Ok(exit)
}
