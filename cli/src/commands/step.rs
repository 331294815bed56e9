//! `step`: inspects and controls single steps.

use goalmill_common::id::{PlanId, StepId};
use goalmill_common::json_limits;
use goalmill_common::view::StepView;
use serde_json::{Map, Value, json};

use super::{approvals, checked_id, input, questions};
use crate::args::{StepCommand, StepRef};
use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit, Failed};
use crate::output::{Palette, Tone, step_tone, time_left, yaml};
use crate::prompt;

pub async fn run(context: &CommandContext, command: StepCommand) -> CommandResult {
    match command {
        StepCommand::Get { plan, step, whole: true } => {
            checked_id("step id", &step)?;
            let id = context.client.resolve(&plan).await?;
            show(context, &context.client.whole_step(&id, &step).await?)?;
        }
        StepCommand::Get { plan, step, whole: false } => {
            let id = context.client.resolve(&plan).await?;
            let view = context.client.plan(&id).await?;
            let found = view.steps.iter().find(|candidate| candidate.id.as_str() == step);
            let found = found.ok_or_else(|| unknown(&id, &step))?;
            show(context, found)?;
        }
        StepCommand::Retry(step) => steer(context, &step, "retry", None).await?,
        StepCommand::Skip(step) => steer(context, &step, "skip", None).await?,
        StepCommand::Complete { step, outputs } => {
            let text = if outputs == "-" { input::read_file("-")? } else { outputs };
            let outputs = json_limits::parse(&text)
                .map_err(|error| Failed::invalid(format!("the outputs are not JSON: {error}")))?;
            steer(context, &step, "complete", Some(outputs)).await?;
        }
        StepCommand::Approve(step) => return decide(context, &step, "approve").await,
        StepCommand::Reject(step) => return decide(context, &step, "reject").await,
        StepCommand::Answer(args) => return questions::answer_step(context, &args).await,
    }
    Ok(Exit::Done)
}

/// `step approve` and `step reject`: shows the step in a terminal and prompts for what is missing.
async fn decide(context: &CommandContext, what: &StepRef, verb: &str) -> CommandResult {
    let CommandContext { screen, client, clock, .. } = context;
    if !what.reason.is_empty() || !prompt::is_possible(screen) {
        steer(context, what, verb, None).await?;
        return Ok(Exit::Done);
    }
    let plan = client.resolve(&what.plan).await?;
    let view = client.plan(&plan).await?;
    let Some(at) = view.steps.iter().find(|at| at.id.as_str() == what.step) else {
        return Err(unknown(&plan, &what.step));
    };
    let due = at.due_at.as_deref().map(|due| format!(" · {}", time_left(due, clock))).unwrap_or_default();
    let name = screen.palette.tone(Tone::Bold, at.id.as_str());
    screen.line(format!("{name} {}{due}\n  {} {}", at.status.as_str().replace('_', " "), at.agent_type, at.action))?;
    if !at.reason.is_empty() {
        screen.line(format!("  {}", at.reason))?;
    }
    let document = client.graph(&plan).await?;
    let steps = document["steps"].as_array().into_iter().flatten();
    if let Some(spec) = steps.into_iter().find(|spec| spec["id"] == what.step.as_str()) {
        let shown: Map<String, Value> = ["description", "inputs"]
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), spec.get(*name).filter(|value| !value.is_null())?.clone())))
            .collect();
        screen.text(&yaml(&shown).lines().map(|line| format!("  {line}\n")).collect::<String>())?;
        screen.text(&approvals::decision_default_text(&spec["approve"], "the step runs", "the step fails"))?;
    }
    let mut verb = verb;
    if verb == "approve" {
        let said = prompt::line("approve? [y/N/reject] ")?.unwrap_or_default().to_lowercase();
        match said.as_str() {
            "y" | "yes" => {}
            "r" | "reject" => verb = "reject",
            _ => {
                let step = &what.step;
                screen
                    .note(format!("nothing is decided; to refuse it: goalmill step reject {plan} {step} --reason '…'"));
                return Ok(Exit::AwaitingApproval);
            }
        }
    }
    let target = StepRef { plan: plan.to_string(), step: what.step.clone(), reason: approvals::prompt_reason("")? };
    steer(context, &target, verb, None).await?;
    Ok(Exit::Done)
}

/// The error for an unknown step.
pub fn unknown(plan: &PlanId, step: &str) -> Failed {
    Failed::new(Exit::NotFound, format!("plan {plan} has no step `{step}`"))
        .help(format!("list its steps: goalmill plan get {plan}"))
}

pub async fn steer(context: &CommandContext, what: &StepRef, verb: &str, outputs: Option<Value>) -> Result<(), Failed> {
    checked_id("step id", &what.step)?;
    let plan = context.client.resolve(&what.plan).await?;
    let mut body = json!({ "reason": what.reason });
    if let Some(outputs) = outputs {
        body["outputs"] = outputs;
    }
    let step = StepId::from(what.step.as_str());
    let view = context.client.steer_step(&plan, &step, verb, body).await?;
    context.screen.show(&view, view.id.as_str(), |palette| head(&view, palette))
}

fn show(context: &CommandContext, step: &StepView) -> Result<(), Failed> {
    context.screen.show(step, step.id.as_str(), |palette| {
        let mut text = head(step, palette);
        text.push('\n');
        let Ok(Value::Object(fields)) = serde_json::to_value(step) else { return text };
        let is_shown = |name: &str| matches!(name, "id" | "status");
        let fields: Map<String, Value> = fields.into_iter().filter(|(name, _)| !is_shown(name)).collect();
        text.push_str(&yaml(&fields).lines().map(|line| format!("  {line}\n")).collect::<String>());
        text
    })
}

fn head(step: &StepView, palette: Palette) -> String {
    let tone = step_tone(step.status);
    format!(
        "{} {}  {}",
        palette.tone(tone, step.status.mark()),
        palette.tone(Tone::Bold, step.id.as_str()),
        palette.tone(tone, step.status.as_str())
    )
}
