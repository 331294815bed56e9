//! Stands in for the store in PostgreSQL in builds without the feature `postgres`.

#![expect(clippy::unused_async, reason = "functions of the module that it stands in for")]

use std::sync::Arc;

use goalmill_common::config::{ArchiveSettings, Feature};

use crate::{ArchiveError, ArchiveStore};

pub(crate) async fn open(_: &ArchiveSettings) -> Result<Arc<dyn ArchiveStore>, ArchiveError> {
    Err(Feature::Postgres.missing("archive.store").into())
}
