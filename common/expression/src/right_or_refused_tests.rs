//! Expressions give the value that their author means, or an error that says why not.

use goalmill_common::blob_ref;
use goalmill_common::goal::Goal;
use goalmill_common::status::StepStatus;
use serde_json::json;

use super::*;

#[test]
fn values_of_different_types_have_no_order() {
    for when in [
        "outputs.one > 2",
        "2 < outputs.one",
        "outputs.ten <= 9",
        "outputs.word > 5",
        "outputs.nothing < 2",
        "outputs.list >= 1",
        "outputs.object < outputs.object",
        "outputs.flag > 0",
        "outputs.mixed < [1, 2]",
        "outputs.one is gt(2)",
        "outputs.one is lessthan 2",
        "0 < outputs.one < 5",
        "1 if outputs.one > 2 else 0",
        "outputs.n == 3 and (outputs.n + 1 > 2 or true) and not outputs.word < 5",
        "outputs.mixed | sort",
        "outputs.mixed | min",
        "outputs.mixed | max",
        "outputs.rows | sort(attribute='v')",
        "outputs.rows | min(attribute='v')",
        "outputs.rows | groupby('v')",
        "outputs.object | dictsort(by='value')",
        "outputs.mixed | select('gt', 1)",
        "outputs.mixed | select('>', 1)",
        "outputs.rows | selectattr('v', 'lt', 2)",
    ] {
        let error = condition(when).expect_err(when);
        assert_eq!(error.code, "EXPRESSION_FAILED", "{when}: {error}");
    }
    let error = condition("outputs.one > 2").unwrap_err().message;
    assert!(error.contains("\"1\" (a text)") && error.contains("2 (a number)") && error.contains("| int"), "{error}");
}

#[test]
fn values_of_one_type_keep_their_order() {
    for (when, expected) in [
        ("outputs.n > 2", true),
        ("outputs.n>2", true),
        ("2 < outputs.n <= 3", true),
        ("0 < outputs.n < 3", false),
        ("outputs.n - 1 >= outputs.half * 4", true),
        ("outputs.one | int < 2 and outputs.ten | int > 9", true),
        ("outputs.one < outputs.ten", true),
        ("(outputs.n > 2) == (outputs.half < 1)", true),
        ("not outputs.n > 2 or outputs.list | length < 1", true),
        ("'a' < 'b' if outputs.n > 2 else false", true),
        ("[1, 2] < [1, 3]", true),
        ("outputs.n in [1, 3] and outputs.n not in [4]", true),
        ("outputs.n is divisibleby 3 and outputs.n is not in [1]", true),
        ("{'a': outputs.n > 2}.a", true),
        ("(outputs.numbers | sort)[0] == 1 and outputs.numbers | max == 3", true),
        ("outputs.one <= outputs.one", true),
    ] {
        assert_eq!(condition(when), Ok(expected), "{when}");
    }
    let text = "{% if steps.a.outputs.n > 2 %}many{% else %}few{% endif %} \
                {% for n in steps.a.outputs.numbers if n >= 2 %}{{ n }}{% endfor %} {{ steps.a.outputs.n < 2 }}";
    assert_eq!(value(text), Ok(json!("many 32 false")));
}

#[test]
fn texts_are_read_as_booleans_by_one_table() {
    for (text, expected) in [("false", false), ("No", false), ("OFF", false), ("0", false), ("", false), ("yes", true)]
    {
        assert_eq!(condition(&format!("'{text}' | bool")), Ok(expected), "{text}");
        assert_eq!(condition(&format!("not '{text}' | bool")), Ok(!expected), "{text}");
    }
    for (when, expected) in [("0 | bool", false), ("none | bool", false), ("outputs.list | bool", false)] {
        assert_eq!(condition(when), Ok(expected), "{when}");
    }
    for when in [
        "'maybe' | bool",
        "outputs.no",
        "not outputs.no",
        "outputs.no and true",
        "outputs.n > 2 and outputs.no",
        "(outputs.no or false) and true",
        "1 if outputs.no else 2",
    ] {
        assert_eq!(condition(when).expect_err(when).code, "EXPRESSION_FAILED", "{when}");
    }
    assert_eq!(value("{% if steps.a.outputs.no %}x{% endif %}").unwrap_err().code, "EXPRESSION_FAILED");
    // Where the text itself is wanted, it is a text.
    assert_eq!(value("{{ steps.a.outputs.no or 'none' }}"), Ok(json!("false")));
    assert_eq!(condition("outputs.word"), Ok(true));
}

