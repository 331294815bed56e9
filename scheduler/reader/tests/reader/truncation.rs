use goalmill_reader::{
    ReaderLimits, Reading, TextEnd, ToolCatalogue, Verdict, parse_calls, parse_ended_value, parse_value,
};
use serde_json::json;

#[test]
fn a_cut_plan_keeps_every_complete_step_and_no_other() {
    let text = r#"{"goal": "g", "steps": [{"id": "a", "n": 1}, {"id": "b", "inputs": {"x": "y"}}, {"id": "c", "inputs": {"x": "12"#;
    let reading = parse_value(text, &ToolCatalogue::default(), &ReaderLimits::default());
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
        let reading = parse_calls(&whole[..cut], &ToolCatalogue::default(), &ReaderLimits::default());
        assert_eq!(reading.calls, [], "{}", &whole[..cut]);
        if cut > whole.find("\"action\"").expect("there") {
            assert!(matches!(reading.verdict, Verdict::Truncated { .. }), "{}", &whole[..cut]);
        }
    }
    let reading = parse_calls(&whole[..end], &ToolCatalogue::default(), &ReaderLimits::default());
    assert_eq!(reading.calls.len(), 1);
    assert_eq!(reading.verdict, Verdict::Repaired);
}

#[test]
fn every_cut_of_a_broken_plan_is_flagged_and_invents_nothing() {
    let text =
        "[{'step': '1. Leave at 9 o'clock', 'tool': 'a', 'param': {'n': 12}}, {'step': '2. Don't wait', 'tool': 'b'}]";
    let whole = parse_value(text, &ToolCatalogue::default(), &ReaderLimits::default());
    assert_eq!(whole.items.len(), 2);
    for cut in 2..text.len() {
        let reading = parse_value(&text[..cut], &ToolCatalogue::default(), &ReaderLimits::default());
        assert_eq!(reading.verdict, Verdict::Truncated { at: text[..cut].trim_end().len() }, "{}", &text[..cut]);
        assert!(reading.items.iter().zip(&whole.items).all(|(a, b)| a == b), "{}", &text[..cut]);
    }
}

#[test]
fn complete_calls_of_a_list_that_is_cut_are_kept() {
    let text = "[f(a=1), g(b='x'), h(c='y";
    let reading = parse_calls(text, &ToolCatalogue::default(), &ReaderLimits::default());
    assert!(matches!(reading.verdict, Verdict::Truncated { .. }));
    let names: Vec<_> = reading.calls.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["f", "g"]);
}

#[test]
fn a_list_in_prose_that_is_said_to_be_cut_loses_its_last_line() {
    let text = "Plan:\n1. Find a flight\n2. Book it\n3. Pay with the card";
    assert_eq!(prose(text, TextEnd::Stopped).0, ["Find a flight", "Book it", "Pay with the card"]);
    let (items, reading) = prose(text, TextEnd::Cut);
    assert_eq!(items, ["Find a flight", "Book it"]);
    assert_eq!(reading.verdict, Verdict::Truncated { at: text.len() });
    let (items, reading) = prose(&format!("{text}\n"), TextEnd::Cut);
    assert_eq!(items, ["Find a flight", "Book it", "Pay with the card"], "the line is whole");
    assert!(matches!(reading.verdict, Verdict::Truncated { .. }));
    let (items, _) = prose(&format!("{text}\n   of the"), TextEnd::Cut);
    assert_eq!(items, ["Find a flight", "Book it"], "the step goes on");
}

