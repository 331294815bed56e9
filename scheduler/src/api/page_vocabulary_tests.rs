//! Writes `scheduler/page/vocabulary.js`, which tells the page the statuses and events, from their types. Holds the
//! scripts of the page to that file.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use goalmill_common::constraint::ConstraintStatus;
use goalmill_common::status::{PlanStatus, ProgressGroup, StatusGroup, StepStatus};
use goalmill_engine::{EventWords, plan_event_variants, plan_transition, step_event_variants, step_transition};

const NAME: &str = "vocabulary.js";

const HEAD: &str = "\
// The statuses and events that the page knows. Written from the types of the program by
// `cargo test -p goalmill-scheduler vocabulary`, as scheduler/src/api/page_vocabulary_tests.rs says.
";

#[test]
fn the_vocabulary_is_that_of_the_types() {
    let (path, written) = (directory().join(NAME), vocabulary());
    if fs::read_to_string(&path).unwrap_or_default() != written {
        fs::write(&path, written).expect("the file can be written");
        panic!("scheduler/page/{NAME} was old, and is written again: see the difference");
    }
}

#[test]
fn scripts_spell_no_status_and_no_event_that_is_not_in_the_vocabulary() {
    let statuses = statuses();
    let events: BTreeSet<&str> = goalmill_common::event::types().collect();
    let mut found = 0;
    for (name, script) in scripts() {
        let spelled = ["status === ", "status !== ", "status: ", "status = ", "setStatus(step, ", "tone(", " status("];
        for word in spelled.iter().flat_map(|before| words_after(&script, before)) {
            assert!(statuses.contains(word), "{name}: `{word}` is no status");
            found += 1;
        }
        let spelled = if name == "replay.js" { ["case ", "event.type === "].as_slice() } else { &["event.type === "] };
        for word in spelled.iter().flat_map(|before| words_after(&script, before)) {
            assert!(events.contains(word), "{name}: `{word}` is no event");
            found += 1;
        }
    }
    assert!(found > 40, "only {found} words were found: are they looked for in the right places?");
}

#[test]
fn no_script_lists_statuses_or_events() {
    let statuses = statuses();
    let events: BTreeSet<&str> = goalmill_common::event::types().collect();
    for (name, script) in scripts() {
        for (bracket, words) in lists(&script) {
            let known = |all: &BTreeSet<&str>| words.iter().filter(|word| all.contains(word.as_str())).count();
            // A `switch` or an object may name events: it reads the data of each.
            let is_list = known(&statuses) > 2 || (bracket != '{' && known(&events) > 2);
            assert!(!is_list, "{name} lists {words:?}: take them from {NAME}");
        }
    }
}

/// Where codes are explained.
const ERRORS: &str = include_str!("../../../docs/errors/README.md");

