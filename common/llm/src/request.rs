//! Completion requests.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::answer_schema::AnswerSchema;
use crate::budget::SpendBudget;
use crate::message::Message;
use crate::progress_meter::ProgressMeter;

/// A request for one completion.
#[derive(Clone, Debug)]
pub struct CompletionRequest {
    pub messages: Vec<Message>,
    pub format: ResponseFormat,
    pub tier: ModelTier,
    pub purpose: Purpose,
    /// Use only this model (name in the settings).
    pub model: Option<String>,
    /// Try this model first (name in the settings).
    pub preferred_model: Option<String>,
    /// Models not to use, for example those that failed before.
    pub excluded_models: BTreeSet<String>,
    /// `None` is the server's default.
    pub temperature: Option<f64>,
    /// Limit of completion tokens; `None` is the model's setting.
    pub output_tokens_max: Option<u64>,
    /// Asks for a shorter completion when the budget has no room for the longest one.
    pub shorten_to_budget: bool,
    /// Requests a streamed response, so that a hanging server is detected early. [`crate::ModelRegistry::stream`]
    /// always does.
    pub stream: bool,
    /// Limit of the whole request over all models, in milliseconds; each call also has its model's limit.
    pub timeout_ms: Option<u64>,
    /// When the caller stops waiting. Divides the time among models; does not end a call by itself.
    pub deadline: Option<Instant>,
    /// Budget that the calls are charged to.
    pub budget: SpendBudget,
    /// Moves while the calls run; the responses are then streamed.
    pub progress: Option<ProgressMeter>,
    /// Cancels the request immediately.
    pub cancel: CancellationToken,
}

impl CompletionRequest {
    /// A request of tier `cheap`, not streamed, with an unlimited budget.
    pub fn new(messages: Vec<Message>, format: ResponseFormat) -> Self {
        Self {
            messages,
            format,
            tier: ModelTier::Cheap,
            purpose: Purpose::Plan,
            model: None,
            preferred_model: None,
            excluded_models: BTreeSet::new(),
            temperature: None,
            output_tokens_max: None,
            shorten_to_budget: false,
            stream: false,
            timeout_ms: None,
            deadline: None,
            budget: SpendBudget::unlimited(),
            progress: None,
            cancel: CancellationToken::new(),
        }
    }

    /// Whether the model of this name (in the settings) may be asked.
    pub fn may_use(&self, name: &str) -> bool {
        self.model.as_deref().is_none_or(|only| only == name) && !self.excluded_models.contains(name)
    }
}

/// The requested form of a completion. Tools and a schema exclude each other: a schema keeps models from calling
/// tools.
#[derive(Clone, Debug, PartialEq)]
pub enum ResponseFormat {
    Text,
    /// One JSON value. The caller validates it, because some servers accept schemas and ignore them.
    Json {
        /// Name of the schema and of the tool that replaces it: letters, digits, `_` and `-`.
        name: String,
        schema: AnswerSchema,
    },
    /// Tool calls. A server without tools gets them described in the prompt, in mode [`crate::ResponseMode::Text`];
    /// the model then writes calls between `<tool_call>` tags.
    Tools {
        tools: Vec<Tool>,
        choice: ToolChoice,
    },
}

/// A tool that the model may call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments (an object).
    pub parameters: Value,
}

/// Whether a tool must be called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model may respond with text.
    #[default]
    Auto,
    /// This tool must be called. Not `required`, which some servers reject although they accept a name.
    Named(String),
}

/// The group of models that is preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelTier {
    /// Models tagged `cheap`, the lowest cost of a usable completion first.
    Cheap,
    /// Models tagged `strong`, the most reliable first.
    Strong,
}

impl ModelTier {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cheap => "cheap",
            Self::Strong => "strong",
        }
    }
}

/// What the completion is for; a metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    Plan,
    Repair,
    Replan,
    Review,
    Embed,
    Step,
}

impl Purpose {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Repair => "repair",
            Self::Replan => "replan",
            Self::Review => "review",
            Self::Embed => "embed",
            Self::Step => "step",
        }
    }
}
