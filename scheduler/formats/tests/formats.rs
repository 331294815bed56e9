//! Documents of other planners become the plans that they mean.

use goalmill_common::goal::Goal;
use goalmill_common::limits::Limits;
use goalmill_common::plan::{OnFailure, Plan, StepKind, Strategy};
use goalmill_common::problem::Issue;
use goalmill_formats::{
    DocumentFormat, DraftKind, ExportState, convert_draft, convert_goal, convert_plan, export_plan, format_schema,
    workflow_plan,
};
use goalmill_plan::document::{self, Format};
use goalmill_plan::foreign;
use goalmill_plan::validate;
use serde_json::{Value, json};

const SUBTASKS: &str = include_str!("formats/subtasks-plan.json");
const SUBTASKS_GOAL: &str = include_str!("formats/subtasks-goal.json");
const SUBTASKS_TASKS: &str = include_str!("formats/subtasks-tasks.json");
const PLAN_AND_EXECUTE: &str = include_str!("formats/plan_and_execute.json");
const ACTIONS: &str = include_str!("formats/actions-plan.json");
const PHASES: &str = include_str!("formats/phases-plan.json");
const NODES_GRAPH: &str = include_str!("formats/nodes-graph.json");
const NODES_STEPS: &str = include_str!("formats/nodes-steps.json");
const WORKFLOW: &str = include_str!("formats/actions-workflow.yaml");
const NODES_STREAM: &str = include_str!("formats/nodes-stream.ndjson");

/// What became of a document.
struct Outcome {
    plan: Plan,
    goal: Option<Value>,
    format: Option<DocumentFormat>,
    /// Places of the notes.
    noted: Vec<String>,
}

fn read(value: Value) -> Outcome {
    let limits = Limits::default();
    let converted = convert_plan(value, &limits).unwrap_or_else(|issues| panic!("{issues:#?}"));
    let goal = document::split_goal(&converted.document);
    if let Some(goal) = &goal {
        validate::goal(goal, &limits).unwrap_or_else(|issues| panic!("{issues:#?}"));
    }
    let valid = validate::validate_plan(&converted.document, &limits);
    let valid = valid.unwrap_or_else(|issues| panic!("{issues:#?} in {}", converted.document));
    assert!(converted.notes.iter().all(|note| note.code == "FORMAT_CONVERTED"), "{:?}", converted.notes);
    let noted = converted.notes.iter().map(|note| note.pointer.clone()).collect();
    Outcome { plan: valid.into_plan(), goal, format: converted.format, noted }
}

fn read_text(text: &str) -> Outcome {
    read(document::parse_document(text.as_bytes(), Format::Json, &Limits::default()).expect("it is JSON"))
}

fn refused(value: Value) -> Vec<(String, String)> {
    let place = |issue: Issue| (issue.code, issue.pointer);
    let converted = match convert_plan(value, &Limits::default()) {
        Ok(converted) => converted,
        Err(issues) => return issues.into_iter().map(place).collect(),
    };
    let issues = validate::validate_plan(&converted.document, &Limits::default()).expect_err("it is refused");
    converted.locate(issues).into_iter().map(place).collect()
}

fn needs(plan: &Plan, id: &str) -> Vec<String> {
    let step = plan.steps.iter().find(|step| step.id.as_str() == id).expect("there is such a step");
    step.dependencies.iter().map(ToString::to_string).collect()
}

