//! Plans held against agents, their schemas, budgets and policy: the exact code and place of what does not fit.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use goalmill_common::agent::{Action, Agent, WorkerBeat};
use goalmill_common::goal::Budget;
use goalmill_common::id::{AgentType, StepId};
use goalmill_common::limits::Limits;
use goalmill_common::problem::Issue;
use goalmill_common::view::SecondsFrom;
use goalmill_plan::states::ValidPlan;
use goalmill_plan::validate::{self, Catalogue, Durations, Measured, Policy, Rules, Weight, WeightSettings, forecast};
use serde_json::{Value, json};

#[test]
fn a_plan_that_fits_raises_no_alarm() {
    let plan = json!({"steps": [
        {"id": "find", "agent_type": "travel", "action": "search_flights", "inputs": {"from": "AMS", "to": "CDG", "seats": 2}},
        {"id": "book", "agent_type": "travel", "action": "book",
         "inputs": {"flight": "{{ steps.find.outputs.best.id }}", "seats": "{{ steps.find.outputs.best.free }}"},
         "dependencies": ["find"]},
        {"id": "tell", "agent_type": "mail", "action": "anything at all", "inputs": {"x": 1}, "dependencies": ["book"]},
        {"id": "end", "kind": "finish", "dependencies": ["tell"]},
    ]});
    let checked = judge(&plan).unwrap();
    assert_eq!(checked.warnings(), []);
}

#[test]
fn unknown_agents_and_actions_come_with_the_nearest_names() {
    let plan = json!({"steps": [
        {"id": "a", "agent": "travell", "action": "book"},
        {"id": "b", "agent": "travel", "tool": "serach_flights"},
        {"id": "c", "tool": "Search-Flights"},
        {"id": "d", "agent": "travel", "action": "book", "inputs": {"flight": "x"},
         "fallback": {"agent_type": "trian"}},
    ]});
    let catalogue = Catalogue::from_agents(&agents()[..1]);
    let issues = validate::validate_plan_by(&plan, &Limits::default(), &Rules::planned(&catalogue)).unwrap_err();
    assert_eq!(
        found(&issues),
        [
            ("UNKNOWN_AGENT", "/steps/0/agent"),
            ("UNKNOWN_ACTION", "/steps/1/tool"),
            ("UNKNOWN_ACTION", "/steps/2/tool"),
            ("UNKNOWN_AGENT", "/steps/3/fallback"),
        ]
    );
    assert!(issues[0].hint.contains("`travel`"), "{issues:?}");
    assert!(issues[1].hint.contains("`search_flights`"), "{issues:?}");
    assert!(issues[2].hint.contains("`search_flights`"));
}

#[test]
fn an_agent_that_nobody_serves_is_told_by_the_setting() {
    let catalogue = Catalogue::from_agents(&agents()).with_workers(&[worker("travel", false), worker("mail", true)]);
    let plan = json!([{"id": "a", "agent": "mail"}, {"id": "b", "agent": "mail"}, {"id": "c", "agent": "travel"}]);
    let checked = validate::validate_plan_by(&plan, &Limits::default(), &Rules::submitted(&catalogue)).unwrap();
    assert_eq!(found(checked.warnings()), [("NO_LIVE_WORKER", "/0/agent")]);
    let weights = WeightSettings { no_worker: Weight::Error, ..WeightSettings::all(Weight::Warning) };
    let strict = Rules { weights, ..Rules::submitted(&catalogue) };
    let issues = validate::validate_plan_by(&plan, &Limits::default(), &strict).unwrap_err();
    assert_eq!(found(&issues), [("NO_LIVE_WORKER", "/0/agent")]);
    assert!(issues[0].hint.contains("goalmill worker --agents mail"));
}

