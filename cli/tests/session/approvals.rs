//! People in the loop, from the command line: at a terminal and in scripts.

use serde_json::{Value, json};

use super::terminal::Terminal;
use super::{Dev, code, err, out};

const WAITING: &str = "approve: {}\nsteps:\n- id: a\n  agent_type: echo\n  inputs:\n    x: 1\n";

impl Dev {
    fn submit(&self, plan: &str) -> String {
        let output = self.run_with(&["run", "-", "-o", "name"], plan);
        assert_eq!(code(&output), 0, "{}", err(&output));
        out(&output).trim().to_owned()
    }

    /// The program at a terminal, as the person `ann`, whose editor is `editor`.
    fn at_terminal(&self, args: &[&str], editor: &str) -> Terminal {
        let args = [args, &["--server", &self.server]].concat();
        let environment = [("USER", "ann"), ("EDITOR", editor), ("HOME", "/nowhere")];
        Terminal::run(env!("CARGO_BIN_EXE_goalmill"), &args, &environment)
    }

    /// The events of one type: who, and the data.
    fn events(&self, plan: &str, kind: &str) -> Vec<(String, Value)> {
        let output = self.run(&["events", plan, "-o", "jsonl", "--types", kind]);
        assert_eq!(code(&output), 0, "{}", err(&output));
        let lines = out(&output);
        let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line is an event"));
        events.map(|e| (e["actor"].as_str().unwrap_or_default().to_owned(), e["data"].clone())).collect()
    }

    /// Waits until the step waits for a person.
    fn until_waits(&self, plan: &str, step: &str) {
        self.at_terminal(&["watch", plan], "true").expect(&format!("goalmill step approve {plan} {step}"));
    }

    fn wait(&self, plan: &str) -> i32 {
        code(&self.run(&["watch", plan, "--timeout", "30s"]))
    }
}

#[test]
fn at_a_terminal_a_plan_is_edited_and_approved() {
    let dev = Dev::start();
    let plan = dev.submit(WAITING);
    let mut terminal = dev.at_terminal(&["plan", "approve", &plan], "sed -i 's/x: 1/x: 2/'");
    terminal.expect("approve? [y/N/edit/reject]");
    terminal.enter("edit");
    terminal.expect("why?");
    terminal.enter("two is better");
    terminal.expect("approve? [y/N/edit/reject]");
    terminal.enter("y");
    terminal.expect("why?");
    terminal.enter("fine with me");
    assert_eq!(terminal.end(), 0, "{}", terminal.text);
    assert_eq!(dev.wait(&plan), 0);
    assert_eq!(dev.json(&["plan", "results", &plan])["results"]["a"]["x"], 2);
    let (who, revised) = dev.events(&plan, "plan_revised").remove(0);
    assert_eq!((who.as_str(), &revised["summary"]), ("cli:ann", &json!("two is better")));
    let (who, approved) = dev.events(&plan, "plan_approved").remove(0);
    assert_eq!((who.as_str(), &approved["reason"]), ("cli:ann", &json!("fine with me")));
}

#[test]
fn at_a_terminal_a_breaking_edit_is_refused_and_saying_nothing_decides_nothing() {
    let dev = Dev::start();
    let plan = dev.submit(WAITING);
    let breaking = "sed -i 's/agent_type: echo/agent_type: echo\\n  dependencies: [ghost]\\n  timeout: -1/'";
    let mut terminal = dev.at_terminal(&["plan", "edit", &plan, "--reason", "haste"], breaking);
    terminal.expect("edit again? [Y/n]");
    for issue in ["there is no step `ghost`", "-1000 ms is not in 1..=86400000 ms"] {
        assert!(terminal.passed.contains(issue), "`{issue}` is missing in\n{}", terminal.passed);
    }
    terminal.enter("n");
    assert_eq!(terminal.end(), 8, "{}", terminal.text);
    assert_eq!(dev.events(&plan, "plan_revised"), [], "nothing was changed");
    let mut terminal = dev.at_terminal(&["plan", "approve", &plan], "true");
    terminal.expect("approve? [y/N/edit/reject]");
    terminal.enter("");
    assert_eq!(terminal.end(), 7, "{}", terminal.text);
    assert_eq!(dev.json(&["plan", "get", &plan])["status"], "awaiting_approval");
    let mut terminal = dev.at_terminal(&["plan", "approve", &plan], "true");
    terminal.expect("approve? [y/N/edit/reject]");
    terminal.enter("reject");
    terminal.expect("why?");
    terminal.enter("too dear");
    assert_eq!(terminal.end(), 0, "{}", terminal.text);
    let (who, rejected) = dev.events(&plan, "plan_rejected").remove(0);
    assert_eq!((who.as_str(), &rejected["reason"]), ("cli:ann", &json!("too dear")));
}

