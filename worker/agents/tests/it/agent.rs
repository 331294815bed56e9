//! The loop: tools, answers, repairs, limits, usage.

use goalmill_common::failure::FailureClass;
use goalmill_common::json::Json;
use goalmill_common::task::Task;
use goalmill_demo::scripted::{Feature, Script, Scripted, ScriptedUsage};
use serde_json::{Value, json};

use crate::world::{World, answers, build, calls, results, task};

const USAGE: Option<ScriptedUsage> = Some(ScriptedUsage { input: 1_000, output: 100 });

fn file_tools() -> Value {
    json!({"tools": ["read_file", "write_file", "list_files", "search_outputs"]})
}

#[tokio::test]
async fn a_loop_with_two_tool_calls_ends_with_an_answer() {
    let replies = [
        Scripted { usage: USAGE, ..calls([("search_outputs", json!({"query": "tin"}))]) },
        Scripted { usage: USAGE, ..calls([("write_file", json!({"path": "out/report.md", "text": "# Tin"}))]) },
        Scripted { usage: USAGE, ..answers(json!({"result": "out/report.md"})) },
    ];
    let world = World::new(file_tools(), replies).await;
    let ended = world.run(&task(json!({"facts": ["tin is cheap", "iron is not"]}))).await;
    assert_eq!(ended.outputs(), json!({"result": "out/report.md"}));
    assert_eq!(std::fs::read_to_string(world.file("out/report.md")).expect("it is written"), "# Tin");
    let seen = world.seen();
    assert!(seen[0].prompt.contains("You are writer of step write.") && seen[0].prompt.contains("Write it"));
    let expected = [
        json!({"tool": "search_outputs", "ok": true, "data": [{"place": "/facts/0", "text": "tin is cheap"}]}),
        json!({"tool": "write_file", "ok": true, "data": {"path": "out/report.md", "bytes": 5}}),
    ];
    assert_eq!(results(&seen), expected);
    assert_eq!((ended.usage.tokens.prompt_tokens, ended.usage.tokens.completion_tokens), (3_000, 300));
    assert!((ended.usage.cost - 0.003_6).abs() < 1e-9, "{}", ended.usage.cost);
}

#[tokio::test]
async fn a_bad_answer_is_repaired_within_its_limit() {
    let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    let step = Task { output_schema: Some(Json::from(schema)), ..task(json!({})) };
    let replies =
        [Scripted::text("Here is my answer: forty"), answers(json!({"n": "forty"})), answers(json!({"n": 40}))];
    let world = World::new(file_tools(), replies.clone()).await;
    assert_eq!(world.run(&step).await.outputs(), json!({"n": 40}));
    let seen = world.seen();
    assert!(seen[1].prompt.contains("not a JSON object"), "{}", seen[1].prompt);
    assert!(seen[2].prompt.contains("/n"), "{}", seen[2].prompt);
    let choice = |at: usize| seen[at].body["tool_choice"].clone();
    assert_eq!(choice(1), Value::Null, "it may still call tools");
    assert_eq!(choice(2)["function"]["name"], "final_answer", "it must answer");
    let mut strict = file_tools();
    strict["limits"] = json!({"repairs": 1});
    let world = World::new(strict, replies).await;
    let ended = world.run(&step).await;
    let failure = ended.failure();
    assert_eq!((failure.code.as_str(), failure.class), ("AGENT_ANSWER_INVALID", FailureClass::Permanent));
    assert!(failure.message.contains("/n"), "{}", failure.message);
    assert!(ended.usage.tokens.sum() > 0, "a failed attempt has its usage");
}

#[tokio::test]
async fn a_refusal_ends_the_step_with_its_text_and_is_not_asked_again() {
    let reply = |choice: Value| {
        let usage = json!({"prompt_tokens": 10, "completion_tokens": 10});
        Scripted { body: Some(json!({"choices": [choice], "usage": usage}).to_string()), ..Scripted::default() }
    };
    let filtered = json!({"finish_reason": "content_filter", "message": {"role": "assistant", "content": ""}});
    let refused = json!({"finish_reason": "stop", "message": {"content": null, "refusal": "I cannot help with that."}});
    for (choice, said) in [(filtered, "content filter"), (refused, "I cannot help with that.")] {
        let world = World::new(json!({}), [reply(choice), answers(json!({"result": "never asked"}))]).await;
        let ended = world.run(&task(json!({}))).await;
        let failure = ended.failure();
        assert_eq!((failure.code.as_str(), failure.class), ("LLM_DECLINED", FailureClass::Permanent));
        assert!(failure.message.contains(said), "{}", failure.message);
        assert_eq!(world.seen().len(), 1);
        let used = ended.result.as_ref().ok().and_then(|result| result.usage).unwrap_or_default();
        assert!(used.sum() > 0, "what the refusal took counts");
    }
}

