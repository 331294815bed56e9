//! The form of messages on streams: flat fields, versions, sizes.

use serde::{Deserialize, Serialize};

use crate::command::Request;
use crate::goal::INPUTS;
use crate::id::{EntryId, Namespace, is_id};
use crate::json_comments::skip_json_comments;
use crate::problem::{ErrorCode, Issue, Problem};
use crate::report::Report;
use crate::task::Task;
use crate::text::shorten;

/// Version of tasks, reports and the log.
pub const PROTOCOL: &str = "1";
/// CloudEvents `type` of a goal.
pub const GOAL_TYPE: &str = "goalmill.goal.submit.v1";
/// CloudEvents `type` of a plan.
pub const PLAN_TYPE: &str = "goalmill.plan.submit.v1";

/// The field of a submission that came by the stream of a namespace. Schedulers set it.
pub const NAMESPACE_FIELD: &str = "goalmillnamespace";
/// The field of such a submission that has the id of its entry there. Schedulers set it.
pub const ENTRY_FIELD: &str = "goalmillentry";
/// The longest `source` of a submission, in bytes.
const SOURCE_BYTES_MAX: usize = 1_024;

/// The fields of a stream entry, in order.
pub type Fields = Vec<(String, Vec<u8>)>;

/// A submission as it came: one flat entry with a field `goal` or `plan`, or with CloudEvents attribute names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The idempotency key; the id of the entry if the client chose none.
    pub id: String,
    /// Where it came from: CloudEvents `source`.
    pub source: String,
    /// Whether the data is a goal or a plan.
    pub kind: SubmissionKind,
    /// JSON (or YAML, for a plan): the goal or the plan.
    pub data: String,
    /// JSON (or YAML): inputs of the plan besides those in `data`.
    pub inputs: Option<String>,
    /// W3C trace context, when the caller gave one.
    pub traceparent: Option<String>,
    /// The only namespace that it may be for: that of the stream that it came by. None for the common stream.
    pub namespace: Option<Namespace>,
}

/// What is submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubmissionKind {
    /// A goal, for the planners.
    Goal,
    /// A plan that is ready to run.
    Plan,
}

impl SubmissionKind {
    /// The kind of a CloudEvents `type`.
    fn parse(event_type: &str) -> Option<Self> {
        match event_type {
            GOAL_TYPE => Some(Self::Goal),
            PLAN_TYPE => Some(Self::Plan),
            _ => None,
        }
    }
}

/// A submission that cannot be taken: why, and the id to answer under.
#[derive(Debug)]
pub struct BadSubmission {
    /// The id to answer under, see [`Submission::answer_id`]: that of the entry if it has none, or none that is valid.
    pub id: String,
    /// Why it cannot be taken.
    pub problem: Problem,
}

impl Submission {
    /// The entry's fields, as any client would write them.
    pub fn fields(&self) -> Fields {
        let kind = match self.kind {
            SubmissionKind::Goal => GOAL_TYPE,
            SubmissionKind::Plan => PLAN_TYPE,
        };
        let mut fields: Fields = vec![
            ("specversion".into(), b"1.0".to_vec()),
            ("id".into(), self.id.clone().into_bytes()),
            ("source".into(), self.source.clone().into_bytes()),
            ("type".into(), kind.into()),
        ];
        if let Some(inputs) = &self.inputs {
            fields.push((INPUTS.into(), inputs.clone().into_bytes()));
        }
        if let Some(traceparent) = &self.traceparent {
            fields.push(("traceparent".into(), traceparent.clone().into_bytes()));
        }
        if let Some(namespace) = &self.namespace {
            fields.push((NAMESPACE_FIELD.into(), namespace.as_str().into()));
        }
        fields.push(("data".into(), self.data.clone().into_bytes()));
        fields
    }

    /// The id that its answer is stored under: no other namespace has it.
    pub fn answer_id(&self) -> String {
        qualify(self.namespace.as_ref(), &self.id)
    }

