//! The first five minutes of a reader: the commands of the README are run as they stand there, and print what it shows.
//! On loopback, at free ports, without Redis.

use std::process::Output;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use goalmill_tests::dev::{Dev, program};
use goalmill_tests::wait::{SOON, until};
use tokio::time::Instant;

use crate::docs::{blocks, read};

/// The whole walk, once the program is built.
const LIMIT: Duration = Duration::from_mins(5);
/// Free ports in place of those that a reader has.
const FREE_PORTS: [&str; 4] = ["--listen", "127.0.0.1:0", "--metrics", "off"];
/// The plan that the README has checked; its issues are on the page.
const BAD_PLAN: &str = "steps:\n- {id: flights, agent_type: echo}\n- {id: hotels, agent_type: echo, depends_on: [flihgts]}\n\
                        - {id: x, agent_type: echo, depends_on: [z]}\n- {id: z, agent_type: echo, depends_on: [x]}\n";

#[tokio::test(flavor = "multi_thread")]
async fn the_first_five_minutes_are_as_the_readme_says() -> Result<()> {
    let begun = Instant::now();
    let page = read("README.md");
    let demo = section(&page, "## Try it")?;
    let commands: Vec<String> = blocks(demo, "bash");
    assert_eq!(commands.concat().trim(), "cargo run -- dev --demo");
    let shown = blocks(demo, "text").into_iter().next().context("its output is shown")?;
    show_demo(&shown)?;

    let own = section(&page, "## Run a plan of your own, and kill it")?;
    let typed = blocks(own, "bash").concat();
    let commands: Vec<&str> = typed.lines().collect();
    let build = ["cargo build -p goalmill", "export PATH=\"$PWD/target/debug:$PATH\""];
    assert_eq!(commands, [&build[..], &["goalmill dev --data-dir ./data"]].concat(), "say here how it is tried");
    let data = tempfile::tempdir()?;
    let arguments = ["--data-dir", data.path().to_str().context("a temporary directory has a plain name")?];
    let mut dev = Dev::start(&arguments, "").await?;
    let plan = blocks(own, "yaml").into_iter().next().context("the README has a plan")?;
    std::fs::write(dev.file("nightly.yaml"), plan)?;
    std::fs::write(dev.file("bad.yaml"), BAD_PLAN)?;
    let sessions = blocks(own, "console");
    let [run, watch, validate] = &sessions[..] else { bail!("a plan is run and watched, and a bad one is checked") };
    let said = show(&dev, run, "")?;
    let plan = said.split_whitespace().next().context("the plan has an id")?;
    let is_clean_started = |events: &[serde_json::Value]| {
        events.iter().any(|event| event["type"] == "step_started" && event["step_id"] == "clean")
    };
    until(SOON, async || dev.events(plan).is_ok_and(|events| is_clean_started(&events))).await;
    dev.restart(&arguments).await?;
    show(&dev, watch, plan)?;
    show(&dev, validate, "")?;
    assert!(begun.elapsed() < LIMIT, "it took {:?}", begun.elapsed());
    Ok(())
}

/// Runs the command of a session, for `plan` in place of the one that is shown; it prints what is shown.
fn show(dev: &Dev, session: &str, plan: &str) -> Result<String> {
    let (command, expected) = session.split_once('\n').context("output follows the command")?;
    let words = command.strip_prefix("$ goalmill ").with_context(|| format!("`{command}` is no command"))?;
    let words = words.split(' ').map(|word| if word.starts_with("p2-") { plan } else { word });
    let output = program().args(words).args(["--server", dev.server()]).current_dir(dev.file("")).output()?;
    let said = text_of(&output)?;
    assert_eq!(comparable(&said), comparable(expected), "`{command}` says\n{said}\nand the README\n{expected}");
    Ok(said)
}

/// Runs the demo; what it prints is what the page shows between lines `…`, and begins as the page does.
fn show_demo(shown: &str) -> Result<()> {
    let output = program().args(["dev", "--demo"]).args(FREE_PORTS).output()?;
    let said = text_of(&output)?;
    ensure!(output.status.success(), "it ended with {}: {said}", output.status);
    let [banner, rest, ""] = shown.split("…\n").collect::<Vec<_>>()[..] else {
        bail!("the page leaves out two parts")
    };
    assert!(said.starts_with(banner), "{said}");
    let first = rest.lines().next().context("the page shows the command")?;
    let (_, run) = said.split_once(first).with_context(|| format!("`{first}` is missing in\n{said}"))?;
    let (run, _) = run.split_once("\n\n").context("the results follow")?;
    let expected = rest.strip_prefix(first).context("it is its beginning")?;
    assert_eq!(comparable(run), comparable(expected), "the demo says\n{run}\nand the README\n{expected}");
    Ok(())
}

fn text_of(output: &Output) -> Result<String> {
    let text = String::from_utf8(output.stdout.clone())?;
    ensure!(!text.is_empty(), "nothing is printed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(text)
}

/// The text from a heading to the next one.
fn section<'a>(page: &'a str, heading: &str) -> Result<&'a str> {
    let (_, rest) = page.split_once(&format!("{heading}\n")).with_context(|| format!("there is no `{heading}`"))?;
    Ok(rest.split("\n## ").next().unwrap_or(rest))
}

/// Its lines with one space for many, `#` for each number and `PLAN` for each id of a plan. They are sorted: steps that
/// run beside each other begin and end in any order.
fn comparable(text: &str) -> Vec<String> {
    let word = |word: &str| match word.split_once('-') {
        Some((shard, rest)) if shard.starts_with('p') && rest.len() == 16 && shard.len() < 5 => "PLAN".to_owned(),
        Some(_) | None => numbers_hidden(word),
    };
    let line = |line: &str| line.split_whitespace().map(word).collect::<Vec<_>>().join(" ");
    let mut lines: Vec<String> = text.lines().map(line).filter(|line| !line.is_empty()).collect();
    lines.sort();
    lines
}

fn numbers_hidden(word: &str) -> String {
    let mut out = String::new();
    for c in word.chars() {
        match c {
            '0'..='9' if out.ends_with('#') => {}
            '0'..='9' => out.push('#'),
            '.' if out.ends_with('#') && !word.ends_with('.') => {}
            other => out.push(other),
        }
    }
    out
}

#[test]
fn only_numbers_ids_and_order_may_differ() {
    let one = "p2-nevy59wc240xxnt9 completed in 2.6 s\n  ✓ hotels   504.00 USD";
    assert_eq!(comparable(one), comparable("✓ hotels 12 USD\np0-aevy59wc240xxnt9 completed in 12 s\n\n"));
    assert_ne!(comparable(one), comparable("✓ hotels 12 EUR\np0-aevy59wc240xxnt9 completed in 12 s"));
    assert_ne!(comparable(one), comparable("✓ hotels 12 USD\np0-aevy59wc240xxnt9 failed in 12 s"));
}
