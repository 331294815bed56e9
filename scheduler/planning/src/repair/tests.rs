//! Drafts with one thing wrong, and what becomes of them.

use goalmill_common::limits::Limits;
use goalmill_plan::validate::{ActionEntry, AgentEntry, Catalogue, Rules};
use serde_json::{Value, json};

use super::context::STEPS_MAX;
use super::*;

use random_drafts::corrupted;

#[test]
fn a_valid_draft_comes_back_as_it_is() {
    let draft = plan(&[("a", "resize", json!({"image": "x.png"}), &[]), ("b", "caption", seen("a"), &["a"])]);
    let repaired = repaired(&draft);
    assert_eq!(repaired.edits, []);
    assert_eq!(repaired.draft, draft);
    assert!(repaired.outcome.is_ok());
}

#[test]
fn references_of_maps_loops_waits_and_clean_up_follow_the_ids_of_steps() {
    let tool = |id: &str, more: Value| {
        let mut step = json!({"id": id, "agent_type": "tools", "action": "resize", "inputs": {"x": 1}, "dependencies": ["find it"]});
        step.as_object_mut().expect("it is an object").extend(more.as_object().cloned().unwrap_or_default());
        step
    };
    let draft = json!({"steps": [
        {"id": "find it", "agent_type": "tools", "action": "caption", "inputs": {}, "dependencies": []},
        tool("each", json!({"for_each": "{{ steps['find it'].outputs.list }}", "inputs": {"x": "{{ item }}"}})),
        tool("loop", json!({"repeat": {"until": "outputs.n > steps['find it'].outputs.n", "max": 3}})),
        {"id": "pause", "kind": "wait", "wait": {"event": "paid", "key": "{{ steps['find it'].outputs.order }}"},
         "dependencies": ["find it"]},
        tool("book", json!({"undo": {"agent_type": "tools", "action": "resize",
                                     "inputs": {"x": "{{ steps['find it'].outputs.id }}"}}})),
    ], "always": [
        {"id": "tell", "agent_type": "tools", "action": "resise", "inputs": {"x": "{{ steps['find it'].outputs.id }}"}},
    ]});
    let repaired = repaired(&draft);
    let plan = repaired.outcome.unwrap_or_else(|issues| panic!("{issues:?}"));
    assert!(!repaired.draft.to_string().contains("find it"), "{}", repaired.draft);
    let steps = &plan.plan().steps;
    let ids: Vec<&str> = steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(ids, ["find_it", "each", "loop", "pause", "book", "book:undo", "tell"]);
    let tell = steps.last().expect("there are steps");
    assert!(tell.always && tell.dependencies.is_empty() && tell.action == "resize", "{tell:?}");
}

#[test]
fn a_list_without_dependencies_runs_in_order_and_clean_up_waits_for_nothing() {
    let step = |id: &str| json!({"id": id, "agent_type": "tools", "action": "resize", "inputs": {"x": 1}});
    let mut tidy = step("tidy");
    tidy["always"] = true.into();
    let draft = json!({"steps": [step("a"), tidy, step("b")], "always": [step("tell")]});
    let catalogue = catalogue();
    let repaired = repair_list(draft, &Limits::default(), &Rules::planned(&catalogue));
    assert_eq!(told(&repaired), [("SEQUENCE_ADDED", "/steps")]);
    let plan = repaired.outcome.unwrap_or_else(|issues| panic!("{issues:?}"));
    let waits: Vec<usize> = plan.plan().steps.iter().map(|step| step.dependencies.len()).collect();
    assert_eq!(waits, [0, 0, 1, 0]);
}

#[test]
fn the_number_in_an_id_decides_where_ids_say_number_and_action() {
    let draft =
        plan(&[("s1_caption", "caption", json!({}), &[]), ("s2_resize", "resize", seen("s1_resize"), &["s1_resize"])]);
    let repaired = repaired(&draft);
    assert!(repaired.outcome.is_ok(), "{:?}", repaired.outcome);
    assert_eq!(repaired.draft["steps"][1]["inputs"], seen("s1_caption"));
    assert_eq!(repaired.draft["steps"][1]["dependencies"], json!(["s1_caption"]));
}

