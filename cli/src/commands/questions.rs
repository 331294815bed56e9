//! Questions of a plan or step: lists, asks and answers them.

use goalmill_common::clock::Clock;
use goalmill_common::id::{PlanId, StepId};
use goalmill_common::status::StepStatus;
use goalmill_common::view::{Page, PlanView, QuestionView, StepView};
use serde_json::json;

use super::checked_id;
use super::results::show_status;
use crate::args::{PlanAnswerArgs, StepAnswerArgs};
use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit, Failed};
use crate::output::{Palette, Table, time_left};
use crate::prompt;
use crate::watch::short;

/// `plan questions`: lists the questions, or asks them in a terminal.
pub async fn run(context: &CommandContext, plan: &str, list: bool) -> CommandResult {
    let CommandContext { screen, client, clock, .. } = context;
    let plan = client.resolve(plan).await?;
    let page = client.questions(&plan).await?;
    if list || page.items.is_empty() || !prompt::is_possible(screen) {
        screen.list(
            &page,
            &page.items,
            |asked| asked.id.clone(),
            |palette| questions_text(&page, &plan, clock, palette),
        )?;
        return Ok(Exit::Done);
    }
    let mut open = false;
    for asked in &page.items {
        open |= !prompt_answer(context, &plan, asked, "").await?;
    }
    Ok(if open { Exit::AwaitingApproval } else { Exit::Done })
}

fn questions_text(page: &Page<QuestionView>, plan: &PlanId, clock: &Clock, palette: Palette) -> String {
    let mut table = Table::new(&["QUESTION", "ASKS", "DEFAULT", "LEFT"]);
    for asked in &page.items {
        let default = asked.default.as_ref().map(|value| short(value.text())).unwrap_or_default();
        table.row([asked.id.clone(), short(&asked.question), default, time_left(&asked.due_at, clock)]);
    }
    let mut text = table.render(palette, "nothing is asked");
    if !page.items.is_empty() {
        text.push_str(&format!("answer: goalmill plan answer {plan} QUESTION ANSWER\n"));
    }
    text
}

/// Prompts until the answer is accepted; `false` when there is none.
async fn prompt_answer(
    context: &CommandContext,
    plan: &PlanId,
    asked: &QuestionView,
    reason: &str,
) -> Result<bool, Failed> {
    let CommandContext { screen, client, clock, .. } = context;
    loop {
        let Some(answer) = prompt::answer(asked, &time_left(&asked.due_at, clock))? else {
            screen.note(format!("`{}` is not answered", asked.id));
            return Ok(false);
        };
        match client.answer(plan, &asked.id, json!({ "answer": answer, "reason": reason })).await.map_err(Failed::from)
        {
            Ok(summary) => {
                show_status(screen, &summary)?;
                return Ok(true);
            }
            Err(failed) if failed.exit == Exit::InvalidInput => screen.note(format!("error: {failed}")),
            Err(failed) => return Err(failed),
        }
    }
}

/// `plan answer`.
pub async fn answer(context: &CommandContext, args: &PlanAnswerArgs) -> CommandResult {
    let plan = context.client.resolve(&args.plan).await?;
    submit_answer(context, &plan, &args.question, args.answer.as_deref(), &args.reason).await
}

/// `step answer`.
pub async fn answer_step(context: &CommandContext, args: &StepAnswerArgs) -> CommandResult {
    checked_id("step id", &args.step.step)?;
    let plan = context.client.resolve(&args.step.plan).await?;
    submit_answer(
        context,
        &plan,
        StepId::from(args.step.step.as_str()).as_str(),
        args.answer.as_deref(),
        &args.step.reason,
    )
    .await
}

async fn submit_answer(
    context: &CommandContext,
    plan: &PlanId,
    question: &str,
    said: Option<&str>,
    reason: &str,
) -> CommandResult {
    let page = context.client.questions(plan).await?;
    let Some(asked) = page.items.into_iter().find(|asked| asked.id == question) else {
        return Err(Failed::new(Exit::NotFound, format!("plan {plan} does not ask `{question}`"))
            .help(format!("list what it asks: goalmill plan questions {plan}")));
    };
    let Some(said) = said else {
        if !prompt::is_possible(&context.screen) {
            return Err(Failed::new(Exit::Usage, "there is no answer")
                .help(format!("give one: goalmill plan answer {plan} {question} ANSWER")));
        }
        let taken = prompt_answer(context, plan, &asked, reason).await?;
        return Ok(if taken { Exit::Done } else { Exit::AwaitingApproval });
    };
    let schema = asked.schema.as_ref().map(goalmill_common::json::Json::value).unwrap_or_default();
    let answer = prompt::typed(&schema, said).map_err(|why| Failed::invalid(format!("{}: {why}", asked.question)))?;
    let summary = context.client.answer(plan, question, json!({ "answer": answer, "reason": reason })).await?;
    show_status(&context.screen, &summary)?;
    Ok(Exit::Done)
}

/// Open approvals and questions of a plan, each with the command that answers it.
pub fn open_requests(view: &PlanView, clock: &Clock) -> Vec<String> {
    let plan = &view.summary.plan_id;
    let mut lines = Vec::new();
    let mut say =
        |what: String, due: &str, type_: String| lines.push(format!("{what} · {}\n  {type_}", time_left(due, clock)));
    if let Some(proposal) = &view.proposal {
        let what = format!("revision {} waits for approval: {}", proposal.revision, short(&proposal.summary));
        say(what, &proposal.due_at, format!("goalmill plan approve {plan} | goalmill plan reject {plan} --reason '…'"));
    }
    let steps = view.steps.iter().filter_map(|step| step.question.as_ref());
    for asked in view.question.iter().chain(steps) {
        let what = format!("`{}` asks: {}", asked.id, short(&asked.question));
        say(what, &asked.due_at, format!("goalmill plan answer {plan} {} ANSWER", asked.id));
    }
    let unasked = |step: &&StepView| step.status == StepStatus::AwaitingApproval && step.question.is_none();
    for step in view.steps.iter().filter(unasked) {
        let due = step.due_at.as_deref().unwrap_or_default();
        let id = &step.id;
        say(format!("`{id}` waits for approval"), due, format!("goalmill step approve {plan} {id}"));
    }
    lines
}
