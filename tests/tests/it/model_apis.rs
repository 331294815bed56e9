//! APIs of providers as they are documented: what a setting adds to requests, and what a server wants back after tool calls.

use anyhow::Result;
use goalmill_common::config::{Dialect, ModelSettings};
use goalmill_demo::scripted::{Scripted, Seen};
use goalmill_llm::{CompletionRequest, Message, ResponseFormat, Tool, ToolChoice, Usd};
use goalmill_tests::model_server::{ModelServer, models, request};
use serde_json::{Value, json};

/// An answer with one tool call that its server wants back as it was.
struct Api {
    name: &'static str,
    dialect: Dialect,
    /// The whole answer.
    whole: Value,
    /// The same as a stream.
    stream: Vec<Value>,
    /// Where the second request must hold what.
    back: &'static [(&'static str, &'static str)],
}

/// Sources: Gemini API, "Thought signatures", and its OpenAI compatibility, 2025; DeepSeek API, "Thinking mode", 2025;
/// OpenRouter, "Reasoning tokens", 2025; Anthropic, "Extended thinking", 2025; OpenAI, "Reasoning models", 2025.
fn apis() -> Vec<Api> {
    chat_completions().into_iter().chain([anthropic(), responses()]).collect()
}

fn chat_completions() -> [Api; 3] {
    let call = |extra: Value| {
        let mut call = json!({"index": 0, "id": "c1", "type": "function",
            "function": {"name": "search", "arguments": "{\"city\":\"Paris\"}"}});
        for (name, value) in extra.as_object().into_iter().flatten() {
            call[name] = value.clone();
        }
        json!([call])
    };
    let chat = |field: &str, message: Value, finish: Value| json!({"choices": [{"index": 0, field: message, "finish_reason": finish}]});
    let signed = json!({"extra_content": {"google": {"thought_signature": "sig=="}}});
    let details = json!([
        {"type": "reasoning.text", "index": 0, "text": "look it up", "signature": "s1", "format": "anthropic-claude-v1"},
        {"type": "reasoning.encrypted", "index": 1, "data": "xyz", "format": "openai-responses-v1"},
    ]);
    [
        Api {
            name: "Gemini 3 at its OpenAI address",
            dialect: Dialect::Openai,
            whole: chat(
                "message",
                json!({"role": "assistant", "tool_calls": call(signed.clone())}),
                "tool_calls".into(),
            ),
            stream: vec![
                chat("delta", json!({"tool_calls": call(signed)}), Value::Null),
                chat("delta", json!({}), "tool_calls".into()),
            ],
            back: &[("/messages/1/tool_calls/0/extra_content/google/thought_signature", "\"sig==\"")],
        },
        Api {
            name: "DeepSeek with thinking",
            dialect: Dialect::Openai,
            whole: chat(
                "message",
                json!({"reasoning_content": "look it up", "tool_calls": call(json!({}))}),
                "tool_calls".into(),
            ),
            stream: vec![
                chat("delta", json!({"reasoning_content": "look "}), Value::Null),
                chat("delta", json!({"reasoning_content": "it up"}), Value::Null),
                chat("delta", json!({"reasoning_content": null, "tool_calls": call(json!({}))}), "tool_calls".into()),
            ],
            back: &[("/messages/1/reasoning_content", "\"look it up\"")],
        },
        Api {
            name: "OpenRouter with reasoning",
            dialect: Dialect::Openai,
            whole: chat(
                "message",
                json!({"reasoning": "look it up", "reasoning_details": details, "tool_calls": call(json!({}))}),
                "tool_calls".into(),
            ),
            stream: vec![
                chat(
                    "delta",
                    json!({"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "look it",
                        "format": "anthropic-claude-v1"}]}),
                    Value::Null,
                ),
                chat(
                    "delta",
                    json!({"reasoning_details": [{"index": 0, "text": " up", "signature": "s1"}]}),
                    Value::Null,
                ),
                chat("delta", json!({"reasoning_details": [details[1]]}), Value::Null),
                chat("delta", json!({"tool_calls": call(json!({}))}), "tool_calls".into()),
            ],
            back: &[
                ("/messages/1/reasoning_details/0/text", "\"look it up\""),
                ("/messages/1/reasoning_details/0/signature", "\"s1\""),
                ("/messages/1/reasoning_details/1/data", "\"xyz\""),
            ],
        },
    ]
}