#[test]
fn names_in_another_spelling_become_names_of_the_catalogue() {
    for (given, meant) in
        [("Text-To-Speech", "text_to_speech"), ("textToSpeech", "text_to_speech"), ("CAPTION", "caption")]
    {
        let repaired = repaired(&plan(&[("a", given, json!({}), &[])]));
        assert_eq!(repaired.draft["steps"][0]["action"], meant);
        assert_eq!(told(&repaired), [("ACTION_NORMAL_FORM", "/steps/0/action")]);
        assert!(repaired.outcome.is_ok());
    }
}

#[test]
fn an_agent_type_that_stands_where_actions_do_does_the_step() {
    let mut agents = catalogue();
    let mut echo = AgentEntry::default();
    echo.actions.insert("say".into(), ActionEntry::default());
    agents.insert("echo", echo);
    let rules = Rules::planned(&agents);
    for key in ["toolId", "toolName", "action", "tool"] {
        for (given, agent, action) in [("echo", "echo", "say"), ("Tools", "tools", "")] {
            let draft = json!({"steps": [{"id": "a", key: given, "inputs": {}}]});
            let plan =
                repair(draft, &Limits::default(), &rules).outcome.unwrap_or_else(|i| panic!("{key} {given}: {i:?}"));
            let step = &plan.plan().steps[0];
            assert_eq!((step.agent_type.as_str(), step.action.as_str()), (agent, action), "{key}");
        }
    }
}

#[test]
fn a_plan_inside_a_step_is_left_for_the_critique() {
    let inner = plan(&[("a", "textToSpeech", json!({}), &[])]);
    let outer = json!({"steps": [
        {"id": "first", "kind": "tool", "agent_type": "tools", "action": "caption", "inputs": {}},
        {"id": "part", "kind": "plan", "plan": inner, "dependencies": ["first"]},
    ]});
    let left = repaired(&outer);
    assert_eq!(left.draft, outer);
    assert!(codes(&left).contains(&"UNKNOWN_ACTION"), "{:?}", left.outcome);
}

#[test]
fn a_name_that_is_only_similar_is_left_for_the_critique() {
    let alike = ["OCR", "Optical Character Recognition", "speech-to-text", "Caption (English)", "caption_image"];
    for given in ["frobnicate", "text", "process", "image tool", "text-to-text"].into_iter().chain(alike) {
        let draft = plan(&[("a", given, json!({}), &[])]);
        let repaired = repaired(&draft);
        assert_eq!(repaired.draft, draft, "{given}: {:?}", repaired.edits);
        assert!(repaired.outcome.is_err());
    }
}

#[test]
fn an_agent_is_known_by_its_action_or_its_spelling() {
    let mut catalogue = catalogue();
    catalogue.insert(
        "Mail-Agent",
        AgentEntry { actions: [("send".to_owned(), ActionEntry::default())].into(), ..AgentEntry::default() },
    );
    let limits = Limits::default();
    for (agent, action, code) in [("mail_agent", "send", "AGENT_NORMAL_FORM"), ("mailAgent", "", "AGENT_NORMAL_FORM")] {
        let draft = json!({"steps": [{"id": "a", "agent": agent, "tool": action}]});
        let repaired = repair(draft, &limits, &Rules::planned(&catalogue));
        assert_eq!(repaired.draft["steps"][0]["agent"], "Mail-Agent", "{agent}");
        assert_eq!(told(&repaired), [(code, "/steps/0/agent")]);
        assert!(repaired.outcome.is_ok());
    }
    // An agent that nobody has is no other one, though only one has the action.
    for (agent, action) in [("postman", "send"), ("onboarding", "run"), ("postal_mail_agency", "")] {
        let draft = json!({"steps": [{"id": "a", "agent": agent, "tool": action}]});
        let repaired = repair(draft.clone(), &limits, &Rules::planned(&catalogue));
        assert_eq!((repaired.draft, repaired.outcome.is_ok()), (draft, false), "{agent}");
    }
}

