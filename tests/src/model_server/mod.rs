//! A scripted model server for tests, and the models that are asked over it.

use std::sync::Arc;

use anyhow::Result;
use goalmill_common::clock::Clock;
use goalmill_common::config::{Dialect, ModelSettings};
use goalmill_common::random::Random;
use goalmill_demo::scripted::{Script, Scripted, ScriptedServer, Seen};
use goalmill_llm::{CompletionRequest, Message, ModelRegistry, ResponseFormat};

pub mod held;
pub mod quirks;

/// One scripted server.
pub struct ModelServer {
    server: ScriptedServer,
}

impl ModelServer {
    /// Gives these answers in their order.
    pub async fn says(answers: impl IntoIterator<Item = Scripted>) -> Result<Self> {
        Self::start(Script::new(answers)).await
    }

    pub async fn start(script: Script) -> Result<Self> {
        Ok(Self { server: ScriptedServer::start(script).await? })
    }

    /// A model that is this server, with short limits.
    pub fn settings(&self, name: &str, dialect: Dialect) -> ModelSettings {
        ModelSettings { retries: 0, ..self.server.settings(name, dialect) }
    }

    /// The model `one`, and nothing else.
    pub fn models(&self) -> Result<Arc<ModelRegistry>> {
        models(&[self.settings("one", Dialect::Openai)])
    }

    pub fn calls(&self) -> u64 {
        self.server.calls()
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.server.seen()
    }

    pub fn server(&self) -> &ScriptedServer {
        &self.server
    }
}

/// A registry with the system clock and seeded randomness.
pub fn models(settings: &[ModelSettings]) -> Result<Arc<ModelRegistry>> {
    Ok(Arc::new(ModelRegistry::from_settings(settings, Clock::system(), Random::seeded(7))?))
}

/// A request with one user message.
pub fn request(text: &str, format: ResponseFormat) -> CompletionRequest {
    CompletionRequest::new(vec![Message::user(text)], format)
}
