//! `goalmill test`: files of tests, the repetition of recorded plans, and the mode of test kits.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use goalmill_common::id::PlanId;
use goalmill_tests::dev::program;
use goalmill_tests::installation::{Installation, step};
use serde_json::{Value, json};

use crate::layering::root;

fn test(dir: &Path, args: &[&str]) -> Result<Output> {
    Ok(program().arg("test").args(args).current_dir(dir).output()?)
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn examples() -> Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(root().join("docs/examples/tests"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.sort();
    Ok(files)
}

#[test]
fn the_examples_pass_without_warnings() -> Result<()> {
    let files = examples()?;
    assert!(files.len() >= 5, "{files:?}");
    let mut args: Vec<&str> = files.iter().filter_map(|file| file.to_str()).collect();
    args.extend(["-o", "json"]);
    let output = test(&root(), &args)?;
    let report: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    assert_eq!(report["failed"], 0);
    let tests = report["tests"].as_array().context("it is a list")?;
    assert!(tests.iter().all(|test| test.get("warnings").is_none()), "{report:#}");
    let days = |test: &Value| test["outcome"]["duration_ms"].as_u64().unwrap_or(0) / 86_400_000;
    assert!(tests.iter().any(|test| days(test) == 5), "one of them waits for days: {report:#}");
    Ok(())
}

#[test]
fn each_example_fails_when_its_agents_answer_otherwise() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let changes = [
        (
            "payment.yaml",
            "{parcel: P-1}}\n",
            "{parcel: P-2}}\n",
            "step `pack`: `outputs/parcel` is \"P-2\", expected \"P-1\"",
        ),
        ("retries.yaml", "{outputs: {text: hello}}\n", "{fail: retryable}\n", "step `fetch`"),
        ("approvals.yaml", "reason: fine", "reject: true", "the plan is `failed`, expected `completed`"),
        ("loop.yaml", "score: 0.9", "score: 0.7", "the plan is `failed`, expected `completed`"),
        (
            "saga.yaml",
            "fail: fatal, code: CARD_DECLINED, message: the card is declined",
            "outputs: {}",
            "the plan is `completed`, expected `failed`",
        ),
    ];
    for (name, old, new, difference) in changes {
        let text = std::fs::read_to_string(root().join("docs/examples/tests").join(name))?;
        assert!(text.contains(old), "{name}");
        let plan = format!("plan: {}/docs/examples/", root().display());
        let text = text.replacen(old, new, 1).replace("plan: ../", &plan);
        std::fs::write(dir.path().join(name), text)?;
        let output = test(dir.path(), &[name])?;
        assert_eq!(output.status.code(), Some(1), "{name}");
        assert!(stdout(&output).contains(difference), "{name}: {}", stdout(&output));
    }
    Ok(())
}

#[test]
fn what_is_of_no_use_is_a_warning_and_what_is_missing_a_failure() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let file = json!({
        "plan": {"steps": [{"id": "a", "agent_type": "w", "action": "go"}]},
        "tests": [
            {
                "name": "spare",
                "agents": {"w": {"go": [{"outputs": {}}, {"fail": "fatal"}]}, "x": {"go": {}}},
                "events": [{"name": "late", "at": "1d"}],
                "approvals": [{"step": "a"}],
            },
            {"name": "missing", "agents": {"w": {"stop": {}}}},
        ],
    });
    std::fs::write(dir.path().join("t.json"), file.to_string())?;
    let output = test(dir.path(), &["t.json", "--junit", "report.xml"])?;
    assert_eq!(output.status.code(), Some(1));
    let warned = String::from_utf8_lossy(&output.stderr);
    for part in [
        "answer 2 of the mock `w/go` was not used",
        "no step used the mock `x/go`",
        "the plan ended before the event `late`",
        "step `a` did not wait for the approval",
    ] {
        assert!(warned.contains(part), "{part}: {warned}");
    }
    let shown = stdout(&output);
    assert!(shown.contains("the mock of `w` has no action `go`, which step `a` asks for"), "{shown}");
    assert!(shown.contains("1 passed, 1 failed"), "{shown}");
    let xml = std::fs::read_to_string(dir.path().join("report.xml"))?;
    assert!(xml.contains("tests=\"2\" failures=\"1\""), "{xml}");
    Ok(())
}

