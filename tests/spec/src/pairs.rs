//! Counts how often features meet in one case.

use std::collections::{BTreeMap, BTreeSet};

use crate::feature::FEATURES;

/// Pairs that cannot meet: the shares of a budget among plans inside are not specified, so that a plan with a budget has
/// none, and nothing in it is partial.
pub const APART: [(&str, &str); 4] =
    [("map", "budget"), ("plan", "budget"), ("budget", "partial"), ("budget", "stored")];

/// How often each pair of features was in one case.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    counts: BTreeMap<(usize, usize), u32>,
}

impl Pairs {
    /// Counts a case with these features.
    pub fn count(&mut self, features: &BTreeSet<&'static str>) {
        let has: Vec<usize> = (0..FEATURES.len()).filter(|n| features.contains(FEATURES[*n])).collect();
        for (n, a) in has.iter().enumerate() {
            has[n..].iter().for_each(|b| *self.counts.entry((*a, *b)).or_default() += 1);
        }
    }

    /// How often two features were in one case; a feature with itself: in how many cases it was.
    pub fn of(&self, a: usize, b: usize) -> u32 {
        self.counts.get(&(a.min(b), a.max(b))).copied().unwrap_or(0)
    }

    /// The pairs that can meet and were in fewer than `least` cases, with their counts.
    pub fn rare(&self, least: u32) -> Vec<(&'static str, &'static str, u32)> {
        let pairs = (0..FEATURES.len()).flat_map(|a| (a + 1..FEATURES.len()).map(move |b| (a, b)));
        let counted = pairs.map(|(a, b)| (FEATURES[a], FEATURES[b], self.of(a, b)));
        counted.filter(|(a, b, count)| *count < least && !APART.contains(&(*a, *b))).collect()
    }

    /// A table with a row and a column for each feature.
    pub fn table(&self) -> String {
        let mut table = format!("{:>11}", "");
        FEATURES.iter().for_each(|name| table.push_str(&format!(" {name:>5.5}")));
        for (a, name) in FEATURES.iter().enumerate() {
            table.push_str(&format!("\n{name:>11}"));
            (0..=a).for_each(|b| table.push_str(&format!(" {:>5}", self.of(a, b))));
        }
        table
    }
}
