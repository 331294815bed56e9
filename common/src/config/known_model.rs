//! Well-known models, by their names: where they are, what they take, and what they cost.

use super::{Dialect, ModelSettings, environment};

/// A model in the price table.
struct KnownModel {
    name: &'static str,
    context_tokens: u64,
    /// US dollars for a million tokens of prompt and of answer: list prices of November 2025.
    usd_per_million: (f64, f64),
}

const fn known(name: &'static str, context_tokens: u64, input: f64, output: f64) -> KnownModel {
    KnownModel { name, context_tokens, usd_per_million: (input, output) }
}

const OPENAI: [KnownModel; 10] = [
    known("gpt-4.1-mini", 1_000_000, 0.40, 1.60),
    known("gpt-4.1", 1_000_000, 2.00, 8.00),
    known("gpt-4.1-nano", 1_000_000, 0.10, 0.40),
    known("gpt-4o", 128_000, 2.50, 10.00),
    known("gpt-4o-mini", 128_000, 0.15, 0.60),
    known("gpt-5", 400_000, 1.25, 10.00),
    known("gpt-5-mini", 400_000, 0.25, 2.00),
    known("gpt-5-nano", 400_000, 0.05, 0.40),
    known("o3", 200_000, 2.00, 8.00),
    known("o4-mini", 200_000, 1.10, 4.40),
];

const ANTHROPIC: [KnownModel; 5] = [
    known("claude-sonnet-4-5", 200_000, 3.00, 15.00),
    known("claude-haiku-4-5", 200_000, 1.00, 5.00),
    known("claude-opus-4-1", 200_000, 15.00, 75.00),
    known("claude-opus-4-5", 200_000, 5.00, 25.00),
    known("claude-3-5-haiku-latest", 200_000, 0.80, 4.00),
];

/// Prefix of names of models on an Ollama server.
const OLLAMA_PREFIX: &str = "ollama/";
const OLLAMA_URL: &str = "http://127.0.0.1:11434";
const OLLAMA_PORT: u16 = 11434;
const OLLAMA_CONTEXT_TOKENS: u64 = 32_768;
const OPENAI_URL: &str = "https://api.openai.com/v1";
const OPENAI_KEY: &str = "OPENAI_API_KEY";
const ANTHROPIC_URL: &str = "https://api.anthropic.com/v1";
const ANTHROPIC_KEY: &str = "ANTHROPIC_API_KEY";
const OWN_URL: &str = "GOALMILL_LLM_BASE_URL";
const OWN_MODEL: &str = "GOALMILL_LLM_MODEL";
const OWN_KEY: &str = "GOALMILL_LLM_API_KEY";

/// A variable of the environment by its name; empty counts as not set.
type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The model that the environment describes: `GOALMILL_LLM_MODEL`, else a default of OpenAI or Anthropic if their key is
/// set.
pub fn model_from_environment() -> Option<ModelSettings> {
    implied_model(&environment)
}

/// The model of this name, with its address from the name and the environment; the error is a message for people.
///
/// - `name`: a well-known name, any other of OpenAI (`gpt-…`) or Anthropic (`claude-…`), `ollama/NAME`, or with
///   `GOALMILL_LLM_BASE_URL` or `OLLAMA_HOST` any name of that server.
pub fn model_by_name(name: &str) -> Result<ModelSettings, String> {
    named_model(name, &environment)
}

fn implied_model(variable: Lookup<'_>) -> Option<ModelSettings> {
    if let Some(name) = variable(OWN_MODEL) {
        return Some(own_model(&name, variable));
    }
    let of = |key, models: &[KnownModel]| {
        variable(key).and_then(|_| named_model(models[0].name, &|name| (name == key).then(|| "set".into())).ok())
    };
    of(OPENAI_KEY, &OPENAI).or_else(|| of(ANTHROPIC_KEY, &ANTHROPIC))
}

fn named_model(name: &str, variable: Lookup<'_>) -> Result<ModelSettings, String> {
    if variable(OWN_URL).is_some() {
        return Ok(own_model(name, variable));
    }
    if let Some(model) = name.strip_prefix(OLLAMA_PREFIX) {
        return Ok(ollama_model(model, variable));
    }
    let is_openai =
        name.starts_with("gpt-") || (name.starts_with('o') && name[1..].starts_with(|c: char| c.is_ascii_digit()));
    let (base_url, key, dialect) = if is_openai {
        (OPENAI_URL, OPENAI_KEY, Dialect::Openai)
    } else if name.starts_with("claude-") {
        (ANTHROPIC_URL, ANTHROPIC_KEY, Dialect::Anthropic)
    } else if variable("OLLAMA_HOST").is_some() {
        return Ok(ollama_model(name, variable));
    } else {
        return Err(format!(
            "the server of model `{name}` is not known; write `ollama/{name}`, set `{OWN_URL}`, or describe it under \
             `models` in the settings"
        ));
    };
    if variable(key).is_none() {
        return Err(format!("model `{name}` needs a key; set the environment variable `{key}`"));
    }
    let known = OPENAI.iter().chain(&ANTHROPIC).find(|known| known.name == name);
    let mut model = ModelSettings {
        name: name.into(),
        base_url: base_url.into(),
        api_key_env: key.into(),
        dialect,
        ..ModelSettings::default()
    };
    if let Some(known) = known {
        model.context_tokens = known.context_tokens;
        (model.input_usd_per_million, model.output_usd_per_million) = known.usd_per_million;
    }
    Ok(model)
}