#[test]
fn a_file_at_fault_is_refused_with_the_place() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let plan = json!({"steps": [{"id": "a", "agent_type": "w"}]});
    let answer = |answer: Value| json!({"plan": plan, "tests": [{"agents": {"w": {"*": [answer]}}}]});
    for (file, place) in [
        (json!({"tests": []}), "/tests"),
        (json!({"tests": [{"plan": plan, "goal": "x"}]}), "/tests/0"),
        (answer(json!({"output": {}})), "/tests/0/agents/w/*/0/output"),
        (answer(json!({"fail": "fatal", "outputs": {}})), "/tests/0/agents/w/*/0"),
        (answer(json!({"delay": "2 parsecs"})), "/tests/0/agents/w/*/0/delay"),
        (json!({"plan": plan, "tests": [{"expect": {"events": ["step_complete a"]}}]}), "/tests/0/expect/events/0"),
        (json!({"plan": plan, "tests": [{"start": "tomorrow"}]}), "/tests/0/start"),
    ] {
        std::fs::write(dir.path().join("t.json"), file.to_string())?;
        let output = test(dir.path(), &["t.json", "-o", "json"])?;
        let problem: Value = serde_json::from_slice(&output.stderr)?;
        assert_eq!(output.status.code(), Some(8), "{problem:#}");
        assert_eq!(problem["errors"][0]["pointer"], place, "{problem:#}");
    }
    std::fs::write(dir.path().join("t.json"), json!({"tests": [{"plan": "none.yaml"}]}).to_string())?;
    assert_eq!(test(dir.path(), &["t.json"])?.status.code(), Some(5));
    Ok(())
}

#[test]
fn stored_plans_of_a_test_stand_in_their_places() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let file = json!({
        "plans": {"greeting": {"steps": [{"id": "say", "agent_type": "w", "action": "say"}]}},
        "plan": {"steps": [{"id": "first", "kind": "plan", "use": "greeting@2"}]},
        "agents": {"w": {"say": {"outputs": {"text": "hello"}, "cost": 0.5}}},
        "tests": [
            {"name": "found", "expect": {"steps": {"first": "completed", "say": "completed"}, "cost_max": 0.5}},
            {"name": "missing", "plan": {"steps": [{"id": "first", "kind": "plan", "use": "farewell"}]}},
        ],
    });
    std::fs::write(dir.path().join("t.json"), file.to_string())?;
    let output = test(dir.path(), &["t.json", "--filter", "found"])?;
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    let output = test(dir.path(), &["t.json", "--filter", "missing"])?;
    assert!(stdout(&output).contains("/steps/0/use STORED_PLAN_NOT_FOUND"), "{}", stdout(&output));
    Ok(())
}

/// A log of a plan with a retry, an event and an approval, recorded by the mode of test kits.
fn recorded(dir: &Path) -> Result<PathBuf> {
    let run = json!({
        "plan": {"steps": [
            {"id": "hotels", "agent_type": "hotel_agent", "action": "search", "inputs": {"city": "Rome"}},
            {"id": "paid", "kind": "wait", "depends_on": ["hotels"], "wait": {"event": "payment"}},
            {"id": "book", "agent_type": "hotel_agent", "action": "book", "depends_on": ["paid"], "approve": {},
             "inputs": {"price": "{{ steps.hotels.outputs.price }}"}},
        ]},
        "agents": {"hotel_agent": {
            "search": [{"fail": "retryable"}, {"outputs": {"price": 80}, "delay": "2s", "cost": 0.5}],
            "book": {"outputs": {"booked": true}},
        }},
        "events": [{"name": "payment", "at": "2d"}],
        "approvals": [{"step": "book", "after": "1h"}],
    });
    let mut kit = Kit::start(&[])?;
    kit.send(&json!({"run": run}))?;
    let result = kit.next()?;
    assert_eq!(result["result"]["status"], "completed", "{result:#}");
    let events = result["result"]["events"].as_array().context("it is a list")?;
    let log: String = events.iter().map(|event| format!("{event}\n")).collect();
    let path = dir.join("plan.jsonl");
    std::fs::write(&path, log)?;
    Ok(path)
}