#[test]
fn at_a_terminal_a_question_is_asked_until_the_answer_fits() {
    let dev = Dev::start();
    let ask = "{question: How many nights?, schema: {type: integer, minimum: 1}, default: 3, into: nights}";
    let plan = dev.submit(&format!("steps: [{{id: a, agent_type: echo, ask: {ask}}}]"));
    let listed = dev.run(&["step", "get", &plan, "a"]);
    assert_eq!(code(&listed), 0);
    let mut terminal = dev.at_terminal(&["plan", "questions", &plan], "true");
    terminal.expect("How many nights?");
    terminal.expect("a whole number · default 3 · ");
    terminal.enter("many");
    terminal.expect("`many` is no integer");
    terminal.enter("0");
    terminal.expect("INVALID_ANSWER");
    terminal.expect("How many nights?");
    terminal.enter("4");
    assert_eq!(terminal.end(), 0, "{}", terminal.text);
    assert_eq!(dev.wait(&plan), 0);
    assert_eq!(dev.json(&["plan", "results", &plan])["results"]["a"]["nights"], 4);
    let (who, answered) = dev.events(&plan, "step_question_answered").remove(0);
    assert_eq!((who.as_str(), &answered["answer"]), ("cli:ann", &json!(4)));
}

#[test]
fn at_a_terminal_a_step_is_shown_and_approved_or_refused() {
    let dev = Dev::start();
    let plan = dev.submit(
        "steps: [{id: book, agent_type: echo, inputs: {stars: 3}, approve: {limit: 2h}}, \
         {id: pay, agent_type: echo, dependencies: [book], approve: {}}]",
    );
    dev.until_waits(&plan, "book");
    let mut terminal = dev.at_terminal(&["plan", "approve", &plan], "true");
    terminal.expect(&format!("goalmill step approve {plan} book"));
    assert_eq!(terminal.end(), 1, "{}", terminal.text);
    let mut terminal = dev.at_terminal(&["step", "approve", &plan, "book"], "true");
    terminal.expect("stars: 3");
    terminal.expect("within 2 h");
    terminal.expect("approve? [y/N/reject]");
    terminal.enter("y");
    terminal.expect("why?");
    terminal.enter("three will do");
    assert_eq!(terminal.end(), 0, "{}", terminal.text);
    dev.until_waits(&plan, "pay");
    let mut terminal = dev.at_terminal(&["step", "approve", &plan, "pay"], "true");
    terminal.expect("approve? [y/N/reject]");
    terminal.enter("reject");
    terminal.expect("why?");
    terminal.enter("no money");
    assert_eq!(terminal.end(), 0, "{}", terminal.text);
    assert_eq!(dev.wait(&plan), 3);
    let (who, approved) = dev.events(&plan, "step_approved").remove(0);
    assert_eq!((who.as_str(), &approved["reason"]), ("cli:ann", &json!("three will do")));
    let (who, failed) = dev.events(&plan, "step_failed").remove(0);
    assert_eq!((who.as_str(), failed.to_string().contains("no money")), ("cli:ann", true), "{failed}");
}

#[test]
fn at_a_terminal_silence_is_seen_to_decide() {
    let dev = Dev::start();
    for (default, end, kind) in [("approve", 0, "plan_approved"), ("reject", 3, "plan_rejected")] {
        let plan =
            dev.submit(&format!("approve: {{limit: 2s, default: {default}}}\nsteps: [{{id: a, agent_type: echo}}]"));
        let mut terminal = dev.at_terminal(&["watch", &plan], "true");
        terminal.expect("waits for approval");
        assert_eq!(terminal.end(), end, "{}", terminal.text);
        let (who, decided) = dev.events(&plan, kind).remove(0);
        assert!(who == "timer" && decided["reason"].is_string(), "{decided}");
    }
    let question = "{question: How many?, schema: {type: integer}, default: 3, limit: 1s, into: n}";
    let plan = dev.submit(&format!("steps: [{{id: a, agent_type: echo, ask: {question}}}]"));
    assert_eq!(dev.wait(&plan), 0);
    assert_eq!(dev.json(&["plan", "results", &plan])["results"]["a"]["n"], 3);
}

#[test]
fn at_a_terminal_a_person_says_how_to_go_on_after_a_failure() {
    let dev = Dev::start();
    let plan = dev
        .submit("steps: [{id: a, agent_type: fail, retry: {max: 0}, on_failure: ask_user}, {id: b, agent_type: echo}]");
    let mut terminal = dev.at_terminal(&["watch", &plan], "true");
    terminal.expect("how to go on without a");
    let mut decides = dev.at_terminal(&["plan", "approve", &plan], "true");
    decides.expect("✗ a: ");
    decides.expect("yes goes on without it");
    decides.enter("y");
    decides.expect("why?");
    decides.enter("we can do without");
    assert_eq!(decides.end(), 0, "{}", decides.text);
    terminal.expect("resumed by cli:ann: we can do without");
    assert_eq!(terminal.end(), 3, "{}", terminal.text);
    let (who, resumed) = dev.events(&plan, "plan_resumed").remove(0);
    assert_eq!((who.as_str(), &resumed["reason"]), ("cli:ann", &json!("we can do without")));
}