fn anthropic() -> Api {
    Api {
        name: "Anthropic with extended thinking",
        dialect: Dialect::Anthropic,
        whole: json!({"type": "message", "stop_reason": "tool_use", "content": [
            {"type": "thinking", "thinking": "look it up", "signature": "s1"},
            {"type": "redacted_thinking", "data": "xyz"},
            {"type": "tool_use", "id": "c1", "name": "search", "input": {"city": "Paris"}},
        ]}),
        stream: vec![
            json!({"type": "content_block_start", "index": 0,
                    "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "look "}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "it up"}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "s1"}}),
            json!({"type": "content_block_start", "index": 1, "content_block": {"type": "redacted_thinking", "data": "xyz"}}),
            json!({"type": "content_block_start", "index": 2,
                    "content_block": {"type": "tool_use", "id": "c1", "name": "search", "input": {}}}),
            json!({"type": "content_block_delta", "index": 2,
                    "delta": {"type": "input_json_delta", "partial_json": "{\"city\":\"Paris\"}"}}),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
            json!({"type": "message_stop"}),
        ],
        back: &[
            ("/messages/1/content/0", "{\"signature\":\"s1\",\"thinking\":\"look it up\",\"type\":\"thinking\"}"),
            ("/messages/1/content/1", "{\"data\":\"xyz\",\"type\":\"redacted_thinking\"}"),
            ("/messages/1/content/2/type", "\"tool_use\""),
        ],
    }
}

fn responses() -> Api {
    let item = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "enc=="});
    let function = json!({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "search", "arguments": "{\"city\":\"Paris\"}"});
    let response = json!({"object": "response", "status": "completed", "output": [item, function]});
    Api {
        name: "OpenAI's responses",
        dialect: Dialect::Responses,
        whole: response.clone(),
        stream: vec![
            json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "rs_1"}}),
            json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
            json!({"type": "response.output_item.added", "output_index": 1,
                    "item": {"type": "function_call", "call_id": "c1", "name": "search", "arguments": ""}}),
            json!({"type": "response.function_call_arguments.delta", "output_index": 1, "delta": "{\"city\":"}),
            json!({"type": "response.function_call_arguments.delta", "output_index": 1, "delta": "\"Paris\"}"}),
            json!({"type": "response.function_call_arguments.done", "output_index": 1, "arguments": "{\"city\":\"Paris\"}"}),
            json!({"type": "response.output_item.done", "output_index": 1, "item": function}),
            json!({"type": "response.completed", "response": response}),
        ],
        back: &[
            ("/input/1/encrypted_content", "\"enc==\""),
            ("/input/2/call_id", "\"c1\""),
            ("/input/3/type", "\"function_call_output\""),
            ("/input/3/output", "\"two hotels\""),
        ],
    }
}

fn tools() -> ResponseFormat {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let tool = Tool { name: "search".into(), description: "Finds hotels.".into(), parameters };
    ResponseFormat::Tools { tools: vec![tool], choice: ToolChoice::Auto }
}