#[test]
fn without_a_catalogue_only_agent_types_without_a_live_worker_are_told() {
    let live = ["travel".into()].into();
    let plan = json!([
        {"id": "a", "agent": "mail", "tool": "no_such_action"},
        {"id": "b", "agent": "mail"},
        {"id": "c", "agent": "travel", "fallback": {"agent": "bus"}},
        {"id": "d", "agent": "auto"},
        {"id": "e", "type": "finish"},
    ]);
    let rules = Rules { live: Some(&live), ..Rules::default() };
    let checked = validate::validate_plan_by(&plan, &Limits::default(), &rules).unwrap();
    assert_eq!(found(checked.warnings()), [("NO_LIVE_WORKER", "/0/agent"), ("NO_LIVE_WORKER", "/2/fallback")]);
    assert!(checked.warnings()[1].hint.contains("goalmill worker --agents bus"));
}

#[test]
fn inputs_are_held_against_the_schema_and_expressions_stand_for_any_value() {
    let step = |inputs: Value| {
        json!([{"id": "a", "agent": "travel", "action": "search_flights", "args": {"from": "x", "to": "y"}},
               {"id": "b", "agent": "travel", "action": "search_flights", "args": inputs, "needs": ["a"]}])
    };
    let any = "{{ steps.a.outputs | length }}";
    for (inputs, expected) in [
        (json!({"from": "AMS"}), vec![("INPUT_MISSING", "/1/args/to")]),
        (json!({"from": "AMS", "to": "CDG", "seats": "two"}), vec![("INPUT_INVALID", "/1/args/seats")]),
        (json!({"from": "AMS", "to": "CDG", "seatz": 2}), vec![("INPUT_UNKNOWN", "/1/args/seatz")]),
        (json!({"from": any, "to": "CDG", "seats": any}), vec![]),
        (json!({"from": any}), vec![("INPUT_MISSING", "/1/args/to")]),
        (json!({"from": "AMS", "to": "CDG", "seats": 0}), vec![("INPUT_INVALID", "/1/args/seats")]),
    ] {
        let issues = judge(&step(inputs.clone())).err().unwrap_or_default();
        assert_eq!(found(&issues), expected, "{inputs}");
    }
    let issues = judge(&step(json!({"from": "AMS", "to": "CDG", "seatz": 2}))).unwrap_err();
    assert!(issues[0].hint.contains("`seats`"), "{issues:?}");
}

/// Issues of inputs against an input schema, and the warnings when there are none.
fn against(schema: Value, inputs: Value) -> Vec<(String, String)> {
    let card = json!({"agent_type": "x", "actions": [{"name": "do", "inputs": schema}]});
    let catalogue = Catalogue::from_agents(&[serde_json::from_value(card).unwrap()]);
    let plan = json!([{"id": "a", "agent": "x", "action": "do", "args": inputs}]);
    let checked = validate::validate_plan_by(&plan, &Limits::default(), &Rules::submitted(&catalogue));
    let issues = checked.map_or_else(|errors| errors, |checked| checked.warnings().to_vec());
    issues.into_iter().map(|issue| (issue.code, issue.pointer)).collect()
}

#[test]
fn null_stands_for_a_field_that_is_not_required_at_every_level() {
    let address = json!({"type": "object", "required": ["city"], "properties": {
        "city": {"type": "string"}, "zip": {"type": "string"}}});
    for schema in [
        json!({"properties": {"to": address, "all": {"type": "array", "items": address}, "city": {"type": "string"}}}),
        json!({"$defs": {"a": address}, "properties": {"to": {"$ref": "#/$defs/a"}, "city": {"type": "string"},
               "all": {"type": "array", "items": {"$ref": "#/$defs/a"}}}}),
    ] {
        let good = json!({"city": null, "to": {"city": "x", "zip": null}, "all": [{"city": "y", "zip": null}]});
        assert_eq!(against(schema.clone(), good), []);
        let invalid = |pointer: &str| vec![("INPUT_INVALID".to_owned(), pointer.to_owned())];
        assert_eq!(against(schema.clone(), json!({"to": {"city": null}})), invalid("/0/args/to/city"));
        assert_eq!(against(schema.clone(), json!({"all": [{"city": null}]})), invalid("/0/args/all/0/city"));
        assert_eq!(against(schema, json!({"all": [null]})), invalid("/0/args/all/0"));
    }
}

