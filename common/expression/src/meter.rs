//! Counts the work of expressions, over all that one caller evaluates together.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ExpressionError;

/// What evaluating a text takes besides what its length, values and filters take.
const TEXT_WORK: u64 = 300;
/// The same for a path, whose value is passed on.
const PATH_WORK: u64 = 60;
/// Bytes of seen values that are read with one unit of work.
const BYTES_A_UNIT: u64 = 4;

/// Operators whose work grows with their operands.
const LOOKS: [&str; 4] = [" in ", "==", "!=", "~"];

thread_local! {
    /// What the filters of the expression that runs on this thread may still use up.
    static FILTERS_LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// Work of expressions, in units of about 30 ns: a unit of fuel, or four bytes that are read. It limits itself once it is
/// given a limit.
///
/// It is no state of what holds it: all are equal, and a copy begins at 0, without a limit.
#[derive(Debug)]
pub struct WorkMeter {
    used: AtomicU64,
    max: AtomicU64,
}

impl Default for WorkMeter {
    fn default() -> Self {
        Self { used: AtomicU64::new(0), max: AtomicU64::new(u64::MAX) }
    }
}

impl Clone for WorkMeter {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for WorkMeter {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl WorkMeter {
    /// Begins to count from 0.
    ///
    /// - `max`: what is more fails the expression that would take it.
    pub fn begin(&self, max: u64) {
        self.used.store(0, Ordering::Relaxed);
        self.max.store(max, Ordering::Relaxed);
    }

    /// The work since the beginning or the last call, and begins to count again.
    pub fn take_used(&self) -> u64 {
        self.used.swap(0, Ordering::Relaxed)
    }

    fn left(&self) -> u64 {
        self.max.load(Ordering::Relaxed).saturating_sub(self.used.load(Ordering::Relaxed))
    }

    fn add(&self, work: u64) {
        let used = self.used.load(Ordering::Relaxed).saturating_add(work);
        self.used.store(used, Ordering::Relaxed);
    }
}

/// The meter of an evaluation, if there is one.
#[derive(Clone, Copy, Default)]
pub(crate) struct Metered<'a>(pub(crate) Option<&'a WorkMeter>);

impl Metered<'_> {
    /// Counts what it takes to read a text and the values that it sees.
    ///
    /// - `is_path`: whether the text is nothing but a path.
    pub(crate) fn count_text(self, text: &str, is_path: bool, bytes_seen: usize) -> Result<(), ExpressionError> {
        let Some(meter) = self.0 else { return Ok(()) };
        let (fixed, each, looks) = if is_path { (PATH_WORK, 1, 0) } else { (TEXT_WORK, 4, count_looks(text)) };
        let read = bytes_seen as u64 / BYTES_A_UNIT;
        let work = fixed + each * text.len() as u64 + read.saturating_mul(2 + looks) / 2;
        if work > meter.left() {
            meter.add(work);
            return Err(too_much());
        }
        meter.add(work);
        Ok(())
    }

    /// The fuel of an evaluation.
    pub(crate) fn fuel(self, fuel: u64) -> u64 {
        self.0.map_or(fuel, |meter| fuel.min(meter.left()).max(1))
    }

    /// Counts fuel.
    pub(crate) fn add(self, work: u64) {
        if let Some(meter) = self.0 {
            meter.add(work);
        }
    }

    /// Runs an evaluation, and counts what its filters take.
    pub(crate) fn evaluate_metered<T>(self, evaluate: impl FnOnce() -> T) -> T {
        let Some(meter) = self.0 else { return evaluate() };
        let left = meter.left();
        let _allowance = FilterAllowance::begin(left);
        let evaluated = evaluate();
        meter.add(left - FILTERS_LEFT.get());
        evaluated
    }
}

/// Operators of a text that may look at all that it sees.
fn count_looks(text: &str) -> u64 {
    LOOKS.iter().map(|operator| text.matches(operator).count() as u64).sum()
}

/// Limits the filters on this thread as long as it lives.
struct FilterAllowance;

impl FilterAllowance {
    fn begin(left: u64) -> Self {
        FILTERS_LEFT.set(left);
        Self
    }
}

impl Drop for FilterAllowance {
    fn drop(&mut self) {
        FILTERS_LEFT.set(u64::MAX);
    }
}

/// Takes the work of a filter off what the evaluation may use up; false when it does not fit.
pub(crate) fn spend_on_filter(work: u64) -> bool {
    let left = FILTERS_LEFT.get();
    FILTERS_LEFT.set(left.saturating_sub(if left == u64::MAX { 0 } else { work }));
    work <= left
}

pub(crate) fn too_much() -> ExpressionError {
    let message = "the expressions of one step take more work together than `limits.fuel_max` allows";
    ExpressionError::new("TEMPLATE_FUEL_EXHAUSTED", message)
}
