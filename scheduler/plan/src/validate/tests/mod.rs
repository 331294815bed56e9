//! Applies every hint that validation can print, and validates the result.
//!
//! Each case is a document, and the change that the hint of its issue asks for. Names that a hint proposes are taken
//! from its text. A place in the code that notes an issue and that no case reaches fails the test.

use std::collections::BTreeSet;
use std::path::Path;

use goalmill_common::agent::WorkerBeat;
use goalmill_common::constraint::{Constraint, constraints};
use goalmill_common::id::AgentType;
use goalmill_common::limits::Limits;
use goalmill_common::problem::Issue;
use serde_json::{Map, Value, json};

use super::{ActionEntry, AgentEntry, Catalogue, Policy, Requirements, Rules};
use crate::document::{ValidationContext, seen_places};

/// How a hint is applied.
#[derive(Clone, Debug)]
enum HintChange {
    /// Writes a value at a JSON Pointer.
    Set(&'static str, Value),
    Remove(&'static str),
    /// Renames a field to the first name in backticks of the hint.
    Rename(&'static str),
    /// Writes the last name in backticks of the hint at a JSON Pointer.
    Write(&'static str),
}

use HintChange::{Remove, Rename, Set, Write};
use cases::{
    fields, of_cleanup, of_conditions, of_dependencies, of_goals, of_graphs, of_inputs, of_layouts, of_loops, of_maps,
    of_steps, of_stored_plans, of_waits,
};

mod cases;

/// A document, the code and the place of its issue, and the change.
struct HintCase {
    is_goal: bool,
    document: Value,
    code: &'static str,
    changes: Vec<HintChange>,
}

fn plan(code: &'static str, document: Value, changes: &[HintChange]) -> HintCase {
    HintCase { is_goal: false, document, code, changes: changes.to_vec() }
}

fn goal(code: &'static str, mut document: Value, changes: &[HintChange]) -> HintCase {
    if let Some(map) = document.as_object_mut().filter(|map| !map.contains_key("goal")) {
        map.entry("description").or_insert_with(|| json!("Do it"));
    }
    HintCase { is_goal: true, document, code, changes: changes.to_vec() }
}

/// A plan of one step with these fields.
fn step(code: &'static str, fields: Value, changes: &[HintChange]) -> HintCase {
    let mut step = json!({"id": "a"});
    step.as_object_mut().expect("it is an object").extend(fields.as_object().cloned().unwrap_or_default());
    plan(code, json!({"steps": [step]}), changes)
}

/// Small limits, so that small documents pass them.
fn limits() -> Limits {
    Limits {
        steps_max: 6,
        dependencies_max: 2,
        path_max: 3,
        depth_max: 1,
        plan_bytes_max: 2_000,
        inline_bytes_max: 300,
        payload_bytes_max: 1_500,
        text_chars_max: 200,
        events_max: 52,
        family_steps_max: 11,
        schemas_bytes_max: 256 << 10,
        ..Limits::default()
    }
}

fn catalogue() -> Catalogue {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false});
    let outputs = json!({"type": "object", "properties": {"text": {"type": "string"}, "n": {"type": "integer"}}, "additionalProperties": false});
    let mut find = ActionEntry::default();
    (find.inputs, find.outputs) = (Some(schema), Some(outputs));
    let mut broken = ActionEntry::default();
    broken.inputs = Some(json!({"type": "no-such-type"}));
    let mut agent = AgentEntry::default();
    for (name, action) in [("find", find), ("broken", broken)] {
        agent.actions.insert(name.into(), action);
    }
    let mut catalogue = Catalogue::default();
    catalogue.insert("finder", agent);
    catalogue
}

fn check(case: &HintCase, document: &Value, rules: &Rules<'_>) -> Result<Vec<Issue>, Vec<Issue>> {
    // The small limits of the other cases do not hold ten steps.
    let limits = if case.code == "UNROLLED_STEPS" { Limits::default() } else { limits() };
    if case.is_goal {
        return super::goal(document, &limits).map(|_| Vec::new());
    }
    let context = ValidationContext::with_rules(&limits, rules);
    super::read_plan(&context, document);
    context.take_issues()
}

fn names(hint: &str) -> Vec<&str> {
    hint.split('`').skip(1).step_by(2).collect()
}

fn parent<'v>(document: &'v mut Value, pointer: &str) -> (&'v mut Value, String) {
    let (at, key) = pointer.rsplit_once('/').expect("a pointer to a field");
    (document.pointer_mut(at).unwrap_or_else(|| panic!("`{pointer}` is not there")), key.to_owned())
}

fn put(document: &mut Value, pointer: &str, value: Value) {
    if pointer.is_empty() {
        *document = value;
        return;
    }
    let (parent, key) = parent(document, pointer);
    if let Value::Array(items) = parent {
        match key.parse::<usize>() {
            Ok(n) if n < items.len() => items[n] = value,
            _ => items.push(value),
        }
    } else {
        parent[key] = value;
    }
}

fn remove(document: &mut Value, pointer: &str) -> Value {
    let (parent, key) = parent(document, pointer);
    if let Value::Array(items) = parent {
        items.remove(key.parse().expect("a number"))
    } else {
        parent.as_object_mut().and_then(|map| map.remove(&key)).unwrap_or_else(|| panic!("`{pointer}`"))
    }
}

fn apply(document: &mut Value, change: &HintChange, hint: &str) {
    let name = |place: Option<&&str>| (*place.unwrap_or_else(|| panic!("no name in `{hint}`"))).to_owned();
    match change {
        Set(pointer, value) => put(document, pointer, value.clone()),
        Remove(pointer) => drop(remove(document, pointer)),
        Rename(pointer) => {
            let value = remove(document, pointer);
            let (at, _) = pointer.rsplit_once('/').expect("a pointer to a field");
            put(document, &format!("{at}/{}", name(names(hint).first())), value);
        }
        Write(pointer) => put(document, pointer, json!(name(names(hint).last()))),
    }
}

/// Whether the issue is there, and gone once its hint is applied; else what is left.
fn outcome(case: &HintCase, rules: &Rules<'_>) -> Result<(), String> {
    let (Ok(found) | Err(found)) = check(case, &case.document, rules);
    let Some(issue) = found.iter().find(|issue| issue.code == case.code) else {
        return Err(format!("no {} in {found:#?} of {}", case.code, case.document));
    };
    let mut changed = case.document.clone();
    case.changes.iter().for_each(|change| apply(&mut changed, change, &issue.hint));
    match check(case, &changed, rules) {
        Ok(left) if !issue.hint.is_empty() && left.iter().all(|left| left.code != case.code) => Ok(()),
        Ok(left) | Err(left) => Err(format!("{issue:#?} leads to {changed}: {left:#?}")),
    }
}

fn holds(case: &HintCase, rules: &Rules<'_>) {
    all_hold(std::slice::from_ref(case), rules);
}

fn all_hold(cases: &[HintCase], rules: &Rules<'_>) {
    let wrong: Vec<String> = cases.iter().filter_map(|case| outcome(case, rules).err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn steps(ids: &[&str]) -> Value {
    json!({"steps": ids.iter().map(|id| json!({"id": id})).collect::<Vec<_>>()})
}

#[test]
fn every_hint_applied_validates() {
    let open = Rules::default();
    seen_places(|places| places.clear());
    let of_form: Vec<HintCase> = [
        fields(),
        of_steps(),
        of_maps(),
        of_loops(),
        of_stored_plans(),
        of_waits(),
        of_cleanup(),
        of_conditions(),
        of_layouts(),
        of_graphs(),
        of_dependencies(),
        of_goals(),
    ]
    .into_iter()
    .flatten()
    .collect();
    all_hold(&of_form, &open);
    all_hold(&of_inputs(), &Rules { inputs: Some(vec!["city".to_owned()]), ..Rules::default() });
    by_rules();
    let missed: Vec<String> = written_places().difference(&seen_places(|places| places.clone())).cloned().collect();
    assert!(missed.is_empty(), "no case reaches {missed:#?}");
}

/// What is checked against agents, policies and budgets.
fn by_rules() {
    let known = catalogue();
    let planned =
        Rules { now_ms: goalmill_common::clock::parse_rfc3339("2026-11-29T12:00:00Z"), ..Rules::planned(&known) };
    let find = |id: &str, more: Value| {
        let mut step = json!({"id": id, "agent_type": "finder", "action": "find", "inputs": {"n": 1}});
        step.as_object_mut().expect("it is an object").extend(more.as_object().cloned().unwrap_or_default());
        step
    };
    let one = |more: Value| json!({"steps": [find("a", more)]});
    let reads = |path: &str| json!({"steps": [find("a", json!({})), find("b", json!({"dependencies": ["a"], "inputs": {"n": path}}))]});
    let cases = [
        plan("UNKNOWN_AGENT", one(json!({"agent_type": "findre"})), &[Write("/steps/0/agent_type")]),
        plan("UNKNOWN_ACTION", one(json!({"action": "fnd"})), &[Write("/steps/0/action")]),
        plan("INPUT_MISSING", one(json!({"inputs": {}})), &[Set("/steps/0/inputs/n", json!(1))]),
        plan(
            "AGENT_SCHEMA_UNUSABLE",
            json!({"steps": [{"id": "a", "agent_type": "finder", "action": "broken", "inputs": {"n": 1}}]}),
            &[Set("/steps/0/action", json!("find"))],
        ),
        plan(
            "OUTPUT_UNKNOWN",
            reads("{{ steps.a.outputs.m }}"),
            &[Set("/steps/1/inputs/n", json!("{{ steps.a.outputs.n }}"))],
        ),
        plan(
            "TYPE_MISMATCH",
            json!({"steps": [find("a", json!({})), find("b", json!({"dependencies": ["a"], "for_each": "{{ steps.a.outputs.n }}"}))]}),
            &[Set("/steps/1/for_each", json!([1, 2]))],
        ),
        plan(
            "CONDITIONAL_OUTPUTS",
            json!({"steps": [find("a", json!({"undo": {"agent_type": "finder", "action": "find", "inputs": {"n": "{{ steps.b.outputs.n }}"}}})), find("b", json!({"dependencies": ["a"]}))]}),
            &[Set("/steps/0/undo/inputs/n", json!("{{ outputs.n }}"))],
        ),
        plan(
            "STATUS_IMPOSSIBLE",
            json!({"steps": [find("a", json!({})), find("b", json!({"dependencies": ["a"], "when": "steps.a.status == 'failed'"}))]}),
            &[Set("/steps/1/dependencies", json!([{"step": "a", "is": ["failed"]}])), Remove("/steps/1/when")],
        ),
        plan(
            "WAIT_PASSED",
            json!({"steps": [{"id": "a", "wait": {"until": "2026-11-01T00:00:00Z"}}]}),
            &[Set("/steps/0/wait/until", json!("2026-11-30T00:00:00Z"))],
        ),
        plan(
            "WAIT_TOO_LONG",
            json!({"steps": [{"id": "a", "wait": {"until": "2027-11-01T00:00:00Z"}}]}),
            &[Set("/steps/0/wait/until", json!("2026-11-30T00:00:00Z"))],
        ),
        plan(
            "TYPE_MISMATCH",
            reads("{{ steps.a.outputs.text }}"),
            &[Set("/steps/1/inputs/n", json!("{{ steps.a.outputs.n }}"))],
        ),
        plan(
            "REF_LATER_STEP",
            json!({"steps": [find("a", json!({"inputs": {"n": "{{ steps.b.outputs.n }}"}, "dependencies": ["b"]})), find("b", json!({}))]}),
            &[
                Set("/steps/0", find("b", json!({}))),
                Set("/steps/1", find("a", json!({"inputs": {"n": "{{ steps.b.outputs.n }}"}, "dependencies": ["b"]}))),
            ],
        ),
        plan(
            "UNREAD_OUTPUTS",
            json!({"steps": [find("a", json!({"expected_outputs": ["n"]})), find("b", json!({"dependencies": ["a"]}))]}),
            &[Set("/steps/1/inputs/n", json!("{{ steps.a.outputs.n }}"))],
        ),
        plan(
            "UNROLLED_STEPS",
            json!({"steps": (0..10).map(|n| find(&format!("s{n}"), json!({"inputs": {"n": n}}))).collect::<Vec<_>>()}),
            &[Set("/steps", json!([find("all", json!({"for_each": [0, 1, 2], "inputs": {"n": "{{ item }}"}}))]))],
        ),
    ];
    all_hold(&cases, &planned);
    let policy = Policy { deny: vec!["shell/*".into()], approve: vec!["mail/*".into()], ..Policy::default() };
    let by_policy = Rules { policy: &policy, ..Rules::default() };
    holds(
        &plan(
            "ACTION_DENIED",
            json!({"steps": [{"id": "a", "agent_type": "shell", "action": "run"}]}),
            &[Set("/steps/0/agent_type", json!("echo"))],
        ),
        &by_policy,
    );
    holds(
        &plan(
            "APPROVAL_REQUIRED",
            json!({"steps": [{"id": "a", "agent_type": "mail", "action": "send"}]}),
            &[Set("/steps/0/approve", json!({"limit": "1h"}))],
        ),
        &by_policy,
    );
    starts_a_worker();
    for requires in [
        Requirements { dependencies: true, ..Requirements::default() },
        Requirements { fallbacks: true, ..Requirements::default() },
    ] {
        let rules = Rules { requires, ..Rules::default() };
        let changes = if requires.fallbacks {
            vec![
                Set("/steps/0/fallback", json!({"agent_type": "echo"})),
                Set("/steps/1/fallback", json!({"agent_type": "echo"})),
            ]
        } else {
            vec![Set("/steps/1/dependencies", json!(["a"]))]
        };
        holds(&plan("MISSING_FIELD", steps(&["a", "b"]), &changes), &rules);
    }
    let dear = json!({"budget": {"cost": 1}, "steps": [{"id": "a", "estimates": {"cost": 5, "seconds": 50}}]});
    holds(&plan("BUDGET_EXCEEDED", dear.clone(), &[Set("/budget/cost", json!(10))]), &Rules::default());
    let dear = json!({"steps": [{"id": "a", "estimates": {"cost": 5, "seconds": 50}}]});
    let cheaper = Set("/steps/0/estimates/cost", json!(0.5));
    holds(
        &plan("CONSTRAINT_BROKEN", dear.clone(), std::slice::from_ref(&cheaper)),
        &Rules { constraints: constraint(9), ..Rules::default() },
    );
    holds(
        &plan("CONSTRAINT_AT_RISK", dear.clone(), &[cheaper]),
        &Rules { constraints: constraint(1), ..Rules::default() },
    );
    let faster = vec![Set("/steps/0/estimates", json!({"seconds": 1}))];
    holds(&plan("CONSTRAINT_BROKEN", dear, &faster), &Rules { seconds_left: Some(10.0), ..Rules::default() });
}

/// The hint of this issue is no change of the document: a worker is started.
fn starts_a_worker() {
    let document = json!({"steps": [{"id": "a", "agent_type": "finder", "action": "find", "inputs": {"n": 1}}]});
    let case = plan("NO_LIVE_WORKER", document, &[]);
    let (none, one) = (BTreeSet::new(), BTreeSet::from([AgentType::from("finder")]));
    let told = |rules: &Rules<'_>| -> Vec<String> {
        let issues = check(&case, &case.document, rules).unwrap_or_else(|issues| panic!("{issues:#?}"));
        issues.into_iter().filter(|issue| issue.code == case.code).map(|issue| issue.hint).collect()
    };
    let hint = "start one: goalmill worker --agents finder".to_owned();
    assert_eq!(told(&Rules { live: Some(&none), ..Rules::default() }), std::slice::from_ref(&hint));
    assert!(told(&Rules { live: Some(&one), ..Rules::default() }).is_empty());
    let beat: WorkerBeat = serde_json::from_value(json!({
        "worker": "w", "agents": ["finder"], "slots": 1, "busy": 0, "version": "1", "host": "h", "started_ms": 1,
    }))
    .expect("it is a heartbeat");
    let (idle, served) = (catalogue().with_workers(&[]), catalogue().with_workers(&[beat]));
    assert_eq!(told(&Rules::planned(&idle)), [hint]);
    assert!(told(&Rules::planned(&served)).is_empty());
}

fn constraint(priority: u8) -> Vec<Constraint> {
    let given = Map::from_iter([("budget".to_owned(), json!({"value": "1 USD", "priority": priority}))]);
    constraints(&given)
}

/// The places in the code that note an issue: `step.rs:203`.
fn written_places() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut places = BTreeSet::new();
    for dir in ["validate", "document"] {
        for entry in std::fs::read_dir(root.join(dir)).expect("the sources are there") {
            let path = entry.expect("it can be read").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // Passes on to the place that calls it.
            if path.is_dir() || name == "validation_context.rs" {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("it is text");
            let code = text.split("#[cfg(test)]\nmod").next().unwrap_or_default();
            for (n, line) in code.lines().enumerate() {
                let notes = [".error(", ".warn(", "context.weigh("].iter().any(|call| line.contains(call));
                if notes {
                    places.insert(format!("{name}:{}", n + 1));
                }
            }
        }
    }
    places
}
