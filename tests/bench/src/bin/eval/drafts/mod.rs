//! Drafts of models: whether raw plans keep their steps, and what becomes of plans that were damaged on purpose.

mod damage;
mod damaged;
mod raw;

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use crate::rows::Out;

pub fn run(dir: &Path, out: &mut Out, seed: u64) -> Result<Value> {
    Ok(json!({"what": "drafts", "raw": raw::run(dir, out)?, "damaged": damaged::run(dir, out, seed)?}))
}

/// A share in percent, two digits.
fn percent(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64 * 10_000.0).round() / 100.0 }
}
