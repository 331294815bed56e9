//! Stored payloads that were read recently: many steps may read the same one.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use goalmill_engine::Payload;

/// Bytes of payloads that are kept, as JSON text: many steps may read the same one.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// Payloads that were loaded recently, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct PayloadCache(Mutex<VecDeque<(String, Payload)>>);

impl PayloadCache {
    pub(crate) fn get(&self, key: &str) -> Option<Payload> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(known, _)| known == key).map(|(_, payload)| payload.clone())
    }

    pub(crate) fn add(&self, key: &str, payload: &Payload) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back((key.to_owned(), payload.clone()));
        while kept.iter().map(|(_, payload)| payload.bytes()).sum::<usize>() > KEPT_BYTES_MAX {
            kept.pop_front();
        }
    }
}