#[tokio::test]
async fn an_answer_with_text_around_it_costs_one_call() {
    let schema = json!({"type": "object", "required": ["best", "tags"], "properties":
        {"best": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}}});
    let step = Task { output_schema: Some(Json::from(schema)), ..task(json!({})) };
    for text in [
        "<think>I should answer {\"best\": 1}</think>\n{\"best\": \"x\", \"tags\": [\"a\"]}",
        "{'best': 'x', 'tags': ['a']}\n\nNote: this is final.",
        "{\"best\": \"x\", \"tags\": \"[\\\"a\\\"]\"}",
    ] {
        for settings in [json!({}), file_tools()] {
            let world = World::new(settings, [Scripted::text(text)]).await;
            assert_eq!(world.run(&step).await.outputs(), json!({"best": "x", "tags": ["a"]}), "{text}");
            assert_eq!(world.seen().len(), 1, "{text}");
        }
    }
}

#[tokio::test]
async fn arguments_of_tools_are_read_as_answers_are() {
    let call = calls([("write_file", json!("{'path': 'a.txt', 'text': 'hello',}"))]);
    let world = World::new(file_tools(), [call, answers(json!({"result": "a.txt"}))]).await;
    assert_eq!(world.run(&task(json!({}))).await.outputs(), json!({"result": "a.txt"}));
    assert_eq!(std::fs::read_to_string(world.file("a.txt")).expect("it is written"), "hello");
}

#[tokio::test]
async fn a_rate_limit_of_the_model_makes_the_step_wait() {
    let limited = Scripted { retry_after: Some("50".into()), ..Scripted::status(429, "slow down") };
    let world = World::new(json!({}), [limited]).await;
    let ended = world.run(&task(json!({}))).await;
    let failure = ended.failure();
    assert_eq!((failure.class, failure.retry_after_ms), (FailureClass::RateLimited, Some(50_000)));
    let again = world.run(&task(json!({}))).await;
    let failure = again.failure();
    assert_eq!((failure.class, world.seen().len()), (FailureClass::RateLimited, 1), "its server is not asked again");
    assert!(failure.retry_after_ms.is_some_and(|ms| (1..=50_000).contains(&ms)), "{failure:?}");
}

#[tokio::test]
async fn an_agent_without_tools_is_asked_for_json() {
    let world =
        World::new(json!({}), [Scripted::text("{}"), Scripted::text("{\"result\": \"yes\", \"why\": 1}")]).await;
    let step = Task { expected_outputs: vec!["why".into()], ..task(json!({})) };
    assert_eq!(world.run(&step).await.outputs(), json!({"result": "yes", "why": 1}));
    let seen = world.seen();
    assert_eq!(seen[0].body["response_format"]["type"], "json_schema");
    assert_eq!(seen[0].body["response_format"]["json_schema"]["schema"]["required"], json!(["result", "why"]));
    assert!(seen[0].body.get("tools").is_none());
}

#[tokio::test]
async fn calls_that_a_model_writes_as_text_are_run() {
    let call =
        "<tool_call>{\"name\": \"write_file\", \"arguments\": {\"path\": \"a.txt\", \"text\": \"hi\"}}</tool_call>";
    let answer = "<tool_call>{\"name\": \"final_answer\", \"arguments\": {\"result\": \"a.txt\"}}</tool_call>";
    // Some models write calls as text although the server has tools.
    let bare = call.replace("<tool_call>", "").replace("</tool_call>", "");
    for (refuses, call) in [(Some(Feature::Tools), call), (None, call), (None, bare.as_str())] {
        let replies = [Scripted::text(call), Scripted::text(answer)];
        let script = Script { refuses: refuses.into_iter().collect(), ..Script::new(replies) };
        let world = World::with_script(file_tools(), script).await;
        assert_eq!(world.run(&task(json!({}))).await.outputs(), json!({"result": "a.txt"}), "{call}");
        assert_eq!(std::fs::read_to_string(world.file("a.txt")).expect("it is written"), "hi", "{call}");
    }
}