#[test]
fn numbers_are_moved_when_all_references_then_lead_to_an_earlier_step() {
    let draft = plan(&[
        ("step-0", "resize", json!({"image": "x.png"}), &[]),
        ("step-1", "caption", seen("step-1"), &["step-0"]),
        ("step-2", "shorten", seen("step-2"), &["step-1"]),
    ]);
    let repaired = repaired(&draft);
    assert_eq!(repaired.draft["steps"][1]["inputs"], seen("step-0"));
    assert_eq!(repaired.draft["steps"][2]["inputs"], seen("step-1"));
    assert!(repaired.edits.iter().all(|edit| edit.code == "INDEX_SHIFT"));
    assert!(repaired.outcome.is_ok(), "{:?}", repaired.outcome);
}

#[test]
fn a_reference_to_the_step_itself_is_what_its_only_link_says() {
    let draft = plan(&[("get", "resize", json!({"image": "x.png"}), &[]), ("say", "caption", seen("say"), &["get"])]);
    let repaired = repaired(&draft);
    assert_eq!(repaired.draft["steps"][1]["inputs"], seen("get"));
    assert_eq!(told(&repaired), [("REFERENCE_REDIRECTED", "/steps/1/inputs/x")]);
}

#[test]
fn a_reference_that_nothing_explains_stays() {
    let draft = plan(&[("a", "caption", seen("zzz"), &[]), ("b", "caption", json!({"x": "y.png"}), &[])]);
    let repaired = repaired(&draft);
    assert_eq!(repaired.draft, draft);
    assert_eq!(repaired.outcome.unwrap_err()[0].code, "REF_UNKNOWN_STEP");
}

#[test]
fn dependencies_are_completed_from_references() {
    let draft =
        plan(&[("a", "resize", json!({}), &[]), ("b", "caption", seen("a"), &[]), ("c", "shorten", seen("a"), &["b"])]);
    let repaired = repaired(&draft);
    assert_eq!(told(&repaired), Vec::<(&str, &str)>::new());
    let checked = repaired.outcome.unwrap();
    assert_eq!(checked.plan().steps[1].dependencies, ["a".into()]);
    assert_eq!(checked.plan().steps[2].dependencies, ["b".into(), "a".into()]);
}

#[test]
fn links_that_say_they_name_no_step_go_and_links_to_missing_steps_stay() {
    let draft = |edges: Value| {
        json!({
            "nodes": [{"id": "a", "agent": "tools", "action": "resize", "args": {"x": "x.png"}},
                      {"id": "b", "agent": "tools", "action": "caption", "args": seen("a")}],
            "edges": edges,
        })
    };
    let whole = repaired(&draft(json!([["a", "b"], ["b", "none"], ["start", "a"]])));
    assert_eq!(whole.draft["edges"], json!([["a", "b"]]));
    assert_eq!(told(&whole), [("DEPENDENCY_DROPPED", "/edges/1"), ("DEPENDENCY_DROPPED", "/edges/2")]);
    assert!(whole.outcome.is_ok());
    for edge in [json!(["ghost", "b"]), json!(["b", "ghost"])] {
        let open = draft(json!([["a", "b"], edge]));
        let left = repaired(&open);
        assert_eq!(left.draft, open);
        assert!(codes(&left).contains(&"UNKNOWN_DEPENDENCY"), "{:?}", left.outcome);
    }
}

#[test]
fn indices_become_ids_when_one_base_fits_all_of_them() {
    let draft = |needs: [Value; 3]| {
        let [a, b, c] = needs;
        json!({"steps": [
            {"id": "find", "agent": "tools", "action": "resize", "inputs": {}, "dependencies": a},
            {"id": "book", "agent": "tools", "action": "resize", "inputs": {}, "dependencies": b},
            {"id": "pay", "agent": "tools", "action": "resize", "inputs": {}, "dependencies": c},
        ]})
    };
    for needs in [
        [json!([]), json!([0]), json!([0, 1])],
        [json!([]), json!([1]), json!([1, 2])],
        [json!([]), json!(["0"]), json!(["0", "1"])],
    ] {
        let repaired = repaired(&draft(needs));
        let plan = repaired.outcome.as_ref().expect("one base fits").plan().clone();
        assert_eq!(plan.steps[1].dependencies, ["find".into()]);
        assert_eq!(plan.steps[2].dependencies, ["find".into(), "book".into()]);
        assert!(repaired.edits.iter().all(|edit| edit.code == "DEPENDENCY_INDEX"), "{:?}", repaired.edits);
    }
    // From 0 and from 1, or from neither: nothing is chosen, nothing is lost.
    for needs in [[json!([]), json!([]), json!([1])], [json!([0]), json!([1]), json!([2])]] {
        let open = draft(needs);
        let left = repaired(&open);
        assert_eq!(left.draft, open);
        assert!(codes(&left).contains(&"UNKNOWN_DEPENDENCY"), "{:?}", left.outcome);
    }
}

