//! The demo `saga`: a trip that is booked, and taken back when its payment fails.

use std::time::Duration;

use goalmill_client::{Client, Document};
use goalmill_common::id::PlanId;
use goalmill_common::random::Random;
use goalmill_common::status::PlanStatus;
use goalmill_demo::agents::{Book, DemoServer};
use serde_json::json;

use super::session::follow;
use crate::args::DevArgs;
use crate::exit::{CommandResult, Exit, Failed};
use crate::output::{Screen, Tone};

/// The plan.
const PLAN: &str = include_str!("../../../../docs/examples/saga.yaml");
/// Path of the plan in the repository.
const PLAN_NAME: &str = "docs/examples/saga.yaml";
/// The event that the plan waits for, and what the bank says.
const EVENT: &str = "payment";
const DATA: &str = r#"{"status":"declined"}"#;
/// Between two looks at who waits.
const LOOK: Duration = Duration::from_millis(100);

/// Runs the saga; fails when it ends differently than expected, or when anything stays booked.
pub async fn run(screen: &Screen, args: &DevArgs, client: &Client, agents: Option<&DemoServer>) -> CommandResult {
    let book = agents.ok_or_else(|| Failed::other("`--demo saga` needs the demo agents"))?.book();
    let plan = Document { text: PLAN.into(), media: "application/yaml" };
    if screen.is_for_people() {
        screen.line(format!("$ goalmill run {PLAN_NAME} --watch"))?;
    }
    let accepted = client.submit_plan(&plan, &format!("demo-{}", Random::system().token())).await?;
    let plan = accepted.plan_id;
    let watched = async {
        tokio::select! {
            watched = follow(screen, args, client, &plan) => watched,
            failed = pay(client, &plan) => Err(failed),
        }
    };
    let watched = watched.await?;
    let Some(board) = watched.board else { return Ok(watched.exit) };
    if board.status() != PlanStatus::Failed {
        return Err(Failed::other("the plan should have ended failed: its payment fails"));
    }
    show_book(screen, book)?;
    let stays: Vec<String> = book.entries("").into_iter().filter(|(_, e)| e.is_booked()).map(|(r, _)| r).collect();
    match stays[..] {
        [] => Ok(Exit::Done),
        _ => Err(Failed::other(format!("still booked: {}", stays.join(", ")))),
    }
}

/// Sends the payment once the plan waits for it. Returns only when that fails: the plan's end ends it.
async fn pay(client: &Client, plan: &PlanId) -> Failed {
    loop {
        match client.waits().await {
            Err(error) => return error.into(),
            Ok(page) => {
                if let Some(wait) = page.items.iter().find(|wait| wait.plan_id == *plan && wait.event == EVENT) {
                    let data: serde_json::Value = serde_json::from_str(DATA).unwrap_or_default();
                    let id = format!("{plan}-{EVENT}");
                    let body = json!({"name": EVENT, "key": wait.key, "data": data, "id": id});
                    if let Err(error) = client.publish_event(body).await {
                        return error.into();
                    }
                    return std::future::pending().await;
                }
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// What the agency has in its book.
fn show_book(screen: &Screen, book: &Book) -> Result<(), Failed> {
    if !screen.is_for_people() {
        return Ok(());
    }
    screen.line("")?;
    screen.line(screen.palette.tone(Tone::Bold, "The book of the demo agency (no real bookings)"))?;
    for (reference, entry) in book.entries("") {
        let state = match (entry.is_booked(), entry.booked_by.is_some()) {
            (true, _) => "booked",
            (false, true) => "booked, then cancelled",
            (false, false) => "never booked",
        };
        screen.line(format!("  {reference:<24}{state}"))?;
    }
    Ok(())
}
