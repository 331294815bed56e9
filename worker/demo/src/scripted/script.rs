//! The script of a scripted server, a YAML or JSON file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Maximum lines of a file of recorded answers.
const ROWS_MAX: usize = 100_000;

/// The answers of a scripted server.
///
/// It gives the first answer that is not used up and whose `when` occurs in the prompt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    pub answers: Vec<Scripted>,
    /// Given when no other answer is left; without it the server answers 500.
    pub otherwise: Option<Box<Scripted>>,
    /// Recorded answers, given after `answers`.
    pub replay: Option<Replay>,
    /// Refused features: a request with one of them gets 400 and uses no answer.
    pub refuses: BTreeSet<Feature>,
}

/// One answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scripted {
    /// All of these must occur in the prompt; an empty list matches every prompt.
    #[serde(deserialize_with = "one_or_many")]
    pub when: Vec<String>,
    /// Number of uses: by default one, or unlimited with a `when`.
    pub times: Option<u64>,

    /// The text. A request that forces a tool gets it as the arguments of that tool.
    pub text: Option<String>,
    /// The same as a value, serialised to JSON.
    pub json: Option<Value>,
    pub thinking: Option<String>,
    pub tool_calls: Vec<ScriptedCall>,
    /// The finish reason, in the words of the dialect.
    pub finish: Option<String>,
    /// Cuts the text after this many characters, with the matching finish reason.
    pub truncate: Option<usize>,
    /// Reported usage; estimated when missing.
    pub usage: Option<ScriptedUsage>,
    /// Reports no usage.
    pub no_usage: bool,

    /// An HTTP status other than 200, with `error` as the message.
    pub status: Option<u16>,
    pub error: Option<String>,
    /// The raw header: seconds, a date, or garbage.
    pub retry_after: Option<String>,
    /// The raw body, for invalid answers.
    pub body: Option<String>,
    /// Raw pieces of a stream.
    pub frames: Vec<String>,
    pub content_type: Option<String>,

    /// Characters of one piece of a stream.
    pub chunk: Option<usize>,
    /// Cuts the bytes on the wire into pieces of this size.
    pub chunk_bytes: Option<usize>,
    /// Milliseconds before the answer.
    pub delay_ms: u64,
    /// Milliseconds before each piece of a stream.
    pub chunk_delay_ms: u64,

    /// Never answers.
    pub hang: bool,
    /// Stops sending after this many pieces of the body; 0 is after the head.
    pub hang_after: Option<usize>,
    /// Closes the connection after this many pieces of the body.
    pub cut_after: Option<usize>,
    /// Sends an error after this many pieces of a stream.
    pub error_after: Option<usize>,
}

/// A call of a tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    pub name: String,
    /// A text is sent unchanged.
    #[serde(default)]
    pub arguments: Value,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedUsage {
    pub input: u64,
    pub output: u64,
}

/// Recorded answers in a JSONL file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// Relative to the script.
    pub file: PathBuf,
    /// The field with the text.
    #[serde(default = "raw")]
    pub field: String,
    /// Gives the row whose text in this field occurs in the prompt; without it, rows are given in order.
    #[serde(default)]
    pub when: Option<String>,
}

fn raw() -> String {
    "raw".into()
}

/// A feature that some servers lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Feature {
    JsonSchema,
    JsonObject,
    Tools,
    /// `tool_choice` with a name.
    ForcedTool,
    Temperature,
    StreamOptions,
    /// Accepts `max_completion_tokens` only.
    MaxTokens,
}

/// Error of a script.
#[derive(Debug, thiserror::Error)]
#[error("model script `{file}`: {reason}")]
pub struct ScriptError {
    pub file: String,
    pub reason: String,
}

impl Script {
    /// Loads a script and its recorded answers.
    pub fn load(file: &Path) -> Result<Self, ScriptError> {
        let failed = |reason: String| ScriptError { file: file.display().to_string(), reason };
        let text = std::fs::read_to_string(file).map_err(|e| failed(format!("it cannot be read: {e}")))?;
        let mut script = Self::parse(&text).map_err(failed)?;
        if let Some(replay) = script.replay.take() {
            let path = file.parent().unwrap_or(Path::new("")).join(&replay.file);
            let unreadable = |e: &dyn std::fmt::Display| failed(format!("`replay.file` `{}`: {e}", path.display()));
            let rows = std::fs::read_to_string(&path).map_err(|e| unreadable(&e))?;
            script.answers.extend(replay.answers(&rows).map_err(|e| unreadable(&e))?);
        }
        Ok(script)
    }

