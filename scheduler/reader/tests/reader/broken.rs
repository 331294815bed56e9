use goalmill_reader::{EditKind, ReaderLimits, Reading, ToolCatalogue, Verdict, parse_value};
use serde_json::{Value, json};

#[test]
fn an_apostrophe_inside_single_quotes_is_text() {
    let text = "[{'step': '1. Leave at 9 o'clock, by train (hard seat)', 'tool': '0'}, {'step': '2. Don't wait', 'tool': '1'}]";
    let reading = of(text);
    assert_eq!(
        value(&reading),
        json!([{"step": "1. Leave at 9 o'clock, by train (hard seat)", "tool": "0"}, {"step": "2. Don't wait", "tool": "1"}])
    );
    let edit = &reading.edits.iter().find(|e| e.kind == EditKind::QuoteEscaped).expect("an edit");
    assert_eq!(edit.at.slice(text), "'");
    assert_eq!(edit.at.start, text.find("'clock").expect("there"));
    assert_eq!((edit.was.as_str(), edit.became.as_str()), ("'", "\\'"));
}

#[test]
fn quotes_inside_double_quotes_are_text() {
    let text = r#"{"say": "He said "hello, world" and left", "to": "all"}"#;
    assert_eq!(value(&of(text)), json!({"say": "He said \"hello, world\" and left", "to": "all"}));
}

#[test]
fn a_bracket_that_is_missing_before_the_next_step_is_added() {
    let text = r#"[{"step": "a", "param": {"x": "1"}, {"step": "b", "param": {"x": "2"}}]"#;
    let reading = of(text);
    assert_eq!(value(&reading), json!([{"step": "a", "param": {"x": "1"}}, {"step": "b", "param": {"x": "2"}}]));
    assert_eq!(guesses(&reading), [EditKind::BracketAdded]);
}