#[test]
fn a_recorded_plan_is_repeated_and_a_wrong_agent_is_found() -> Result<()> {
    let dir = tempfile::tempdir()?;
    recorded(dir.path())?;
    let same = test(dir.path(), &["--from-log", "plan.jsonl"])?;
    assert_eq!(same.status.code(), Some(0), "{}{}", stdout(&same), String::from_utf8_lossy(&same.stderr));
    assert!(stdout(&same).contains("the repetition is like the log"), "{}", stdout(&same));

    let mock = json!({"hotel_agent": {"search": {"outputs": {"price": 95}}, "book": {"outputs": {"booked": true}}}});
    std::fs::write(dir.path().join("agents.json"), mock.to_string())?;
    let other = test(dir.path(), &["--from-log", "plan.jsonl", "--mock", "agents.json"])?;
    assert_eq!(other.status.code(), Some(1));
    let shown = stdout(&other);
    assert!(
        shown.contains("step `hotels`, attempt 1: `event` is \"step_completed\", \"step_retrying\" in the log"),
        "{shown}"
    );

    let mock = json!({"hotel_agent": {
        "search": [{"fail": "retryable"}, {"outputs": {"price": 95}}], "book": {"outputs": {"booked": true}},
    }});
    std::fs::write(dir.path().join("agents.json"), mock.to_string())?;
    let other = test(dir.path(), &["--from-log", "plan.jsonl", "--mock", "agents.json", "-o", "json"])?;
    let difference: Value = serde_json::from_slice(&other.stdout)?;
    let difference = &difference["difference"];
    assert_eq!((&difference["step"], &difference["field"]), (&json!("hotels"), &json!("outputs/price")));
    assert_eq!((&difference["recorded"], &difference["repeated"]), (&json!(80), &json!(95)));
    Ok(())
}

