//! `plan`: inspects and controls plans.

use goalmill_client::PlanQuery;
use goalmill_common::clock::{Clock, parse_rfc3339};
use goalmill_common::goal::INPUTS;
use goalmill_common::layout::CleanupPart;
use goalmill_common::number::milliseconds;
use goalmill_common::status::PlanStatus;
use goalmill_common::stored_plan::STORED_PLAN;
use goalmill_common::view::{Page, PlanSummary, PlanView, StepView};
use goalmill_plan::document;
use serde_json::{Map, Value, json};

use super::results::{show_results, show_status};
use super::{approvals, bulk, cell, diff, fork, graph, preview, questions, revisions, stored_plans};
use crate::args::{Format, PlanCommand, PlanningArgs, Reasoned, ReplanArgs, TimeFormat};
use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit, Failed};
use crate::output::{Screen, Table, Tone, cleanup_words, plan_tone, seconds, step_tone, time, yaml};
use crate::watch::{Patience, Source, constraint_view_line, left_alone, note, verdict_line, wait};

pub async fn run(context: &CommandContext, command: PlanCommand) -> CommandResult {
    let CommandContext { screen, client, clock, .. } = context;
    match command {
        PlanCommand::List { stored: Some(name), .. } => stored_plans::list(context, &name).await?,
        PlanCommand::List { stored: None, status, search, conditions, since, limit, cursor } => {
            let conditions = conditions.unwrap_or_default();
            let query = PlanQuery { limit: limit.into(), cursor, status, search, conditions };
            let mut page = client.plans(&query).await?;
            if let Some(since) = since {
                keep_since(&mut page, clock.now_ms().saturating_sub(milliseconds(since)));
            }
            screen.list(&page, &page.items, |plan| plan.plan_id.to_string(), |_| list(&page, clock, screen))?;
        }
        PlanCommand::Wait { plan, timeout } => {
            let plan = client.resolve(&plan).await?;
            let patience = Patience { show: false, stop_at_approval: true, timeout, ..Default::default() };
            let waited = wait(screen, Source::Api(client.clone()), &plan, patience).await?;
            return Ok(left_alone(screen, &plan, &waited));
        }
        PlanCommand::Get { plan, stored: true } => stored_plans::get(context, &plan).await?,
        PlanCommand::Put { file, name } => stored_plans::put(context, &file, name).await?,
        PlanCommand::Retire { plan, reason } => stored_plans::retire(context, &plan, &reason).await?,
        PlanCommand::Get { plan, stored: false } => {
            let view = client.plan(&client.resolve(&plan).await?).await?;
            screen.show(&view, view.summary.plan_id.as_str(), |_| view_text(&view, clock, screen))?;
        }
        PlanCommand::Show { plan, form } => graph::show(context, &plan, form).await?,
        PlanCommand::Validate { file, input } => return super::validate::run(context, &file, &input).await,
        PlanCommand::Preview { goal, planning } => return preview_goal(context, &goal, &planning).await,
        PlanCommand::Approve(args) => return approvals::approve(context, &args).await,
        PlanCommand::Edit(args) => return approvals::edit(context, &args).await,
        PlanCommand::Revisions { plan } => return revisions::run(context, &plan).await,
        PlanCommand::Questions { plan, list } => return questions::run(context, &plan, list).await,
        PlanCommand::Answer(args) => return questions::answer(context, &args).await,
        PlanCommand::Diff(args) => return diff::run(context, &args).await,
        PlanCommand::Fork(args) => return fork::run(context, &args).await,
        PlanCommand::Reject(what) => return approvals::reject(context, &what).await,
        PlanCommand::Pause(what) => steer(context, &what, "pause").await?,
        PlanCommand::Resume(what) => steer(context, &what, "resume").await?,
        PlanCommand::Cancel(what) => steer(context, &what, "cancel").await?,
        PlanCommand::Replan(args) => replan(context, &args).await?,
        PlanCommand::Bulk(args) => return bulk::run(context, &args).await,
        PlanCommand::Results { plan, whole } => {
            let plan = client.resolve(&plan).await?;
            let results = if whole { client.whole_results(&plan).await? } else { client.results(&plan).await? };
            show_results(screen, &results)?;
        }
        PlanCommand::Export { plan } => return export(context, &plan).await,
    }
    Ok(Exit::Done)
}

async fn preview_goal(context: &CommandContext, goal: &str, planning: &PlanningArgs) -> CommandResult {
    let mut parameters = Map::new();
    planning.set(&mut parameters);
    let goal = json!({ "description": goal, "planning": parameters });
    let preview = preview::ask(context, "planning", &goal).await?;
    preview::show(&context.screen, &preview)?;
    Ok(if preview.valid { Exit::Done } else { Exit::InvalidInput })
}

