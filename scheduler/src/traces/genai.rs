//! Attribute names of calls to language models, and what they hold.
//!
//! Source: OpenTelemetry semantic conventions for generative AI, in development,
//! <https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/>: they still change, so only this file spells them.

use goalmill_common::config::ModelSettings;
use goalmill_common::event::ModelAnswered;
use goalmill_llm::Completion;
use opentelemetry::KeyValue;

use super::span::{ERROR_TYPE, cost, integer, tokens};

const OPERATION: &str = "gen_ai.operation.name";
const PROVIDER: &str = "gen_ai.provider.name";
const REQUEST_MODEL: &str = "gen_ai.request.model";
const RESPONSE_MODEL: &str = "gen_ai.response.model";
const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
const CHAT: &str = "chat";

/// What distinguishes a call: its span's name, `chat <model>`, and attributes.
pub(super) fn describe(answered: &ModelAnswered, models: &[ModelSettings]) -> (String, Vec<KeyValue>) {
    let usage = answered.usage;
    let mut attributes = vec![KeyValue::new(OPERATION, CHAT), cost(usage.cost), tokens(usage.tokens)];
    if !answered.error.is_empty() {
        attributes.push(KeyValue::new(ERROR_TYPE, answered.error.clone()));
    }
    let answer = answered.answer.as_ref().and_then(|json| serde_json::from_str::<Completion>(json.text()).ok());
    let Some(answer) = answer else { return (CHAT.into(), attributes) };
    let settings = models.iter().find(|model| model.name == answer.model);
    let asked = settings.map_or(answer.model.as_str(), ModelSettings::wire_name).to_owned();
    attributes.extend(settings.map(|model| KeyValue::new(PROVIDER, model.provider().to_owned())));
    if !answer.served_by.is_empty() {
        attributes.push(KeyValue::new(RESPONSE_MODEL, answer.served_by.clone()));
    }
    attributes.extend([
        KeyValue::new(REQUEST_MODEL, asked.clone()),
        KeyValue::new(INPUT_TOKENS, integer(answer.usage.input_tokens)),
        KeyValue::new(OUTPUT_TOKENS, integer(answer.usage.output_tokens)),
    ]);
    (format!("{CHAT} {asked}"), attributes)
}
