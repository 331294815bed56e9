//! The environment of a client command.

use goalmill_client::Client;
use goalmill_common::clock::Clock;

use crate::output::Screen;

/// Output, API client and clock of a client command.
pub struct CommandContext {
    pub screen: Screen,
    pub client: Client,
    /// Whether the caller named a server.
    pub asked: bool,
    pub clock: Clock,
}
