//! Ten goals that no rule knows, done by the shipped agents with a scripted model: real files and answers, each checked by a program.
//!
//! The model says what it is scripted to say; the texts pass through planner, validation, agents, tools and files. A turn may
//! require that the result of an earlier one is in its prompt.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use goalmill_tests::dev::Dev;
use serde_json::{Value, json};

/// A goal, the plan that the model makes, and what it does in each step.
struct Case {
    goal: &'static str,
    steps: Vec<StepScript>,
    check: fn(&Done) -> Result<()>,
}

/// A step of the plan and the turns of its agent.
struct StepScript {
    plan: Value,
    turns: Vec<Turn>,
}

/// One call of a tool; `needs` must be in the prompt.
struct Turn {
    tool: &'static str,
    arguments: Value,
    needs: &'static str,
}

/// The files and results of a plan that ended.
struct Done {
    dir: PathBuf,
    results: Value,
}

impl Done {
    fn text(&self, path: &str) -> Result<String> {
        std::fs::read_to_string(self.dir.join(path)).with_context(|| format!("`{path}` of {}", self.dir.display()))
    }
}

/// A step after those in `after`; its description is unique.
fn step<const N: usize>(
    (id, agent_type, action): (&str, &str, &str),
    description: &str,
    inputs: Value,
    after: &[&str],
    turns: [Turn; N],
) -> StepScript {
    let plan = json!({"id": id, "agent_type": agent_type, "action": action, "description": description, "inputs": inputs,
                      "dependencies": after});
    StepScript { plan, turns: turns.into() }
}

fn turn(tool: &'static str, arguments: Value) -> Turn {
    Turn { tool, arguments, needs: "" }
}

fn write(path: &str, text: &str) -> Turn {
    turn("write_file", json!({"path": path, "text": text}))
}

fn answer(arguments: Value) -> Turn {
    turn("final_answer", arguments)
}

impl Turn {
    fn needs(self, needs: &'static str) -> Self {
        Self { needs, ..self }
    }
}

const ORDERS: &str = "item,amount\ntea,3\n tin ,5\ntea,3\nsalt,\nrice,8\n";
const CLEAN_ORDERS: &str = "item,amount\nrice,8\ntea,3\ntin,5\n";
const CHART: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"90\" height=\"80\">\
    <rect x=\"0\" y=\"0\" width=\"20\" height=\"80\"><title>rice</title></rect>\
    <rect x=\"30\" y=\"50\" width=\"20\" height=\"30\"><title>tea</title></rect>\
    <rect x=\"60\" y=\"30\" width=\"20\" height=\"50\"><title>tin</title></rect></svg>\n";

fn report() -> Case {
    let text = "# Owls in the old mill\n\n## Findings\n\n- Two barn owls nest below the roof.\n- They eat 4,000 mice a year.\n\n\
                ## Sources\n\n- inputs\n";
    Case {
        goal: "Tell the mill friends in owls.md how the owls in the old mill live",
        steps: vec![
            step(
                ("facts", "research_agent", "research"),
                "Gather what is known of the owls",
                json!({"topic": "owls", "notes": "Two barn owls nest below the roof. They eat 4,000 mice a year."}),
                &[],
                [
                    turn("search_outputs", json!({"query": "mice"})),
                    answer(json!({"findings": [{"text": "Two barn owls eat 4,000 mice a year.", "source": "inputs"}]}))
                        .needs("4,000 mice"),
                ],
            ),
            step(
                ("report", "writer_agent", "write"),
                "Set down the life of the owls",
                json!({"title": "Owls", "path": "owls.md", "findings": "{{ steps.facts.outputs.findings }}"}),
                &["facts"],
                [write("owls.md", text).needs("Two barn owls eat"), answer(json!({"text": text, "path": "owls.md"}))],
            ),
        ],
        check: |done| {
            let text = done.text("owls.md")?;
            let heads = text.lines().filter(|line| line.starts_with('#')).count();
            ensure!(heads == 3 && text.contains("4,000 mice"), "{text}");
            ensure!(done.results["report"]["text"] == text.as_str(), "the answer is the file");
            Ok(())
        },
    }
}

