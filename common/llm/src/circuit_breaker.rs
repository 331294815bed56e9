//! Circuit breaker of one model. Pure: the caller passes the time.
//!
//! ```text
//! closed ── failures_max in a row ─▶ open ── open_ms ─▶ half-open: one probe call
//!    ▲                                ▲                      │
//!    └──────────── success ───────────┼──────────────────────┤
//!                                     └────── failure ───────┘
//! ```

/// State of the circuit and the end of a rate-limit pause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CircuitBreaker {
    failures: u32,
    open_until_ms: Option<u64>,
    is_probing: bool,
    /// No calls until then: the server sent `Retry-After`.
    paused_until_ms: u64,
}

/// Permission for one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Call,
    /// The single call of a half-open circuit.
    Probe,
}

/// Why no call is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// The circuit is open.
    CircuitOpen { for_ms: u64 },
    /// The circuit is half-open and its probe call is running.
    ProbeRunning,
    /// The server asked for a pause.
    RateLimited { for_ms: u64 },
}

impl CircuitBreaker {
    /// Admits a call; a half-open circuit admits one probe.
    pub fn admit(&mut self, now_ms: u64) -> Result<Admission, Unavailable> {
        self.check_available(now_ms)?;
        if self.open_until_ms.is_some() {
            self.is_probing = true;
            return Ok(Admission::Probe);
        }
        Ok(Admission::Call)
    }

    /// Like [`Self::admit`], but does not start a probe.
    pub fn check_available(&self, now_ms: u64) -> Result<(), Unavailable> {
        if now_ms < self.paused_until_ms {
            return Err(Unavailable::RateLimited { for_ms: self.paused_until_ms - now_ms });
        }
        match self.open_until_ms {
            Some(until) if now_ms < until => Err(Unavailable::CircuitOpen { for_ms: until - now_ms }),
            Some(_) if self.is_probing => Err(Unavailable::ProbeRunning),
            Some(_) | None => Ok(()),
        }
    }

    pub fn is_open(&self) -> bool {
        self.open_until_ms.is_some()
    }

    /// The model responded, possibly with a rejection.
    pub fn record_success(&mut self) {
        *self = Self { paused_until_ms: self.paused_until_ms, ..Self::default() };
    }

    pub fn record_failure(&mut self, now_ms: u64, failures_max: u32, open_ms: u64) {
        self.failures = self.failures.saturating_add(1);
        self.is_probing = false;
        if self.failures >= failures_max || self.open_until_ms.is_some() {
            self.open_until_ms = Some(now_ms.saturating_add(open_ms));
        }
    }

    /// Refuses calls until `until_ms`.
    pub fn pause(&mut self, until_ms: u64) {
        self.paused_until_ms = self.paused_until_ms.max(until_ms);
    }

    /// The probe ended without a result.
    pub fn release_probe(&mut self) {
        self.is_probing = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_after_consecutive_failures_and_admits_one_probe() {
        let mut breaker = CircuitBreaker::default();
        (0..2).for_each(|_| breaker.record_failure(0, 3, 100));
        breaker.record_success();
        (0..2).for_each(|_| breaker.record_failure(0, 3, 100));
        assert_eq!(breaker.admit(0), Ok(Admission::Call));
        breaker.record_failure(10, 3, 100);
        assert_eq!(breaker.admit(50), Err(Unavailable::CircuitOpen { for_ms: 60 }));
        assert_eq!(breaker.admit(110), Ok(Admission::Probe));
        assert_eq!(breaker.admit(110), Err(Unavailable::ProbeRunning));
        breaker.record_failure(120, 3, 100);
        assert_eq!(breaker.admit(219), Err(Unavailable::CircuitOpen { for_ms: 1 }));
        assert_eq!(breaker.admit(220), Ok(Admission::Probe));
        breaker.record_success();
        assert_eq!((breaker.admit(220), breaker.is_open()), (Ok(Admission::Call), false));
    }

    #[test]
    fn a_released_probe_admits_another() {
        let mut breaker = CircuitBreaker::default();
        breaker.record_failure(0, 1, 10);
        assert_eq!(breaker.admit(10), Ok(Admission::Probe));
        breaker.release_probe();
        assert_eq!(breaker.admit(10), Ok(Admission::Probe));
    }

    #[test]
    fn a_rate_limited_model_gets_no_calls() {
        let mut breaker = CircuitBreaker::default();
        breaker.pause(50);
        breaker.pause(20);
        breaker.record_success();
        assert_eq!(breaker.admit(49), Err(Unavailable::RateLimited { for_ms: 1 }));
        assert_eq!(breaker.admit(50), Ok(Admission::Call));
    }
}
