//! A scripted model server: for trials without an API key, and for tests of everything that
//! can go wrong between client and server.
//!
//! It serves the three dialects at their own paths. It is deterministic and uses no clock: the same script and the
//! same requests give the same answers.

mod render;
mod script;
mod serve;

pub use script::{Feature, Replay, Script, ScriptError, Scripted, ScriptedCall, ScriptedUsage};
pub use serve::{ScriptedServer, Seen};

/// The bytes of an answer with all kinds of parts.
pub fn sample(dialect: goalmill_common::config::Dialect, stream: bool) -> Vec<u8> {
    let call = ScriptedCall { name: "search".into(), arguments: serde_json::json!({"city": "Zürich", "days": 3}) };
    let scripted = Scripted {
        thinking: Some("hm".into()),
        tool_calls: vec![call.clone(), call],
        chunk: Some(4),
        ..Scripted::text("ein Plan für 三日 🗼")
    };
    let asked = render::Asked { model: "m".into(), stream, ..render::Asked::default() };
    if !stream {
        return render::whole(&scripted, &asked, dialect).into_bytes();
    }
    let (content, end) = render::pieces(&scripted, &asked, dialect);
    [content, end].concat().concat().into_bytes()
}
