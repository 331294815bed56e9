//! Protections that a simulation switches off one by one, to see that it would notice.
//!
//! Without the feature `mutants`, which no shipped program has, none of this is compiled and nothing can be off.

/// A protection that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Reports count for whatever attempt is in flight, whichever they are about.
    AnyAttempt,
    /// A step becomes ready without an event.
    SilentReady,
    /// An attempt that runs is never given up.
    NoRunDeadline,
    /// Any number of steps may be in flight.
    NoLimit,
    /// The engine panics in the middle of its work when a step called `unlucky` becomes ready.
    Panics,
}

#[cfg(feature = "mutants")]
thread_local! {
    static ON: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Removes one protection, or none, on this thread.
#[cfg(feature = "mutants")]
pub fn switch(mutant: Option<Mutant>) {
    ON.set(mutant);
}

#[cfg(feature = "mutants")]
pub(crate) fn is_on(mutant: Mutant) -> bool {
    ON.get() == Some(mutant)
}

#[cfg(not(feature = "mutants"))]
pub(crate) const fn is_on(_: Mutant) -> bool {
    false
}

/// Kills the process, or makes it hang, when a step with one of three names becomes ready: for tests of what protects
/// the other plans from such a plan.
#[cfg(feature = "mutants")]
pub(crate) fn strike(step: &str) {
    match step {
        "abort-here" => std::process::abort(),
        "hang-here" => loop {
            std::hint::spin_loop();
        },
        "exhaust-memory-here" => {
            let mut all: Vec<Vec<u8>> = Vec::new();
            loop {
                all.push(vec![1; 64 << 20]);
            }
        }
        _ => {}
    }
}

#[cfg(not(feature = "mutants"))]
pub(crate) const fn strike(_: &str) {}
