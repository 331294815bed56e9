//! The samples of `docs/protocol.md` are valid for the types.

use goalmill_common::agent::Agent;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::report::{Report, What};
use goalmill_common::wire::{self, Inbox, InboxStream, SubmissionAnswer};

const PAGE: &str = include_str!("../../../docs/protocol.md");

/// The JSON block after `<!-- name -->`.
fn sample(name: &str) -> &'static str {
    block(name, "json")
}

fn block(name: &str, language: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(&format!("<!-- {name} -->\n```{language}\n")).expect("the page has the sample");
    rest.split_once("\n```").expect("the sample ends").0
}

#[test]
fn the_samples_of_the_page_are_valid() {
    let task = wire::read_task(sample("task").as_bytes()).expect("the task is valid");
    assert_eq!((task.attempt, task.reply.as_str()), (2, "goalmill:{s0}:reports"));
    let report: Report = serde_json::from_str(sample("report")).expect("the report is valid");
    assert_eq!((report.what, &report.token), (What::Completed, &task.token));
    let failure: Failure = serde_json::from_str(sample("failure")).expect("the failure is valid");
    assert_eq!((failure.class, failure.retry_after_ms), (FailureClass::RateLimited, Some(7_000)));
    let agent: Agent = serde_json::from_str(sample("agent")).expect("the registration is valid");
    assert_eq!(agent.agent_type.as_str(), "shout");
    assert!(matches!(serde_json::from_str(sample("answer")), Ok(SubmissionAnswer::Accepted { .. })));
    assert!(serde_json::from_str::<serde_json::Value>(sample("call")).is_ok());
}

#[test]
fn an_entry_holds_one_report_or_many() {
    for data in [sample("report").to_owned(), format!("[{0},{0}]", sample("report"))] {
        let fields = vec![("v".to_owned(), b"1".to_vec()), ("data".to_owned(), data.into_bytes())];
        assert!(matches!(Inbox::from_fields(InboxStream::Reports, &fields), Inbox::Reports(_)));
        assert!(matches!(Inbox::from_fields(InboxStream::Requests, &fields), Inbox::Unreadable(_)));
    }
}

#[test]
fn a_request_among_the_reports_is_never_read_as_one() {
    let request = br#"{"plan": "p0-a", "actor": "oidc:boss", "verb": {"cancel": {"reason": "x"}}}"#;
    let mut fields = vec![("v".to_owned(), b"1".to_vec()), ("request".to_owned(), request.to_vec())];
    assert!(matches!(Inbox::from_fields(InboxStream::Requests, &fields), Inbox::Request(_)));
    assert_eq!(Inbox::from_fields(InboxStream::Reports, &fields), Inbox::Misplaced);
    fields.push(("data".to_owned(), sample("report").as_bytes().to_vec()));
    assert_eq!(Inbox::from_fields(InboxStream::Reports, &fields), Inbox::Misplaced);
}

#[test]
fn every_public_key_is_spelled_as_the_code_spells_it() {
    use goalmill_common::id::{PlanId, ShardId};
    use goalmill_common::keys::Keys;
    let plan = PlanId::derive_in(ShardId(3), "x");
    let general = |key: String| key.replace("{s3}", "{s<n>}").replace(plan.as_str(), "<plan>");
    let keys = [
        Keys::default().goals(),
        Keys::default().meta(),
        Keys::default().agents(),
        Keys::default().queues(),
        Keys::default().workers(),
        Keys::default().worker_beats(),
        Keys::default().cancel(),
        Keys::default().cancelled(),
        Keys::default().answer("<id>"),
        Keys::default().steps(&"<agent_type>".into()),
        Keys::default().dead_letters(&"<agent_type>".into()),
        general(Keys::default().reports(ShardId(3))),
        general(Keys::default().plan(&plan)),
        general(Keys::default().events(&plan)),
        general(Keys::default().blob(ShardId(3), "<family>:<name>")),
    ];
    for key in keys {
        assert!(PAGE.contains(&format!("`{key}`")), "the page does not name `{key}`");
    }
    for key in [
        Keys::default().agents(),
        Keys::default().queues(),
        Keys::default().workers(),
        Keys::default().worker_beats(),
        Keys::default().agents_changed(),
    ] {
        let in_python = key.replacen("goalmill", "{prefix}", 1);
        assert!(block("worker", "python").contains(&format!("f\"{in_python}\"")), "the example does not use `{key}`");
    }
}
