//! A model server that says what a script tells it to: for trying out without a key, and for tests of everything that
//! can go wrong on the way to a real one.
//!
//! It speaks the three dialects at their own paths. It invents nothing and depends on no clock: the same script and the
//! same questions give the same answers.

mod render;
mod script;
mod serve;

pub use script::{Feature, Replay, Script, ScriptError, Scripted, ScriptedCall, ScriptedUsage};
pub use serve::{ScriptedServer, Seen};

/// The bytes of an answer with a bit of everything.
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
