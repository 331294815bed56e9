//! Builds executors of kind `llm` from their settings.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use goalmill_common::agent::Agent;
use goalmill_common::clock::Clock;
use goalmill_common::config::ModelSettings;
use goalmill_common::id::AgentType;
use goalmill_common::random::Random;
use goalmill_llm::ModelRegistry;
use goalmill_worker::executor::Executor;
use serde::Deserialize;
use serde_json::Value;

use crate::answer_format::AnswerFormat;
use crate::llm_agent::LlmAgent;
use crate::prompt::SystemPrompt;
use crate::settings::AgentSettings;
use crate::tools::AgentTools;
use crate::workspace_cleaner::WorkspaceCleaner;

/// The directory of files if the settings name none.
pub fn default_files_dir() -> PathBuf {
    std::env::temp_dir().join("goalmill-files")
}

/// What all agents of a worker share.
#[derive(Clone)]
pub struct AgentBuilder {
    models: Arc<ModelRegistry>,
    files_dir: PathBuf,
    /// Milliseconds that files are kept after their last change; `None`: files are never removed.
    files_kept_ms: Option<u64>,
    /// Removes old files; started with the first agent.
    cleaner: Arc<OnceLock<Option<WorkspaceCleaner>>>,
    clock: Clock,
}

impl AgentBuilder {
    /// - `files_dir`: directory of the files of all plans; created with the first file.
    pub fn new(models: Arc<ModelRegistry>, files_dir: PathBuf, clock: Clock) -> Self {
        Self { models, files_dir, files_kept_ms: None, cleaner: Arc::default(), clock }
    }

    /// Removes the files of a plan `kept_ms` milliseconds after their last change, as long as an agent of this builder
    /// exists.
    ///
    /// - `kept_ms`: the sum of the longest life of a plan and its retention time.
    #[must_use]
    pub fn with_files_kept(self, kept_ms: u64) -> Self {
        Self { files_kept_ms: Some(kept_ms), ..self }
    }

    /// Creates the models of the settings; the error is a message for people.
    ///
    /// - `files_dir`: from the settings; empty for a directory among the temporary files.
    pub fn from_settings(
        models: &[ModelSettings],
        files_dir: &str,
        clock: &Clock,
        random: &Random,
    ) -> Result<Self, String> {
        let models = ModelRegistry::from_settings(models, clock.clone(), random.clone());
        let models = models.map_err(|error| error.to_string())?;
        let files_dir = if files_dir.is_empty() { default_files_dir() } else { PathBuf::from(files_dir) };
        Ok(Self::new(Arc::new(models), files_dir, clock.clone()))
    }

    /// Builds the executor of one agent type; the error is a message for people.
    ///
    /// - `value`: its entry in the settings, without `kind` and `card`.
    pub fn build(
        &self,
        agent_type: &AgentType,
        card: Option<&Agent>,
        value: &Value,
    ) -> Result<Arc<dyn Executor>, String> {
        let settings = AgentSettings::deserialize(value).map_err(|error| error.to_string())?;
        if let Some(violation) = settings.violation() {
            return Err(violation.into());
        }
        self.check_model(settings.model.as_deref())?;
        let actions = card.map(|card| card.actions.clone()).unwrap_or_default();
        let schemas =
            actions.iter().filter_map(|action| Some((action.name.as_str(), action.outputs.as_ref()?.value())));
        for (place, schema) in schemas.chain(settings.output_schema.clone().map(|schema| ("output_schema", schema))) {
            AnswerFormat::new(schema, &[]).map_err(|reason| format!("schema of `{place}`: {reason}"))?;
        }
        if let Some(kept_ms) = self.files_kept_ms {
            self.cleaner.get_or_init(|| WorkspaceCleaner::start(self.files_dir.clone(), kept_ms, self.clock.clone()));
        }
        Ok(Arc::new(LlmAgent {
            _cleaner: self.cleaner.clone(),
            models: self.models.clone(),
            clock: self.clock.clone(),
            system: SystemPrompt::parse(&settings.system)?.into(),
            tools: AgentTools::build(agent_type, &settings.tools, &settings.mcp, &self.files_dir)?,
            agent_type: agent_type.clone(),
            actions: actions.into(),
            settings: settings.into(),
        }))
    }

    fn check_model(&self, wanted: Option<&str>) -> Result<(), String> {
        let names = self.models.names();
        match wanted {
            _ if names.is_empty() => Err("no model is configured; add one under `models` in the settings".into()),
            Some(name) if !names.contains(&name) => {
                Err(format!("`model`: unknown model `{name}`; configured: {}", names.join(", ")))
            }
            Some(_) | None => Ok(()),
        }
    }
}
