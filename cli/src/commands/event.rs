//! `event`: sends events from outside.

use goalmill_common::json_limits;
use goalmill_common::view::{EventReceipt, WaitView};
use serde_json::{Value, json};

use super::{cell, checked_id, input};
use crate::args::{EventCommand, EventSendArgs};
use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit, Failed};
use crate::output::{Table, time_left};

pub async fn run(context: &CommandContext, command: EventCommand) -> CommandResult {
    match command {
        EventCommand::Send(args) => send(context, args).await,
        EventCommand::Waits => waits(context).await,
    }
}

async fn send(context: &CommandContext, args: EventSendArgs) -> CommandResult {
    checked_id("name of an event", &args.name)?;
    let text = if args.data == "-" { input::read_file("-")? } else { args.data };
    let data: Value =
        json_limits::parse(&text).map_err(|error| Failed::invalid(format!("the data are not JSON: {error}")))?;
    let mut body = json!({ "name": args.name, "key": args.key, "data": data });
    if let Some(id) = args.id {
        body["id"] = id.into();
    }
    let client = &context.client;
    let receipt = match args.plan {
        Some(plan) => client.send_event(&client.resolve(&plan).await?, body).await?,
        None => client.publish_event(body).await?,
    };
    context.screen.show(&receipt, &receipt.id, |_| sent(&receipt))?;
    Ok(Exit::Done)
}

fn sent(receipt: &EventReceipt) -> String {
    let plans: Vec<&str> = receipt.plans.iter().map(|plan| plan.as_str()).collect();
    match plans[..] {
        [] => format!("event {} is kept: no plan waits for it\n", receipt.id),
        _ => format!("event {} sent to {}\n", receipt.id, plans.join(", ")),
    }
}

async fn waits(context: &CommandContext) -> CommandResult {
    let CommandContext { screen, client, clock, .. } = context;
    let page = client.waits().await?;
    let name = |wait: &WaitView| format!("{}/{}", wait.plan_id, wait.step_id);
    screen.list(&page, &page.items, name, |palette| {
        let mut table = Table::new(&["PLAN", "STEP", "EVENT", "KEY", "LEFT"]);
        for wait in &page.items {
            let left = time_left(&wait.due_at, clock);
            table.row([
                wait.plan_id.to_string(),
                wait.step_id.to_string(),
                wait.event.clone(),
                cell(screen, &wait.key),
                left,
            ]);
        }
        table.render(palette, "no step waits for an event")
    })?;
    Ok(Exit::Done)
}
