//! What people decide: approve, edit, answer, fork; in a terminal by being asked.

use goalmill_client::Client;
use goalmill_common::clock::{Clock, parse_rfc3339};
use goalmill_common::id::{PlanId, StepId};
use goalmill_common::random::Random;
use goalmill_common::revision::RevisionRecord;
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_common::view::{Page, PlanView, QuestionView, StepView};
use serde_json::{Map, Value, json};

use super::plan::shown;
use super::{Context, change, checked_id, graph, input, step, submit};
use crate::args::{ApproveArgs, EditArgs, ForkArgs, PlanAnswerArgs, Reasoned, StepAnswerArgs, StepRef};
use crate::exit::{Exit, Failed, Outcome};
use crate::output::{Paint, Table, Tone, span, yaml};
use crate::prompt;
use crate::watch::{Source, short};

/// `plan approve`.
pub async fn approve(context: &Context, args: &ApproveArgs) -> Outcome {
    let plan = context.client.resolve(&args.what.plan).await?;
    let decided = args.yes || !args.what.reason.is_empty() || !args.changes.is_empty();
    if !decided && prompt::is_possible(&context.screen) {
        return ask_approval(context, &plan).await;
    }
    let mut body = Map::new();
    if !args.changes.is_empty() {
        body = change::body(context, &plan, &args.changes).await?;
    }
    body.insert("reason".into(), args.what.reason.as_str().into());
    steer(context, &plan, "approve", body.into()).await
}

/// Shows what waits and asks until it is decided, or left alone.
async fn ask_approval(context: &Context, plan: &PlanId) -> Outcome {
    let Context { screen, client, clock, .. } = context;
    loop {
        let view = client.plan(plan).await?;
        if !is_waiting(&view) {
            screen.note(format!("plan {plan} is {}: it waits for no approval of the plan", view.summary.status));
            waiting_lines(&view, clock).iter().for_each(|line| screen.note(line));
            return Ok(Exit::Other);
        }
        screen.text(&waiting(&view, clock, screen.paint))?;
        screen.text(&silence(&view, &client.graph(plan).await?))?;
        let said = prompt::line("approve? [y/N/edit/reject] ")?.unwrap_or_default().to_lowercase();
        match said.as_str() {
            "y" | "yes" => return steer(context, plan, "approve", json!({ "reason": why("")? })).await,
            "e" | "edit" => {
                let reason = String::new();
                if edit_in_editor(context, plan, &reason).await? == Exit::Done && view.proposal.is_some() {
                    return Ok(Exit::Done);
                }
            }
            "r" | "reject" => return steer(context, plan, "reject", json!({ "reason": why("")? })).await,
            _ => {
                screen.note(format!("nothing is decided; to refuse it: goalmill plan reject {plan} --reason '…'"));
                return Ok(Exit::AwaitingApproval);
            }
        }
    }
}

/// The reason, asked for when there is none.
fn why(reason: &str) -> Result<String, Failed> {
    match reason {
        "" => Ok(prompt::line("why? (for the log, may be empty) ")?.unwrap_or_default()),
        reason => Ok(reason.to_owned()),
    }
}

/// `plan reject`: asks why in a terminal.
pub async fn reject(context: &Context, what: &Reasoned) -> Outcome {
    let plan = context.client.resolve(&what.plan).await?;
    let is_asked = what.reason.is_empty() && prompt::is_possible(&context.screen);
    let reason = if is_asked { why("")? } else { what.reason.clone() };
    steer(context, &plan, "reject", json!({ "reason": reason })).await
}

