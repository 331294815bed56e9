//! Settings: defaults < file < `GOALMILL__…` environment < flags. The only place that reads the environment.

mod archive;
mod feature;
mod hook;
mod known_model;
mod llm;
mod load;
mod mcp;
mod model;
mod namespace_limits;
mod oidc;
mod secret;
mod settings;
mod tls;
mod weight;
mod without_effect;

pub use archive::{ArchiveKind, ArchiveSettings};
pub use feature::{Feature, FeatureMissing, OTLP_ENDPOINT, exports_traces};
pub use hook::{HookDefault, HookPoint, HookPoints, HookSettings};
pub use known_model::{model_by_name, model_from_environment};
pub use llm::{LlmSettings, PlanningStrategy, RetrieverSettings};
pub use load::{Loaded, Origin, Override, SettingsError, environment, load};
pub use mcp::{McpAccess, McpApiSettings};
pub use model::{Dialect, EnforcedSchema, ModelSettings, ModelTag};
pub use namespace_limits::{NamespaceSettings, namespace_settings};
pub use oidc::{OidcSettings, SignatureAlgorithm, is_private_url};
pub use secret::{hide_password, hide_secrets};
pub use settings::{
    ApiSettings, Authentication, EventSettings, Gate, GuessApproval, MetricsSettings, PlannerSettings, PolicySettings,
    RecordSettings, RedactSettings, RedisSettings, RouterSettings, SchedulerSettings, Settings, StoredPlanSettings,
    WorkerSettings,
};
pub use tls::TlsSettings;
pub use weight::{Weight, WeightSettings};
pub use without_effect::SettingWithoutEffect;
