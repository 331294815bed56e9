//! How far the dependencies of a step are.

/// The dependencies of a step that are open, and those that are satisfied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenDependencies {
    open: u32,
    met: u32,
}

/// Whether the join of a step is satisfied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinState {
    Open,
    Met,
    /// It can never be met.
    Impossible,
}

impl OpenDependencies {
    pub(crate) fn new(open: u32, met: u32) -> Self {
        Self { open, met }
    }

    /// One has ended.
    pub(crate) fn end(&mut self, is_met: bool) {
        self.open = self.open.saturating_sub(1);
        self.met += u32::from(is_met);
    }

    /// Those that are not final.
    pub(crate) fn open(self) -> u32 {
        self.open
    }

    /// How many more must be satisfied of those that are needed.
    pub(crate) fn missing(self, needed: u32) -> u32 {
        needed.saturating_sub(self.met)
    }

    /// Whether those that are needed are satisfied.
    pub(crate) fn join(self, needed: u32) -> JoinState {
        match self.missing(needed) {
            0 => JoinState::Met,
            missing if missing > self.open => JoinState::Impossible,
            _ => JoinState::Open,
        }
    }
}
