//! Settings: defaults < file < `GOALMILL__…` environment < flags. The only place that reads the environment.

mod load;
mod settings;

pub use load::{Loaded, Origin, Override, SettingsError, environment, hide_password, load};
pub use settings::{
    ApiSettings, Gate, MetricsSettings, PlannerSettings, RedisSettings, RouterSettings, SchedulerSettings, Settings,
    WorkerSettings,
};
