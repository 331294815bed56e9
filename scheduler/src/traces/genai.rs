//! Attribute names of calls to language models, and what they hold.
//!
//! Source: OpenTelemetry semantic conventions for generative AI, in development,
//! <https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/>: they still change, so only this file spells them.

use goalmill_common::config::ModelSettings;
use goalmill_common::event::ModelAnswered;
use opentelemetry::KeyValue;

use crate::model::Answer;

const OPERATION: &str = "gen_ai.operation.name";
const PROVIDER: &str = "gen_ai.provider.name";
const REQUEST_MODEL: &str = "gen_ai.request.model";
const RESPONSE_MODEL: &str = "gen_ai.response.model";
const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
const ERROR_TYPE: &str = "error.type";
const CHAT: &str = "chat";

/// What a call is told by: its span's name, `chat <model>`, and attributes.
pub(super) fn describe(answered: &ModelAnswered, models: &[ModelSettings]) -> (String, Vec<KeyValue>) {
    let mut attributes = vec![KeyValue::new(OPERATION, CHAT)];
    attributes.push(KeyValue::new("goalmill.cost_usd", answered.usage.cost));
    attributes.push(KeyValue::new("goalmill.tokens", integer(answered.usage.tokens)));
    if !answered.error.is_empty() {
        attributes.push(KeyValue::new(ERROR_TYPE, answered.error.clone()));
    }
    let answer = answered.answer.as_ref().and_then(|json| serde_json::from_str::<Answer>(json.text()).ok());
    let Some(answer) = answer else { return (CHAT.into(), attributes) };
    let settings = models.iter().find(|model| model.name == answer.model);
    let asked = settings.map(|model| model.model.clone()).filter(|name| !name.is_empty());
    let asked = asked.unwrap_or_else(|| answer.model.clone());
    if let Some(model) = settings {
        let provider = if model.provider.is_empty() { model.dialect.as_str() } else { &model.provider };
        attributes.push(KeyValue::new(PROVIDER, provider.to_owned()));
    }
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

/// Attributes have signed numbers.
fn integer(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