    /// Reads an entry; unknown fields are ignored, an unknown major version is refused.
    ///
    /// - `entry`: its id on the common stream.
    pub fn from_fields(entry: &EntryId, fields: &Fields) -> Result<Self, BadSubmission> {
        let mut reading = EntryReading { fields, issues: Vec::new() };
        let namespace = bound_namespace(fields);
        let id = reading.id();
        let content = reading.content();
        let source = reading.optional("source").unwrap_or_default();
        if source.len() > SOURCE_BYTES_MAX {
            let detail = format!("`source` has more than {SOURCE_BYTES_MAX} bytes");
            reading.issue("TEXT_TOO_LONG", "source", &detail, "name the submitter only");
        }
        let inputs = reading.optional(INPUTS);
        let traceparent = reading.optional("traceparent");
        if let Some(name) = reading.optional(NAMESPACE_FIELD).filter(|name| !is_id(name)) {
            let detail = format!("`{}` is not the name of a namespace", shorten(&name, 64));
            let hint = "use a letter or digit, then up to 127 of letters, digits, `.`, `_`, `:`, `-`; or leave it out";
            reading.issue("INVALID_ID", NAMESPACE_FIELD, &detail, hint);
        }
        let id = id.unwrap_or_else(|| first_entry(entry, fields).to_string());
        match content {
            Some((kind, data)) if reading.issues.is_empty() => {
                Ok(Self { id, source, kind, data, inputs, traceparent, namespace })
            }
            _ => Err(BadSubmission { id: qualify(namespace.as_ref(), &id), problem: no_submission(reading.issues) }),
        }
    }
}

/// The id of a submission's entry on the stream that its client wrote to.
pub fn first_entry(entry: &EntryId, fields: &Fields) -> EntryId {
    let moved = find_text(fields, ENTRY_FIELD).and_then(Result::ok).filter(|id| is_id(id));
    moved.map_or_else(|| entry.clone(), EntryId::from)
}

/// The reading of one entry, and what is wrong with it.
struct EntryReading<'f> {
    fields: &'f Fields,
    issues: Vec<Issue>,
}

impl EntryReading<'_> {
    fn issue(&mut self, code: &str, field: &str, detail: &str, hint: &str) {
        let (code, pointer) = (code.to_owned(), format!("/{field}"));
        self.issues.push(Issue { code, pointer, detail: detail.into(), hint: hint.into() });
    }

    /// The text of a field.
    fn optional(&mut self, name: &str) -> Option<String> {
        let text = find_text(self.fields, name)?;
        if text.is_err() {
            let hint = "encode it as UTF-8, or leave the field out";
            self.issue("INVALID_ENCODING", name, "the value is not UTF-8", hint);
        }
        text.ok()
    }

    /// The id that the client chose.
    fn id(&mut self) -> Option<String> {
        let id = find_text(self.fields, "id")?.ok().filter(|id| is_id(id));
        if id.is_none() {
            let hint = "give a letter or digit, then up to 127 of letters, digits, `.`, `_`, `:`, `-`; or leave it out";
            self.issue("INVALID_ID", "id", "the id is not valid", hint);
        }
        id
    }

    /// What is submitted: the field `goal` or `plan`, or the data of a CloudEvent.
    fn content(&mut self) -> Option<(SubmissionKind, String)> {
        let is_given = |name: &&str| self.fields.iter().any(|(field, _)| field == name);
        let given: Vec<&str> = ["goal", "plan", "data"].into_iter().filter(is_given).collect();
        if let [_, second, ..] = given[..] {
            let hint = "write `goal`, or `plan`, or `type` with `data`; a plan may have its goal inside";
            self.issue("CONFLICTING_FIELDS", second, "the entry has more than one content", hint);
            return None;
        }
        match given[..] {
            ["goal"] => Some((SubmissionKind::Goal, goal_document(self.short_form("goal")?))),
            ["plan"] => Some((SubmissionKind::Plan, self.short_form("plan")?)),
            _ => self.cloud_event(),
        }
    }

    /// The field of an entry without the attributes of CloudEvents; those that it has must be right.
    fn short_form(&mut self, name: &str) -> Option<String> {
        self.check_version(true);
        let hint = format!("leave `type` out beside `{name}`");
        if find_text(self.fields, "type").is_some() {
            self.issue("CONFLICTING_FIELDS", "type", "the type belongs to `data`", &hint);
        }
        self.optional(name)
    }

    fn cloud_event(&mut self) -> Option<(SubmissionKind, String)> {
        self.check_version(false);
        let kind = find_text(self.fields, "type").and_then(Result::ok).and_then(|name| SubmissionKind::parse(&name));
        if kind.is_none() {
            let hint = format!("use `{GOAL_TYPE}` or `{PLAN_TYPE}`; or write one field `goal` or `plan`");
            self.issue("UNSUPPORTED_TYPE", "type", "the type is missing or not known here", &hint);
        }
        let data = self.optional("data");
        if find_text(self.fields, "data").is_none() {
            let hint = "put the goal or the plan as JSON into `data`; or write one field `goal` or `plan`";
            self.issue("MISSING_FIELD", "data", "there is no data", hint);
        }
        kind.zip(data)
    }

    fn check_version(&mut self, is_optional: bool) {
        match find_text(self.fields, "specversion") {
            Some(Ok(version)) if version.split('.').next() == Some("1") => {}
            None if is_optional => {}
            _ => self.issue("UNSUPPORTED_VERSION", "specversion", "not CloudEvents 1.x", "set `specversion` to `1.0`"),
        }
    }
}

