//! Properties of validation for any plan and any text.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use goalmill_common::goal::{Budget, Goal, Priority};
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;
use goalmill_common::plan::{
    Approval, ApprovalDefault, Cache, Collect, Estimates, Fallback, ForEach, Jitter, Join, OnFailure, OnItemFailure,
    OnMax, Phase, Plan, Question, Repeat, Retry, RevisionPolicy, Step, StepKind, Strategy as Width, UndoOn, Widen,
};
use goalmill_common::status::{Counts, PlanStatus, StepStatus};
use goalmill_common::view::PlanView;
use goalmill_expression::{self as expression, Scope, ScopedStep};
use goalmill_formats::{DocumentFormat, ExportState, convert_goal, convert_plan, export_plan, format_schema};
use goalmill_plan::document::{self, Format};
use goalmill_plan::validate;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_canonical_plan_validates_back_to_itself(plan in plan()) {
        let json = serde_json::to_vec(&plan).unwrap();
        for format in [Format::Json, Format::Yaml] {
            let text = match format {
                Format::Yaml => serde_yaml_ng::to_string(&serde_json::from_slice::<Value>(&json).unwrap()).unwrap().into_bytes(),
                Format::Json | Format::Auto => json.clone(),
            };
            let checked = validate::validate_text(&text, format, &Limits::default());
            match checked {
                Ok(checked) => prop_assert_eq!(checked.plan(), &plan),
                Err(issues) => prop_assert!(false, "{:#?}", issues),
            }
        }
    }

    #[test]
    fn any_json_gives_a_plan_or_issues_with_pointers_into_it(value in anything()) {
        let wrapped = [value.clone(), json!({"steps": value}), json!({"steps": [value]}), json!({"steps": [{"id": "a", "retry": value, "join": value, "approve": value}]})];
        for document in wrapped {
            if let Err(issues) = validate::validate_plan(&document, &Limits::default()) {
                prop_assert!(!issues.is_empty());
                for issue in issues {
                    let parent = issue.pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
                    prop_assert!(document.pointer(parent).is_some(), "{:?}", issue);
                }
            }
        }
    }

    #[test]
    fn plan_actions_with_state_read_back_as_the_same_plan(plan in plan(), turn in 0..99_usize) {
        returns(&plan, turn)?;
    }

    #[test]
    fn any_json_is_converted_with_pointers_into_it(value in anything(), marks in any::<u8>()) {
        let mut documents = vec![value.clone(), json!({"plan": value, "step_timeout": value})];
        for key in ["steps", "subtasks", "tasks", "nodes", "phases"] {
            let mut map = Map::from_iter([(key.to_owned(), value.clone())]);
            for (bit, name) in ["goal_id", "edges", "strategy", "planId", "step_timeout", "metadata", "goal", "query"].iter().enumerate() {
                if marks & (1 << bit) != 0 {
                    let mark = match *name { "strategy" => json!("flat"), "edges" => json!({"a": ["b"]}), _ => value.clone() };
                    map.insert((*name).into(), mark);
                }
            }
            documents.push(Value::Object(map));
        }
        for document in documents {
            for converted in [
                convert_plan(document.clone(), &Limits::default()),
                convert_goal(document.clone(), &Limits::default()),
            ] {
                let found = converted.map_or_else(|refused| refused, |converted| {
                    let issues = validate::validate_plan(&converted.document, &Limits::default()).err().unwrap_or_default();
                    [converted.locate(issues), converted.notes].concat()
                });
                for issue in &found {
                    let mut place = issue.pointer.as_str();
                    // What is missing is named where it would stand.
                    while document.pointer(place).is_none() && issue.code == "MISSING_FIELD" {
                        place = place.rsplit_once('/').map_or("", |(parent, _)| parent);
                    }
                    let parent = place.rsplit_once('/').map_or("", |(parent, _)| parent);
                    prop_assert!(document.pointer(parent).is_some(), "{:?} in {}", issue, document);
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..200), text in "[\\[\\]{}:,\"'a-z0-9&*!<>|\n -]{0,80}") {
        for format in [Format::Json, Format::Yaml, Format::Auto] {
            for input in [bytes.as_slice(), text.as_bytes()] {
                if let Err(issues) = document::parse_document(input, format, &Limits::default()) {
                    prop_assert!(!issues.is_empty());
                }
            }
        }
    }

    #[test]
    fn an_expression_that_passed_is_never_malformed_when_it_runs(parts in vec(part(), 0..12)) {
        let text = parts.concat();
        let goal = Goal { description: "x".into(), ..Goal::default() };
        let outputs = Json::from_value(&json!({"x": [1, 2], "y": "text"}));
        let look = |_: &str| Some(ScopedStep { status: StepStatus::Completed, outputs: Some(&outputs), partial: false, failure: None });
        let scope = Scope::new(&goal, &look);
        let rendered = expression::render(&Json::from_value(&text), &scope, &Limits::default());
        let malformed = rendered.is_err_and(|e| e.code == "INVALID_EXPRESSION");
        prop_assert_eq!(malformed, expression::references(&text).is_err(), "{}", text);
        let judged = expression::is_true(&text, &scope, &Limits::default());
        let malformed = judged.is_err_and(|e| e.code == "INVALID_EXPRESSION");
        prop_assert_eq!(malformed, expression::condition_references(&text).is_err(), "{}", text);
    }

    #[test]
    fn json_reads_the_same_as_json_and_as_yaml(value in anything()) {
        let text = value.to_string();
        prop_assert_eq!(document::parse_document(text.as_bytes(), Format::Json, &Limits::default()).unwrap(), value.clone());
        let yaml = serde_yaml_ng::to_string(&value).unwrap();
        prop_assert_eq!(document::parse_document(yaml.as_bytes(), Format::Yaml, &Limits::default()).unwrap(), value);
    }
}

fn part() -> impl Strategy<Value = String> {
    let parts = [
        "{{", "}}", "{%", "%}", "{#", "#}", "-", "steps", ".a", ".outputs", ".x", "['b-1']", "[\"c\"]", "[0]", " ",
        "if ", "endif", "else", "for i in ", "endfor", "raw", "endraw", "goal", ".description", "|upper",
        "|default('y')", "|join(',')", " ~ ", " + ", " * ", " > ", "1", "'s'", "(", ")", "[", "]", "{", "}", "not ",
        " and ", " is defined", ",", ":", "steps.a.outputs.x", "\\", "é", "\n",
    ];
    proptest::sample::select(parts.to_vec()).prop_map(str::to_owned)
}

/// A plan that is written for plan actions with some state, and read again, is the same plan.
fn returns(plan: &Plan, turn: usize) -> Result<(), TestCaseError> {
    let statuses = StepStatus::ALL;
    let steps: Vec<Value> = plan
        .steps
        .iter()
        .enumerate()
        .map(|(n, step)| {
            let status = statuses[(n + turn) % statuses.len()];
            let outputs = (status == StepStatus::Completed).then(|| json!({"n": n}));
            json!({"id": step.id, "kind": step.kind, "agent_type": step.agent_type, "status": status, "attempt": 1,
                   "dependencies": step.dependencies, "outputs": outputs})
        })
        .collect();
    let view: PlanView = serde_json::from_value(json!({
        "plan_id": "p0-x", "status": PlanStatus::ALL[turn % PlanStatus::ALL.len()], "name": "n", "revision": turn,
        "counts": Counts::default(), "progress": 0.5, "usage": {}, "created_at": "2027-01-01T00:00:00Z",
        "updated_at": "2027-01-01T00:00:01Z", "seq": 4, "planner": "submitted", "confidence": 1.0, "strategy": plan.strategy,
        "goal": {"description": "Do it", "success_criteria": ["It is done"]}, "steps": steps,
    }))
    .unwrap();
    let written = export_plan(plan, &ExportState::from_view(&view));
    let schema = jsonschema::validator_for(&format_schema(DocumentFormat::Actions)).unwrap();
    prop_assert!(schema.is_valid(&written), "{}", written);
    let text = written.to_string();
    let read = document::parse_document(text.as_bytes(), Format::Json, &Limits::default()).unwrap();
    let converted = convert_plan(read, &Limits::default()).unwrap();
    prop_assert_eq!(converted.format, Some(DocumentFormat::Actions), "{}", text);
    match validate::validate_plan(&converted.document, &Limits::default()) {
        Ok(valid) => prop_assert_eq!(valid.plan(), plan, "{}", text),
        Err(issues) => prop_assert!(false, "{:#?} in {}", issues, text),
    }
    let goal = validate::goal(&document::split_goal(&converted.document).unwrap(), &Limits::default()).unwrap();
    prop_assert_eq!(goal.description, "Do it");
    Ok(())
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-1_000_000..1_000_000_i64).prop_map(Value::from),
        (-1_000..1_000).prop_map(|n| json!(f64::from(n) + 0.5)),
        "[a-z{} .%]{0,12}".prop_map(Value::from),
    ];
    let key = prop_oneof![
        Just("id".to_owned()),
        Just("steps".to_owned()),
        Just("needs".to_owned()),
        Just("plan".to_owned()),
        Just("phases".to_owned()),
        Just("inputs".to_owned()),
        Just("at_least".to_owned()),
        Just("max".to_owned()),
        "[a-z/~]{1,6}",
    ];
    leaf.prop_recursive(4, 32, 5, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map(key.clone(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn plan() -> impl Strategy<Value = Plan> {
    let head = (
        "[A-Za-z ]{0,20}",
        prop_oneof![Just(Width::Sequential), Just(Width::Parallel), Just(Width::Adaptive)],
        option::of(1..100_u32),
        option::of(0..9_999_u64),
        option::of(approval()),
        0..3_usize,
    );
    (head, vec(step(), 1..8)).prop_map(|((name, strategy, max_parallel, tokens, approve, phases), mut steps)| {
        let phases: Vec<Phase> = (0..phases)
            .map(|i| Phase { id: format!("phase {i}"), description: "some".into(), checkpoint: i == 1 })
            .collect();
        let count = steps.len();
        for (i, step) in steps.iter_mut().enumerate() {
            step.id = format!("s-{i}").into();
            step.dependencies = (0..i).filter(|d| (i * 7 + d * 3) % 3 == 0).map(|d| format!("s-{d}").into()).collect();
            step.phase = (!phases.is_empty()).then(|| phases[i * phases.len() / count].id.clone());
            if let Some(first) = step.dependencies.first() {
                step.inputs =
                    Json::from_value(&json!({"seen": format!("{{{{ steps['{first}'].outputs.x }}}}"), "n": 1.5}));
                step.when = Some(format!("steps['{first}'].outputs.n > 1"));
                step.ask = (i % 2 == 0).then(|| Question {
                    question: format!("{{{{ steps['{first}'].outputs.x }}}}?"),
                    schema: Some(Json::from_value(&json!({"type": "integer"}))),
                    default: Some(Json::from_value(&json!(1))),
                    limit_ms: 7,
                    into: Some("n".into()),
                });
                step.for_each = (i % 3 == 1 && step.kind != StepKind::Finish && step.judges.is_empty()).then(|| {
                    Box::new(ForEach {
                        items: Json::from_value(&json!(format!("{{{{ steps['{first}'].outputs.list }}}}"))),
                        name: (i % 2 == 0).then(|| "city".into()),
                        batch: max_parallel,
                        max_parallel,
                        items_max: max_parallel,
                        on_item_failure: OnItemFailure::AtMost(2),
                    })
                });
                let repeats = i % 3 == 2 && step.kind.needs_worker() && step.cache.is_none();
                step.repeat = repeats.then(|| {
                    let until = format!("outputs.n > steps['{first}'].outputs.n or iteration == 2");
                    Box::new(Repeat { until, max: 3, delay_ms: 1_500, on_max: OnMax::Continue })
                });
                step.join = Join::AtLeast(goalmill_common::number::to_u32(step.dependencies.len()));
            }
        }
        Plan {
            name,
            strategy,
            max_parallel,
            input_schema: max_parallel.map(|n| json!({"type": "object", "maxProperties": n}).into()),
            budget: Budget { tokens, cost: tokens.map(|t| t as f64 / 4.0), seconds: None },
            approve,
            revision: max_parallel.map(|n| RevisionPolicy {
                max: Some(n % 4),
                threshold: 0.5,
                approve,
                widen: Widen::Approve,
                ..RevisionPolicy::default()
            }),
            continue_on_failure: phases.len() == 1,
            undo_on: max_parallel.map(|n| if n % 2 == 0 { vec![UndoOn::Failed] } else { Vec::new() }),
            failures_max: max_parallel.map(|n| n % 5),
            collect: if phases.len() == 2 { Collect::List } else { Collect::Last },
            confidence: max_parallel.map(|n| f64::from(n) / 100.0),
            estimates: Estimates { seconds: None, tokens, cost: tokens.map(|t| t as f64 / 8.0) },
            phases,
            steps,
            metadata: Map::from_iter([("b".to_owned(), json!(1)), ("a".to_owned(), json!({"x": []}))]),
        }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let what = ("[A-Za-z ]{0,20}", kind(), "[a-z_]{0,9}", option::of("[a-z]{1,9}"), vec("[a-z_]{1,9}", 0..3));
    let policy = (
        option::of(1..9_999_999_u64),
        retry(),
        on_failure(),
        option::of(approval()),
        option::of(1..=10_u8),
        option::of("[a-z]{1,9}"),
    );
    let more = (
        option::of(0..999_u32),
        option::of(1..99_999_u64),
        option::of("[a-z]{1,9}"),
        prop_oneof![Just(Join::All), Just(Join::Any)],
    );
    (what, policy, more).prop_map(
        |(
            (description, kind, action, agent, expected_outputs),
            (timeout_ms, retry, on_failure, approve, priority, resource),
            (seconds, ttl_ms, fallback, join),
        )| {
            let agent = match kind {
                StepKind::Tool | StepKind::Llm => agent.unwrap_or_else(|| "auto".to_owned()),
                StepKind::Message | StepKind::Finish | StepKind::Internal | StepKind::Plan | StepKind::Wait => {
                    String::new()
                }
            };
            let plan = (kind == StepKind::Plan)
                .then(|| Box::new(Plan { steps: vec![Step::new("inner", "auto")], ..Plan::default() }));
            Step {
                description,
                kind,
                action,
                expected_outputs,
                expected_output: if ttl_ms.is_some() { "a list, or a word".into() } else { String::new() },
                join,
                timeout_ms,
                retry,
                on_failure,
                approve,
                resource,
                plan,
                priority: priority.map(Priority),
                fallback: fallback.map(|agent| Fallback { agent_type: Some(agent.into()), action: None }),
                estimates: Estimates { seconds: seconds.map(f64::from), tokens: ttl_ms, cost: None },
                cache: ttl_ms.map(|ttl_ms| Cache { key: "{{ goal.description }}".into(), ttl_ms }),
                output_schema: ttl_ms.map(|_| Json::from_value(&json!({"type": "object"}))),
                ..Step::new("x", agent)
            }
        },
    )
}

fn kind() -> impl Strategy<Value = StepKind> {
    prop_oneof![
        Just(StepKind::Tool),
        Just(StepKind::Llm),
        Just(StepKind::Message),
        Just(StepKind::Finish),
        Just(StepKind::Internal),
        Just(StepKind::Plan)
    ]
}

fn on_failure() -> impl Strategy<Value = OnFailure> {
    prop_oneof![
        Just(OnFailure::Abort),
        Just(OnFailure::Skip),
        Just(OnFailure::Continue),
        Just(OnFailure::Replan),
        Just(OnFailure::AskUser),
    ]
}

fn approval() -> impl Strategy<Value = Approval> {
    (1..86_400_000_u64, any::<bool>()).prop_map(|(limit_ms, yes)| Approval {
        limit_ms,
        default: if yes { ApprovalDefault::Approve } else { ApprovalDefault::Reject },
    })
}

fn retry() -> impl Strategy<Value = Retry> {
    (0..=100_u32, 0..5_000_u64, 4..40_u32, 0..90_000_u64, any::<bool>()).prop_map(
        |(max, initial_ms, quarters, more, full)| Retry {
            max,
            initial_ms,
            factor: f64::from(quarters) / 4.0,
            max_ms: initial_ms + more,
            jitter: if full { Jitter::Full } else { Jitter::None },
        },
    )
}
