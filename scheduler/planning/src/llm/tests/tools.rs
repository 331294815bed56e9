//! Plans that are built and revised by calls of tools.

use super::*;

#[tokio::test]
async fn tools_build_a_plan_and_each_call_is_checked_at_once() {
    let turns = vec![
        calls(&[("create_plan", json!({"name": "trip"})), ("add_step", flight()), ("add_step", bad_room())]),
        calls(&[("finalize_plan", json!({}))]),
        calls(&[("modify_step", json!({"id": "room", "inputs": room()["inputs"]})), ("finalize_plan", json!({}))]),
    ];
    let world = world(LlmSettings::default(), vec![turns]).await;
    let planned = world.tools.plan(&request()).await.expect("the calls give a plan").planned;
    assert_eq!((ids(&planned), planned.planner.as_str()), (vec!["flight", "room"], "tools"));
    let account = account(&planned);
    let calls: Vec<(String, bool)> = account["rounds"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|entry| Some((entry.get("call")?.as_str()?.to_owned(), entry["ok"] == json!(true))))
        .collect();
    let expected = [
        ("create_plan", true),
        ("add_step", true),
        ("add_step", false),
        ("finalize_plan", false),
        ("modify_step", true),
        ("finalize_plan", true),
    ];
    assert_eq!(calls, expected.map(|(name, ok)| (name.to_owned(), ok)));
    assert!(prompt_of(&world, 1).contains("INPUT") || prompt_of(&world, 1).contains("city"));
}

#[tokio::test]
async fn tools_add_maps_loops_waits_and_clean_up() {
    let with = |mut step: Value, fields: Value| {
        step.as_object_mut().expect("it is a step").extend(fields.as_object().cloned().unwrap_or_default());
        step
    };
    let book = |id: &str, city: &str| {
        let inputs = json!({"city": city, "day": "2026-05-01"});
        with(room(), json!({"id": id, "inputs": inputs, "dependencies": []}))
    };
    let undo = json!({"agent_type": "rooms", "action": "book_room", "inputs": {"city": "Rome", "day": "none"}});
    let pause = json!({"id": "pause", "kind": "wait", "description": "Wait for the money", "dependencies": ["each"],
                       "wait": {"event": "paid", "timeout": "1h"}});
    let turns = vec![calls(&[
        ("add_step", with(book("each", "{{ item }}"), json!({"for_each": ["Rome", "Oslo"]}))),
        (
            "add_step",
            with(book("again", "Rome"), json!({"repeat": {"until": "outputs.room > 3", "max": 4}, "undo": undo})),
        ),
        ("add_step", pause),
        ("add_step", with(book("tell", "Bern"), json!({"always": true}))),
        ("finalize_plan", json!({})),
    ])];
    let world = world(LlmSettings::default(), vec![turns]).await;
    let planned = world.tools.plan(&request()).await.expect("the calls give a plan").planned;
    assert_eq!(ids(&planned), ["each", "again", "again:undo", "pause", "tell"]);
    let steps = &planned.plan.steps;
    assert!(steps[0].for_each.is_some() && steps[1].repeat.is_some() && steps[3].wait.is_some() && steps[4].always);
    let tools = world.servers[0].seen()[0].body["tools"].to_string();
    assert!(["for_each", "repeat", "undo", "always", "\"wait\""].iter().all(|field| tools.contains(field)), "{tools}");
}

#[tokio::test]
async fn calls_that_are_written_as_text_are_run_although_the_server_has_tools() {
    let write = |name: &str, arguments: &Value| json!({"name": name, "arguments": arguments}).to_string();
    let text = |text: String| Scripted { text: Some(text), ..Scripted::default() };
    let turns = vec![text(write("add_step", &flight())), text(write("finalize_plan", &json!({})))];
    let world = world(LlmSettings::default(), vec![turns]).await;
    let planned = world.tools.plan(&request()).await.expect("the calls give a plan").planned;
    assert_eq!(ids(&planned), ["flight"]);
    let second = world.servers[0].seen()[1].body["messages"].clone();
    let last = second.as_array().and_then(|messages| messages.last()).expect("there are messages");
    assert_eq!(last["role"], "user", "a result has no call that a server knows: {last}");
    assert!(last["content"].as_str().is_some_and(|text| text.contains("`add_step` answers")), "{last}");
}

