//! Talking to language models: which one is asked, how, for how long and for how much money.
//!
//! No planning here. A caller makes an [`Ask`] and gets an [`Answer`] from [`Models::complete`], or from
//! [`Models::stream`] a stream of [`Delta`]s with the answer at its end.
//!
//! ```text
//! ask ─▶ choose a model ─▶ rung of its ladder ─▶ leave (breaker) ─▶ reserve (purse) ─▶ call ─▶ settle ─▶ answer
//!             ▲                    ▲    ▲              retry: transient ─────────────────┤
//!             │                    │    └───── next rung: refused for its form ──────────┤
//!             └── next model ──────┴───────────────────── anything else ─────────────────┘
//! ```

mod answer;
mod ask;
mod breaker;
mod collect;
mod dialect;
mod error;
mod frames;
mod ladder;
mod message;
mod meter;
mod model;
mod models;
mod purse;
mod run;
mod secret;
mod select;
mod standing;
mod tally;
mod tokens;
mod usage;
mod wire;

pub use answer::{Answer, CallFragment, Delta, Finish, Raw, ServerError, Try};
pub use ask::{Ask, Purpose, Stage, Tool, ToolChoice, Want};
pub use error::{ModelError, Wait};
pub use ladder::Rung;
pub use message::{Message, ToolCall};
pub use model::Standing;
pub use models::{Deltas, ModelSetupError, Models};
pub use purse::{Allowance, Purse, Refused, Reservation, Spent};
pub use secret::Secret;
pub use standing::{Outcome, Rates};
pub use tokens::of_text as tokens_of;
pub use usage::{Price, SaidUsage, Usage, Usd};
pub use wire::install_tls;