#[test]
fn lists_are_found_in_brackets_objects_and_texts() {
    let found = |script| {
        let words = lists(script).into_iter().map(|(_, words)| words.into_iter().collect::<Vec<_>>().join(" "));
        words.max_by_key(String::len).unwrap_or_default()
    };
    assert_eq!(found(r#"["a", "b"].includes(c)"#), "a b");
    assert_eq!(found(r#"{ a: f("x"), b: "y" }"#), "a b y");
    assert_eq!(found(r#"find(".status-a, .status-b")"#), "a b");
    assert_eq!(found(r#"{ const ALL = "a b c".split(" "); f("d"); }"#), "a b c");
    assert_eq!(found(r#"f(g("a"), g("b")) // ["a", "b"]"#), "b");
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("page")
}

/// Name and text of each script, without the vocabulary.
fn scripts() -> Vec<(String, String)> {
    let files = fs::read_dir(directory()).expect("the directory can be read").flatten().map(|file| file.path());
    let scripts = files.filter(|path| path.extension().is_some_and(|ending| ending == "js"));
    let named = scripts.map(|path| (path.file_name().unwrap_or_default().to_string_lossy().into_owned(), path));
    let others = named.filter(|(name, _)| name != NAME);
    others.map(|(name, path)| (name, fs::read_to_string(path).expect("a script is text"))).collect()
}

fn statuses() -> BTreeSet<&'static str> {
    let plans = PlanStatus::ALL.iter().map(|status| status.as_str());
    let steps = StepStatus::ALL.iter().map(|status| status.as_str());
    plans.chain(steps).chain(ConstraintStatus::ALL.iter().map(|status| status.as_str())).collect()
}

/// The quoted words that follow `before`.
fn words_after<'a>(script: &'a str, before: &str) -> Vec<&'a str> {
    let quoted = script.split(before).skip(1).filter_map(|rest| rest.strip_prefix('"')?.split('"').next());
    quoted.filter(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '_')).collect()
}

/// Each text with its words, and each pair of brackets with those of the texts in it and the keys of an object, without
/// those in brackets inside.
fn lists(script: &str) -> Vec<(char, BTreeSet<String>)> {
    let (mut open, mut closed) = (vec![(' ', BTreeSet::new())], Vec::new());
    let mut rest = script;
    while let Some(c) = rest.chars().next() {
        let word_end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let mut length = word_end.max(c.len_utf8());
        let is_inside = open.len() > 1;
        let (_, words) = open.last_mut().expect("the first is never closed");
        if rest.starts_with("//") {
            length = rest.find('\n').unwrap_or(rest.len());
        } else if c == '"' {
            let text = rest[1..].split('"').next().unwrap_or_default();
            length = (text.len() + 2).min(rest.len());
            let spelled = text.split([' ', ',']).map(|word| word.trim_start_matches(".status-").to_owned());
            let spelled: BTreeSet<String> = spelled.filter(|word| !word.is_empty()).collect();
            words.extend(spelled.iter().cloned());
            closed.push((c, spelled));
        } else if matches!(c, '(' | '[' | '{') {
            open.push((c, BTreeSet::new()));
        } else if matches!(c, ')' | ']' | '}') && is_inside {
            closed.extend(open.pop());
        } else if word_end > 0 && rest[word_end..].starts_with(": ") {
            words.insert(rest[..word_end].to_owned());
        }
        rest = &rest[length..];
    }
    closed.extend(open);
    closed
}

/// The file.
fn vocabulary() -> String {
    let mut out = String::from(HEAD);
    out.push_str("\n/** By status of a plan, a step or a constraint: its colour, whether it is final, its icon. */\n");
    out.push_str("export const STATUSES = {\n");
    let mut rows: Vec<(&str, String)> = Vec::new();
    let plans = PlanStatus::ALL.iter().map(|one| (one.as_str(), row(one.group(), one.is_final(), plan_icon(*one))));
    let steps = StepStatus::ALL.iter().map(|one| (one.as_str(), row(one.group(), one.is_final(), one.icon())));
    let constraints = ConstraintStatus::ALL.iter().map(|one| {
        let (group, icon) = constraint(*one);
        (one.as_str(), row(group, false, icon))
    });
    for (name, row) in plans.chain(steps).chain(constraints) {
        match rows.iter().find(|(known, _)| *known == name) {
            Some((_, shown)) => assert_eq!(*shown, row, "`{name}` is shown in one way"),
            None => rows.push((name, row)),
        }
    }
    rows.iter().for_each(|(name, row)| put(&mut out, name, row));
    out.push_str("};\n\nexport const PLAN_STATUSES = [");
    let quoted: Vec<String> = PlanStatus::ALL.iter().map(|status| format!("\"{status}\"")).collect();
    out.push_str(&quoted.join(", "));
    out.push_str("];\n\n/** What steps are counted under, with the colour, in the order of a bar. */\n");
    out.push_str("export const COUNTS = [");
    let counts = COUNTS.iter().map(|group| format!("[\"{group}\", \"{}\"]", count_colour(*group)));
    out.push_str(&counts.collect::<Vec<_>>().join(", "));
    out.push_str(
        "];\n\n/** By type of event: the status that it leads to, always or by words in its data; how it ends an attempt. */\n",
    );
    out.push_str("export const EVENTS = {\n");
    let of_plan = plan_event_variants().into_iter().map(|(words, event)| {
        let moves = PlanStatus::ALL.iter().filter_map(|at| Some((at.as_str(), plan_transition(*at, &event)?.as_str())));
        EventMove { name: event.type_name(), outcome: None, words, to: target(moves) }
    });
    let of_step = step_event_variants().into_iter().map(|(words, event)| {
        let moves = StepStatus::ALL.iter().filter_map(|at| Some((at.as_str(), step_transition(*at, &event)?.as_str())));
        EventMove { name: event.type_name(), outcome: event.outcome(), words, to: target(moves) }
    });
    let moves: Vec<EventMove> = of_plan.chain(of_step).collect();
    moves.chunk_by(|one, next| one.name == next.name).for_each(|of_type| put_event(&mut out, of_type));
    out.push_str("};\n\n/** Codes of failures that `goalmill explain` knows; agents send others. */\n");
    let failures = ERRORS.split("\n## Failures").nth(1).and_then(|part| part.split("\n## ").next()).unwrap_or_default();
    let codes: Vec<&str> = failures.lines().filter_map(|line| line.strip_prefix("#### ")).collect();
    writeln!(out, "export const EXPLAINED = \"{}\".split(\" \");", codes.join(" "))
        .expect("a text can always be written to");
    out
}

fn row(group: StatusGroup, is_final: bool, icon: &str) -> String {
    let end = if is_final { ", isFinal: true" } else { "" };
    format!("{{ tone: \"{group}\"{end}, icon: \"{icon}\" }}")
}

fn put(out: &mut String, name: &str, value: &str) {
    writeln!(out, "  {name}: {value},").expect("a text can always be written to");
}

/// Where an event with these words in its data leads.
struct EventMove {
    name: &'static str,
    outcome: Option<&'static str>,
    words: EventWords,
    to: Option<&'static str>,
}

/// The status that an event leads to; `None` where it always stays, or another status may follow each status.
fn target(moves: impl Iterator<Item = (&'static str, &'static str)>) -> Option<&'static str> {
    let moves: Vec<_> = moves.collect();
    let targets: BTreeSet<&str> = moves.iter().map(|(_, to)| *to).collect();
    let leads = targets.len() == 1 && moves.iter().any(|(from, to)| from != to);
    targets.into_iter().next().filter(|_| leads)
}

/// - `of_type`: the moves of one type of event.
fn put_event(out: &mut String, of_type: &[EventMove]) {
    let mut fields = Vec::new();
    let [first, ..] = of_type else { return };
    if first.words.is_empty() {
        fields.extend(first.to.map(|to| format!("to: \"{to}\"")));
    } else {
        let places: Vec<String> = first.words.iter().map(|(place, _)| format!("\"{place}\"")).collect();
        let leads = of_type.iter().filter_map(|one| {
            let words: Vec<&str> = one.words.iter().map(|(_, word)| *word).collect();
            Some(format!("\"{}\": \"{}\"", words.join(" "), one.to?))
        });
        let leads: Vec<String> = leads.collect();
        fields.push(format!("by: [{}], to: {{ {} }}", places.join(", "), leads.join(", ")));
    }
    fields.extend(first.outcome.map(|word| format!("outcome: \"{word}\"")));
    put(out, first.name, &if fields.is_empty() { "{}".into() } else { format!("{{ {} }}", fields.join(", ")) });
}

const COUNTS: [ProgressGroup; 5] = [
    ProgressGroup::Completed,
    ProgressGroup::Failed,
    ProgressGroup::Skipped,
    ProgressGroup::InProgress,
    ProgressGroup::Pending,
];

fn count_colour(group: ProgressGroup) -> &'static str {
    match group {
        ProgressGroup::Completed => "good",
        ProgressGroup::Failed => "bad",
        ProgressGroup::Skipped => "idle",
        ProgressGroup::InProgress => "busy",
        ProgressGroup::Pending => "none",
    }
}

fn plan_icon(status: PlanStatus) -> &'static str {
    match status {
        PlanStatus::Planning => "M3 12.5l6-6M10.5 2.5v2M10.5 8v2M7 5.5H5M13.8 5.5h-1.2",
        PlanStatus::AwaitingApproval => StepStatus::AwaitingApproval.icon(),
        PlanStatus::Running => StepStatus::Running.icon(),
        PlanStatus::Replanning => "M3 5h8l-2-2M13 11H5l2 2",
        PlanStatus::Paused => "M5.5 4v8M10.5 4v8",
        PlanStatus::Completed => StepStatus::Completed.icon(),
        PlanStatus::Partial => "M3.5 8.5l2.3 2.3M7 10.5L12.5 4.5M10 12.5h3",
        PlanStatus::Failed => StepStatus::Failed.icon(),
        PlanStatus::Cancelled => StepStatus::Cancelled.icon(),
        PlanStatus::Rejected => "M3.5 8h9M8 2.8a5.2 5.2 0 1 0 0 10.4A5.2 5.2 0 0 0 8 2.8",
    }
}

fn constraint(status: ConstraintStatus) -> (StatusGroup, &'static str) {
    match status {
        ConstraintStatus::Met => (StatusGroup::Good, StepStatus::Completed.icon()),
        ConstraintStatus::Low => (StatusGroup::Warn, "M8 3v6M8 12.2v.3"),
        ConstraintStatus::Broken => (StatusGroup::Bad, StepStatus::Failed.icon()),
        ConstraintStatus::Relaxed => (StatusGroup::Warn, "M3.5 10c2-5 3 3 9-4"),
        ConstraintStatus::NotMeasured => (StatusGroup::Idle, StepStatus::Pending.icon()),
    }
}
