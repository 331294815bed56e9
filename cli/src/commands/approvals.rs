//! Human review: approves, rejects and edits plans, revisions and steps; prompts in a terminal.

use goalmill_common::clock::Clock;
use goalmill_common::id::PlanId;
use goalmill_common::status::PlanStatus;
use goalmill_common::view::PlanView;
use serde_json::{Map, Value, json};

use super::questions::open_requests;
use super::results::show_status;
use super::{edit_request, graph, input, submit};
use crate::args::{ApproveArgs, EditArgs, Reasoned};
use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit, Failed};
use crate::output::{Palette, Tone, span, time_left, yaml};
use crate::prompt;
use crate::watch::short;

/// `plan approve`.
pub async fn approve(context: &CommandContext, args: &ApproveArgs) -> CommandResult {
    let plan = context.client.resolve(&args.what.plan).await?;
    let decided = args.yes || !args.what.reason.is_empty() || !args.changes.is_empty();
    if !decided && prompt::is_possible(&context.screen) {
        return ask_approval(context, &plan).await;
    }
    let mut body = Map::new();
    if !args.changes.is_empty() {
        body = edit_request::body(context, &plan, &args.changes).await?;
    }
    body.insert("reason".into(), args.what.reason.as_str().into());
    steer(context, &plan, "approve", body.into()).await
}

/// Shows the pending approval and prompts for a decision.
async fn ask_approval(context: &CommandContext, plan: &PlanId) -> CommandResult {
    let CommandContext { screen, client, clock, .. } = context;
    loop {
        let view = client.plan(plan).await?;
        if !awaits_approval(&view) {
            screen.note(format!("plan {plan} is {}: it waits for no approval of the plan", view.summary.status));
            open_requests(&view, clock).iter().for_each(|line| screen.note(line));
            return Ok(Exit::Other);
        }
        let document = client.graph(plan).await?;
        screen.text(&pending_text(&view, &document, clock, screen.palette))?;
        screen.text(&default_decision(&view, &document))?;
        let said = prompt::line("approve? [y/N/edit/reject] ")?.unwrap_or_default().to_lowercase();
        match said.as_str() {
            "y" | "yes" => return steer(context, plan, "approve", json!({ "reason": prompt_reason("")? })).await,
            "e" | "edit" => {
                let reason = String::new();
                if edit_in_editor(context, plan, &reason).await? == Exit::Done && view.proposal.is_some() {
                    return Ok(Exit::Done);
                }
            }
            "r" | "reject" => return steer(context, plan, "reject", json!({ "reason": prompt_reason("")? })).await,
            _ => {
                screen.note(format!("nothing is decided; to refuse it: goalmill plan reject {plan} --reason '…'"));
                return Ok(Exit::AwaitingApproval);
            }
        }
    }
}

/// The reason; prompts when it is empty.
pub fn prompt_reason(reason: &str) -> Result<String, Failed> {
    match reason {
        "" => Ok(prompt::line("why? (for the log, may be empty) ")?.unwrap_or_default()),
        reason => Ok(reason.to_owned()),
    }
}

/// `plan reject`: prompts for the reason in a terminal.
pub async fn reject(context: &CommandContext, what: &Reasoned) -> CommandResult {
    let plan = context.client.resolve(&what.plan).await?;
    let is_asked = what.reason.is_empty() && prompt::is_possible(&context.screen);
    let reason = if is_asked { prompt_reason("")? } else { what.reason.clone() };
    steer(context, &plan, "reject", json!({ "reason": reason })).await
}

/// The default decision about a plan or its revision.
fn default_decision(view: &PlanView, document: &Value) -> String {
    match &view.proposal {
        Some(_) => decision_default_text(&document["revision"]["approve"], "the revision is taken", "it is refused"),
        None if view.summary.status == PlanStatus::AwaitingApproval => {
            decision_default_text(&document["approve"], "the plan runs", "the plan is rejected")
        }
        None => String::new(),
    }
}

pub fn decision_default_text(approve: &Value, runs: &str, ends: &str) -> String {
    let Some(limit_ms) = approve["limit_ms"].as_u64() else { return String::new() };
    let then = if approve["default"] == "approve" { runs } else { ends };
    format!("  without a decision within {}: {then}\n", span(limit_ms))
}

/// Whether the plan or a revision of it awaits approval.
fn awaits_approval(view: &PlanView) -> bool {
    view.summary.status == PlanStatus::AwaitingApproval
        || view.proposal.is_some()
        || (view.summary.status == PlanStatus::Replanning && view.question.is_none())
}