fn cleaned_table_with_chart() -> Case {
    Case {
        goal: "Tidy the pantry orders into pantry/clean.csv and draw pantry/chart.svg",
        steps: vec![
            step(
                ("clean", "data_agent", "transform"),
                "Tidy the pantry table",
                json!({"task": "trim, drop duplicates and empty amounts, sort by item", "csv": ORDERS}),
                &[],
                [
                    write("pantry/clean.csv", CLEAN_ORDERS).needs("tin ,5"),
                    answer(
                        json!({"path": "pantry/clean.csv", "rows": 3, "changes": ["1 duplicate", "1 empty amount"]}),
                    ),
                ],
            ),
            step(
                ("chart", "data_agent", "transform"),
                "Draw bars of the pantry table",
                json!({"task": "bar chart as SVG", "path": "{{ steps.clean.outputs.path }}"}),
                &["clean"],
                [
                    turn("read_file", json!({"path": "pantry/clean.csv"})),
                    write("pantry/chart.svg", CHART).needs("rice,8"),
                    answer(json!({"path": "pantry/chart.svg", "rows": 3, "changes": []})),
                ],
            ),
        ],
        check: |done| {
            let table = done.text("pantry/clean.csv")?;
            let rows: Vec<(&str, u32)> =
                table.lines().skip(1).filter_map(|line| line.split_once(',')).map(parse_row).collect::<Result<_>>()?;
            let items: BTreeSet<&str> = rows.iter().map(|(item, _)| *item).collect();
            ensure!(items.len() == 3 && rows.is_sorted(), "{table}");
            let chart = done.text("pantry/chart.svg")?;
            ensure!(is_well_formed(&chart), "{chart}");
            let heights: Vec<u32> =
                attributes(&chart, "rect", "height").iter().filter_map(|text| text.parse().ok()).collect();
            ensure!(heights == rows.iter().map(|(_, amount)| amount * 10).collect::<Vec<_>>(), "{heights:?}");
            Ok(())
        },
    }
}

fn parse_row<'a>((item, amount): (&'a str, &'a str)) -> Result<(&'a str, u32)> {
    ensure!(item == item.trim() && !item.is_empty(), "`{item}` is not trimmed");
    Ok((item, amount.parse()?))
}

fn comparison() -> Case {
    let table = "| kettle | price | litres |\n|---|---|---|\n| Brew | 40 | 1.0 |\n| Whistle | 25 | 1.5 |\n| Steam | 60 | 2.0 |\n";
    Case {
        goal: "Which kettle suits the reading room best? Put the kettles side by side in kettles.md",
        steps: vec![step(
            ("compare", "analysis_agent", "compare"),
            "Put the kettles side by side",
            json!({"kettles": "Brew 40, 1.0 l; Whistle 25, 1.5 l; Steam 60, 2.0 l", "question": "lowest price per litre"}),
            &[],
            [
                write("kettles.md", table).needs("Whistle 25"),
                answer(json!({"table": table, "recommendation": "Whistle", "path": "kettles.md"})),
            ],
        )],
        check: |done| {
            let text = done.text("kettles.md")?;
            let cells =
                |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
            let rows: Vec<Vec<String>> = text.lines().skip(2).map(cells).collect();
            ensure!(rows.len() == 3 && rows.iter().all(|row| row.len() == 3), "{rows:?}");
            let mut best = (f64::MAX, String::new());
            for row in &rows {
                let rate = row[1].parse::<f64>()? / row[2].parse::<f64>()?;
                if rate < best.0 {
                    best = (rate, row[0].clone());
                }
            }
            ensure!(done.results["compare"]["recommendation"] == best.1.as_str(), "{best:?}");
            Ok(())
        },
    }
}

fn conversion() -> Case {
    let people = json!([{"name": "Ada", "seat": 1}, {"name": "Béla", "seat": 2}]);
    Case {
        goal: "Turn the seat list of the choir into seats.json",
        steps: vec![step(
            ("convert", "data_agent", "transform"),
            "Turn the choir seats into JSON",
            json!({"task": "CSV to JSON", "csv": "name,seat\nAda,1\nBéla,2\n"}),
            &[],
            [
                write("seats.json", &people.to_string()).needs("Béla,2"),
                turn("read_file", json!({"path": "seats.json"})),
                answer(json!({"path": "seats.json", "rows": 2, "changes": ["CSV to JSON"]})).needs("next_offset"),
            ],
        )],
        check: |done| {
            let seats: Value = serde_json::from_str(&done.text("seats.json")?)?;
            ensure!(seats == json!([{"name": "Ada", "seat": 1}, {"name": "Béla", "seat": 2}]), "{seats}");
            ensure!(done.results["convert"]["rows"] == 2);
            Ok(())
        },
    }
}

fn two_languages() -> Case {
    let (english, german) = ("The gate is open.\n\nPlease close it.\n", "Das Tor ist offen.\n\nBitte schließen.\n");
    Case {
        goal: "Make a sign for the goat meadow in sign.en.txt and sign.de.txt",
        steps: vec![
            step(
                ("english", "writer_agent", "write"),
                "Word the English sign",
                json!({"title": "Goat meadow", "goal": "visitors close the gate"}),
                &[],
                [write("sign.en.txt", english), answer(json!({"text": english, "path": "sign.en.txt"}))],
            ),
            step(
                ("german", "writer_agent", "write"),
                "Word the German sign",
                json!({"title": "Goat meadow, in German", "source": "{{ steps.english.outputs.text }}"}),
                &["english"],
                [
                    write("sign.de.txt", german).needs("The gate is open"),
                    answer(json!({"text": german, "path": "sign.de.txt"})),
                ],
            ),
        ],
        check: |done| {
            let (english, german) = (done.text("sign.en.txt")?, done.text("sign.de.txt")?);
            ensure!(english != german && english.split("\n\n").count() == german.split("\n\n").count(), "{german}");
            ensure!(german.contains('ß'), "letters beyond ASCII are kept");
            Ok(())
        },
    }
}

