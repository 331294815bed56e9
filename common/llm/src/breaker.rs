//! Leaves a model alone that fails again and again. Pure: the caller has the clock.
//!
//! ```text
//! closed ── failures_max in a row ─▶ open ── open_ms ─▶ half-open: one call tries
//!    ▲                                ▲                      │
//!    └──────────── success ───────────┼──────────────────────┤
//!                                     └────── failure ───────┘
//! ```

/// What a model's failures have come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breaker {
    failures: u32,
    open_until_ms: Option<u64>,
    is_trying: bool,
    /// The server asked for silence until then.
    rest_until_ms: u64,
}

/// Leave for one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Call,
    /// The one call that tries whether the model is well again.
    Trial,
}

/// Why no call may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// It failed too often in a row.
    Failing { for_ms: u64 },
    /// A trial is under way.
    Trying,
    /// It asked for silence.
    Asked { for_ms: u64 },
}

impl Breaker {
    /// Asks for leave to call.
    pub fn admit(&mut self, now_ms: u64) -> Result<Admission, Closed> {
        self.check(now_ms)?;
        if self.open_until_ms.is_some() {
            self.is_trying = true;
            return Ok(Admission::Trial);
        }
        Ok(Admission::Call)
    }

    /// The same without taking the trial.
    pub fn check(&self, now_ms: u64) -> Result<(), Closed> {
        if now_ms < self.rest_until_ms {
            return Err(Closed::Asked { for_ms: self.rest_until_ms - now_ms });
        }
        match self.open_until_ms {
            Some(until) if now_ms < until => Err(Closed::Failing { for_ms: until - now_ms }),
            Some(_) if self.is_trying => Err(Closed::Trying),
            Some(_) | None => Ok(()),
        }
    }

    pub fn is_open(&self) -> bool {
        self.open_until_ms.is_some()
    }

    /// The model answered, be it with a refusal.
    pub fn succeed(&mut self) {
        *self = Self { rest_until_ms: self.rest_until_ms, ..Self::default() };
    }

    pub fn fail(&mut self, now_ms: u64, failures_max: u32, open_ms: u64) {
        self.failures = self.failures.saturating_add(1);
        self.is_trying = false;
        if self.failures >= failures_max || self.open_until_ms.is_some() {
            self.open_until_ms = Some(now_ms.saturating_add(open_ms));
        }
    }

    /// The server asks for silence.
    pub fn rest(&mut self, until_ms: u64) {
        self.rest_until_ms = self.rest_until_ms.max(until_ms);
    }

    /// The trial ended without a verdict.
    pub fn let_go(&mut self) {
        self.is_trying = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_after_failures_in_a_row_and_one_call_tries() {
        let mut breaker = Breaker::default();
        (0..2).for_each(|_| breaker.fail(0, 3, 100));
        breaker.succeed();
        (0..2).for_each(|_| breaker.fail(0, 3, 100));
        assert_eq!(breaker.admit(0), Ok(Admission::Call));
        breaker.fail(10, 3, 100);
        assert_eq!(breaker.admit(50), Err(Closed::Failing { for_ms: 60 }));
        assert_eq!(breaker.admit(110), Ok(Admission::Trial));
        assert_eq!(breaker.admit(110), Err(Closed::Trying));
        breaker.fail(120, 3, 100);
        assert_eq!(breaker.admit(219), Err(Closed::Failing { for_ms: 1 }));
        assert_eq!(breaker.admit(220), Ok(Admission::Trial));
        breaker.succeed();
        assert_eq!((breaker.admit(220), breaker.is_open()), (Ok(Admission::Call), false));
    }

    #[test]
    fn a_trial_without_a_verdict_leaves_room_for_another() {
        let mut breaker = Breaker::default();
        breaker.fail(0, 1, 10);
        assert_eq!(breaker.admit(10), Ok(Admission::Trial));
        breaker.let_go();
        assert_eq!(breaker.admit(10), Ok(Admission::Trial));
    }

    #[test]
    fn a_model_that_asks_for_silence_gets_it() {
        let mut breaker = Breaker::default();
        breaker.rest(50);
        breaker.rest(20);
        breaker.succeed();
        assert_eq!(breaker.admit(49), Err(Closed::Asked { for_ms: 1 }));
        assert_eq!(breaker.admit(50), Ok(Admission::Call));
    }
}