/// The plan or revision that awaits approval.
///
/// - `document`: the plan.
fn pending_text(view: &PlanView, document: &Value, clock: &Clock, palette: Palette) -> String {
    let head = palette.tone(Tone::Bold, view.summary.plan_id.as_str());
    let Some(proposal) = &view.proposal else {
        let nodes = graph::Node::of_plan(view, document);
        let name = short(&view.summary.name);
        let status = view.summary.status.as_str().replace('_', " ");
        let sure = format!("{} · confidence {:.2}", view.planner, view.confidence);
        let mut text = format!("{head} {status} · {name} · {sure}\n{}", graph::tree(&nodes, palette));
        for line in view.goal_read_lines() {
            text.push_str(&format!("  read in the text of the goal: {}\n", short(&line)));
        }
        if !view.planner_note.is_empty() {
            text.push_str(&format!("  {} {}\n", palette.tone(Tone::Wait, "!"), short(&view.planner_note)));
        }
        if view.summary.status == PlanStatus::Replanning {
            for (step, failure) in view.steps.iter().filter_map(|step| Some((step, step.failure.as_ref()?))) {
                text.push_str(&format!(
                    "  {} {}: {}\n",
                    palette.tone(Tone::Bad, "✗"),
                    step.id,
                    short(&failure.message)
                ));
            }
            let plan = &view.summary.plan_id;
            text.push_str(&format!(
                "  yes goes on without it, reject ends the plan; another way: goalmill plan replan {plan}\n"
            ));
        }
        return text;
    };
    let mut text = format!(
        "{head} revision {} ({}) waits for approval · {}\n  {}\n",
        proposal.revision,
        proposal.strategy,
        time_left(&proposal.due_at, clock),
        short(&proposal.summary),
    );
    proposal.changes.iter().for_each(|line| text.push_str(&format!("  {}\n", short(line))));
    for issue in &proposal.widens {
        text.push_str(&format!("  {} {}\n", palette.tone(Tone::Wait, "! it widens the plan:"), short(&issue.detail)));
    }
    text.push_str(&format!("  confidence {:.2} → {:.2}\n", proposal.confidence_before, proposal.confidence_after));
    text
}

/// `plan edit`.
pub async fn edit(context: &CommandContext, args: &EditArgs) -> CommandResult {
    let plan = context.client.resolve(&args.what.plan).await?;
    if !args.changes.is_empty() {
        let mut body = edit_request::body(context, &plan, &args.changes).await?;
        body.insert("reason".into(), args.what.reason.as_str().into());
        if let Some(revision) = args.revision {
            body.insert("revision".into(), revision.into());
        }
        let edited = steer(context, &plan, "edit", body.into()).await;
        return match &args.changes.file {
            Some(file) if file != "-" => {
                let text = input::read_file(file)?;
                edited.map_err(|failed| submit::at_file(failed, file, &text))
            }
            Some(_) | None => edited,
        };
    }
    if prompt::is_possible(&context.screen) {
        return edit_in_editor(context, &plan, &args.what.reason).await;
    }
    Err(Failed::new(Exit::Usage, "there is nothing to change")
        .help("say what: `--set STEP.FIELD=VALUE`, `--order`, `--depends`, `--skip`, `--remove`, or `--file FILE`"))
}

/// Opens the plan in an editor, again after each refusal if wanted.
async fn edit_in_editor(context: &CommandContext, plan: &PlanId, reason: &str) -> CommandResult {
    let CommandContext { screen, client, .. } = context;
    let revision = client.plan(plan).await?.summary.revision;
    let mut text = yaml(&client.graph(plan).await?);
    loop {
        let Some(after) = prompt::edited(&text)? else {
            screen.note("nothing was changed");
            return Ok(Exit::Other);
        };
        let asked = match input::parse("the edited plan", &after) {
            Ok(document) => {
                let reason = prompt_reason(reason)?;
                let body = json!({ "plan": document, "revision": revision, "reason": reason });
                client.steer_plan(plan, "edit", body).await.map_err(Failed::from)
            }
            Err(failed) => Err(failed),
        };
        match asked {
            Ok(summary) => {
                show_status(screen, &summary)?;
                return Ok(Exit::Done);
            }
            Err(failed) if failed.exit == Exit::InvalidInput => {
                screen.note(format!("error: {}", submit::at_file(failed, "the edited plan", &after)));
                if !prompt::yes("edit again?", true)? {
                    return Ok(Exit::InvalidInput);
                }
                text = after;
            }
            Err(failed) => return Err(failed),
        }
    }
}

async fn steer(context: &CommandContext, plan: &PlanId, verb: &str, body: Value) -> CommandResult {
    let summary = context.client.steer_plan(plan, verb, body).await?;
    show_status(&context.screen, &summary)?;
    Ok(Exit::Done)
}