fn calendar() -> Case {
    let event = |day: u32, name: &str| {
        format!(
            "BEGIN:VEVENT\r\nUID:{day}@goats\r\nDTSTART;VALUE=DATE:202605{day:02}\r\nSUMMARY:{name}\r\nEND:VEVENT\r\n"
        )
    };
    let text = format!(
        "BEGIN:VCALENDAR\r\nVERSION:2.0\r\n{}{}END:VCALENDAR\r\n",
        event(4, "Shearing"),
        event(11, "Hoof care")
    );
    Case {
        goal: "Lay the goat care days of May down in goats.ics",
        steps: vec![step(
            ("calendar", "general_agent", "run"),
            "Lay down the goat care days",
            json!({"task": "an iCalendar file: shearing on 4 May 2026, hoof care on 11 May 2026"}),
            &[],
            [
                write("goats.ics", &text).needs("hoof care on 11 May"),
                answer(json!({"result": "two days", "files": ["goats.ics"]})),
            ],
        )],
        check: |done| {
            let text = done.text("goats.ics")?;
            let count = |part: &str| text.lines().filter(|line| line.starts_with(part)).count();
            ensure!(count("BEGIN:VEVENT") == 2 && count("BEGIN:") == count("END:"), "{text}");
            ensure!(text.contains("20260504") && text.contains("20260511") && text.contains("\r\n"), "{text}");
            Ok(())
        },
    }
}

fn program() -> Case {
    let code = "# Counts the words of standard input.\ntr -s ' ' '\\n' | grep -c .\n";
    Case {
        goal: "I need a tiny word counter, count.sh, for the poetry corner",
        steps: vec![
            step(
                ("code", "code_agent", "write_code"),
                "Program the word counter",
                json!({"task": "count words of standard input in sh", "language": "sh"}),
                &[],
                [write("count.sh", code), answer(json!({"files": ["count.sh"], "summary": "not run"}))],
            ),
            step(
                ("review", "code_agent", "review_code"),
                "Look over the word counter",
                json!({"task": "look for mistakes", "files": "{{ steps.code.outputs.files }}"}),
                &["code"],
                [
                    turn("read_file", json!({"path": "count.sh"})),
                    answer(json!({"issues": []})).needs("Counts the words"),
                ],
            ),
        ],
        check: |done| {
            let output = Command::new("sh")
                .args(["-c", "printf 'a rose  is a rose' | sh count.sh"])
                .current_dir(&done.dir)
                .output()?;
            ensure!(output.stdout == b"5\n", "{}", String::from_utf8_lossy(&output.stdout));
            Ok(())
        },
    }
}

fn costs() -> Case {
    Case {
        goal: "Will 100 dollars do for the lantern parade? Wire 31.50, paper 22.25, candles 40",
        steps: vec![step(
            ("costs", "validation_agent", "validate_budget"),
            "Add up the lantern parade",
            json!({"budget": 100, "costs": {"wire": 31.5, "paper": 22.25, "candles": 40}}),
            &[],
            [
                turn("search_outputs", json!({"query": "candles"})),
                answer(json!({"valid": true, "total": 93.75, "issues": []}))
                    .needs("\"tool\":\"search_outputs\",\"ok\":true"),
            ],
        )],
        check: |done| {
            let costs = &done.results["costs"];
            ensure!(costs["total"] == 31.5 + 22.25 + 40.0 && costs["valid"] == true, "{costs}");
            Ok(())
        },
    }
}

fn page() -> Case {
    let page = "<html><head><title>Bees</title><link rel=\"stylesheet\" href=\"style.css\"/></head>\
                <body><h1>Bees</h1><p>They are back.</p></body></html>\n";
    Case {
        goal: "Announce on a page, site/bees.html with its own style, that the bees are back",
        steps: vec![step(
            ("page", "writer_agent", "write"),
            "Announce the bees",
            json!({"title": "Bees", "goal": "neighbours know", "path": "site/bees.html"}),
            &[],
            [
                write("site/style.css", "h1 { color: goldenrod; }\n"),
                write("site/bees.html", page),
                turn("list_files", json!({})),
                answer(json!({"text": page, "path": "site/bees.html"})).needs("site/style.css"),
            ],
        )],
        check: |done| {
            let page = done.text("site/bees.html")?;
            ensure!(is_well_formed(&page), "{page}");
            for link in attributes(&page, "link", "href") {
                ensure!(done.dir.join("site").join(&link).is_file(), "`{link}` leads nowhere");
            }
            Ok(())
        },
    }
}

