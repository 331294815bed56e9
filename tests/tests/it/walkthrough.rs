//! What pages let a reader do: the plans that they show are saved, and the commands are run and print what is shown.
//! On loopback, at free ports, without Redis.

use std::process::Output;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use goalmill_tests::dev::{Dev, program};
use goalmill_tests::wait::{SOON, until, until_some};
use tokio::time::Instant;

use crate::docs::{blocks, fenced, read, words};

/// The README, once the program is built.
const LIMIT: Duration = Duration::from_mins(5);
/// Free ports in place of those that a reader has.
const FREE_PORTS: [&str; 4] = ["--listen", "127.0.0.1:0", "--metrics", "off"];
/// Commands that wait for what they show, which happens soon.
const LOOKS: [&str; 1] = ["explain"];

#[tokio::test(flavor = "multi_thread")]
async fn the_first_five_minutes_are_as_the_readme_says() -> Result<()> {
    let begun = Instant::now();
    let page = read("README.md");
    let demo = section(&page, "## Try it")?;
    let commands: Vec<String> = blocks(demo, "bash");
    assert_eq!(commands.concat().trim(), "cargo run -- dev --demo");
    let shown = blocks(demo, "text").into_iter().next().context("its output is shown")?;
    let output = program().args(["dev", "--demo"]).args(FREE_PORTS).output()?;
    let said = text_of(output)?;
    assert!(is_as_shown(&said, &shown), "the demo says\n{said}\nand the page\n{shown}");

    let own = section(&page, "## Run a plan of your own")?;
    assert!(own.contains("start `goalmill dev` in one terminal"), "say here how it is tried");
    walk(&Dev::start(&[], "").await?, own).await?;
    assert!(begun.elapsed() < LIMIT, "it took {:?}", begun.elapsed());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tutorial_is_as_it_says() -> Result<()> {
    let page = read("docs/tutorial.md");
    assert_eq!(blocks(&page, "bash").concat(), "goalmill dev\n", "say here how it is tried");
    walk(&Dev::start(&[], "").await?, &page).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_goes_on_after_a_kill_as_the_page_says() -> Result<()> {
    let page = read("docs/durability.md");
    let kill = section(&page, "## Try it")?;
    assert_eq!(blocks(kill, "bash").concat(), "goalmill dev --data-dir ./data\n", "say here how it is tried");
    let data = tempfile::tempdir()?;
    let arguments = ["--data-dir", data.path().to_str().context("a temporary directory has a plain name")?];
    let mut dev = Dev::start(&arguments, "").await?;
    let (before, after) = kill.split_once("The next process").context("the page says what happens next")?;
    walk(&dev, before).await?;
    let is_clean_started = |events: &[serde_json::Value]| {
        events.iter().any(|event| event["type"] == "step_started" && event["step_id"] == "clean")
    };
    until(SOON, async || dev.events("@latest").is_ok_and(|events| is_clean_started(&events))).await;
    dev.restart(&arguments).await?;
    walk(&dev, after).await
}

/// Saves the plans of a part of a page, which say `# NAME.yaml` in their first line, and runs the commands of its sessions,
/// all in their order.
async fn walk(dev: &Dev, part: &str) -> Result<()> {
    let mut commands = 0;
    for (kind, block) in fenced(part) {
        let file = block.lines().next().and_then(|line| line.strip_prefix("# ")).map(|name| dev.file(name));
        if let Some(file) = file.filter(|file| file.extension().is_some_and(|end| end == "yaml")) {
            std::fs::write(file, &block)?;
        } else if kind == "console" {
            for session in block.strip_prefix("$ ").context("a session begins with a command")?.split("\n$ ") {
                show(dev, session).await?;
                commands += 1;
            }
        }
    }
    ensure!(commands > 0, "no command is shown");
    Ok(())
}

/// Runs a command; it prints what is shown below it.
async fn show(dev: &Dev, session: &str) -> Result<()> {
    let (command, expected) = session.split_once('\n').context("output follows the command")?;
    let words = words(command);
    let [program_name, arguments @ ..] = &words[..] else { bail!("`{command}` is no command") };
    ensure!(program_name == "goalmill", "`{command}` is none of ours");
    let run = || -> Result<String> {
        let mut command = program();
        command.args(arguments).args(["--server", dev.server()]).current_dir(dev.file("")).env("USER", "ann");
        text_of(command.output()?)
    };
    let is_shown = |said: &String| is_as_shown(said, expected);
    let said = if arguments.first().is_some_and(|verb| LOOKS.contains(&verb.as_str())) {
        until_some(SOON, async || run().ok().filter(is_shown)).await
    } else {
        None
    };
    let said = said.map_or_else(run, Ok)?;
    assert!(is_shown(&said), "`{command}` says\n{said}\nand the page\n{expected}");
    Ok(())
}

fn text_of(output: Output) -> Result<String> {
    Ok(String::from_utf8([output.stdout, output.stderr].concat())?)
}

/// Whether a text has the lines that are shown, and no others unless a line `…` stands for them. They may have another order:
/// steps that run beside each other begin and end in any order.
fn is_as_shown(said: &str, shown: &str) -> bool {
    let mut left = comparable(said);
    let (left_out, lines): (Vec<_>, Vec<_>) = comparable(shown).into_iter().partition(|line| line == "…");
    let all_there = lines.iter().all(|line| {
        let at = left.iter().position(|said| said == line);
        at.map(|at| left.swap_remove(at)).is_some()
    });
    all_there && (left.is_empty() || !left_out.is_empty())
}

/// The text from a heading to the next one.
fn section<'a>(page: &'a str, heading: &str) -> Result<&'a str> {
    let (_, rest) = page.split_once(&format!("{heading}\n")).with_context(|| format!("there is no `{heading}`"))?;
    Ok(rest.split("\n## ").next().unwrap_or(rest))
}

