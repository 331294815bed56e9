//! Checks readers against tables of phrases: what is read, and look-alikes in which nothing is.

use goalmill_common::goal::Goal;

use super::Facts;

/// Thursday, 2026-11-26.
const NOW_MS: u64 = 1_795_683_600_000;

/// Asserts that each text is read as its row says; an empty text stands for nothing. Lists all rows that are not.
pub(super) fn check(rows: &[(&str, &str)], show: impl Fn(&Facts) -> String) {
    let misses: Vec<String> = rows
        .iter()
        .filter_map(|(text, expected)| {
            let found = show(&Facts::read(&Goal { description: (*text).into(), ..Goal::default() }, NOW_MS));
            (found != *expected).then(|| format!("{text}\n    expected `{expected}`\n    found    `{found}`"))
        })
        .collect();
    assert!(misses.is_empty(), "{} of {} rows:\n{}", misses.len(), rows.len(), misses.join("\n"));
}

/// Numbers by what they count, after a sign.
pub(super) fn listed<N: std::fmt::Display>(sign: &str, numbers: &std::collections::BTreeMap<String, N>) -> Vec<String> {
    numbers.iter().map(|(noun, number)| format!("{sign}{number} {noun}")).collect()
}
