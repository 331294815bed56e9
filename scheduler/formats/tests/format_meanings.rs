//! Fields of the forms of other planners mean what their forms say, or are refused where they stand.

use goalmill_common::limits::Limits;
use goalmill_common::plan::{OnFailure, Plan, StepKind, Strategy};
use goalmill_common::problem::Issue;
use goalmill_formats::{ConvertedDocument, convert_goal, convert_plan, revision_changes, withhold_context};
use goalmill_plan::document::{self, Format};
use goalmill_plan::foreign;
use goalmill_plan::validate::{self, ActionEntry, AgentEntry, Catalogue};
use serde_json::{Value, json};

fn converted(document: Value) -> ConvertedDocument {
    convert_plan(document, &Limits::default()).unwrap_or_else(|issues| panic!("{issues:#?}"))
}

fn read(document: Value) -> Plan {
    let converted = converted(document);
    let valid = validate::validate_plan(&converted.document, &Limits::default());
    valid.unwrap_or_else(|issues| panic!("{issues:#?} in {}", converted.document)).into_plan()
}

fn inputs(plan: &Plan) -> Vec<Value> {
    plan.steps.iter().map(|step| step.inputs.value()).collect()
}

fn details(issues: &[Issue]) -> Vec<&str> {
    issues.iter().map(|issue| issue.detail.as_str()).collect()
}

/// Code and place of what is wrong with a document, as a plan or as a goal.
fn refused(document: Value) -> Vec<(String, String)> {
    let limits = Limits::default();
    let of = |issues: Vec<Issue>| issues.into_iter().map(|issue| (issue.code, issue.pointer)).collect();
    let is_plan = ["steps", "subtasks", "plan", "nodes", "phases"].iter().any(|key| document.get(key).is_some());
    if !is_plan || foreign::is_workflow(&document) {
        return match convert_goal(document, &limits) {
            Err(issues) => of(issues),
            Ok(converted) => {
                of(converted.locate(validate::goal(&converted.document, &limits).expect_err("it is refused")))
            }
        };
    }
    match convert_plan(document, &limits) {
        Err(issues) => of(issues),
        Ok(converted) => {
            of(converted.locate(validate::validate_plan(&converted.document, &limits).expect_err("it is refused")))
        }
    }
}

fn one(code: &str, place: &str) -> Vec<(String, String)> {
    vec![(code.to_owned(), place.to_owned())]
}

#[test]
fn steps_of_a_document_without_references_get_the_goal_and_the_results_before_them() {
    let goal = "{{ goal.description }}";
    let of_a = json!({"a": "{{ steps.a.outputs | default(none) }}"});
    let subtasks = json!({"goal_id": "g", "goal": "Go", "subtasks": [
        {"task_id": "a", "description": "x", "inputs": {"n": 1}, "expected_outputs": ["y"]},
        {"task_id": "b", "description": "y", "dependencies": ["a"], "expected_outputs": ["z"]}]});
    let expected = vec![json!({"n": 1, "goal": goal}), json!({"goal": goal, "results": of_a})];
    assert_eq!(inputs(&read(subtasks.clone())), expected);
    let steps = json!({"goal": "Go", "steps": [
        {"id": 1, "description": "x", "parameters": {"n": 1}, "expected_output": "y"},
        {"id": 2, "description": "y", "parameters": {}, "expected_output": "z", "dependencies": [1]}]});
    let of_one = json!({"1": "{{ steps[\"1\"].outputs | default(none) }}"});
    assert_eq!(inputs(&read(steps))[1], json!({"goal": goal, "results": of_one}));
    let phases = json!({"query": "Go", "phases": [
        {"id": "p", "order": 0, "steps": [{"id": "a", "type": "tool_call", "toolName": "t", "config": {"n": 1}}]},
        {"id": "q", "order": 1, "steps": [{"id": "b", "type": "llm_call", "dependencies": ["a"]}]}]});
    assert_eq!(inputs(&read(phases)), expected);
    for own in [
        json!({"pass_context": false}),
        json!({"subtasks": [{"task_id": "c", "inputs": {"x": "{{ a.y }}"}, "dependencies": ["a"]}]}),
    ] {
        let mut document = subtasks.clone();
        let mut added = own.as_object().expect("it is an object").clone();
        if let Some(Value::Array(steps)) = added.remove("subtasks") {
            document["subtasks"].as_array_mut().expect("it is a list").extend(steps);
        }
        document.as_object_mut().expect("it is an object").extend(added);
        assert_eq!(inputs(&read(document))[0], json!({"n": 1}), "{own}");
    }
    let own = json!({"goal": "Go", "steps": [{"id": "a"}, {"id": "b", "dependencies": ["a"]}]});
    assert_eq!(inputs(&read(own)), [json!({}), json!({})], "our own form says what it means");
    assert!(details(&converted(subtasks).notes).iter().any(|note| note.starts_with("`pass_context` is true")));
}

