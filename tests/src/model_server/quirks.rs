//! Twelve ways in which servers differ from what they imitate, each seen in the wild and reported where `seen` says.

use goalmill_demo::scripted::Scripted;
use goalmill_llm::FinishReason;

/// One answer on the wire, and what must be read from it.
pub struct Quirk {
    /// 1 to 12; some come in several forms.
    pub number: u32,
    pub name: &'static str,
    pub seen: &'static str,
    pub says: Scripted,
    pub text: &'static str,
    /// Name and arguments.
    pub calls: &'static [(&'static str, &'static str)],
    pub finish: FinishReason,
    /// Tokens of prompt and answer, if the server says them.
    pub usage: Option<(u64, u64)>,
    /// What the error says, when it is to be one.
    pub error: Option<&'static str>,
}

/// An event of a stream.
fn event(data: &str) -> String {
    format!("data: {data}\n\n")
}

/// A chunk with this delta, and a reason for the end in JSON.
fn chunk(delta: &str, finish: &str) -> String {
    let head = r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":"#;
    event(&format!("{head}{delta},\"finish_reason\":{finish}}}]}}"))
}

/// A whole completion with this message.
fn whole(message: &str, finish: &str, rest: &str) -> Scripted {
    let head = r#"{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":"#;
    Scripted { body: Some(format!("{head}{message},\"finish_reason\":{finish}}}]{rest}}}")), ..Scripted::default() }
}

fn done() -> String {
    event("[DONE]")
}

fn usage(input: u64, output: u64) -> String {
    event(&format!(
        r#"{{"choices":[],"usage":{{"prompt_tokens":{input},"completion_tokens":{output},"total_tokens":{}}}}}"#,
        input + output
    ))
}

