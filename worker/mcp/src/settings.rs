//! The entry of an agent type with executor `mcp` in the settings.

use std::collections::BTreeMap;

use goalmill_worker::executor::http::{parse_address, parse_headers};
use serde::Deserialize;

/// A server, and how it is called.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct McpSettings {
    /// The program and its arguments, for a server over standard input and output.
    #[serde(default)]
    pub argv: Vec<String>,
    /// Variables of the worker's environment that the program gets too.
    #[serde(default)]
    pub env: Vec<String>,
    /// Variables set for the program.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    /// The address, for a server over streamable HTTP.
    #[serde(default)]
    pub url: Option<String>,
    /// Sent with every request; a value is never logged.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The tools that may be called; all when empty.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Milliseconds for one call.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
}

impl McpSettings {
    /// Refuses an entry that names no server, or two.
    pub(crate) fn check_address(&self) -> Result<(), String> {
        match (&self.url, self.argv.is_empty()) {
            (Some(_), false) => return Err("give `argv` or `url`, not both".into()),
            (None, true) => return Err("give `argv`, a program, or `url`, an address".into()),
            (Some(url), true) => drop(parse_address(url)?),
            (None, false) => {}
        }
        parse_headers(&self.headers).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(entry: Value) -> Result<(), String> {
        let settings: McpSettings = serde_json::from_value(entry).map_err(|error| error.to_string())?;
        settings.check_address()
    }

    #[test]
    fn an_entry_names_one_server() {
        check(json!({"argv": ["server"], "tools": ["a"]})).expect("it is valid");
        check(json!({"url": "https://example.org/mcp", "headers": {"authorization": "x"}})).expect("it is valid");
        for (entry, word) in [
            (json!({}), "argv"),
            (json!({"argv": ["server"], "url": "https://example.org"}), "both"),
            (json!({"url": "ftp://example.org"}), "ftp"),
            (json!({"url": "https://example.org", "headers": {"a b": "secret"}}), "`a b`"),
            (json!({"argv": ["server"], "tool": "x"}), "tool"),
        ] {
            let error = check(entry.clone()).expect_err("it is refused");
            assert!(error.contains(word) && !error.contains("secret"), "{entry}: {error}");
        }
    }
}