#[test]
fn a_plan_inside_gets_what_its_step_gets() {
    let document = json!({"goal": "Move", "strategy": "hierarchical", "subtasks": [
        {"id": "export", "description": "x"},
        {"id": "import", "description": "y", "dependencies": ["export"], "subtasks": [
            {"id": "map", "description": "z"}, {"id": "load", "description": "w", "dependencies": ["map"]}]}]});
    let plan = read(document);
    let outer =
        json!({"goal": "{{ goal.description }}", "results": {"export": "{{ steps.export.outputs | default(none) }}"}});
    assert_eq!(inputs(&plan)[1], outer);
    let goal = "{{ goal.metadata.inputs.goal }}";
    let inner = inputs(plan.steps[1].plan.as_ref().expect("it has a plan"));
    assert_eq!(inner[0], json!({"goal": goal, "results": "{{ goal.metadata.inputs.results }}"}));
    assert_eq!(inner[1], json!({"goal": goal, "results": {"map": "{{ steps.map.outputs | default(none) }}"}}));
}

#[test]
fn only_a_document_that_gets_inputs_is_marked() {
    let subtasks = json!({"goal": "Go", "subtasks": [{"id": "a", "status": "pending"}]});
    let own = json!({"goal": "Go", "steps": [{"id": "a", "inputs": {"goal": "{{ goal.description }}"}}]});
    let mut switched_off = subtasks.clone();
    switched_off["pass_context"] = json!(false);
    let marks = [subtasks, own, switched_off].map(|document| converted(document).hands_on);
    assert_eq!(marks, [true, false, false]);
}

#[test]
fn an_action_that_takes_no_other_inputs_gets_none() {
    let mut plan = read(json!({"goal": "Go", "subtasks": [
        {"id": "a", "agent_type": "open", "status": "pending"},
        {"id": "b", "agent_type": "strict", "dependencies": ["a"], "inputs": {"n": 1}}]}));
    let mut catalogue = Catalogue::default();
    catalogue.insert("open", AgentEntry::default());
    let schema = json!({"type": "object", "properties": {"n": {}, "goal": {}}, "additionalProperties": false});
    let mut action = ActionEntry::default();
    action.inputs = Some(schema);
    catalogue.insert("strict", AgentEntry { actions: [("do".to_owned(), action)].into(), ..AgentEntry::default() });
    let withheld = withhold_context(&mut plan, &catalogue);
    let goal = "{{ goal.description }}";
    assert_eq!(inputs(&plan), [json!({"goal": goal}), json!({"n": 1, "goal": goal})]);
    assert_eq!((withheld.len(), withheld[0].pointer.as_str()), (1, "/steps/1/inputs"), "{withheld:?}");
}

#[test]
fn edges_are_said_to_give_the_order_only() {
    let graph = json!({"nodes": {"a": {"type": "tool", "toolId": "t"}, "b": {"type": "tool", "toolId": "t"}}, "edges": {"a": ["b"]}});
    assert!(details(&converted(graph).notes).iter().any(|note| note.contains("give the order only")));
    let refers = json!({"planId": "p", "steps": [{"id": "a", "type": "tool", "toolId": "t"}, {"id": "b", "type": "finish", "input": {"x": "{{ a }}"}}]});
    assert!(!details(&converted(refers).notes).iter().any(|note| note.contains("give the order only")));
}

#[test]
fn settings_beside_a_plan_hold_whatever_its_planning_was() {
    let document = |beside: Value| {
        let mut document = json!({"plan": {"goal": "g", "strategy": "flat", "subtasks": [{"id": "a"}, {"id": "b"}]}});
        document.as_object_mut().expect("it is an object").extend(beside.as_object().expect("it is an object").clone());
        document
    };
    let plan = read(document(json!({"parallel": true, "max_concurrent": 2})));
    assert_eq!((plan.strategy, plan.max_parallel), (Strategy::Parallel, Some(2)));
    assert_eq!(read(document(json!({"parallel": false}))).strategy, Strategy::Sequential);
    let mut both = document(json!({"parallel": true}));
    both["plan"]["execution_strategy"] = json!("sequential");
    assert_eq!(refused(both), one("CONFLICTING_FIELDS", "/parallel"));
    assert_eq!(refused(document(json!({"parallel": "yes"}))), one("INVALID_VALUE", "/parallel"));
}

