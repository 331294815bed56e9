use goalmill_reader::{
    EditKind, ReaderLimits, Reading, TextSpan, ToolCatalogue, UnreadableReason, Verdict, parse_calls, parse_value,
};
use serde_json::{Value, json};

#[test]
fn strict_json_is_exact_and_has_no_edits() {
    let reading = of(r#" {"steps": [{"id": "a", "n": -1.5e3}, {"id": "b\u00e9\n"}]} "#);
    assert_eq!(reading.verdict, Verdict::Exact);
    assert_eq!(reading.edits, []);
    assert_eq!(value(&reading), json!({"steps": [{"id": "a", "n": -1500.0}, {"id": "bé\n"}]}));
    assert_eq!(reading.items.len(), 2);
}

#[test]
fn items_say_where_they_stand() {
    let text = "Here: [{'step': 'é'}, {'step': 'b'}]";
    let reading = of(text);
    let stretches: Vec<&str> = reading.items.iter().map(|i| i.span.slice(text)).collect();
    assert_eq!(stretches, ["{'step': 'é'}", "{'step': 'b'}"]);
}

#[test]
fn python_literals_keep_their_value_and_every_spelling_is_an_edit() {
    let text = r#"[{'a': True, 'b': None, 'c': (1, 2), 'd': "it's", 'e': 'x' 'y', 'f': 1_000, 'g': 'it\'s', 'h': (3), 'i': {'p', 'q'},}]"#;
    let reading = of(text);
    assert_eq!(reading.verdict, Verdict::Repaired);
    assert_eq!(
        value(&reading),
        json!([{"a": true, "b": null, "c": [1, 2], "d": "it's", "e": "xy", "f": 1000, "g": "it's", "h": 3, "i": ["p", "q"]}])
    );
    for kind in [
        EditKind::QuotesChanged,
        EditKind::ConstantRespelled,
        EditKind::ListRespelled,
        EditKind::StringsJoined,
        EditKind::NumberRespelled,
        EditKind::TrailingCommaDropped,
    ] {
        assert!(kinds(&reading).contains(&kind), "{kind:?}");
    }
    assert!(reading.edits.iter().all(|e| e.kind.keeps_meaning()));
}

#[test]
fn text_in_strings_is_never_taken_for_structure() {
    let text = "[{'step': '1. Book (Date and time: November 2, 2023, 9:00 AM)', 'tool': '0'}]";
    assert_eq!(value(&of(text)), json!([{"step": "1. Book (Date and time: November 2, 2023, 9:00 AM)", "tool": "0"}]));
    let text = "[{'step': 'a // b # c, {\"x\": [1]} ```', 'tool': '0'}]";
    assert_eq!(value(&of(text)), json!([{"step": "a // b # c, {\"x\": [1]} ```", "tool": "0"}]));
}

#[test]
fn a_solidus_keeps_its_backslash_in_python_and_loses_it_in_json() {
    assert_eq!(value(&of(r#"{"a": "x\/y"}"#)), json!({"a": "x/y"}));
    assert_eq!(value(&of(r#"{"a": "x\/y", 'b': None}"#)), json!({"a": "x\\/y", "b": null}));
}

#[test]
fn fences_and_prose_are_left_out_and_noted() {
    for text in [
        "Sure!\n```json\n[{\"id\": \"a\"}]\n```\nThat is all.",
        "```\n[{\"id\": \"a\"}]\n```",
        "```python\n[{\"id\": \"a\"}]",
        "The plan is [{\"id\": \"a\"}].",
    ] {
        let reading = of(text);
        assert_eq!(value(&reading), json!([{"id": "a"}]), "{text}");
        assert_eq!(reading.verdict, Verdict::Repaired, "{text}");
        assert!(reading.edits.iter().all(|e| e.kind.keeps_meaning()), "{:?}", reading.edits);
    }
    let edits = kinds(&of("Sure!\n```json\n[{\"id\": \"a\"}]\n```\nThat is all."));
    assert!(edits.contains(&EditKind::FenceDropped) && edits.contains(&EditKind::ProseDropped));
}

#[test]
fn prose_in_brackets_does_not_hide_the_plan() {
    let text = "As [the user] said {see above}, e.g. [1]:\n{\"steps\": [{\"id\": \"a\"}]}\nSee [2].";
    assert_eq!(value(&of(text)), json!({"steps": [{"id": "a"}]}));
}

#[test]
fn objects_line_by_line_are_a_list() {
    let reading = of("{\"id\": \"a\", \"action\": \"x\"}\n{\"id\": \"b\", \"action\": \"y\"}\n");
    assert_eq!(value(&reading), json!([{"id": "a", "action": "x"}, {"id": "b", "action": "y"}]));
    assert_eq!(reading.items.len(), 2);
    assert!(kinds(&reading).contains(&EditKind::ValuesListed));
}

#[test]
fn comments_and_bare_keys_are_read() {
    let text = "{\n  // first\n  id: \"a\", # second\n  /* third */ n: 1,\n}";
    assert_eq!(value(&of(text)), json!({"id": "a", "n": 1}));
}

#[test]
fn smart_quotes_are_quotes() {
    assert_eq!(value(&of("{“id”: “it’s”, “n”: 1}")), json!({"id": "it’s", "n": 1}));
}

#[test]
fn numbered_lines_are_steps_only_when_nothing_else_is_there() {
    let text = "Plan:\n1. Find a flight\n2. **Book** it\n3) Pay";
    let reading = of(text);
    assert_eq!(reading.items.len(), 3);
    assert_eq!(reading.items[0].value, json!({"description": "Find a flight"}));
    assert_eq!(reading.items[2].span.slice(text), "Pay");
    assert!(kinds(&reading).contains(&EditKind::LinesListed));
    assert_eq!(of("1. one\n2. two\n[{\"id\": \"a\"}]").items.len(), 1);
}

#[test]
fn a_string_of_json_is_unwrapped() {
    let reading = of(r#""[{\"id\": \"a\"}]""#);
    assert_eq!(value(&reading), json!([{"id": "a"}]));
    assert!(kinds(&reading).contains(&EditKind::Unwrapped));
}

#[test]
fn the_reading_that_names_known_actions_wins_and_the_others_are_listed() {
    let text = "Format: [{\"id\": \"…\", \"action\": \"NAME\", \"why\": \"because it is the longer one of the two\"}]\nPlan: [{\"id\": \"a\", \"action\": \"fetch\"}]";
    let catalogue = ToolCatalogue::from_schemas([("fetch", None)]);
    let reading = parse_value(text, &catalogue, &ReaderLimits::default());
    assert_eq!(value(&reading), json!([{"id": "a", "action": "fetch"}]));
    assert_eq!(reading.others.len(), 1);
}

#[test]
fn a_key_that_stands_twice_is_said() {
    let reading = of(r#"{"a": 1, "a": 2}"#);
    assert_eq!(value(&reading), json!({"a": 2}));
    assert!(kinds(&reading).contains(&EditKind::DuplicateDropped));
}

#[test]
fn a_number_that_cannot_be_held_is_said() {
    assert_eq!(of("[12345678901234567890123]").edits[0].kind, EditKind::NumberRounded);
    assert_eq!(of("[0.1, 1e22, 18446744073709551615]").verdict, Verdict::Exact);
}

#[test]
fn blanks_that_json_does_not_have_are_said() {
    let around = ["\u{a0}[1]", "[1]\u{2003}\n", " \u{a0}\n[1] \u{3000}", "\u{feff}[1]"]
        .map(|text| (text, EditKind::ProseDropped));
    for (text, kind) in around.into_iter().chain([("[1,\u{a0}2]", EditKind::CommentDropped)]) {
        let reading = of(text);
        assert_eq!((reading.verdict, kinds(&reading)), (Verdict::Repaired, vec![kind]), "{text:?}");
        assert!(serde_json::from_str::<Value>(text).is_err(), "{text:?}");
    }
    assert_eq!(of("\r\n\t [1] \n").verdict, Verdict::Exact);
    let call = r#"[{"name": "f", "arguments": {"a": 1}}]"#;
    let verdict = |text: &str| parse_calls(text, &ToolCatalogue::default(), &ReaderLimits::default()).verdict;
    assert_eq!((verdict(call), verdict(&format!("{call}\u{2003}"))), (Verdict::Exact, Verdict::Repaired));
}

#[test]
fn what_holds_nothing_says_why() {
    let reason = |text: &str| match of(text).verdict {
        Verdict::Unreadable { reason } => reason,
        other @ (Verdict::Exact | Verdict::Repaired | Verdict::Truncated { .. }) => panic!("`{text}` is {other:?}"),
    };
    assert_eq!(reason("  \n"), UnreadableReason::Empty);
    assert_eq!(reason("I cannot help with that."), UnreadableReason::NothingFound);
    assert_eq!(reason("steps:\n  - id: a\n    action: fetch\n  - id: b\n"), UnreadableReason::NothingFound, "YAML");
    assert_eq!(reason(&"[".repeat(5000)), UnreadableReason::TooDeep);
    let limits = ReaderLimits { bytes_max: 3, ..ReaderLimits::default() };
    let reading = parse_value("[1, 2]", &ToolCatalogue::default(), &limits);
    assert_eq!(reading.verdict, Verdict::Unreadable { reason: UnreadableReason::TooLong });
}

#[test]
fn a_span_outside_of_the_text_is_empty() {
    assert_eq!(TextSpan::new(3, 9).slice("abc"), "");
}

fn of(text: &str) -> Reading {
    parse_value(text, &ToolCatalogue::default(), &ReaderLimits::default())
}

fn value(reading: &Reading) -> Value {
    reading.value.clone().unwrap_or_default()
}

fn kinds(reading: &Reading) -> Vec<EditKind> {
    reading.edits.iter().map(|e| e.kind).collect()
}
