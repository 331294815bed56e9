//! The demo: submits a goal, shows the plan run, prints the results.

use goalmill_client::Client;
use goalmill_common::id::PlanId;
use goalmill_common::random::Random;
use goalmill_common::view::Results;
use serde_json::{Value, json};

use crate::args::DevArgs;
use crate::commands::results::show_results;
use crate::exit::{CommandResult, Exit, Failed};
use crate::output::{Screen, Table, Tone};
use crate::roles::DEMO_GOAL;
use crate::watch::{Board, Patience, Source, Waited, left_alone, wait};

pub async fn run(screen: &Screen, args: &DevArgs, client: &Client) -> CommandResult {
    let goal = args.goal.as_deref().unwrap_or(DEMO_GOAL);
    if screen.is_for_people() {
        screen.line(format!("$ goalmill submit '{goal}' --watch"))?;
    }
    let watched = watch(screen, args, client, &json!({ "description": goal })).await?;
    if let Some(board) = watched.board {
        let results = client.results(&board.plan).await?;
        if screen.is_for_people() && watched.exit == Exit::Done {
            people(screen, &results)?;
        } else {
            show_results(screen, &results)?;
        }
    }
    Ok(watched.exit)
}

/// The end of a watched plan.
pub struct Watched {
    pub exit: Exit,
    /// Missing when the wait ended first.
    pub board: Option<Box<Board>>,
}

/// Submits a goal and shows the plan run.
pub async fn watch(screen: &Screen, args: &DevArgs, client: &Client, goal: &Value) -> Result<Watched, Failed> {
    let key = format!("demo-{}", Random::system().token());
    let accepted = client.submit_goal(goal, &key).await?;
    follow(screen, args, client, &accepted.plan_id).await
}

/// Shows a plan run.
pub async fn follow(screen: &Screen, args: &DevArgs, client: &Client, plan: &PlanId) -> Result<Watched, Failed> {
    let patience = Patience { show: true, stop_at_approval: !args.keep, timeout: None, ..Default::default() };
    let waited = wait(screen, Source::Api(client.clone()), plan, patience).await?;
    if let Waited::Interrupted = waited {
        return Ok(Watched { exit: Exit::Interrupted, board: None });
    }
    let exit = left_alone(screen, plan, &waited);
    let board = if let Waited::Settled(board) = waited { Some(board) } else { None };
    Ok(Watched { exit, board })
}

/// The bill of a step, or all results.
pub fn people(screen: &Screen, results: &Results) -> Result<(), Failed> {
    screen.line("")?;
    match results.results.iter().find_map(|(step, outputs)| Some((step, bill(outputs)?))) {
        Some((step, (rows, last))) => {
            screen.line(
                screen
                    .palette
                    .tone(Tone::Bold, format!("Results (outputs of step {step}; demo data, not real prices)")),
            )?;
            let mut table = Table::new(&["", "", ""]).right(&[1]);
            rows.into_iter().for_each(|(name, amount)| table.row([format!("  {name}"), format!("{amount:.2}")]));
            screen.text(&table.render(screen.palette, ""))?;
            if !last.is_empty() {
                screen.line(format!("  {last}"))?;
            }
            Ok(())
        }
        None => show_results(screen, results),
    }
}

/// The items of a bill, their total, and what the step says of it.
fn bill(outputs: &Value) -> Option<(Vec<(String, f64)>, String)> {
    let items = outputs.get("items")?.as_array()?;
    let item = |item: &Value| Some((item.get("name")?.as_str()?.replace('_', " "), item.get("amount")?.as_f64()?));
    let mut rows: Vec<(String, f64)> = items.iter().map(item).collect::<Option<_>>()?;
    rows.push(("total".into(), outputs.get("total")?.as_f64()?));
    let last = outputs.get("summary").and_then(Value::as_str).unwrap_or_default();
    Some((rows, last.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_has_items_and_a_total() {
        let outputs = json!({
            "items": [{"name": "flights", "amount": 612.0}, {"name": "meals_and_transport", "amount": 285}],
            "total": 897.0, "summary": "within budget",
        });
        let rows = vec![("flights".into(), 612.0), ("meals and transport".into(), 285.0), ("total".into(), 897.0)];
        assert_eq!(bill(&outputs), Some((rows, "within budget".into())));
        assert_eq!(bill(&json!({"items": [1], "total": 1})), None);
        assert_eq!(bill(&json!({"total": 1})), None);
    }
}
