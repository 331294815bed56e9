//! Prompts in a terminal.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::Command;

use goalmill_common::config::environment;
use goalmill_common::view::QuestionView;
use serde_json::Value;

use crate::exit::Failed;
use crate::output::{Screen, sanitize};

/// Whether a prompt is possible: input and output are a terminal, and the format is for people.
pub fn is_possible(screen: &Screen) -> bool {
    screen.live && screen.is_for_people() && io::stdin().is_terminal()
}

/// Prompts for a line; `None` at the end of the input.
pub fn line(question: &str) -> Result<Option<String>, Failed> {
    let mut out = io::stdout().lock();
    out.write_all(sanitize(question).as_bytes())?;
    out.flush()?;
    let mut text = String::new();
    let read = io::stdin().lock().read_line(&mut text)?;
    if read == 0 {
        out.write_all(b"\n")?;
        return Ok(None);
    }
    Ok(Some(text.trim().to_owned()))
}

/// Prompts for yes or no; an empty answer is `default`.
pub fn yes(question: &str, default: bool) -> Result<bool, Failed> {
    let choice = if default { "[Y/n]" } else { "[y/N]" };
    let said = line(&format!("{question} {choice} "))?;
    Ok(match said.as_deref().map(str::to_lowercase).as_deref() {
        Some("y" | "yes") => true,
        Some("n" | "no") | None => false,
        Some(_) => default,
    })
}

/// Opens a text in an editor; `None` when it is unchanged.
pub fn edited(text: &str) -> Result<Option<String>, Failed> {
    let file = tempfile::Builder::new().prefix("goalmill-").suffix(".yaml").tempfile()?;
    std::fs::write(file.path(), text)?;
    let editor = environment("VISUAL").or_else(|| environment("EDITOR")).unwrap_or_else(|| "vi".into());
    // An editor may be spelled with arguments; the shell tells them apart.
    let status = Command::new("sh").arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(file.path()).status();
    let status = status.map_err(|error| Failed::other(format!("the editor `{editor}` cannot be started: {error}")))?;
    if !status.success() {
        return Err(Failed::other(format!("the editor `{editor}` ended with {status}"))
            .help("name another with EDITOR, or use `--set`, `--file`"));
    }
    let after = std::fs::read_to_string(file.path())?;
    Ok((after != text).then_some(after))
}

/// Prompts until the answer is valid; `None` for an empty answer without a default.
pub fn answer(asked: &QuestionView, left: &str) -> Result<Option<Value>, Failed> {
    let schema = asked.schema.as_ref().map(goalmill_common::json::Json::value).unwrap_or_default();
    let default = asked.default.as_ref().map(goalmill_common::json::Json::value);
    let mut about = vec![kind(&schema)];
    about.extend(default.as_ref().map(|value| format!("default {value}")));
    about.push(left.to_owned());
    let about: Vec<String> = about.into_iter().filter(|part| !part.is_empty()).collect();
    let mut text = format!("? {}\n", asked.question);
    for (n, choice) in choices(&schema).iter().enumerate() {
        text.push_str(&format!("    {}  {}\n", n + 1, plain(choice)));
    }
    text.push_str(&format!("  ({}) ", about.join(" · ")));
    loop {
        let Some(said) = line(&text)? else { return Ok(None) };
        if said.is_empty() {
            return Ok(default);
        }
        match typed(&schema, &said) {
            Ok(value) => return Ok(Some(value)),
            Err(why) => text = format!("  {why}: "),
        }
    }
}

/// Parses an answer by its schema: `yes` for a boolean, the number of a choice, plain text for a string, else JSON.
pub fn typed(schema: &Value, said: &str) -> Result<Value, String> {
    let choices = choices(schema);
    if !choices.is_empty() {
        let by_word = choices.iter().find(|choice| plain(choice) == said);
        let by_number = || choices.get(said.parse::<usize>().ok()?.checked_sub(1)?);
        let known = || choices.iter().map(plain).collect::<Vec<_>>().join(", ");
        return by_word.or_else(by_number).cloned().ok_or_else(|| format!("`{said}` is none of {}", known()));
    }
    let json = || goalmill_common::json_limits::parse::<Value>(said).ok();
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => Ok(json().filter(Value::is_string).unwrap_or_else(|| said.into())),
        Some("boolean") => match said.to_lowercase().as_str() {
            "y" | "yes" | "true" => Ok(true.into()),
            "n" | "no" | "false" => Ok(false.into()),
            _ => Err(format!("`{said}` is neither yes nor no")),
        },
        Some(kind @ ("number" | "integer")) => {
            json().filter(Value::is_number).ok_or_else(|| format!("`{said}` is no {kind}"))
        }
        Some(kind @ ("object" | "array")) => json()
            .filter(|value| if kind == "object" { value.is_object() } else { value.is_array() })
            .ok_or_else(|| format!("`{said}` is no {kind} as JSON")),
        _ => Ok(json().unwrap_or_else(|| said.into())),
    }
}

fn choices(schema: &Value) -> Vec<Value> {
    schema.get("enum").and_then(Value::as_array).cloned().unwrap_or_default()
}

fn kind(schema: &Value) -> String {
    match schema.get("type").and_then(Value::as_str) {
        _ if schema.get("enum").is_some() => "a choice".into(),
        Some("boolean") => "yes or no".into(),
        Some("object") => "a JSON object".into(),
        Some("array") => "a JSON list".into(),
        Some("string") => "a text".into(),
        Some("integer") => "a whole number".into(),
        Some("number") => "a number".into(),
        _ => String::new(),
    }
}

/// A value as a person would type it.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), Into::into)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_read_as_its_schema_wants_it() {
        let read = |schema: Value, said: &str| typed(&schema, said);
        assert_eq!(read(json!({"type": "string"}), "12"), Ok(json!("12")));
        assert_eq!(read(json!({"type": "string"}), "\"12\""), Ok(json!("12")));
        assert_eq!(read(json!({"type": "integer"}), "12"), Ok(json!(12)));
        assert!(read(json!({"type": "integer"}), "twelve").is_err());
        assert_eq!(read(json!({"type": "boolean"}), "Yes"), Ok(json!(true)));
        assert!(read(json!({"type": "boolean"}), "perhaps").is_err());
        assert_eq!(read(json!({"enum": ["sea", "city"]}), "2"), Ok(json!("city")));
        assert_eq!(read(json!({"enum": ["sea", 3]}), "3"), Ok(json!(3)));
        assert!(read(json!({"enum": ["sea"]}), "hills").is_err());
        assert_eq!(read(Value::Null, "plain words"), Ok(json!("plain words")));
        assert_eq!(read(Value::Null, "{\"a\": 1}"), Ok(json!({"a": 1})));
        assert!(read(json!({"type": "object"}), "[1]").is_err());
    }
}
