//! The form of messages on streams: flat fields, versions, sizes.

use serde::{Deserialize, Serialize};

use crate::command::Request;
use crate::id::{Namespace, is_id};
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

/// The fields of a stream entry, in order.
pub type Fields = Vec<(String, Vec<u8>)>;

/// A submission as it came: one flat entry with CloudEvents attribute names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The idempotency key.
    pub id: String,
    /// Where it came from: CloudEvents `source`.
    pub source: String,
    /// Whether the data is a goal or a plan.
    pub kind: SubmissionKind,
    /// JSON (or YAML, for a plan): the goal or the plan.
    pub data: String,
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

/// A submission that cannot be taken: why, and the id to answer under, where one could be read.
#[derive(Debug)]
pub struct BadSubmission {
    /// The id to answer under, where one could be read; see [`Submission::answer_id`].
    pub id: Option<String>,
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
    pub fn from_fields(fields: &Fields) -> Result<Self, BadSubmission> {
        let text = |name: &str| find_text(fields, name);
        let id = match text("id") {
            Some(Ok(id)) if is_id(&id) => Some(id),
            _ => None,
        };
        let namespace = bound_namespace(fields);
        let mut issues = Vec::new();
        let mut issue = |code: &str, field: &str, detail: &str, hint: &str| {
            issues.push(Issue {
                code: code.into(),
                pointer: format!("/{field}"),
                detail: detail.into(),
                hint: hint.into(),
            });
        };
        if id.is_none() {
            let hint = "give a letter or digit, then up to 127 of letters, digits, `.`, `_`, `:`, `-`";
            issue("INVALID_ID", "id", "the id is missing or not valid", hint);
        }
        match text("specversion") {
            Some(Ok(v)) if v.split('.').next() == Some("1") => {}
            _ => issue("UNSUPPORTED_VERSION", "specversion", "not CloudEvents 1.x", "set `specversion` to `1.0`"),
        }
        let kind = text("type").and_then(Result::ok).and_then(|name| SubmissionKind::parse(&name));
        if kind.is_none() {
            let hint = format!("use `{GOAL_TYPE}` or `{PLAN_TYPE}`");
            issue("UNSUPPORTED_TYPE", "type", "the type is missing or not known here", &hint);
        }
        let data = text("data");
        match &data {
            Some(Ok(_)) => {}
            Some(Err(())) => issue("INVALID_ENCODING", "data", "the data is not UTF-8", "encode it as UTF-8"),
            None => issue("MISSING_FIELD", "data", "there is no data", "put the goal or the plan as JSON into `data`"),
        }
        let data = data.and_then(Result::ok);
        let mut optional = |name: &str| match text(name) {
            Some(Err(())) => {
                issue("INVALID_ENCODING", name, "the value is not UTF-8", "encode it as UTF-8, or leave the field out");
                None
            }
            Some(Ok(value)) => Some(value),
            None => None,
        };
        let source = optional("source").unwrap_or_default();
        let traceparent = optional("traceparent");
        if let Some(name) = optional(NAMESPACE_FIELD).filter(|name| !is_id(name)) {
            let detail = format!("`{}` is not the name of a namespace", shorten(&name, 64));
            let hint = "use a letter or digit, then up to 127 of letters, digits, `.`, `_`, `:`, `-`; or leave it out";
            issue("INVALID_ID", NAMESPACE_FIELD, &detail, hint);
        }
        match (id.clone(), kind, data) {
            (Some(id), Some(kind), Some(data)) if issues.is_empty() => {
                Ok(Self { id, source, kind, data, traceparent, namespace })
            }
            _ => {
                Err(BadSubmission { id: id.map(|id| qualify(namespace.as_ref(), &id)), problem: no_submission(issues) })
            }
        }
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
    },
    /// It was refused, for this reason.
    Refused(Problem),
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
