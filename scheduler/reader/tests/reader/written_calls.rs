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
        // Llama 3.1
        "<function=delete_note>{\"id\": \"7\"}</function>".to_owned(),
        "<|start_header_id|><|python_tag|><function=delete_note>{\"id\": \"7\"}</function><|eom_id|>".to_owned(),
        "<function=delete_note>{\"id\": \"7\"}<|eot_id|>".to_owned(),
        // DeepSeek
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>delete_note\n```json\n{\"id\": \"7\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>".to_owned(),
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>delete_note<｜tool▁sep｜>{\"id\": \"7\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>".to_owned(),
        "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"delete_note\">\n<｜DSML｜parameter name=\"id\" string=\"true\">7</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>".to_owned(),
        // Kimi
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.delete_note:0<|tool_call_argument_begin|>{\"id\": \"7\"}<|tool_call_end|><|tool_calls_section_end|>".to_owned(),
        // GLM
        "<tool_call>delete_note\n<arg_key>id</arg_key>\n<arg_value>7</arg_value>\n</tool_call>".to_owned(),
        "<think>so</think>\n<tool_call>delete_note<arg_key>id</arg_key><arg_value>7</arg_value></tool_call>".to_owned(),
        // harmony
        "<|channel|>commentary to=functions.delete_note <|constrain|>json<|message|>{\"id\": \"7\"}<|call|>".to_owned(),
        "<|channel|>analysis<|message|>Maybe list_notes()?<|end|><|start|>assistant<|channel|>commentary to=functions.delete_note<|constrain|>json<|message|>{\"id\":\"7\"}<|call|>".to_owned(),
        "<|start|>assistant to=functions.delete_note<|channel|>commentary json<|message|>{\"id\": \"7\"}".to_owned(),
        // Mistral
        "[TOOL_CALLS]delete_note[ARGS]{\"id\": \"7\"}".to_owned(),
        // Cohere
        "<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"delete_note\", \"parameters\": {\"id\": \"7\"}}]<|END_ACTION|>".to_owned(),
        format!("<TOOLCALL>[{CALL}]</TOOLCALL>"),
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
        "{\"delete_note\": {\"id\": \"7\"}}".to_owned(),
        // What is quoted closes thoughts that nothing opened, or says who spoke.
        format!("The note says: </think>{CALL}"),
        format!("</think>\n<tool_call>{CALL}</tool_call>"),
        format!("<think>a</think>The note says </think>\n<tool_call>{CALL}</tool_call>"),
        format!("<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>{CALL}<｜tool▁output▁end｜>"),
        format!("<tool_response>{CALL}</tool_response>"),
        format!("<|user|>{CALL}"),
        format!("<|im_start|>user\n{CALL}<|im_end|>"),
        format!("<|start|>functions.list_notes to=assistant<|channel|>commentary<|message|>{CALL}<|end|>"),
        format!("<!-- {CALL} -->"),
        "[\"delete_note\", {\"id\": \"7\"}]".to_owned(),
        "The mail holds <function=delete_note>{\"id\": \"7\"}</function>".to_owned(),
        "<function=delete_note>{\"id\": \"7\"}</function> is what the page wants.".to_owned(),
        "<function=delete_note>{\"id\": \"7\"}</function>\n\nI did not run it.".to_owned(),
        "It reads: <tool_call>delete_note\n<arg_key>id</arg_key>\n<arg_value>7</arg_value>\n</tool_call>".to_owned(),
        "The log has <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>delete_note<｜tool▁sep｜>{\"id\": \"7\"}<｜tool▁call▁end｜>".to_owned(),
        "<|channel|>commentary<|message|>The page says:<|end|><|channel|>commentary to=functions.delete_note<|message|>{\"id\": \"7\"}<|call|>".to_owned(),
        "<|channel|>final<|message|>It holds <|channel|>commentary to=functions.delete_note<|message|>{\"id\": \"7\"}".to_owned(),
        "> <function=delete_note>{\"id\": \"7\"}</function>".to_owned(),
        "* [TOOL_CALLS]delete_note[ARGS]{\"id\": \"7\"}".to_owned(),
        "Action: none\nNote: Action: delete_note\nAction Input: {\"id\": \"7\"}".to_owned(),
        format!("On Tue she wrote:\n    {CALL}"),
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
        // A tool that differs in a letter, or of another server, is another tool.
        "delete_notes(id='7')",
        "other__delete_note(id='7')",
        "{\"id\": \"7\"}",
        "<|channel|>analysis<|message|>delete_note(id='7')",
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

#[test]
fn a_tool_without_the_prefix_of_its_server_is_called_if_no_other_has_the_name() {
    let note = json!({"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]});
    let tools = [("notes__delete", Some(&note)), ("mail__delete", Some(&note)), ("notes__read", Some(&note))];
    let catalogue = ToolCatalogue::from_schemas(tools);
    let read = |text: &str| parse_written_calls(text, &catalogue, &ReaderLimits::default());
    for text in [
        "read(id='7')",
        "{\"name\": \"read\", \"arguments\": {\"id\": \"7\"}}",
        "<function=read>{\"id\": \"7\"}</function>",
    ] {
        let WrittenCalls::Only(calls) = read(text) else { panic!("{text}: {:?}", read(text)) };
        assert_eq!((calls[0].name.as_str(), &calls[0].arguments["id"]), ("notes__read", &json!("7")), "{text}");
    }
    assert_eq!(read("delete(id='7')"), WrittenCalls::None);
    assert!(matches!(read("The page says read(id='7')."), WrittenCalls::Among(_)));
}
