use goalmill_common::goal::Goal;
use goalmill_common::status::StepStatus;
use serde_json::json;

use super::*;

#[test]
fn a_whole_value_keeps_its_type() {
    let inputs = json!({
        "price": "{{ steps.flights.outputs.best.price }}",
        "best": " {{ steps.flights.outputs.best }}\n",
        "all": ["{{ steps.flights.outputs.hits }}", "{{ steps['hotel-1'].outputs.big }}"],
        "none": "{{ steps.flights.outputs.nothing }}",
        "sum": "{{ steps.flights.outputs.best.price * 2 }}",
        "yes": "{{ steps.flights.outputs.best.price > 100 }}",
        "status": "{{ steps.flights.status }}",
        "dashes": "{{- steps.flights.outputs.best.price -}}",
        "goal": "{{ goal.constraints.budget.amount }}",
    });
    let expected = json!({
        "price": 412.5,
        "best": {"price": 412.5, "airline": "AF"},
        "all": [["a", "b"], 18_446_744_073_709_551_615_u64],
        "none": null,
        "sum": 825.0,
        "yes": true,
        "status": "completed",
        "dashes": 412.5,
        "goal": 2000,
    });
    assert_eq!(rendered(&inputs).unwrap(), expected);
    assert_eq!(rendered(&inputs).unwrap().to_string(), expected.to_string(), "the order of the keys is kept");
}

#[test]
fn other_text_is_filled_in() {
    let inputs = json!(
        "{{ steps.flights.outputs.best.airline }} for {{ steps.flights.outputs.best.price | round | int }} {raw} {% raw %}{{ x }}{% endraw %}\n"
    );
    assert_eq!(rendered(&inputs).unwrap(), json!("AF for 412 {raw} {{ x }}\n"));
    let inputs =
        json!("{% for h in steps.flights.outputs.hits if h != 'b' %}- {{ h | upper }}{% else %}none{% endfor %}");
    assert_eq!(rendered(&inputs).unwrap(), json!("- A"));
    let inputs = json!("{{ steps.flights.outputs.best }} {{ 1 == 1 }} {{ steps.flights.outputs.nothing }}");
    assert_eq!(rendered(&inputs).unwrap(), json!("{\"price\":412.5,\"airline\":\"AF\"} true null"));
    let inputs = json!("{{ steps.flights.outputs.best | tojson }}{{ steps.flights.outputs.hits | join(', ') }}");
    assert_eq!(rendered(&inputs).unwrap(), json!("{\"price\":412.5,\"airline\":\"AF\"}a, b"));
}

#[test]
fn text_without_expressions_comes_back_byte_for_byte() {
    let text = r#"{ "a" : 1.10, "b":"}} {# no #} %}" , "n": 123456789012345678901234567890 }"#;
    let inputs = Json::from_text(text.into()).unwrap();
    assert_eq!(with_scope(|scope| render(&inputs, scope, &Limits::default())).unwrap().text(), text);
}

#[test]
fn rendered_text_is_never_rendered_again() {
    let inputs = json!(["{{ steps.flights.outputs.evil }}", "x {{ steps.flights.outputs.evil }}"]);
    assert_eq!(rendered(&inputs).unwrap(), json!(["{{ goal.description }}", "x {{ goal.description }}"]));
}

#[test]
fn what_is_not_there_is_an_error_with_its_place() {
    for text in [
        "{{ steps.flights.outputs.missing }}",
        "{{ steps.flights.outputs.missing.deeper }}",
        "x {{ steps.flights.outputs.missing }}",
        "{{ [steps.flights.outputs.missing] }}",
        "{{ steps.nobody.outputs }}",
        "{{ goal.constraints.missing }}",
    ] {
        let error = rendered(&json!({"a": [text]})).unwrap_err();
        assert_eq!(error.code, "REF_UNRESOLVED", "{text}: {error}");
        assert!(error.message.starts_with("inputs/a/0: "), "{text}: {error}");
    }
    let given = json!("{{ steps.flights.outputs.missing | default('x') }}{{ steps.skipped.outputs.y is defined }}");
    assert_eq!(rendered(&given).unwrap(), json!("xfalse"));
}

