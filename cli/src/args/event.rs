//! Flags of `event`.

use clap::{Args, Subcommand};

/// Sends events that plans wait for, and lists the waits.
#[derive(Debug, Subcommand)]
pub enum EventCommand {
    Send(EventSendArgs),
    /// Lists the steps that wait for events, the soonest end first.
    Waits,
}

/// Sends an event: the step that waits for its name and key completes with its data.
#[derive(Args, Debug)]
#[command(after_help = "The event is kept for plans that wait for it later (`events.retention_ms`, 7 days).\n\n\
    Examples:\n  goalmill event send payment --key 17 --data '{\"paid\": true}'\n  goalmill event send payment --plan @latest --key 17 --data '{\"paid\": true}'")]
pub struct EventSendArgs {
    /// The name of the event.
    pub name: String,
    /// Only to this plan, which keeps it: its id, a unique beginning or end of it, or `@latest`
    /// [default: all plans that wait for it].
    #[arg(long, value_name = "PLAN")]
    pub plan: Option<String>,
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
