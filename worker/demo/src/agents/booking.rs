//! `booking_agent`: an invented travel agency that keeps a book, so that it can be checked what is booked.
//!
//! Customers name their bookings. A booking that was cancelled cannot be made, also when the cancellation came first:
//! an order that was late is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use goalmill_common::agent::Agent;
use goalmill_common::failure::Failure;
use goalmill_common::json::Json;
use goalmill_common::task::Task;
use goalmill_worker::executor::{ExecutionResult, Executor, Progress};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{LATENCY_MS_MAX, Worked, card, chance, fault, number, permanent, text};

pub(super) const NAME: &str = "booking_agent";
const LATENCY_MS: u64 = 250;
/// Most entries of a book; further ones are refused.
const ENTRIES_MAX: usize = 10_000;
/// Longest reference, in bytes.
const REFERENCE_BYTES_MAX: usize = 200;

/// One line of the book.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BookEntry {
    /// Idempotency key of the order; none when only the cancellation came.
    pub booked_by: Option<String>,
    /// Idempotency keys of the requests to cancel it.
    pub cancelled_by: BTreeSet<String>,
}

impl BookEntry {
    /// Whether it is booked and not cancelled.
    pub fn is_booked(&self) -> bool {
        self.booked_by.is_some() && self.cancelled_by.is_empty()
    }
}

/// The entries by reference.
#[derive(Clone, Debug, Default)]
pub struct Book(Arc<Mutex<BTreeMap<String, BookEntry>>>);

impl Book {
    /// The entries whose references begin with `prefix`.
    pub fn entries(&self, prefix: &str) -> BTreeMap<String, BookEntry> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.iter().filter(|(r, _)| r.starts_with(prefix)).map(|(r, entry)| (r.clone(), entry.clone())).collect()
    }

    /// Changes one entry, which is new and empty if there was none.
    fn change<T>(
        &self,
        reference: &str,
        change: impl FnOnce(&mut BookEntry) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= ENTRIES_MAX && !entries.contains_key(reference) {
            return Err(permanent("BOOK_FULL", format!("the book has {ENTRIES_MAX} entries: start another demo")));
        }
        change(entries.entry(reference.to_owned()).or_default())
    }

    fn book(&self, inputs: &Value, key: &str) -> Worked {
        let reference = reference(inputs)?;
        self.change(reference, |entry| {
            if !entry.cancelled_by.is_empty() {
                return Err(permanent("BOOKING_CANCELLED", format!("`{reference}` was cancelled")));
            }
            if entry.booked_by.as_deref().is_some_and(|by| by != key) {
                return Err(permanent("ALREADY_BOOKED", format!("`{reference}` is booked by another order")));
            }
            entry.booked_by = Some(key.to_owned());
            Ok(())
        })?;
        let offer = &inputs["offer"];
        let name = text(offer, &["name"]).unwrap_or("booking");
        let mut outputs = json!({"reference": reference, "summary": format!("{name} booked as {reference}")});
        if let Some(price) = number(offer, &["price"]) {
            outputs["total"] = price.into();
            outputs["currency"] = "USD".into();
        }
        Ok(outputs)
    }

    fn cancel(&self, inputs: &Value, key: &str) -> Worked {
        let reference = reference(inputs)?;
        let was_booked = self.change(reference, |entry| {
            entry.cancelled_by.insert(key.to_owned());
            if entry.cancelled_by.len() > 1 {
                return Err(permanent("ALREADY_CANCELLED", format!("`{reference}` was cancelled by another request")));
            }
            Ok(entry.booked_by.is_some())
        })?;
        let summary = if was_booked { "cancelled" } else { "was not booked" };
        Ok(json!({"reference": reference, "was_booked": was_booked, "summary": format!("{reference} {summary}")}))
    }

    fn list(&self, inputs: &Value) -> Worked {
        let trip = text(inputs, &["trip"]).ok_or_else(|| permanent("INPUT_INVALID", "`trip` is missing"))?;
        let entries = self.entries(trip);
        let booked: Vec<&String> = entries.iter().filter(|(_, e)| e.is_booked()).map(|(r, _)| r).collect();
        let cancelled = entries.values().filter(|entry| !entry.cancelled_by.is_empty()).count();
        let end = text(inputs, &["text"]).map(|text| format!("{text}; ")).unwrap_or_default();
        let summary = format!("{end}{} booked, {cancelled} cancelled", booked.len());
        Ok(json!({"booked": booked, "cancelled": cancelled, "summary": summary}))
    }
}

/// Serves one book.
#[derive(Default)]
pub(super) struct BookingAgent(pub Book);

