//! Agents that ask a language model: executor `llm` and its tools.
//!
//! ```text
//! task ─▶ prompt ─▶ model ─▶ tool calls ─▶ results, marked as data ─┐      answer ─▶ validated ─▶ outputs
//!                     ▲  └────────────────────────────────────────────────▶ │  ▲
//!                     └──────────────────────────────────────────────┘      └──┘ bounded repair
//! ```
//!
//! The set of tools is fixed when the executor is built. Every call of a model or a tool goes through
//! [`goalmill_worker::executor::Calls`].

mod agent_loop;
mod answer_format;
mod answer_text;
mod builder;
mod llm_agent;
mod model_failure;
mod prompt;
mod settings;
mod shipped;
mod streamed_reply;
mod tools;
mod workspace_cleaner;

pub use agent_loop::written_calls;
pub use builder::{AgentBuilder, default_files_dir};
pub use shipped::{shipped_agents, shipped_cards};
pub use tools::mcp_executor;
