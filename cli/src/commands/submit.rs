//! `submit` and `run`: submits a goal or a plan and waits for its end if wanted.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use goalmill_broker::Broker;
use goalmill_client::{Document, traceparent};
use goalmill_common::config::RedisSettings;
use goalmill_common::json_limits;
use goalmill_common::limits::Limits;
use goalmill_common::number::milliseconds;
use goalmill_common::random::Random;
use goalmill_common::stored_plan::StoredPlanRef;
use goalmill_common::view::{Accepted, Preview};
use goalmill_common::wire::{Submission, SubmissionAnswer, SubmissionKind};
use goalmill_plan::document::{self, Format as DraftFormat};
use goalmill_plan::formats;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

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
    let inputs = name_values(&args.input)?;
    if let Some(plan) = stored_plan(&args.file) {
        return run_stored(context, args, &plan, &inputs).await;
    }
    let plan = with_inputs(with_planning(input::document(&args.file)?, &args.planning)?, inputs)?;
    run_plan(context, &args.wait, args.dry_run, &args.file, &plan).await
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
        return preview(context, &context.client.validate(&document).await?);
    }
    let key = submission_key(&args.wait)?;
    let accepted = context.client.run_stored_plan(plan, inputs, &key).await?;
    follow(context, &args.wait, &accepted, Source::Api(context.client.clone())).await
}

/// The values of flags of the form `name=value`: JSON, or else texts.
fn name_values(flags: &[String]) -> Result<Map<String, Value>, Failed> {
    let pair = |text: &String| {
        let (name, value) = text
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| Failed::new(Exit::Usage, format!("the input `{text}` is not of the form `name=value`")))?;
        Ok((name.to_owned(), json_limits::parse(value).unwrap_or_else(|_| json!(value))))
    };
    flags.iter().map(pair).collect()
}

/// The plan with these inputs in the metadata of its goal.
fn with_inputs(plan: Document, inputs: Map<String, Value>) -> Result<Document, Failed> {
    if inputs.is_empty() {
        return Ok(plan);
    }
    let Some((mut document, mut goal)) = split_goal(&plan) else { return Ok(plan) };
    let mut metadata = object(&mut goal, "metadata")?;
    let mut all = object(&mut metadata, "inputs")?;
    all.extend(inputs);
    put(&mut metadata, "inputs", all);
    put(&mut goal, "metadata", metadata);
    document.insert("goal".into(), Value::Object(goal));
    Ok(Document { text: Value::Object(document).to_string(), media: "application/json" })
}

/// The fields of a plan and its goal; `None` when it cannot be read: the server says what is wrong with it.
fn split_goal(plan: &Document) -> Option<(Map<String, Value>, Map<String, Value>)> {
    let mut document = match document::read(plan.text.as_bytes(), DraftFormat::Auto, &Limits::default()) {
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
    let plan = with_planning(Document { text: plan.text.clone(), media: plan.media }, &args.planning)?;
    run_plan(context, &args.wait, args.dry_run, file, &plan).await
}

async fn run_plan(
    context: &CommandContext,
    wait: &WaitArgs,
    is_dry: bool,
    file: &str,
    plan: &Document,
) -> CommandResult {
    if is_dry {
        return preview(context, &context.client.validate(plan).await?);
    }
    submit(context, wait, SubmissionKind::Plan, plan, &Value::Null)
        .await
        .map_err(|failed| at_file(failed, file, &plan.text))
}

/// Whether a document is a plan, also one of another planner.
fn is_plan(document: &Document) -> bool {
    let read = document::read(document.text.as_bytes(), DraftFormat::Auto, &Limits::default());
    // What is wrong with it is said later.
    read.is_ok_and(|draft| input::is_plan(&draft) && !formats::is_workflow(&draft))
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
fn with_planning(plan: Document, args: &PlanningArgs) -> Result<Document, Failed> {
    let mut parameters = Map::new();
    args.set(&mut parameters);
    if parameters.is_empty() {
        return Ok(plan);
    }
    let Some((mut document, mut goal)) = split_goal(&plan) else { return Ok(plan) };
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

/// The goal document from the file or the text, with the flags.
fn goal_of(args: &SubmitArgs, document: Option<&Document>, now_ms: u64) -> Result<Value, Failed> {
    let mut goal = given_goal(args, document)?;
    let mut state = object(&mut goal, "state")?;
    for text in &args.state {
        let (name, value) = text
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| Failed::new(Exit::Usage, format!("the state `{text}` is not of the form `name=value`")))?;
        state.insert(name.into(), json!(value));
    }
    put(&mut goal, "state", state);
    let mut constraints = constraints(&mut goal)?;
    for text in &args.constraint {
        let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
            Failed::new(Exit::Usage, format!("the constraint `{text}` is not of the form `name=value`"))
        })?;
        constraints.add(name, json_limits::parse(value).unwrap_or_else(|_| json!(value)));
    }
    if !args.demo_fault.is_empty() {
        let faults: Map<String, Value> =
            args.demo_fault.iter().map(|(agent, fault)| (agent.clone(), json!(fault))).collect();
        constraints.add("demo_fault", Value::Object(faults));
    }
    constraints.put(&mut goal);
    let mut budget = object(&mut goal, "budget")?;
    if let Some(cost) = args.max_cost {
        budget.insert("cost".into(), json!(cost));
    }
    if let Some(tokens) = args.max_tokens {
        budget.insert("tokens".into(), json!(tokens));
    }
    put(&mut goal, "budget", budget);
    if !args.criterion.is_empty() {
        goal.insert("success_criteria".into(), json!(args.criterion));
    }
    if let Some(priority) = args.priority {
        goal.insert("priority".into(), json!(priority));
    }
    set_planning(args, &mut goal)?;
    if let Some(deadline) = args.deadline {
        let in_ms = milliseconds(deadline);
        goal.insert("deadline_ms".into(), json!(now_ms.saturating_add(in_ms)));
    }
    Ok(Value::Object(goal))
}

