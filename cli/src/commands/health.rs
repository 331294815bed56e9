//! `health`: whether one process is ready.

use serde_json::json;

use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit, Failed};

pub async fn run(context: &CommandContext) -> CommandResult {
    let base = context.client.base();
    match context.client.health().await? {
        (true, true, _) => {
            context.screen.show(&json!({"server": base, "ready": true}), "", |_| format!("{base} is ready\n"))?;
            Ok(Exit::Done)
        }
        (true, false, why) => Err(Failed::new(Exit::Other, format!("{base} is not ready: {}", why.trim()))),
        (false, ..) => {
            let message = format!("the server at {base} is neither a scheduler nor a worker");
            Err(Failed::new(Exit::Other, message)
                .help("name a scheduler or a worker's `--listen` address by `--server URL`"))
        }
    }
}
