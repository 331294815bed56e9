//! What clients of the stream get: answers, results, and the list of refused submissions.

use goalmill_common::clock::rfc3339;
use goalmill_common::command::Submit;
use goalmill_common::commit::{RefusedEntry, StreamResult};
use goalmill_common::id::{EntryId, Namespace, PlanId};
use goalmill_common::json::Json;
use goalmill_common::problem::{Issue, Problem};
use goalmill_common::status::PlanStatus;
use goalmill_common::text::shorten;
use goalmill_common::view::RefusedSubmissionView;
use goalmill_common::wire::{
    Fields, GOAL_TYPE, PLAN_TYPE, RefusedRepetition, SubmissionAnswer, bound_namespace, first_entry,
};
use goalmill_engine::PlanState;

/// The longest field of a result, in bytes; a larger one is stored as a blob.
const FIELD_BYTES_MAX: usize = 64 << 10;
/// Warnings and errors of an answer, at most.
const ISSUES_MAX: usize = 20;
/// Characters of a text in a list or a result.
const TEXT_CHARS_MAX: usize = 300;

/// The text under `goalmill:answers:<id>` of an accepted submission.
pub fn accepted(
    plan_id: PlanId,
    status: PlanStatus,
    warnings: Vec<Issue>,
    refused: Option<RefusedRepetition>,
) -> String {
    write(&SubmissionAnswer::Accepted { plan_id, status, warnings, refused })
}

/// The same of a refused submission.
pub fn refused(problem: Problem) -> String {
    write(&SubmissionAnswer::Refused(problem))
}

fn write(answer: &SubmissionAnswer) -> String {
    serde_json::to_string(answer).expect("an answer always has a JSON text")
}

/// What the client of a plan gets at its beginning: the answer alone.
pub fn answer(state: &PlanState) -> StreamResult {
    let warnings = state.accepted().entry.as_ref().map(|entry| entry.warnings.clone()).unwrap_or_default();
    let answer = accepted(state.id().clone(), state.status(), warnings, None);
    StreamResult { submission: state.submission().to_owned(), answer, fields: Vec::new() }
}

/// The issues as far as an answer or a list has them.
pub fn shortened(issues: Vec<Issue>) -> Vec<Issue> {
    let issue = |issue: Issue| Issue {
        pointer: short(&issue.pointer),
        detail: short(&issue.detail),
        hint: short(&issue.hint),
        ..issue
    };
    issues.into_iter().take(ISSUES_MAX).map(issue).collect()
}

/// What the client of a plan gets at its end, and the fields that are too large, by the keys of their blobs.
///
/// - `blob`: a new key of a blob of the plan.
pub fn result(state: &PlanState, mut blob: impl FnMut() -> Option<String>) -> (StreamResult, Vec<(String, Json)>) {
    let mut large = Vec::new();
    let mut fields = vec![("plan_id", state.id().to_string()), ("status", state.status().as_str().to_owned())];
    if let Some(ended) = state.ended() {
        if !ended.reason.is_empty() {
            fields.push(("reason", short(&ended.reason)));
        }
        if let Some(failure) = &ended.failure {
            fields.push(("failure", Json::from_value(failure).text().to_owned()));
        }
    }
    let parts = [
        ("final_output", "final_output_key", state.final_output()),
        ("outputs", "outputs_key", Some(state.outputs_json())),
        ("failures", "failures_key", Some(Json::from_value(&state.failures()))),
    ];
    for (name, key_name, part) in parts {
        let Some(part) = part else { continue };
        if part.text().len() <= FIELD_BYTES_MAX {
            fields.push((name, part.text().to_owned()));
        } else if let Some(key) = blob() {
            fields.push((key_name, key.clone()));
            large.push((key, part));
        }
    }
    (StreamResult { fields, ..answer(state) }, large)
}

