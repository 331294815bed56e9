use goalmill_reader::{ReaderLimits, Reading, Stream, TextEnd, ToolCatalogue, Verdict, parse_calls, parse_value};
use proptest::prelude::*;
use serde_json::{Map, Value};

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_without_panic(text in any_text()) {
        let catalogue = ToolCatalogue::from_schemas([("f", None), ("do_it", Some(&serde_json::json!({"properties": {"a": {"type": "integer"}}})))]);
        let reading = parse_value(&text, &catalogue, &ReaderLimits::default());
        for edit in &reading.edits {
            prop_assert!(edit.at.end <= text.len());
            prop_assert!(text.is_char_boundary(edit.at.start) && text.is_char_boundary(edit.at.end));
        }
        for item in &reading.items {
            prop_assert!(text.get(item.span.start..item.span.end).is_some());
        }
        if reading.verdict == Verdict::Exact {
            let strict: Result<Value, _> = serde_json::from_str(&text);
            prop_assert_eq!(strict.ok(), reading.value);
        }
        drop(parse_calls(&text, &catalogue, &ReaderLimits::default()));
        drop(parse_calls(&text, &ToolCatalogue::default(), &ReaderLimits::default()));
    }

    #[test]
    fn any_bytes_may_be_streamed(bytes in proptest::collection::vec(any::<u8>(), 0..200), size in 1..9_usize) {
        let mut stream = Stream::new(ReaderLimits::default());
        for chunk in bytes.chunks(size) {
            stream.push(chunk);
        }
        drop(stream.finish(&ToolCatalogue::default(), TextEnd::Stopped));
    }

    #[test]
    fn json_reads_back_exactly(value in tree()) {
        let compact = value.to_string();
        let reading = of(&compact);
        prop_assert_eq!(reading.verdict, Verdict::Exact);
        prop_assert_eq!(reading.value.as_ref(), Some(&value));
        let pretty = format!("{value:#}");
        prop_assert_eq!(of(&pretty).value, Some(value));
    }

    #[test]
    fn python_literals_read_back_the_same(value in tree()) {
        let reading = of(&python(&value));
        prop_assert_eq!(reading.value.as_ref(), Some(&value));
        prop_assert!(reading.edits.iter().all(|e| e.kind.keeps_meaning()));
    }

    #[test]
    fn fenced_values_read_back_the_same(value in tree()) {
        prop_assume!(!value.to_string().contains("``"));
        let reading = of(&format!("Sure, here it is:\n```json\n{value:#}\n```\nGood luck!"));
        prop_assert_eq!(reading.value.as_ref(), Some(&value));
        prop_assert_eq!(reading.verdict, Verdict::Repaired);
    }

    #[test]
    fn no_prefix_has_a_step_the_whole_has_not(steps in proptest::collection::vec(tree(), 1..5), at in any::<proptest::sample::Index>(), literal in any::<bool>()) {
        let plan: Vec<Value> = steps.into_iter().enumerate().map(|(n, inputs)| serde_json::json!({"id": n.to_string(), "inputs": inputs})).collect();
        let plan = Value::Array(plan);
        let text = if literal { python(&plan) } else { plan.to_string() };
        let whole = of(&text);
        let places: Vec<usize> = text.char_indices().map(|(n, _)| n).filter(|n| *n > 0).collect();
        let cut = places[at.index(places.len())];
        let reading = of(&text[..cut]);
        prop_assert!(reading.items.len() <= whole.items.len());
        prop_assert_eq!(&reading.items[..], &whole.items[..reading.items.len()]);
        let closed = whole.items.iter().filter(|i| i.span.end <= cut).count();
        prop_assert_eq!(reading.items.len(), closed);
        if cut > 0 {
            let flagged = matches!(reading.verdict, Verdict::Truncated { .. });
            prop_assert!(flagged, "{:?}", reading.verdict);
        }
    }

    #[test]
    fn a_stream_gives_the_steps_of_the_whole(steps in proptest::collection::vec(tree(), 1..5), size in 1..40_usize, literal in any::<bool>()) {
        let plan: Vec<Value> = steps.into_iter().map(|inputs| serde_json::json!({"id": "s", "inputs": inputs})).collect();
        let plan = Value::Array(plan);
        let text = if literal { python(&plan) } else { plan.to_string() };
        let mut stream = Stream::new(ReaderLimits::default());
        let given: Vec<_> = text.as_bytes().chunks(size).flat_map(|chunk| stream.push(chunk)).collect();
        let ending = stream.finish(&ToolCatalogue::default(), TextEnd::Stopped);
        prop_assert_eq!(&given, &ending.reading.items);
        prop_assert!(ending.withdrawn.is_empty());
    }
}

#[test]
fn time_is_linear_in_the_worst_texts_known() {
    // Work is bounded by bytes looked at, not by the clock: these would not return for hours if it were quadratic.
    let n = 200_000;
    for unit in [
        "[",
        "{",
        "[{'a':",
        "'",
        "\"a\": ",
        "f(",
        "<function=a><parameter=",
        "```",
        "[\"a\" ",
        "{'a': 'b' c'",
        "[1,",
        "(",
        "\\_",
        "[f(a='x', ",
        "Action: f\nAction Input: {",
        "'a', ",
        "[' ",
        " '",
    ] {
        let text = unit.repeat(n / unit.len());
        drop(parse_value(&text, &ToolCatalogue::default(), &ReaderLimits::default()));
        drop(parse_calls(&text, &ToolCatalogue::from_schemas([("f", None), ("a", None)]), &ReaderLimits::default()));
    }
}

fn of(text: &str) -> Reading {
    parse_value(text, &ToolCatalogue::default(), &ReaderLimits::default())
}

/// Text of the pieces that notations are made of, in any order.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => proptest::sample::select(vec![
            "{", "}", "[", "]", "(", ")", "'", "\"", ":", ",", "\\", "\n", " ", "f(", "do_it", "a=", "None", "true", "1", "-2.5",
            "```", "```json\n", "...", "<tool_call>", "<function=f>", "<parameter=a>", "</parameter>", "</function>", "// c\n", "#", "“", "”",
            "’", "é", "\u{a0}", "Action: f\n", "Action Input:", "1. x\n", "'a': ", "\"name\": \"f\"", "\"arguments\": ", "* 2", "+", "`", "\u{1}",
        ]).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// A table or a list with at least one entry, of any depth up to four.
fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9_f64).prop_map(Value::from),
        "[a-z '\"\\\\,:{}\\[\\]()\n#é中😀/-]{0,12}".prop_map(Value::from),
    ];
    let inner = leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-z']{1,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    });
    proptest::collection::vec(inner, 1..4).prop_map(Value::from)
}

/// As Python's `repr` prints it.
fn python(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => {
            let plain = text.replace('\\', "\\\\").replace('\n', "\\n");
            if text.contains('\'') && !text.contains('"') {
                format!("\"{plain}\"")
            } else {
                format!("'{}'", plain.replace('\'', "\\'"))
            }
        }
        Value::Array(items) => format!("[{}]", items.iter().map(python).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let pairs = map.iter().map(|(k, v)| format!("{}: {}", python(&Value::from(k.as_str())), python(v)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
    }
}