/// Everything that moves: a map of plans, a loop, waits, branches by status, undo, callbacks, clean-up.
fn moving_plan() -> Value {
    json!({
        "strategy": "adaptive", "undo_on": ["failed"], "input_schema": {"type": "object"},
        "steps": [
            {"id": "find", "kind": "internal", "inputs": {"cities": ["Rome", "Oslo"]}},
            {"id": "trips", "for_each": "{{ steps.find.outputs.cities }}", "as": "city", "max_parallel": 2, "items_max": 9,
             "on_item_failure": {"at_most": 1}, "depends_on": ["find"], "inputs": {"city": "{{ city }}", "n": "{{ index }}"},
             "plan": {"collect": "list", "failures_max": 1, "steps": [
                {"id": "book", "agent_type": "echo", "action": "book", "undo": {"action": "cancel"}},
                {"id": "nap", "kind": "wait", "for": "2s", "depends_on": ["book"]}]}},
            {"id": "draft", "agent_type": "echo", "action": "write", "depends_on": ["trips"], "callback": true,
             "inputs": {"text": "{{ previous.outputs.text | default('x') }}"},
             "repeat": {"until": "outputs.score > 0.8", "max": 5, "delay": "10s", "on_max": "continue"}},
            {"id": "paid", "kind": "wait", "depends_on": ["draft"], "wait": {"event": "payment", "key": "{{ goal.metadata.order }}",
             "schema": {"type": "object"}, "timeout": "2d", "on_timeout": {"default": {"paid": false}}}},
            {"id": "later", "kind": "wait", "depends_on": ["paid"], "until": "2027-01-31T12:00:00Z"},
            {"id": "pay", "agent_type": "echo", "action": "pay", "depends_on": ["later"], "undo": {"action": "refund", "inputs": {"n": "{{ outputs.n }}"}}},
            {"id": "each", "agent_type": "echo", "action": "book", "for_each": [1, 2, 3], "batch": 2, "undo": {"action": "cancel"}},
            {"id": "notice", "agent_type": "echo", "action": "send", "depends_on": [{"step": "pay", "is": ["failed"]}, {"step": "each", "is": ["completed", "skipped"]}]},
            {"id": "end", "kind": "finish", "depends_on": [{"step": "notice", "is": ["completed", "skipped"]}]}],
        "always": [{"id": "report", "agent_type": "echo", "action": "report", "inputs": {"status": "{{ plan.status }}"}},
                   {"id": "tell", "agent_type": "echo", "action": "tell", "depends_on": ["report"]}],
    })
}

#[test]
fn a_workflow_of_another_engine_is_refused_with_one_issue() {
    let workflows = [
        (json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "spec": {"entrypoint": "a"}}), "Argo"),
        (
            json!({"name": "w", "schemaVersion": 2, "tasks": [{"taskReferenceName": "a", "type": "SIMPLE"}]}),
            "Conductor",
        ),
        (json!({"schemaVersion": "1.5", "workflow": {"specification": {"tasks": []}}}), "WfCommons"),
    ];
    for (workflow, engine) in workflows {
        let converted = convert_plan(workflow, &Limits::default()).expect("validation refuses it");
        let issues = validate::validate_plan(&converted.document, &Limits::default()).expect_err("it is no plan");
        assert_eq!(issues.iter().map(|issue| issue.code.as_str()).collect::<Vec<_>>(), ["FOREIGN_FORMAT"]);
        assert!(issues[0].detail.contains(engine), "{issues:?}");
    }
}

