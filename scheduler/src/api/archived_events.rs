//! Searches the events of archived plans, and merges them with those of the store.

use std::collections::BTreeSet;

use goalmill_archive::{ArchiveStore, ArchivedEvent, EventPosition, EventSearch};
use goalmill_common::event::Record;
use goalmill_common::id::{PlanId, is_id};
use goalmill_common::problem::{ErrorCode, Problem};

use super::response::ApiError;

/// What a cursor of the archive begins with.
const OLDER: &str = "older";
/// Events that are read in one call, to be checked.
const CHECKED: usize = 500;

/// Events that were found, and the position from which older ones of the archive follow.
pub(super) struct FoundEvents {
    pub(super) events: Vec<(PlanId, Record)>,
    pub(super) older: Option<EventPosition>,
}

/// The newest archived events that match, at most `limit`, newest first.
///
/// - `read_max`: events that are read; then `older` says where the next request continues.
pub(super) async fn search(
    archive: &dyn ArchiveStore,
    mut search: EventSearch,
    limit: usize,
    read_max: u64,
    matches: impl Fn(&Record) -> bool,
) -> Result<FoundEvents, ApiError> {
    let (mut events, mut read) = (Vec::new(), 0);
    // Not all that is found for conditions fits.
    let asked = if search.conditions.is_empty() { limit } else { limit.max(CHECKED) };
    loop {
        let page = archive.search(&search, asked).await.map_err(|error| {
            let detail = format!("events of finished plans cannot be searched: {error}");
            Problem::new(ErrorCode::StoreUnavailable, detail)
        })?;
        let is_last = page.len() < asked;
        for ArchivedEvent { position, line, .. } in page {
            read += 1;
            search.before = Some(position.clone());
            // An event of a later version is left out.
            let Ok(record) = Record::from_line(&line) else { continue };
            if matches(&record) {
                events.push((position.plan, record));
            }
            if events.len() >= limit {
                return Ok(FoundEvents { events, older: search.before });
            }
        }
        if is_last {
            return Ok(FoundEvents { events, older: None });
        }
        if read >= read_max {
            return Ok(FoundEvents { events, older: search.before });
        }
    }
}

/// The newest `limit` events of both, oldest first. A plan is in both from its end until it expires.
pub(super) fn merge(live: Vec<(PlanId, Record)>, archived: FoundEvents, limit: usize) -> FoundEvents {
    let FoundEvents { mut events, mut older } = archived;
    events.splice(0..0, live);
    let position = |(plan, record): &(PlanId, Record)| EventPosition {
        time_ms: record.time_ms,
        plan: plan.clone(),
        seq: record.seq,
    };
    let mut seen = BTreeSet::new();
    events.retain(|event| seen.insert(position(event)));
    events.sort_by_key(position);
    let is_cut = events.len() > limit;
    events.drain(..events.len().saturating_sub(limit));
    if is_cut {
        older = older.max(events.first().map(position));
    }
    FoundEvents { events, older }
}

/// Reads a cursor of the archive: `older:<ms>:<plan>:<seq>`.
pub(super) fn read_cursor(text: &str) -> Option<EventPosition> {
    let mut parts = text.strip_prefix(OLDER)?.strip_prefix(':')?.split(':');
    let time_ms = parts.next()?.parse().ok()?;
    let plan = parts.next().filter(|plan| is_id(plan))?.into();
    let seq = parts.next()?.parse().ok()?;
    parts.next().is_none().then_some(EventPosition { time_ms, plan, seq })
}

pub(super) fn write_cursor(position: &EventPosition) -> String {
    format!("{OLDER}:{}:{}:{}", position.time_ms, position.plan, position.seq)
}

#[cfg(test)]
mod tests {
    use goalmill_common::event::{Event, PlanEvent, Reason};

    use super::*;

    fn event(plan: &str, seq: u64, time_ms: u64) -> (PlanId, Record) {
        let event = Event::Plan(PlanEvent::Paused(Reason::boxed("lunch")));
        (plan.into(), Record { seq, time_ms, actor: None, event })
    }

    fn seqs(page: &FoundEvents) -> Vec<u64> {
        page.events.iter().map(|(_, record)| record.seq).collect()
    }

    #[test]
    fn events_of_both_are_merged_once_each_and_what_is_cut_follows() {
        let live = vec![event("p0-a", 1, 10), event("p0-a", 3, 30)];
        let archived = || vec![event("p0-a", 3, 30), event("p0-a", 2, 20), event("p0-b", 9, 5)];
        let whole = merge(live.clone(), FoundEvents { events: archived(), older: None }, 9);
        assert_eq!((seqs(&whole), whole.older), (vec![9, 1, 2, 3], None));
        let cut = merge(live.clone(), FoundEvents { events: archived(), older: None }, 2);
        let oldest = EventPosition { time_ms: 20, plan: "p0-a".into(), seq: 2 };
        assert_eq!((seqs(&cut), cut.older.clone()), (vec![2, 3], Some(oldest.clone())));
        let unread = EventPosition { time_ms: 25, plan: "p0-b".into(), seq: 1 };
        let early = merge(live, FoundEvents { events: archived(), older: Some(unread.clone()) }, 9);
        assert_eq!(early.older, Some(unread), "what was not read follows");
        assert_eq!(read_cursor(&write_cursor(&oldest)), Some(oldest));
        for text in
            ["older", "older:1", "older:1:p0-a", "older:1:p0-a:2:3", "older:x:p0-a:2", "1:p0-a:2", "older:1:-:2"]
        {
            assert_eq!(read_cursor(text), None, "{text}");
        }
    }
}