/// The document of a goal in words. A text that begins with `{`, perhaps after comments, is a document.
fn goal_document(text: String) -> String {
    if skip_json_comments(&text).starts_with('{') {
        text
    } else {
        serde_json::json!({ "description": text }).to_string()
    }
}

/// The text of a field; an error when it is not UTF-8.
fn find_text(fields: &Fields, name: &str) -> Option<Result<String, ()>> {
    let (_, bytes) = fields.iter().find(|(field, _)| field == name)?;
    Some(String::from_utf8(bytes.clone()).map_err(|_| ()))
}

fn no_submission(issues: Vec<Issue>) -> Problem {
    let unknown = issues.iter().any(|i| i.code == "UNSUPPORTED_TYPE");
    let code = if unknown { ErrorCode::UnsupportedType } else { ErrorCode::InvalidEntry };
    Problem::new(code, "the entry is not a submission").with_errors(issues)
}

/// The namespace of the stream by which an entry came.
pub fn bound_namespace(fields: &Fields) -> Option<Namespace> {
    let (_, bytes) = fields.iter().find(|(name, _)| name == NAMESPACE_FIELD)?;
    std::str::from_utf8(bytes).ok().filter(|name| is_id(name)).map(Into::into)
}

/// The id of a submission among those of all namespaces.
pub fn qualify(namespace: Option<&Namespace>, id: &str) -> String {
    namespace.map_or_else(|| id.to_owned(), |namespace| namespace.qualify(id))
}

/// The answer to a submission or a request: the value of `goalmill:answers:<id>`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SubmissionAnswer {
    /// It was accepted.
    Accepted {
        /// The plan that it created, or that it is about.
        plan_id: crate::id::PlanId,
        /// The status of that plan at that time.
        status: crate::status::PlanStatus,
        /// What to know of how it was read.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<Issue>,
        /// The last submission that was refused because it has this id and other content.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<RefusedRepetition>,
    },
    /// It was refused, for this reason.
    Refused(Problem),
}

/// A submission that was refused because its id was used for other content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedRepetition {
    /// Its entry, under which it is answered.
    pub entry: EntryId,
    /// `IDEMPOTENCY_KEY_REUSED`.
    pub code: ErrorCode,
    /// Why, in words.
    pub detail: String,
}

/// The two streams of a shard's inbox. Who may write to a stream decides what its entries can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum InboxStream {
    /// From workers: reports on their own attempts and nothing else.
    Reports,
    /// From schedulers that do not own the shard.
    Requests,
}

impl InboxStream {
    /// The last part of the stream's key.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reports => "reports",
            Self::Requests => "requests",
        }
    }
}

/// One entry of a shard's inbox.
#[derive(Clone, Debug, PartialEq)]
pub enum Inbox {
    /// From workers: one entry may carry several.
    Reports(Vec<Report>),
    /// From a scheduler that does not own the shard.
    Request(Box<Request>),
    /// Neither: counted, and ignored.
    Unreadable(String),
    /// A request among the reports, where any worker can write: counted, and not executed.
    Misplaced,
}

impl Inbox {
    /// The entry's fields: `v` and `data`, or `v` and `request`.
    pub fn fields(&self) -> Fields {
        let (name, data) = match self {
            Self::Reports(reports) => ("data", serde_json::to_vec(reports)),
            Self::Request(request) => ("request", serde_json::to_vec(request)),
            Self::Unreadable(text) => ("unreadable", serde_json::to_vec(text)),
            Self::Misplaced => ("unreadable", serde_json::to_vec("")),
        };
        vec![("v".into(), PROTOCOL.into()), (name.into(), data.expect("a message always has a JSON text"))]
    }

    /// Parses an entry of a stream: a request, or a list of reports, or a single one, as small workers write it.
    pub fn from_fields(stream: InboxStream, fields: &Fields) -> Self {
        let field = |name: &str| fields.iter().find(|(f, _)| f == name).map(|(_, bytes)| bytes.as_slice());
        match field("v") {
            Some(b"1") => {}
            Some(v) => return Self::Unreadable(format!("protocol version `{}`", String::from_utf8_lossy(v))),
            None => return Self::Unreadable("no field `v`".into()),
        }
        match (stream, field("data"), field("request")) {
            (InboxStream::Reports, _, Some(_)) => Self::Misplaced,
            (InboxStream::Reports, Some(bytes), None) => Self::read_reports(bytes),
            (InboxStream::Reports, None, None) => Self::Unreadable("no field `data`".into()),
            (InboxStream::Requests, _, None) => Self::Unreadable("no field `request`".into()),
            (InboxStream::Requests, _, Some(bytes)) => match serde_json::from_slice(bytes) {
                Ok(request) => Self::Request(request),
                Err(e) => Self::Unreadable(e.to_string()),
            },
        }
    }