#[test]
fn a_default_covers_a_path_that_ends_anywhere() {
    for text in [
        "{{ steps.a.outputs.x | default(7) }}",
        "{{ steps.a.outputs.x.y | default(7) }}",
        "{{ steps.a.outputs.x.y.z['q'].w | d(7) }}",
        "{{ steps.a.outputs.x[0].y | default(7) }}",
        "{{ steps.a.outputs.list[3].y | default(default_value=7) }}",
        "{{ steps.a.outputs.nothing.y | default(7) }}",
        "{{ steps.a.outputs.word.y.z | default(7) }}",
        "{{ steps['s-1'].outputs.x.y | default(7) }}",
        "{{ steps['s-1'].outputs.list | first | default(7) }}",
        "{{ (steps['s-1'].outputs.list | first).name | default(7) }}",
        "{{ steps['s-1'].outputs.x | int | default(7) }}",
        "{{ (steps.a.outputs.x.y | default(3)) + 4 }}",
        "{{ 7 if steps.a.outputs.x.y is undefined else 0 }}",
        "{{ 7 if steps.a.outputs.x.y.z is not defined and not steps['s-1'].outputs.x.y is defined else 0 }}",
        "{{ steps.a.outputs.missing | default(steps.a.outputs.gone.deep | default(7)) }}",
    ] {
        assert_eq!(value(text), Ok(json!(7)), "{text}");
    }
    assert_eq!(value("x {{ steps.a.outputs.x.y | default('') }}."), Ok(json!("x .")));
    assert_eq!(value("{{ steps.a.outputs.n | default(7) }}"), Ok(json!(3)));
    for text in [
        "{{ steps.a.outputs.x }}",
        "{{ steps.a.outputs.x.y }}",
        "{{ steps.a.outputs.x | int }}",
        "x {{ steps.a.outputs.x | upper }}",
        "{{ steps.a.outputs.x + 1 }}",
        "{{ steps.a.outputs.list | first }}",
        "{{ [steps.a.outputs.x | first] }}",
    ] {
        assert_eq!(value(text).expect_err(text).code, "REF_UNRESOLVED", "{text}");
    }
    assert_eq!(condition("outputs.x | length == 0").unwrap_err().code, "REF_UNRESOLVED");
}

#[test]
fn an_error_about_a_missing_value_recommends_what_helps() {
    for (text, words) in [
        ("{{ steps.a.outputs.wrod }}", "did you mean `word`?"),
        ("{{ steps.a.outputs.x.y | default(1) + steps.a.outputs.x.y }}", "steps.a.outputs.x.y | default("),
        ("{{ steps['s-1'].outputs.n }}", "the step is skipped"),
        ("{{ steps.a.outputs.nothing.deep }}", "which is null"),
        ("{{ steps.a.outputs.list.length }}", "steps.a.outputs.list | length"),
        ("{{ steps.a.outputs.list | first }}", "| first | default("),
    ] {
        let message = value(text).expect_err(text).message;
        assert!(message.contains(words), "{text}: {message}");
    }
}