#[test]
fn indices_are_the_numbers_of_ids_that_have_such_numbers() {
    let draft = plan(&[
        ("step-1", "resize", json!({}), &[]),
        ("step-2", "resize", json!({}), &[]),
        ("step-3", "resize", json!({}), &["1"]),
    ]);
    let plan = repaired(&draft).outcome.expect("the ids tell").into_plan();
    assert_eq!(plan.steps[2].dependencies, ["step-1".into()]);
}

#[test]
fn a_dependency_on_a_missing_step_is_never_dropped() {
    let draft = plan(&[("book", "resize", json!({}), &[]), ("pay", "resize", json!({}), &["book", "approve_payment"])]);
    let left = repaired(&draft);
    assert_eq!(left.draft, draft);
    let issues = left.outcome.expect_err("the approval is missing");
    let told: Vec<_> = issues.iter().map(|issue| (issue.code.as_str(), issue.pointer.as_str())).collect();
    assert_eq!(told, [("UNKNOWN_DEPENDENCY", "/steps/1/dependencies/1")]);
    // An id that is merely like a missing one is another step.
    let other = plan(&[("approve_a", "resize", json!({}), &[]), ("pay", "resize", json!({}), &["approve_b"])]);
    assert_eq!(repaired(&other).draft, other);
}

#[test]
fn a_reference_in_another_notation_is_an_issue_and_never_plain_text() {
    for text in ["<node-9>", "#E1", "see #E7!", "${ghost.findings}", "about ${ghost.findings}", "$1"] {
        let draft = plan(&[
            ("find", "resize", json!({}), &[]),
            ("look", "resize", json!({}), &[]),
            ("say", "caption", json!({"x": text}), &[]),
        ]);
        let left = repaired(&draft);
        let issues = left.outcome.expect_err(text);
        let told: Vec<_> = issues.iter().map(|issue| (issue.code.as_str(), issue.pointer.as_str())).collect();
        assert_eq!(told, [("REF_UNKNOWN_STEP", "/steps/2/inputs/x")], "{text}");
    }
    let inner = plan(&[("a", "caption", json!({"x": "<node-9>"}), &[])]);
    let outer = repaired(&json!({"steps": [{"id": "part", "kind": "plan", "plan": inner}]}));
    assert_eq!(outer.outcome.expect_err("it is inside")[0].pointer, "/steps/0/plan/steps/0/inputs/x");
}

#[test]
fn an_id_of_several_steps_stays_when_several_of_them_can_be_meant() {
    let draft =
        plan(&[("a", "resize", json!({}), &[]), ("a", "caption", json!({}), &[]), ("b", "shorten", json!({}), &["a"])]);
    let left = repaired(&draft);
    assert_eq!(left.draft, draft);
    assert!(codes(&left).contains(&"DUPLICATE_STEP_ID"));
}

#[test]
fn links_that_name_steps_by_their_action_name_them_by_their_id() {
    let draft = json!({
        "nodes": [{"id": "n1", "agent": "tools", "action": "resize", "args": {}}, {"id": "n2", "agent": "tools", "action": "resize", "args": {}},
                  {"id": "n3", "agent": "tools", "action": "caption", "args": {}}],
        "edges": [["resize-2", "caption"]],
    });
    let repaired = repaired(&draft);
    assert_eq!(repaired.draft["edges"], json!([["n2", "n3"]]));
    assert!(repaired.outcome.is_ok());
}

