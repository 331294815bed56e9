//! `dead`: lists, retries and discards dead letters.

use std::io::{IsTerminal, Write};

use goalmill_common::id::PlanId;
use goalmill_common::view::{DeadLetterView, Page};
use serde::Serialize;

use super::{cell, checked_id};
use crate::args::{DeadCommand, Letters};
use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit, Failed};
use crate::output::{Screen, Table, yaml};

pub async fn run(context: &CommandContext, command: DeadCommand) -> CommandResult {
    match command {
        DeadCommand::List { submissions: true, .. } => list_submissions(context).await,
        DeadCommand::List { agent_type, .. } => list(context, agent_type).await,
        DeadCommand::Get { agent_type, entry } => get(context, &agent_type, &entry).await,
        DeadCommand::Retry(letters) => each(context, &letters, "retry").await,
        DeadCommand::Discard(letters) => each(context, &letters, "discard").await,
    }
}

async fn list(context: &CommandContext, agent_type: Option<String>) -> CommandResult {
    let CommandContext { screen, client, .. } = context;
    let agent_types = match agent_type {
        Some(agent_type) => {
            checked_id("agent type", &agent_type)?;
            vec![agent_type]
        }
        None => {
            let queues = client.queues().await?.items;
            queues
                .into_iter()
                .filter(|queue| queue.dead_letters > 0)
                .map(|queue| queue.agent_type.to_string())
                .collect()
        }
    };
    let mut items = Vec::new();
    for agent_type in &agent_types {
        items.extend(client.dead_letters(agent_type).await?.items);
    }
    let page = Page { items, next: None };
    screen.list(&page, &page.items, |letter| letter.entry.to_string(), |_| people(&page, screen))?;
    Ok(Exit::Done)
}

async fn list_submissions(context: &CommandContext) -> CommandResult {
    let CommandContext { screen, client, .. } = context;
    let page = client.refused_submissions().await?;
    screen.list(
        &page,
        &page.items,
        |refused| refused.entry.to_string(),
        |_| {
            let mut table = Table::new(&["REFUSED", "ID", "KIND", "SOURCE", "CODE", "REASON"]);
            for refused in &page.items {
                let place = refused.errors.first().map(|issue| issue.pointer.as_str()).unwrap_or_default();
                let reason =
                    if place.is_empty() { refused.detail.clone() } else { format!("{place}: {}", refused.detail) };
                table.row([
                    refused.refused_at.clone(),
                    refused.submission_id.clone(),
                    refused.kind.clone(),
                    cell(screen, &refused.source),
                    refused.code.clone(),
                    cell(screen, &reason),
                ]);
            }
            table.render(screen.palette, "no refused submissions")
        },
    )?;
    Ok(Exit::Done)
}

async fn get(context: &CommandContext, agent_type: &str, entry: &str) -> CommandResult {
    let CommandContext { screen, client, .. } = context;
    checked_id("agent type", agent_type)?;
    let letters = client.dead_letters(agent_type).await?.items;
    let letter = letters.iter().find(|letter| letter.entry.as_str() == entry).ok_or_else(|| {
        let missing = format!("{agent_type} has no dead letter `{entry}` among its newest");
        with_help(agent_type)(Failed::new(Exit::NotFound, missing))
    })?;
    screen.show(letter, entry, |_| yaml(letter))?;
    Ok(Exit::Done)
}

/// The result for one dead letter.
#[derive(Serialize)]
struct Done {
    agent_type: String,
    entry: String,
    /// The plan that retries the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan_id: Option<PlanId>,
}

async fn each(context: &CommandContext, letters: &Letters, verb: &str) -> CommandResult {
    let CommandContext { screen, client, .. } = context;
    let agent_type = letters.agent_type.as_str();
    checked_id("agent type", agent_type)?;
    let entries = if letters.all {
        let listed = client.dead_letters(agent_type).await?.items;
        let entries: Vec<String> = listed.iter().map(|letter| letter.entry.to_string()).collect();
        if !entries.is_empty() && !letters.yes {
            confirm(&format!("{verb} {} dead letters of {agent_type}", entries.len()))?;
        }
        entries
    } else {
        letters.entry.iter().try_for_each(|entry| checked_id("dead letter", entry))?;
        letters.entry.clone()
    };
    let mut done = Vec::new();
    for entry in entries {
        let plan_id = match verb {
            "retry" => {
                let accepted = client.retry_letter(agent_type, &entry).await.map_err(with_help(agent_type))?;
                accepted.warnings.iter().for_each(|issue| screen.warn(&issue.detail));
                Some(accepted.plan_id)
            }
            _ => {
                client.discard_letter(agent_type, &entry).await.map_err(with_help(agent_type))?;
                None
            }
        };
        done.push(Done { agent_type: agent_type.to_owned(), entry, plan_id });
    }
    let name = |done: &Done| done.plan_id.as_ref().map_or_else(|| done.entry.clone(), ToString::to_string);
    screen.list(&done, &done, name, |_| match done.len() {
        0 => format!("{agent_type} has no dead letters"),
        _ => done.iter().map(line).collect(),
    })?;
    Ok(Exit::Done)
}

fn line(done: &Done) -> String {
    match &done.plan_id {
        Some(plan) => format!("{} is done again as plan {plan}\n  watch it: goalmill watch {plan}\n", done.entry),
        None => format!("{} is dropped\n", done.entry),
    }
}

fn with_help<E: Into<Failed>>(agent_type: &str) -> impl Fn(E) -> Failed {
    move |error| match error.into() {
        failed if failed.exit == Exit::NotFound => failed.help(format!("list them: goalmill dead list {agent_type}")),
        failed => failed,
    }
}

/// Prompts in a terminal; elsewhere `--yes` is required.
pub(super) fn confirm(what: &str) -> Result<(), Failed> {
    let refused = || Failed::new(Exit::Usage, format!("not done: {what}")).help("confirm with --yes");
    if !std::io::stdin().is_terminal() {
        return Err(refused());
    }
    drop(write!(std::io::stderr(), "{what}? [y/N] "));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") { Ok(()) } else { Err(refused()) }
}

fn people(page: &Page<DeadLetterView>, screen: &Screen) -> String {
    let mut table = Table::new(&["AGENT", "LETTER", "PLAN", "STEP", "ATTEMPT", "CODE", "REASON"]).right(&[4]);
    for letter in &page.items {
        table.row([
            letter.agent_type.to_string(),
            letter.entry.to_string(),
            letter.plan_id.to_string(),
            letter.step_id.clone(),
            letter.attempt.to_string(),
            letter.code.clone(),
            cell(screen, &letter.reason),
        ]);
    }
    table.render(screen.palette, "no dead letters")
}
