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
    for pattern in ["^(?=a)b", "(a)\\1", "((a{1000}){1000}){1000}"] {
        assert_eq!(code(&json!({"pattern": pattern})), Some("INVALID_SCHEMA"), "{pattern}");
    }
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