/// Its lines with one space for many, `#` for each number and `ID` for what is drawn at random.
fn comparable(text: &str) -> Vec<String> {
    let word = |word: &str| numbers_hidden(&ids_hidden(word));
    let line = |line: &str| line.split_whitespace().map(word).collect::<Vec<_>>().join(" ");
    text.lines().map(line).filter(|line| !line.is_empty()).collect()
}

/// Hides ids of plans and events (16 letters and digits or more) and of trips (8 hexadecimal digits).
fn ids_hidden(word: &str) -> String {
    let is_id = |part: &&str| {
        let is_hex = |c: char| c.is_ascii_digit() || matches!(c, 'a'..='f');
        let is_small = |c: char| c.is_ascii_digit() || c.is_ascii_lowercase();
        (part.len() == 8 && part.chars().all(is_hex)) || (part.len() >= 16 && part.chars().all(is_small))
    };
    word.split('-').map(|part| Some(part).filter(|part| !is_id(part)).unwrap_or("ID")).collect::<Vec<_>>().join("-")
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
    let said = "p2-nevy59wc240xxnt9 completed in 2.6 s\n  ✓ hotels   504.00 USD  trip-bab843b0-hotel";
    let differs = |from: &str, to: &str| !is_as_shown(said, &said.replace(from, to));
    assert!(is_as_shown(said, "✓ hotels 12 USD trip-c9773542-hotel\np0-aevyxxwcaaaxxnta completed in 12 s\n\n"));
    assert!(is_as_shown(said, "…\n✓ hotels 12 USD trip-c9773542-hotel\n"));
    assert!(!is_as_shown(said, "✓ hotels 12 USD trip-c9773542-hotel\n"), "a line is left out in silence");
    assert!(!is_as_shown(said, &format!("…\n{said}\n  ✓ flights\n")), "a line is not said");
    assert!(differs("USD", "EUR") && differs("completed", "failed") && differs("-hotel", "-flight"));
}
