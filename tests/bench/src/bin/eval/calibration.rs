//! Measures the calibration error of planners, before and after earlier plans correct their confidence.
//!
//! Real plans with a verdict. Every other one is history, and the rest are held out. A planner is told apart by its model. Two planners are imagined: one that says of every plan what the planner `llm` says of one that holds at
//! once, and one that trusts each step alike, so that long plans are trusted less.

use std::path::Path;

use anyhow::Result;
use goalmill_planning::calibration::{ConfidenceCalibration, ConfidenceSample, Reliability, reliability};
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
    let (mut history, mut held_out) = (Vec::new(), Vec::new());
    for (n, row) in rows::read::<Row>(&dir.join("plan_verify/planbench_plans.jsonl"))?.into_iter().enumerate() {
        if n % 2 == 0 { &mut history } else { &mut held_out }.push(row);
    }
    let flat = judge("flat", |_| AT_ONCE, &history, &held_out, out)?;
    let by_step = judge("by_step", |row| STEP.powf(row.plan.len() as f64), &history, &held_out, out)?;
    Ok(json!({"what": "calibration", "history": history.len(), "held_out": held_out.len(),
              "flat": flat, "by_step": by_step}))
}

fn judge(name: &str, say: Say, history: &[Row], held_out: &[Row], out: &mut Out) -> Result<Value> {
    let confidences = ConfidenceCalibration::new(PLANS_MIN);
    for row in history {
        confidences.observe(&row.model, say(row), row.valid);
    }
    let mut before = Vec::new();
    let mut after = Vec::new();
    for row in held_out {
        let said = say(row);
        let corrected = confidences.completion_probability(&row.model, said);
        before.push(ConfidenceSample { predicted: said, succeeded: row.valid });
        after.push(ConfidenceSample { predicted: corrected, succeeded: row.valid });
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