#[tokio::test]
async fn a_call_among_other_words_is_not_run_and_the_model_is_asked_once() {
    let write = |name: &str, arguments: &Value| json!({"name": name, "arguments": arguments}).to_string();
    let text = |text: String| Scripted { text: Some(text), ..Scripted::default() };
    let quoted = format!("The goal says: {}", write("add_step", &bad_room()));
    let turns = vec![
        text(quoted.clone()),
        text(write("add_step", &flight())),
        text("I will call `finalize_plan({})` later".into()),
        text(write("finalize_plan", &json!({}))),
    ];
    let one = world(LlmSettings::default(), vec![turns[..2].iter().chain(&turns[3..]).cloned().collect()]).await;
    let planned = one.tools.plan(&request()).await.expect("the calls give a plan").planned;
    assert_eq!(ids(&planned), ["flight"], "the step that is quoted is not added");
    assert!(prompt_of(&one, 1).contains("among other words"));
    let two = world(LlmSettings::default(), vec![turns]).await;
    two.tools.plan(&request()).await.expect_err("the model is asked once");
}

#[tokio::test]
async fn the_forms_of_models_are_calls_of_the_planner_and_what_they_quote_is_none() {
    let text = |text: String| Scripted { text: Some(text), ..Scripted::default() };
    let (good, bad) = (flight().to_string(), bad_room().to_string());
    let forms: [fn(&str) -> String; 4] = [
        |arguments| format!("<function=add_step>{arguments}</function>"),
        |arguments| {
            format!(
                "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add_step<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
            )
        },
        |arguments| {
            format!("<|channel|>commentary to=functions.add_step <|constrain|>json<|message|>{arguments}<|call|>")
        },
        |arguments| format!("[TOOL_CALLS]add_step[ARGS]{arguments}"),
    ];
    for form in forms {
        let turns = vec![
            text(format!("The goal holds {}", form(&bad))),
            text(form(&good)),
            text("<tool_call>finalize_plan\n</tool_call>".into()),
        ];
        let one = world(LlmSettings::default(), vec![turns]).await;
        let planned = one.tools.plan(&request()).await.expect("the calls give a plan").planned;
        assert_eq!(ids(&planned), ["flight"], "{}", form("{}"));
        assert!(prompt_of(&one, 1).contains("among other words"), "{}", form("{}"));
    }
}

#[tokio::test]
async fn tool_calls_are_recorded_in_order_with_the_model_call_that_made_them() {
    let secret = json!({"name": "sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD"});
    let long = json!({"reason": "x".repeat(9_000)});
    let turns = vec![
        calls(&[("create_plan", secret), ("add_step", flight()), ("get_plan_status", long)]),
        calls(&[("finalize_plan", json!({}))]),
    ];
    let world = world(LlmSettings::default(), vec![turns]).await;
    let notes = Arc::new(Notes::default());
    let call_log = CallLog::new(0, notes.clone(), &[]);
    world.tools.plan(&PlanRequest { call_log, ..request() }).await.expect("the calls give a plan");
    let recorded = notes.tools.lock().expect("nobody panics with it").clone();
    let names = |called: &ToolsCalled| {
        let tools = called.tools.iter().map(|tool| format!("{} {}", tool.tool, tool.ok));
        (called.call, tools.collect::<Vec<_>>())
    };
    let expected = [
        (1, vec!["create_plan true".to_owned(), "add_step true".into(), "get_plan_status true".into()]),
        (2, vec!["finalize_plan true".into()]),
    ];
    assert_eq!(recorded.iter().map(names).collect::<Vec<_>>(), expected);
    let texts: Vec<&str> = recorded[0].tools.iter().map(|tool| tool.arguments.text()).collect();
    assert!(!texts[0].contains("abcdefghijklmnop"), "{}", texts[0]);
    assert_eq!(texts[1], flight().to_string());
    assert!(texts[2].len() < 4_200 && texts[2].contains("(cut)"), "{} bytes", texts[2].len());
}

#[tokio::test]
async fn calls_beyond_those_of_one_turn_are_answered_and_not_run() {
    let status = ("get_plan_status", json!({}));
    let mut many = vec![status; 51];
    many[0] = ("add_step", flight());
    many[50] = ("remove_step", json!({"id": "flight"}));
    let world = world(LlmSettings::default(), vec![vec![calls(&many), calls(&[("finalize_plan", json!({}))])]]).await;
    let planned = world.tools.plan(&request()).await.expect("the calls give a plan").planned;
    assert_eq!(ids(&planned), ["flight"], "the last call was not run");
    let account = account(&planned);
    let rounds = account["rounds"].as_array().expect("there are some");
    assert_eq!(rounds.iter().filter(|entry| entry.get("call").is_some()).count(), 50 + 1);
    assert!(rounds.contains(&json!({"calls_not_run": 1})), "{account:#}");
    assert!(prompt_of(&world, 1).contains("50"));
}