    /// Parses a script; one with recorded answers needs [`Script::load`].
    pub fn parse(text: &str) -> Result<Self, String> {
        serde_yaml_ng::from_str(text).map_err(|e| e.to_string())
    }

    /// A script of answers in their order.
    pub fn new(answers: impl IntoIterator<Item = Scripted>) -> Self {
        Self { answers: answers.into_iter().collect(), ..Self::default() }
    }
}

impl Scripted {
    /// An answer of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }

    /// A refusal or a failure.
    pub fn status(status: u16, error: impl Into<String>) -> Self {
        Self { status: Some(status), error: Some(error.into()), ..Self::default() }
    }

    /// Raw pieces of a stream.
    pub fn frames<T: Into<String>>(frames: impl IntoIterator<Item = T>) -> Self {
        Self { frames: frames.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Maximum number of uses.
    pub(super) fn limit(&self) -> u64 {
        self.times.unwrap_or(if self.when.is_empty() { 1 } else { u64::MAX })
    }

    pub(super) fn fits(&self, prompt: &str) -> bool {
        self.when.iter().all(|part| prompt.contains(part))
    }

    /// The text, cut to its limit.
    pub(super) fn written(&self) -> Option<String> {
        let text = self.text.clone().or_else(|| self.json.as_ref().map(Value::to_string))?;
        Some(match self.truncate {
            Some(characters) => text.chars().take(characters).collect(),
            None => text,
        })
    }
}

impl Replay {
    fn answers(&self, rows: &str) -> Result<Vec<Scripted>, String> {
        let mut answers = Vec::new();
        for (at, line) in rows.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).take(ROWS_MAX) {
            let row: Value = serde_json::from_str(line).map_err(|e| format!("line {}: {e}", at + 1))?;
            let field = |name: &str| {
                let text = row.get(name).and_then(Value::as_str).map(str::to_owned);
                text.ok_or_else(|| format!("line {}: there is no text in `{name}`", at + 1))
            };
            let when = self.when.as_deref().map(field).transpose()?;
            answers.push(Scripted { when: when.into_iter().collect(), ..Scripted::text(field(&self.field)?) });
        }
        Ok(answers)
    }
}

fn one_or_many<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Given::deserialize(deserializer)? {
        Given::One(one) => vec![one],
        Given::Many(many) => many,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_yaml_and_names_what_it_does_not_know() {
        let text = "answers:\n- when: Paris\n  json: {steps: []}\n- text: hello\n  chunk: 3\nrefuses: [json_schema]\n";
        let script = Script::parse(text).expect("it is valid");
        assert_eq!(script.answers[0].written().as_deref(), Some("{\"steps\":[]}"));
        assert_eq!((script.answers[0].limit(), script.answers[1].limit()), (u64::MAX, 1));
        assert!(script.refuses.contains(&Feature::JsonSchema));
        let refused = Script::parse("answers:\n- txt: hello\n").expect_err("there is no such field");
        assert!(refused.contains("answers[0]") && refused.contains("txt"), "{refused}");
    }

    #[test]
    fn recorded_answers_are_read_from_beside_the_script() {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let file = dir.path().join("script.yaml");
        std::fs::write(&file, "replay: {file: rows.jsonl, when: task}\n").expect("a file can be written");
        let missing = Script::load(&file).expect_err("there are no rows");
        assert!(missing.to_string().contains("rows.jsonl"), "{missing}");
        std::fs::write(
            dir.path().join("rows.jsonl"),
            "{\"task\":\"a\",\"raw\":\"x\"}\n\n{\"task\":\"b\",\"raw\":\"y\"}\n",
        )
        .expect("a file can be written");
        let script = Script::load(&file).expect("it is valid");
        assert_eq!(script.answers[1], Scripted { when: vec!["b".into()], ..Scripted::text("y") });
        std::fs::write(dir.path().join("rows.jsonl"), "{\"task\":\"a\"}\n").expect("a file can be written");
        let refused = Script::load(&file).expect_err("the text is missing").to_string();
        assert!(refused.contains("line 1") && refused.contains("`raw`"), "{refused}");
    }
}
