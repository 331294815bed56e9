use serde_json::{Map, Value, json};

use super::*;

/// `levels` definitions, each of which applies the next one twice.
fn doubling(levels: usize, word: &str) -> Value {
    let mut defs = Map::new();
    for n in 0..levels {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        defs.insert(format!("d{n}"), json!({word: [next, next]}));
    }
    defs.insert(format!("d{levels}"), json!({"type": "string"}));
    json!({"$ref": "#/$defs/d0", "$defs": defs})
}

fn code(schema: &Value) -> Option<&'static str> {
    unusable(schema).map(|unusable| unusable.code)
}

#[test]
fn a_schema_that_doubles_with_each_level_is_refused() {
    for (levels, word) in [(22, "anyOf"), (60, "allOf"), (22, "oneOf"), (3_000, "allOf")] {
        assert_eq!(code(&doubling(levels, word)), Some("SCHEMA_TOO_COMPLEX"), "{levels} of {word}");
    }
    assert_eq!(code(&doubling(4, "anyOf")), None);
}

#[test]
fn a_reference_that_leads_back_without_a_step_into_the_value_is_refused() {
    assert_eq!(code(&json!({"$ref": "#"})), Some("SCHEMA_TOO_COMPLEX"));
    let ring = json!({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"});
    assert_eq!(code(&ring), Some("SCHEMA_TOO_COMPLEX"));
}

#[test]
fn a_tree_is_accepted_and_its_work_follows_the_value() {
    let tree = json!({"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}});
    let schema = Schema::of_outputs(&tree).expect("it is a usual schema");
    let value = json!({"children": [{"children": []}, {"children": [{"children": 7}]}]});
    assert!(!schema.for_value(&value).expect("it is little work").is_valid(&value));
}

#[test]
fn a_schema_that_doubles_with_each_level_of_the_value_is_not_evaluated() {
    let schema = json!({"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}});
    let schema = Schema::of_outputs(&schema).expect("it has a cost for each level only");
    let nested = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"a": inner}));
    assert!(schema.for_value(&nested(8)).is_ok());
    assert_eq!(schema.for_value(&nested(50)).err(), Some(TooMuchWork));
    assert!(schema.for_value(&json!({"b": nested(50)})).is_ok(), "what the schema does not reach costs nothing");
}

#[test]
fn a_large_list_of_records_is_evaluated() {
    let record = json!({"type": "object", "required": ["id", "name"], "properties": {
        "id": {"type": "integer"}, "name": {"type": "string", "enum": (0..400).map(|n| n.to_string()).collect::<Vec<_>>()},
        "tags": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}});
    let schema = Schema::of_outputs(&json!({"type": "array", "items": record})).expect("it is a usual schema");
    let value: Value = (0..20_000).map(|n| json!({"id": n, "name": "7", "tags": ["a", null]})).collect();
    assert!(schema.for_value(&value).is_ok());
}

#[test]
fn a_pattern_is_matched_in_linear_time_or_refused() {
    let schema = Schema::of_outputs(&json!({"pattern": "^(a+)+$"})).expect("it is linear here");
    let value = json!(format!("{}!", "a".repeat(100_000)));
    assert!(!schema.for_value(&value).expect("it is little work").is_valid(&value));
    for pattern in ["^(?=a)b", "(a)\\1"] {
        assert_eq!(code(&json!({"pattern": pattern})), Some("INVALID_SCHEMA"), "{pattern}");
    }
    assert_eq!(code(&json!({"pattern": "((a{1000}){1000}){1000}"})), Some("SCHEMA_TOO_COMPLEX"));
}

#[test]
fn a_reference_to_another_document_is_refused_even_where_it_is_known() {
    for target in ["https://example.com/x", "http://json-schema.org/draft-07/schema#", "other.json"] {
        assert_eq!(code(&json!({"properties": {"x": {"$ref": target}}})), Some("SCHEMA_REMOTE_REF"), "{target}");
    }
}

#[test]
fn a_long_chain_of_definitions_takes_no_stack() {
    let defs: Map<String, Value> = (0..2_400)
        .map(|n| (format!("d{n}"), json!({"properties": {"a": {"$ref": format!("#/$defs/d{}", n + 1)}}})))
        .chain([("d2400".to_owned(), json!({}))])
        .collect();
    assert_eq!(code(&json!({"$ref": "#/$defs/d0", "$defs": defs})), None);
}

#[test]
fn definitions_that_are_shared_are_compiled_once() {
    let mut defs = Map::new();
    for n in 0..60 {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        defs.insert(format!("d{n}"), json!({"properties": {"a": next, "b": next}}));
    }
    defs.insert("d60".into(), json!({"type": "string"}));
    assert_eq!(code(&json!({"$ref": "#/$defs/d0", "$defs": defs})), None);
}

#[test]
fn the_deepest_evaluation_that_is_allowed_fits_the_stack() {
    let chain = (0..60).fold(json!({"properties": {"a": {"$ref": "#"}}}), |inner, _| json!({"allOf": [inner]}));
    assert_eq!(code(&chain), Some("SCHEMA_TOO_COMPLEX"), "the text is too deep");
    let chain = (0..28).fold(json!({"properties": {"a": {"$ref": "#"}}}), |inner, _| json!({"allOf": [inner]}));
    let schema = Schema::of_outputs(&chain).expect("it is within the limits");
    let nested = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"a": inner}));
    assert!(schema.for_value(&nested(30)).expect("it is allowed").is_valid(&nested(30)));
    assert_eq!(schema.for_value(&nested(60)).err(), Some(TooMuchWork));
}