#[test]
fn a_name_with_one_wrong_letter_is_repaired_when_one_candidate_is_close() {
    let draft = json!({"steps": [
        {"id": "fetch", "agent_type": "toolz", "action": "resize", "inputs": {"x": 1}},
        {"id": "tell", "agent_type": "tools", "action": "captoin", "inputs": seen("fetxh"), "dependancies": ["fecth"]},
    ]});
    let repaired = repaired(&draft);
    let plan = repaired.outcome.as_ref().expect("each has one candidate").plan();
    assert_eq!((plan.steps[0].agent_type.as_str(), plan.steps[1].action.as_str()), ("tools", "caption"));
    assert_eq!(plan.steps[1].dependencies, ["fetch".into()]);
    assert_eq!(repaired.draft["steps"][1]["inputs"], seen("fetch"));
    assert!(told(&repaired).contains(&("FIELD_RENAMED", "/steps/1/dependancies")), "{:?}", repaired.edits);
    let both =
        plan_of(&["left", "lift", "look"], json!({"id": "say", "dependencies": ["lxft"], "agent_type": "tools"}));
    assert!(codes(&self::repaired(&both)).contains(&"UNKNOWN_DEPENDENCY"));
}

#[test]
fn a_self_reference_is_redirected_only_where_every_other_source_is_read() {
    let reads_all = [("a", "resize", json!({}), &[] as &[&str]), ("b", "caption", seen("b"), &["a"])];
    assert_eq!(repaired(&plan(&reads_all)).draft["steps"][1]["inputs"], seen("a"));
    // Step `c` waits for `a` and reads nothing of it, so `d` may too.
    let orders = [
        ("a", "resize", json!({}), &[] as &[&str]),
        ("b", "resize", json!({}), &[]),
        ("c", "resize", json!({}), &["a"]),
        ("d", "caption", seen("d"), &["b"]),
    ];
    let left = repaired(&plan(&orders));
    assert_eq!((&left.draft, left.outcome.is_err()), (&plan(&orders), true));
}

#[test]
fn a_missing_step_among_numbers_is_no_other_way_to_count() {
    let draft = plan(&[
        ("s1", "resize", json!({}), &[]),
        ("s2", "resize", json!({}), &[]),
        ("s4", "caption", json!({}), &["s3"]),
        ("s5", "caption", json!({}), &["s3"]),
    ]);
    let left = repaired(&draft);
    assert_eq!((&left.draft, left.outcome.is_err()), (&draft, true));
}

#[test]
fn a_list_that_names_no_dependency_is_a_sequence() {
    let list = |draft: &Value| repair_list(draft.clone(), &Limits::default(), &Rules::planned(&catalogue()));
    let bare = plan_of(&["one", "two", "three"], json!({"id": "four", "agent_type": "tools"}));
    let chained = list(&bare);
    let steps = chained.outcome.as_ref().expect("it is valid").plan().steps.clone();
    let waits: Vec<_> =
        steps.iter().map(|step| step.dependencies.iter().map(ToString::to_string).collect::<Vec<_>>()).collect();
    assert_eq!(waits, [vec![], vec!["one".to_owned()], vec!["two".to_owned()], vec!["three".to_owned()]]);
    assert_eq!(told(&chained), [("SEQUENCE_ADDED", "/steps")]);
    assert_eq!(list(&chained.draft).edits, []);
    for named in [
        json!({"id": "four", "agent_type": "tools", "dependencies": []}),
        json!({"id": "four", "agent_type": "tools", "dependencies": ["one"]}),
        json!({"id": "four", "agent_type": "tools", "inputs": seen("one")}),
        json!({"id": "four", "agent_type": "tools", "waits": ["one"]}),
    ] {
        let draft = plan_of(&["one", "two", "three"], named);
        let codes: Vec<_> = list(&draft).edits.into_iter().map(|edit| edit.code).collect();
        assert!(!codes.contains(&"SEQUENCE_ADDED".to_owned()), "{draft}");
    }
    let mut linked = bare.clone();
    linked["edges"] = json!([]);
    assert_eq!(list(&linked).edits, []);
}