#[test]
fn conditions_are_true_or_false() {
    for (when, expected) in [
        ("steps.flights.outputs.best.price > 400", true),
        ("{{ steps.flights.outputs.best.price > 500 }}", false),
        ("steps.flights.outputs.hits", true),
        ("not steps.flights.outputs.hits | length == 2", false),
        ("steps.skipped.status == 'skipped' and 'a' in steps.flights.outputs.hits", true),
        ("true", true),
        ("false", false),
        ("steps.flights.outputs.best is mapping", true),
    ] {
        assert_eq!(with_scope(|scope| is_true(when, scope, &Limits::default())), Ok(expected), "{when}");
    }
    let missing = with_scope(|scope| is_true("steps.flights.outputs.missing", scope, &Limits::default()));
    assert_eq!(missing.unwrap_err().code, "REF_UNRESOLVED");
    let missing = with_scope(|scope| is_true("steps.flights.outputs.missing > 3", scope, &Limits::default()));
    assert_eq!(missing.unwrap_err().code, "REF_UNRESOLVED");
}

#[test]
fn the_steps_that_a_text_sees_are_known_without_running_it() {
    let seen = |text: &str| -> Vec<String> {
        let refs = references(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        refs.into_iter().map(|r| format!("{}.{}", r.step, r.field.unwrap_or_default())).collect()
    };
    assert_eq!(seen("{{ steps.a.outputs.x ~ steps['b-1'].outputs }}{# steps.c #}"), ["a.outputs", "b-1.outputs"]);
    assert_eq!(seen("{% if steps.a.status == 'failed' %}{{ steps[\"b\"] }}{% endif %}"), ["a.status", "b."]);
    assert_eq!(seen("{% raw %}{{ steps.a }}{% endraw %}{{ goal.steps }}{{ {'steps': {}}}}"), [""; 0]);
    assert_eq!(seen("{{ 'steps.a }}' ~ steps.b.outputs.y }}"), ["b.outputs"]);
    assert_eq!(condition_references("steps.a.outputs.n > 3").unwrap().len(), 1);
}

#[test]
fn what_cannot_be_told_from_the_text_or_could_grow_is_refused() {
    for text in [
        "{{ steps[goal.x].outputs }}",
        "{{ steps | length }}",
        "{{ steps }}",
        "{{ steps['a' ~ 'b'].outputs }}",
        "{{ steps['\\x61'].outputs }}",
        "{% for s in steps %}{{ s }}{% endfor %}",
        "{% set x = steps %}",
        "{% set x = 1 %}",
        "{% include 'x' %}",
        "{% import 'x' as y %}",
        "{% macro m() %}{% endmacro %}",
        "{% for i in range(10**9) %}{% endfor %}",
        "{% for x in [goal.a ~ goal.b] %}{% endfor %}",
        "{% for x in goal.a recursive %}{{ loop(x) }}{% endfor %}",
        "{{ 'x' * 100000000 }}",
        "{{ (goal.a * 100000000) ~ 'x' }}",
        "{{ ''.__class__.mro() }}",
        "{{ goal.description.upper() }}",
        "{{ debug() }}",
        "{{ other.x }}",
        "{{ steps.a-b.outputs }}",
        "{{ steps.a.output.x }}",
        "{{ goal | uper }}",
        "{{ goal is strin }}",
        "{{ goal | indent(1000000000) }}",
        "{{ goal",
        "{% if goal %}",
        "{% raw %}",
        "{{ }}",
        "{# {{ goal }}",
    ] {
        let error = references(text).expect_err(text);
        assert_eq!(error.code, "INVALID_EXPRESSION", "{text}: {error}");
    }
    for text in ["", "  ", "steps.a.outputs.x >", "{{ goal }} and more", "steps", "1 }} {{ 2", "x"] {
        condition_references(text).expect_err(text);
    }
}

#[test]
fn very_long_and_very_deep_expressions_are_refused_without_harm() {
    let many = 20_000;
    for text in [
        format!("{{{{ 1{} }}}}", "+1".repeat(many)),
        format!("{{{{ {}1{} }}}}", "(".repeat(many), ")".repeat(many)),
        format!("{{{{ {}1 }}}}", "not ".repeat(many)),
        format!("{{{{ goal{} }}}}", ".a".repeat(many)),
        format!("{{{{ goal{} }}}}", "|d".repeat(many)),
        "{% if goal %}".repeat(many) + &"{% endif %}".repeat(many),
        format!("{{% if goal %}}{}{{% endif %}}", "{% elif goal %}".repeat(many)),
        "{{ 1 }}".repeat(many),
    ] {
        assert_eq!(references(&text).expect_err("too much").code, "INVALID_EXPRESSION");
    }
    references(&format!("{{{{ {}1{} }}}}", "(".repeat(60), ")".repeat(60))).unwrap();
    references(&format!("{{{{ 1{} }}}}", "+1".repeat(99))).unwrap();
}

#[test]
fn work_and_size_are_limited() {
    let code = |limits: &Limits, text: &str| {
        with_scope(|scope| render(&Json::from_value(text), scope, limits)).map(|_| ()).map_err(|e| e.code)
    };
    let usual = Limits::default();
    let little = Limits { fuel_max: 5, ..Limits::default() };
    assert_eq!(code(&usual, "{% for i in steps.flights.outputs.hits %}{{ i }}{% endfor %}"), Ok(()));
    assert_eq!(
        code(&little, "{% for i in steps.flights.outputs.hits %}{{ i }}{% endfor %}"),
        Err("TEMPLATE_FUEL_EXHAUSTED")
    );
    let long = "{{ steps.flights.outputs.long | replace('a', steps.flights.outputs.long) }}";
    assert_eq!(code(&usual, long), Err("TEMPLATE_FUEL_EXHAUSTED"));
    let small = Limits { payload_bytes_max: 1_000, ..Limits::default() };
    assert_eq!(code(&small, "{{ steps.flights.outputs.long }}"), Err("OUTPUT_TOO_LARGE"));
    assert_eq!(code(&small, "x{{ steps.flights.outputs.long }}"), Err("OUTPUT_TOO_LARGE"));
    assert_eq!(code(&usual, "{{ steps.flights.outputs.hits * 10000000 }}"), Err("OUTPUT_TOO_LARGE"));
    assert_eq!(code(&usual, "x{{ steps.flights.outputs.hits * 10000000 }}"), Err("OUTPUT_TOO_LARGE"));
}

#[test]
fn values_that_do_not_fit_are_told() {
    for text in ["{{ steps.flights.outputs.hits + 1 }}", "{{ 1 / 0 }}", "{{ goal.constraints | float }}"] {
        assert_eq!(rendered(&json!(text)).unwrap_err().code, "EXPRESSION_FAILED", "{text}");
    }
}

fn rendered(inputs: &JsonValue) -> Result<JsonValue, ExpressionError> {
    with_scope(|scope| render(&Json::from_value(inputs), scope, &Limits::default())).map(|json| json.value())
}

fn with_scope<T>(body: impl FnOnce(&Scope<'_>) -> T) -> T {
    let goal: Goal = serde_json::from_value(json!({
        "description": "a trip", "constraints": {"budget": {"amount": 2000}},
    }))
    .unwrap();
    let flights = Json::from_value(&json!({
        "best": {"price": 412.5, "airline": "AF"}, "hits": ["a", "b"], "nothing": null,
        "evil": "{{ goal.description }}", "long": "a".repeat(5_000),
    }));
    let hotel = Json::from_value(&json!({"big": u64::MAX}));
    let steps = |id: &str| match id {
        "flights" => {
            Some(ScopedStep { status: StepStatus::Completed, outputs: Some(&flights), partial: false, failure: None })
        }
        "hotel-1" => {
            Some(ScopedStep { status: StepStatus::Completed, outputs: Some(&hotel), partial: false, failure: None })
        }
        "skipped" => Some(ScopedStep { status: StepStatus::Skipped, outputs: None, partial: false, failure: None }),
        _ => None,
    };
    body(&Scope::new(&goal, &steps))
}

#[test]
fn a_literal_renders_to_itself() {
    for text in ["{{ goal.description }}", "a \"{% if %}\" \\ {{", "x{{'\n'}}", "plain {", "{{ '}}' }} \u{1f600} ü"] {
        let value = json!({"a": [text, {"b": text}], "n": 1});
        assert_eq!(rendered(&literal(&value)).unwrap(), value, "{text}");
        assert_eq!(with_scope(|scope| render_text(&literal_text(text), scope, &Limits::default())).unwrap(), text);
    }
}

#[test]
fn an_item_is_seen_where_there_is_one_and_nowhere_else() {
    let locals =
        [("item", Json::from_value(&json!({"city": "Rome", "n": [1]}))), ("index", Json::from_value(&json!(2)))];
    let inputs = Json::from_value(&json!({"all": "{{ item }}", "text": "{{ item.city | upper }} {{ index + 1 }}"}));
    let render_item = |inputs: &Json| {
        let goal = Goal::default();
        let scope = Scope::new(&goal, &|_| None).with_locals(&locals);
        render(inputs, &scope, &Limits::default())
    };
    let seen = render_item(&inputs).unwrap();
    assert_eq!(seen.value(), json!({"all": {"city": "Rome", "n": [1]}, "text": "ROME 3"}));
    let missing = Json::from_value(&json!("{{ item.town }}"));
    let error = render_item(&missing).unwrap_err();
    assert!(error.message.contains("there is no `town` in `item`, which has `city`, `n`"), "{error}");
    let error = rendered(&json!("{{ item }}")).unwrap_err();
    assert!(error.message.contains("only a step with `for_each` sees it"), "{error}");
}