#[test]
fn a_list_in_prose_that_plainly_ends_in_the_middle_loses_its_last_line() {
    for end in ["Pay with the", "Pay (with", "Pay `card", "**Pay", "Pay,", "Pay the \"old", "支付（"] {
        let text = format!("1. Find a flight\n2. Book it\n3. {end}");
        let (items, reading) = prose(&text, TextEnd::Stopped);
        assert_eq!(items, ["Find a flight", "Book it"], "{end}");
        assert_eq!(reading.verdict, Verdict::Truncated { at: text.len() }, "{end}");
    }
    let (items, reading) = prose("1. Find a flight.\n2. Book it.\n3. Pay wi", TextEnd::Stopped);
    assert_eq!(items, ["Find a flight.", "Book it."], "the others end in a full stop");
    assert!(matches!(reading.verdict, Verdict::Truncated { .. }));
    for bare in ["3.", "3", "- ", "Step 3:"] {
        let (items, reading) = prose(&format!("1. Find a flight\n2. Book it\n{bare}"), TextEnd::Stopped);
        assert_eq!(items.len(), 2, "{bare}");
        assert!(matches!(reading.verdict, Verdict::Truncated { .. }), "{bare}");
    }
}

#[test]
fn no_cut_of_a_list_in_prose_has_a_step_that_the_whole_has_not() {
    let text = "Here is the plan:\n\n1. **Find** a flight to Rome\n   (the cheapest)\n2. Book it for two\n- Pay\n\nGood luck.\n";
    let (whole, _) = prose(text, TextEnd::Stopped);
    for cut in 1..text.len() {
        let (items, reading) = prose(&text[..cut], TextEnd::Cut);
        assert!(whole.starts_with(&items), "{}", &text[..cut]);
        assert!(items.is_empty() || matches!(reading.verdict, Verdict::Truncated { .. }), "{}", &text[..cut]);
    }
}

#[test]
fn what_a_string_holds_in_which_the_text_is_cut_is_no_plan() {
    let inside = "[{'id': 'x', 'action': 'f'}, {'id': 'y', 'action': 'g'}]; print(";
    for before in ["[\"run ", "{\"plan\": \"do ", "{\"steps\": [{\"id\": \"a\", \"inputs\": {\"code\": \""] {
        let text = format!("{before}{inside}");
        for ended in [TextEnd::Cut, TextEnd::Stopped] {
            let (items, reading) = prose(&text, ended);
            assert!(
                items.is_empty() && reading.verdict == Verdict::Truncated { at: text.len() },
                "{text}: {reading:?}"
            );
        }
    }
}

#[test]
fn a_text_that_goes_on_in_another_one_is_cut_with_it() {
    let text = "[{'step': 'find ' 'a flight', 'tool': 'f'}, 'book it ' 'for two', 'pay']";
    let whole = parse_ended_value(text, TextEnd::Stopped, &ToolCatalogue::default(), &ReaderLimits::default());
    assert_eq!(whole.items.len(), 3, "{whole:?}");
    for cut in (1..text.len()).filter(|cut| !text[..*cut].trim_end().ends_with("it '")) {
        let reading =
            parse_ended_value(&text[..cut], TextEnd::Cut, &ToolCatalogue::default(), &ReaderLimits::default());
        assert!(whole.items.starts_with(&reading.items), "{}: {:?}", &text[..cut], reading.items);
    }
}

#[test]
fn a_call_of_a_quoted_name_that_is_cut_in_an_argument_is_no_text() {
    let text = "[ 'paint'(size='30x40'), 'paint'(color='red') ]";
    let whole = parse_ended_value(text, TextEnd::Stopped, &ToolCatalogue::default(), &ReaderLimits::default());
    assert_eq!(whole.items.len(), 2, "{whole:?}");
    // Before its bracket comes, the name may be a text.
    let inside = |cut: &usize| !text[..*cut].ends_with("'paint'");
    for cut in (1..text.len()).filter(inside) {
        let reading =
            parse_ended_value(&text[..cut], TextEnd::Cut, &ToolCatalogue::default(), &ReaderLimits::default());
        assert!(whole.items.starts_with(&reading.items), "{}: {:?}", &text[..cut], reading.items);
    }
}

fn prose(text: &str, ended: TextEnd) -> (Vec<String>, Reading) {
    let reading = parse_ended_value(text, ended, &ToolCatalogue::default(), &ReaderLimits::default());
    let words = reading.items.iter().map(|i| i.value["description"].as_str().unwrap_or_default().to_owned());
    (words.collect(), reading)
}
