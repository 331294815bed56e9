//! The page on a plan's life says what the engine does: its tables are those of the code.

use std::fmt::Write;
use std::fs;

use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_engine::{plan_event_variants, plan_transition, step_event_variants, step_transition};

/// The page, from the package's directory.
const PAGE: &str = "../../docs/plan-lifecycle.md";

#[test]
fn the_moves_of_steps_are_those_of_the_page() {
    let variants = step_event_variants();
    let rows = variants.chunk_by(|(_, one), (_, next)| one.type_name() == next.type_name()).map(|of_type| {
        let moves = StepStatus::ALL.iter().flat_map(|at| {
            let next = of_type.iter().filter_map(|(_, event)| step_transition(*at, event));
            next.map(|to| (at.as_str(), to.as_str()))
        });
        (of_type[0].1.type_name(), moves.collect())
    });
    let open = words(StepStatus::ALL.iter().filter(|status| !status.is_final()).map(|status| status.as_str()));
    compare("step moves", &table(&open, rows));
}

#[test]
fn the_moves_of_plans_are_those_of_the_page() {
    let variants = plan_event_variants();
    let rows = variants.chunk_by(|(_, one), (_, next)| one.type_name() == next.type_name()).map(|of_type| {
        let moves = PlanStatus::ALL.iter().flat_map(|at| {
            let next = of_type.iter().filter_map(|(_, event)| plan_transition(*at, event));
            next.map(|to| (at.as_str(), to.as_str()))
        });
        (of_type[0].1.type_name(), moves.collect())
    });
    let open = words(PlanStatus::ALL.iter().filter(|status| !status.is_final()).map(|status| status.as_str()));
    compare("plan moves", &table(&open, rows));
}

#[test]
fn every_status_is_on_the_page_and_what_waits_has_a_wake_up() {
    let page = fs::read_to_string(PAGE).expect("the page is there");
    let row = |word: &str| page.lines().find(|line| line.starts_with(&format!("| `{word}` |"))).map(str::to_owned);
    let plans = PlanStatus::ALL.iter().map(|status| (status.as_str(), status.is_final()));
    let steps = StepStatus::ALL.iter().map(|status| (status.as_str(), status.is_final()));
    for (word, is_final) in plans.chain(steps) {
        let row = row(word).unwrap_or_else(|| panic!("`{word}` is missing in {PAGE}"));
        assert_eq!(row.contains("| final |"), is_final, "{row}");
    }
}

/// Event, from where, to where; `=` where the status stays. `open` lists the statuses that are not final.
fn table<'a>(open: &str, rows: impl IntoIterator<Item = (&'a str, Vec<(&'a str, &'a str)>)>) -> String {
    let mut text = String::from("| event | from | to |\n|---|---|---|\n");
    for (name, moves) in rows {
        let stays = !moves.is_empty() && moves.iter().all(|(from, to)| from == to);
        let from = words(moves.iter().map(|(from, _)| *from)).replace(open, "every open one");
        let to = if stays { "=".into() } else { words(moves.iter().map(|(_, to)| *to)) };
        writeln!(text, "| `{name}` | {from} | {to} |").expect("a text can always be written to");
    }
    text
}

/// Each word once, in the order of a life; a dash for none.
fn words<'a>(all: impl Iterator<Item = &'a str>) -> String {
    let mut once: Vec<String> = Vec::new();
    for word in all.map(|word| format!("`{word}`")) {
        if !once.contains(&word) {
            once.push(word);
        }
    }
    if once.is_empty() { "–".into() } else { once.join(", ") }
}

/// Compares a table of the page with that of the code. An old one is written again.
fn compare(name: &str, expected: &str) {
    let page = fs::read_to_string(PAGE).expect("the page is there");
    let mark = format!("<!-- {name} -->\n\n");
    let (before, rest) = page.split_once(&mark).unwrap_or_else(|| panic!("{PAGE} has no table `{name}`"));
    let (found, after) = rest.split_once("\n\n").expect("text follows the table");
    let expected = expected.trim_end();
    if found != expected {
        fs::write(PAGE, format!("{before}{mark}{expected}\n\n{after}")).expect("the page can be written");
        panic!("the table `{name}` in {PAGE} was old, and is written again: see the difference");
    }
}
