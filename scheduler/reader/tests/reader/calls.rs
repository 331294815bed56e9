use goalmill_reader::{CallReading, EditKind, ReaderLimits, ToolCatalogue, Verdict, parse_calls};
use serde_json::{Value, json};

#[test]
fn a_call_is_read_in_every_notation() {
    for text in [
        "book_room(city='Rome', nights=2)",
        "[book_room(city=\"Rome\", nights=2)]",
        "```python\nresult = book_room(city='Rome', nights=2)\nprint(result)\n```",
        "Let me call `book_room(city='Rome', nights=2)` for you.",
        "[book_room({'city': 'Rome', 'nights': 2})]",
        "[{'name': 'book_room', 'arguments': {'city': 'Rome', 'nights': 2}}]",
        r#"{"name": "book_room", "parameters": "{\"city\": \"Rome\", \"nights\": 2}"}"#,
        r#"{"tool_calls": [{"type": "function", "function": {"name": "book_room", "arguments": "{\"city\": \"Rome\", \"nights\": 2}"}}]}"#,
        "<tool_call>\n{\"arguments\": {\"city\": \"Rome\", \"nights\": 2}, \"name\": \"book_room\"}\n</tool_call>",
        "<|im_start|>[book_room(city='Rome', nights=2)]",
        "<function=book_room>\n<parameter=city>\nRome\n</parameter>\n<parameter=nights>\n2\n</parameter>\n</function>",
        "<invoke name=\"book_room\"><parameter name=\"city\">Rome</parameter><parameter name=\"nights\">2</parameter></invoke>",
        "I will use it now.book_room\n{\"city\": \"Rome\", \"nights\": 2}",
        "Thought: go\nAction: book_room\nAction Input: {\"city\": \"Rome\", \"nights\": 2}\nObservation",
        r#"{"action": "book_room", "action_input": {"city": "Rome", "nights": 2}}"#,
        "{'book_room': {'city': 'Rome', 'nights': 2}}",
        "['book_room', {'city': 'Rome', 'nights': 2}]",
        "[\"book_room(city='Rome', nights=2)\"]",
        "['book_room(city='Rome', nights=2)']",
        "['book_room(city=Rome, nights=2)']",
        "['book_room(city='Rome', nights=2)’]",
        "[book\\_room(city='Rome', nights=2)]",
        "functions.book_room(city='Rome', nights=2)",
        "book_room('Rome', 2)",
        "[{'name': 'book_room', 'city': 'Rome', 'nights': '2'}]",
        "[book_room(city='Rome', nights=2)\n\nThis books the room.",
    ] {
        let reading = of(text);
        let found: Vec<(&str, Value)> =
            reading.calls.iter().map(|c| (c.name.as_str(), Value::Object(c.arguments.clone()))).collect();
        assert_eq!(found, [("book_room", json!({"city": "Rome", "nights": 2}))], "{text}");
    }
}

#[test]
fn a_plain_text_as_input_is_the_only_argument_that_an_action_can_mean() {
    let text = r#"{"action": "search", "action_input": "hotels in Rome"}"#;
    let query = json!({"properties": {"query": {"type": "string"}}, "required": ["query"]});
    let two = json!({"properties": {"query": {"type": "string"}, "place": {"type": "string"}}, "required": ["query", "place"]});
    let with = |schema: &Value| {
        parse_calls(text, &ToolCatalogue::from_schemas([("search", Some(schema))]), &ReaderLimits::default())
    };
    let reading = with(&query);
    assert_eq!(reading.calls.len(), 1, "{reading:?}");
    assert_eq!(Value::Object(reading.calls[0].arguments.clone()), json!({"query": "hotels in Rome"}));
    assert_eq!(reading.verdict, Verdict::Repaired);
    assert!(with(&two).calls.is_empty(), "it could be either of two");
    let unknown = parse_calls(text, &ToolCatalogue::default(), &ReaderLimits::default());
    assert_eq!(Value::Object(unknown.calls[0].arguments.clone()), json!({"0": "hotels in Rome"}));
}

#[test]
fn several_calls_keep_their_order() {
    for text in [
        "[book_room(city='Rome', nights=2), pay(amount=10.5)]",
        "book_room(city='Rome', nights=2)\npay(amount=10.5)",
        "1. ```\nbook_room(city='Rome', nights=2)\n```\n2. ```\npay(amount=10.5)\n```",
        "[book_room(city='Rome', nights=2) + pay(amount=10.5)]",
        "<tool_call>\n{\"name\": \"book_room\", \"arguments\": {\"city\": \"Rome\", \"nights\": 2}}\n</tool_call>\n<tool_call>\n{\"name\": \"pay\", \"arguments\": {\"amount\": 10.5}}\n</tool_call>",
    ] {
        let names: Vec<String> = of(text).calls.into_iter().map(|c| c.name).collect();
        assert_eq!(names, ["book_room", "pay"], "{text}");
    }
}