fn letters() -> Case {
    let letter = |name: &str| format!("Dear {name},\n\nthe raft race is on Sunday.\n");
    Case {
        goal: "Ask Mia, Noor and Tom by letter to the raft race",
        steps: vec![step(
            ("letters", "general_agent", "run"),
            "Ask the three to the raft race",
            json!({"task": "a letter to each in letters/", "names": ["Mia", "Noor", "Tom"]}),
            &[],
            [
                write("letters/mia.md", &letter("Mia")).needs("Noor"),
                write("letters/noor.md", &letter("Noor")),
                write("letters/tom.md", &letter("Tom")),
                answer(
                    json!({"result": "three letters", "files": ["letters/mia.md", "letters/noor.md", "letters/tom.md"]}),
                ),
            ],
        )],
        check: |done| {
            let files = done.results["letters"]["files"].as_array().context("there are files")?;
            ensure!(files.len() == 3);
            for (file, name) in files.iter().zip(["Mia", "Noor", "Tom"]) {
                let text = done.text(file.as_str().context("it is a path")?)?;
                ensure!(text.starts_with(&format!("Dear {name},")), "{text}");
            }
            Ok(())
        },
    }
}

/// Whether every tag is closed in order.
fn is_well_formed(text: &str) -> bool {
    let mut open: Vec<&str> = Vec::new();
    for tag in text.split('<').skip(1).filter_map(|part| part.split('>').next()) {
        let name = tag.trim_start_matches('/').split_whitespace().next().unwrap_or_default();
        if tag.starts_with('/') {
            if open.pop() != Some(name) {
                return false;
            }
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    open.is_empty()
}

/// The values of an attribute of all elements of this name.
fn attributes(text: &str, element: &str, name: &str) -> Vec<String> {
    let tags = text.split('<').filter(|tag| tag.starts_with(element));
    let start = format!("{name}=\"");
    let value = |tag: &str| Some(tag.split_once(&start)?.1.split('"').next()?.to_owned());
    tags.filter_map(value).collect()
}

fn script(cases: &[Case]) -> Value {
    let mut answers = Vec::new();
    for case in cases {
        let steps: Vec<&Value> = case.steps.iter().map(|step| &step.plan).collect();
        answers.push(
            json!({"when": ["You plan work for software agents", case.goal], "times": 1, "json": {"steps": steps}}),
        );
        for step in &case.steps {
            for Turn { tool, arguments, needs } in &step.turns {
                let when = json!([step.plan["description"], needs]);
                let call = json!({"name": tool, "arguments": arguments});
                answers.push(json!({"when": when, "times": 1, "tool_calls": [call]}));
            }
        }
    }
    json!({ "answers": answers })
}

async fn start(cases: &[Case], dir: &Path) -> Result<Dev> {
    let file = dir.join("script.json");
    std::fs::write(&file, script(cases).to_string())?;
    let config = format!("[worker]\nfiles_dir = {:?}\n", dir.join("files").display().to_string());
    Dev::start(&["--model", "scripted", "--model-script", &file.display().to_string()], &config).await
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_goals_without_rules_end_with_real_files_and_answers() -> Result<()> {
    let cases = [
        report(),
        cleaned_table_with_chart(),
        comparison(),
        conversion(),
        two_languages(),
        calendar(),
        program(),
        costs(),
        page(),
        letters(),
    ];
    let dir = tempfile::tempdir()?;
    let dev = start(&cases, dir.path()).await?;
    for case in &cases {
        let ended: Value = serde_json::from_str(&dev.says(&["submit", case.goal, "--wait", "-o", "json"], 0)?)?;
        ensure!(ended["status"] == "completed", "{}: {ended:#}", case.goal);
        let plan = ended["plan_id"].as_str().context("it has an id")?;
        let done = Done { dir: dir.path().join("files").join(plan), results: ended["results"].clone() };
        (case.check)(&done).with_context(|| case.goal)?;
        let events = dev.events(plan)?;
        let created = events.iter().find(|event| event["type"] == "plan_created").context("it was planned")?;
        ensure!(created["data"]["planner"] == "llm", "{}: {created}", case.goal);
        let started = events.iter().find(|event| event["type"] == "step_started").context("a step was started")?;
        let ms = |field: &str| started["data"][field].as_u64().unwrap_or_default();
        ensure!(ms("due_ms") >= ms("started_ms") + 600_000, "a step that asks a model has ten minutes: {started}");
    }
    Ok(())
}