/// A model on the server that `GOALMILL_LLM_BASE_URL` names; OpenAI's without it.
fn own_model(name: &str, variable: Lookup<'_>) -> ModelSettings {
    ModelSettings {
        name: name.into(),
        base_url: variable(OWN_URL).unwrap_or_else(|| OPENAI_URL.into()),
        api_key_env: variable(OWN_KEY).map(|_| OWN_KEY.to_owned()).unwrap_or_default(),
        ..ModelSettings::default()
    }
}

fn ollama_model(name: &str, variable: Lookup<'_>) -> ModelSettings {
    ModelSettings {
        name: name.into(),
        base_url: variable("OLLAMA_HOST").map_or_else(|| OLLAMA_URL.into(), |host| ollama_url(&host)),
        dialect: Dialect::Ollama,
        context_tokens: OLLAMA_CONTEXT_TOKENS,
        concurrency: 1,
        ..ModelSettings::default()
    }
}

/// The address that `OLLAMA_HOST` means: a host, a host with a port, or an address.
fn ollama_url(host: &str) -> String {
    let host = host.trim_end_matches('/');
    if host.contains("://") {
        return host.into();
    }
    // A server that listens on all addresses is reached on this machine.
    let host = host.replace("0.0.0.0", "127.0.0.1");
    if host.contains(':') { format!("http://{host}") } else { format!("http://{host}:{OLLAMA_PORT}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::model::violations;

    fn with(variables: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<String> {
        move |name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn a_known_name_has_its_address_and_price() {
        let model = named_model("gpt-4o-mini", &with(&[("OPENAI_API_KEY", "k")])).expect("it is known");
        assert_eq!((model.base_url.as_str(), model.input_usd_per_million), ("https://api.openai.com/v1", 0.15));
        let model = named_model("claude-next", &with(&[("ANTHROPIC_API_KEY", "k")])).expect("its server is known");
        assert_eq!((model.dialect, model.api_key_env.as_str()), (Dialect::Anthropic, "ANTHROPIC_API_KEY"));
        let refused = named_model("gpt-4o", &with(&[])).expect_err("there is no key");
        assert!(refused.contains("OPENAI_API_KEY"), "{refused}");
        let refused = named_model("qwen3", &with(&[])).expect_err("its server is not known");
        assert!(refused.contains("ollama/qwen3") && refused.contains("GOALMILL_LLM_BASE_URL"), "{refused}");
    }

    #[test]
    fn a_server_of_ones_own_takes_any_name() {
        let url = |host: &'static str| ollama_url(host);
        assert_eq!(url("0.0.0.0:1234"), "http://127.0.0.1:1234");
        assert_eq!((url("box"), url("https://box/")), ("http://box:11434".into(), "https://box".into()));
        let model = named_model("ollama/qwen3:8b", &with(&[])).expect("it needs no key");
        assert_eq!((model.name.as_str(), model.base_url.as_str()), ("qwen3:8b", "http://127.0.0.1:11434"));
        assert_eq!(
            named_model("qwen3", &with(&[("OLLAMA_HOST", "box")])).expect("a host").base_url,
            "http://box:11434"
        );
        let own = with(&[("GOALMILL_LLM_BASE_URL", "http://127.0.0.1:1/v1")]);
        assert_eq!(named_model("gpt-4o", &own).expect("an address").api_key_env, "");
    }

    #[test]
    fn the_environment_implies_a_model() {
        let name = |variables| implied_model(&with(variables)).map(|model| model.name);
        assert_eq!(name(&[]), None);
        assert_eq!(name(&[("OLLAMA_HOST", "box")]), None, "its models are not known");
        assert_eq!(name(&[("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k")]), Some("gpt-4.1-mini".into()));
        assert_eq!(name(&[("ANTHROPIC_API_KEY", "k")]), Some("claude-sonnet-4-5".into()));
        assert_eq!(name(&[("GOALMILL_LLM_MODEL", "own"), ("OPENAI_API_KEY", "k")]), Some("own".into()));
    }

    #[test]
    fn every_known_model_has_valid_settings() {
        let keys = with(&[("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k")]);
        let models: Vec<ModelSettings> =
            OPENAI.iter().chain(&ANTHROPIC).map(|known| named_model(known.name, &keys).expect("it is known")).collect();
        assert_eq!(violations(&models), Vec::<String>::new());
        assert!(models.iter().all(|model| model.output_usd_per_million > model.input_usd_per_million));
    }
}