#[test]
fn lists_of_objects_are_mapped_and_chosen_by_attribute() {
    for (text, expected) in [
        ("{{ steps.a.outputs.items | map(attribute='v') | sum }}", json!(3)),
        ("{{ steps.a.outputs.items | map(attribute='w', default=0) | list }}", json!([0, 0])),
        ("{{ steps.a.outputs.items | map(attribute='in.x') | join(',') }}", json!("p,q")),
        ("{{ steps.a.outputs.items | sum(attribute='v') }}", json!(3)),
        ("{{ steps.a.outputs.items | selectattr('v', 'gt', 1) | map(attribute='v') | first }}", json!(2)),
        ("{{ steps.a.outputs.items | rejectattr('v', '==', 1) | list | length }}", json!(1)),
        ("{{ (steps.a.outputs.items | sort(attribute='v', reverse=true))[0].v }}", json!(2)),
        ("{{ (steps.a.outputs.items | max(attribute='v')).v }}", json!(2)),
        ("{{ steps.a.outputs.items | groupby(attribute='v') | length }}", json!(2)),
        ("{{ steps.a.outputs.items | unique(attribute='v') | list | length }}", json!(2)),
        ("{{ steps.a.outputs.items | join(';', attribute='v') }}", json!("1;2")),
        ("{{ steps.a.outputs.numbers | map('string') | join('-') }}", json!("3-1-2")),
        ("{{ 'x,y' | split(',') | map('upper') | list }}", json!(["X", "Y"])),
        ("{{ 7.46 | round(precision=1) }}", json!(7.5)),
        ("{{ 'n/a' | int(default=4) }}", json!(4)),
        ("{{ ' 12 ' | int + ' 1.5 ' | float }}", json!(13.5)),
    ] {
        assert_eq!(value(text), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_no_number_is_not_read_as_one() {
    for when in
        ["'abc' | int == 0", "'' | float == 0", "none | int == 0", "outputs.list | int == 0", "'nan' | float > 1"]
    {
        assert_eq!(condition(when).expect_err(when).code, "EXPRESSION_FAILED", "{when}");
    }
    for text in [
        "{{ 18446744073709551615 + 1 }}",
        "{{ steps.a.outputs.big * 4 }}",
        "{{ '123456789012345678901' | int }}",
        "{{ 1e308 * 10 }}",
    ] {
        assert_eq!(value(text).expect_err(text).code, "EXPRESSION_FAILED", "{text}");
    }
    assert_eq!(value("{{ steps.a.outputs.big }}"), Ok(json!(9_223_372_036_854_775_807_i64)));
}

#[test]
fn what_is_wrong_for_certain_is_refused_before_it_runs() {
    for (text, words) in [
        ("{{ goal.x && goal.y }}", "`and`"),
        ("{{ goal.x || goal.y }}", "`or`"),
        ("{{ !goal.x }}", "`not`"),
        ("{{ goal.x === 1 }}", "`==`"),
        ("{{ goal.x !== 1 }}", "`!=`"),
        ("{{ goal.x = 1 }}", "`==`"),
        ("{{ goal.x ?? 1 }}", "| default("),
        ("{{ goal?.x }}", "| default("),
        ("{{ goal.x ? 1 : 2 }}", "a if condition else b"),
        ("{{ goal.x =~ 'a' }}", "x | matches("),
        ("{{ goal.x <> 1 }}", "`!=`"),
        ("{{ goal.x => 1 }}", "`>=`"),
        ("{{ goal.x == null }}", "`none`"),
        ("{{ goal.x AND goal.y }}", "unexpected"),
        ("{{ goal.x | len }}", "x | length"),
        ("{{ len(goal.x) }}", "x | length"),
        ("{{ goal.x.includes('a') }}", "'part' in x"),
        ("{{ goal.x.upper() }}", "x | upper"),
        ("{{ goal.x.frobnicate() }}", "there are filters"),
        ("{{ goal.x | lenght }}", "did you mean `length`?"),
        ("{{ goal.x is defind }}", "did you mean `defined`?"),
        ("{{ goal.x | length(1) }}", "x | length"),
        ("{{ goal.x | sort('name') }}", "attribute='name'"),
        ("{{ goal.x | sort(by='name') }}", "has no argument `by`"),
        ("{{ goal.x | map }}", "needs one argument"),
        ("{{ goal.x | map('len') }}", "x | length"),
        ("{{ goal.x | select('big') }}", "there is no test `big`"),
        ("{{ goal.x | selectattr('a', 'bigger', 1) }}", "there is no test `bigger`"),
        ("{{ goal.x | replace('a') }}", "needs 2 arguments"),
        ("{{ goal.x | join(',', 'a', 'b') }}", "at most 2 arguments"),
        ("{{ goal.x is divisibleby }}", "needs a value"),
        ("{{ goal.x is defined(1) }}", "takes no value"),
        ("{{ '1' > 2 }}", "have no order"),
        ("{{ goal.x | length > '2' }}", "have no order"),
        ("{{ [goal.x | int < 'a'] }}", "have no order"),
        ("{{ steps.a.status < 3 }}", "have no order"),
        ("{{ steps.a.status == 'success' }}", "write `completed`"),
        ("{{ 'failure' != steps.a.status }}", "write `failed`"),
        ("{{ steps.a.status in ['completed', 'canceled'] }}", "write `cancelled`"),
        ("{{ steps['a'].status not in ('done', 'x') }}", "write `completed`"),
        ("{{ steps.a.status is eq('OK') }}", "write `completed`"),
        ("{{ 123456789012345678901 }}", "64 bits"),
        ("{{ 1e999 }}", "64 bits"),
    ] {
        let error = examine(text, &[]).expect_err(text);
        assert_eq!(error.code, "INVALID_EXPRESSION", "{text}: {error}");
        assert!(error.message.contains(words), "{text}: {error}");
    }
    for text in [
        "{{ steps.a.status == 'completed' and steps.a.status in ['failed', 'skipped'] }}",
        "{{ goal.x | selectattr('a') | rejectattr('b', '>=', 2) | map(attribute='c') | list }}",
        "{{ goal.x | length > 2 and goal.x | string == '3' and 1.5e3 < 2e10 and 0x1f != 1 }}",
        "{{ goal.x is in ['a'] or goal.x is not divisibleby 3 or goal.x is defined }}",
        "{{ goal.x | round(2, 'floor') | default(0) }}",
        "{{ goal.x | int(*[0]) }}",
    ] {
        examine(text, &[]).unwrap_or_else(|e| panic!("{text}: {e}"));
    }
}

#[test]
fn every_accepted_form_of_an_error_is_accepted() {
    let forms = hints::forms().chain(signatures::examples());
    for form in forms {
        let text = form.split_inclusive(|c: char| !c.is_ascii_alphanumeric()).map(|word| match word.get(..1) {
            Some("x" | "y") if word.len() < 3 => format!("goal.{word}"),
            _ => word.to_owned(),
        });
        let text = format!("{{{{ {} }}}}", text.collect::<String>());
        examine(&text, &[]).unwrap_or_else(|e| panic!("{form} as {text}: {e}"));
    }
}

#[test]
fn a_stored_payload_is_loaded_before_an_expression_reads_it() {
    for (text, paths) in [
        ("{{ steps.b.outputs.text | length }}", vec!["steps.b.outputs.text"]),
        ("Say: {{ steps.b.outputs.text }}", vec!["steps.b.outputs.text"]),
        ("{{ steps.b.outputs.text is string }}", vec!["steps.b.outputs.text"]),
        ("{{ steps.b.outputs.rows[0].id }}", vec!["steps.b.outputs.rows"]),
        ("{{ steps.b.outputs.rows | first }}", vec!["steps.b.outputs.rows"]),
        ("{{ [steps.b.outputs.text] }}", vec!["steps.b.outputs.text"]),
        ("{{ steps.b.outputs.text ~ steps.b.outputs['rows'] }}", vec!["steps.b.outputs.text", "steps.b.outputs.rows"]),
        ("{{ steps.b.outputs | tojson }}", vec!["steps.b.outputs.text", "steps.b.outputs.rows"]),
        ("{{ steps.b.outputs == {} }}", vec!["steps.b.outputs.text", "steps.b.outputs.rows"]),
        ("{{ steps['b'].outputs[goal.description] }}", vec!["steps.b.outputs.text", "steps.b.outputs.rows"]),
        ("{% for r in steps.b.outputs.rows %}{{ r.id }}{% endfor %}", vec!["steps.b.outputs.rows"]),
        ("{{ steps.whole.outputs.text | length }}", vec!["steps.whole.outputs"]),
        ("{{ goal.metadata.inputs.doc | upper }}", vec!["goal.metadata.inputs.doc"]),
    ] {
        let error = value(text).expect_err(text);
        assert_eq!(error.code, PAYLOAD_NEEDED, "{text}");
        assert_eq!(error.payloads.iter().map(|p| p.path.as_str()).collect::<Vec<_>>(), paths, "{text}");
    }
    let two = json!(["{{ steps.b.outputs.text | length }}", "{{ steps.b.outputs.rows | length }}"]);
    let error = with_scope(None, |scope| render(&Json::from_value(&two), scope, &Limits::default())).unwrap_err();
    assert_eq!(error.payloads.len(), 2, "one error lists what all expressions need");
    // What reads nothing of it needs nothing.
    assert_eq!(value("{{ steps.b.outputs.small + 1 }}"), Ok(json!(3)));
    assert_eq!(value("{{ steps.b.outputs.text }}"), Ok(json!({"$blob": "k-text", "bytes": 11})));
    assert_eq!(value("{{ steps.b.outputs.text | default('none') }}"), Ok(json!({"$blob": "k-text", "bytes": 11})));
}

#[test]
fn a_loaded_payload_is_the_value() {
    let payload = |json: &str| Payload::parse(json).unwrap();
    let payloads = Payloads::from([
        ("k-text".to_owned(), payload("\"word word\"")),
        ("k-rows".to_owned(), payload("[{\"id\": 7}, {\"id\": 8}]")),
        ("k-whole".to_owned(), payload("{\"text\": \"deep\"}")),
        ("k-doc".to_owned(), payload("\"doc\"")),
    ]);
    for (text, expected) in [
        ("{{ steps.b.outputs.text | length }}", json!(9)),
        ("Say: {{ steps.b.outputs.text }}", json!("Say: word word")),
        ("{{ steps.b.outputs.text is string }}", json!(true)),
        ("{{ steps.b.outputs.rows | first }}", json!({"id": 7})),
        ("{{ steps.b.outputs.rows | map(attribute='id') | sum }}", json!(15)),
        ("{{ steps.b.outputs.rows[1].id > 7 }}", json!(true)),
        ("{{ steps.whole.outputs.text | upper }}", json!("DEEP")),
        ("{{ goal.metadata.inputs.doc | upper }}", json!("DOC")),
        ("{{ steps.b.outputs.rows[5].id | default('none') }}", json!("none")),
    ] {
        let rendered = with_scope(Some(&payloads), |scope| render(&Json::from_value(text), scope, &Limits::default()));
        assert_eq!(rendered.map(|json| json.value()), Ok(expected), "{text}");
    }
    let small = Limits { expression_bytes_max: 10, ..Limits::default() };
    let error = with_scope(None, |scope| is_true("steps.b.outputs.text == 'x'", scope, &small)).unwrap_err();
    assert_eq!(error.code, "PAYLOAD_TOO_LARGE");
    for word in ["steps.b.outputs.text", "11 bytes", "limits.expression_bytes_max", "(10)"] {
        assert!(error.message.contains(word), "{word}: {error}");
    }
}

#[test]
fn comparisons_show_the_types_that_their_text_tells() {
    let facts =
        examine_condition("steps.a.outputs.n == '3' and steps.a.status != 3 or (steps.a.outputs.n | int) in [1]", &[]);
    let facts = facts.unwrap();
    let typed = Operand::Typed;
    assert_eq!(facts.comparisons.len(), 2);
    assert_eq!(facts.comparisons[0].left, Operand::Output(vec!["a".into(), "outputs".into(), "n".into()]));
    assert_eq!(facts.comparisons[0].right, typed(ValueType::Text));
    assert_eq!(
        (&facts.comparisons[1].left, &facts.comparisons[1].right),
        (&typed(ValueType::Text), &typed(ValueType::Number))
    );
    let covered =
        |text: &str| examine(text, &[]).unwrap().paths.into_iter().map(|path| path.has_default).collect::<Vec<_>>();
    assert_eq!(covered("{{ steps.a.outputs.x[goal.y] | first | default(1) }}"), [true, false]);
}

fn condition(when: &str) -> Result<bool, ExpressionError> {
    let when = format!(" {when}").replace(" outputs.", " steps.a.outputs.").replace("(outputs.", "(steps.a.outputs.");
    with_scope(None, |scope| is_true(&when, scope, &Limits::default()))
}

fn value(text: &str) -> Result<JsonValue, ExpressionError> {
    with_scope(None, |scope| render(&Json::from_value(text), scope, &Limits::default())).map(|json| json.value())
}

fn with_scope<T>(payloads: Option<&Payloads>, body: impl FnOnce(&Scope<'_>) -> T) -> T {
    let goal: Goal = serde_json::from_value(json!({
        "description": "text", "metadata": {"inputs": {"doc": {"$blob": "k-doc", "bytes": 5}}},
    }))
    .unwrap();
    let a = Json::from_value(&json!({
        "one": "1", "ten": "10", "word": "abc", "nothing": null, "list": [], "object": {"a": 1, "b": "x"}, "flag": true,
        "mixed": [1, "2"], "rows": [{"v": 1}, {"v": "2"}], "n": 3, "half": 0.5, "numbers": [3, 1, 2], "no": "false",
        "items": [{"v": 1, "in": {"x": "p"}}, {"v": 2, "in": {"x": "q"}}], "big": i64::MAX,
    }));
    let b = Json::from_value(&json!({
        "small": 2, "text": blob_ref::to_json("k-text", 11).value(), "rows": blob_ref::to_json("k-rows", 24).value(),
    }));
    let whole = blob_ref::to_json("k-whole", 16);
    let completed = |outputs| {
        Some(ScopedStep { status: StepStatus::Completed, outputs: Some(outputs), partial: false, failure: None })
    };
    let steps = |id: &str| match id {
        "a" => completed(&a),
        "b" => completed(&b),
        "whole" => completed(&whole),
        "s-1" => Some(ScopedStep { status: StepStatus::Skipped, outputs: None, partial: false, failure: None }),
        _ => None,
    };
    body(&Scope::new(&goal, &steps).with_payloads(payloads))
}
