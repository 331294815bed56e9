//! Finds the `goalmill` binary from a program that is not a test.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use goalmill_common::config::environment;

/// The `goalmill` named by `GOALMILL_BIN`, or else the one in the directory of the running program.
pub fn program() -> Result<PathBuf> {
    if let Some(named) = environment("GOALMILL_BIN") {
        return Ok(named.into());
    }
    let running = std::env::current_exe().context("the running program has no path")?;
    let binary = running.with_file_name(format!("goalmill{}", std::env::consts::EXE_SUFFIX));
    ensure!(
        binary.exists(),
        "`{}` is missing: run `cargo build -p goalmill`, or name one in `GOALMILL_BIN`",
        binary.display()
    );
    Ok(binary)
}
