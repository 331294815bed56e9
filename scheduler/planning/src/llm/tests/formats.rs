//! Models that answer in the form of another planner are understood at once.

use super::*;

/// The same plan in every form: a flight, then a room.
fn answers() -> Vec<(&'static str, String)> {
    let find = json!({"to": "Rome"});
    let book = json!({"city": "Rome", "day": "{{ steps.flight.outputs.day }}"});
    let subtask = |id: &str, agent: &str, inputs: &Value, after: &[&str]| {
        json!({"task_id": id, "description": format!("Do {id}"), "agent_type": agent, "inputs": inputs,
               "dependencies": after, "expected_outputs": [], "status": "pending", "priority": 5,
               "estimated_duration_seconds": 20, "retry_policy": {"max_retries": 2, "backoff_seconds": 1}})
    };
    let step = |id: &str, action: &str, inputs: &Value, after: &[&str]| {
        json!({"id": id, "description": format!("Do {id}"), "action": action, "parameters": inputs, "dependencies": after,
               "expected_output": "what was found", "fallback_action": null, "estimated_tokens": 100})
    };
    let phase = |id: &str, order: u32, steps: Value| {
        json!({"id": id, "planId": "p", "name": id, "status": "pending", "steps": steps, "replanCheckpoint": false,
               "order": order})
    };
    let phase_step = |id: &str, phase: &str, action: &str, inputs: &Value, after: &[&str]| {
        json!({"id": id, "phaseId": phase, "type": "tool_call", "toolName": action, "config": inputs,
               "dependencies": after, "status": "pending", "order": 0})
    };
    let node =
        |id: &str, action: &str, inputs: &Value| json!({"id": id, "type": "tool", "toolId": action, "input": inputs});
    let stream = [
        json!({"partialReasoning": "The day is needed before the room."}),
        json!({"type": "step", "step": node("flight", "find_flight", &find)}),
        json!({"type": "reasoning", "text": "Now the room."}),
        json!({"type": "step", "step": {"id": "room", "type": "tool", "toolId": "book_room", "input": book,
                                        "meta": {"after": ["flight"]}}}),
    ];
    vec![
        (
            "subtasks",
            json!({"plan_id": "p", "goal_id": "g", "execution_strategy": "hybrid", "confidence_score": 0.8,
                   "estimated_total_duration": 40,
                   "subtasks": [subtask("flight", "air", &find, &[]), subtask("room", "rooms", &book, &["flight"])]})
            .to_string(),
        ),
        (
            "tasks by number",
            json!({"tasks": [{"description": "Find a flight", "agent_type": "air", "inputs": find, "dependencies": []},
                             {"description": "Book a room", "agent_type": "rooms",
                              "inputs": {"city": "Rome", "day": "{{ steps['step-1'].outputs.day }}"}, "dependencies": [0]}]})
            .to_string(),
        ),
        (
            "plan_and_execute",
            json!({"goal": GOAL, "success_criteria": "There is a room", "estimated_total_tokens": 200,
                   "steps": [step("flight", "find_flight", &find, &[]), step("room", "book_room", &book, &["flight"])]})
            .to_string(),
        ),
        (
            "actions",
            json!({"id": "p", "goal": GOAL, "strategy": "flat", "metadata": {"replan_count": 0, "max_replans": 3},
                   "subtasks": [{"id": "flight", "description": "Find a flight", "action": "find_flight", "inputs": find,
                                 "dependencies": [], "status": "pending", "result": null},
                                {"id": "room", "description": "Book a room", "action": "book_room", "inputs": book,
                                 "dependencies": ["flight"], "status": "pending", "result": null}]})
            .to_string(),
        ),
        (
            "phases",
            json!({"id": "p", "query": GOAL, "status": "planning", "createdAt": "2027-01-01T00:00:00Z", "phases": [
                phase("there", 1, json!([phase_step("room", "there", "book_room", &book, &["flight"])])),
                phase("travel", 0, json!([phase_step("flight", "travel", "find_flight", &find, &[])])),
            ]})
            .to_string(),
        ),
        (
            "nodes",
            json!({"planId": "p", "nodes": {"flight": node("flight", "find_flight", &find),
                                            "room": node("room", "book_room", &json!({"city": "Rome", "day": "{{ flight.day }}"}))},
                   "edges": {"flight": ["room"]}})
            .to_string(),
        ),
        (
            "nodes in a list",
            json!({"planId": "p", "steps": [node("flight", "find_flight", &find), node("room", "book_room", &book)]})
                .to_string(),
        ),
        ("a stream", stream.map(|line| line.to_string()).join("\n")),
    ]
}

#[tokio::test]
async fn every_form_is_understood_without_a_second_call() {
    for (form, answer) in answers() {
        for is_streamed in [false, true] {
            let script = Scripted { text: Some(answer.clone()), ..Scripted::default() };
            let world = world(LlmSettings::default(), vec![vec![script]]).await;
            let (sender, _parts) = mpsc::channel(100);
            let planned = match is_streamed {
                true => world.llm.stream(&request(), sender).await,
                false => world.llm.plan(&request()).await,
            };
            let planned = planned.unwrap_or_else(|error| panic!("{form}: {error:?}")).planned;
            assert_eq!(world.servers[0].calls(), 1, "{form}");
            assert_eq!(planned.plan.steps.len(), 2, "{form}");
            let last = &planned.plan.steps[1];
            assert_eq!(last.dependencies.len(), 1, "{form}: {last:?}");
            assert_eq!(planned.plan.steps[0].inputs.value(), json!({"to": "Rome"}), "{form}");
            let account = account(&planned);
            assert!(repairs(&account["rounds"][0]).contains(&"FORMAT_CONVERTED"), "{form}: {account:#}");
        }
    }
}
