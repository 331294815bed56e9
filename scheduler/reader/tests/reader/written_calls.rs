use goalmill_reader::{ReaderLimits, ToolCatalogue, WrittenCalls, parse_written_calls};
use serde_json::{Value, json};

const CALL: &str = r#"{"name": "delete_note", "arguments": {"id": "7"}}"#;

#[test]
fn a_text_of_calls_is_read_in_the_forms_of_models() {
    for text in [
        CALL.to_owned(),
        format!("<tool_call>{CALL}</tool_call>"),
        format!("<tool_call>\n{CALL}\n</tool_call>\n"),
        format!("<tool_call>\n{CALL}"),
        format!("<think>It may be `list_notes()`.</think>\n{CALL}"),
        format!("```json\n{CALL}\n```"),
        format!("```\n{CALL}\n```"),
        format!("```tool_call\n{CALL}\n```"),
        format!("[TOOL_CALLS][{CALL}]"),
        format!("<|python_tag|>{CALL}<|eom_id|>"),
        format!("<|im_start|><tool_call>{CALL}</tool_call><|im_end|>"),
        format!("<｜tool▁calls▁begin｜>{CALL}<｜tool▁calls▁end｜>"),
        format!("{{\"tool_calls\": [{CALL}]}}"),
        format!("{{\"tool_calls\": [{{\"id\": \"a\", \"type\": \"function\", \"function\": {CALL}}}]}}"),
        r#"{"name": "delete_note", "parameters": "{\"id\": \"7\"}"}"#.to_owned(),
        r#"{"action": "delete_note", "action_input": {"id": "7"}}"#.to_owned(),
        "delete_note(id='7')".to_owned(),
        "[delete_note(id=\"7\")]".to_owned(),
        "`delete_note(id='7')`".to_owned(),
        "```python\ndelete_note(id='7')\n```".to_owned(),
        "functions.delete_note(id='7')".to_owned(),
        "<function=delete_note>\n<parameter=id>\n7\n</parameter>\n</function>".to_owned(),
        "<function_calls><invoke name=\"delete_note\"><parameter name=\"id\">7</parameter></invoke></function_calls>"
            .to_owned(),
        "Action: delete_note\nAction Input: {\"id\": \"7\"}".to_owned(),
    ] {
        let WrittenCalls::Only(calls) = of(&text) else { panic!("{text}: {:?}", of(&text)) };
        let found: Vec<(&str, &Value)> = calls.iter().map(|call| (call.name.as_str(), &call.arguments["id"])).collect();
        assert_eq!(found, [("delete_note", &json!("7"))], "{text}");
    }
    let two = format!("<tool_call>{CALL}</tool_call>\n<tool_call>{}</tool_call>", CALL.replace('7', "8"));
    assert!(matches!(of(&two), WrittenCalls::Only(calls) if calls.len() == 2));
}

#[test]
fn a_call_among_other_words_is_told_from_a_text_of_calls() {
    for text in [
        "The note says: delete_note(id='7'). I did not act on it.".to_owned(),
        "I called delete_note(id='7'), and it is deleted.".to_owned(),
        "delete_note(id='7') was asked for".to_owned(),
        "Do you want delete_note(id='7')?".to_owned(),
        "delete_note(id='7')?".to_owned(),
        "\"delete_note(id='7')\"".to_owned(),
        "> delete_note(id='7')".to_owned(),
        "# delete_note(id='7')".to_owned(),
        "print(delete_note(id='7'))".to_owned(),
        "note = delete_note(id='7')".to_owned(),
        "[\"delete_note(id='7')\"]".to_owned(),
        "[\"done\", delete_note(id='7')]".to_owned(),
        format!("The mail holds\n```json\n{CALL}\n```"),
        format!("```The mail holds {CALL}```"),
        format!("The mail holds <tool_call>{CALL}</tool_call>"),
        format!("<tool_call>{CALL}</tool_call> is what the mail says"),
        format!("<quote>{CALL}</quote>"),
        format!("<tool_call>The mail says {CALL}</tool_call>"),
        format!("{{\"result\": \"ignored\", \"quoted\": {CALL}}}"),
        format!("{{\"result\": \"ignored\", \"function\": {CALL}}}"),
        format!("[{{\"result\": \"ignored\"}}, {CALL}]"),
        format!("{{\"said\": {CALL}}}"),
        r#"{"result": "ignored", "name": "delete_note", "arguments": {"id": "7"}}"#.to_owned(),
        r#"{"name": "delete_note", "arguments": {"id": "7"}, "note": "not run"}"#.to_owned(),
        format!("<think>a</think>It says {CALL}"),
    ] {
        assert!(matches!(of(&text), WrittenCalls::Among(_)), "{text}: {:?}", of(&text));
    }
}

#[test]
fn a_text_without_a_call_of_a_known_action_has_none() {
    for text in [
        "{\"result\": \"it says delete_note(id='7')\"}",
        "Use delete_note for that.",
        "shell(command='ls')",
        "<think>delete_note(id='7')</think>{\"result\": 1}",
        "<think>delete_note(id='7')",
        "",
    ] {
        assert_eq!(of(text), WrittenCalls::None, "{text}");
    }
}

fn of(text: &str) -> WrittenCalls {
    let note = json!({"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]});
    let none = json!({"type": "object", "properties": {}});
    let catalogue = ToolCatalogue::from_schemas([("delete_note", Some(&note)), ("list_notes", Some(&none))]);
    parse_written_calls(text, &catalogue, &ReaderLimits::default())
}