#[test]
fn a_placeholder_becomes_a_reference_a_question_or_an_issue() {
    let mut catalogue = Catalogue::default();
    let with_output = |name: &str, output: &str| {
        let mut action_entry = ActionEntry::default();
        action_entry.outputs = Some(json!({"type": "object", "properties": {output: {"type": "string"}}}));
        (name.to_owned(), action_entry)
    };
    let actions =
        [with_output("search_room", "roomId"), with_output("book_meeting_room", "id"), with_output("tell", "x")];
    catalogue.insert("office", AgentEntry { actions: actions.into(), ..AgentEntry::default() });
    let step = |id: &str, action: &str, inputs: Value| json!({"id": id, "agent_type": "office", "action": action, "inputs": inputs});
    let outcome =
        |steps: Vec<Value>| repair_list(json!({ "steps": steps }), &Limits::default(), &Rules::planned(&catalogue));

    let certain = outcome(vec![
        step("s", "search_room", json!({})),
        step("b", "book_meeting_room", json!({"room": "<Room ID>"})),
        step("t", "tell", json!({"text": "booked <the meeting room id>"})),
    ]);
    assert_eq!(certain.draft["steps"][1]["inputs"]["room"], "{{ steps.s.outputs['roomId'] }}");
    assert_eq!(certain.draft["steps"][2]["inputs"]["text"], "booked {{ steps.b.outputs['id'] }}");
    assert!(certain.outcome.is_ok(), "{:?}", certain.outcome);

    let asked = outcome(vec![
        step("s", "search_room", json!({"who": "<User's name>"})),
        step("t", "tell", json!({"to": "<phone number>", "note": "<city>", "sure": true})),
    ]);
    let plan = asked.outcome.as_ref().expect("a person is asked").plan();
    assert_eq!(plan.steps[0].ask.as_ref().and_then(|ask| ask.into.as_deref()), Some("who"));
    let both = plan.steps[1].ask.as_ref().expect("two values are missing");
    assert!(both.gives("to") && both.gives("note") && !both.gives("sure"), "{both:?}");

    let several = outcome(vec![
        step("s1", "search_room", json!({})),
        step("s2", "search_room", json!({})),
        step("b", "book_meeting_room", json!({"room": "<Room ID>"})),
    ]);
    let issues = several.outcome.as_ref().expect_err("two steps give it");
    assert_eq!((issues[0].code.as_str(), issues[0].pointer.as_str()), ("REF_UNKNOWN_STEP", "/steps/2/inputs/room"));
}

#[test]
fn a_ring_is_never_opened() {
    for steps in [
        [("a", "resize", json!({}), &["b"] as &[&str]), ("b", "caption", seen("a"), &["a"])],
        [("a", "resize", seen("b"), &["b"]), ("b", "caption", seen("a"), &["a"])],
        [("a", "resize", json!({}), &["a"]), ("b", "caption", json!({}), &["a"])],
    ] {
        let draft = plan(&steps);
        let left = repaired(&draft);
        assert_eq!(left.draft, draft);
        assert!(left.outcome.is_err());
    }
}

#[test]
fn steps_are_written_in_the_order_of_their_links() {
    let draft = plan(&[
        ("say", "shorten", seen("look"), &["look"]),
        ("load", "resize", json!({"image": "x.png"}), &[]),
        ("look", "caption", seen("load"), &["load"]),
    ]);
    let repaired = repaired(&draft);
    let ids: Vec<_> = repaired.draft["steps"].as_array().unwrap().iter().map(|s| s["id"].clone()).collect();
    assert_eq!(ids, ["load", "look", "say"]);
    assert_eq!(told(&repaired), [("STEPS_REORDERED", "/steps")]);
    assert!(repaired.outcome.is_ok());
}

#[test]
fn ids_are_added_respelled_and_made_unique() {
    let none = json!([{"agent": "tools", "action": "resize"}, {"agent": "tools", "action": "caption"}]);
    assert_eq!(told(&repaired(&none)), [("ID_ADDED", "/0/id"), ("ID_ADDED", "/1/id")]);
    let twice = plan(&[
        ("a", "resize", json!({}), &[]),
        ("a", "caption", seen("a"), &["a"]),
        ("my step", "shorten", json!({}), &[]),
        ("end", "shorten", seen("my step"), &["my step"]),
    ]);
    let repaired = repaired(&twice);
    let plan = repaired.outcome.unwrap().into_plan();
    assert_eq!(plan.steps.iter().map(|s| s.id.as_str()).collect::<Vec<_>>(), ["a", "a-2", "my_step", "end"]);
    assert_eq!(plan.steps[1].dependencies, ["a".into()]);
    assert_eq!(plan.steps[3].dependencies, ["my_step".into()]);
}

