//! The form of a schema that an endpoint takes: as the settings say, as its host or dialect tells, or as the server names
//! itself in its list of models.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goalmill_common::config::{Dialect, EnforcedSchema, ModelSettings};
use reqwest::Url;
use serde_json::Value;
use tokio::time::Instant;

use crate::answer_schema::SchemaForm;

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

/// Owners of models in the lists of servers that turn a schema into a grammar: llama.cpp, vLLM, SGLang, Ollama.
const GRAMMAR_OWNERS: [&str; 4] = ["llamacpp", "vllm", "sglang", "library"];

/// How long a server that gave no list of models is not asked for one.
pub const SILENCE: Duration = Duration::from_mins(5);

/// What was found of endpoints, by address; all models of a registry share it.
#[derive(Clone, Debug, Default)]
pub struct EndpointForms(Arc<Mutex<BTreeMap<String, FoundForm>>>);

#[derive(Debug)]
struct FoundForm {
    form: SchemaForm,
    /// None for as long as the process runs.
    until: Option<Instant>,
}

impl EndpointForms {
    pub fn get(&self, base_url: &str) -> Option<SchemaForm> {
        let forms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = forms.get(base_url)?;
        found.until.is_none_or(|until| Instant::now() < until).then_some(found.form)
    }

    /// - `lasting`: none for as long as the process runs.
    pub fn insert(&self, base_url: &str, form: SchemaForm, lasting: Option<Duration>) {
        let until = lasting.map(|lasting| Instant::now() + lasting);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(base_url.to_owned(), FoundForm { form, until });
    }
}

/// The form that settings, dialect or host tell; `None` where the server must be asked.
pub fn known_form(model: &ModelSettings) -> Option<SchemaForm> {
    match (model.schema, model.dialect) {
        (EnforcedSchema::Grammar, _) | (EnforcedSchema::Auto, Dialect::Ollama) => Some(SchemaForm::Grammar),
        (EnforcedSchema::Strict, _) | (EnforcedSchema::Auto, Dialect::Responses | Dialect::Anthropic) => {
            Some(SchemaForm::Strict)
        }
        (EnforcedSchema::Auto, Dialect::Openai) => is_strict_host(&model.base_url).then_some(SchemaForm::Strict),
    }
}

fn is_strict_host(base_url: &str) -> bool {
    let url = Url::parse(base_url).ok();
    let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
    let is_below =
        |known: &&str| host.strip_suffix(*known).is_some_and(|rest| rest.is_empty() || rest.ends_with(['.', '-']));
    STRICT_HOSTS.iter().any(is_below)
}

/// The form of a server by its list of models. A server that does not name itself may be a gateway, which passes schemas
/// on: it gets the strict form, which is bounded.
pub fn named_form(models: &Value, wire_name: &str) -> SchemaForm {
    let listed: Vec<&Value> = models.get("data").and_then(Value::as_array).into_iter().flatten().collect();
    let own: Vec<&Value> = listed.iter().filter(|model| model["id"] == wire_name).copied().collect();
    let asked = if own.is_empty() { listed } else { own };
    let has_grammar = |model: &&Value| model["owned_by"].as_str().is_some_and(|owner| GRAMMAR_OWNERS.contains(&owner));
    let is_grammar = !asked.is_empty() && asked.iter().all(has_grammar);
    if is_grammar { SchemaForm::Grammar } else { SchemaForm::Strict }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_form_follows_from_settings_dialect_and_host() {
        let form = |url: &str, dialect, schema| {
            known_form(&ModelSettings { base_url: url.into(), dialect, schema, ..ModelSettings::default() })
        };
        let auto = |url: &str| form(url, Dialect::Openai, EnforcedSchema::Auto);
        for (url, known) in [
            ("https://api.openai.com/v1", true),
            ("https://mine.openai.azure.com/openai/v1", true),
            ("https://eu-aiplatform.googleapis.com:443/v1", true),
            ("http://127.0.0.1:8080/v1", false),
            ("https://api.openai.com.example.org/v1", false),
            ("https://notapi.openai.com/v1", false),
            ("https://example.org/api.openai.com", false),
        ] {
            assert_eq!(auto(url), known.then_some(SchemaForm::Strict), "{url}");
        }
        let local = "http://127.0.0.1:11434";
        assert_eq!(form(local, Dialect::Ollama, EnforcedSchema::Auto), Some(SchemaForm::Grammar));
        assert_eq!(form(local, Dialect::Openai, EnforcedSchema::Strict), Some(SchemaForm::Strict));
        let openai = "https://api.openai.com/v1";
        assert_eq!(form(openai, Dialect::Openai, EnforcedSchema::Grammar), Some(SchemaForm::Grammar));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_found_holds_and_silence_holds_for_a_while() {
        let forms = EndpointForms::default();
        forms.insert("a", SchemaForm::Grammar, None);
        forms.insert("b", SchemaForm::Strict, Some(SILENCE));
        let found = || ["a", "b", "c"].map(|base_url| forms.get(base_url));
        assert_eq!(found(), [Some(SchemaForm::Grammar), Some(SchemaForm::Strict), None]);
        tokio::time::advance(SILENCE).await;
        assert_eq!(found(), [Some(SchemaForm::Grammar), None, None]);
    }

    #[test]
    fn a_server_names_itself_in_its_list_of_models() {
        let list = |models: &[(&str, &str)]| {
            let models: Vec<Value> = models.iter().map(|(id, owner)| json!({"id": id, "owned_by": owner})).collect();
            json!({ "data": models })
        };
        assert_eq!(named_form(&list(&[("m.gguf", "llamacpp")]), "any"), SchemaForm::Grammar);
        assert_eq!(named_form(&list(&[("a", "openai"), ("m", "vllm")]), "m"), SchemaForm::Grammar);
        assert_eq!(named_form(&list(&[("a", "openai"), ("b", "vllm")]), "m"), SchemaForm::Strict);
        assert_eq!(named_form(&list(&[("claude", "openai")]), "claude"), SchemaForm::Strict);
        assert_eq!(named_form(&json!({"error": "no"}), "m"), SchemaForm::Strict);
    }
}
