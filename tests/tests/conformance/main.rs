//! The same answers from both back ends: one verb at a time, then random sequences, then with lost messages.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![expect(clippy::disallowed_methods, reason = "each wait that is begun keeps its handle, and is awaited")]

/// Makes a test of each scenario for each back end.
macro_rules! on_both_back_ends {
    ($($scenario:ident),+ $(,)?) => {
        mod in_memory {
            $(#[tokio::test]
            async fn $scenario() {
                super::$scenario(crate::stage::Stage::embedded().await).await;
            })+
        }
        mod over_redis {
            $(#[tokio::test]
            async fn $scenario() {
                super::$scenario(crate::stage::Stage::redis().await).await;
            })+
        }
    };
}

mod commits;
mod events;
mod installation;
mod lost_messages;
mod make;
mod ownership;
mod redis_keys;
mod registry;
mod sequences;
mod stage;
mod submissions;
mod tasks;
mod waiting;
