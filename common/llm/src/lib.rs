//! Clients of language models: model selection, fallback modes, retries, timeouts and spend limits.
//!
//! This package does no planning. [`ModelRegistry::complete`] takes a [`CompletionRequest`] and returns a
//! [`Completion`]; [`ModelRegistry::stream`] returns a stream of [`CompletionDelta`]s that ends with the completion.
//!
//! ```text
//! request ─▶ select model ─▶ response mode ─▶ circuit breaker ─▶ reserve budget ─▶ call ─▶ settle ─▶ completion
//!                ▲               ▲    ▲               retry: transient error ────────┤
//!                │               │    └── next mode: response format rejected ───────┤
//!                └── next model ─┴────────────────── any other error ────────────────┘
//! ```

mod answer_schema;
mod api_key;
mod budget;
mod call_metrics;
mod call_runner;
mod circuit_breaker;
mod completion;
mod completion_delta;
mod delta_collector;
mod document_client;
mod endpoint;
mod error;
mod fallback_modes;
mod frames;
mod key_source;
mod message;
mod model;
mod model_rates;
mod model_registry;
mod model_selector;
mod progress_meter;
mod provider;
mod provider_client;
mod request;
mod response_mode;
mod token_estimate;
mod usage;
mod usage_meter;

pub use answer_schema::{AnswerSchema, SchemaForm};
pub use api_key::ApiKey;
pub use budget::{BudgetExceeded, Reservation, SpendBudget, SpendLimit, Spending};
pub use completion::{CallAttempt, Completion, FinishReason, RawResponse};
pub use completion_delta::{CompletionDelta, ServerError, ToolCallFragment};
pub use document_client::DocumentClient;
pub use error::{ModelError, WaitPhase};
pub use message::{Message, ProviderFields, ToolCall};
pub use model::ModelStats;
pub use model_rates::{CompletionOutcome, ModelRates};
pub use model_registry::{CompletionStream, ModelRegistry, ModelSetupError};
pub use progress_meter::{CallProgress, ProgressMeter};
pub use request::{CompletionRequest, ModelTier, Purpose, ResponseFormat, Tool, ToolChoice};
pub use response_mode::ResponseMode;
pub use token_estimate::estimate_tokens;
pub use usage::{ReportedUsage, TokenPrice, TokenUsage, Usd};
