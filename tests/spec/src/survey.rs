//! A run of many cases.

use std::collections::BTreeMap;

use crate::case::Case;
use crate::comparison::{Finding, ORDERS, Verdict, check_orders};
use crate::feature::features;
use crate::generator::generate;
use crate::law::Law;
use crate::pairs::{APART, Pairs};
use crate::run::Run;

/// How often two features should meet.
const OFTEN: u32 = 200;

/// The first findings, for which more orders are tried: in one of 25,000 cases the order of the driver is missed.
const DOUBTED: usize = 10;

/// What many cases gave.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Cases in which the engine did what the laws say.
    pub kept: u32,
    /// Documents that validation refuses, by the first code.
    pub invalid: BTreeMap<String, u32>,
    /// Cases whose outcome is free.
    pub undecided: BTreeMap<String, u32>,
    /// Cases by the laws of which they speak: those that kept them, and those that differ.
    pub laws: BTreeMap<Law, (u32, u32)>,
    pub pairs: Pairs,
    /// Cases that differ: seed, case, finding.
    pub found: Vec<(u64, Case, Finding)>,
}

/// Checks one case for each seed.
pub fn survey(seeds: impl Iterator<Item = u64>) -> Survey {
    let mut survey = Survey::default();
    for seed in seeds {
        let case = generate(seed);
        let orders = if survey.found.len() < DOUBTED { 5 * ORDERS } else { ORDERS };
        match check_orders(&case, orders) {
            Verdict::Invalid(code) => *survey.invalid.entry(code).or_default() += 1,
            Verdict::Undecided(why) => *survey.undecided.entry(format!("{why:?}")).or_default() += 1,
            Verdict::Kept(run) => {
                survey.kept += 1;
                survey.count(&case, &run, true);
            }
            Verdict::Found(finding) => {
                survey.count(&case, &finding.expected, false);
                survey.found.push((seed, case, *finding));
            }
        }
    }
    survey
}

impl Survey {
    /// The counts in words.
    pub fn summary(&self) -> String {
        let undecided: u32 = self.undecided.values().sum();
        let rare: Vec<String> = self.pairs.rare(OFTEN).iter().map(|(a, b, count)| format!("{a} {b} {count}")).collect();
        let laws: Vec<String> =
            self.laws.iter().map(|(law, (kept, differ))| format!("{law:?} {kept}/{differ}")).collect();
        format!(
            "{} plans kept the laws, {} differ, {undecided} undecided {:?}, invalid {:?}; \
             pairs in less than {OFTEN} plans: {}; pairs that cannot meet, because the shares of a budget among plans inside \
             are not specified: {}\nlaws (kept/differ): {}",
            self.kept,
            self.found.len(),
            self.undecided,
            self.invalid,
            rare.join(", "),
            APART.map(|(a, b)| format!("{a} {b}")).join(", "),
            laws.join(", ")
        )
    }

    fn count(&mut self, case: &Case, run: &Run, is_kept: bool) {
        for law in &run.laws {
            let (kept, differ) = self.laws.entry(*law).or_default();
            *(if is_kept { kept } else { differ }) += 1;
        }
        if let Ok(plan) = case.plan() {
            self.pairs.count(&features(case, &plan, run));
        }
    }
}
