//! The program as people meet it: the real binary, its output, its exit codes.

mod approvals;
mod health;
mod rules;
mod terminal;
mod tokens;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

const GOAL: &str = "Plan a 3-day trip to Paris in May with a $2000 budget";

fn goalmill() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_goalmill"));
    command
        .env_remove("GOALMILL_SERVER")
        .env_remove("GOALMILL_REDIS_URL")
        .env_remove("GOALMILL_CONFIG")
        .env_remove("GOALMILL_TOKEN")
        .env_remove("GOALMILL_CA_FILE")
        .env("HOME", "/nowhere");
    command
}

fn run(args: &[&str]) -> Output {
    goalmill().args(args).stdin(Stdio::null()).output().expect("the program runs")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("the program ended by itself")
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("the output is text")
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("the messages are text")
}

/// A running `goalmill dev`.
struct Dev {
    child: Child,
    server: String,
}

impl Dev {
    fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(args: &[&str]) -> Self {
        Self::start_in(args, &[])
    }

    /// With variables of the environment.
    fn start_in(args: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut child = goalmill()
            .envs(environment.iter().copied())
            .args(["dev", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let banner = BufReader::new(child.stdout.take().expect("its output is piped"));
        let lines = banner.lines().map(|line| line.expect("the banner is text"));
        let banner: Vec<String> = lines.take_while(|line| !line.starts_with("Ctrl-C")).collect();
        let server = banner
            .iter()
            .find_map(|line| Some(line.trim().strip_prefix("API")?.trim().strip_suffix("/v1")?.to_owned()))
            .expect("the banner names the API");
        Self { child, server }
    }

    fn run(&self, args: &[&str]) -> Output {
        run(&[args, &["--server", &self.server]].concat())
    }

    fn run_with(&self, args: &[&str], input: &str) -> Output {
        let mut child = goalmill()
            .args(args)
            .args(["--server", &self.server])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stdin = child.stdin.take().expect("its input is piped");
        stdin.write_all(input.as_bytes()).expect("it reads its input");
        drop(stdin);
        child.wait_with_output().expect("the program ends")
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.run(&[args, &["-o", "json"]].concat());
        assert_eq!(code(&output), 0, "{}", err(&output));
        serde_json::from_slice(&output.stdout).expect("the output is JSON")
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn the_demo_shows_parallel_steps_a_wait_and_a_bill_that_adds_up() {
    let output = run(&["dev", "--demo", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]);
    let text = out(&output);
    assert_eq!(code(&output), 0, "{text}{}", err(&output));
    for part in ["demo data, not real prices", GOAL, "ran beside", "as told", "within budget, 482.60 USD left"] {
        assert!(text.contains(part), "`{part}` is missing in\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "there are control codes in a pipe:\n{text}");
    let bill = text.split("Results").nth(1).expect("there are results");
    let amounts: Vec<f64> = bill
        .lines()
        .skip(1)
        .filter(|line| !line.contains("budget"))
        .filter_map(|line| line.split_whitespace().last()?.parse().ok())
        .collect();
    let (total, items) = amounts.split_last().expect("there is a total");
    assert!(items.len() >= 4 && (items.iter().sum::<f64>() - total).abs() < 0.005, "{bill}");
}

#[test]
fn a_goal_runs_and_can_be_looked_at_from_every_side() {
    let dev = Dev::start();
    let results = dev.json(&["submit", GOAL, "--wait"]);
    assert_eq!((&results["status"], &results["counts"]["completed"]), (&"completed".into(), &4.into()));
    let id = results["plan_id"].as_str().expect("it has an id").to_owned();

    let output = dev.run(&["plan", "list", "-o", "name"]);
    assert_eq!(out(&output).trim(), id);
    assert_eq!(dev.json(&["plan", "get", "@latest"])["plan_id"], id.as_str());
    assert_eq!(dev.json(&["plan", "get", &id[id.len() - 6..]])["plan_id"], id.as_str());
    assert!(out(&dev.run(&["plan", "show"])).contains("after flights"));
    assert!(out(&dev.run(&["explain", &id])).contains("completed"));
    assert!(out(&dev.run(&["agent", "route", "find a hotel near the Louvre"])).contains("hotel_agent"));
    assert_eq!(code(&dev.run(&["doctor", "--redis", "redis://127.0.0.1:1"])), 1);
    assert_eq!(code(&dev.run(&["plan", "get", "p0-0000000000000000"])), 5);
    assert_eq!(code(&dev.run(&["plan", "pause", &id])), 1);
}

#[test]
fn a_plan_that_moves_is_drawn_with_its_clean_up() {
    let dev = Dev::start();
    let saga = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples/saga.yaml");
    let id = out(&dev.run(&["run", saga, "-o", "name"])).trim().to_owned();
    let drawn = out(&dev.run(&["plan", "show", &id]));
    for part in ["waits for event payment of {{ steps.trip.outputs.trip }}", "  clean-up", "undoes hotel", "always"] {
        assert!(drawn.contains(part), "`{part}` is missing in\n{drawn}");
    }
    let dot = out(&dev.run(&["plan", "show", &id, "--as", "dot"]));
    assert!(dot.contains("subgraph cluster_cleanup") && dot.contains("\"hotel\" -> \"hotel:undo\""), "{dot}");
    assert_eq!(code(&dev.run(&["plan", "cancel", &id])), 0);
    let shown = out(&dev.run(&["plan", "get", &id]));
    let place = |part: &str| shown.find(part).unwrap_or_else(|| panic!("`{part}` is missing in\n{shown}"));
    assert!(place("  payment ") < place("undoes hotel") && place("undoes flight") < place("always"), "{shown}");
}

#[test]
fn an_exported_log_replays_to_the_served_state_and_a_damaged_one_does_not() {
    let dev = Dev::start();
    dev.json(&["submit", GOAL, "--wait"]);
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("a temporary file can be written");
        path.to_str().expect("the path is text").to_owned()
    };
    let log = out(&dev.run(&["events", "@latest", "-o", "jsonl"]));
    for line in log.lines() {
        let event: Value = serde_json::from_str(line).expect("each line is an event");
        assert!(event["seq"].is_u64() && event["type"].is_string() && event["time"].is_string(), "{line}");
    }
    let state = file("state.json", &out(&dev.run(&["plan", "get", "@latest", "-o", "json"])));
    let whole = run(&["replay", &file("log", &log), "--expect", &state]);
    assert_eq!(code(&whole), 0, "{}", err(&whole));
    let gap: String = log.lines().enumerate().filter(|(n, _)| *n != 4).map(|(_, line)| format!("{line}\n")).collect();
    let damaged = run(&["replay", &file("gap", &gap)]);
    assert_eq!(code(&damaged), 8);
    assert!(["line 5", "event 6", "event 4"].iter().all(|part| err(&damaged).contains(part)), "{}", err(&damaged));
}

#[test]
fn plans_end_with_exit_codes_that_scripts_can_use() {
    let dev = Dev::start();
    let wait = ["run", "-", "--wait"];
    let plan = |rest: &str| format!("steps: [{{id: a, {rest}}}]");
    assert_eq!(code(&dev.run_with(&wait, &plan("agent_type: echo"))), 0);
    assert_eq!(code(&dev.run_with(&wait, &plan("agent_type: fail"))), 3);
    assert_eq!(code(&dev.run_with(&wait, &plan("agent_type: echo, approve: {}"))), 7);
    let slow = plan("agent_type: sleep, inputs: {seconds: 30}");
    let late = dev.run_with(&["run", "-", "--wait", "--timeout", "300ms", "-o", "json"], &slow);
    assert_eq!(code(&late), 6);
    let told: Value = serde_json::from_str(&out(&late)).expect("a program still learns the plan's id");
    assert!(told["plan_id"].is_string(), "{told}");
    assert!(err(&late).contains("goalmill plan cancel"), "{}", err(&late));
    assert_eq!(code(&dev.run(&["plan", "cancel", "@latest", "--reason", "enough"])), 0);
    assert_eq!(code(&dev.run(&["watch", "@latest"])), 3);
    let cycle = dev.run_with(&["run", "-"], "steps: [{id: a, agent_type: echo, dependencies: [a]}]");
    assert_eq!(code(&cycle), 8);
    assert!(err(&cycle).contains("/steps/0/dependencies/0"), "{}", err(&cycle));
    assert!(err(&cycle).contains("┌ standard input:1: steps: [{id: a"), "{}", err(&cycle));
}

#[test]
fn an_imported_trace_runs() {
    let dev = Dev::start();
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/diamond.wfformat.json");
    let plan = run(&["import", "wfformat", trace.to_str().expect("the path is text"), "--time-scale", "0"]);
    assert_eq!(code(&plan), 0, "{}", err(&plan));
    let output = dev.run_with(&["run", "-", "--wait", "-o", "json"], &out(&plan));
    let results: Value = serde_json::from_slice(&output.stdout).expect("the output is JSON");
    let steps: Vec<&String> = results["results"].as_object().expect("there are results").keys().collect();
    assert_eq!(steps, ["split_ID01", "left.1", "right_2", "merge"]);
}

#[test]
fn a_file_in_place_of_a_goal_is_refused_with_the_command_that_submits_it() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    let name = file.path().to_str().expect("the path is text");
    let refused = run(&["submit", name, "--server", "http://127.0.0.1:1"]);
    assert_eq!(code(&refused), 2, "{}", err(&refused));
    assert!(err(&refused).contains(&format!("goalmill submit --file {name}")), "{}", err(&refused));
}

#[test]
fn what_is_not_there_is_unreachable_and_says_what_to_do() {
    let server = run(&["plan", "list", "--server", "http://127.0.0.1:1", "--retry-for", "0"]);
    assert_eq!(code(&server), 69);
    assert!(err(&server).contains("goalmill dev"), "{}", err(&server));
    assert_eq!(code(&run(&["submit", "x", "--redis", "redis://127.0.0.1:1"])), 69);
    let problem = run(&["plan", "list", "--server", "http://127.0.0.1:1", "--retry-for", "0", "-o", "json"]);
    let problem: Value = serde_json::from_str(&err(&problem)).expect("it is a problem object");
    assert_eq!(problem["exit_code"], 69);
    assert_eq!(code(&run(&["fly"])), 2);
    assert_eq!(code(&run(&["run", "/nowhere/plan.yaml"])), 5);
}

#[test]
fn a_budget_that_the_shell_ate_is_noticed() {
    let output = run(&["submit", "Plan a trip with a 000 budget", "--server", "http://127.0.0.1:1"]);
    assert!(err(&output).contains("000"), "{}", err(&output));
}

#[test]
fn codes_are_explained_without_a_server() {
    let cycle = run(&["explain", "PLAN_CYCLE"]);
    assert_eq!(code(&cycle), 0, "{}", err(&cycle));
    assert!(out(&cycle).contains("PLAN_CYCLE"), "{}", out(&cycle));
    let http: Value = serde_json::from_str(&out(&run(&["explain", "HTTP_503", "-o", "json"]))).expect("it is JSON");
    assert_eq!((&http["code"], &http["kind"]), (&"HTTP_NNN".into(), &"failure".into()));
    let unknown = run(&["explain", "PLAN_CICLE"]);
    assert_eq!(code(&unknown), 5);
    assert!(err(&unknown).contains("`PLAN_CYCLE`"), "{}", err(&unknown));
    let all = out(&run(&["explain", "--codes", "-o", "name"]));
    assert!(all.lines().any(|line| line == "REDIS_UNSAFE") && all.lines().count() > 100, "{all}");
}

#[test]
fn the_program_says_its_version_and_writes_its_manual() {
    let version: Value = serde_json::from_str(&out(&run(&["version", "-o", "json"]))).expect("it is JSON");
    let commit = version["commit"].as_str().expect("it is a text");
    assert!(
        commit == "unknown" || commit.len() == 12 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{commit}"
    );
    assert_eq!(out(&run(&["version"])), format!("goalmill {} ({commit})\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    assert!(version["protocol"].is_string() || version["protocol"].is_u64(), "{version}");
    assert_eq!(version["features"], json!(["mcp", "otel", "postgres"]));
    assert!(out(&run(&["man"])).contains(".TH goalmill 1"));
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let pages = dir.path().join("man1");
    let written = run(&["man", pages.to_str().expect("the path is text"), "-o", "name"]);
    assert_eq!(code(&written), 0, "{}", err(&written));
    assert!(out(&written).lines().count() > 50, "{}", out(&written));
    let page = std::fs::read_to_string(pages.join("goalmill-plan-edit.1")).expect("each command has its page");
    assert!(page.contains("goalmill\\-plan\\-edit") && page.contains("revision"), "{page}");
    assert_eq!(code(&run(&["man", "/proc/nowhere"])), 1);
}

#[test]
fn people_choose_how_much_they_see_and_how_times_look() {
    let dev = Dev::start();
    let id = dev.json(&["submit", GOAL, "--wait"])["plan_id"].as_str().expect("it has an id").to_owned();
    let table = out(&dev.run(&["plan", "list"]));
    let wide = out(&dev.run(&["plan", "list", "-o", "wide"]));
    assert!(!table.contains("TOKENS") && wide.contains("TOKENS") && wide.contains("AGE"), "{table}{wide}");
    assert!(out(&dev.run(&["plan", "get", &id, "-o", "wide"])).contains("WORKER"));
    assert!(out(&dev.run(&["agent", "list", "-o", "wide"])).contains("CAPABILITIES"));
    let created = dev.json(&["plan", "get", &id])["created_at"].as_str().expect("it has a time").to_owned();
    let iso = out(&dev.run(&["plan", "list", "--time-format", "iso"]));
    assert!(iso.contains("CREATED") && iso.contains(&created[..19]), "{iso}");
    let raw = out(&dev.run(&["events", &id, "--time-format", "raw"]));
    let first = raw.lines().next().and_then(|line| line.split_whitespace().nth(1)).expect("there is an event");
    assert!(first.len() == 13 && first.bytes().all(|b| b.is_ascii_digit()), "{raw}");
    let none = dev.run(&["plan", "results", &id, "-o", "none"]);
    assert_eq!((code(&none), out(&none)), (0, String::new()));
    assert_eq!(code(&dev.run(&["plan", "wait", &id, "--timeout", "60s"])), 0);
    assert_eq!(out(&dev.run(&["plan", "list", "--since", "1h", "-o", "name"])).trim(), id);
    assert_eq!(code(&dev.run(&["dead", "get", "echo", "1-0"])), 5);
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_is_asked() {
    let address = run(&["scheduler", "--redis", "http://127.0.0.1:1"]);
    assert_eq!(code(&address), 8, "{}", err(&address));
    assert!(err(&address).contains("`redis.url`"), "{}", err(&address));
    assert_eq!(code(&run(&["submit", "x", "--redis", "http://127.0.0.1:1"])), 8);
    for command in ["events", "logs"] {
        let unknown = run(&[command, "--types", "plan_created,step_fail"]);
        assert_eq!(code(&unknown), 2);
        assert!(err(&unknown).contains("'step_fail'") && err(&unknown).contains("'step_failed'"), "{}", err(&unknown));
    }
    for limit in ["0", "501"] {
        let none = run(&["plan", "list", "--limit", limit]);
        assert_eq!(code(&none), 2);
        assert!(err(&none).contains("1..=500"), "{}", err(&none));
    }
}

#[test]
fn a_directory_that_is_a_file_is_named() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    let path = file.path().to_str().expect("the path is text");
    let dev = run(&["dev", "--data-dir", path, "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]);
    assert_ne!(code(&dev), 0);
    assert!(err(&dev).contains(path) && err(&dev).contains("--data-dir"), "{}", err(&dev));
}

#[test]
fn the_end_of_a_plan_is_an_event_of_the_steps_that_it_cancels() {
    let dev = Dev::start();
    let plan = "steps: [{id: a, agent_type: nobody}, {id: b, agent_type: echo, depends_on: [a]}]";
    let id = out(&dev.run_with(&["run", "-", "-o", "name"], plan)).trim().to_owned();
    assert_eq!(code(&dev.run(&["plan", "cancel", &id])), 0);
    for command in [&["events", &id, "--step", "b", "-o", "jsonl"][..], &["logs", "--step", "b", "-o", "jsonl"]] {
        let found = out(&dev.run(command));
        assert!(found.lines().count() == 1 && found.contains("step_cancelled"), "{command:?}: {found}");
    }
}

#[test]
fn a_plan_that_spends_more_than_its_hard_budget_fails() {
    let dev = Dev::start();
    let plan = "goal: {description: x, constraints: {budget: {value: 9 USD, hard: true}}}\n\
                steps: [{id: a, agent_type: spend, inputs: {cost: 10}}]";
    let sent = dev.run_with(&["run", "-", "--wait", "-o", "json"], plan);
    assert_eq!(code(&sent), 3, "{}", err(&sent));
    let results: serde_json::Value = serde_json::from_str(&out(&sent)).expect("the results are JSON");
    assert_eq!((&results["constraints"][0]["status"], &results["usage"]["cost"]), (&"broken".into(), &10.0.into()));
}

#[test]
fn plans_that_gave_nothing_say_so() {
    let dev = Dev::start();
    let plan = "name: waits\nsteps: [{id: a, agent_type: nobody}]";
    let sent = dev.run_with(&["run", "-", "-o", "name"], plan);
    assert!(err(&sent).contains("`nobody`"), "{}", err(&sent));
    let id = out(&sent).trim().to_owned();
    assert_eq!(code(&dev.run(&["plan", "cancel", &id])), 0);
    assert_eq!(code(&dev.run(&["plan", "wait", &id])), 3);
    let of_step = out(&dev.run(&["events", &id, "--step", "a", "-o", "jsonl"]));
    assert!(of_step.lines().last().is_some_and(|line| line.contains("step_cancelled")), "{of_step}");
    let listed = out(&dev.run(&["plan", "list"]));
    assert!(listed.contains(" 0/1 "), "{listed}");
    let results = out(&dev.run(&["plan", "results", &id]));
    assert!(results.lines().count() == 1 && results.contains("cancelled"), "{results}");

    let failed = dev.run(&["submit", "Do the unheard-of", "--planner", "htn", "--only", "--wait", "-o", "json"]);
    assert_eq!(code(&failed), 3, "{}", err(&failed));
    let unplanned = dev.json(&["plan", "list"])["items"][0]["plan_id"].as_str().expect("it has an id").to_owned();
    assert!(out(&dev.run(&["plan", "show", &unplanned])).contains("no steps yet"));
    for looked_at in [vec!["plan", "export", &unplanned], vec!["plan", "diff", &unplanned, &id]] {
        let refused = dev.run(&looked_at);
        assert_eq!(code(&refused), 1, "{}", err(&refused));
        assert!(err(&refused).contains("failed"), "{}", err(&refused));
    }
}

#[test]
fn a_log_without_its_end_says_so() {
    let dev = Dev::start();
    let sent = dev.run_with(&["run", "-", "--wait", "-o", "name"], "steps: [{id: a, agent_type: echo}]");
    assert_eq!(code(&sent), 0, "{}", err(&sent));
    let whole = out(&dev.run(&["events", "@latest", "-o", "jsonl"]));
    let end = whole.trim_end().rfind('\n').expect("there are several events");
    let said = |log: &str| out(&dev.run_with(&["replay", "-", "-o", "table"], log));
    let lines = |log: &str| said(log).lines().count();
    assert_eq!(lines(&whole[..=end]), lines(&whole) + 1, "{}", said(&whole[..=end]));
}
