//! `event`: sends events from outside.

use goalmill_common::json_limits;
use goalmill_common::view::EventReceipt;
use serde_json::{Value, json};

use super::{checked_id, input};
use crate::args::{EventCommand, EventSendArgs};
use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit, Failed};

pub async fn run(context: &CommandContext, command: EventCommand) -> CommandResult {
    match command {
        EventCommand::Send(args) => send(context, args).await,
    }
}

async fn send(context: &CommandContext, args: EventSendArgs) -> CommandResult {
    checked_id("name of an event", &args.name)?;
    let text = if args.data == "-" { input::read_file("-")? } else { args.data };
    let data: Value =
        json_limits::parse(&text).map_err(|error| Failed::invalid(format!("the data are not JSON: {error}")))?;
    let plan = context.client.resolve(&args.plan).await?;
    let mut body = json!({ "name": args.name, "key": args.key, "data": data });
    if let Some(id) = args.id {
        body["id"] = id.into();
    }
    let receipt: EventReceipt = context.client.send_event(&plan, body).await?;
    context.screen.show(&receipt, &receipt.id, |_| format!("event {} sent to {plan}\n", receipt.id))?;
    Ok(Exit::Done)
}