#[tokio::test]
async fn what_a_server_wants_back_with_a_tool_call_goes_back_to_it_and_to_no_other() -> Result<()> {
    for api in apis() {
        for is_streamed in [false, true] {
            let first = if is_streamed {
                Scripted::frames(api.stream.iter().map(|event| format!("data: {event}\n\n")))
            } else {
                Scripted { body: Some(api.whole.to_string()), ..Scripted::default() }
            };
            let server = ModelServer::says([first, Scripted::text("done"), Scripted::text("done")]).await?;
            let settings = [server.settings("one", api.dialect), server.settings("other", api.dialect)];
            let models = models(&settings)?;
            let ask = |messages: Vec<Message>, model: &str| CompletionRequest {
                model: Some(model.into()),
                stream: is_streamed,
                ..CompletionRequest::new(messages, tools())
            };
            let question = Message::user("find it");
            let answer = models.complete(&ask(vec![question.clone()], "one")).await?;
            assert_eq!(answer.tool_calls.len(), 1, "{}: {answer:?}", api.name);
            assert_eq!(answer.tool_calls[0].parse_arguments()?, json!({"city": "Paris"}), "{}", api.name);
            let turn = Message::Assistant {
                text: answer.text.clone(),
                tool_calls: answer.tool_calls.clone(),
                provider_fields: answer.provider_fields.clone(),
            };
            // A conversation is recorded between two calls.
            let turn: Message = serde_json::from_str(&serde_json::to_string(&turn)?)?;
            let result = Message::Tool {
                call_id: answer.tool_calls[0].id.clone(),
                name: "search".into(),
                text: "two hotels".into(),
            };
            let messages = vec![question, turn, result];
            for model in ["one", "other"] {
                assert_eq!(models.complete(&ask(messages.clone(), model)).await?.text, "done", "{}", api.name);
            }
            let [_, own, foreign] = &server.seen()[..] else { panic!("{}: three requests", api.name) };
            for (at, expected) in api.back {
                let expected: Value = serde_json::from_str(expected)?;
                assert_eq!(own.body.pointer(at), Some(&expected), "{} at {at}: {}", api.name, own.body);
            }
            let sent = foreign.body.to_string();
            for secret in ["sig==", "look it up", "s1", "xyz", "enc=="] {
                assert!(!sent.contains(secret), "{}: {sent}", api.name);
            }
        }
    }
    Ok(())
}

/// What was sent to a model with these settings.
async fn sent(dialect: Dialect, change: impl FnOnce(&mut ModelSettings)) -> Result<Seen> {
    let server = ModelServer::says([Scripted::text("done")]).await?;
    let mut settings = server.settings("one", dialect);
    change(&mut settings);
    models(&[settings])?.complete(&request("hello", ResponseFormat::Text)).await?;
    Ok(server.seen().pop().expect("one request"))
}

#[tokio::test]
async fn settings_reach_the_address_the_headers_and_the_body() -> Result<()> {
    let seen = sent(Dialect::Openai, |model| {
        model.query.insert("api-version".into(), "2024-10-21".into());
        model.headers.insert("x-team".into(), "research".into());
        model.headers_env.insert("x-gateway-key".into(), "PATH".into());
        model.body =
            serde_json::from_value(json!({"max_tokens": null, "chat_template_kwargs": {"enable_thinking": false}}))
                .expect("an object");
    })
    .await?;
    assert_eq!(seen.path, "/v1/chat/completions?api-version=2024-10-21");
    let header = |name: &str| seen.headers.get(name).cloned();
    assert_eq!(header("x-team").as_deref(), Some("research"));
    assert_eq!(header("x-gateway-key"), goalmill_common::config::environment("PATH"));
    assert_eq!(seen.body.get("max_tokens"), None);
    assert_eq!(seen.body["chat_template_kwargs"], json!({"enable_thinking": false}));
    Ok(())
}

#[tokio::test]
async fn the_effort_of_reasoning_is_written_in_each_dialect() -> Result<()> {
    let places = [
        (Dialect::Openai, "/reasoning_effort"),
        (Dialect::Responses, "/reasoning/effort"),
        (Dialect::Anthropic, "/output_config/effort"),
        (Dialect::Ollama, "/think"),
    ];
    for (dialect, place) in places {
        let seen = sent(dialect, |model| model.reasoning_effort = "low".into()).await?;
        assert_eq!(seen.body.pointer(place), Some(&json!("low")), "{}", seen.body);
        let seen = sent(dialect, |_| ()).await?;
        assert_eq!(seen.body.pointer(place), None, "{}", seen.body);
    }
    Ok(())
}

