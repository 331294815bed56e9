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
