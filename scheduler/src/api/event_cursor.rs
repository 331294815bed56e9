//! The cursor of a search for events: the beginning of its next page.

use goalmill_archive::EventPosition;
use goalmill_common::id::{PlanId, is_id};

use super::archived_events;

/// Where the next page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PageCursor {
    /// In the store.
    Live(SearchCursor),
    /// Before this event of the archive; all newer events were given.
    Older(EventPosition),
}

impl PageCursor {
    pub fn from_text(text: &str) -> Option<Self> {
        let older = archived_events::read_cursor(text).map(Self::Older);
        older.or_else(|| SearchCursor::from_text(text).map(Self::Live))
    }

    pub fn write(&self) -> String {
        match self {
            Self::Live(cursor) => cursor.write(),
            Self::Older(position) => archived_events::write_cursor(position),
        }
    }

    pub fn plan(&self) -> &PlanId {
        match self {
            Self::Live(cursor) => &cursor.plan,
            Self::Older(position) => &position.plan,
        }
    }
}

/// The plan to continue with and the position in its log; plans that changed earlier follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SearchCursor {
    pub(super) changed_ms: u64,
    pub(super) plan: PlanId,
    /// Events after this one were read.
    pub(super) end: u64,
}

impl SearchCursor {
    pub fn from_text(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let cursor = Self {
            changed_ms: parts.next()?.parse().ok()?,
            plan: parts.next().filter(|plan| is_id(plan))?.into(),
            end: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(cursor)
    }

    pub fn write(&self) -> String {
        format!("{}:{}:{}", self.changed_ms, self.plan, self.end)
    }
}

/// The plans from the cursor on, its own first.
pub(super) fn after(mut plans: Vec<(PlanId, u64)>, cursor: Option<&SearchCursor>) -> Vec<(PlanId, u64)> {
    plans.sort_by(|(a, at), (b, other)| (other, b).cmp(&(at, a)));
    let Some(cursor) = cursor else { return plans };
    plans.retain(|(plan, changed_ms)| *plan != cursor.plan && (*changed_ms, plan) < (cursor.changed_ms, &cursor.plan));
    plans.insert(0, (cursor.plan.clone(), cursor.changed_ms));
    plans
}