#[test]
fn unevaluated_members_count_what_they_evaluate_again() {
    let inner =
        (0..12).fold(json!({"type": "object"}), |inner, _| json!({"anyOf": [inner], "unevaluatedProperties": false}));
    assert_eq!(code(&inner), Some("SCHEMA_TOO_COMPLEX"));
}

/// A schema like many small patterns that each compile to many states.
fn patterns(count: usize, shift: usize) -> Value {
    let one = |i: usize| (format!("p{i}"), json!({"pattern": format!("\\w{{{}}}|z{i}", 300 + (shift + i) % 180)}));
    json!({"properties": (0..count).map(one).collect::<Map<String, Value>>()})
}

#[test]
fn patterns_that_are_small_one_by_one_are_refused_in_sum() {
    assert_eq!(code(&patterns(500, 0)), Some("SCHEMA_TOO_COMPLEX"));
    assert_eq!(code(&patterns(20, 0)), None);
    let names: Map<String, Value> = (0..500).map(|i| (format!("\\w{{300}}|z{i}"), json!({}))).collect();
    assert_eq!(code(&json!({"patternProperties": names})), Some("SCHEMA_TOO_COMPLEX"));
}

#[test]
fn a_pattern_that_is_there_many_times_counts_once() {
    let many: Map<String, Value> = (0..2_000).map(|i| (format!("p{i}"), json!({"pattern": "^[a-z]{1,64}$"}))).collect();
    assert_eq!(code(&json!({"properties": many})), None);
}

#[test]
fn every_way_to_write_many_states_is_counted() {
    let large = [
        "\\w{99999}", "(?:[a-z]{1,100}){200}", "\\p{L}{100}", "[\\p{L}\\p{N}]{50}", "(?i:straße){1000}", ".{9000}",
        "(?:){999999}", "(a|b|c|[^d]){3000,}",
    ];
    for pattern in large {
        let states = size::states_of(pattern);
        assert!(states > 10_000, "{pattern}: {states}");
    }
    for (pattern, most) in [("^[a-z0-9-]{1,63}$", 300), ("^\\d{4}-\\d{2}-\\d{2}$", 30), ("^(red|green|blue)$", 30)] {
        let states = size::states_of(pattern);
        assert!(states < most, "{pattern}: {states}");
    }
}

#[test]
fn a_pattern_whose_translation_reads_it_again_for_each_escape_is_refused() {
    assert_eq!(code(&json!({"pattern": "\\d".repeat(30_000)})), Some("SCHEMA_TOO_COMPLEX"));
    assert_eq!(code(&json!({"pattern": "\\d".repeat(60)})), None);
}

#[test]
fn anchors_with_the_same_name_do_not_multiply() {
    let named: Vec<Value> = (0..2_000).map(|_| json!({"$anchor": "a"})).collect();
    let uses: Vec<Value> = (0..2_000).map(|_| json!({"properties": {"x": {"$ref": "#a"}}})).collect();
    assert_eq!(
        code(&json!({"$defs": {"n": named, "u": {"oneOf": uses}}, "items": {"$ref": "#/$defs/u"}})),
        Some("SCHEMA_TOO_COMPLEX")
    );
}

#[test]
fn names_of_members_cost_the_states_of_the_patterns_that_read_them() {
    let schema = Schema::of_outputs(&json!({"patternProperties": {"^[a-z]{1,4000}$": {}}})).expect("it is one pattern");
    let members = |count: usize| -> Value { Value::Object((0..count).map(|i| (format!("m{i}"), json!(1))).collect()) };
    assert!(schema.for_value(&members(1_000)).is_ok());
    assert_eq!(schema.for_value(&members(100_000)).err(), Some(TooMuchWork));
}