#[test]
fn a_step_stands_in_the_phase_that_it_names() {
    let document = |phase: &str| {
        json!({"query": "g", "phases": [
            {"id": "p", "order": 0, "steps": [{"id": "a", "phaseId": phase, "type": "tool_call", "toolName": "t", "config": {}}]},
            {"id": "q", "order": 1, "steps": []}]})
    };
    assert_eq!(read(document("p")).steps[0].phase.as_deref(), Some("p"));
    assert_eq!(refused(document("q")), one("CONFLICTING_FIELDS", "/phases/0/steps/0/phaseId"));
}

#[test]
fn who_asks_for_revisions_gets_them_when_a_step_fails() {
    let on_failure = |settings: Value| {
        let mut document = json!({"goal": "g", "steps": [{"id": "a"}, {"id": "b", "on_failure": "skip"}]});
        document
            .as_object_mut()
            .expect("it is an object")
            .extend(settings.as_object().expect("it is an object").clone());
        let plan = read(document);
        assert_eq!(plan.steps[1].on_failure, OnFailure::Skip, "a step's own word counts");
        (plan.steps[0].on_failure, plan.revision.and_then(|policy| policy.max))
    };
    assert_eq!(on_failure(json!({"allow_revision": true})), (OnFailure::Replan, None));
    assert_eq!(on_failure(json!({"max_revisions": 2})), (OnFailure::Replan, Some(2)));
    assert_eq!(on_failure(json!({"revision_strategy": "workaround"})).0, OnFailure::Replan);
    assert_eq!(on_failure(json!({"allow_revision": false})), (OnFailure::Abort, Some(0)));
    assert_eq!(on_failure(json!({"max_revisions": 2, "on_subtask_failure": "abort"})), (OnFailure::Abort, Some(2)));
    assert_eq!(on_failure(json!({"max_revisions": 2, "continue_on_failure": true})), (OnFailure::Abort, Some(2)));
    let conflict = json!({"steps": [{"id": "a"}], "allow_revision": false, "max_revisions": 2});
    assert_eq!(refused(conflict), one("CONFLICTING_FIELDS", "/max_revisions"));
    let unknown = json!({"steps": [{"id": "a"}], "revision_strategy": "magic"});
    assert_eq!(refused(unknown), one("INVALID_VALUE", "/revision_strategy"));
    let goal = convert_goal(json!({"goal": "g", "allow_revision": true}), &Limits::default());
    let goal = validate::goal(&goal.expect("it can be converted").document, &Limits::default()).expect("it is a goal");
    assert_eq!(goal.execution.on_failure, Some(OnFailure::Replan));
}

#[test]
fn an_executor_gives_each_step_its_prompt() {
    let document = |prompt: &str| {
        json!({"goal": "g", "strategy": "flat", "subtasks": [{"id": "a", "description": "look"}],
               "subtask_executor": {"action": "llm.call", "with": {"prompt": prompt}}})
    };
    let plan = read(document("Do {{ subtask.description }} for {{ goal }}"));
    assert_eq!(plan.steps[0].kind, StepKind::Llm);
    assert_eq!(inputs(&plan)[0]["prompt"], "Do look for {{ goal.description }}");
    assert_eq!(
        inputs(&read(document("{{ subtask.description }}")))[0].get("prompt"),
        None,
        "agents get the description"
    );
    assert_eq!(refused(document("{{ tools }}")), one("INVALID_VALUE", "/subtask_executor/with/prompt"));
    let other = json!({"strategy": "flat", "subtasks": [{"id": "a"}], "subtask_executor": {"action": "http.get"}});
    assert_eq!(refused(other), one("INVALID_VALUE", "/subtask_executor/action"));
}

