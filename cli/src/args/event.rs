//! Flags of `event`.

use clap::{Args, Subcommand};

/// Sends events that plans wait for.
#[derive(Debug, Subcommand)]
pub enum EventCommand {
    Send(EventSendArgs),
}

/// Sends an event: the step that waits for its name and key completes with its data.
#[derive(Args, Debug)]
#[command(after_help = "A plan keeps an event for which no step waits yet.\n\n\
    Examples:\n  goalmill event send payment --plan @latest --key 17 --data '{\"paid\": true}'")]
pub struct EventSendArgs {
    /// The name of the event.
    pub name: String,
    /// The plan: its id, a unique beginning or end of it, or `@latest`.
    #[arg(long, value_name = "PLAN")]
    pub plan: String,
    /// The key of the event.
    #[arg(long, value_name = "KEY", default_value = "", hide_default_value = true)]
    pub key: String,
    /// The data as JSON; `-` for standard input.
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub data: String,
    /// The id of the event: a plan takes an event with the same id once [default: a new one].
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
}