    fn read_reports(bytes: &[u8]) -> Self {
        let first = bytes.iter().find(|b| !b.is_ascii_whitespace());
        let read = if first == Some(&b'{') {
            serde_json::from_slice(bytes).map(|report| vec![report])
        } else {
            serde_json::from_slice(bytes)
        };
        match read {
            Ok(reports) => Self::Reports(reports),
            Err(e) => Self::Unreadable(e.to_string()),
        }
    }
}

/// The size of a task without its inputs, about, in bytes.
const TASK_BYTES: usize = 512;

/// The `data` field of a task entry.
pub fn write_task(task: &Task) -> Vec<u8> {
    let mut data = Vec::with_capacity(TASK_BYTES + task.inputs.text().len());
    serde_json::to_writer(&mut data, task).expect("a task always has a JSON text");
    data
}

/// Parses the `data` field of a task entry.
pub fn read_task(data: &[u8]) -> Result<Task, serde_json::Error> {
    serde_json::from_slice(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and values of fields.
    type Pairs<'a> = &'a [(&'a str, &'a str)];

    fn fields(pairs: Pairs<'_>) -> Fields {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect()
    }

    fn read(pairs: Pairs<'_>) -> Result<Submission, BadSubmission> {
        Submission::from_fields(&"7-1".into(), &fields(pairs))
    }

    #[test]
    fn one_field_is_a_submission_and_its_id_is_that_of_the_entry() {
        let goal = read(&[("goal", "Say \"hi\" in {{ 3 }} ways")]).expect("it is one");
        assert_eq!((goal.id.as_str(), goal.kind), ("7-1", SubmissionKind::Goal));
        assert_eq!(goal.data, r#"{"description":"Say \"hi\" in {{ 3 }} ways"}"#);
        let document = read(&[("goal", " {\"description\": \"x\"}"), ("id", "own")]).expect("it is one");
        assert_eq!((document.id.as_str(), document.data.as_str()), ("own", " {\"description\": \"x\"}"));
        let plan = read(&[("source", "cron"), ("plan", "steps: []"), ("specversion", "1.0")]).expect("it is one");
        assert_eq!((plan.kind, plan.data.as_str(), plan.source.as_str()), (SubmissionKind::Plan, "steps: []", "cron"));
        let event = read(&[("specversion", "1.0"), ("type", GOAL_TYPE), ("data", "{}")]).expect("it is one");
        assert_eq!(event.id, "7-1");
        let moved = [("plan", "x"), (NAMESPACE_FIELD, "red"), (ENTRY_FIELD, "5-0")];
        assert_eq!(read(&moved).expect("it is one").answer_id(), "red/5-0");
    }

    #[test]
    fn what_is_wrong_is_named_and_answered_under_the_id_of_the_entry() {
        let long = "s".repeat(SOURCE_BYTES_MAX + 1);
        let bad: [(Pairs<'_>, &str, &str); 9] = [
            (&[], "UNSUPPORTED_VERSION", "/specversion"),
            (&[("goal", "x"), ("plan", "y")], "CONFLICTING_FIELDS", "/plan"),
            (&[("plan", "x"), ("data", "y")], "CONFLICTING_FIELDS", "/data"),
            (&[("goal", "x"), ("type", GOAL_TYPE)], "CONFLICTING_FIELDS", "/type"),
            (&[("goal", "x"), ("specversion", "2.0")], "UNSUPPORTED_VERSION", "/specversion"),
            (&[("goal", "x"), ("id", "a b")], "INVALID_ID", "/id"),
            (&[("goal", "x"), ("id", "")], "INVALID_ID", "/id"),
            (&[("type", PLAN_TYPE), ("data", "{}")], "UNSUPPORTED_VERSION", "/specversion"),
            (&[("goal", "x"), ("source", &long)], "TEXT_TOO_LONG", "/source"),
        ];
        for (pairs, code, pointer) in bad {
            let refused = read(pairs).expect_err("it is wrong");
            assert_eq!(refused.id, "7-1", "{pairs:?}");
            let first = &refused.problem.errors[0];
            assert_eq!((first.code.as_str(), first.pointer.as_str()), (code, pointer), "{pairs:?}");
        }
        let mut latin = fields(&[("goal", "")]);
        latin[0].1 = b"caf\xe9".to_vec();
        let refused = Submission::from_fields(&"7-1".into(), &latin).expect_err("it is no text");
        assert_eq!(refused.problem.errors[0].code, "INVALID_ENCODING");
    }
}