/// The goal of the text, or of the file.
fn given_goal(args: &SubmitArgs, document: Option<&Document>) -> Result<Map<String, Value>, Failed> {
    match (&args.goal, args.file.as_ref().zip(document)) {
        (Some(text), _) if text.trim().is_empty() => Err(Failed::invalid("the text of the goal is empty")
            .help("say in a sentence what is to be done, goalmill submit 'YOUR GOAL'")),
        (Some(text), _) => Ok(Map::from_iter([("description".to_owned(), json!(text))])),
        (None, Some((path, document))) => {
            let Value::Object(fields) = input::parse(path, &document.text)? else {
                return Err(Failed::invalid(format!("`{path}` holds no goal, which is an object"))
                    .help("write at least `description: YOUR GOAL` into it"));
            };
            Ok(fields)
        }
        (None, None) => Err(Failed::new(Exit::Usage, "no goal is given")
            .help("give it as a text, goalmill submit 'YOUR GOAL', or by --file FILE")),
    }
}

/// Puts the options about planners and revisions into the goal.
fn set_planning(args: &SubmitArgs, goal: &mut Map<String, Value>) -> Result<(), Failed> {
    let mut planning = object(goal, "planning")?;
    args.planning.set(&mut planning);
    if args.require_approval {
        planning.insert("require_approval".into(), json!(true));
    }
    let mut revision = object(&mut planning, "revision")?;
    if args.approve_revisions {
        revision.insert("approve".into(), json!({}));
    }
    if let Some(least) = args.min_confidence {
        revision.insert("confidence_floor".into(), json!(least));
    }
    put(&mut planning, "revision", revision);
    put(goal, "planning", planning);
    Ok(())
}

/// Constraints by name, or as a list that other planners write.
enum Constraints {
    ByName(Map<String, Value>),
    Listed(Vec<Value>),
}

fn constraints(goal: &mut Map<String, Value>) -> Result<Constraints, Failed> {
    match goal.remove("constraints") {
        Some(Value::Array(list)) => Ok(Constraints::Listed(list)),
        Some(given) => {
            goal.insert("constraints".into(), given);
            object(goal, "constraints").map(Constraints::ByName)
        }
        None => Ok(Constraints::ByName(Map::new())),
    }
}

impl Constraints {
    fn add(&mut self, name: &str, value: Value) {
        match self {
            Self::ByName(map) => drop(map.insert(name.into(), value)),
            Self::Listed(list) => list.push(json!({"type": name, "value": value})),
        }
    }

    fn put(self, goal: &mut Map<String, Value>) {
        match self {
            Self::ByName(map) => put(goal, "constraints", map),
            Self::Listed(list) => drop(goal.insert("constraints".into(), Value::Array(list))),
        }
    }
}

fn object(goal: &mut Map<String, Value>, name: &str) -> Result<Map<String, Value>, Failed> {
    match goal.remove(name) {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(fields)) => Ok(fields),
        Some(_) => Err(Failed::invalid(format!("the goal's `{name}` is no object"))),
    }
}

fn put(goal: &mut Map<String, Value>, name: &str, fields: Map<String, Value>) {
    if !fields.is_empty() {
        goal.insert(name.into(), Value::Object(fields));
    }
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
            let submission = Submission { id, source, kind, data: data.text.clone(), traceparent, namespace };
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
    broker.submit(&submission.fields()).await?;
    let deadline = Instant::now() + limit;
    let ids = [key.clone()];
    while Instant::now() < deadline {
        if let Some(Some(text)) = broker.answers(&ids).await?.into_iter().next() {
            return match serde_json::from_str(&text) {
                Ok(SubmissionAnswer::Accepted { plan_id, status }) => {
                    Ok(Accepted { plan_id, status, warnings: Vec::new() })
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
    if !args.watch {
        accepted.warnings.iter().for_each(|issue| screen.warn(&issue.detail));
    }
    if !args.wait && !args.watch {
        screen.show(accepted, plan.as_str(), |_| {
            format!("{plan} {}\n  watch it: goalmill watch {plan}", accepted.status)
        })?;
        return Ok(Exit::Done);
    }
    let over_http = matches!(source, Source::Api(_));
    let patience = Patience { show: args.watch, stop_at_approval: true, timeout: args.timeout };
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
