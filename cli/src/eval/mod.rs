//! `eval`: plans of a file of goals, asked of each model, and how many are valid.
//!
//! The command is a client: `POST /v1/plans:preview` asks the planner `llm` of a scheduler with its catalogue and settings. The
//! goal names the only model, so that no other model corrects its plan.

mod answer;
mod expectation;
mod goals;
mod report;

use goalmill_client::ClientError;
use goalmill_common::problem::ErrorCode;
use goalmill_common::view::Preview;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::args::EvalArgs;
use crate::commands::preview;
use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit, Failed};

use answer::EvaluatedAnswer;
use goals::EvaluationGoal;
use report::EvaluationReport;

/// Asks every model for a plan of every goal, and prints what came of it.
pub async fn run(context: &CommandContext, args: &EvalArgs) -> CommandResult {
    let goals = goals::read_goals(&args.file)?;
    let models = chosen_models(context, &args.models).await?;
    let mut answers = Vec::new();
    let ended = ask_all(context, args, &goals, &models, &mut answers).await;
    let is_interrupted = matches!(ended, Ok(Exit::Interrupted));
    let report = EvaluationReport::new(&models, goals.len(), args.repeat, is_interrupted, answers);
    if ended.is_ok() || !report.answers.is_empty() {
        report.show(&context.screen, args.details)?;
    }
    if ended? == Exit::Interrupted {
        return Ok(Exit::Interrupted);
    }
    Ok(report.exit(&context.screen, args.min_valid, args.min_first))
}

/// The models of the flag, or all models of the server.
async fn chosen_models(context: &CommandContext, wanted: &[String]) -> Result<Vec<String>, Failed> {
    let known: Vec<String> = context.client.models().await?.items.into_iter().map(|model| model.model).collect();
    let names: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    if known.is_empty() {
        return Err(
            Failed::new(Exit::NotFound, "the server has no models").help("add one under `models` in its settings")
        );
    }
    if let Some(unknown) = wanted.iter().find(|name| !known.contains(name)) {
        return Err(Failed::new(Exit::NotFound, format!("no model `{unknown}` is in the settings of the server"))
            .help(format!("known: {}", names.join(", "))));
    }
    Ok(if wanted.is_empty() { known } else { wanted.to_vec() })
}

/// Asks one question after the other, until Ctrl-C.
async fn ask_all(
    context: &CommandContext,
    args: &EvalArgs,
    goals: &[EvaluationGoal],
    models: &[String],
    answers: &mut Vec<EvaluatedAnswer>,
) -> CommandResult {
    // Listens all the time: a signal between two questions counts too.
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    for model in models {
        let (mut asked, mut valid) = (0, 0);
        let all = goals.len() * to_count(args.repeat);
        for repeat in 1..=args.repeat {
            for (goal, number) in goals.iter().zip(1..) {
                asked += 1;
                let progress = format!("model `{model}` · plan {asked} of {all} · {valid} valid");
                let answer = tokio::select! {
                    answer = ask(context, &progress, goal, model) => answer,
                    heard = &mut interrupted => {
                        heard?;
                        return Ok(Exit::Interrupted);
                    }
                };
                let answer = answer.map_err(|failed| goals::at(failed, &args.file, number))?;
                let answer = EvaluatedAnswer { goal: number, repeat, ..answer };
                valid += usize::from(answer.is_valid());
                answers.push(answer);
            }
        }
    }
    Ok(Exit::Done)
}

fn to_count(repeat: u32) -> usize {
    goalmill_common::number::to_usize(u64::from(repeat))
}

/// The plan of a goal, or what was wrong with the answers. Fails if the server did not ask the model.
async fn ask(
    context: &CommandContext,
    progress: &str,
    goal: &EvaluationGoal,
    model: &str,
) -> Result<EvaluatedAnswer, Failed> {
    let begun = Instant::now();
    let previewed = preview::ask(context, progress, &pinned(&goal.document, model)).await;
    let (plan, trace, problem) = match previewed {
        Ok(Preview { plan, planning_trace, .. }) => (plan, planning_trace, None),
        Err(ClientError::Problem(problem)) if problem.code == ErrorCode::PlanningFailed => {
            let trace = problem.planning_trace.clone();
            (None, trace, Some(*problem))
        }
        Err(error) => return Err(error.into()),
    };
    let seconds = begun.elapsed().as_secs_f64();
    let unmet = plan.as_ref().map(|plan| goal.expect.unmet(plan)).unwrap_or_default();
    Ok(EvaluatedAnswer {
        model: model.to_owned(),
        text: goal.text.clone(),
        seconds,
        unmet,
        has_expectations: !goal.expect.is_empty(),
        ..EvaluatedAnswer::new(plan.as_ref(), trace, problem)
    })
}

/// The goal, planned by this model only.
fn pinned(goal: &Value, model: &str) -> Value {
    let mut goal = goal.clone();
    if !goal["planning"].is_object() {
        goal["planning"] = json!({});
    }
    for (name, value) in
        [("planner", json!("llm")), ("planner_only", json!(true)), ("model", json!(model)), ("model_only", json!(true))]
    {
        goal["planning"][name] = value;
    }
    goal
}