#[test]
fn plans_that_move_are_the_same_after_plan_actions_wrote_them() {
    let goal = Goal { description: "Go".into(), ..Goal::default() };
    let state = ExportState::unstarted("p0-1".into(), goal, 0);
    let mut plans = vec![read(moving_plan()).plan];
    for name in ["map", "loop", "saga", "failure-branch"] {
        let path = format!("{}/../../docs/examples/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read(path).expect("the example is there");
        plans.push(read(document::parse_document(&text, Format::Yaml, &Limits::default()).expect("it is YAML")).plan);
    }
    for plan in &plans {
        let written = export_plan(plan, &state);
        let back = read(written.clone());
        assert_eq!((back.format, &back.plan), (Some(DocumentFormat::Actions), plan), "{written:#}");
    }
}

#[test]
fn an_edge_may_have_statuses() {
    let document = |edges: Value| {
        let waits = json!({"id": "b", "agent_type": "x", "dependency_status": {"a": ["failed"]}});
        read(json!({"nodes": [{"id": "a", "agent_type": "x"}, waits], "edges": edges})).plan.steps.remove(1)
    };
    let branch = document(json!([{"from": "a", "to": "b"}]));
    assert!(branch.handles_failure_of(&"a".into()), "{branch:?}");
    assert!(document(json!([])).dependency_status.is_empty());
}

#[test]
fn subtasks_keep_their_policies_and_lose_their_state() {
    let Outcome { plan, format, noted, .. } = read_text(SUBTASKS);
    assert_eq!(format, Some(DocumentFormat::Subtasks));
    assert_eq!(
        (plan.strategy, plan.confidence, plan.estimates.seconds),
        (Strategy::Sequential, Some(0.65), Some(35.0))
    );
    let first = &plan.steps[0];
    assert_eq!((first.retry.max, first.retry.initial_ms, first.estimates.seconds), (1, 500, Some(30.0)));
    assert_eq!(
        (first.agent_type.as_str(), &first.expected_outputs[..]),
        ("research_agent", &["tariffs".to_owned()][..])
    );
    assert!(plan.steps[1].agent_type.is_auto());
    assert_eq!(plan.metadata["goal_id"], "goal_12");
    assert_eq!(plan.metadata["alternative_plans"], json!(["plan_32"]));
    assert_eq!(noted, ["", "/created_at", "/updated_at", "/subtasks/0/status", "/pass_context"]);
}

#[test]
fn tasks_without_ids_depend_on_each_other_by_number() {
    let plan = read_text(SUBTASKS_TASKS).plan;
    assert_eq!(needs(&plan, "step-3"), ["step-1", "step-2"]);
    let from_one = json!({"tasks": [{"description": "a", "dependencies": []}, {"description": "b", "dependencies": [1]},
                                    {"description": "c", "dependencies": [1, 2]}]});
    assert_eq!(needs(&read(from_one).plan, "step-3"), ["step-1", "step-2"]);
}

#[test]
fn a_goal_of_the_form_subtasks_is_a_goal() {
    let draft =
        document::parse_document(SUBTASKS_GOAL.as_bytes(), Format::Json, &Limits::default()).expect("it is JSON");
    let converted = convert_goal(draft, &Limits::default()).expect("it can be converted");
    assert_eq!(converted.format, Some(DocumentFormat::Subtasks));
    let goal = validate::goal(&converted.document, &Limits::default()).expect("it is a goal");
    assert_eq!((goal.priority.0, goal.success_criteria.len()), (6, 2));
    assert_eq!(goal.metadata["goal_id"], "goal_12");
    assert!(!goal.constraints.is_empty());
    let typed = |word: &str| {
        let goal = json!({"goal_id": "g", "goal_type": word, "description": "x"});
        let converted = convert_goal(goal, &Limits::default()).expect("it can be converted");
        validate::goal(&converted.document, &Limits::default()).map(|goal| goal.goal_type)
    };
    assert_eq!(typed("event_planning"), Ok("custom:event_planning".to_owned()));
    assert_eq!(typed("resaerch").expect_err("it is misspelled")[0].pointer, "/goal_type");
}

#[test]
fn settings_beside_a_plan_become_fields_of_plan_and_steps() {
    let Outcome { plan, goal, format, noted } = read_text(PLAN_AND_EXECUTE);
    assert_eq!(format, Some(DocumentFormat::PlanAndExecute));
    assert_eq!((plan.strategy, plan.max_parallel), (Strategy::Sequential, Some(2)));
    assert_eq!(plan.revision.as_ref().map(|revision| (revision.max, revision.threshold)), Some((Some(1), 0.4)));
    assert_eq!(plan.estimates.tokens, Some(4_000));
    for step in &plan.steps {
        assert_eq!((step.timeout_ms, step.retry.max), (Some(20_000), 0));
    }
    assert_eq!(
        plan.steps[0].fallback.as_ref().and_then(|fallback| fallback.action.as_deref()),
        Some("download_mirror")
    );
    assert_eq!(plan.steps[0].expected_output, "recording");
    assert_eq!(plan.steps[0].expected_outputs, Vec::<String>::new(), "one word is no contract");
    assert_eq!(needs(&plan, "2"), ["1"]);
    let goal = goal.expect("the plan has a goal");
    assert_eq!(goal["success_criteria"], "Every decision of the board is in the minutes");
    assert!(noted.contains(&"/structured_output".to_owned()), "{noted:?}");
}

#[test]
fn nested_subtasks_are_plans_inside() {
    let Outcome { plan, format, noted, .. } = read_text(ACTIONS);
    assert_eq!(format, Some(DocumentFormat::Actions));
    let copy = &plan.steps[1];
    let inner = copy.plan.as_ref().expect("it has a plan inside");
    assert_eq!((copy.kind, inner.steps.len()), (StepKind::Plan, 2));
    assert_eq!(needs(inner, "rows"), ["files"]);
    assert_eq!(plan.steps[0].kind, StepKind::Tool);
    assert_eq!(plan.revision.as_ref().and_then(|revision| revision.max), Some(2));
    assert_eq!(plan.metadata.get("team"), Some(&json!("web")));
    for place in ["/subtasks/0/status", "/subtasks/0/result", "/metadata/replan_count"] {
        assert!(noted.contains(&place.to_owned()), "{place} of {noted:?}");
    }
}

#[test]
fn phases_and_their_steps_run_in_their_order() {
    let Outcome { plan, goal, format, noted } = read_text(PHASES);
    assert_eq!(format, Some(DocumentFormat::Phases));
    let phases: Vec<(&str, bool)> = plan.phases.iter().map(|phase| (phase.id.as_str(), phase.checkpoint)).collect();
    assert_eq!(phases, [("one", true), ("two", false)]);
    let steps: Vec<&str> = plan.steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(steps, ["load", "count", "write"]);
    assert_eq!((plan.steps[2].kind, plan.steps[2].action.as_str()), (StepKind::Llm, "summarise"));
    assert_eq!(plan.steps[0].inputs.value(), json!({"days": 30, "goal": "{{ goal.description }}"}));
    assert_eq!(goal, Some(json!("Which suppliers are late?")));
    // The place is the one in the document as it was written.
    assert!(noted.contains(&"/phases/1/steps/1/status".to_owned()), "{noted:?}");
}

#[test]
fn nodes_and_edges_become_steps_and_dependencies() {
    let Outcome { plan, format, .. } = read_text(NODES_GRAPH);
    assert_eq!(format, Some(DocumentFormat::Nodes));
    assert_eq!(needs(&plan, "join"), ["left", "right"]);
    assert_eq!(needs(&plan, "end"), ["join"]);
    assert_eq!(plan.steps[2].inputs.value(), json!({"rows": "{{ steps.left.outputs.rows }}"}));
    assert_eq!(plan.steps[3].inputs.value(), json!({"result": "{{ steps.join.outputs }}"}));
    assert_eq!((plan.steps[3].kind, plan.steps[0].action.as_str()), (StepKind::Finish, "read_left"));
}

#[test]
fn steps_without_edges_follow_what_they_refer_to_or_each_other() {
    let plan = read_text(NODES_STEPS).plan;
    assert_eq!((needs(&plan, "say"), needs(&plan, "end")), (vec!["ask".to_owned()], vec!["say".to_owned()]));
    assert_eq!(plan.steps[1].inputs.value(), json!({"text": "It is {{ steps.ask.outputs.sky }}"}));
    let listed = json!({"planId": "x", "steps": [{"id": "a", "type": "tool", "toolId": "t"}, {"id": "b", "type": "tool", "toolId": "t"}]});
    assert_eq!(needs(&read(listed).plan, "b"), ["a"]);
}

#[test]
fn a_stream_of_steps_is_one_plan_with_its_end() {
    let plan = read(document::join_stream(NODES_STREAM).expect("it is a stream").plan).plan;
    assert_eq!(plan.steps.len(), 4);
    assert_eq!(needs(&plan, "c"), ["a", "b"]);
    assert_eq!((needs(&plan, "b"), needs(&plan, "finish")), (vec![], vec!["c".to_owned()]));
    assert_eq!(plan.steps[3].inputs.value(), json!({"result": "joined"}));
    for other in ["{\"steps\": []}", "no stream", "{\"id\": \"a\"}\n{\"id\": \"b\"}", "{\"type\": \"step\"\n"] {
        assert_eq!(document::join_stream(other), None, "{other}");
    }
    let read = document::parse_document(NODES_STREAM.as_bytes(), Format::Auto, &Limits::default());
    assert_eq!(read, Ok(document::join_stream(NODES_STREAM).expect("it is a stream").plan), "a document may be one");
}

#[test]
fn our_own_form_is_left_alone() {
    for own in [
        json!({"steps": [{"id": "a", "inputs": {"x": "{{ a }}"}}]}),
        json!([{"id": "a"}]),
        json!({"goal": "g", "plan": {"steps": [{"id": "a"}]}}),
        json!({"nodes": [{"id": "a"}, {"id": "b"}], "edges": [{"from": "a", "to": "b"}]}),
        json!({"phases": [{"id": "p", "steps": [{"id": "a"}]}]}),
    ] {
        let converted = convert_plan(own.clone(), &Limits::default()).expect("it can be converted");
        assert_eq!((converted.document, converted.format, converted.notes), (own, None, vec![]));
    }
}

#[test]
fn state_in_our_own_form_is_ignored_with_a_note() {
    let outcome = read(json!({"status": "running", "steps": [{"id": "a", "status": "completed", "result": {"x": 1}},
                                                            {"id": "b", "status": "pending"}]}));
    assert_eq!(outcome.noted, ["/status", "/steps/0/status", "/steps/0/result"]);
}

#[test]
fn fields_of_no_form_are_refused_where_they_stand() {
    let mut phases: Value = serde_json::from_str(PHASES).expect("it is JSON");
    phases["phases"][1]["steps"][1]["toolNaame"] = json!("x");
    assert_eq!(refused(phases), [("UNKNOWN_FIELD".into(), "/phases/1/steps/1/toolNaame".into())]);
    let mut actions: Value = serde_json::from_str(ACTIONS).expect("it is JSON");
    actions["subtasks"][1]["subtasks"][0]["dependencies"] = json!(["nowhere"]);
    assert_eq!(refused(actions), [("UNKNOWN_DEPENDENCY".into(), "/subtasks/1/subtasks/0/dependencies/0".into())]);
    let mut nodes: Value = serde_json::from_str(NODES_GRAPH).expect("it is JSON");
    nodes["edges"]["left"] = json!(["join", "nowhere"]);
    assert_eq!(refused(nodes), [("UNKNOWN_DEPENDENCY".into(), "/edges/left/1".into())]);
    let mut subtasks: Value = serde_json::from_str(SUBTASKS).expect("it is JSON");
    subtasks["confidence_score"] = json!(1.5);
    assert_eq!(refused(subtasks), [("OUT_OF_RANGE".into(), "/confidence_score".into())]);
    let mut configured: Value = serde_json::from_str(PLAN_AND_EXECUTE).expect("it is JSON");
    configured["step_timeout"] = json!("soon");
    assert!(refused(configured).contains(&("INVALID_TIMEOUT".into(), "/step_timeout".into())));
}

#[test]
fn what_becomes_of_a_failed_subtask_is_said_once_for_all() {
    let document = json!({"subtasks": [{"id": "a"}, {"id": "b", "on_failure": "skip", "subtasks": [{"id": "c"}]}],
        "strategy": "flat", "on_subtask_failure": "retry", "max_retries": 2, "retry_delay": 0.5, "max_concurrent": 4,
        "subtask_executor": {"action": "agent.dispatch", "with": {"agent": "general"}}});
    let plan = read(document).plan;
    let first = &plan.steps[0];
    assert_eq!((first.retry.max, first.retry.initial_ms, first.on_failure), (2, 500, OnFailure::Abort));
    assert_eq!((first.agent_type.as_str(), plan.max_parallel), ("general", Some(4)));
    assert_eq!(plan.steps[1].on_failure, OnFailure::Skip, "a step's own word counts");
    assert_eq!(plan.steps[1].plan.as_ref().map(|inner| inner.steps[0].agent_type.as_str()), Some("general"));
}

#[test]
fn the_state_of_a_planner_is_a_goal_with_context() {
    let state = json!({"sessionId": "s-1", "transcript": [{"role": "user", "text": "hello"}], "memorySnapshot": {"likes": "tea"},
        "goal": "Brew tea", "stepCount": 3, "limits": {"costCeiling": 0.5}});
    let converted = convert_goal(state, &Limits::default()).expect("it can be converted");
    let goal = validate::goal(&converted.document, &Limits::default()).expect("it is a goal");
    assert_eq!((goal.description.as_str(), goal.budget.cost), ("Brew tea", Some(0.5)));
    assert_eq!(goal.metadata["session_id"], "s-1");
    assert_eq!(converted.notes.len(), 2, "{:?}", converted.notes);
}

#[test]
fn the_examples_match_the_schemas_of_their_forms() {
    for (format, text) in [
        (DocumentFormat::Subtasks, SUBTASKS),
        (DocumentFormat::Subtasks, SUBTASKS_GOAL),
        (DocumentFormat::Subtasks, SUBTASKS_TASKS),
        (DocumentFormat::PlanAndExecute, PLAN_AND_EXECUTE),
        (DocumentFormat::Actions, ACTIONS),
        (DocumentFormat::Phases, PHASES),
        (DocumentFormat::Nodes, NODES_GRAPH),
        (DocumentFormat::Nodes, NODES_STEPS),
    ] {
        let schema = jsonschema::validator_for(&format_schema(format)).expect("it is a schema");
        let value: Value = serde_json::from_str(text).expect("it is JSON");
        let wrong: Vec<String> = schema.iter_errors(&value).map(|error| error.to_string()).collect();
        assert_eq!(wrong, Vec::<String>::new(), "{format}");
        assert!(!schema.is_valid(&json!({"unlike": "any"})), "{format}");
    }
    let lines = jsonschema::validator_for(&format_schema(DocumentFormat::Nodes)).expect("it is a schema");
    assert!(NODES_STREAM.lines().all(|line| lines.is_valid(&serde_json::from_str(line).expect("it is JSON"))));
}

#[test]
fn a_workflow_is_a_goal_with_its_planning_and_execution() {
    let limits = Limits::default();
    let workflow = document::parse_document(WORKFLOW.as_bytes(), Format::Yaml, &limits).expect("it is YAML");
    assert!(foreign::is_workflow(&workflow) && workflow_plan(&workflow).is_none());
    let converted = convert_goal(workflow.clone(), &limits).expect("it can be converted");
    assert_eq!(converted.format, Some(DocumentFormat::Actions));
    let goal = validate::goal(&converted.document, &limits).unwrap_or_else(|issues| panic!("{issues:#?}"));
    assert_eq!(goal.description, "Prepare the audit");
    let execution = &goal.execution;
    assert_eq!((execution.strategy, execution.max_parallel), (Some(Strategy::Parallel), Some(4)));
    assert_eq!(execution.agent_type.as_ref().map(|agent| agent.as_str()), Some("general"));
    assert_eq!(execution.retry.map(|retry| (retry.max, retry.initial_ms)), Some((2, 500)));
    assert_eq!(execution.on_failure, Some(OnFailure::Abort));
    assert!(!goal.planning.require_approval, "it is executed");
    let mut open = workflow.clone();
    open.as_object_mut().expect("it is an object").remove("state");
    let missing = convert_goal(open, &limits).expect_err("the state is missing");
    assert_eq!((missing.len(), missing[0].pointer.as_str()), (1, "/state/user_goal"), "{missing:?}");
    let mut planned_only = workflow.clone();
    planned_only["nodes"].as_array_mut().expect("it is a list").truncate(1);
    let goal = validate::goal(&convert_goal(planned_only, &limits).expect("it can be converted").document, &limits)
        .expect("it is a goal");
    assert!(goal.planning.require_approval, "what is only decomposed waits for a person");
    let mut wrong = workflow;
    wrong["nodes"][1]["with"]["max_retries"] = json!("many");
    let converted = convert_goal(wrong, &limits).expect("it can be converted");
    let issues = converted.locate(validate::goal(&converted.document, &limits).expect_err("it is wrong"));
    assert_eq!(issues[0].pointer, "/nodes/1/with/max_retries", "{issues:?}");
    let given = json!({"nodes": [{"action": "plan.execute", "with": {"plan": {"subtasks": [{"id": "a", "subtasks": []}]}, "max_concurrent": 2}}]});
    let plan = read(workflow_plan(&given).expect("the plan is given")).plan;
    assert_eq!((plan.steps.len(), plan.max_parallel), (1, Some(2)));
}

/// The strategies of a plan and of the plans inside it.
fn strategies(plan: &Plan) -> Vec<Strategy> {
    let inner = plan.steps.iter().filter_map(|step| step.plan.as_deref()).flat_map(strategies);
    std::iter::once(plan.strategy).chain(inner).collect()
}

#[test]
fn each_form_keeps_its_own_order_of_execution() {
    let subtasks = json!({"goal_id": "g", "subtasks": [{"task_id": "a", "description": "x"}, {"task_id": "b", "description": "y"}]});
    let steps =
        json!({"goal": "g", "steps": [{"id": "1", "description": "x", "parameters": {}, "expected_output": "y"}]});
    let nested = json!({"goal": "g", "strategy": "hierarchical", "subtasks": [{"id": "a", "subtasks": [{"id": "b", "subtasks": [{"id": "c"}]}]}]});
    let phases = json!({"query": "g", "phases": [{"id": "p", "order": 0, "steps": [{"id": "a"}, {"id": "b"}]}]});
    let graph =
        json!({"nodes": {"a": {"type": "tool", "toolId": "t"}, "b": {"type": "tool", "toolId": "t"}}, "edges": {}});
    let (parallel, sequential, adaptive) = (Strategy::Parallel, Strategy::Sequential, Strategy::Adaptive);
    for (document, format, expected) in [
        (subtasks.clone(), DocumentFormat::Subtasks, vec![sequential]),
        (steps.clone(), DocumentFormat::PlanAndExecute, vec![sequential]),
        (nested.clone(), DocumentFormat::Actions, vec![sequential; 3]),
        (phases, DocumentFormat::Phases, vec![parallel]),
        (graph, DocumentFormat::Nodes, vec![parallel]),
    ] {
        let outcome = read(document);
        assert_eq!((outcome.format, strategies(&outcome.plan)), (Some(format), expected), "{format}");
        let is_noted = outcome.noted.contains(&"/strategy".to_owned());
        assert_eq!(is_noted, outcome.plan.strategy == sequential, "{format}: {:?}", outcome.noted);
    }
    let said = |mut document: Value, key: &str, value: Value| {
        document[key] = value;
        strategies(&read(document).plan)
    };
    assert_eq!(said(subtasks.clone(), "execution_strategy", json!("parallel")), [parallel]);
    assert_eq!(said(subtasks, "execution_strategy", json!("hybrid")), [parallel], "dependencies alone hold steps back");
    assert_eq!(said(steps.clone(), "execution_mode", json!("adaptive")), [adaptive]);
    assert_eq!(said(steps, "execution_mode", json!("hybrid")), [parallel]);
    assert_eq!(said(nested.clone(), "parallel", json!(true)), [parallel; 3], "it is said of the plans inside too");
    assert_eq!(said(nested, "parallel", json!(false)), [sequential; 3]);
}

#[test]
fn a_workflow_or_a_configured_goal_keeps_the_order_of_its_form() {
    let strategy = |goal: Value| {
        let converted = convert_goal(goal, &Limits::default()).expect("it can be converted");
        let goal =
            validate::goal(&converted.document, &Limits::default()).unwrap_or_else(|issues| panic!("{issues:#?}"));
        goal.execution.strategy
    };
    let workflow = |with: Value| json!({"nodes": [{"action": "plan.decompose", "with": {"goal": "g"}}, {"action": "plan.execute", "with": with}]});
    assert_eq!(strategy(workflow(json!({"plan": "{{ state.plan }}"}))), Some(Strategy::Sequential));
    assert_eq!(strategy(workflow(json!({"parallel": true}))), Some(Strategy::Parallel));
    assert_eq!(strategy(json!({"goal": "g", "step_timeout": 5})), Some(Strategy::Sequential));
    assert_eq!(strategy(json!({"goal": "g", "execution_mode": "parallel"})), Some(Strategy::Parallel));
    assert_eq!(strategy(json!({"description": "g"})), None);
}

#[test]
fn a_model_that_answers_in_another_form_was_asked_for_ours() {
    let draft =
        json!({"subtasks": [{"task_id": "a", "expected_outputs": ["x"]}, {"task_id": "b", "expected_outputs": ["y"]}]});
    let converted = convert_draft(draft, &Limits::default(), DraftKind::Answer);
    assert_eq!((converted.format, converted.document.get("strategy")), (Some(DocumentFormat::Subtasks), None));
}

#[test]
fn what_an_executor_says_beside_its_agent_is_refused() {
    let document = json!({"subtasks": [{"id": "a", "subtasks": []}, {"id": "b"}], "strategy": "flat",
        "subtask_executor": {"action": "agent.dispatch", "with": {"agent": "general", "model": "no-such", "temperature": 0.2}}});
    let unknown = |place: &str| ("UNKNOWN_FIELD".to_owned(), place.to_owned());
    let places = ["/subtask_executor/with/model", "/subtask_executor/with/temperature"];
    assert_eq!(refused(document), places.map(unknown));
    let workflow = json!({"nodes": [
        {"action": "plan.decompose", "with": {"goal": "g", "max_replans": 1}},
        {"action": "plan.execute", "if": "true", "with": {"max_replans": 2, "subtask_executor": {"action": "agent.dispatch", "with": {"agent": "a", "model": "m"}}}},
    ]});
    let issues = convert_goal(workflow, &Limits::default()).expect_err("it is refused");
    let places: Vec<&str> = issues.iter().map(|issue| issue.pointer.as_str()).collect();
    assert_eq!(places, ["/nodes/1/if", "/nodes/1/with/max_replans", "/nodes/1/with/subtask_executor/with/model"]);
}

#[test]
fn settings_of_approval_and_revision_have_their_names_of_other_planners() {
    let settings = json!({"require_plan_approval": true, "allow_revision": true, "revision_strategy": "workaround", "max_revisions": 2});
    let mut plan = settings.clone();
    plan["steps"] = json!([{"id": "a"}]);
    let plan = read(plan).plan;
    let policy = plan.revision.expect("revisions are allowed");
    assert!(plan.approve.is_some());
    assert_eq!((policy.max, policy.strategy.map(|s| s.as_str())), (Some(2), Some("workaround")));
    let planning = |mut goal: Value| {
        goal["goal"] = json!("g");
        let converted = convert_goal(goal, &Limits::default()).expect("it can be converted");
        validate::goal(&converted.document, &Limits::default()).unwrap_or_else(|issues| panic!("{issues:#?}")).planning
    };
    let of_goal = planning(settings);
    assert!(of_goal.require_approval);
    assert_eq!(of_goal.revision.and_then(|policy| policy.max), Some(2));
    let without = planning(json!({"allow_revision": false}));
    assert_eq!(without.revision.and_then(|policy| policy.max), Some(0));
    let refused_plan = json!({"steps": [{"id": "a"}], "allow_revision": false});
    assert_eq!(read(refused_plan).plan.revision.and_then(|policy| policy.max), Some(0));
}