#[test]
fn formats_of_inputs_are_checked_unless_an_expression_stands_there() {
    for (format, good, bad) in [
        ("uuid", "2f1e4c1a-9d2b-4f6e-8a3c-0b1d2e3f4a5b", "7"),
        ("hostname", "example.com", "-x-"),
        ("uri", "https://example.com/a", "not a uri"),
        ("date-time", "2026-05-01T10:00:00Z", "tomorrow"),
        ("date", "2026-05-01", "2026-13-01"),
        ("email", "a@example.com", "a"),
        ("ipv4", "127.0.0.1", "300.0.0.1"),
    ] {
        let schema = json!({"properties": {"x": {"type": "string", "format": format}}});
        assert_eq!(against(schema.clone(), json!({"x": good})), [], "{format}");
        assert_eq!(against(schema.clone(), json!({"x": "{{ goal.description }}"})), [], "{format}");
        let invalid = [("INPUT_INVALID".to_owned(), "/0/args/x".to_owned())];
        assert_eq!(against(schema, json!({"x": bad})), invalid, "{format}");
    }
}

#[test]
fn an_input_schema_of_boundless_work_is_warned_of_and_never_evaluated() {
    let mut defs = serde_json::Map::new();
    for n in 0..60 {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        defs.insert(format!("d{n}"), json!({"allOf": [next, next]}));
    }
    defs.insert("d60".into(), json!({"type": "object"}));
    let schema = json!({"$ref": "#/$defs/d0", "$defs": defs});
    assert_eq!(against(schema, json!({"x": 1})), [("AGENT_SCHEMA_UNUSABLE".to_owned(), "/0/args".to_owned())]);
}