/// Ten requests to write a file, each as a text in the form of another model.
fn requests() -> Vec<String> {
    let arguments = r#"{"path": "a.txt", "text": "hi, 'you' <b>"}"#;
    let call = format!(r#"{{"name": "write_file", "arguments": {arguments}}}"#);
    vec![
        call.clone(),
        format!("<think>I write it, with write_file(path='x').</think>\n<tool_call>\n{call}\n</tool_call>"),
        format!("```json\n{call}\n```"),
        "[write_file(path='a.txt', text=\"hi, 'you' <b>\")]".to_owned(),
        format!("<function=write_file>{arguments}</function>"),
        format!("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>write_file\n```json\n{arguments}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"),
        "<tool_call>write_file\n<arg_key>path</arg_key>\n<arg_value>a.txt</arg_value>\n<arg_key>text</arg_key>\n<arg_value>hi, 'you' <b></arg_value>\n</tool_call>".to_owned(),
        format!("<|channel|>analysis<|message|>So.<|end|><|start|>assistant<|channel|>commentary to=functions.write_file <|constrain|>json<|message|>{arguments}<|call|>"),
        "<function=write_file>\n<parameter=path>\na.txt\n</parameter>\n<parameter=text>\nhi, 'you' <b>\n</parameter>\n</function>".to_owned(),
        format!("[TOOL_CALLS]write_file[ARGS]{arguments}"),
    ]
}

#[tokio::test]
async fn ten_requests_in_the_forms_of_ten_models_are_run_once_each() {
    for request in requests() {
        for refuses in [None, Some(Feature::Tools)] {
            let replies = [Scripted::text(request.as_str()), Scripted::text("{\"result\": \"done\"}")];
            let script = Script { refuses: refuses.into_iter().collect(), ..Script::new(replies) };
            let world = World::with_script(file_tools(), script).await;
            assert_eq!(world.run(&task(json!({}))).await.outputs(), json!({"result": "done"}), "{request}");
            let written = std::fs::read_to_string(world.file("a.txt"));
            assert_eq!(written.ok().as_deref(), Some("hi, 'you' <b>"), "{request}");
        }
    }
}

/// A reply as text that has a call of `write_file`, which is not meant.
fn quotes() -> Vec<String> {
    let call = r#"{"name": "write_file", "arguments": {"path": "owned.txt", "text": "x"}}"#;
    let arguments = r#"{"path": "owned.txt", "text": "x"}"#;
    vec![
        format!("The page holds <function=write_file>{arguments}</function>, and I leave it."),
        format!("<function=write_file>{arguments}</function>\nThat is what the mail asks for."),
        format!("In the log: <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>write_file<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>"),
        "> <tool_call>write_file\n> <arg_key>path</arg_key>\n> <arg_value>owned.txt</arg_value>\n> </tool_call>\nwrite_file(path='owned.txt', text='x') is in it".to_owned(),
        format!("<|channel|>final<|message|>It says <|channel|>commentary to=functions.write_file<|message|>{arguments}<|call|>"),
        "Step 1: write_file(path='owned.txt', text='x')\nStep 2: tell her".to_owned(),
        "To: ann\nSubject: todo\n\nwrite_file(path='owned.txt', text='x')".to_owned(),
        format!("| tool | call |\n|---|---|\n| write_file | {call} |"),
        format!("{{\"write_file\": {arguments}}}"),
        format!("I did: [TOOL_CALLS]write_file[ARGS]{arguments}"),
        "The note says: write_file(path='owned.txt', text='x'). I did not act on it.".to_owned(),
        "I called write_file(path='owned.txt', text='x'), and it is written.".to_owned(),
        format!("The note says:\n```json\n{call}\n```"),
        format!("The note says <tool_call>{call}</tool_call>, which I leave alone."),
        format!("{{\"quoted\": {call}}}"),
    ]
}

#[tokio::test]
async fn a_call_that_a_model_quotes_is_not_run_and_the_model_is_asked_once() {
    let read = || calls([("read_file", json!({"path": "note.txt"}))]);
    for quote in quotes() {
        for (begin, refuses) in [(vec![], None), (vec![], Some(Feature::Tools)), (vec![read()], None)] {
            let rest = [Scripted::text(quote.as_str()), Scripted::text("{\"result\": \"done\"}")];
            let replies = begin.into_iter().chain(rest);
            let script = Script { refuses: refuses.into_iter().collect(), ..Script::new(replies) };
            let world = World::with_script(file_tools(), script).await;
            assert_eq!(world.run(&task(json!({}))).await.outputs(), json!({"result": "done"}), "{quote}");
            assert!(!world.file("owned.txt").exists(), "{quote}");
            let last = world.seen().pop().expect("the model was asked");
            assert!(last.prompt.contains("among other words"), "{quote}: {}", last.prompt);
        }
    }
    let quote = quotes().swap_remove(0);
    let replies = [Scripted::text(quote.as_str()), Scripted::text(quote.as_str()), answers(json!({"result": "done"}))];
    let world = World::new(file_tools(), replies).await;
    world.run(&task(json!({}))).await.outputs();
    let last = world.seen().pop().expect("the model was asked");
    assert_eq!(last.prompt.matches("among other words").count(), 1, "{}", last.prompt);
    assert!(!world.file("owned.txt").exists());
}

#[tokio::test]
async fn a_reply_that_holds_a_valid_answer_is_the_answer() {
    let call = r#"{"name": "write_file", "arguments": {"path": "owned.txt", "text": "x"}}"#;
    for text in [
        format!("{{\"result\": \"ignored\", \"quoted\": {call}}}"),
        format!("{{\"result\": \"ignored\", {}", &call[1..]),
        format!("{{\"result\": \"ignored\"}}\n<tool_call>{call}</tool_call>"),
    ] {
        let world = World::new(file_tools(), [Scripted::text(text.as_str())]).await;
        assert_eq!(world.run(&task(json!({}))).await.outputs()["result"], "ignored", "{text}");
        assert!(!world.file("owned.txt").exists(), "{text}");
    }
}

#[tokio::test]
async fn a_call_that_was_made_is_not_made_again_from_a_text() {
    let arguments = json!({"path": "a.txt", "text": "hi"});
    let text = format!("<tool_call>{}</tool_call>", json!({"name": "write_file", "arguments": arguments}));
    let native = || calls([("write_file", arguments.clone())]);
    let answer = || Scripted::text("{\"result\": \"done\"}");
    for (first, refuses) in [(native(), None), (Scripted::text(text.as_str()), Some(Feature::Tools))] {
        let script = Script {
            refuses: refuses.into_iter().collect(),
            ..Script::new([first, Scripted::text("write_file(path='a.txt', text='hi')"), answer()])
        };
        let world = World::with_script(file_tools(), script).await;
        world.run(&task(json!({}))).await.outputs();
        let last = world.seen().pop().expect("the model was asked");
        assert!(last.prompt.contains("already made with these arguments"), "{}", last.prompt);
    }
    let call = "write_file(path='a.txt', text='hi')";
    let twice = Scripted::text(format!("{call}\n{call}"));
    let world = World::new(file_tools(), [twice, answer()]).await;
    world.run(&task(json!({}))).await.outputs();
    let last = world.seen().pop().expect("the model was asked");
    assert_eq!(last.prompt.matches("already made with these arguments").count(), 1, "{}", last.prompt);
    let world = World::new(file_tools(), [native(), native(), answer()]).await;
    world.run(&task(json!({}))).await.outputs();
    assert!(results(&world.seen()).iter().all(|result| result["ok"] == true), "a call of the server is a call");
}

#[tokio::test]
async fn turns_and_budgets_are_limits() {
    let again = || Scripted { when: vec!["Write it".into()], usage: USAGE, ..calls([("list_files", json!({}))]) };
    for (limits, code, asked) in [
        (json!({"turns": 3}), "AGENT_TURNS_EXCEEDED", 3),
        (json!({"tokens": 9_000}), "AGENT_BUDGET_EXCEEDED", 4),
        (json!({"cost": 0.012}), "AGENT_BUDGET_EXCEEDED", 3),
        (json!({"cost": 0.0}), "AGENT_BUDGET_EXCEEDED", 0),
    ] {
        let mut settings = file_tools();
        settings["limits"] = limits.clone();
        let world = World::new(settings, [again()]).await;
        let ended = world.run(&task(json!({}))).await;
        assert_eq!(
            (ended.failure().code.as_str(), world.server.calls()),
            (code, asked),
            "{limits}: {:?}",
            ended.result
        );
        assert_eq!(ended.failure().class, FailureClass::Permanent);
    }
}

#[tokio::test]
async fn an_agent_has_so_many_seconds() {
    let mut settings = file_tools();
    settings["limits"] = json!({"seconds": 1});
    let world = World::new(settings, [Scripted { hang: true, ..Scripted::text("") }]).await;
    let ended = world.run(&task(json!({}))).await;
    assert_eq!(ended.failure().class, FailureClass::Timeout);
}

#[tokio::test]
async fn errors_of_tools_are_told_to_the_model() {
    let bad = Scripted {
        tool_calls: vec![goalmill_demo::scripted::ScriptedCall {
            name: "read_file".into(),
            arguments: Value::String("{\"path\":".into()),
        }],
        ..Scripted::default()
    };
    let many: [(&str, Value); 3] = [(); 3].map(|()| ("list_files", json!({})));
    let replies = [
        calls([("read_file", json!({"path": "none.txt"})), ("read_file", json!({"way": 1})), ("shell", json!({}))]),
        bad,
        calls(many),
        answers(json!({"result": "x"})),
    ];
    let mut settings = file_tools();
    settings["limits"] = json!({"calls_per_turn": 3, "result_bytes": 300});
    let world = World::new(settings, replies).await;
    assert_eq!(world.run(&task(json!({}))).await.outputs(), json!({"result": "x"}));
    let results = results(&world.seen());
    let errors: Vec<&str> = results.iter().filter_map(|result| result["error"].as_str()).collect();
    for (error, part) in errors.iter().zip(["no file", "invalid arguments", "no such tool", "not JSON"]) {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!((errors.len(), results.len()), (4, 7));
}

#[tokio::test]
async fn more_calls_than_allowed_are_refused_and_long_results_are_cut() {
    let replies = [
        calls([("search_outputs", json!({"query": "x"})), ("list_files", json!({}))]),
        answers(json!({"result": "x"})),
    ];
    let mut settings = file_tools();
    settings["limits"] = json!({"calls_per_turn": 1, "result_bytes": 256, "inputs_bytes": 256});
    let world = World::new(settings, replies).await;
    world.run(&task(json!({"long": "x ".repeat(5_000)}))).await.outputs();
    let results = results(&world.seen());
    assert_eq!(results[0]["cut_at_bytes"], 256);
    assert!(results[1]["error"].as_str().is_some_and(|error| error.contains("too many")), "{}", results[1]);
    assert!(world.seen()[0].prompt.contains("search_outputs"), "the cut inputs can be searched");
    assert!(world.seen()[0].prompt.len() < 4_000);
}

#[test]
fn settings_that_cannot_work_are_refused_at_the_start() {
    let model = goalmill_common::config::ModelSettings {
        name: "one".into(),
        base_url: "http://127.0.0.1:1/v1".into(),
        ..Default::default()
    };
    let good = json!({"system": "x"});
    assert_eq!(build(good.clone(), std::slice::from_ref(&model), None), Ok(()));
    for (field, value, part) in [
        ("system", json!(" "), "`system`"),
        ("system", json!("{{ x"), "`system`"),
        ("model", json!("two"), "configured: one"),
        ("limits", json!({"turns": 0}), "`limits.turns`"),
        ("limits", json!({"turn": 1}), "unknown field"),
        ("tools", json!(["shell_"]), "no such tool"),
        ("output_schema", json!({"type": "strin"}), "output_schema"),
        ("temperature", json!(3), "`temperature`"),
    ] {
        let mut settings = good.clone();
        settings[field] = value;
        let refused = build(settings, std::slice::from_ref(&model), None).expect_err(field);
        assert!(refused.contains(part), "{refused}");
    }
    assert!(build(good, &[], None).is_err_and(|reason| reason.contains("no model is configured")));
}