#[test]
fn inputs_get_the_names_and_types_of_the_schema() {
    let mut action_entry = ActionEntry::default();
    action_entry.inputs =
        Some(json!({"type": "object", "required": ["fromCity", "seats"], "additionalProperties": false,
        "properties": {"fromCity": {"type": "string"}, "seats": {"type": "integer"}, "note": {"type": "string"}}}));
    let mut catalogue = Catalogue::default();
    catalogue
        .insert("travel", AgentEntry { actions: [("book".to_owned(), action_entry)].into(), ..AgentEntry::default() });
    let draft = json!([{"id": "a", "agent": "travel", "action": "book", "args": {"from_city": "AMS", "seats": "2", "note": "02"}}]);
    let repaired = repair(draft, &Limits::default(), &Rules::planned(&catalogue));
    assert_eq!(repaired.draft[0]["args"], json!({"fromCity": "AMS", "seats": 2, "note": "02"}));
    assert_eq!(told(&repaired), [("INPUT_RENAMED", "/0/args/from_city"), ("INPUT_TYPE", "/0/args/seats")]);
    assert!(repaired.outcome.is_ok());
    let vague = json!([{"id": "a", "agent": "travel", "action": "book", "args": {"fromCity": "AMS", "seats": "two"}}]);
    assert_eq!(repair(vague.clone(), &Limits::default(), &Rules::planned(&catalogue)).draft, vague);
}

#[test]
fn repair_is_stable_and_no_draft_makes_it_panic() {
    for seed in 0..400 {
        let draft = corrupted(seed);
        let first = repaired(&draft);
        let second = repaired(&draft);
        assert_eq!((&first.draft, &first.edits), (&second.draft, &second.edits), "seed {seed}");
        if first.outcome.is_ok() {
            let again = repaired(&first.draft);
            assert_eq!(again.edits, [], "seed {seed}: {}", first.draft);
        }
    }
    for odd in [
        json!(null),
        json!(3),
        json!([]),
        json!({"steps": 3}),
        json!({"steps": [1, null, {}]}),
        json!({"plan": {"plan": []}}),
    ] {
        let _issues = repaired(&odd).outcome.unwrap_err();
    }
}

#[test]
fn a_draft_far_beyond_what_planners_may_write_is_only_validated() {
    let draft = |steps: usize| {
        let ids: Vec<String> = (0..steps).map(|n| format!("s{n}")).collect();
        let given = |id: &String| json!({"id": id, "agent_type": "tools", "action": "textToSpeech"});
        json!({"steps": ids.iter().map(given).collect::<Vec<_>>()})
    };
    assert_eq!(repaired(&draft(STEPS_MAX)).edits.len(), STEPS_MAX);
    let larger = draft(STEPS_MAX + 1);
    let repaired = repaired(&larger);
    assert_eq!((repaired.draft, repaired.edits), (larger, Vec::new()));
    let issues = repaired.outcome.unwrap_err();
    assert_eq!((issues[0].code.as_str(), issues[0].pointer.as_str()), ("UNKNOWN_ACTION", "/steps/0/action"));
}

