//! Events as JSON: an entry of the log, a line of an exported one.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Event, GoalAccepted, PlanEvent, Record, StepEvent};
use crate::clock;
use crate::id::StepId;

/// The fields before `data`.
pub(super) struct LineHead<'a> {
    seq: u64,
    type_name: &'static str,
    step: Option<&'a StepId>,
    attempt: u32,
    phase: Option<&'a str>,
    actor: Option<&'a str>,
    /// Set where a record stands alone; in the log the entry has the time.
    time: Option<String>,
}

/// Field by field, because names and types need no escaping, which a library would check letter by letter.
pub(super) fn write_record<T: Serialize>(out: &mut Vec<u8>, head: &LineHead<'_>, data: Option<&T>) {
    out.extend_from_slice(br#"{"seq":"#);
    write_value(out, &head.seq);
    out.extend_from_slice(br#","type":""#);
    out.extend_from_slice(head.type_name.as_bytes());
    out.push(b'"');
    if let Some(time) = &head.time {
        out.extend_from_slice(br#","time":"#);
        write_value(out, time);
    }
    if let Some(step) = head.step {
        out.extend_from_slice(br#","step_id":"#);
        write_value(out, step);
    }
    if head.attempt > 0 {
        out.extend_from_slice(br#","attempt":"#);
        write_value(out, &head.attempt);
    }
    if let Some(phase) = head.phase {
        out.extend_from_slice(br#","phase":"#);
        write_value(out, phase);
    }
    if let Some(actor) = head.actor {
        out.extend_from_slice(br#","actor":"#);
        write_value(out, actor);
    }
    if let Some(data) = data {
        out.extend_from_slice(br#","data":"#);
        write_value(out, data);
    }
    out.push(b'}');
}

fn write_value<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect("an event always has a JSON text");
}

#[derive(Deserialize)]
struct LineIn<'a> {
    seq: u64,
    #[serde(rename = "type")]
    type_name: std::borrow::Cow<'a, str>,
    #[serde(default)]
    time: Option<String>,
    #[serde(default)]
    step_id: Option<StepId>,
    #[serde(default)]
    attempt: u32,
    #[serde(default)]
    phase: Option<Box<str>>,
    #[serde(default)]
    actor: Option<String>,
    #[serde(default, borrow)]
    data: Option<&'a RawValue>,
}

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum LogError {
    #[error("the text is not a list of events: {0}")]
    Syntax(#[from] serde_json::Error),
    #[error("event {seq} has the unknown type `{type_name}`")]
    UnknownType { seq: u64, type_name: String },
    #[error("event {seq} (`{type_name}`) names no step")]
    NoStep { seq: u64, type_name: String },
    #[error("the data of event {seq} (`{type_name}`) cannot be read: {source}")]
    Data { seq: u64, type_name: String, source: serde_json::Error },
    #[error("event {seq} has no time")]
    NoTime { seq: u64 },
}

impl Record {
    /// Appends the record as JSON: with its time where it stands alone, without in a log entry.
    fn write(&self, out: &mut Vec<u8>, alone: bool) {
        let time = alone.then(|| clock::rfc3339(self.time_ms));
        let actor = self.actor.as_deref();
        match &self.event {
            Event::Plan(event) => {
                let head = LineHead {
                    seq: self.seq,
                    type_name: event.type_name(),
                    step: None,
                    attempt: 0,
                    phase: None,
                    actor,
                    time,
                };
                event.write(out, &head);
            }
            Event::Step { step, attempt, phase, event } => {
                let phase = phase.as_deref();
                let type_name = event.type_name();
                let head =
                    LineHead { seq: self.seq, type_name, step: Some(step), attempt: *attempt, phase, actor, time };
                event.write(out, &head);
            }
        }
    }

    /// One line of an exported log: `{"seq":…,"type":…,"time":…,"step_id":…,"attempt":…,"data":…}`.
    ///
    /// The words that attempt tokens are made from are left out; the folded view does not depend on it.
    pub fn to_line(&self) -> String {
        let mut out = Vec::with_capacity(160);
        if let Event::Plan(PlanEvent::GoalAccepted(accepted)) = &self.event {
            let accepted =
                Box::new(GoalAccepted { secret: String::new(), salt: String::new(), ..accepted.as_ref().clone() });
            let event = Event::Plan(PlanEvent::GoalAccepted(accepted));
            Self { event, actor: self.actor.clone(), ..*self }.write(&mut out, true);
        } else {
            self.write(&mut out, true);
        }
        String::from_utf8(out).expect("JSON is UTF-8")
    }

    /// Reads one line of an exported log.
    pub fn from_line(line: &str) -> Result<Self, LogError> {
        let line: LineIn<'_> = serde_json::from_str(line)?;
        let seq = line.seq;
        let time_ms = line.time.as_deref().and_then(clock::parse_rfc3339).ok_or(LogError::NoTime { seq })?;
        line.into_record(time_ms)
    }
}

impl LineIn<'_> {
    fn into_record(self, time_ms: u64) -> Result<Record, LogError> {
        let (seq, type_name) = (self.seq, self.type_name);
        let text = self.data.map_or("{}", RawValue::get);
        let data = |source| LogError::Data { seq, type_name: type_name.clone().into_owned(), source };
        let event = if let Some(event) = PlanEvent::read_data(&type_name, text) {
            Event::Plan(event.map_err(data)?)
        } else if let Some(event) = StepEvent::read_data(&type_name, text) {
            let event = event.map_err(data)?;
            let Some(step) = self.step_id else {
                return Err(LogError::NoStep { seq, type_name: type_name.into_owned() });
            };
            Event::Step { step, attempt: self.attempt, phase: self.phase, event }
        } else {
            return Err(LogError::UnknownType { seq, type_name: type_name.into_owned() });
        };
        Ok(Record { seq, time_ms, actor: self.actor, event })
    }
}

/// Writes the events of one commit as the `events` field of a log entry: a JSON list without times.
pub fn write_entry(records: &[Record]) -> Vec<u8> {
    let mut out = Vec::with_capacity(records.len() * 96 + 2);
    out.push(b'[');
    for (i, record) in records.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        record.write(&mut out, false);
    }
    out.push(b']');
    out
}

/// Reads the `events` field of a log entry; `time_ms` is the entry's own.
pub fn read_entry(events: &str, time_ms: u64) -> Result<Vec<Record>, LogError> {
    let lines: Vec<LineIn<'_>> = serde_json::from_str(events)?;
    lines.into_iter().map(|line| line.into_record(time_ms)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Map, Value};

    use super::super::{PlanningFailed, Reason, StepCompleted};
    use super::*;
    use crate::goal::Goal;
    use crate::json::Json;
    use crate::view::EventView;

    fn sample() -> Vec<Record> {
        let step = |seq, attempt, event| Record {
            seq,
            time_ms: 1_795_293_490_279,
            actor: None,
            event: Event::Step { step: "a".into(), attempt, phase: (attempt > 0).then(|| "one".into()), event },
        };
        vec![
            Record {
                seq: 1,
                time_ms: 1_795_293_490_279,
                actor: Some("api".into()),
                event: Event::Plan(PlanEvent::Paused(Reason::boxed("lunch"))),
            },
            step(2, 0, StepEvent::Ready),
            step(
                3,
                1,
                StepEvent::Completed(Box::new(StepCompleted {
                    outputs: Json::from_text("{\"x\": 1.10}".into()).expect("it is JSON"),
                    finished_ms: Some(5),
                    cost: 0.5,
                    ..StepCompleted::default()
                })),
            ),
        ]
    }

    #[test]
    fn an_entry_reads_back_and_payloads_keep_their_bytes() {
        let records = sample();
        let text = String::from_utf8(write_entry(&records)).expect("JSON is UTF-8");
        assert!(text.contains("{\"x\": 1.10}"), "{text}");
        assert!(text.contains(r#"{"seq":2,"type":"step_ready","step_id":"a"}"#), "{text}");
        assert_eq!(read_entry(&text, 1_795_293_490_279).expect("own text reads back"), records);
    }

    #[test]
    fn a_line_stands_alone() {
        for record in sample() {
            assert_eq!(Record::from_line(&record.to_line()).expect("own line reads back"), record);
        }
    }

    /// A record of each type, with everything that may stand before `data`.
    fn every_type() -> Vec<Record> {
        let of_step = |event| Event::Step { step: "a".into(), attempt: 2, phase: Some("one".into()), event };
        let events =
            PlanEvent::samples().into_iter().map(Event::Plan).chain(StepEvent::samples().into_iter().map(of_step));
        let record = |(event, seq)| Record { seq, time_ms: 1_795_323_600_000, actor: Some("cli:ann".into()), event };
        events.zip(1..).map(record).collect()
    }

    #[test]
    fn a_line_of_every_type_is_an_event_view_with_nothing_lost() {
        let mut names = BTreeSet::from(["plan_id".to_owned()]);
        for record in every_type() {
            let line = record.to_line();
            let mut written: Map<String, Value> = serde_json::from_str(&line).expect("a line is an object");
            names.extend(written.keys().cloned());
            written.entry("attempt").or_insert(0.into());
            let view: EventView = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            assert_eq!(serde_json::to_value(&view).unwrap(), Value::Object(written), "{line}");
        }
        let schema = schemars::schema_for!(EventView);
        let shown = schema.get("properties").and_then(Value::as_object).expect("a view has fields");
        assert_eq!(names, shown.keys().cloned().collect(), "an event view has what lines have, and whose they are");
    }

    #[test]
    fn the_word_behind_the_tokens_stays_in_the_journal() {
        let accepted = GoalAccepted {
            plan_id: "p0-1".into(),
            goal: Goal::default(),
            submission: "s".into(),
            source: "test".into(),
            secret: "open-sesame".into(),
            salt: String::new(),
            fingerprint: String::new(),
            entry: None,
            parent: None,
            traceparent: None,
            deadline_ms: 1,
        };
        let event = Event::Plan(PlanEvent::GoalAccepted(Box::new(accepted)));
        let record = Record { seq: 1, time_ms: 0, actor: None, event };
        let line = record.to_line();
        assert!(!line.contains("secret") && !line.contains("open-sesame"), "{line}");
        assert!(Record::from_line(&line).is_ok(), "an exported line reads back");
        let entry = String::from_utf8(write_entry(std::slice::from_ref(&record))).expect("JSON is UTF-8");
        assert_eq!(read_entry(&entry, 0).expect("own text reads back"), [record]);
    }

    #[test]
    fn a_failure_without_provenance_reads_as_it_did() {
        let line = r#"{"seq":2,"type":"planning_failed","time":"2026-11-22T05:00:00Z","data":{"reason":"no model"}}"#;
        let read = Record::from_line(line).expect("an older line reads");
        let failed = PlanningFailed { reason: "no model".into(), ..PlanningFailed::default() };
        assert_eq!(read.event, Event::Plan(PlanEvent::PlanningFailed(Box::new(failed))));
    }

    #[test]
    fn what_is_no_event_says_so() {
        let read = |text: &str| read_entry(text, 0).expect_err("it is refused").to_string();
        let says = |text: &str, parts: &[&str]| parts.iter().all(|part| read(text).contains(part));
        assert!(says(r#"[{"seq":1,"type":"step_flew"}]"#, &["event 1", "`step_flew`"]));
        assert!(says(r#"[{"seq":1,"type":"step_ready"}]"#, &["event 1", "`step_ready`"]));
        assert!(says(r#"[{"seq":1,"type":"plan_created","data":{}}]"#, &["event 1", "missing field"]));
    }
}