const CALL: &[(&str, &str)] = &[("search", r#"{"city":"Paris"}"#)];

/// All of them.
pub fn all() -> Vec<Quirk> {
    [calls(), reasons(), fields(), streams()].into_iter().flatten().collect()
}

fn plain(number: u32, name: &'static str, seen: &'static str, says: Scripted) -> Quirk {
    Quirk { number, name, seen, says, text: "", calls: &[], finish: FinishReason::Stop, usage: None, error: None }
}

fn calls() -> Vec<Quirk> {
    let begin =
        r#"{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"search","arguments":""}}]}"#;
    let arguments = |text: &str| format!(r#"{{"tool_calls":[{{"index":0,"function":{{"arguments":{text:?}}}}}]}}"#);
    let called = |quirk: Quirk| Quirk { calls: CALL, finish: FinishReason::ToolCalls, ..quirk };
    let last = arguments(r#"{"city":"Paris"}"#);
    let together = [chunk(begin, "null"), chunk(&last, "\"tool_calls\""), usage(9, 4), done()];
    let in_one =
        r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"search","arguments":"{\"city\":\"Paris\"}"}}]}"#;
    let by_character: Vec<String> = std::iter::once(chunk(begin, "null"))
        .chain(r#"{"city":"Paris"}"#.chars().map(|c| chunk(&arguments(&c.to_string()), "null")))
        .chain([chunk("{}", "\"tool_calls\""), done()])
        .collect();
    let named_again =
        r#"{"tool_calls":[{"index":0,"id":"","type":"function","function":{"name":"","arguments":"\":\"Paris\"}"}}]}"#;
    let nothing = r#"{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"get_plan_status"}}]}"#;
    vec![
        called(Quirk {
            usage: Some((9, 4)),
            ..plain(1, "a piece of a call beside the reason for the end", "genai PR#199", Scripted::frames(together))
        }),
        called(plain(
            1,
            "a whole call beside the reason for the end",
            "genai PR#199",
            Scripted::frames([chunk(in_one, "\"tool_calls\""), done()]),
        )),
        called(plain(
            2,
            "an id in the first piece only",
            "aichat#1495",
            Scripted::frames([
                chunk(begin, "null"),
                chunk(&arguments("{\"city"), "null"),
                chunk(named_again, "null"),
                chunk("{}", "\"tool_calls\""),
                done(),
            ]),
        )),
        called(plain(3, "arguments by the character", "genai PR#91", Scripted::frames(by_character))),
        Quirk {
            calls: &[("get_plan_status", "")],
            finish: FinishReason::ToolCalls,
            ..plain(
                4,
                "a call without arguments",
                "genai#127",
                Scripted::frames([chunk(nothing, "null"), chunk("{}", "\"tool_calls\""), done()]),
            )
        },
    ]
}

fn reasons() -> Vec<Quirk> {
    let one = |word: &str| Scripted::frames([chunk(r#"{"content":"yes"}"#, "null"), chunk("{}", word), done()]);
    let said = |quirk: Quirk| Quirk { text: "yes", ..quirk };
    let seen = "maple-proxy#3, async-openai#266, TGI#2296";
    let always = |word: &str| Scripted::frames([chunk(r#"{"content":"yes"}"#, word), chunk("{}", word), done()]);
    vec![
        said(Quirk { finish: FinishReason::Unsaid, ..plain(5, "an empty reason for the end", seen, always("\"\"")) }),
        said(plain(5, "the reason `eos`", seen, one("\"eos\""))),
        said(plain(5, "the reason `eos_token`", seen, one("\"eos_token\""))),
        said(plain(
            5,
            "the reason `eos_token` of a whole answer",
            seen,
            whole(r#"{"content":"yes"}"#, "\"eos_token\"", ""),
        )),
        said(Quirk {
            finish: FinishReason::Other("bored".into()),
            ..plain(5, "a reason that nobody knows", seen, one("\"bored\""))
        }),
    ]
}

fn fields() -> Vec<Quirk> {
    let said = |quirk: Quirk| Quirk { text: "yes", ..quirk };
    let yes = r#"{"role":"assistant","content":"yes"}"#;
    let tier =
        r#","service_tier":"on_demand","system_fingerprint":null,"usage":{"prompt_tokens":3,"completion_tokens":1}"#;
    let bare = r#"{"choices":[{"delta":{"content":"yes"}}]}"#;
    let bare_end = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    let bare_whole = r#"{"choices":[{"message":{"content":"yes"},"finish_reason":"stop"}]}"#;
    let empty = event(r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{}}"#);
    let null_call = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"search","arguments":"{\"city\":\"Paris\"}"}}]}"#;
    let null_piece = r#"{"role":"assistant","content":null,"tool_calls":null,"function_call":null,"refusal":null}"#;
    vec![
        said(plain(6, "an empty usage", "zed#42893", Scripted::frames([chunk(yes, "null"), empty, done()]))),
        said(plain(6, "an empty usage of a whole answer", "zed#42893", whole(yes, "\"stop\"", ",\"usage\":{}"))),
        said(Quirk {
            usage: Some((3, 1)),
            ..plain(7, "a service tier that nobody knows", "mofa#1155", whole(yes, "\"stop\"", tier))
        }),
        said(plain(
            8,
            "neither `created` nor `object` nor `id`",
            "async-openai PR#165",
            Scripted::frames([event(bare), event(bare_end), done()]),
        )),
        said(plain(
            8,
            "neither `created` nor `object` of a whole answer",
            "async-openai PR#165",
            Scripted { body: Some(bare_whole.into()), ..Scripted::default() },
        )),
        Quirk {
            calls: CALL,
            finish: FinishReason::ToolCalls,
            ..plain(12, "`content: null` beside a call", "async-openai", whole(null_call, "\"tool_calls\"", ""))
        },
        said(plain(
            12,
            "`content: null` in the first piece",
            "async-openai",
            Scripted::frames([chunk(null_piece, "null"), chunk(yes, "\"stop\""), done()]),
        )),
    ]
}

fn streams() -> Vec<Quirk> {
    let yes = r#"{"content":"yes"}"#;
    let wide = [chunk(r#"{"content":"à Paris, 三日間 🗼"}"#, "null"), chunk("{}", "\"stop\""), done()];
    let broken = |error: &str| Scripted::frames([chunk(yes, "null"), event(error)]);
    let kept_alive = [
        ": keepalive\n\n".to_owned(),
        "event: ping\ndata: \n\n".into(),
        ": OPENROUTER PROCESSING\n\n".into(),
        chunk(yes, "\"stop\""),
        ":\n\n".into(),
        done(),
    ];
    let failed = |quirk: Quirk| Quirk { text: "yes", finish: FinishReason::BrokenOff, ..quirk };
    let seen = "genai#159, genai PR#245";
    vec![
        Quirk {
            text: "à Paris, 三日間 🗼",
            ..plain(
                9,
                "characters cut between pieces",
                "genai PR#187",
                Scripted { chunk_bytes: Some(1), ..Scripted::frames(wide) },
            )
        },
        failed(Quirk {
            error: Some("Provider disconnected"),
            ..plain(
                10,
                "an error object within the stream",
                seen,
                broken(r#"{"error":{"message":"Provider disconnected","code":502}}"#),
            )
        }),
        failed(Quirk {
            error: Some("overloaded"),
            ..plain(
                10,
                "an error event within the stream",
                seen,
                Scripted::frames([chunk(yes, "null"), "event: error\ndata: overloaded\n\n".into()]),
            )
        }),
        Quirk {
            error: Some("no capacity"),
            finish: FinishReason::BrokenOff,
            ..plain(10, "an error as the first thing", seen, Scripted::frames([event(r#"{"error":"no capacity"}"#)]))
        },
        Quirk {
            text: "yes",
            ..plain(11, "events that keep the connection alive", "async-openai#522, #543", Scripted::frames(kept_alive))
        },
        Quirk {
            text: "yes",
            finish: FinishReason::Unsaid,
            ..plain(
                11,
                "`[DONE]` and no reason for the end",
                "async-openai#522, #543",
                Scripted::frames([chunk(yes, "null"), "data:[DONE]\r\n\r\n".into()]),
            )
        },
    ]
}