/// `step approve` and `step reject`: shows the step in a terminal, and asks what was not said.
pub async fn decide_step(context: &Context, what: &StepRef, verb: &str) -> Outcome {
    let Context { screen, client, clock, .. } = context;
    if !what.reason.is_empty() || !prompt::is_possible(screen) {
        step::steer(context, what, verb, None).await?;
        return Ok(Exit::Done);
    }
    let plan = client.resolve(&what.plan).await?;
    let view = client.plan(&plan).await?;
    let Some(at) = view.steps.iter().find(|at| at.id.as_str() == what.step) else {
        return Err(step::unknown(&plan, &what.step));
    };
    let due = at.due_at.as_deref().map(|due| format!(" · {}", left(due, clock))).unwrap_or_default();
    let name = screen.paint.tone(Tone::Bold, at.id.as_str());
    screen.line(format!("{name} {}{due}\n  {} {}", at.status.as_str().replace('_', " "), at.agent_type, at.action))?;
    let document = client.graph(&plan).await?;
    let steps = document["steps"].as_array().into_iter().flatten();
    if let Some(spec) = steps.into_iter().find(|spec| spec["id"] == what.step.as_str()) {
        let shown: Map<String, Value> = ["description", "inputs"]
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), spec.get(*name).filter(|value| !value.is_null())?.clone())))
            .collect();
        screen.text(&yaml(&shown).lines().map(|line| format!("  {line}\n")).collect::<String>())?;
        screen.text(&unless_decided(&spec["approve"], "the step runs", "the step fails"))?;
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
    let told = StepRef { plan: plan.to_string(), step: what.step.clone(), reason: why("")? };
    step::steer(context, &told, verb, None).await?;
    Ok(Exit::Done)
}

/// What it means when nobody says anything about a plan or its revision.
fn silence(view: &PlanView, document: &Value) -> String {
    match &view.proposal {
        Some(_) => unless_decided(&document["revision"]["approve"], "the revision is taken", "it is refused"),
        None if view.summary.status == PlanStatus::AwaitingApproval => {
            unless_decided(&document["approve"], "the plan runs", "the plan is rejected")
        }
        None => String::new(),
    }
}

fn unless_decided(approve: &Value, runs: &str, ends: &str) -> String {
    let Some(limit_ms) = approve["limit_ms"].as_u64() else { return String::new() };
    let then = if approve["default"] == "approve" { runs } else { ends };
    format!("  when nobody decides within {}: {then}\n", span(limit_ms))
}

/// Whether the plan as a whole waits for a yes or no.
fn is_waiting(view: &PlanView) -> bool {
    view.summary.status == PlanStatus::AwaitingApproval
        || view.proposal.is_some()
        || (view.summary.status == PlanStatus::Replanning && view.question.is_none())
}

