//! Reads rows `{"raw": …, "functions": […]}` from standard input and prints what was read.
use std::io::{BufRead, Write};

use goalmill_reader::{Catalogue, Limits, calls, read};
use serde_json::{Value, json};

fn main() {
    let stdin = std::io::stdin();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in stdin.lock().lines() {
        let row: Value = serde_json::from_str(&line.expect("line")).expect("row");
        let raw = match &row["raw"] {
            Value::String(s) => s.clone(),
            other => other.to_string(),
        };
        let functions = row["functions"].as_array().cloned().unwrap_or_default();
        let catalogue = Catalogue::from_schemas(
            functions.iter().map(|f| (f["name"].as_str().unwrap_or_default(), f.get("parameters"))),
        );
        let limits = Limits::default();
        let answer = if functions.is_empty() {
            json!({"id": row["id"], "read": read(&raw, &catalogue, &limits), "calls": calls(&raw, &catalogue, &limits)})
        } else {
            json!({"id": row["id"], "calls": calls(&raw, &catalogue, &limits)})
        };
        writeln!(out, "{answer}").expect("write");
    }
}