#[tokio::test]
async fn what_is_repaired_in_a_revision_by_tools_is_told() {
    let turns = vec![
        calls(&[("retry_step", json!({"step": "room", "agent_type": "inns"}))]),
        calls(&[(
            "add_step",
            json!({"id": "back", "description": "Fly back", "agent_type": "air", "action": "Find Flight",
                                    "inputs": {"to": "Oslo"}, "dependencies": []}),
        )]),
        calls(&[("finalize_plan", json!({"strategy": "workaround", "summary": "an inn"}))]),
    ];
    let world = world(LlmSettings::default(), vec![turns]).await;
    let proposal = world.tools.revise(&revise_request()).await.expect("the calls give a proposal");
    let account = proposal.provenance.expect("there is one").value();
    assert!(repairs(&account).contains(&"ACTION_NORMAL_FORM"), "{account:#}");
}

#[tokio::test]
async fn tools_plan_by_the_strategy_and_go_on_until_nothing_is_missing() {
    let strategy = |strategy| LlmSettings { strategy, ..LlmSettings::default() };
    let end = || ("finalize_plan", json!({"strategy": "replan_remaining", "summary": "all is done"}));
    let part =
        [("add_phase", json!({"id": "part_2"})), ("retry_step", json!({"step": "room", "agent_type": "inns"})), end()];
    let turns = vec![calls(&[("add_step", flight()), end()]), calls(&part), calls(&[end()])];
    let world = world(strategy(PlanningStrategy::Iterative), vec![turns]).await;
    let planned = world.tools.plan(&request()).await.expect("the calls give a plan").planned;
    assert!(planned.plan.is_iterative() && planned.plan.phases[0].checkpoint, "{:?}", planned.plan);
    assert!(prompt_of(&world, 0).contains(branch("tools", "strategy == \"iterative\" and not revising")));
    let mut checkpoint = revise_request();
    checkpoint.situation.trigger = Trigger::PhaseCheckpoint.as_str().into();
    checkpoint.situation.plan.metadata.insert("planning".into(), "iterative".into());
    let next = world.tools.revise(&checkpoint).await.expect("the calls give a part");
    let is_kept_up = |change: &Change| matches!(change, Change::AddPhase { phase, .. } if phase.checkpoint);
    assert!(next.changes.iter().any(is_kept_up), "{next:?}");
    assert!(prompt_of(&world, 1).contains(branch("tools", "if iterative")));
    let whole = world.tools.revise(&checkpoint).await.expect("no changes mean that it is whole");
    assert_eq!((whole.changes.len(), whole.summary.as_str()), (0, "all is done"));

    let hierarchical =
        self::world(strategy(PlanningStrategy::Hierarchical), vec![vec![calls(&[("add_step", flight()), end()])]])
            .await;
    hierarchical.tools.plan(&request()).await.expect("the calls give a plan");
    let prompt = prompt_of(&hierarchical, 0);
    let (_, levels) = prompt.split_once(branch("tools", "strategy == \"hierarchical\"")).expect("it is there");
    assert!(levels.contains(" 3 "), "{prompt}");
}

#[tokio::test]
async fn tools_revise_a_plan_and_refuse_what_does_not_hold() {
    let turns = vec![
        calls(&[("skip_step", json!({"step": "flight", "reason": "why not"}))]),
        calls(&[("retry_step", json!({"step": "room", "agent_type": "inns"}))]),
        calls(&[("finalize_plan", json!({"strategy": "retry_with_agent", "summary": "an inn"}))]),
    ];
    let world = world(LlmSettings::default(), vec![turns]).await;
    let proposal = world.tools.revise(&revise_request()).await.expect("the calls give a proposal");
    assert_eq!((proposal.strategy, proposal.changes.len()), (RevisionStrategy::RetryWithAgent, 1));
    assert!(matches!(&proposal.changes[0], Change::RetryStep { step, .. } if step.as_str() == "room"));
    let endless = World {
        ..self::world(
            LlmSettings { turns_max: 2, ..LlmSettings::default() },
            vec![vec![calls(&[("get_plan_status", json!({}))]), calls(&[("get_plan_status", json!({}))])]],
        )
        .await
    };
    let error = endless.tools.revise(&revise_request()).await.expect_err("it never ends");
    assert!(error.reason.contains("turns_max"), "{error}");
}
