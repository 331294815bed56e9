//! Documents from files and standard input.

use std::io::Read;

use goalmill_client::Document;
use goalmill_common::json_comments::looks_like_json;
use goalmill_common::limits::Limits;
use goalmill_common::number::to_usize;
use goalmill_plan::document::{self, Format};
use goalmill_plan::foreign;
use serde_json::Value;

use crate::exit::{Exit, Failed};

/// Most bytes read from a file or standard input.
const BYTES_MAX: u64 = 256 << 20;

/// Reads a file as text, or standard input for `-`.
pub fn read_file(path: &str) -> Result<String, Failed> {
    read_bounded(path, BYTES_MAX)
}

/// Reads at most `bytes_max` bytes of a file as text, or of standard input for `-`; refuses what is longer.
pub fn read_bounded(path: &str, bytes_max: u64) -> Result<String, Failed> {
    let mut text = String::new();
    let read = if path == "-" {
        std::io::stdin().lock().take(bytes_max + 1).read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(bytes_max + 1).read_to_string(&mut text))
    };
    let bytes = read.map_err(|error| {
        let exit = if error.kind() == std::io::ErrorKind::NotFound { Exit::NotFound } else { Exit::InvalidInput };
        Failed::new(exit, format!("`{path}` cannot be read: {error}"))
    })?;
    if bytes as u64 > bytes_max {
        return Err(Failed::invalid(format!("`{path}` has more than {bytes_max} bytes")));
    }
    Ok(text)
}

/// Fields of which a plan has one; a goal has none of them.
const PLAN_FIELDS: [&str; 7] = ["steps", "subtasks", "tasks", "phases", "nodes", "edges", "plan"];

/// Whether a document is a plan and no goal.
pub fn is_plan(document: &Value) -> bool {
    let is_named = || PLAN_FIELDS.iter().any(|field| document.get(field).is_some());
    // Validation says where a document belongs that is neither.
    document.is_array() || is_named() || foreign::foreign_document(document).is_some()
}

/// A plan's text and what it is.
pub fn document(path: &str) -> Result<Document, Failed> {
    let text = read_file(path)?;
    let begun = text.trim_start_matches('\u{feff}');
    if begun.trim().is_empty() {
        return Err(Failed::invalid(format!("`{path}` is empty")));
    }
    let media = if looks_like_json(begun) { "application/json" } else { "application/yaml" };
    Ok(Document { text, media })
}

/// Reads a file as YAML, of which JSON is a part.
pub fn value(path: &str) -> Result<Value, Failed> {
    parse(path, &read_file(path)?)
}

/// Reads a text as JSON or YAML, as strictly as the server: a key that stands twice is refused.
pub fn parse(path: &str, text: &str) -> Result<Value, Failed> {
    let limits = Limits { plan_bytes_max: to_usize(BYTES_MAX), ..Limits::default() };
    document::parse_document(text.as_bytes(), Format::Auto, &limits).map_err(|issues| {
        let found: Vec<String> = issues.iter().map(|issue| format!("{}: {}", issue.code, issue.detail)).collect();
        Failed::invalid(format!("`{path}` cannot be read: {}", found.join("; ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_and_yaml_are_told_apart() {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let of = |text: &str| {
            let path = dir.path().join("plan");
            std::fs::write(&path, text).expect("a temporary file can be written");
            document(path.to_str().expect("the path is text"))
        };
        assert_eq!(of(" {\"steps\":[]}").expect("it is a document").media, "application/json");
        assert_eq!(of("// mine\n{\"steps\":[]}").expect("it is a document").media, "application/json");
        assert_eq!(of("steps: []").expect("it is a document").media, "application/yaml");
        assert_eq!(of("\n").expect_err("it is empty").exit.code(), 8);
    }

    #[test]
    fn a_missing_file_is_not_found() {
        assert_eq!(read_file("/nowhere/plan.yaml").expect_err("there is none").exit.code(), 5);
    }

    #[test]
    fn what_is_neither_says_where() {
        let failed = parse("goal.yaml", "{\"a\": }").expect_err("it is no JSON");
        assert!(failed.message.contains("line 1 column 7"), "{failed}");
    }
}