#[test]
fn inputs_whose_check_takes_too_much_work_are_refused() {
    let schema = json!({"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}});
    let inputs = (0..40).fold(json!({}), |inner, _| json!({"a": inner}));
    assert_eq!(against(schema, inputs), [("INPUT_TOO_COMPLEX".to_owned(), "/0/args".to_owned())]);
}

#[test]
fn outputs_of_one_step_are_held_against_inputs_of_another() {
    let read = |expression: &str| {
        let inputs = json!({"flight": "f", "seats": expression});
        json!([{"id": "f", "agent": "travel", "action": "search_flights", "args": {"from": "x", "to": "y"}},
               {"id": "b", "agent": "travel", "action": "book", "args": inputs, "needs": ["f"]}])
    };
    for (expression, expected) in [
        ("{{ steps.f.outputs.best.free }}", vec![]),
        ("{{ steps.f.outputs.best.id }}", vec![("TYPE_MISMATCH", "/1/args/seats")]),
        ("{{ steps.f.outputs.best.fre }}", vec![("OUTPUT_UNKNOWN", "/1/args/seats")]),
        ("{{ steps.f.outputs.best.fre | default(1) }}", vec![("OUTPUT_UNKNOWN", "/1/args/seats")]),
        ("{{ steps.f.outputs.anything }}", vec![]),
        ("{{ steps.f.status }}", vec![]),
    ] {
        let issues = judge(&read(expression)).err().unwrap_or_default();
        assert_eq!(found(&issues), expected, "{expression}");
    }
    let issues = judge(&read("{{ steps.f.outputs.best.fre }}")).unwrap_err();
    assert!(issues[0].hint.contains("`free`"), "{issues:?}");
    let warnings = judge(&read("{{ steps.f.outputs.anything }}")).unwrap().warnings().to_vec();
    assert_eq!(found(&warnings), [("OUTPUT_UNKNOWN", "/1/args/seats")]);
}

#[test]
fn a_models_plan_may_not_look_ahead_and_a_clients_may() {
    let plan = json!([
        {"id": "a", "agent": "mail", "args": {"x": "{{ steps.b.outputs }}"}, "needs": ["b"]},
        {"id": "b", "agent": "mail"},
    ]);
    let issues = judge(&plan).unwrap_err();
    assert_eq!(found(&issues), [("REF_LATER_STEP", "/0/args/x")]);
    let catalogue = Catalogue::from_agents(&agents());
    assert!(validate::validate_plan_by(&plan, &Limits::default(), &Rules::submitted(&catalogue)).is_ok());
}

#[test]
fn references_make_dependencies() {
    let plan = json!([
        {"id": "a"},
        {"id": "b", "args": ["{{ steps.a.outputs }}"]},
        {"id": "c", "args": {"x": "{{ steps.c.outputs }} {{ steps.b.outputs }}"}},
    ]);
    let rules = Rules { in_order: true, ..Rules::default() };
    let issues = validate::validate_plan_by(&plan, &Limits::default(), &rules).unwrap_err();
    assert_eq!(found(&issues), [("REF_NOT_DEPENDENCY", "/2/args/x")]);
    let good = json!([plan[0], plan[1]]);
    let checked = validate::validate_plan_by(&good, &Limits::default(), &rules).unwrap();
    assert_eq!(checked.plan().steps[1].dependencies, ["a".into()]);
}

#[test]
fn who_reads_outputs_in_any_field_waits_for_them() {
    let fields = [
        json!({"inputs": {"x": ["{{ steps.a.outputs.n }}"]}}),
        json!({"for_each": "{{ steps.a.outputs.list }}"}),
        json!({"when": "steps.a.outputs.n > 1"}),
        json!({"repeat": {"until": "outputs.n > steps.a.outputs.n", "max": 3}}),
        json!({"ask": {"question": "{{ steps.a.outputs.n }}?"}}),
        json!({"wait": {"until": "{{ steps.a.outputs.time }}"}}),
        json!({"wait": {"event": "paid", "key": "{{ steps.a.outputs.order }}"}}),
        json!({"cache": {"key": "{{ steps.a.outputs.n }}", "ttl": "1h"}}),
    ];
    for mut field in fields {
        field["id"] = json!("b");
        let checked = validate::validate_plan(&json!([{"id": "a"}, field]), &Limits::default()).unwrap();
        assert_eq!(checked.plan().steps[1].dependencies, ["a".into()], "{field}");
        assert_eq!(found(checked.warnings())[0].0, "DEPENDENCY_INFERRED", "{field}");
    }
}

#[test]
fn a_dependency_is_not_inferred_where_its_meaning_is_not_known() {
    let refused = |plan: Value| {
        let issues = validate::validate_plan(&plan, &Limits::default()).unwrap_err();
        issues.into_iter().map(|issue| issue.code).collect::<Vec<_>>()
    };
    // After which end of `a`?
    let status = json!([{"id": "a"}, {"id": "b", "when": "steps.a.status == 'failed'"}]);
    assert_eq!(refused(status), ["REF_NOT_DEPENDENCY"]);
    let both = json!([{"id": "a"}, {"id": "b", "when": "steps.a.status == 'failed' or steps.a.outputs.n > 1"}]);
    assert_eq!(refused(both), ["REF_NOT_DEPENDENCY", "REF_NOT_DEPENDENCY"]);
    // One more dependency would be one more that is enough.
    let any = json!([{"id": "a"}, {"id": "b"}, {"id": "c", "needs": ["b"], "join": "any",
                     "inputs": {"x": "{{ steps.a.outputs.n }}"}}]);
    assert_eq!(refused(any), ["REF_NOT_DEPENDENCY"]);
    let circle = json!([{"id": "a", "inputs": {"x": "{{ steps.b.outputs.n }}"}}, {"id": "b", "needs": ["a"]}]);
    assert_eq!(refused(circle), ["PLAN_CYCLE"]);
}

#[test]
fn what_a_plan_would_take_is_held_against_budgets() {
    let plan = json!({"budget": {"seconds": 5}, "steps": [
        {"id": "a", "agent": "travel", "estimates": {"cost": 2.0, "seconds": 4}},
        {"id": "b", "agent": "travel", "dependencies": ["a"]},
        {"id": "c", "agent": "mail", "estimates": {"seconds": 1}},
    ]});
    let catalogue = Catalogue::from_agents(&agents());
    let rules = Rules { budget: Budget { cost: Some(2.4), ..Budget::default() }, ..Rules::submitted(&catalogue) };
    let issues = validate::validate_plan_by(&plan, &Limits::default(), &rules).unwrap_err();
    assert_eq!(found(&issues), [("BUDGET_EXCEEDED", "/budget/seconds"), ("BUDGET_EXCEEDED", "/budget/cost")]);
    let checked = validate::validate_plan(&plan, &Limits::default()).unwrap();
    let total = forecast(checked.plan(), Some(&catalogue));
    assert!((total.cost - 2.5).abs() < 1e-9 && (total.seconds - 5.5).abs() < 1e-9, "{total:?}");
    assert!(total.success > 0.9 && total.success < 1.0, "{total:?}");
}

/// What two actions of the agent `travel` took.
#[derive(Debug)]
struct Travelled;

impl Durations for Travelled {
    fn measured(&self, agent_type: &AgentType, action: &str) -> Option<Measured> {
        match (agent_type.as_str(), action) {
            ("travel", "steady") => Some(Measured { ms: 9_000, is_steady: true }),
            ("travel", "uneven") => Some(Measured { ms: 7_000, is_steady: false }),
            _ => None,
        }
    }
}

#[test]
fn what_was_measured_comes_before_estimates_unless_it_differs_each_time() {
    let catalogue = Catalogue::from_agents(&agents()).with_durations(Travelled);
    let take = |action: &str, estimates: serde_json::Value| {
        let plan = json!({"steps": [{"id": "a", "agent": "travel", "action": action, "estimates": estimates}]});
        let total = forecast(validate::validate_plan(&plan, &Limits::default()).unwrap().plan(), Some(&catalogue));
        (total.seconds, total.seconds_from)
    };
    let none = SecondsFrom::default();
    let measured = SecondsFrom { measured: 1, ..none };
    assert_eq!(take("steady", json!({"seconds": 2})), (9.0, measured));
    assert_eq!(take("uneven", json!({"seconds": 2})), (2.0, SecondsFrom { estimated: 1, ..none }));
    assert_eq!(take("uneven", json!({})), (7.0, measured));
    assert_eq!(take("other", json!({})), (1.5, SecondsFrom { declared: 1, ..none }));
    let plan = json!({"steps": [{"id": "a", "agent": "nobody"}, {"id": "b", "kind": "internal", "ask": "well?"}]});
    let total = forecast(validate::validate_plan(&plan, &Limits::default()).unwrap().plan(), Some(&catalogue));
    assert_eq!((total.seconds, total.seconds_from), (0.0, SecondsFrom { unknown: 1, ..none }));
}

#[test]
fn policy_holds_for_whom_the_router_chooses() {
    let catalogue = Catalogue::from_agents(&agents());
    let policy = Policy { allow: vec!["mail".into()], approve: vec!["mail/send*".into()], ..Policy::default() };
    let rules = Rules { policy: &policy, ..Rules::submitted(&catalogue) };
    let open = json!({"steps": [{"id": "a", "agent_type": "auto", "description": "write to Ann"}]});
    let plan = validate::validate_plan_by(&open, &Limits::default(), &rules)
        .expect("the router has not chosen yet")
        .into_plan();
    let chosen = |agent: &str| {
        let mut plan = plan.clone();
        plan.steps[0].agent_type = agent.into();
        plan.steps[0].action = "send".into();
        let routed = StepId::from("a");
        let warnings = validate::permit_routed(&mut plan, &[&routed].into(), &policy)?;
        Ok::<_, Vec<Issue>>((plan, warnings))
    };
    let denied = chosen("travel").unwrap_err();
    assert_eq!(found(&denied), [("ACTION_DENIED", "/steps/0/agent_type")]);
    let (plan, warnings) = chosen("mail").expect("mail is allowed");
    assert!(plan.steps[0].approve.is_some(), "a person is asked");
    assert_eq!(found(&warnings), [("APPROVAL_REQUIRED", "/steps/0/agent_type")]);
}

#[test]
fn policy_forbids_and_asks() {
    let catalogue = Catalogue::from_agents(&agents());
    let policy = Policy { deny: vec!["*/book".into()], approve: vec!["mail/*".into()], ..Policy::default() };
    let rules = Rules { policy: &policy, ..Rules::submitted(&catalogue) };
    let denied = json!([{"id": "a", "agent": "travel", "action": "book", "args": {"flight": "x"}}]);
    let issues = validate::validate_plan_by(&denied, &Limits::default(), &rules).unwrap_err();
    assert_eq!(found(&issues), [("ACTION_DENIED", "/0/action")]);
    let around = json!([{"id": "a", "agent": "mail", "fallback": {"agent_type": "travel", "action": "book"}}]);
    assert!(validate::validate_plan_by(&around, &Limits::default(), &rules).is_err(), "a fallback is no way around");
    let asked = json!([{"id": "a", "agent": "mail"}]);
    let checked = validate::validate_plan_by(&asked, &Limits::default(), &rules).unwrap();
    assert!(checked.plan().steps[0].approve.is_some());
    assert_eq!(found(checked.warnings()), [("APPROVAL_REQUIRED", "/0/agent")]);
}

#[test]
fn a_schema_that_is_none_and_inputs_that_are_one_expression_stop_nobody() {
    let mut broken = agents();
    broken[0].actions[1].inputs = Some(json!({"type": "nonsense", "$ref": "http://127.0.0.1:1/x"}).into());
    let catalogue = Catalogue::from_agents(&broken);
    let plan = json!([{"id": "a", "agent": "travel", "action": "book", "args": {"x": 1}}]);
    assert!(validate::validate_plan_by(&plan, &Limits::default(), &Rules::planned(&catalogue)).is_ok());
    let open = json!([{"id": "a", "agent": "mail"},
        {"id": "b", "agent": "travel", "action": "search_flights", "args": "{{ steps.a.outputs }}", "needs": ["a"]}]);
    assert!(judge(&open).is_ok());
}

fn judge(plan: &Value) -> Result<ValidPlan, Vec<Issue>> {
    let catalogue = Catalogue::from_agents(&agents());
    validate::validate_plan_by(plan, &Limits::default(), &Rules::planned(&catalogue))
}

/// `travel` declares two actions with schemas; `mail` takes whatever it is asked.
fn agents() -> Vec<Agent> {
    let action = |name: &str, inputs: Value, outputs: Option<Value>| Action {
        name: name.into(),
        description: String::new(),
        inputs: Some(inputs.into()),
        outputs: outputs.map(Into::into),
        side_effect: false,
    };
    let search = json!({"type": "object", "required": ["from", "to"], "additionalProperties": false, "properties": {
        "from": {"type": "string", "minLength": 1}, "to": {"type": "string"}, "seats": {"type": "integer", "minimum": 1}}});
    let found = json!({"type": "object", "properties": {"best": {"type": "object", "additionalProperties": false,
        "properties": {"id": {"type": "string"}, "free": {"type": "integer"}}}}});
    let book = json!({"type": "object", "required": ["flight"],
        "properties": {"flight": {"type": "string"}, "seats": {"type": "number"}}});
    let actions = vec![action("search_flights", search, Some(found)), action("book", book, None)];
    let travel =
        Agent { actions, cost: 0.5, latency_ms: Some(1_500), success_rate: 0.9, ..Agent::named("travel".into()) };
    vec![travel, Agent::named("mail".into())]
}

fn worker(agent: &str, draining: bool) -> WorkerBeat {
    WorkerBeat {
        worker: format!("w-{agent}").into(),
        agents: vec![agent.into()],
        slots: 4,
        busy: 0,
        draining,
        version: String::new(),
        host: String::new(),
        started_ms: 0,
        seen_ms: 0,
        heartbeat_ms: None,
    }
}

fn found(issues: &[Issue]) -> Vec<(&str, &str)> {
    issues.iter().map(|issue| (issue.code.as_str(), issue.pointer.as_str())).collect()
}
