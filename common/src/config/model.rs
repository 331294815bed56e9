//! Settings of language models.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One language model behind one address.
///
/// A key is never written here: `api_key_env` names the environment variable that holds it, `api_key_file` the file, and
/// `api_key_command` the program that prints it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelSettings {
    /// Unique among the models; the label of metrics, and how plans tell which model made them.
    pub name: String,
    /// The server's name of the model; `name` when empty.
    pub model: String,
    /// Address with the version: `https://api.openai.com/v1`, `https://api.anthropic.com/v1`, `http://127.0.0.1:11434`.
    pub base_url: String,
    /// Environment variable that holds the key; no key is sent when empty.
    pub api_key_env: String,
    /// File that holds the key, for keys that another program renews; read again for every call.
    pub api_key_file: String,
    /// Program and arguments that print the key, for keys that expire, such as
    /// `["gcloud", "auth", "print-access-token"]`.
    pub api_key_command: Vec<String>,
    /// Milliseconds that a printed key is used; also renewed when the server answers 401.
    pub api_key_refresh_ms: u64,
    /// Header that carries the key; the dialect's own when empty (`authorization`, `x-api-key`).
    pub api_key_header: String,
    /// The API of the server.
    pub dialect: Dialect,
    /// The form of the schemas of answers, where the server enforces them.
    pub schema: EnforcedSchema,
    /// Parameters added to the address of every request, such as `api-version` of Azure.
    pub query: BTreeMap<String, String>,
    /// Headers added to every request.
    pub headers: BTreeMap<String, String>,
    /// Headers whose values are secret: the name of the header, and the environment variable that holds its value.
    pub headers_env: BTreeMap<String, String>,
    /// Fields merged into the body of every request: objects are merged, other values replace, `null` removes a field.
    pub body: Map<String, Value>,
    /// How much a reasoning model thinks, in the provider's word (`minimal`, `low`, `medium`, `high`); its default when
    /// empty.
    pub reasoning_effort: String,
    /// Label of metrics: who runs the server; the dialect when empty.
    pub provider: String,
    /// Tokens of prompt and answer together.
    pub context_tokens: u64,
    /// Tokens of one answer, unless a request says otherwise.
    pub output_tokens_max: u64,
    /// US dollars for a million tokens of prompt.
    pub input_usd_per_million: f64,
    /// US dollars for a million tokens of prompt that the server had cached; `input_usd_per_million` when unset.
    pub cached_usd_per_million: Option<f64>,
    /// US dollars for a million tokens of answer.
    pub output_usd_per_million: f64,
    /// What it is good for.
    pub tags: BTreeSet<ModelTag>,
    /// Most concurrent calls.
    pub concurrency: u32,
    /// Milliseconds to wait for a connection.
    pub connect_ms: u64,
    /// Milliseconds from the request to the first byte of a streamed answer.
    pub first_byte_ms: u64,
    /// Milliseconds between two pieces of an answer.
    pub idle_ms: u64,
    /// Milliseconds one call may take in all.
    pub call_ms: u64,
    /// Calls after the first one that failed in a way that may pass.
    pub retries: u32,
    /// A server may ask us to wait up to this many milliseconds; asked for more, another model is tried.
    pub retry_after_ms_max: u64,
    /// Failures in a row that open the model's circuit.
    pub breaker_failures: u32,
    /// Milliseconds that the circuit stays open, until one call tries the model again.
    pub breaker_open_ms: u64,
}

/// The APIs of model servers.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// Chat completions, as OpenAI and most others have them.
    #[default]
    Openai,
    /// OpenAI's responses, for models that chat completions do not serve.
    Responses,
    /// Anthropic's messages.
    Anthropic,
    /// Ollama's own chat.
    Ollama,
}

impl Dialect {
    /// The word used in settings and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::Responses => "responses",
            Self::Anthropic => "anthropic",
            Self::Ollama => "ollama",
        }
    }
}

/// Which form of a schema a server gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EnforcedSchema {
    /// As the host, the dialect or the server itself tells.
    #[default]
    Auto,
    /// With positions and patterns, for servers that turn a schema into a grammar.
    Grammar,
    /// Within the subset that hosted services document; also for gateways.
    Strict,
}

/// What a model is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelTag {
    /// Asked first.
    Cheap,
    /// Asked for repairs.
    Strong,
}

impl Default for ModelSettings {
    fn default() -> Self {
        Self {
            name: String::new(),
            model: String::new(),
            base_url: String::new(),
            api_key_env: String::new(),
            api_key_file: String::new(),
            api_key_command: Vec::new(),
            api_key_refresh_ms: 300_000,
            api_key_header: String::new(),
            dialect: Dialect::Openai,
            schema: EnforcedSchema::Auto,
            query: BTreeMap::new(),
            headers: BTreeMap::new(),
            headers_env: BTreeMap::new(),
            body: Map::new(),
            reasoning_effort: String::new(),
            provider: String::new(),
            context_tokens: 128_000,
            output_tokens_max: 4_096,
            input_usd_per_million: 0.0,
            cached_usd_per_million: None,
            output_usd_per_million: 0.0,
            tags: BTreeSet::new(),
            concurrency: 8,
            connect_ms: 5_000,
            first_byte_ms: 30_000,
            idle_ms: 20_000,
            call_ms: 60_000,
            retries: 2,
            retry_after_ms_max: 20_000,
            breaker_failures: 5,
            breaker_open_ms: 30_000,
        }
    }
}

impl ModelSettings {
    /// The server's name of the model.
    pub fn wire_name(&self) -> &str {
        if self.model.is_empty() { &self.name } else { &self.model }
    }

