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
    let breaking = "sed -i 's/agent_type: echo/agent_type: echo\\n  dependencies: [ghost]/'";
    let mut terminal = dev.at_terminal(&["plan", "edit", &plan, "--reason", "haste"], breaking);
    terminal.expect("ghost");
    terminal.expect("edit again? [Y/n]");
    terminal.enter("n");
    assert_eq!(terminal.end(), 8, "{}", terminal.text);
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
    // It asks for approval as the plan did that it comes from.
    assert_eq!(code(&dev.run(&["plan", "approve", other])), 0);
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
    assert!(explained.contains("a person must answer `a`"), "{explained}");
    assert_eq!(code(&dev.run(&["step", "answer", "@latest", "a", "hills"])), 8);
    assert_eq!(code(&dev.run(&["step", "answer", "@latest", "a", "city", "--reason", "museums"])), 0);
    assert_eq!(dev.wait("@latest"), 0);
    let failing =
        "steps: [{id: a, agent_type: fail, retry: {max: 0}, on_failure: ask_user}, {id: b, agent_type: echo}]";
    let stuck = dev.run_with(&wait, failing);
    assert_eq!(code(&stuck), 7, "{}", err(&stuck));
    assert!(err(&stuck).contains("asks how to go on without step a"), "{}", err(&stuck));
    let plan = dev.json(&["plan", "get", "@latest"])["plan_id"].as_str().expect("it has an id").to_owned();
    assert_eq!(code(&dev.run(&["plan", "approve", &plan, "--reason", "we can do without"])), 0);
    assert_eq!(dev.wait(&plan), 3);
    assert_eq!(dev.events(&plan, "plan_resumed")[0].1["reason"], "we can do without");
    let goal = dev.run(&["submit", "Water the plants", "--require-approval", "--wait"]);
    assert_eq!(code(&goal), 7, "{}", err(&goal));
}
