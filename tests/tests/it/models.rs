//! Language models over a scripted server: what the wire may do, and what a caller gets of it.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use futures_util::StreamExt;
use goalmill_common::config::{Dialect, ModelSettings, ModelTag};
use goalmill_demo::scripted::{Feature, Script, Scripted, ScriptedCall, ScriptedUsage};
use goalmill_llm::{
    Completion, CompletionDelta, CompletionOutcome, CompletionRequest, FinishReason, Message, ModelError,
    ModelRegistry, ModelTier, ResponseFormat, ResponseMode, SpendBudget, SpendLimit, Tool, ToolChoice, Usd, WaitPhase,
};
use goalmill_tests::model_server::{ModelServer, models, quirks, request};
use goalmill_tests::wait::{SOON, until};
use serde_json::{Value, json};
use tokio::time::Instant;

#[tokio::test]
async fn all_twelve_quirks_are_parsed_without_losing_a_call() -> Result<()> {
    let (mut numbers, mut wrong) = (BTreeSet::new(), Vec::new());
    for quirk in quirks::all() {
        let server = ModelServer::says([quirk.says.clone()]).await?;
        let mut question = request("hello", tools());
        question.stream = quirk.says.body.is_none();
        let result = server.models()?.complete(&question).await;
        let (answer, error) = match &result {
            Ok(answer) => (Some(answer), None),
            Err(error) => (error.partial(), Some(error.to_string())),
        };
        let said = error.as_deref().unwrap_or_default();
        let calls: Vec<(&str, &str)> = answer.map(calls_of).unwrap_or_default();
        let text = answer.map(|answer| answer.text.as_str()).unwrap_or_default();
        let finish = answer.map_or(FinishReason::BrokenOff, |answer| answer.finish.clone());
        let usage = answer.map(|a| a.usage).filter(|u| !u.estimated).map(|u| (u.input_tokens, u.output_tokens));
        let holds = calls == quirk.calls
            && text == quirk.text
            && finish == quirk.finish
            && usage == quirk.usage
            && error.is_some() == quirk.error.is_some()
            && quirk.error.is_none_or(|part| said.contains(part));
        numbers.insert(quirk.number);
        if !holds {
            wrong.push(format!("{} ({}, {}): {result:?}", quirk.number, quirk.name, quirk.seen));
        }
    }
    assert_eq!(numbers, (1..=12).collect());
    assert_eq!(wrong, Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn quirks_are_parsed_alike_at_all_chunk_sizes() -> Result<()> {
    for quirk in quirks::all().into_iter().filter(|quirk| quirk.error.is_none()) {
        for bytes in [1, 2, 7] {
            let server = ModelServer::says([Scripted { chunk_bytes: Some(bytes), ..quirk.says.clone() }]).await?;
            let question = CompletionRequest { stream: true, ..request("hello", tools()) };
            let answer = server.models()?.complete(&question).await?;
            assert_eq!((answer.text.as_str(), calls_of(&answer)), (quirk.text, quirk.calls.to_vec()), "{}", quirk.name);
        }
    }
    Ok(())
}

#[tokio::test]
async fn every_dialect_gives_the_same_answer_streamed_and_whole() -> Result<()> {
    for dialect in [Dialect::Openai, Dialect::Anthropic, Dialect::Ollama] {
        let call = |city: &str| ScriptedCall { name: "search".into(), arguments: json!({"city": city, "days": 3}) };
        let says = Scripted {
            text: Some("I shall look: 三日".into()),
            thinking: Some("hm".into()),
            tool_calls: vec![call("Paris"), call("Rome")],
            usage: Some(ScriptedUsage { input: 11, output: 7 }),
            times: Some(2),
            chunk: Some(3),
            ..Scripted::default()
        };
        let server = ModelServer::says([says]).await?;
        let models = models(&[server.settings("one", dialect)])?;
        let whole = models.complete(&request("hello", tools())).await?;
        let streamed = models.complete(&CompletionRequest { stream: true, ..request("hello", tools()) }).await?;
        for answer in [&whole, &streamed] {
            assert_eq!((answer.text.as_str(), answer.thinking.as_str()), ("I shall look: 三日", "hm"), "{dialect:?}");
            let inputs: Vec<Value> =
                answer.tool_calls.iter().map(|call| call.parse_arguments()).collect::<Result<_, _>>()?;
            assert_eq!(inputs, [json!({"city": "Paris", "days": 3}), json!({"city": "Rome", "days": 3})]);
            assert_eq!((answer.usage.input_tokens, answer.usage.output_tokens), (11, 7), "{dialect:?}");
            assert!(!answer.usage.estimated && !answer.is_truncated());
            assert_eq!(answer.served_by, "one");
            let ids: BTreeSet<&str> = answer.tool_calls.iter().map(|call| call.id.as_str()).collect();
            assert_eq!(ids.len(), 2, "ids tell calls apart");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_conversation_with_tools_is_written_in_each_dialect() -> Result<()> {
    for dialect in [Dialect::Openai, Dialect::Anthropic, Dialect::Ollama] {
        let call = ScriptedCall { name: "search".into(), arguments: json!({"city": "Paris"}) };
        let server =
            ModelServer::says([Scripted { tool_calls: vec![call], ..Scripted::default() }, Scripted::text("done")])
                .await?;
        let models = models(&[server.settings("one", dialect)])?;
        let first = models.complete(&request("find it", tools())).await?;
        let made = first.tool_calls[0].clone();
        let result = Message::Tool { call_id: made.id.clone(), name: made.name.clone(), text: "two hotels".into() };
        let turn = Message::Assistant {
            text: String::new(),
            tool_calls: vec![made],
            provider_fields: first.provider_fields.clone(),
        };
        let messages = vec![Message::system("be brief"), Message::user("find it"), turn, result];
        let second = models.complete(&CompletionRequest::new(messages, tools())).await?;
        assert_eq!((second.text.as_str(), second.finish), ("done", FinishReason::Stop));
        let seen = server.seen().pop().expect("there were two calls");
        assert_eq!(seen.prompt.lines().last(), Some("two hotels"), "{dialect:?}");
        let body = seen.body.to_string();
        assert!(body.contains("be brief") && body.contains("Paris"), "{body}");
    }
    Ok(())
}

#[tokio::test]
async fn a_working_fallback_mode_is_remembered() -> Result<()> {
    use Feature::{ForcedTool, JsonObject, JsonSchema, Tools};
    let cases: [(&[Feature], ResponseMode, u64); 4] = [
        (&[], ResponseMode::JsonSchema, 1),
        (&[JsonSchema], ResponseMode::ForcedTool, 2),
        (&[JsonSchema, ForcedTool], ResponseMode::JsonObject, 3),
        (&[JsonSchema, Tools, JsonObject], ResponseMode::Text, 4),
    ];
    for (refuses, mode, calls) in cases {
        let says = Scripted { json: Some(json!({"steps": []})), times: Some(9), ..Scripted::default() };
        let script = Script { refuses: refuses.iter().copied().collect(), ..Script::new([says]) };
        let server = ModelServer::start(script).await?;
        let models = server.models()?;
        let answer = models.complete(&request("plan", schema())).await?;
        assert_eq!((answer.mode, answer.content(), server.calls()), (mode, "{\"steps\":[]}", calls));
        assert_eq!(models.complete(&request("plan", schema())).await?.mode, mode);
        assert_eq!(server.calls(), calls + 1, "what worked is remembered");
        for seen in server.seen() {
            let has = |field: &str| seen.body.get(field).is_some();
            assert!(!(has("tools") && has("response_format")), "a schema keeps models from calling tools");
        }
        let last = server.seen().pop().expect("there were calls");
        let told = last.prompt.contains("JSON Schema");
        assert_eq!(
            told,
            matches!(mode, ResponseMode::JsonObject | ResponseMode::Text),
            "the prompt holds what the server does not take"
        );
        if mode == ResponseMode::ForcedTool {
            assert_eq!(last.body["tool_choice"]["function"]["name"], "plan", "the function is named");
        }
    }
    Ok(())
}

#[tokio::test]
async fn unparseable_completions_cause_a_fallback() -> Result<()> {
    let server = ModelServer::says([Scripted { times: Some(9), ..Scripted::text("Sure! Here is a plan.") }]).await?;
    let models = server.models()?;
    for mode in [ResponseMode::JsonSchema, ResponseMode::JsonSchema, ResponseMode::ForcedTool] {
        let answer = models.complete(&request("plan", schema())).await?;
        assert_eq!(answer.mode, mode);
        models.record_outcome(&answer, CompletionOutcome::Unparseable);
    }
    Ok(())
}

#[tokio::test]
async fn an_invalid_request_changes_no_mode() -> Result<()> {
    let server = ModelServer::start(Script {
        otherwise: Some(Box::new(Scripted { text: Some("{}".into()), ..Scripted::default() })),
        ..Script::new([Scripted { times: Some(4), ..Scripted::status(400, "messages: too silly") }])
    })
    .await?;
    let models = server.models()?;
    let error = models.complete(&request("plan", schema())).await.expect_err("every mode is rejected");
    assert!(
        matches!(&error, ModelError::Refused { status: 400, reason, .. } if reason == "messages: too silly"),
        "{error}"
    );
    assert_eq!(models.complete(&request("plan", schema())).await?.mode, ResponseMode::JsonSchema);
    assert!(!models.stats()[0].is_circuit_open, "a refusal does not open the circuit");
    let long = ModelServer::says([Scripted::status(400, "This model's maximum context length is 8192 tokens")]).await?;
    long.models()?.complete(&request("plan", schema())).await.expect_err("it is too long");
    assert_eq!(long.calls(), 1, "the length of a prompt is not about its form");
    Ok(())
}

#[tokio::test]
async fn parameters_that_a_server_does_not_take_are_left_out() -> Result<()> {
    let refuses = [Feature::MaxTokens, Feature::Temperature, Feature::StreamOptions].into();
    let server = ModelServer::start(Script { refuses, ..Script::new([Scripted::text("yes")]) }).await?;
    let question = CompletionRequest { stream: true, temperature: Some(0.2), ..request("hello", ResponseFormat::Text) };
    let answer = server.models()?.complete(&question).await?;
    assert_eq!((answer.text.as_str(), server.calls(), answer.attempts.len()), ("yes", 4, 4));
    let body = server.seen().pop().expect("there were calls").body;
    assert!(body.get("max_completion_tokens").is_some() && body.get("temperature").is_none(), "{body}");
    Ok(())
}

#[tokio::test]
async fn transient_failures_are_retried_and_retry_after_is_kept() -> Result<()> {
    let limited = Scripted { retry_after: Some("0.05".into()), ..Scripted::status(429, "slow down") };
    let cut = Scripted { cut_after: Some(0), ..Scripted::text("lost") };
    for failure in [Scripted::status(500, "oops"), Scripted::status(529, "overloaded"), limited, cut] {
        let server = ModelServer::says([failure.clone(), failure, Scripted::text("yes")]).await?;
        let models = models(&[ModelSettings { retries: 2, ..server.settings("one", Dialect::Openai) }])?;
        let answer = models.complete(&request("hello", ResponseFormat::Text)).await?;
        assert_eq!((answer.text.as_str(), answer.attempts.len()), ("yes", 3));
        assert!(answer.attempts[0].error.is_some() && answer.attempts[2].error.is_none());
    }
    Ok(())
}

#[tokio::test]
async fn what_will_not_pass_is_not_retried() -> Result<()> {
    let long = Scripted { retry_after: Some("999999999999".into()), ..Scripted::status(429, "come back") };
    let refusals = [Scripted::status(401, "bad key"), Scripted::status(403, "no"), long];
    for refusal in refusals {
        let server = ModelServer::says([refusal, Scripted::text("yes")]).await?;
        let models = models(&[ModelSettings { retries: 2, ..server.settings("one", Dialect::Openai) }])?;
        models.complete(&request("hello", ResponseFormat::Text)).await.expect_err("it is refused");
        assert_eq!(server.calls(), 1);
    }
    let garbage = Scripted { retry_after: Some("soon".into()), ..Scripted::status(429, "slow down") };
    let server = ModelServer::says([garbage, Scripted::text("yes")]).await?;
    let models = models(&[ModelSettings { retries: 2, ..server.settings("one", Dialect::Openai) }])?;
    assert_eq!(models.complete(&request("hello", ResponseFormat::Text)).await?.text, "yes", "garbage is no time");
    Ok(())
}

#[tokio::test]
async fn every_wait_has_its_limit() -> Result<()> {
    let slow = |scripted: Scripted| ModelServer::says([scripted]);
    let short = |server: &ModelServer| ModelSettings {
        first_byte_ms: 60,
        idle_ms: 60,
        call_ms: 400,
        ..server.settings("one", Dialect::Openai)
    };
    let silent = slow(Scripted { hang: true, ..Scripted::text("never") }).await?;
    let headless = slow(Scripted { hang_after: Some(0), ..Scripted::text("never") }).await?;
    for server in [&silent, &headless] {
        let question = CompletionRequest { stream: true, ..request("hello", ResponseFormat::Text) };
        let error = models(&[short(server)])?.complete(&question).await.expect_err("nothing comes");
        assert!(matches!(error, ModelError::Timeout { wait: WaitPhase::FirstByte, limit_ms: 60, .. }), "{error}");
    }
    let whole = slow(Scripted { hang: true, ..Scripted::text("never") }).await?;
    let error =
        models(&[short(&whole)])?.complete(&request("hello", ResponseFormat::Text)).await.expect_err("nothing comes");
    assert!(matches!(error, ModelError::Timeout { wait: WaitPhase::End, limit_ms: 400, .. }), "{error}");
    let stuck = slow(Scripted { hang_after: Some(3), chunk: Some(2), ..Scripted::text("abcdefgh") }).await?;
    let question = CompletionRequest { stream: true, ..request("hello", ResponseFormat::Text) };
    let patient = ModelSettings { first_byte_ms: 20_000, idle_ms: 1_000, call_ms: 60_000, ..short(&stuck) };
    let error = models(&[patient])?.complete(&question).await.expect_err("it stops in the middle");
    assert_eq!(error.partial().map(|answer| (answer.text.as_str(), answer.is_truncated())), Some(("abcd", true)));
    assert!(error.to_string().contains("1000 ms"), "{error}");
    let endless = Scripted { times: Some(9), hang: true, ..Scripted::text("never") };
    let server = slow(endless).await?;
    let question = CompletionRequest { timeout_ms: Some(50), ..request("hello", ResponseFormat::Text) };
    let error = server.models()?.complete(&question).await.expect_err("there is no time");
    assert_eq!(error, ModelError::OutOfTime { limit_ms: 50 });
    Ok(())
}

#[tokio::test]
async fn an_answer_that_is_none_says_what_came() -> Result<()> {
    let body = |text: &str, kind: &str| Scripted {
        body: Some(text.into()),
        content_type: Some(kind.into()),
        ..Scripted::default()
    };
    let cases = [
        (body("<html><body>502 Bad Gateway</body></html>", "text/html"), "neither a completion"),
        (body("{\"choices\": [", "application/json"), "not JSON"),
        (body("", "application/json"), "the body is empty"),
        (body("{\"hello\": 1}", "application/json"), "neither a completion"),
        (body("data: {\"choi\n\n", "text/event-stream"), "not JSON"),
        (body("null", "application/json"), "neither a completion"),
    ];
    for (says, part) in cases {
        let server = ModelServer::says([says.clone()]).await?;
        let error =
            server.models()?.complete(&request("hello", ResponseFormat::Text)).await.expect_err("it is no answer");
        let ModelError::BadResponse { reason, raw, .. } = &error else { panic!("{says:?}: {error}") };
        assert!(reason.contains(part), "{reason}");
        assert_eq!(Some(raw), says.body.as_ref());
        assert!(error.is_retryable());
    }
    Ok(())
}

#[tokio::test]
async fn a_cut_answer_is_never_taken_for_a_whole_one() -> Result<()> {
    let cut = Scripted { cut_after: Some(3), chunk: Some(4), ..Scripted::text("{\"steps\": [1, 2]}") };
    let server = ModelServer::says([cut]).await?;
    let question = CompletionRequest { stream: true, ..request("hello", ResponseFormat::Text) };
    let error = server.models()?.complete(&question).await.expect_err("the connection is cut");
    let partial = error.partial().expect("something came");
    assert_eq!((partial.text.as_str(), &partial.finish), ("{\"steps\"", &FinishReason::BrokenOff));
    assert!(partial.usage.estimated);
    for dialect in [Dialect::Openai, Dialect::Anthropic, Dialect::Ollama] {
        let says = Scripted { truncate: Some(9), times: Some(2), ..Scripted::text("{\"steps\": [1, 2]}") };
        let server = ModelServer::says([says]).await?;
        let models = models(&[server.settings("one", dialect)])?;
        for stream in [false, true] {
            let answer =
                models.complete(&CompletionRequest { stream, ..request("hello", ResponseFormat::Text) }).await?;
            assert_eq!(
                (answer.text.as_str(), answer.finish.clone()),
                ("{\"steps\":", FinishReason::Length),
                "{dialect:?}"
            );
            assert!(answer.is_truncated());
        }
    }
    Ok(())
}

#[tokio::test]
async fn an_answer_with_a_reason_for_its_end_is_whole_though_its_connection_breaks() -> Result<()> {
    let content = "data: {\"choices\":[{\"delta\":{\"content\":\"yes\"}}]}\n\n";
    let finish = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    for (frames, whole) in [(vec![content, finish, "data: {\"usa"], true), (vec![content, "data: {\"cho"], false)] {
        for says in [
            Scripted { cut_after: Some(frames.len()), ..Scripted::frames(frames.clone()) },
            Scripted::frames(frames.clone()),
        ] {
            let server = ModelServer::says([says]).await?;
            let result = server
                .models()?
                .complete(&CompletionRequest { stream: true, ..request("hello", ResponseFormat::Text) })
                .await;
            match (result, whole) {
                (Ok(answer), true) => assert_eq!((answer.text.as_str(), answer.finish), ("yes", FinishReason::Stop)),
                (Err(error), false) => assert_eq!(error.partial().map(|answer| answer.text.as_str()), Some("yes")),
                (other, _) => panic!("{frames:?}: {other:?}"),
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_stream_gives_pieces_as_they_come_and_the_answer_at_its_end() -> Result<()> {
    let says = Scripted { json: Some(json!({"steps": [1, 2, 3]})), chunk: Some(5), ..Scripted::default() };
    let server = ModelServer::says([Scripted::status(500, "oops"), says]).await?;
    let models = models(&[ModelSettings { retries: 1, ..server.settings("one", Dialect::Openai) }])?;
    let deltas: Vec<CompletionDelta> = models.stream(request("plan", schema())).collect().await;
    let written: String = deltas.iter().map(CompletionDelta::content).collect();
    let begun = deltas.iter().filter(|delta| matches!(delta, CompletionDelta::Started { .. })).count();
    assert_eq!((written.as_str(), begun), ("{\"steps\":[1,2,3]}", 2));
    let Some(CompletionDelta::Ended(result)) = deltas.last() else { panic!("the end is missing: {deltas:?}") };
    assert_eq!(result.as_ref().as_ref().expect("it is whole").content(), written);
    Ok(())
}

#[tokio::test]
async fn a_stream_that_has_begun_is_not_begun_again() -> Result<()> {
    let cut = Scripted { cut_after: Some(3), chunk: Some(4), ..Scripted::text("{\"steps\": [1, 2]}") };
    let server = ModelServer::says([cut, Scripted::text("again")]).await?;
    let other = ModelServer::says([Scripted::text("other")]).await?;
    let one = ModelSettings { retries: 2, ..server.settings("one", Dialect::Openai) };
    let models = models(&[one, other.settings("two", Dialect::Openai)])?;
    let deltas: Vec<CompletionDelta> = models.stream(request("plan", ResponseFormat::Text)).collect().await;
    assert_eq!(deltas.iter().map(CompletionDelta::content).collect::<String>(), "{\"steps\"");
    let Some(CompletionDelta::Ended(result)) = deltas.last() else { panic!("the end is missing: {deltas:?}") };
    assert!(matches!(result.as_ref(), Err(ModelError::Interrupted { .. })), "{result:?}");
    assert_eq!((server.calls(), other.calls()), (1, 0));
    Ok(())
}

#[tokio::test]
async fn the_next_model_answers_when_the_first_one_cannot() -> Result<()> {
    let bad = ModelServer::says([Scripted { times: Some(9), ..Scripted::status(503, "down") }]).await?;
    let good = ModelServer::says([Scripted { times: Some(9), ..Scripted::text("yes") }]).await?;
    let models = models(&[bad.settings("bad", Dialect::Openai), good.settings("good", Dialect::Openai)])?;
    let answer = models.complete(&request("hello", ResponseFormat::Text)).await?;
    assert_eq!((answer.model.as_str(), answer.attempts.len()), ("good", 2));
    let pinned = CompletionRequest { model: Some("bad".into()), ..request("hello", ResponseFormat::Text) };
    assert!(matches!(models.complete(&pinned).await, Err(ModelError::Failed { status: 503, .. })));
    let without =
        CompletionRequest { excluded_models: ["good".into()].into(), ..request("hello", ResponseFormat::Text) };
    assert!(models.complete(&without).await.is_err());
    let unknown = CompletionRequest { model: Some("none".into()), ..request("hello", ResponseFormat::Text) };
    let error = models.complete(&unknown).await.expect_err("there is no such model").to_string();
    assert!(error.contains("bad, good"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_hanging_model_leaves_half_of_the_time_to_the_next_one() -> Result<()> {
    let hung = ModelServer::says([Scripted { times: Some(9), hang: true, ..Scripted::default() }]).await?;
    let good = ModelServer::says([Scripted { times: Some(9), ..Scripted::text("yes") }]).await?;
    let hangs = ModelSettings { retries: 2, concurrency: 2, ..hung.settings("hung", Dialect::Openai) };
    let models = models(&[hangs, good.settings("good", Dialect::Openai)])?;
    let question =
        |stream| CompletionRequest { stream, timeout_ms: Some(4_000), ..request("hello", ResponseFormat::Text) };
    let (whole, streamed) = (question(false), question(true));
    let (whole, streamed) = tokio::join!(models.complete(&whole), models.complete(&streamed));
    assert_eq!((whole?.model, streamed?.model), ("good".into(), "good".into()));
    assert_eq!(hung.calls(), 2, "a time-out is not tried again on the same model");
    assert!(models.stats()[0].rates.success < 1.0);
    // Those that have no other model take all of the time, and both slots.
    let pinned = CompletionRequest { model: Some("hung".into()), timeout_ms: None, ..question(false) };
    let waiting = question(false);
    tokio::select! {
        _ = models.complete(&pinned) => panic!("it never ends"),
        _ = models.complete(&pinned) => panic!("it never ends"),
        answer = async {
            until(SOON, async || hung.calls() == 4).await;
            models.complete(&CompletionRequest { preferred_model: Some("hung".into()), ..waiting }).await
        } => assert_eq!(answer?.model, "good"),
    }
    assert_eq!(hung.calls(), 4, "there was no slot");
    Ok(())
}

#[tokio::test]
async fn a_stream_that_has_begun_is_not_bound_to_its_share_of_the_time() -> Result<()> {
    let slow = Scripted { chunk: Some(1), chunk_delay_ms: 250, ..Scripted::text("abcdefghij") };
    let (slow, other) = (ModelServer::says([slow]).await?, ModelServer::says([Scripted::text("other")]).await?);
    let models = models(&[slow.settings("slow", Dialect::Openai), other.settings("other", Dialect::Openai)])?;
    let question =
        CompletionRequest { stream: true, timeout_ms: Some(4_000), ..request("hello", ResponseFormat::Text) };
    assert_eq!(models.complete(&question).await?.text, "abcdefghij");
    Ok(())
}

#[tokio::test]
async fn calls_that_are_given_up_when_their_time_is_over_count_against_their_model() -> Result<()> {
    let hung = ModelServer::says([Scripted { times: Some(9), hang: true, ..Scripted::default() }]).await?;
    let one = ModelSettings { breaker_failures: 2, breaker_open_ms: 60_000, ..hung.settings("one", Dialect::Openai) };
    let models = models(&[one])?;
    let poor = CompletionRequest {
        budget: SpendBudget::new(SpendLimit { tokens: Some(1), cost: None }),
        ..request("hello", ResponseFormat::Text)
    };
    models.complete(&poor).await.expect_err("nothing is sent");
    assert_eq!(models.stats()[0].weight, 0.0, "only sent calls count");
    let dropped = tokio::time::timeout(Duration::ZERO, models.complete(&request("hello", ResponseFormat::Text))).await;
    assert!(dropped.is_err());
    assert_eq!(models.stats()[0].weight, 0.0, "a cancelled call does not count");
    let over = CompletionRequest { deadline: Some(Instant::now()), ..request("hello", ResponseFormat::Text) };
    let dropped = tokio::time::timeout(Duration::ZERO, models.complete(&over)).await;
    assert!(dropped.is_err() && !models.stats()[0].is_circuit_open);
    let late = CompletionRequest { timeout_ms: Some(0), ..request("hello", ResponseFormat::Text) };
    assert_eq!(models.complete(&late).await, Err(ModelError::OutOfTime { limit_ms: 0 }));
    let stats = &models.stats()[0];
    assert!(stats.is_circuit_open && stats.rates.success < 0.6, "{stats:?}");
    Ok(())
}

#[tokio::test]
async fn the_circuit_opens_after_failures_and_closes_after_a_probe() -> Result<()> {
    let server = ModelServer::says([
        Scripted { times: Some(2), ..Scripted::status(500, "oops") },
        Scripted { times: Some(9), ..Scripted::text("yes") },
    ])
    .await?;
    let one = ModelSettings { breaker_failures: 2, breaker_open_ms: 50, ..server.settings("one", Dialect::Openai) };
    let models = models(&[one])?;
    for _ in 0..2 {
        models.complete(&request("hello", ResponseFormat::Text)).await.expect_err("it fails");
    }
    assert!(models.stats()[0].is_circuit_open);
    until(SOON, async || models.complete(&request("hello", ResponseFormat::Text)).await.is_ok()).await;
    assert_eq!((server.calls(), models.stats()[0].is_circuit_open), (3, false), "nothing was sent meanwhile");
    Ok(())
}

#[tokio::test]
async fn tier_and_rates_select_the_model() -> Result<()> {
    let server =
        ModelServer::start(Script { otherwise: Some(Box::new(Scripted::text("yes"))), ..Script::default() }).await?;
    let model = |name: &str, tag: ModelTag, price: f64| ModelSettings {
        tags: [tag].into(),
        output_usd_per_million: price,
        ..server.settings(name, Dialect::Openai)
    };
    let models = models(&[
        model("strong", ModelTag::Strong, 10.0),
        model("dear", ModelTag::Cheap, 0.9),
        model("cheap", ModelTag::Cheap, 0.5),
    ])?;
    let chosen = async |tier| {
        models.complete(&CompletionRequest { tier, ..request("hello", ResponseFormat::Text) }).await.map(|a| a.model)
    };
    assert_eq!((chosen(ModelTier::Cheap).await?, chosen(ModelTier::Strong).await?), ("cheap".into(), "strong".into()));
    for _ in 0..3 {
        let answer = models
            .complete(&CompletionRequest { model: Some("cheap".into()), ..request("hello", ResponseFormat::Text) })
            .await?;
        models.record_outcome(&answer, CompletionOutcome::Invalid);
    }
    assert_eq!(chosen(ModelTier::Cheap).await?, "dear", "an answer that is of no use costs more than one that is");
    Ok(())
}

#[tokio::test]
async fn money_is_reserved_before_a_call_and_settled_after_it() -> Result<()> {
    let says = Scripted { usage: Some(ScriptedUsage { input: 1_000, output: 500 }), ..Scripted::text("yes") };
    let server = ModelServer::says([says, Scripted { no_usage: true, ..Scripted::text("yes") }]).await?;
    let one = ModelSettings {
        input_usd_per_million: 1.0,
        output_usd_per_million: 4.0,
        output_tokens_max: 1_000,
        ..server.settings("one", Dialect::Openai)
    };
    let models = models(&[one])?;
    let budget = SpendBudget::new(SpendLimit { tokens: None, cost: Some(Usd::from_dollars(0.01)) });
    let question = CompletionRequest { budget: budget.clone(), ..request("hello", ResponseFormat::Text) };
    let answer = models.complete(&question).await?;
    assert_eq!((answer.cost, answer.usage.estimated), (Usd::from_dollars(0.003), false));
    assert_eq!(budget.spent().cost, answer.cost);
    let answer = models.complete(&question).await?;
    assert!(answer.usage.estimated && budget.spent().estimated, "the server kept silent");
    let greedy = CompletionRequest { output_tokens_max: Some(2_000), ..question.clone() };
    let error = models.complete(&greedy).await.expect_err("2000 tokens may cost 0.008, and less is left");
    assert!(matches!(error, ModelError::OverBudget { .. }), "{error}");
    assert_eq!((server.calls(), budget.spent().calls), (2, 2), "nothing was sent");
    Ok(())
}

#[tokio::test]
async fn a_call_that_is_cancelled_ends_at_once_and_its_prompt_is_paid() -> Result<()> {
    let server = ModelServer::says([Scripted { hang: true, ..Scripted::text("never") }]).await?;
    let models = server.models()?;
    let budget = SpendBudget::unlimited();
    let question = CompletionRequest { budget: budget.clone(), ..request("hello", ResponseFormat::Text) };
    let cancel = question.cancel.clone();
    let (result, ()) = tokio::join!(models.complete(&question), async {
        until(SOON, async || server.calls() == 1).await;
        cancel.cancel();
    });
    assert_eq!(result, Err(ModelError::Cancelled));
    let spent = budget.spent();
    assert!(spent.calls == 1 && spent.input_tokens > 0 && spent.estimated, "{spent:?}");
    Ok(())
}

#[tokio::test]
async fn calls_at_once_are_limited() -> Result<()> {
    let says = Scripted { times: Some(9), delay_ms: 20, ..Scripted::text("yes") };
    let server = ModelServer::says([says]).await?;
    let models = models(&[ModelSettings { concurrency: 1, ..server.settings("one", Dialect::Openai) }])?;
    let question = request("hello", ResponseFormat::Text);
    let all = futures_util::future::join_all((0..4).map(|_| models.complete(&question))).await;
    assert!(all.iter().all(Result::is_ok));
    let hung = ModelServer::says([Scripted { hang: true, ..Scripted::default() }, Scripted::text("yes")]).await?;
    let models = models_of_one(&hung)?;
    let first = models.complete(&question);
    let second = async {
        until(SOON, async || hung.calls() == 1).await;
        let late = CompletionRequest { timeout_ms: Some(50), ..question.clone() };
        models.complete(&late).await
    };
    tokio::pin!(first);
    tokio::select! {
        _ = &mut first => panic!("the first call never ends"),
        late = second => assert_eq!(late, Err(ModelError::OutOfTime { limit_ms: 50 })),
    }
    assert_eq!(hung.calls(), 1, "the second one waited for the first");
    Ok(())
}

#[tokio::test]
async fn keys_come_from_the_environment_and_show_up_nowhere() -> Result<()> {
    // Every test process has a `PATH`: a value that is known, and long enough to be looked for.
    let path = goalmill_common::config::environment("PATH").expect("there is always a path");
    let echo = format!("Incorrect API key provided: {path}");
    let server = ModelServer::says([Scripted::status(401, &echo), Scripted::text(&path)]).await?;
    let settings = ModelSettings { api_key_env: "PATH".into(), ..server.settings("one", Dialect::Openai) };
    let models = models(std::slice::from_ref(&settings))?;
    let error = models.complete(&request("hello", ResponseFormat::Text)).await.expect_err("the key is refused");
    assert_eq!(server.seen()[0].headers["authorization"], format!("Bearer {path}"), "the server gets it");
    let answer = models.complete(&request("hello", ResponseFormat::Text)).await?;
    for shown in [format!("{error} {error:?}"), format!("{models:?}"), answer.raw.text(), format!("{settings:?}")] {
        assert!(!shown.contains(&path), "{shown}");
    }
    let missing = ModelSettings { api_key_env: "GOALMILL_TEST_NO_SUCH_KEY".into(), ..settings };
    let error = ModelRegistry::from_settings(&[missing], Default::default(), Default::default())?
        .complete(&request("hello", ResponseFormat::Text))
        .await
        .expect_err("there is no key")
        .to_string();
    assert!(error.contains("`GOALMILL_TEST_NO_SUCH_KEY`"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_from_one_that_is_slow() -> Result<()> {
    // Bound and not listened on: nobody else can be given the port meanwhile.
    let port = tokio::net::TcpSocket::new_v4()?;
    port.bind("127.0.0.1:0".parse()?)?;
    let server = ModelServer::says([]).await?;
    let base_url = format!("http://{}/v1", port.local_addr()?);
    let models = models(&[ModelSettings { base_url, ..server.settings("one", Dialect::Openai) }])?;
    let budget = SpendBudget::unlimited();
    let question = CompletionRequest { budget: budget.clone(), ..request("hello", ResponseFormat::Text) };
    let error = models.complete(&question).await.expect_err("nobody is there");
    assert!(matches!(error, ModelError::Unreachable { .. }), "{error}");
    assert_eq!(budget.spent().cost, Usd::ZERO);
    Ok(())
}

#[tokio::test]
async fn a_script_matches_by_the_prompt_and_counts_what_it_gave() -> Result<()> {
    let script = Script::parse(
        "answers:\n- when: [Paris, budget]\n  text: trip\n- text: first\n- text: second\notherwise: {text: rest}\n",
    )
    .map_err(anyhow::Error::msg)?;
    let server = ModelServer::start(script).await?;
    let models = server.models()?;
    let mut said = Vec::new();
    for prompt in ["a", "Paris on a budget", "b", "c", "budget: Paris"] {
        said.push(models.complete(&request(prompt, ResponseFormat::Text)).await?.text);
    }
    assert_eq!(said, ["first", "trip", "second", "rest", "trip"]);
    assert_eq!((server.server().given(0), server.calls()), (2, 5));
    Ok(())
}

fn models_of_one(server: &ModelServer) -> Result<std::sync::Arc<ModelRegistry>> {
    models(&[ModelSettings { concurrency: 1, ..server.settings("one", Dialect::Openai) }])
}

fn calls_of(answer: &Completion) -> Vec<(&str, &str)> {
    answer.tool_calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect()
}

fn tools() -> ResponseFormat {
    let tool = |name: &str| Tool {
        name: name.into(),
        description: "A tool.".into(),
        parameters: json!({"type": "object", "properties": {}}),
    };
    ResponseFormat::Tools { tools: vec![tool("search"), tool("get_plan_status")], choice: ToolChoice::Auto }
}

fn schema() -> ResponseFormat {
    ResponseFormat::Json {
        name: "plan".into(),
        schema: json!({"type": "object", "properties": {"steps": {"type": "array"}}}).into(),
    }
}