#[tokio::test]
async fn a_key_that_has_expired_is_renewed_once() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let count = folder.path().join("count");
    let print = format!("echo x >>{0}; echo key-number-$(wc -l <{0})", count.display());
    let server = ModelServer::says([
        Scripted::status(401, "the token has expired"),
        Scripted::text("done"),
        Scripted::text("done"),
    ])
    .await?;
    let mut settings = server.settings("one", Dialect::Openai);
    settings.api_key_command = vec!["sh".into(), "-c".into(), print];
    let models = models(&[settings])?;
    for _ in 0..2 {
        assert_eq!(models.complete(&request("hello", ResponseFormat::Text)).await?.text, "done");
    }
    let keys: Vec<String> = server.seen().iter().map(|seen| seen.headers["authorization"].clone()).collect();
    assert_eq!(keys, ["Bearer key-number-1", "Bearer key-number-2", "Bearer key-number-2"]);
    Ok(())
}

#[tokio::test]
async fn cached_tokens_have_a_price_of_their_own() -> Result<()> {
    let usages = [
        (
            Dialect::Openai,
            json!({"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}], "usage":
            {"prompt_tokens": 1000, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 900}}}),
            0.000_57,
        ),
        (
            Dialect::Openai,
            json!({"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}], "usage":
            {"prompt_tokens": 1000, "completion_tokens": 0, "prompt_cache_hit_tokens": 900}}),
            0.000_57,
        ),
        (
            Dialect::Responses,
            json!({"object": "response", "status": "completed", "output": [{"type": "message", "content":
            [{"type": "output_text", "text": "ok"}]}], "usage": {"input_tokens": 1000, "output_tokens": 0,
            "input_tokens_details": {"cached_tokens": 900}}}),
            0.000_57,
        ),
        (
            Dialect::Anthropic,
            json!({"type": "message", "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn",
            "usage": {"input_tokens": 100, "cache_read_input_tokens": 900, "output_tokens": 0}}),
            0.000_57,
        ),
        (
            Dialect::Anthropic,
            json!({"type": "message", "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn",
            "usage": {"input_tokens": 100, "cache_creation_input_tokens": 900, "output_tokens": 0}}),
            0.003_675,
        ),
    ];
    for (dialect, body, dollars) in usages {
        let server = ModelServer::says([Scripted { body: Some(body.to_string()), ..Scripted::default() }]).await?;
        let mut settings = server.settings("one", dialect);
        (settings.input_usd_per_million, settings.cached_usd_per_million) = (3.0, Some(0.3));
        let answer = models(&[settings])?.complete(&request("hello", ResponseFormat::Text)).await?;
        assert_eq!((answer.text.as_str(), answer.usage.input_tokens), ("ok", 1000), "{body}");
        assert_eq!(answer.cost, Usd::from_dollars(dollars), "{body}");
    }
    Ok(())
}

#[tokio::test]
async fn the_repeated_part_of_a_conversation_is_marked_for_the_cache_of_anthropic() -> Result<()> {
    let server = ModelServer::says([Scripted::text("done")]).await?;
    let messages = vec![Message::system("rules"), Message::user("a"), Message::assistant("b"), Message::user("c")];
    models(&[server.settings("one", Dialect::Anthropic)])?
        .complete(&CompletionRequest::new(messages, ResponseFormat::Text))
        .await?;
    let body = server.seen().pop().expect("one request").body;
    let mark = json!({"type": "ephemeral"});
    assert_eq!(body.pointer("/system/0/cache_control"), Some(&mark), "{body}");
    assert_eq!(body.pointer("/messages/2/content/0/cache_control"), Some(&mark), "{body}");
    assert_eq!(body.to_string().matches("cache_control").count(), 2);
    Ok(())
}