/// What waits for a person: the plan itself, or a revision of it.
fn waiting(view: &PlanView, clock: &Clock, paint: Paint) -> String {
    let head = paint.tone(Tone::Bold, view.summary.plan_id.as_str());
    let Some(proposal) = &view.proposal else {
        let nodes: Vec<graph::Node> = view.steps.iter().map(graph::Node::of_view).collect();
        let name = short(&view.summary.name);
        let status = view.summary.status.as_str().replace('_', " ");
        let sure = format!("{} · confidence {:.2}", view.planner, view.confidence);
        let mut text = format!("{head} {status} · {name} · {sure}\n{}", graph::tree(&nodes, paint));
        if view.summary.status == PlanStatus::Replanning {
            for (step, failure) in view.steps.iter().filter_map(|step| Some((step, step.failure.as_ref()?))) {
                text.push_str(&format!("  {} {}: {}\n", paint.tone(Tone::Bad, "✗"), step.id, short(&failure.message)));
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
        left(&proposal.due_at, clock),
        short(&proposal.summary),
    );
    proposal.changes.iter().for_each(|line| text.push_str(&format!("  {}\n", short(line))));
    for issue in &proposal.widens {
        text.push_str(&format!("  {} {}\n", paint.tone(Tone::Wait, "! it widens the plan:"), short(&issue.detail)));
    }
    text.push_str(&format!("  confidence {:.2} → {:.2}\n", proposal.confidence_before, proposal.confidence_after));
    text
}

/// `plan edit`.
pub async fn edit(context: &Context, args: &EditArgs) -> Outcome {
    let plan = context.client.resolve(&args.what.plan).await?;
    if !args.changes.is_empty() {
        let mut body = change::body(context, &plan, &args.changes).await?;
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

/// Opens the plan in an editor, as often as it is refused and the person wants.
async fn edit_in_editor(context: &Context, plan: &PlanId, reason: &str) -> Outcome {
    let Context { screen, client, .. } = context;
    let revision = client.plan(plan).await?.summary.revision;
    let mut text = yaml(&client.graph(plan).await?);
    loop {
        let Some(after) = prompt::edited(&text)? else {
            screen.note("nothing was changed");
            return Ok(Exit::Other);
        };
        let asked = match input::parse("the edited plan", &after) {
            Ok(document) => {
                let reason = why(reason)?;
                let body = json!({ "plan": document, "revision": revision, "reason": reason });
                client.steer_plan(plan, "edit", body).await.map_err(Failed::from)
            }
            Err(failed) => Err(failed),
        };
        match asked {
            Ok(summary) => {
                shown(screen, &summary)?;
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

async fn steer(context: &Context, plan: &PlanId, verb: &str, body: Value) -> Outcome {
    let summary = context.client.steer_plan(plan, verb, body).await?;
    shown(&context.screen, &summary)?;
    Ok(Exit::Done)
}

/// `plan revisions`.
pub async fn revisions(context: &Context, plan: &str) -> Outcome {
    let plan = context.client.resolve(plan).await?;
    let page = context.client.revisions(&plan).await?;
    context.screen.list(
        &page,
        &page.items,
        |record| record.revision.to_string(),
        |paint| revisions_text(&page, &plan, paint),
    )?;
    Ok(Exit::Done)
}

fn revisions_text(page: &Page<RevisionRecord>, plan: &PlanId, paint: Paint) -> String {
    if page.items.is_empty() {
        return format!("plan {plan} was not revised\n");
    }
    let mut text = String::new();
    for record in &page.items {
        let who = record.actor.as_deref().unwrap_or(&record.planner);
        let about = record.step.as_ref().map(|step| format!(" of {step}")).unwrap_or_default();
        text.push_str(&format!(
            "{} {} · {} · {}{about} · {who} · confidence {:.2} → {:.2}\n",
            paint.tone(Tone::Bold, format!("revision {}", record.revision)),
            goalmill_common::clock::rfc3339(record.time_ms),
            record.strategy,
            record.trigger.replace('_', " "),
            record.confidence_before,
            record.confidence_after,
        ));
        for why in [&record.reason, &record.summary].into_iter().filter(|why| !why.is_empty()) {
            text.push_str(&format!("  {}\n", short(why)));
        }
        record.changes.iter().for_each(|line| text.push_str(&format!("    {}\n", short(line))));
    }
    text
}

/// `plan questions`: lists them; asks them in a terminal.
pub async fn questions(context: &Context, plan: &str, list: bool) -> Outcome {
    let Context { screen, client, clock, .. } = context;
    let plan = client.resolve(plan).await?;
    let page = client.questions(&plan).await?;
    if list || page.items.is_empty() || !prompt::is_possible(screen) {
        screen.list(
            &page,
            &page.items,
            |asked| asked.id.clone(),
            |paint| questions_text(&page, &plan, clock, paint),
        )?;
        return Ok(Exit::Done);
    }
    let mut open = false;
    for asked in &page.items {
        open |= !put(context, &plan, asked, "").await?;
    }
    Ok(if open { Exit::AwaitingApproval } else { Exit::Done })
}

fn questions_text(page: &Page<QuestionView>, plan: &PlanId, clock: &Clock, paint: Paint) -> String {
    let mut table = Table::new(&["QUESTION", "ASKS", "DEFAULT", "LEFT"]);
    for asked in &page.items {
        let default = asked.default.as_ref().map(|value| short(value.text())).unwrap_or_default();
        table.row([asked.id.clone(), short(&asked.question), default, left(&asked.due_at, clock)]);
    }
    let mut text = table.render(paint, "nothing is asked");
    if !page.items.is_empty() {
        text.push_str(&format!("answer: goalmill plan answer {plan} QUESTION ANSWER\n"));
    }
    text
}

/// Asks the person until the answer is taken; says whether there was one.
async fn put(context: &Context, plan: &PlanId, asked: &QuestionView, reason: &str) -> Result<bool, Failed> {
    let Context { screen, client, clock, .. } = context;
    loop {
        let Some(answer) = prompt::answer(asked, &left(&asked.due_at, clock))? else {
            screen.note(format!("`{}` is not answered", asked.id));
            return Ok(false);
        };
        match client.answer(plan, &asked.id, json!({ "answer": answer, "reason": reason })).await.map_err(Failed::from)
        {
            Ok(summary) => {
                shown(screen, &summary)?;
                return Ok(true);
            }
            Err(failed) if failed.exit == Exit::InvalidInput => screen.note(format!("error: {failed}")),
            Err(failed) => return Err(failed),
        }
    }
}

/// `plan answer`.
pub async fn answer(context: &Context, args: &PlanAnswerArgs) -> Outcome {
    let plan = context.client.resolve(&args.plan).await?;
    give(context, &plan, &args.question, args.answer.as_deref(), &args.reason).await
}

/// `step answer`.
pub async fn answer_step(context: &Context, args: &StepAnswerArgs) -> Outcome {
    checked_id("step id", &args.step.step)?;
    let plan = context.client.resolve(&args.step.plan).await?;
    give(context, &plan, StepId::from(args.step.step.as_str()).as_str(), args.answer.as_deref(), &args.step.reason)
        .await
}

async fn give(context: &Context, plan: &PlanId, question: &str, said: Option<&str>, reason: &str) -> Outcome {
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
        let taken = put(context, plan, &asked, reason).await?;
        return Ok(if taken { Exit::Done } else { Exit::AwaitingApproval });
    };
    let schema = asked.schema.as_ref().map(goalmill_common::json::Json::value).unwrap_or_default();
    let answer = prompt::typed(&schema, said).map_err(|why| Failed::invalid(format!("{}: {why}", asked.question)))?;
    let summary = context.client.answer(plan, question, json!({ "answer": answer, "reason": reason })).await?;
    shown(&context.screen, &summary)?;
    Ok(Exit::Done)
}

/// `plan fork`.
pub async fn fork(context: &Context, args: &ForkArgs) -> Outcome {
    if args.wait.redis.is_some() {
        return Err(Failed::new(Exit::Usage, "a fork goes through the API, not through Redis"));
    }
    let client: &Client = &context.client;
    let plan = client.resolve(&args.what.plan).await?;
    let mut body = json!({ "reason": args.what.reason });
    let given = [("step", &args.step), ("planner", &args.planner), ("model", &args.model)];
    for (name, value) in given.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
        body[name] = value.as_str().into();
    }
    if args.only {
        body["only"] = true.into();
    }
    if let Some(revision) = args.revision {
        body["revision"] = revision.into();
    }
    if !args.input.is_empty() {
        let document = match args.revision {
            Some(revision) => client.graph_at(&plan, revision).await?,
            None => client.graph(&plan).await?,
        };
        body["inputs"] = change::inputs(&args.input, &document)?.into();
    }
    let key = match &args.wait.idempotency_key {
        Some(key) => {
            checked_id("idempotency key", key)?;
            key.clone()
        }
        None => format!("cli-{}", Random::system().token()),
    };
    let accepted = client.fork(&plan, body, &key).await?;
    context.screen.note(format!("forked from {plan}; compare: goalmill plan diff {plan} {}", accepted.plan_id));
    submit::follow(context, &args.wait, &accepted, Source::Api(client.clone())).await
}

/// `until` a time, for people: `12 min left`.
pub fn left(due_at: &str, clock: &Clock) -> String {
    let Some(due_ms) = parse_rfc3339(due_at) else { return String::new() };
    match due_ms.saturating_sub(clock.now_ms()) / 1_000 {
        0 => "no time left".into(),
        s @ 1..=119 => format!("{s} s left"),
        s @ 120..=7_199 => format!("{} min left", s / 60),
        s => format!("{} h left", s / 3_600),
    }
}

/// What a plan asks of people, with what to type; nothing when it asks nothing.
pub fn waiting_lines(view: &PlanView, clock: &Clock) -> Vec<String> {
    let plan = &view.summary.plan_id;
    let mut lines = Vec::new();
    let mut say =
        |what: String, due: &str, type_: String| lines.push(format!("{what} · {}\n  {type_}", left(due, clock)));
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
