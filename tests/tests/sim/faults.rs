//! Kinds and rates of faults in one run: each seed switches on a few kinds only.

use crate::rng::Rng;

/// Kinds of trouble that one seed has; shares in thousandths of all calls.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// The call fails and nothing happens.
    pub lost_request: u64,
    /// It happens, and the call fails.
    pub lost_reply: u64,
    /// It happens twice.
    pub twice: u64,
    /// The call fails, and happens later.
    pub late: u64,
    /// It takes long.
    pub slow: u64,
    pub pauses: bool,
    pub kills: bool,
    /// Processes end in an orderly way and are replaced.
    pub restarts: bool,
    /// The server loses its last writes.
    pub turns_back: bool,
    /// A worker of somebody else takes tasks, shows life and never reports an outcome.
    pub rogue: bool,
    /// Old messages come again, and some that mean nothing.
    pub noise: bool,
    /// People pause, resume and cancel.
    pub people: bool,
    /// The clocks of processes are wrong.
    pub clocks: bool,
}

/// What happens to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Well,
    LostRequest,
    LostReply,
    Twice,
    /// So many milliseconds later.
    Late(u64),
}

impl Faults {
    pub fn draw(rng: &Rng) -> Self {
        let share = || if rng.permille(450) { rng.between(2, 40) } else { 0 };
        let often = |n| rng.permille(n);
        Self {
            lost_request: share(),
            lost_reply: share(),
            twice: share(),
            late: share(),
            slow: share(),
            pauses: often(500),
            kills: often(450),
            restarts: often(350),
            turns_back: often(250),
            rogue: often(200),
            noise: often(400),
            people: often(400),
            clocks: false,
        }
    }

    pub fn fate(&self, rng: &Rng) -> Fate {
        let drawn = rng.between(0, 999);
        let late_ms = rng.between(1, 4_000);
        let mut edge = 0;
        for (share, fate) in [
            (self.lost_request, Fate::LostRequest),
            (self.lost_reply, Fate::LostReply),
            (self.twice, Fate::Twice),
            (self.late, Fate::Late(late_ms)),
        ] {
            edge += share;
            if drawn < edge {
                return fate;
            }
        }
        Fate::Well
    }

    /// Milliseconds on the way.
    pub fn delay_ms(&self, rng: &Rng) -> u64 {
        let drawn = rng.between(0, 999);
        let slow = rng.between(50, 3_000);
        match drawn {
            n if n < self.slow => slow,
            n if n < 250 => 1 + n % 3,
            _ => 0,
        }
    }
}
