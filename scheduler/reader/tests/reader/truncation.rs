use goalmill_reader::{Catalogue, Limits, Verdict, calls, read};
use serde_json::json;

#[test]
fn a_cut_plan_keeps_every_complete_step_and_no_other() {
    let text = r#"{"goal": "g", "steps": [{"id": "a", "n": 1}, {"id": "b", "inputs": {"x": "y"}}, {"id": "c", "inputs": {"x": "12"#;
    let reading = read(text, &Catalogue::default(), &Limits::default());
    assert_eq!(reading.verdict, Verdict::Truncated { at: text.len() });
    let items: Vec<_> = reading.items.iter().map(|i| i.value.clone()).collect();
    assert_eq!(items, [json!({"id": "a", "n": 1}), json!({"id": "b", "inputs": {"x": "y"}})]);
    assert_eq!(reading.value, Some(json!({"goal": "g", "steps": items})));
}

#[test]
fn a_cut_action_is_never_a_call() {
    let whole = "Action:\n```json\n{\n  \"action\": \"count\",\n  \"action_input\": {\n    \"from\": \"2023-10-03\",\n    \"to\": \"2023-11-29\"\n  }\n}\n```";
    let end = whole.rfind('}').expect("there") + 1;
    for cut in 1..end {
        let reading = calls(&whole[..cut], &Catalogue::default(), &Limits::default());
        assert_eq!(reading.calls, [], "{}", &whole[..cut]);
        if cut > whole.find("\"action\"").expect("there") {
            assert!(matches!(reading.verdict, Verdict::Truncated { .. }), "{}", &whole[..cut]);
        }
    }
    let reading = calls(&whole[..end], &Catalogue::default(), &Limits::default());
    assert_eq!(reading.calls.len(), 1);
    assert_eq!(reading.verdict, Verdict::Repaired);
}

#[test]
fn every_cut_of_a_broken_plan_is_flagged_and_invents_nothing() {
    let text =
        "[{'step': '1. Leave at 9 o'clock', 'tool': 'a', 'param': {'n': 12}}, {'step': '2. Don't wait', 'tool': 'b'}]";
    let whole = read(text, &Catalogue::default(), &Limits::default());
    assert_eq!(whole.items.len(), 2);
    for cut in 2..text.len() {
        let reading = read(&text[..cut], &Catalogue::default(), &Limits::default());
        assert_eq!(reading.verdict, Verdict::Truncated { at: text[..cut].trim_end().len() }, "{}", &text[..cut]);
        assert!(reading.items.iter().zip(&whole.items).all(|(a, b)| a == b), "{}", &text[..cut]);
    }
}

#[test]
fn complete_calls_of_a_list_that_is_cut_are_kept() {
    let text = "[f(a=1), g(b='x'), h(c='y";
    let reading = calls(text, &Catalogue::default(), &Limits::default());
    assert!(matches!(reading.verdict, Verdict::Truncated { .. }));
    let names: Vec<_> = reading.calls.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["f", "g"]);
}
