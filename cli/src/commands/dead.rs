//! `dead`: tasks that were given up on.

use goalmill_common::view::Page;
use serde_json::Value;

use super::{Context, checked_id};
use crate::args::DeadCommand;
use crate::exit::{Exit, Outcome};
use crate::output::{Paint, Table};
use crate::watch::short;

pub async fn run(context: &Context, command: DeadCommand) -> Outcome {
    let Context { screen, client, .. } = context;
    let DeadCommand::List { agent_type } = command;
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
    screen.list(&page, &page.items, |letter| text(letter, "id"), |paint| people(&page, paint))?;
    Ok(Exit::Done)
}

fn people(page: &Page<Value>, paint: Paint) -> String {
    let mut table = Table::new(&["AGENT", "PLAN", "STEP", "ATTEMPT", "CODE", "REASON"]).right(&[3]);
    for letter in &page.items {
        table.row([
            text(letter, "agent_type"),
            text(letter, "plan"),
            text(letter, "step"),
            text(letter, "attempt"),
            text(letter, "code"),
            short(&text(letter, "reason")),
        ]);
    }
    table.render(paint, "no dead letters")
}

/// A field of a letter as text; plan and step may be called `plan_id` and `step_id`.
fn text(letter: &Value, name: &str) -> String {
    match letter.get(name).or_else(|| letter.get(format!("{name}_id"))) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