#[test]
fn a_bracket_that_is_missing_at_the_end_is_added_and_one_too_many_is_dropped() {
    let reading = of(r#"[{"step": "a", "param": {"x": "1"}]"#);
    assert_eq!(value(&reading), json!([{"step": "a", "param": {"x": "1"}}]));
    assert_eq!(reading.verdict, Verdict::Repaired);
    let reading = of("[{'step': 'a', 'param': {'x': '1'}}}, {'step': 'b'}}]");
    assert_eq!(value(&reading), json!([{"step": "a", "param": {"x": "1"}}, {"step": "b"}]));
    assert_eq!(guesses(&reading), [EditKind::BracketDropped, EditKind::BracketDropped]);
    let reading = of(r#"[{"a": {"b": 1}]}]"#);
    assert_eq!(value(&reading), json!([{"a": {"b": 1}}]));
}

#[test]
fn a_list_that_closes_where_its_step_should_goes_on_with_the_next_step() {
    for text in [
        r#"{"steps":[{"id":"a"},{"id":"b"],{"id":"c"}]}"#,
        r#"{"steps":[{"id":"a"},{"id":"b","depends_on":["a"]],{"id":"c"}],"name":"n"}"#,
        r#"[{"id":"a"},{"id":"b"], {"id":"c"}]"#,
    ] {
        let reading = of(text);
        let ids: Vec<_> = reading.items.iter().map(|item| item.value["id"].clone()).collect();
        assert_eq!(ids, ["a", "b", "c"], "{text}: {:?}", reading.value);
        assert_eq!(guesses(&reading), [EditKind::BracketChanged], "{text}");
        assert!(reading.value.expect("a value").get("id").is_none(), "no field of a step is a field of the plan");
    }
}

#[test]
fn steps_of_documents_side_by_side_are_all_there_unless_one_stands_in_both() {
    let reading = of("{\"steps\":[{\"id\":\"a\"},{\"id\":\"b\"}]}\n{\"steps\":[{\"id\":\"c\"}]}");
    assert_eq!(value(&reading), json!([{"id": "a"}, {"id": "b"}, {"id": "c"}]));
    assert_eq!(reading.edits.iter().map(|e| e.kind).collect::<Vec<_>>(), [EditKind::ValuesListed]);
    let twice = of("{\"steps\":[{\"id\":\"a\"},{\"id\":\"b\"}]}\n{\"steps\":[{\"id\":\"b\"}]}");
    assert_eq!(value(&twice), json!({"steps": [{"id": "a"}, {"id": "b"}]}));
    assert_eq!(twice.others.len(), 1, "the other plan is named");
}

#[test]
fn an_ellipsis_among_steps_is_left_out() {
    let reading = of(r#"[{"step": "a"}, ..., {"step": "b"}]"#);
    assert_eq!(value(&reading), json!([{"step": "a"}, {"step": "b"}]));
    assert_eq!(guesses(&reading), [EditKind::TextDropped, EditKind::TextDropped]);
}

#[test]
fn a_placeholder_without_quotes_stays_what_it_is() {
    let reading = of("[{'step': 'a', 'guests': <number of guests>, 'n': 6}]");
    assert_eq!(value(&reading), json!([{"step": "a", "guests": "<number of guests>", "n": 6}]));
    assert_eq!(guesses(&reading), [EditKind::ValueQuoted]);
}

#[test]
fn dates_and_arithmetic_without_quotes_are_not_computed() {
    let reading = of("{'on': 2023-10-11, 'n': 2 * 3}");
    assert_eq!(value(&reading), json!({"on": "2023-10-11", "n": "2 * 3"}));
    assert!(guesses(&reading).contains(&EditKind::ExpressionQuoted));
}

#[test]
fn a_comma_or_a_colon_that_is_missing_is_added() {
    assert_eq!(value(&of("{\"a\": 1 \"b\": 2\n \"c\": \"x\" \"d\": 3}")), json!({"a": 1, "b": 2, "c": "x", "d": 3}));
    assert_eq!(value(&of(r#"[{"a": 1} {"a": 2}]"#)), json!([{"a": 1}, {"a": 2}]));
    assert_eq!(value(&of(r#"{"a" 1, "b" => 2}"#)), json!({"a": 1, "b": 2}));
}

#[test]
fn a_quote_that_is_missing_before_the_next_key_is_added() {
    let reading = of("{\"a\": \"one, \"b\": \"two\"}");
    assert_eq!(value(&reading), json!({"a": "one", "b": "two"}));
    assert!(guesses(&reading).contains(&EditKind::QuoteAdded));
}

#[test]
fn a_key_without_a_value_is_left_out_not_filled() {
    let reading = of("{'a': , 'b': 2, 'c': }");
    assert_eq!(value(&reading), json!({"b": 2}));
    assert_eq!(guesses(&reading), [EditKind::KeyDropped, EditKind::KeyDropped]);
}

#[test]
fn a_formula_is_kept_as_text() {
    let reading = of("{'x': lambda w: w > 1, 'y': f(a).b, 'z': 'a' + 'b'}");
    assert_eq!(value(&reading), json!({"x": "lambda w: w > 1", "y": "f(a).b", "z": "'a' + 'b'"}));
}

#[test]
fn braces_doubled_by_a_template_are_single() {
    assert_eq!(value(&of(r#"{{"a": 1}}"#)), json!({"a": 1}));
}

#[test]
fn a_fence_that_ends_before_the_brackets_closes_them() {
    let reading = of("```json\n[{\"step\": \"a\"}, {\"step\": \"b\"}\n```\nDone.");
    assert_eq!(value(&reading), json!([{"step": "a"}, {"step": "b"}]));
    assert_eq!(reading.verdict, Verdict::Repaired);
}

#[test]
fn a_quote_that_might_have_closed_a_text_is_said_to_be_kept() {
    let text = "[{'step': 'x'}'}'}]";
    let reading = of(text);
    assert_eq!(reading.items[0].value["step"], "x'}'}");
    let kept = reading.edits.iter().filter(|e| e.kind == EditKind::QuoteEscaped).count();
    assert_eq!(kept, 2, "{reading:?}");
}

fn of(text: &str) -> Reading {
    parse_value(text, &ToolCatalogue::default(), &ReaderLimits::default())
}

fn value(reading: &Reading) -> Value {
    reading.value.clone().unwrap_or_default()
}

fn guesses(reading: &Reading) -> Vec<EditKind> {
    reading.edits.iter().map(|e| e.kind).filter(|k| !k.keeps_meaning()).collect()
}