/// A refused submission whose plan does not exist: it is answered under its id.
///
/// - `answered_as`: see [`goalmill_common::wire::Submission::answer_id`].
pub fn refused_entry(id: &EntryId, fields: &Fields, answered_as: String, problem: &Problem) -> RefusedEntry {
    let text = |name: &str| {
        let bytes = fields.iter().find(|(field, _)| field == name).map(|(_, bytes)| bytes.as_slice());
        bytes.map(|bytes| String::from_utf8_lossy(&bytes[..bytes.len().min(4 * TEXT_CHARS_MAX)]).into_owned())
    };
    let kind = match text("type").as_deref() {
        Some(GOAL_TYPE) => "goal",
        Some(PLAN_TYPE) => "plan",
        Some(_) => "",
        None if text("goal").is_some() => "goal",
        None => "plan",
    };
    let excerpt = ["data", "goal", "plan"].into_iter().find_map(text).unwrap_or_default();
    let sent = SentEntry {
        entry: first_entry(id, fields),
        namespace: bound_namespace(fields).unwrap_or_default(),
        kind,
        source: short(&text("source").unwrap_or_default()),
        excerpt: short(&excerpt),
    };
    sent.refused(answered_as, problem)
}

fn short(text: &str) -> String {
    shorten(text, TEXT_CHARS_MAX).into_owned()
}

/// Lets a refusal leave the answer of a plan with the same id alone: it is answered under the id of its entry, and named
/// in that answer.
///
/// - `answer`: of the plan, with what was refused.
pub fn beside_plan(
    mut refused: RefusedEntry,
    entry: EntryId,
    problem: &Problem,
    answer: impl FnOnce(RefusedRepetition) -> String,
) -> RefusedEntry {
    let own = refused.namespace.qualify(entry.as_str());
    let id = std::mem::replace(&mut refused.answered_as, own);
    let detail = short(&problem.detail);
    refused.other_answer = Some((id, answer(RefusedRepetition { entry, code: problem.code, detail })));
    refused
}

/// What the list says of a submission by stream.
pub struct SentEntry {
    entry: EntryId,
    namespace: Namespace,
    kind: &'static str,
    source: String,
    excerpt: String,
}

impl SentEntry {
    /// `None` of a submission that did not come by the stream.
    pub fn of_submit(submit: &Submit) -> Option<Self> {
        let entry = submit.entry.as_ref()?;
        let namespace = submit.submission.split_once('/').map(|(namespace, _)| Namespace::from(namespace));
        Some(Self {
            entry: entry.id.clone(),
            namespace: namespace.unwrap_or_default(),
            kind: if submit.plan.is_some() { "plan" } else { "goal" },
            source: short(&submit.source),
            excerpt: short(&submit.goal.description),
        })
    }

    /// A submission whose plan does not exist: it is answered under its id.
    pub fn refused(self, answered_as: String, problem: &Problem) -> RefusedEntry {
        let listed = vec![
            ("entry", self.entry.to_string()),
            ("id", answered_as.clone()),
            ("kind", self.kind.to_owned()),
            ("source", self.source),
            ("code", problem.code.as_str().to_owned()),
            ("detail", short(&problem.detail)),
            ("errors", Json::from_value(&shortened(problem.errors.clone())).text().to_owned()),
            ("excerpt", self.excerpt),
        ];
        let short = problem.clone().with_errors(shortened(problem.errors.clone()));
        let (code, problem) = (problem.code, refused(short));
        RefusedEntry { answered_as, problem, code, other_answer: None, namespace: self.namespace, listed }
    }
}

/// A listed submission as clients of the API see it.
pub fn view(namespace: &Namespace, id: &EntryId, fields: &Fields) -> RefusedSubmissionView {
    let text = |name: &str| {
        let found = fields.iter().find(|(field, _)| field == name);
        found.map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
    };
    RefusedSubmissionView {
        entry: EntryId::from(text("entry")),
        namespace: namespace.clone(),
        submission_id: text("id"),
        kind: text("kind"),
        source: text("source"),
        code: text("code"),
        detail: text("detail"),
        errors: serde_json::from_str(&text("errors")).unwrap_or_default(),
        excerpt: text("excerpt"),
        refused_at: rfc3339(id.parts().0),
    }
}
