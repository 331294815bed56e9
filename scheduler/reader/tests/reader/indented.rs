use goalmill_reader::{
    EditKind, ReaderLimits, Reading, TextEnd, ToolCatalogue, Verdict, parse_calls, parse_ended_value, parse_value,
};
use serde_json::{Value, json};

const PLAN: &str = "goal: Book a trip\nsteps:\n  - id: find\n    agent: search   # the cheap one\n    inputs:\n      query: \"flights: Rome\"\n      nights: 2\n      tags: [red, 'a, b', 3]\n  - id: book\n    agent: travel\n    depends_on: [find]\n    inputs: {city: Rome, window: true}\n  - id: tell\n    agent: mail\n    depends_on:\n    - book\n    inputs:\n      text: |\n        Dear all,\n          we go.\n      subject: It's booked\n        for two\n";

fn plan() -> Value {
    json!({"goal": "Book a trip", "steps": [
        {"id": "find", "agent": "search", "inputs": {"query": "flights: Rome", "nights": 2, "tags": ["red", "a, b", 3]}},
        {"id": "book", "agent": "travel", "depends_on": ["find"], "inputs": {"city": "Rome", "window": true}},
        {"id": "tell", "agent": "mail", "depends_on": ["book"], "inputs": {"text": "Dear all,\n  we go.\n", "subject": "It's booked for two"}},
    ]})
}

#[test]
fn a_plan_in_yaml_is_read_as_written() {
    for text in [
        PLAN.to_owned(),
        format!("Sure, this is the plan:\n\n```yaml\n{PLAN}```\nGood luck!"),
        format!("Sure, this is the plan:\n\n{PLAN}\nGood luck! [1]"),
        format!("---\n{PLAN}"),
    ] {
        let reading = of(&text);
        assert_eq!(reading.value, Some(plan()), "{text}");
        assert_eq!(reading.verdict, Verdict::Repaired, "{text}");
        assert_eq!(reading.items.len(), 3);
        assert!(reading.items[1].span.slice(&text).starts_with("id: book"));
        assert!(reading.edits.iter().any(|e| e.kind == EditKind::BlockRead));
        assert!(reading.edits.iter().all(|e| e.kind.keeps_meaning()), "{:?}", reading.edits);
    }
}

#[test]
fn steps_in_a_list_of_tables_by_indentation_are_read() {
    let reading = of("Steps:\n- id: a\n  agent: b\n\n- id: c\n  agent: d\n  depends_on: []\nThat is all.");
    assert_eq!(
        reading.value,
        Some(json!({"Steps": [{"id": "a", "agent": "b"}, {"id": "c", "agent": "d", "depends_on": []}]}))
    );
    let reading = of("- id: a\n  agent: b\n- id: c\n  agent: d");
    assert_eq!(reading.value, Some(json!([{"id": "a", "agent": "b"}, {"id": "c", "agent": "d"}])));
    assert_eq!(reading.verdict, Verdict::Repaired);
}

#[test]
fn yaml_that_has_more_than_one_meaning_is_not_read() {
    for text in [
        "- id: &x a\n  agent: b\n- id: *x\n  agent: c\n",
        "- id: !tag a\n  agent: b\n",
        "- id: a: b\n  agent: c\n",
        "- id: a\n\tagent: b\n",
        "- id: 0x1f\n  agent: b\n",
        "- id: a\n    agent: b\n   n: 1\n",
        "- id: a\n  agent: 'it's'\n",
    ] {
        let reading = of(text);
        assert!(!reading.edits.iter().any(|e| e.kind == EditKind::BlockRead), "{text} {:?}", reading.value);
    }
    for word in ["yes", "007"] {
        let reading = of(&format!("- id: a\n  agent: {word}\n"));
        assert_eq!(reading.value, Some(json!([{"id": "a", "agent": word}])));
        assert!(reading.edits.iter().any(|e| e.kind == EditKind::ValueQuoted), "readers differ on `{word}`");
    }
}

#[test]
fn prose_with_dashes_and_colons_is_no_yaml() {
    for text in [
        "Note: this is fine\nWarning: that is not\n",
        "- Note: look\n- Warning: leap\n",
        "- name: John\n- age: 5\n",
        "Thought: go\nAction: look\nAction Input: {\"a\": 1}\n",
        "Dear all:\n- one\n- two\n",
    ] {
        assert!(!of(text).edits.iter().any(|e| e.kind == EditKind::BlockRead), "{text}");
    }
    let broken = of("steps:\n  - id: a\n    agent: \"b\n    c: d\n\n[{\"id\": \"x\", \"agent\": \"y\"}]");
    assert_eq!(broken.value, Some(json!([{"id": "x", "agent": "y"}])));
}

#[test]
fn no_cut_of_a_plan_in_yaml_has_a_step_the_whole_has_not() {
    let whole = of(PLAN);
    for cut in 1..PLAN.len() {
        let text = &PLAN[..cut];
        let reading = parse_ended_value(text, TextEnd::Cut, &ToolCatalogue::default(), &ReaderLimits::default());
        assert!(whole.items.starts_with(&reading.items), "{text} {:?}", reading.items);
        assert!(!matches!(reading.verdict, Verdict::Exact | Verdict::Repaired), "{text}");
        let fenced = format!("```yaml\n{text}");
        let reading = of(&fenced);
        let values: Vec<&Value> = reading.items.iter().map(|i| &i.value).collect();
        assert!(whole.items.iter().map(|i| &i.value).take(values.len()).eq(values), "{fenced}");
        assert!(!matches!(reading.verdict, Verdict::Exact | Verdict::Repaired), "{fenced}");
    }
}

#[test]
fn yaml_that_plainly_ends_in_the_middle_is_cut() {
    let head = "- id: a\n  agent: b\n  inputs: {q: x}\n- id: c\n  agent: d\n  inputs: {q: x}\n";
    for end in [
        "- id: e",
        "- id: e\n  agent:",
        "- id: e\n  agent: f\n  inputs: {q: ",
        "- id: e\n  agent: \"f",
        "-",
        "- id: e\n  agent: f\n  inputs:\n    q: look at the",
    ] {
        let text = format!("{head}{end}");
        let reading = of(&text);
        assert_eq!(reading.items.len(), 2, "{text} {:?}", reading.items);
        assert!(matches!(reading.verdict, Verdict::Truncated { .. }), "{text}");
    }
}

#[test]
fn calls_in_yaml_are_read_when_something_closes_them() {
    let text = "- name: book_room\n  arguments:\n    city: Rome\n    nights: 2\n";
    let catalogue = ToolCatalogue::from_schemas([("book_room", None)]);
    let reading = parse_calls(&format!("```yaml\n{text}```"), &catalogue, &ReaderLimits::default());
    assert_eq!(reading.calls.len(), 1);
    assert_eq!(Value::Object(reading.calls[0].arguments.clone()), json!({"city": "Rome", "nights": 2}));
    let reading = parse_calls(text, &catalogue, &ReaderLimits::default());
    assert_eq!(reading.calls, [], "the last line may be cut");
    assert!(matches!(reading.verdict, Verdict::Truncated { .. }));
}

fn of(text: &str) -> Reading {
    parse_value(text, &ToolCatalogue::default(), &ReaderLimits::default())
}
