//! The embedded back end: in memory, in one process, with an optional journal file.

use std::path::Path;
use std::sync::Arc;

use goalmill_common::clock::Clock;

use crate::{Broker, BrokerError};

/// Opens an empty back end, or the one kept under `data_dir`.
pub fn open(data_dir: Option<&Path>, clock: Clock) -> Result<Arc<dyn Broker>, BrokerError> {
    let _ = (data_dir, clock);
    Err(BrokerError::Unavailable("there is no embedded back end yet".into()))
}