/// A model that answers every failure of `a` with an agent that policy wants a person asked for.
const WIDENS: &str = "
answers:
- when: [retry_with_agent, '`a`']
  json:
    strategy: workaround
    summary: echo can do it
    changes: [{replace_step: {step: a, with: [{id: a2, agent_type: echo, action: echo}]}}]
";
const POLICY: &str = "[planner.policy]\napprove = [\"echo\"]\n";

impl Dev {
    /// A server whose model follows the script, and which has these settings.
    fn scripted(script: &str, settings: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).expect("a temporary file can be written");
            path.to_str().expect("the path is text").to_owned()
        };
        Self::start_with(&["--model-script", &file("m.yaml", script), "--config", &file("c.toml", settings)])
    }

    /// The plan's revision widens it and is refused, with `said` at the terminal and `code` in the log.
    fn refuses_to_widen(&self, plan: &str, said: &[&str], code: &str) {
        let plan = self.submit(plan);
        let mut terminal = self.at_terminal(&["watch", &plan], "true");
        said.iter().for_each(|said| terminal.expect(said));
        assert_eq!(terminal.end(), 3, "{}", terminal.text);
        let (_, told) = self.events(&plan, "revision_refused").remove(0);
        assert_eq!(told["issues"][0]["code"], code, "{told:#}");
        assert_eq!(self.events(&plan, "plan_revised"), []);
    }

    /// The plan's revision widens it, is shown with `said`, and agreed to.
    fn agrees_to_widen(&self, plan: &str, said: &[&str], reason: &str) {
        let plan = self.submit(plan);
        let mut watching = self.at_terminal(&["watch", &plan], "true");
        watching.expect("a revision waits for approval");
        let mut terminal = self.at_terminal(&["plan", "approve", &plan], "true");
        said.iter().for_each(|said| terminal.expect(said));
        terminal.expect("approve? [y/N/edit/reject]");
        terminal.enter("y");
        terminal.expect("why?");
        terminal.enter(reason);
        assert_eq!(terminal.end(), 0, "{}", terminal.text);
        assert_eq!(watching.end(), 0, "{}", watching.text);
        let (who, revised) = self.events(&plan, "plan_revised").remove(0);
        assert_eq!((who.as_str(), &revised["approved_because"]), ("cli:ann", &json!(reason)));
    }
}

#[test]
fn at_a_terminal_a_revision_that_widens_is_refused_or_shown_and_agreed_to() {
    let dev = Dev::scripted(WIDENS, POLICY);
    let failing = |widen: &str| {
        format!(
            "revision: {{widen: {widen}}}\nsteps: [{{id: a, agent_type: fail, action: fail, retry: {{max: 0}}, \
             on_failure: replan}}, {{id: b, agent_type: sleep, dependencies: [a]}}]"
        )
    };
    let said = ["revision refused: it widens what the plan may do", "echo"];
    dev.refuses_to_widen(&failing("refuse"), &said, "APPROVAL_REQUIRED");
    let said = ["echo can do it", "! it widens the plan:", "confidence 1.00 → 0.85"];
    dev.agrees_to_widen(&failing("approve"), &said, "echo is harmless");

    let rejected = dev.submit(&failing("approve"));
    let mut watching = dev.at_terminal(&["watch", &rejected], "true");
    watching.expect("a revision waits for approval");
    let mut terminal = dev.at_terminal(&["plan", "reject", &rejected], "true");
    terminal.expect("why?");
    terminal.enter("rather not");
    assert_eq!(terminal.end(), 0, "{}", terminal.text);
    watching.expect("rather not");
}

/// A model that answers every failure of `a` with a step that costs more than the plan may.
const SPENDS: &str = "
answers:
- when: [retry_with_agent, '`a`']
  json:
    strategy: workaround
    summary: a taxi instead
    changes:
    - add_step: {step: {id: taxi, agent_type: echo, estimates: {cost: 11}}, before: []}
    - replace_step: {step: a, with: [{id: a2, agent_type: echo, action: echo}]}
";