impl BookingAgent {
    fn work(&self, action: &str, inputs: &Value, key: &str) -> Worked {
        match action {
            "open" => Ok(open(inputs, key)),
            "search" => Ok(search(inputs)),
            "book" => self.0.book(inputs, key),
            "cancel" => self.0.cancel(inputs, key),
            "charge" => charge(inputs),
            "list" => self.0.list(inputs),
            other => Err(permanent(
                "UNKNOWN_ACTION",
                format!("there is no action `{other}`, there are open, search, book, cancel, charge, list"),
            )),
        }
    }
}

#[async_trait]
impl Executor for BookingAgent {
    /// The book changes at the beginning, so that a worker that is lost later has done it.
    async fn execute(&self, task: &Task, _: &Progress, _: &CancellationToken) -> Result<ExecutionResult, Failure> {
        let inputs = task.inputs.value();
        fault::refuse(NAME, &inputs)?;
        let outputs = self.work(&task.action, &inputs, &task.idempotency_key)?;
        let latency_ms = inputs["latency_ms"].as_u64().unwrap_or(LATENCY_MS).min(LATENCY_MS_MAX);
        tokio::time::sleep(Duration::from_millis(latency_ms)).await;
        Ok(ExecutionResult::new(Json::from(outputs)))
    }

    fn card(&self) -> Option<Agent> {
        card(NAME)
    }

    fn gives_way(&self) -> bool {
        true
    }
}

fn reference(inputs: &Value) -> Result<&str, Failure> {
    let reference = text(inputs, &["reference"]).filter(|reference| reference.len() <= REFERENCE_BYTES_MAX);
    let message = format!("`reference` must be a text of 1 to {REFERENCE_BYTES_MAX} bytes");
    reference.ok_or_else(|| permanent("INPUT_INVALID", message))
}

/// A name for a trip: the same for every attempt of the step.
fn open(inputs: &Value, key: &str) -> Value {
    let trip = format!("trip-{:04x}{:04x}", chance(key, u16::MAX), chance(&format!("trip {key}"), u16::MAX));
    json!({"summary": format!("{trip} opened"), "trip": trip, "cities": inputs["cities"]})
}

fn search(inputs: &Value) -> Value {
    let city = text(inputs, &["city"]).unwrap_or("Nowhere");
    let price = f64::from(90 + chance(city, 120));
    let name = format!("Hotel {city}");
    json!({"summary": name, "name": name, "city": city, "price": price, "total": price, "currency": "USD"})
}

fn charge(inputs: &Value) -> Worked {
    match text(&inputs["payment"], &["status"]) {
        Some("paid") => Ok(json!({"summary": "paid"})),
        status => {
            let status = status.unwrap_or("unknown");
            Err(permanent("PAYMENT_FAILED", format!("the payment is {status}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_booking_is_made_once_and_taken_back_once() {
        let agent = BookingAgent::default();
        let inputs = json!({"reference": "t-hotel", "offer": {"name": "Hotel Oslo", "price": 100}});
        let first = agent.work("book", &inputs, "p:hotel").expect("it is booked");
        assert_eq!(agent.work("book", &inputs, "p:hotel").expect("it is the same order"), first);
        assert_eq!(agent.work("book", &inputs, "q:hotel").expect_err("another order").code, "ALREADY_BOOKED");
        assert!(agent.0.entries("t-")["t-hotel"].is_booked());
        for _ in 0..2 {
            let cancelled = agent.work("cancel", &inputs, "p:hotel:undo").expect("it is cancelled");
            assert_eq!(cancelled["was_booked"], true);
        }
        assert_eq!(agent.work("cancel", &inputs, "other").expect_err("a second one").code, "ALREADY_CANCELLED");
        assert_eq!(agent.work("list", &json!({"trip": "t-"}), "").expect("a list")["booked"], json!([]));
    }

    #[test]
    fn an_order_that_comes_after_its_cancellation_is_refused() {
        let agent = BookingAgent::default();
        let inputs = json!({"reference": "late"});
        assert_eq!(agent.work("cancel", &inputs, "u").expect("there is nothing")["was_booked"], false);
        assert_eq!(agent.work("book", &inputs, "b").expect_err("it is late").code, "BOOKING_CANCELLED");
        assert!(!agent.0.entries("late")["late"].is_booked());
    }

    #[test]
    fn only_a_paid_payment_is_charged() {
        assert!(charge(&json!({"payment": {"status": "paid"}})).is_ok());
        let failure = charge(&json!({"payment": {"status": "declined"}})).expect_err("it is declined");
        assert_eq!((failure.code.as_str(), failure.message.as_str()), ("PAYMENT_FAILED", "the payment is declined"));
    }
}