#[test]
fn dependencies_with_statuses_are_repaired_where_they_are_clear() {
    let after = |fields: Value| {
        let mut last = json!({"id": "last", "agent_type": "tools", "action": "caption"});
        last.as_object_mut().expect("it is a step").extend(fields.as_object().cloned().unwrap_or_default());
        repaired(&plan_of(&["payment", "book_a", "book_b"], last))
    };
    for (given, became) in [
        (json!([{"step": "Payment", "is": "error"}]), json!([{"step": "payment", "is": ["failed"]}])),
        (
            json!([{"task": "payment", "status": ["faild", "skip"]}]),
            json!([{"task": "payment", "status": ["failed", "skipped"]}]),
        ),
        (
            json!({"step": "payment", "is": "completed or failed | skip"}),
            json!([{"step": "payment", "is": ["completed", "failed", "skipped"]}]),
        ),
        (json!(["book_a", {"payment": "Success"}]), json!(["book_a", {"step": "payment", "is": ["completed"]}])),
        (json!([{"step": "paymant"}]), json!([{"step": "payment"}])),
    ] {
        let repaired = after(json!({"depends_on": given}));
        assert_eq!(codes(&repaired), [""; 0], "{given}: {:?}", repaired.outcome);
        assert_eq!(repaired.draft["steps"][3]["depends_on"], became, "{given}");
    }
    let moved = after(json!({"dependencies": ["PAYMENT"], "dependency_status": {"PAYMENT": ["error"]}}));
    let valid = moved.outcome.expect("the statuses go with their dependency");
    assert_eq!(json!(valid.plan().steps[3].dependency_status), json!({"payment": ["failed"]}));

    for unclear in [
        json!([{"step": "payment", "is": "done"}]),
        json!([{"step": "payment", "is": ["failed", "cancelled"]}]),
        json!([{"step": "payment", "is": "failed and skipped"}]),
        json!([{"step": "book_c", "is": ["failed"]}]),
        json!([{"book": "failed"}]),
        json!([{"payment": "soon"}]),
    ] {
        let left = after(json!({"depends_on": unclear}));
        assert!(left.outcome.is_err(), "{unclear}");
        assert_eq!((left.draft["steps"][3]["depends_on"].clone(), left.edits.len()), (unclear, 0));
    }
}

fn repaired(draft: &Value) -> RepairedDraft {
    repair(draft.clone(), &Limits::default(), &Rules::planned(&catalogue()))
}

fn told(repaired: &RepairedDraft) -> Vec<(&str, &str)> {
    repaired.edits.iter().map(|edit| (edit.code.as_str(), edit.pointer.as_str())).collect()
}

fn codes(repaired: &RepairedDraft) -> Vec<&str> {
    repaired.outcome.as_ref().err().into_iter().flatten().map(|issue| issue.code.as_str()).collect()
}

fn seen(id: &str) -> Value {
    json!({"x": format!("{{{{ {}.outputs }}}}", goalmill_plan::validate::path::spelled(id))})
}

/// Steps without any dependency, and one more.
fn plan_of(ids: &[&str], last: Value) -> Value {
    let steps = ids.iter().map(|id| json!({"id": id, "agent_type": "tools", "action": "caption"}));
    json!({"steps": steps.chain([last]).collect::<Vec<_>>()})
}

fn plan(steps: &[(&str, &str, Value, &[&str])]) -> Value {
    let step = |(id, action, inputs, needs): &(&str, &str, Value, &[&str])| {
        let mut step = json!({"id": id, "agent_type": "tools", "action": action, "inputs": inputs});
        if !needs.is_empty() {
            step["dependencies"] = json!(needs);
        }
        step
    };
    json!({"steps": steps.iter().map(step).collect::<Vec<_>>()})
}

/// Tools of which only the names are known.
fn catalogue() -> Catalogue {
    let names = ["resize", "caption", "read_image", "shorten", "reword", "text_to_speech", "transcribe"];
    let actions = names.map(|name| (name.to_owned(), ActionEntry::default())).into();
    let mut catalogue = Catalogue::default();
    catalogue.insert("tools", AgentEntry { actions, ..AgentEntry::default() });
    catalogue
}

mod random_drafts {
    //! Drafts with random faults, the same ones for the same seed.

    use goalmill_common::number::to_usize;
    use goalmill_common::random::Random;
    use serde_json::{Value, json};

    pub(super) fn corrupted(seed: u64) -> Value {
        let random = Random::seeded(seed);
        let pick = |n: usize| to_usize(random.draw()) % n;
        let names = ["resize", "Caption", "shorten", "text-to-speech", "OCR", "what?", ""];
        let ids = ["node-0", "node-1", "node-2", "node-3", "step 4", "node-1"];
        let steps: Vec<Value> = (0..pick(6))
            .map(|i| {
                let target = ids[pick(6)];
                let text = ["{{ steps['ID'].outputs }}", "<ID>", "$1", "see {{ steps['ID'].outputs.x }}!", "plain"];
                let text = text[pick(5)].replace("ID", target);
                json!({"id": ids[i % 6], "agent": "tools", "tool": names[pick(7)], "args": [text],
                       "needs": if pick(2) == 0 { json!([ids[pick(6)]]) } else { json!([]) }})
            })
            .collect();
        json!({"steps": steps})
    }
}