    /// The label of metrics for who runs the server.
    pub fn provider(&self) -> &str {
        if self.provider.is_empty() { self.dialect.as_str() } else { &self.provider }
    }
}

/// What does not hold among the models, as sentences that begin with the setting.
pub(super) fn violations(models: &[ModelSettings]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (at, model) in models.iter().enumerate() {
        let mut must = |holds: bool, text: &str| {
            if !holds {
                found.push(format!("`models.{at}` (`{}`): {text}", model.name));
            }
        };
        let host = model.base_url.strip_prefix("http://").or_else(|| model.base_url.strip_prefix("https://"));
        must(!model.name.is_empty(), "`name` must not be empty");
        must(seen.insert(&model.name), "`name` must be unique");
        must(host.is_some_and(|host| !host.is_empty()), "`base_url` must begin with `http://` or `https://`");
        must(
            !host.unwrap_or_default().contains(['@', '?']),
            "`base_url` must hold no key and no parameters: put the name of the environment variable that holds the key into \
             `api_key_env`, and parameters into `query`",
        );
        must(is_variable(&model.api_key_env), "`api_key_env` must be the name of an environment variable, not a key");
        let keys = [!model.api_key_env.is_empty(), !model.api_key_file.is_empty(), !model.api_key_command.is_empty()];
        must(
            keys.iter().filter(|given| **given).count() < 2,
            "only one of `api_key_env`, `api_key_file`, `api_key_command` may be set",
        );
        must(model.api_key_refresh_ms > 0, "`api_key_refresh_ms` must be above 0");
        for name in model.headers.keys().filter(|name| is_secret_header(name)) {
            let text = format!(
                "`headers.{name}` holds a secret: put it into an environment variable, and the name of the variable into \
                 `headers_env.{name}`"
            );
            must(false, &text);
        }
        for (name, variable) in &model.headers_env {
            let text = format!("`headers_env.{name}` must be the name of an environment variable, not a value");
            must(!variable.is_empty() && is_variable(variable), &text);
        }
        for field in OWN_FIELDS.iter().filter(|field| model.body.contains_key(**field)) {
            must(false, &format!("`body.{field}` is written by Goalmill"));
        }
        must(
            model.reasoning_effort.chars().all(|c| c.is_ascii_lowercase()),
            "`reasoning_effort` must be a word such as `low`",
        );
        must(model.output_tokens_max > 0, "`output_tokens_max` must be above 0");
        must(model.context_tokens > model.output_tokens_max, "`context_tokens` must be above `output_tokens_max`");
        let prices = [
            ("input", model.input_usd_per_million),
            ("cached", model.cached_usd_per_million.unwrap_or_default()),
            ("output", model.output_usd_per_million),
        ];
        for (name, price) in prices {
            must((0.0..=1e6).contains(&price), &format!("`{name}_usd_per_million` must be within 0 and 1000000"));
        }
        must(model.concurrency > 0, "`concurrency` must be above 0");
        must(model.breaker_failures > 0, "`breaker_failures` must be above 0");
        let limits = [model.connect_ms, model.first_byte_ms, model.idle_ms, model.call_ms];
        must(limits.iter().all(|ms| *ms > 0), "`connect_ms`, `first_byte_ms`, `idle_ms`, `call_ms` must be above 0");
    }
    found
}

/// Fields of a request that `body` may not replace: the answer could not be read.
const OWN_FIELDS: [&str; 4] = ["messages", "input", "tools", "stream"];

/// Whether a header carries a secret by its name.
fn is_secret_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("authorization") || name.contains("cookie") || name.ends_with("key") || name.ends_with("token")
}

/// Whether this can be the name of a variable; keys hold other characters, or are longer than any name.
fn is_variable(name: &str) -> bool {
    name.len() <= 64
        && name.chars().all(|c| c == '_' || c.is_ascii_uppercase() || c.is_ascii_digit())
        && !name.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    type Spoil = fn(&mut ModelSettings);

    #[test]
    fn what_does_not_hold_is_named_with_its_place() {
        let good =
            ModelSettings { name: "a".into(), base_url: "http://127.0.0.1:1/v1".into(), ..ModelSettings::default() };
        assert_eq!(violations(std::slice::from_ref(&good)), Vec::<String>::new());
        let cases: [(Spoil, &str); 11] = [
            (|m| m.base_url = "http://x/v1?api-version=1".into(), "into `query`"),
            (|m| (m.api_key_env, m.api_key_file) = ("K".into(), "k".into()), "only one of"),
            (|m| drop(m.headers.insert("X-Gateway-Key".into(), "v".into())), "`headers_env.X-Gateway-Key`"),
            (|m| drop(m.headers_env.insert("x-team".into(), "some value".into())), "`headers_env.x-team` must be"),
            (|m| drop(m.body.insert("tools".into(), Value::Null)), "`body.tools`"),
            (|m| m.name = String::new(), "`name`"),
            (|m| m.base_url = "ftp://x".into(), "`base_url` must begin"),
            (|m| m.base_url = "http://key@x/v1".into(), "must hold no key"),
            (|m| m.api_key_env = "sk-proj-123".into(), "not a key"),
            (|m| m.output_usd_per_million = f64::NAN, "`output_usd_per_million`"),
            (|m| m.context_tokens = 10, "`context_tokens`"),
        ];
        for (spoil, part) in cases {
            let mut model = good.clone();
            spoil(&mut model);
            let found = violations(&[good.clone(), ModelSettings { name: model.name.replace('a', "b"), ..model }]);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with("`models.1`") && found[0].contains(part), "{found:?}");
        }
        assert!(violations(&[good.clone(), good])[0].contains("unique"));
    }
}
