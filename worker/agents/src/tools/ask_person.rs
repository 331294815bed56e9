//! Tool `ask_person`: a person answers a question. The step waits for the answer without a worker.

use async_trait::async_trait;
use goalmill_common::call::{CallWait, CallWaitKind};
use goalmill_common::json::Json;
use goalmill_common::task::Task;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{AgentTool, text_of};

/// Maximum number of options.
const OPTIONS_MAX: usize = 20;

/// Fields of the tool in the settings.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct AskPersonSettings {
    /// How long a person has for the answer; the limit of the installation applies too.
    limit_seconds: u64,
}

impl Default for AskPersonSettings {
    fn default() -> Self {
        Self { limit_seconds: 24 * 3_600 }
    }
}

pub(super) struct AskPerson {
    limit_ms: u64,
}

impl AskPerson {
    pub fn new(settings: AskPersonSettings) -> Result<Self, String> {
        if settings.limit_seconds == 0 {
            return Err("`limit_seconds` must be above 0".into());
        }
        Ok(Self { limit_ms: settings.limit_seconds.saturating_mul(1_000) })
    }
}

#[async_trait]
impl AgentTool for AskPerson {
    fn name(&self) -> &'static str {
        "ask_person"
    }

    fn description(&self) -> &'static str {
        "Asks a person a question that only a person can decide, and waits for the answer, maybe for hours. Use it \
         rarely, and ask everything at once. With `options`, the answer is one of them; otherwise it is a text."
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "question": {"type": "string", "minLength": 1, "maxLength": 2_000},
                "options": {
                    "type": "array",
                    "items": {"type": "string", "minLength": 1, "maxLength": 200},
                    "minItems": 2,
                    "maxItems": OPTIONS_MAX
                }
            },
            "required": ["question"],
            "additionalProperties": false
        })
    }

    fn asks_person(&self) -> bool {
        true
    }

    fn question(&self, arguments: &Value) -> Option<CallWait> {
        let schema = if let Value::Array(options) = &arguments["options"] {
            json!({"enum": options})
        } else {
            json!({"type": "string"})
        };
        let wait = CallWait::new(CallWaitKind::Answer, text_of(arguments, "question"));
        Some(CallWait { schema: Some(Json::from_value(&schema)), limit_ms: Some(self.limit_ms), ..wait })
    }

    async fn run(&self, _: &Value, _: &Task) -> Result<Value, String> {
        Err("nobody can be asked here".into())
    }
}