async fn replan(context: &CommandContext, args: &ReplanArgs) -> Result<(), Failed> {
    let CommandContext { screen, client, .. } = context;
    let ReplanArgs { what, hint, model, temperature, strategy } = args;
    let plan = client.resolve(&what.plan).await?;
    let options = json!({ "model": model, "temperature": temperature, "strategy": strategy });
    let given = options.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    let mut body = json!({ "reason": what.reason, "hint": hint });
    given.for_each(|(name, value)| body[name.as_str()] = value.clone());
    show_status(screen, &client.steer_plan(&plan, "replan", body).await?)
}

/// Prints a plan as a document for `goalmill run`.
async fn export(context: &CommandContext, plan: &str) -> CommandResult {
    let CommandContext { screen, client, .. } = context;
    let id = client.resolve(plan).await?;
    let mut plan = client.graph(&id).await?;
    if let Some(Value::Object(inputs)) = client.plan(&id).await?.goal.metadata.get(INPUTS) {
        document::add_inputs(&mut plan, inputs.clone());
    }
    match screen.format {
        Format::Table | Format::Wide | Format::Name => screen.text(&yaml(&plan))?,
        Format::Json | Format::Jsonl | Format::Yaml | Format::None => screen.show(&plan, "", |_| String::new())?,
    }
    Ok(Exit::Done)
}

async fn steer(context: &CommandContext, what: &Reasoned, verb: &str) -> Result<(), Failed> {
    let CommandContext { screen, client, .. } = context;
    let plan = client.resolve(&what.plan).await?;
    show_status(screen, &client.steer_plan(&plan, verb, json!({ "reason": what.reason })).await?)
}

/// Drops plans that changed before `since_ms`; the list is sorted by last change, newest first.
fn keep_since(page: &mut Page<PlanSummary>, since_ms: u64) {
    let before = page.items.len();
    page.items.retain(|plan| parse_rfc3339(&plan.updated_at).is_none_or(|ms| ms >= since_ms));
    if page.items.len() < before {
        page.next = None;
    }
}

/// The usual columns, with further ones before the name for `wide`.
const HEAD: [&str; 5] = ["PLAN", "STATUS", "DONE", "FAILED", "REVISION"];
const HEAD_WIDE: [&str; 5] = ["UPDATED", "FINISHED", "EVENTS", "TOKENS", "USD"];

fn list(page: &Page<PlanSummary>, clock: &Clock, screen: &Screen) -> String {
    let palette = screen.palette;
    let form = screen.times(TimeFormat::Relative);
    let created = if form == TimeFormat::Relative { "AGE" } else { "CREATED" };
    let mut head = [&HEAD[..], &[created]].concat();
    if screen.is_wide() {
        head.extend(HEAD_WIDE);
    }
    let right: Vec<usize> = (2..head.len()).collect();
    head.push("NAME");
    let mut table = Table::new(&head).right(&right);
    for plan in &page.items {
        let counts = plan.counts;
        let mut row = vec![
            plan.plan_id.to_string(),
            palette.tone(plan_tone(plan.status), plan.status.as_str()),
            format!("{}/{}", done(plan), counts.total),
            counts.failed.to_string(),
            plan.revision.to_string(),
            time(&plan.created_at, form, clock),
        ];
        if screen.is_wide() {
            row.extend([
                time(&plan.updated_at, form, clock),
                plan.finished_at.as_deref().map(|at| time(at, form, clock)).unwrap_or_default(),
                plan.seq.to_string(),
                plan.usage.tokens.to_string(),
                format!("{:.2}", plan.usage.cost),
            ]);
        }
        row.push(cell(screen, &plan.name));
        table.row(row);
    }
    let mut text = table.render(palette, "no plans; submit one: goalmill submit 'YOUR GOAL' --watch");
    if let Some(next) = &page.next {
        text.push_str(&format!("more: goalmill plan list --cursor {next}\n"));
    }
    text
}

/// Finished steps, without those cancelled by the plan's end.
fn done(plan: &PlanSummary) -> u32 {
    match plan.status {
        PlanStatus::Failed | PlanStatus::Cancelled | PlanStatus::Rejected => plan.counts.completed,
        PlanStatus::Planning
        | PlanStatus::AwaitingApproval
        | PlanStatus::Running
        | PlanStatus::Replanning
        | PlanStatus::Paused
        | PlanStatus::Completed
        | PlanStatus::Partial => plan.counts.completed + plan.counts.skipped,
    }
}

