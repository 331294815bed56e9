//! Counts hits, and how well the confidence tells steps that somebody fits from those that nobody does.

use goalmill_common::number::{to_usize, whole_u64};
use goalmill_router::Ranking;
use serde_json::{Value, json};

use super::sets::Row;

/// Bins of the calibration error.
const BINS: usize = 10;

#[derive(Default)]
pub struct Tally {
    rows: usize,
    first: usize,
    third: usize,
    /// Confidence, and whether there is a tool.
    confidences: Vec<(f64, bool)>,
}

impl Tally {
    pub fn count(&mut self, ranking: &Ranking, row: &Row) {
        self.confidences.push((ranking.confidence, !row.gold.is_empty()));
        if row.gold.is_empty() {
            return;
        }
        let is_right = |tool: &str| row.gold.iter().any(|gold| gold == tool);
        let place = ranking.candidates.iter().position(|candidate| is_right(candidate.agent_type.as_str()));
        self.rows += 1;
        self.first += usize::from(place == Some(0));
        self.third += usize::from(place.is_some_and(|place| place < 3));
    }

    /// Adds the rows of another tally.
    pub fn add(&mut self, other: &Self) {
        self.rows += other.rows;
        self.first += other.first;
        self.third += other.third;
        self.confidences.extend(&other.confidences);
    }

    pub fn figures(&self) -> Value {
        let share = |count: usize| points(count as f64 / self.rows.max(1) as f64);
        let mut figures = json!({"rows": self.rows, "top1": share(self.first), "top3": share(self.third)});
        let some = self.confidences.iter().filter(|(_, some)| *some).count();
        if some > 0 && some < self.confidences.len() {
            let threshold = goalmill_common::config::RouterSettings::default().threshold;
            let refused = |some: bool| {
                let of: Vec<f64> = self.confidences.iter().filter(|c| c.1 == some).map(|c| c.0).collect();
                points(of.iter().filter(|c| **c < threshold).count() as f64 / of.len() as f64)
            };
            figures["auroc"] = round(auroc(&self.confidences)).into();
            figures["ece"] = round(calibration_error(&self.confidences)).into();
            figures["refused"] = json!({"with_tool": refused(true), "without": refused(false)});
        }
        figures
    }
}

/// Percent, two digits.
pub fn points(share: f64) -> f64 {
    (share * 10_000.0).round() / 100.0
}

fn round(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

pub fn percentile(values: &mut [u128], percent: usize) -> u64 {
    values.sort_unstable();
    let at = (values.len() * percent / 100).min(values.len().saturating_sub(1));
    values.get(at).and_then(|value| u64::try_from(*value).ok()).unwrap_or(0)
}

/// The probability that a row with a tool has more confidence than one without; ties count by half.
fn auroc(rows: &[(f64, bool)]) -> f64 {
    let mut rows = rows.to_vec();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let with = rows.iter().filter(|row| row.1).count() as f64;
    let without = rows.len() as f64 - with;
    let mut ranks = 0.0;
    let mut from = 0;
    while from < rows.len() {
        let to = from + rows[from..].iter().take_while(|row| row.0.total_cmp(&rows[from].0).is_eq()).count();
        let rank = (from + 1 + to) as f64 / 2.0;
        ranks += rank * rows[from..to].iter().filter(|row| row.1).count() as f64;
        from = to;
    }
    (ranks - with * (with + 1.0) / 2.0) / (with * without)
}

/// How far confidence and truth are apart on average, in bins of equal width.
fn calibration_error(rows: &[(f64, bool)]) -> f64 {
    let mut bins = [(0.0, 0.0, 0.0); BINS];
    for (confidence, truth) in rows {
        let bin = &mut bins[to_usize(whole_u64(confidence * BINS as f64)).min(BINS - 1)];
        *bin = (bin.0 + 1.0, bin.1 + confidence, bin.2 + f64::from(u8::from(*truth)));
    }
    bins.iter().map(|(_, confidence, truth)| (confidence - truth).abs()).sum::<f64>() / rows.len() as f64
}
