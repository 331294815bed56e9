//! How far a planner's confidence is from what becomes of its plans, before and after earlier plans correct it.
//!
//! Real plans with a verdict. Half of them, drawn by a seed, are history; the others are held out. A planner is told apart
//! by its model. Two planners are imagined: one that says of every plan what the planner `llm` says of one that holds at
//! once, and one that trusts each step alike, so that long plans are trusted less.

use std::path::Path;

use anyhow::Result;
use goalmill_common::random::Random;
use goalmill_scheduler::planner::calibrate::{Confidences, Outcome, Reliability, reliability};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::rows::{self, Out};

#[derive(Deserialize)]
struct Row {
    id: String,
    model: String,
    plan: Vec<String>,
    valid: bool,
}

/// What `llm` says of a plan that held at once.
const AT_ONCE: f64 = 0.75;
/// How much a planner trusts one step, when it multiplies.
const STEP: f64 = 0.95;
/// The default of `planner.calibrate_plans_min`.
const PLANS_MIN: usize = 50;
/// Groups of the curve.
const BINS: usize = 10;

/// How sure a planner is of a plan.
type Say = fn(&Row) -> f64;

pub fn run(dir: &Path, out: &mut Out) -> Result<Value> {
    let mut plans: Vec<Row> = rows::read(&dir.join("plan_verify/planbench_plans.jsonl"))?;
    shuffle(&mut plans);
    let (history, held_out) = plans.split_at(plans.len() / 2);
    let flat = judge("flat", |_| AT_ONCE, history, held_out, out)?;
    let by_step =
        judge("by_step", |row| STEP.powi(i32::try_from(row.plan.len()).unwrap_or(i32::MAX)), history, held_out, out)?;
    Ok(json!({"what": "calibration", "history": history.len(), "held_out": held_out.len(),
              "flat": flat, "by_step": by_step}))
}

fn judge(name: &str, say: Say, history: &[Row], held_out: &[Row], out: &mut Out) -> Result<Value> {
    let confidences = Confidences::new(PLANS_MIN);
    for row in history {
        confidences.observe(&row.model, say(row), row.valid);
    }
    let mut before = Vec::new();
    let mut after = Vec::new();
    for row in held_out {
        let said = say(row);
        let corrected = confidences.of(&row.model, said);
        before.push(Outcome { predicted: said, succeeded: row.valid });
        after.push(Outcome { predicted: corrected, succeeded: row.valid });
        out.row(&json!({"id": row.id, "planner": name, "said": said, "corrected": corrected, "valid": row.valid}))?;
    }
    Ok(json!({"before": told(&reliability(&before, BINS)), "after": told(&reliability(&after, BINS))}))
}

fn told(found: &Reliability) -> Value {
    let round = |value: f64| (value * 1e4).round() / 1e4;
    let curve: Vec<Value> = found
        .curve
        .iter()
        .map(|knot| json!({"said": round(knot.predicted), "valid": round(knot.observed), "plans": knot.plans}))
        .collect();
    json!({"calibration_error": round(found.calibration_error), "brier": round(found.brier), "curve": curve})
}

/// Fisher and Yates.
fn shuffle(plans: &mut [Row]) {
    let random = Random::seeded(1);
    for last in (1..plans.len()).rev() {
        let other = usize::try_from(random.below(last as u64 + 1)).unwrap_or(last);
        plans.swap(last, other);
    }
}