fn view_text(view: &PlanView, clock: &Clock, screen: &Screen) -> String {
    let palette = screen.palette;
    let short = |text: &str| cell(screen, text);
    let plan = &view.summary;
    let counts = plan.counts;
    let status = palette.tone(plan_tone(plan.status), plan.status.as_str());
    let mut text = format!("{}  {status}\n", palette.tone(Tone::Bold, plan.plan_id.as_str()));
    let mut fact = |name: &str, value: String| {
        if !value.is_empty() {
            text.push_str(&format!("  {name:<9} {value}\n"));
        }
    };
    fact("goal", short(&view.goal.description));
    if plan.name != view.goal.description {
        fact("name", short(&plan.name));
    }
    fact(
        "steps",
        format!(
            "{} of {} completed · {} in progress · {} pending · {} failed · {} skipped",
            counts.completed, counts.total, counts.in_progress, counts.pending, counts.failed, counts.skipped
        ),
    );
    fact("planner", format!("{} · confidence {:.2} · revision {}", view.planner, view.confidence, plan.revision));
    fact("", short(&view.planner_note));
    fact("used", format!("{:.2} USD · {} tokens", plan.usage.cost, plan.usage.tokens));
    if let Some(calls) = view.model_calls.filter(|calls| calls.open + calls.lost > 0) {
        let (open, lost, tokens) = (calls.open, calls.lost, calls.unsettled.tokens);
        fact("not settled", format!("{open} calls of models under way, {lost} lost · {tokens} tokens more at most"));
    }
    let form = screen.times(TimeFormat::Iso);
    let ago = format!("{} ago", time(&plan.created_at, TimeFormat::Relative, clock));
    fact(
        "created",
        match form {
            TimeFormat::Relative => ago,
            TimeFormat::Iso | TimeFormat::Raw => format!("{} ({ago})", time(&plan.created_at, form, clock)),
        },
    );
    fact("finished", plan.finished_at.as_deref().map(|at| time(at, form, clock)).unwrap_or_default());
    fact("why", view.failure.as_ref().map_or(short(&view.reason), |f| format!("{} [{}]", short(&f.message), f.code)));
    fact("parent", view.summary.parent.as_ref().map(ToString::to_string).unwrap_or_default());
    fact("forked", view.forked_from.as_ref().map(ToString::to_string).unwrap_or_default());
    fact("from", view.goal.metadata.get(STORED_PLAN).and_then(Value::as_str).map(short).unwrap_or_default());
    questions::open_requests(view, clock)
        .iter()
        .for_each(|line| text.push_str(&format!("  {line}\n").replace("\n  goalmill", "\n    goalmill")));
    for line in view.goal_read_lines() {
        text.push_str(&palette.tone(Tone::Dim, format!("  read in the text of the goal: {}\n", short(&line))));
    }
    for view in &view.constraints {
        text.push_str(&format!("{}\n", constraint_view_line(view, palette)));
    }
    for verdict in &view.criteria {
        text.push_str(&format!("{}\n", verdict_line(verdict, palette)));
    }
    text.push('\n');
    text.push_str(&step_table(view, clock, screen));
    text
}

/// The steps of a plan, one per row.
fn step_table(view: &PlanView, clock: &Clock, screen: &Screen) -> String {
    let palette = screen.palette;
    let short = |text: &str| cell(screen, text);
    let form = screen.times(TimeFormat::Iso);
    let mut head = vec!["", "STEP", "AGENT", "STATUS", "ATTEMPT"];
    if screen.is_wide() {
        head.extend(["ACTION", "WORKER", "STARTED", "TOOK"]);
    }
    head.push("WHAT");
    let mut table = Table::new(&head).right(&[4]);
    // The clean-up stands at the end, its parts in their order.
    let mut steps: Vec<&StepView> = view.steps.iter().collect();
    steps.sort_by_key(|step| CleanupPart::of_marks(step.undoes.as_ref(), step.always));
    for step in steps {
        let said = match (&step.failure, &step.outputs) {
            (Some(failure), _) if !step.status.is_final() || step.outputs.is_none() => short(&failure.message),
            (None, None) if let Some(sub_plan) = &step.sub_plan => format!("plan {sub_plan}"),
            (_, Some(outputs)) => {
                let (money, words) = note(outputs);
                [money, words].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("  ")
            }
            _ if !step.reason.is_empty() => short(&step.reason),
            _ => short(&step.description),
        };
        let mut row = vec![
            format!("  {}", palette.tone(step_tone(step.status), step.status.mark())),
            step.id.to_string(),
            step.agent_type.to_string(),
            palette.tone(step_tone(step.status), step.status.as_str()),
            step.attempt.to_string(),
        ];
        if screen.is_wide() {
            row.extend([
                step.action.clone(),
                step.worker.as_ref().map(ToString::to_string).unwrap_or_default(),
                step.started_at.as_deref().map(|at| time(at, form, clock)).unwrap_or_default(),
                took(step).unwrap_or_default(),
            ]);
        }
        let part = cleanup_words(step.undoes.as_ref(), step.always);
        row.push(part.into_iter().chain(Some(said)).filter(|words| !words.is_empty()).collect::<Vec<_>>().join(" · "));
        table.row(row);
    }
    table.render(palette, "  no steps yet")
}

/// Duration of the step's last attempt.
fn took(step: &StepView) -> Option<String> {
    let began = parse_rfc3339(step.started_at.as_deref()?)?;
    Some(seconds(parse_rfc3339(step.finished_at.as_deref()?)?.saturating_sub(began)))
}
