//! The JSON Schema of an answer, in one form for each way in which servers take schemas.

use reqwest::Url;
use serde_json::Value;

/// The JSON Schema of an answer (an object).
///
/// A server gets one of the three forms: [`Self::enforced`] says which.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerSchema {
    /// For servers that turn a schema into a grammar: llama.cpp, Ollama, vLLM, SGLang.
    pub grammar: Value,
    /// Within the subset that hosted services document for `strict`: closed objects, all properties required, no
    /// `prefixItems`, no `pattern`.
    pub strict: Value,
    /// For the parameters of a tool and for prompts. No server enforces this form, and each token of it is paid for, so
    /// it is short.
    pub prompt: Value,
}

impl From<Value> for AnswerSchema {
    /// The same schema in each form.
    fn from(schema: Value) -> Self {
        Self { grammar: schema.clone(), strict: schema.clone(), prompt: schema }
    }
}

impl AnswerSchema {
    /// The form for a server that enforces schemas.
    pub fn enforced(&self, subset: SchemaSubset) -> &Value {
        match subset {
            SchemaSubset::Grammar => &self.grammar,
            SchemaSubset::Strict => &self.strict,
        }
    }
}

/// The part of JSON Schema that a server enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaSubset {
    /// All that a grammar can express.
    Grammar,
    /// The documented subset of hosted services.
    Strict,
}

/// Hosts of services whose documentation names a strict subset, with all hosts below them.
const STRICT_HOSTS: [&str; 10] = [
    "api.openai.com",
    "openai.azure.com",
    "services.ai.azure.com",
    "cognitiveservices.azure.com",
    "openrouter.ai",
    "api.groq.com",
    "api.x.ai",
    "api.cerebras.ai",
    "generativelanguage.googleapis.com",
    "aiplatform.googleapis.com",
];

impl SchemaSubset {
    /// The subset of the server at an address. A server that is no known service is taken to have a grammar.
    pub fn at(base_url: &str) -> Self {
        let url = Url::parse(base_url).ok();
        let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
        let is_below =
            |known: &&str| host.strip_suffix(*known).is_some_and(|rest| rest.is_empty() || rest.ends_with(['.', '-']));
        if STRICT_HOSTS.iter().any(is_below) { Self::Strict } else { Self::Grammar }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subset_follows_from_the_host() {
        for (url, subset) in [
            ("https://api.openai.com/v1", SchemaSubset::Strict),
            ("https://mine.openai.azure.com/openai/v1", SchemaSubset::Strict),
            ("https://eu-aiplatform.googleapis.com:443/v1", SchemaSubset::Strict),
            ("http://127.0.0.1:8080/v1", SchemaSubset::Grammar),
            ("https://api.openai.com.example.org/v1", SchemaSubset::Grammar),
            ("https://notapi.openai.com/v1", SchemaSubset::Grammar),
            ("https://example.org/api.openai.com", SchemaSubset::Grammar),
        ] {
            assert_eq!(SchemaSubset::at(url), subset, "{url}");
        }
    }
}