#[test]
fn quotes_inside_an_argument_are_text() {
    let reading = of("[pay(amount=1, note='Let's meet at 10 AM, it's fun')]");
    assert_eq!(reading.calls[0].arguments["note"], json!("Let's meet at 10 AM, it's fun"));
}

#[test]
fn a_quote_that_never_closes_does_not_swallow_the_next_call() {
    let reading = of("[book_room(nights=2, city='Rome), book_room(nights=1, city='Oslo')]");
    let cities: Vec<&Value> = reading.calls.iter().map(|c| &c.arguments["city"]).collect();
    assert_eq!(cities, ["Rome", "Oslo"]);
    assert!(reading.edits.iter().any(|e| e.kind == EditKind::QuoteAdded));
}

#[test]
fn a_call_inside_a_call_is_kept_as_written() {
    let reading = of("[pay(amount=price(of='room'))]");
    assert_eq!(reading.calls.len(), 1);
    assert_eq!(reading.calls[0].arguments["amount"], json!("price(of='room')"));
    assert!(reading.edits.iter().any(|e| e.kind == EditKind::ExpressionQuoted));
}

#[test]
fn a_name_that_was_given_a_value_once_stands_for_it() {
    for text in [
        "city = \"Rome\"\nn = 2\nbook_room(city=city, nights=n)",
        "city = 'Rome'; n = 2; book_room(city=city, nights=n)",
        "```python\ncity = 'Rome'  # of course\nn = 2\n\nresult = book_room(city, n)\nprint(result)\n```",
    ] {
        let reading = of(text);
        let arguments: Vec<Value> = reading.calls.iter().map(|c| Value::Object(c.arguments.clone())).collect();
        assert_eq!(arguments, [json!({"city": "Rome", "nights": 2})], "{text}");
        assert!(reading.edits.iter().any(|e| e.kind == EditKind::VariableRead && e.became.contains("Rome")), "{text}");
        assert_eq!(reading.verdict, Verdict::Repaired);
    }
}

#[test]
fn a_name_whose_value_is_not_written_stays_a_name() {
    for text in [
        "x = book_room(city='Rome', nights=2)\npay(amount=1, note=x)",
        "x = 'a'\nx = 'b'\npay(amount=1, note=x)",
        "x = 'a' + other\npay(amount=1, note=x)",
        "x = 'a'.upper()\npay(amount=1, note=x)",
        "g(\n  x='a'\n)\nx = y\npay(amount=1, note=x)",
    ] {
        let reading = of(text);
        let last = reading.calls.last().expect("a call");
        assert_eq!((last.name.as_str(), &last.arguments["note"]), ("pay", &json!("x")), "{text}");
        assert!(reading.edits.iter().any(|e| e.kind == EditKind::ExpressionQuoted && e.was == "x"), "{text}");
    }
}

#[test]
fn a_definition_or_a_mention_is_no_call() {
    let text = "def pay(amount: float) -> None:\n    ...\nUse `pay()` like this:\npay(amount=3)";
    let reading = of(text);
    assert_eq!(reading.calls.len(), 1);
    assert_eq!(reading.calls[0].arguments["amount"], json!(3));
}

#[test]
fn what_is_taken_for_another_name_or_type_is_an_edit() {
    let reading = of("bookroom(city='Rome', nights='2')");
    assert_eq!(reading.calls[0].name, "book_room");
    assert_eq!(reading.calls[0].arguments["nights"], json!(2));
    let kinds: Vec<EditKind> = reading.edits.iter().map(|e| e.kind).collect();
    assert!(kinds.contains(&EditKind::NameMatched) && kinds.contains(&EditKind::TypeCoerced), "{kinds:?}");
}

#[test]
fn a_text_without_a_call_is_unreadable() {
    for text in ["I need the city first.", "[]", "book_room needs a city", ""] {
        assert!(matches!(of(text).verdict, Verdict::Unreadable { .. }), "{text}");
    }
}

fn of(text: &str) -> CallReading {
    let room = json!({"type": "object", "properties": {"city": {"type": "string"}, "nights": {"type": "integer"}}, "required": ["city", "nights"]});
    let pay = json!({"type": "object", "properties": {"amount": {"type": "number"}, "note": {"type": "string"}}, "required": ["amount"]});
    let catalogue = ToolCatalogue::from_schemas([("book_room", Some(&room)), ("pay", Some(&pay))]);
    parse_calls(text, &catalogue, &ReaderLimits::default())
}