#[test]
fn at_a_terminal_a_revision_that_spends_more_is_refused_or_shown_and_agreed_to() {
    let dev = Dev::scripted(SPENDS, "");
    let failing = |widen: &str| {
        format!(
            "budget: {{cost: 10}}\nrevision: {{widen: {widen}}}\n\
             steps: [{{id: a, agent_type: fail, action: fail, retry: {{max: 0}}, on_failure: replan}}]"
        )
    };
    dev.refuses_to_widen(&failing("refuse"), &["revision refused: "], "BUDGET_WIDENED");
    let spent = "0.00 dollars are used and 11.00 more estimated, 10 are allowed";
    dev.agrees_to_widen(&failing("approve"), &["a taxi instead", "! it widens the plan:", spent], "it rains");
}

#[test]
fn scripts_decide_with_flags_and_are_never_asked() {
    let dev = Dev::start();
    let plan =
        dev.submit("approve: {}\nsteps: [{id: a, agent_type: echo, inputs: {x: 1, y: 2}}, {id: b, agent_type: echo}]");
    assert_eq!(code(&dev.run(&["plan", "edit", &plan])), 2);
    let edit = ["plan", "edit", &plan, "--set", "a.inputs.x=5", "--set", "a.timeout=9s", "--order", "b,a"];
    let output = dev.run(&[&edit[..], &["--reason", "in turn"]].concat());
    assert_eq!(code(&output), 0, "{}", err(&output));
    let broken = dev.run(&["plan", "edit", &plan, "--depends", "b=a"]);
    assert_eq!(code(&broken), 8, "{}", out(&broken));
    assert!(err(&broken).contains("cycle"), "{}", err(&broken));
    let shown = out(&dev.run(&["plan", "revisions", &plan]));
    assert!(shown.contains("revision 1") && shown.contains("in turn"), "{shown}");
    let shown = out(&dev.run(&["plan", "diff", &plan, "--revision", "0..1"]));
    assert!(shown.contains("~ a") && shown.contains("timeout_ms: – → 9000"), "{shown}");
    let output = dev.run(&["plan", "approve", &plan, "--set", "b.inputs.z=1", "--reason", "good"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert_eq!(dev.wait(&plan), 0);
    let results = dev.json(&["plan", "results", &plan]);
    assert_eq!((&results["results"]["a"], &results["results"]["b"]["z"]), (&json!({"x": 5, "y": 2}), &json!(1)));
    let forked = dev.json(&["plan", "fork", &plan, "--input", "a.x=7"]);
    let other = forked["plan_id"].as_str().expect("it has an id");
    assert_eq!(code(&dev.run(&["plan", "approve", other])), 0, "a fork asks for the approval that its plan asked for");
    assert_eq!(dev.wait(other), 0);
    assert_eq!(dev.json(&["plan", "results", other])["results"]["a"]["x"], 7);
    let compared = dev.json(&["plan", "diff", &plan, other]);
    assert_eq!(compared["modified"][0]["step"], "a");
    assert_eq!(
        compared["outcomes"][0],
        json!({"step": "a", "a": "completed", "b": "completed", "same_outputs": false})
    );
}

#[test]
fn waiting_says_what_to_type() {
    let dev = Dev::start();
    let wait = ["run", "-", "--wait"];
    let ask = "{question: Which one?, schema: {enum: [sea, city]}}";
    let asked = dev.run_with(&wait, &format!("steps: [{{id: a, agent_type: echo, ask: {ask}}}]"));
    assert_eq!(code(&asked), 7);
    assert!(err(&asked).contains("Which one?") && err(&asked).contains("goalmill step answer"), "{}", err(&asked));
    let explained = out(&dev.run(&["explain", "@latest"]));
    assert!(explained.contains("goalmill step answer"), "{explained}");
    assert_eq!(code(&dev.run(&["step", "answer", "@latest", "a", "hills"])), 8);
    assert_eq!(code(&dev.run(&["step", "answer", "@latest", "a", "city", "--reason", "museums"])), 0);
    assert_eq!(dev.wait("@latest"), 0);
    let failing =
        "steps: [{id: a, agent_type: fail, retry: {max: 0}, on_failure: ask_user}, {id: b, agent_type: echo}]";
    let stuck = dev.run_with(&wait, failing);
    assert_eq!(code(&stuck), 7, "{}", err(&stuck));
    assert!(err(&stuck).contains("goalmill plan approve"), "{}", err(&stuck));
    let plan = dev.json(&["plan", "get", "@latest"])["plan_id"].as_str().expect("it has an id").to_owned();
    assert_eq!(code(&dev.run(&["plan", "approve", &plan, "--reason", "we can do without"])), 0);
    assert_eq!(dev.wait(&plan), 3);
    assert_eq!(dev.events(&plan, "plan_resumed")[0].1["reason"], "we can do without");
    let goal = dev.run(&["submit", "Water the plants", "--require-approval", "--wait"]);
    assert_eq!(code(&goal), 7, "{}", err(&goal));
}