#[test]
fn prompts_of_planners_are_filled_in() {
    let prompt = |document: Value| {
        let converted = convert_goal(document, &Limits::default()).expect("it can be converted");
        validate::goal(&converted.document, &Limits::default()).expect("it is a goal").planning.prompt
    };
    let settings =
        json!({"goal": "Brew tea", "max_subtasks": 4, "prompt_template": "Plan {{ goal }} in {max_subtasks} steps"});
    assert_eq!(prompt(settings).as_deref(), Some("Plan Brew tea in 4 steps"));
    let workflow = |template: &str| {
        json!({"state": {"who": "Ann", "goal": "Brew tea"}, "nodes": [
            {"action": "plan.decompose", "with": {"goal": "{{ state.goal }}", "prompt_template": template}},
            {"action": "plan.execute", "with": {}}]})
    };
    assert_eq!(prompt(workflow("{{ goal }} for {{ state.who }}")).as_deref(), Some("Brew tea for Ann"));
    assert_eq!(refused(workflow("{{ context }}")), one("INVALID_VALUE", "/nodes/0/with/prompt_template"));
    assert_eq!(refused(workflow("{{ state.when }}")), one("MISSING_FIELD", "/state/when"));
}

#[test]
fn a_node_that_replans_lets_steps_ask_for_revisions() {
    let workflow = json!({"nodes": [{"action": "plan.decompose", "with": {"goal": "g"}}, {"action": "plan.execute", "with": {}},
        {"action": "plan.replan", "with": {"plan": "{{ state.plan }}"}}]});
    let converted = convert_goal(workflow, &Limits::default()).expect("it can be converted");
    let goal = validate::goal(&converted.document, &Limits::default()).expect("it is a goal");
    assert_eq!(goal.execution.on_failure, Some(OnFailure::Replan));
}

#[test]
fn documents_that_are_no_plan_and_no_goal_are_refused_with_where_they_belong() {
    let node = json!({"nodes": [{"action": "plan.decompose", "with": {"goal": "g"}}, {"name": "x", "action": "llm.call", "with": {"prompt": "p"}}]});
    assert_eq!(refused(node), one("FOREIGN_FORMAT", "/nodes/1/action"));
    let calls = json!({"nodes": [{"name": "x", "action": "llm.call", "with": {"prompt": "p"}}]});
    assert_eq!(refused(calls), one("FOREIGN_FORMAT", "/nodes/0/action"));
    for document in [
        json!({"revision_id": "r", "original_plan_id": "p", "trigger": "t", "new_subtasks": [], "removed_task_ids": ["a"]}),
        json!({"task_id": "a", "feedback_type": "success", "actual_outputs": {}}),
        json!({"agent_type": "a", "capabilities": ["b"], "specialization": "c"}),
    ] {
        assert_eq!(refused(document.clone()), one("FOREIGN_FORMAT", ""), "{document}");
    }
}

#[test]
fn a_revision_is_a_list_of_changes() {
    let revision = json!({"original_plan_id": "p", "new_subtasks": [{"task_id": "b", "description": "again"}, {"task_id": "c", "description": "more"}],
                          "removed_task_ids": ["a"], "modified_task_ids": ["b"]});
    let names: Vec<String> = revision_changes(&revision)
        .iter()
        .flat_map(|change| change.as_object().expect("it has a name").keys().cloned())
        .collect();
    assert_eq!(names, ["modify_step", "add_step", "remove_step"]);
}

#[test]
fn a_subtask_that_does_not_say_what_it_gives_is_noted() {
    let document = json!({"goal_id": "g", "subtasks": [{"task_id": "a", "description": "x"}, {"task_id": "b", "description": "y"}]});
    let notes = converted(document).notes;
    let note = notes.iter().find(|note| note.pointer == "/subtasks/0/expected_outputs").expect("it is noted");
    assert!(note.detail.starts_with("`expected_outputs`, in 2 places, is missing"), "{note:?}");
}

#[test]
fn documents_may_have_comments() {
    let text =
        "// a plan\n{\"steps\": [ /* one */ {\"id\": \"a\", \"inputs\": {\"url\": \"http://x\"}} // the only\n]}";
    let read = |text: &str| document::parse_document(text.as_bytes(), Format::Auto, &Limits::default());
    assert_eq!(read(text), Ok(json!({"steps": [{"id": "a", "inputs": {"url": "http://x"}}]})));
    let stream = "// a stream\n{\"partialReasoning\": \"r\"}\n{\"type\": \"step\", \"step\": {\"id\": \"a\"}} // it\n";
    assert_eq!(read(stream), Ok(json!({"steps": [{"id": "a"}], "planId": "stream"})));
    let wrong = read("{\"a\": 1,\n /* x */ b}").expect_err("it is no JSON");
    assert!(wrong[0].detail.contains("line 2 column 10"), "{wrong:?}");
}