#[test]
fn a_program_stands_for_a_recorded_agent() -> Result<()> {
    let dir = tempfile::tempdir()?;
    recorded(dir.path())?;
    let program = "import json, sys\ncall = json.load(sys.stdin)\ntask = call['task']\n\
        if task['action'] == 'search':\n    if task['attempt'] == 1: sys.exit(75)\n    print(json.dumps({'price': 80}))\n\
        else:\n    print(json.dumps({'booked': call['inputs']['price'] > PRICE}))\n";
    for (price, code, part) in
        [("79", 0, "like the log"), ("90", 1, "step `book`, attempt 1: `outputs/booked` is false, true in the log")]
    {
        std::fs::write(dir.path().join("agent.py"), program.replace("PRICE", price))?;
        // The recorded code of the failure is that of the mock.
        let log = std::fs::read_to_string(dir.path().join("plan.jsonl"))?.replace("MOCK_RETRYABLE", "EXIT_75");
        std::fs::write(dir.path().join("log.jsonl"), log)?;
        let output = test(dir.path(), &["--from-log", "log.jsonl", "--agent", "hotel_agent=python3 agent.py"])?;
        let shown = format!("{}{}", stdout(&output), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{shown}");
        assert!(shown.contains(part), "{shown}");
    }
    Ok(())
}

/// A process in the mode of test kits.
struct Kit {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Kit {
    /// - `agents`: agent types that it serves.
    fn start(agents: &[&str]) -> Result<Self> {
        let mut child = program().args(["test", "--stdio"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = BufReader::new(child.stdout.take().context("it is piped")?);
        let mut kit = Self { input: child.stdin.take(), output, child };
        let agents: Vec<Value> = agents.iter().map(|name| json!({"agent_type": name})).collect();
        kit.send(&json!({"hello": {"version": 1, "agents": agents, "slots": 1}}))?;
        anyhow::ensure!(kit.next()?.get("ready").is_some());
        Ok(kit)
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        let input = self.input.as_mut().context("it is open")?;
        writeln!(input, "{message}")?;
        Ok(input.flush()?)
    }

    fn next(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Kit {
    fn drop(&mut self) {
        drop(self.input.take());
        drop(self.child.wait());
    }
}

#[test]
fn a_kit_serves_agents_and_gets_the_result() -> Result<()> {
    let mut kit = Kit::start(&["mine"])?;
    let plan = json!({"steps": [
        {"id": "a", "agent_type": "mine", "action": "add", "inputs": {"n": "{{ goal.metadata.inputs.n }}"}},
        {"id": "b", "agent_type": "mine", "action": "add", "depends_on": ["a"], "inputs": {"n": "{{ steps.a.outputs.n }}"},
         "retry": {"max": 2, "backoff": {"initial": "1d", "max": "1d"}}},
    ]});
    // Two runs, one after the other, of one process.
    for n in [1, 5] {
        kit.send(&json!({"run": {"plan": plan, "inputs": {"n": n}}}))?;
        let mut attempts = Vec::new();
        let result = loop {
            let message = kit.next()?;
            let Some(task) = message.get("task") else { break message };
            attempts.push(format!("{}/{}", task["step"].as_str().unwrap_or_default(), task["attempt"]));
            let mut answer = json!({"outputs": {"n": task["inputs"]["n"].as_u64().unwrap_or(0) + 1}});
            if task["step"] == "b" && task["attempt"] == 1 {
                answer = json!({"error": {"class": "transient", "code": "X", "message": "m"}});
            }
            kit.send(&json!({"ended": {"task": task["task"], "answer": answer}}))?;
        };
        assert_eq!(attempts, ["a/1", "b/1", "b/2"]);
        let result = &result["result"];
        assert_eq!(
            (&result["status"], &result["results"]["b"]["n"]),
            (&json!("completed"), &json!(n + 2)),
            "{result:#}"
        );
        assert_eq!(result["events"][0]["type"], "goal_accepted");
    }
    Ok(())
}

#[test]
fn a_kit_records_calls_as_a_worker_does() -> Result<()> {
    let mut kit = Kit::start(&["mine"])?;
    kit.send(&json!({"run": {"plan": {"steps": [{"id": "a", "agent_type": "mine"}]}}}))?;
    let first = kit.next()?["task"]["task"].clone();
    kit.send(&json!({"call": {"task": first, "call": 1, "name": "pay", "inputs": "x"}}))?;
    assert!(kit.next()?["call"]["key"].is_string());
    kit.send(&json!({"made": {"task": first, "call": 1, "outcome": 7, "cost": 0.5}}))?;
    assert_eq!(kit.next()?, json!({"recorded": {"task": first, "call": 1}}));
    let error = json!({"class": "transient", "code": "X", "message": "m"});
    kit.send(&json!({"ended": {"task": first, "answer": {"error": error}}}))?;
    let second = kit.next()?["task"]["task"].clone();
    kit.send(&json!({"call": {"task": second, "call": 1, "name": "pay", "inputs": "x"}}))?;
    assert_eq!(kit.next()?, json!({"call": {"task": second, "call": 1, "outcome": 7}}));
    kit.send(&json!({"ended": {"task": second, "answer": {"outputs": {}}}}))?;
    let result = kit.next()?;
    assert_eq!((&result["result"]["status"], &result["result"]["usage"]["cost"]), (&json!("completed"), &json!(0.5)));
    Ok(())
}

#[test]
fn a_kit_gets_errors_with_their_places_and_goes_on() -> Result<()> {
    let mut kit = Kit::start(&[])?;
    for (message, pointer) in [
        (
            json!({"run": {"plan": {"steps": [{"id": "a", "agent_type": "w", "depends_on": ["x"]}]}}}),
            "/steps/0/depends_on/0",
        ),
        (json!({"run": {"plans": {}}}), ""),
    ] {
        kit.send(&message)?;
        let answer = kit.next()?;
        let found = answer["error"]["errors"][0]["pointer"].as_str();
        assert!(found.is_some_and(|found| found.starts_with(pointer)), "{answer:#}");
    }
    kit.send(&json!({"run": {"plan": {"steps": [{"id": "a", "agent_type": "w"}]}}}))?;
    assert_eq!(kit.next()?["error"]["code"], "NOT_ALLOWED");
    kit.send(&json!({"run": {"plan": {"steps": [{"id": "a", "kind": "internal", "inputs": {"n": 1}}]}}}))?;
    assert_eq!(kit.next()?["result"]["results"]["a"]["n"], 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_fork_is_repeated_with_what_the_fork_kept() -> Result<()> {
    let it = Installation::embedded().await?;
    let steps =
        [step("a", "echo", &[], json!({"n": 1})), step("b", "echo", &["a"], json!({"n": "{{ steps.a.outputs.n }}"}))];
    let plan = it.submit(&json!({"steps": steps})).await?;
    it.await_end(&plan, Duration::from_mins(1)).await?;
    let (status, forked) = it.post(&format!("/v1/plans/{plan}:fork"), &json!({"step": "b"})).await?;
    assert_eq!(status, 202, "{forked}");
    let fork = PlanId::from(forked["plan_id"].as_str().expect("it has an id"));
    it.await_end(&fork, Duration::from_mins(1)).await?;
    let log: String = it.log(&fork).await?.iter().map(|record| record.to_line() + "\n").collect();
    it.stop().await;
    let dir = tempfile::tempdir()?;
    std::fs::write(dir.path().join("plan.jsonl"), log)?;
    let same = test(dir.path(), &["--from-log", "plan.jsonl"])?;
    assert_eq!(same.status.code(), Some(0), "{}{}", stdout(&same), String::from_utf8_lossy(&same.stderr));
    Ok(())
}
