//! Checks of the pages: links lead somewhere, commands exist, every dependency has its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use goalmill_common::limits::Limits;
use goalmill_plan::document::Format;
use goalmill_plan::validate;
use goalmill_tests::process::binary;

/// Most records of decisions: as many as somebody reads before a change.
const DECISIONS_MAX: usize = 70;
/// Directories of a working copy that hold no page of ours.
const PASSED_OVER: &[&str] = &["target", ".git", "node_modules"];

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests package stands in the workspace").to_owned()
}

pub(crate) fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("`{}` cannot be read: {e}", path.display()))
}

#[test]
fn every_relative_link_leads_somewhere() {
    let mut broken = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page can be read");
        let folder = page.parent().expect("a page stands in a directory");
        for link in links(&text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() { page.clone() } else { folder.join(path) };
            let heading = || fs::read_to_string(&target).is_ok_and(|text| anchors(&text).contains(anchor));
            if !target.exists() || !(anchor.is_empty() || heading()) {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new());
}

#[test]
fn every_command_on_a_page_exists() {
    let mut tried = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page can be read");
        for line in command_lines(&text) {
            for command in line.split(" | ") {
                tried += usize::from(exists(&page, command));
            }
        }
    }
    assert!(tried > 10, "only {tried} commands were found: are they looked for in the right place?");
}

#[test]
fn every_command_of_the_program_is_on_its_page() {
    let help = Command::new(binary()).arg("--help").output().expect("the binary can be started");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let list =
        help.split_once("Commands:\n").and_then(|(_, rest)| rest.split_once("\n\n")).expect("commands are listed");
    let page = read("docs/cli.md");
    // A line that goes on is set in further.
    let lines = list.0.lines().filter(|line| !line.starts_with("     "));
    let names = lines.filter_map(|line| line.split_whitespace().next());
    let missing: Vec<&str> = names.filter(|name| !page.contains(&format!("| `{name}"))).collect();
    assert_eq!(missing, Vec::<&str>::new(), "docs/cli.md has no row for them");
}

#[test]
fn every_plan_and_every_settings_file_on_a_page_is_valid() {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let (mut plans, mut settings) = (0, 0);
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page can be read");
        for block in blocks(&text, "yaml") {
            let checked = validate::validate_text(block.as_bytes(), Format::Yaml, &Limits::default());
            assert!(checked.is_ok(), "{}: {:?}", page.display(), checked.err());
            plans += 1;
        }
        for block in blocks(&text, "toml") {
            let file = dir.path().join("goalmill.toml");
            fs::write(&file, &block).expect("a file can be written");
            let output = Command::new(binary()).arg("config").arg("--config").arg(&file).output();
            let output = output.expect("the binary can be started");
            assert!(output.status.success(), "{}: {}", page.display(), String::from_utf8_lossy(&output.stderr));
            settings += 1;
        }
    }
    assert!(plans > 0 && settings > 0, "{plans} plans and {settings} settings were found");
}

#[test]
fn the_rule_of_the_page_passes_its_cases_and_the_shipped_rules_pass_theirs() {
    let blocks = blocks(&read("docs/planners.md"), "yml");
    let [rule, cases] = blocks.as_slice() else { panic!("the page has a rule and its cases, not {}", blocks.len()) };
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let path = |name: &str| dir.path().join(name);
    let write = |name: &str, text: &str| fs::write(path(name), text).expect("a file can be written");
    fs::create_dir(path("rules")).expect("a directory can be made");
    write("rules/menu.yaml", rule);
    write("goalmill.toml", &format!("[planner]\nrules_dir = \"{}\"\n", path("rules").display()));
    write("cases.yaml", cases);
    write("shipped.toml", "");
    let test = |cases: &Path, config: &str| {
        let mut command = Command::new(binary());
        command.args(["planner", "rules", "test"]).arg(cases).arg("--config").arg(path(config));
        let output = command.output().expect("the binary can be started");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    assert_eq!(test(&path("cases.yaml"), "goalmill.toml"), (Some(0), "3 passed, 0 failed\n".into()));
    let (code, text) = test(&root().join("docs/examples/cases.yaml"), "shipped.toml");
    assert!(code == Some(0) && text.ends_with(" passed, 0 failed\n"), "{text}");
    let (code, text) = test(&path("cases.yaml"), "shipped.toml");
    assert!(code == Some(1) && text.contains("FOUND") && text.ends_with("1 passed, 2 failed\n"), "{text}");
}

#[test]
fn every_dependency_is_used_and_has_its_reason() {
    let declared = names(&read("Cargo.toml"), "[workspace.dependencies]");
    let used: BTreeSet<String> = crate::layering::packages()
        .into_iter()
        .flat_map(|package| {
            let manifest = read(format!("{package}/Cargo.toml"));
            let dev = names(&manifest, "[dev-dependencies]");
            names(&manifest, "[dependencies]").into_iter().chain(dev)
        })
        .collect();
    assert_eq!(declared.difference(&used).collect::<Vec<_>>(), Vec::<&String>::new(), "declared and not used");
    let told: BTreeSet<String> = read("docs/dependencies.md")
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .flat_map(|row| row.split(" | ").next().unwrap_or_default().split(", "))
        .map(|name| name.trim_matches(|c| c == '`' || c == ' ').to_owned())
        .collect();
    let foreign: BTreeSet<String> = declared.into_iter().filter(|name| !name.starts_with("goalmill-")).collect();
    assert_eq!(told, foreign);
}

#[test]
fn every_decision_is_listed_and_fits_on_a_page() {
    let index = read("docs/decisions/README.md");
    let folder = fs::read_dir(root().join("docs/decisions")).expect("the decisions are there");
    let entries: Vec<_> = folder.flatten().collect();
    assert!(entries.len() <= DECISIONS_MAX + 1, "make a line of the changelog of what constrains nobody any more");
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let text = fs::read_to_string(entry.path()).expect("a page can be read");
        // The index has a line for each page.
        if name != "README.md" {
            assert!(text.lines().count() <= 60, "`{name}` is longer than a page");
            assert!(index.contains(&format!("({name})")), "`{name}` is not listed");
            for part in ["**Context.**", "**Decision.**", "**Consequences.**", "**Rejected.**"] {
                assert!(text.contains(part), "`{name}` has no {part}");
            }
        }
    }
}

#[test]
fn every_limit_of_plans_is_on_its_page_with_its_default() {
    let limits = serde_json::to_value(Limits::default()).expect("limits are JSON");
    let page = read("docs/plan-limits.md");
    let shown: BTreeMap<&str, Option<u64>> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `limits.")?.split_once("` | "))
        .filter_map(|(name, rest)| Some((name, amount(rest.split_once(" |")?.0))))
        .collect();
    let limits = limits.as_object().expect("limits have names");
    let defaults: BTreeMap<&str, Option<u64>> =
        limits.iter().map(|(name, value)| (name.as_str(), value.as_u64())).collect();
    assert_eq!(shown, defaults);
}

#[test]
fn the_functions_of_the_walks_are_in_their_files() {
    let architecture = read("docs/architecture.md");
    let (_, walks) = architecture.split_once("<!-- walks -->").expect("the page has walks");
    let (walks, _) = walks.split_once("<!-- end of walks -->").expect("the walks end");
    for walk in walks.split("### ").skip(1) {
        let (mut functions, mut files) = (0, BTreeSet::new());
        for (row, names) in walk.lines().filter_map(|line| line.split_once("): ")) {
            let path = row.split('`').nth(1).expect("a row names its file");
            let code = read(path);
            files.insert(path);
            for name in names.split(", ").map(|name| name.trim_matches('`')) {
                let is_there = ["(", "<"].iter().any(|next| code.contains(&format!("fn {name}{next}")));
                assert!(is_there, "`{path}` has no function `{name}`");
                functions += 1;
            }
        }
        let counted = format!("{functions} functions, {} files", files.len());
        let title = walk.lines().next().unwrap_or_default();
        assert!(title.ends_with(&counted), "`{title}`: there are {counted}");
    }
}

#[test]
fn every_concept_has_its_file() {
    let architecture = read("docs/architecture.md");
    let (_, concepts) = architecture.split_once("<!-- concepts -->").expect("the page lists concepts");
    let rows: Vec<&str> = concepts.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() >= 52, "{} concepts", rows.len());
    let glossary = read("docs/glossary.md");
    let paths = |row| str::split(row, '`').skip(1).step_by(2).filter(|word| word.contains('/'));
    assert!(rows.iter().all(|row| paths(row).next().is_some()), "each concept names a file");
    let terms = glossary.lines().filter(|line| line.starts_with("| **"));
    let missing: Vec<&str> =
        rows.into_iter().chain(terms).flat_map(paths).filter(|path| !root().join(path).exists()).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

/// The number that a page writes as `10,000`, `8 MiB` or `24 h`; times are milliseconds.
fn amount(cell: &str) -> Option<u64> {
    let (number, unit) = cell.split_once(' ').unwrap_or((cell, ""));
    let factor = match unit {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "min" => 60_000,
        "h" => 3_600_000,
        "days" => 86_400_000,
        _ => return None,
    };
    Some(number.replace(',', "").parse::<u64>().ok()? * factor)
}

/// Every Markdown file of the working copy.
fn pages() -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![root()]);
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).expect("a directory can be read").flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            if path.is_dir() {
                open.extend((!PASSED_OVER.iter().any(|dir| name == **dir)).then_some(path));
            } else if path.extension().is_some_and(|e| e == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Lines outside of fenced blocks, without what stands between backticks.
fn prose(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push(line.split('`').step_by(2).collect());
        }
    }
    lines
}

fn links(text: &str) -> Vec<String> {
    prose(text)
        .iter()
        .flat_map(|line| line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).collect::<Vec<_>>())
        .map(|(target, _)| target.to_owned())
        .collect()
}

/// The anchors that a page's headings get.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut fenced = false;
    let heading = |line: &&str| {
        fenced ^= line.starts_with("```");
        !fenced && line.starts_with('#')
    };
    text.lines()
        .filter(heading)
        .map(|line| line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-"))
        .map(|slug| slug.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect())
        .collect()
}

/// The fenced blocks of one kind.
pub(crate) fn blocks(text: &str, wanted: &str) -> Vec<String> {
    fenced(text).into_iter().filter(|(kind, _)| *kind == wanted).map(|(_, block)| block).collect()
}

/// All fenced blocks with their kinds, in their order.
pub(crate) fn fenced(text: &str) -> Vec<(&str, String)> {
    let mut found = Vec::new();
    let mut open: Option<(&str, String)> = None;
    for line in text.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some((_, block)), None) => *block += &format!("{line}\n"),
            (None, Some(kind)) => open = Some((kind, String::new())),
            (None, None) => {}
        }
    }
    found
}

/// What a reader would type: all lines of `bash` blocks, those with a prompt of `console` blocks.
fn command_lines(text: &str) -> Vec<String> {
    let typed = blocks(text, "bash").join("");
    let shown = blocks(text, "console").join("");
    let prompted = shown.lines().filter_map(|line| line.strip_prefix("$ "));
    typed.lines().chain(prompted).map(Into::into).collect()
}

/// Panics when a program of ours would not take the command; says whether it was one of ours.
fn exists(page: &Path, command: &str) -> bool {
    let words = words(command);
    let at = format!("{}: {command}", page.display());
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["goalmill", arguments @ ..] | ["cargo", "run", "--", arguments @ ..] => takes(&at, arguments),
        ["bash", script, ..] => assert!(root().join(script).exists(), "{at}: there is no such script"),
        ["cargo", "build" | "test" | "run", ..] => {
            let package = words.iter().skip_while(|word| *word != "-p").nth(1);
            let known = |name: &String| {
                let names = format!("name = \"{name}\"");
                crate::layering::packages().iter().any(|dir| read(format!("{dir}/Cargo.toml")).contains(&names))
            };
            assert!(package.is_none_or(known), "{at}: there is no such package");
        }
        _ => return false,
    }
    true
}

/// The argument parser refuses what it does not know before it gets to `--help`.
fn takes(at: &str, arguments: &[&str]) {
    let mut shown = Command::new(binary());
    shown.args(arguments.iter().filter(|word| !word.starts_with(['>', '<', '&']))).arg("--help");
    let output = shown.output().expect("the binary can be started");
    assert!(output.status.success(), "{at}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The words of a command line, up to a comment or a redirection; quotes hold words together.
pub(crate) fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quote) = (None::<String>, None);
    for c in command.chars() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, '#' | '>' | '&' | ';') if word.is_none() => return words,
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// The names in one section of a manifest.
fn names(manifest: &str, section: &str) -> BTreeSet<String> {
    let Some((_, rest)) = manifest.split_once(section) else { return BTreeSet::new() };
    rest.lines()
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|name| !name.is_empty())
        .map(Into::into)
        .collect()
}

#[test]
fn the_checks_of_pages_see_what_they_look_for() {
    let text = "# A b: c\n[x](y.md#z) `[no](no.md)`\n```bash\ngoalmill a 'b c' > d\n```\n```console\n$ e\nf\n```\n";
    assert_eq!(links(text), ["y.md#z"]);
    assert_eq!(anchors(text), BTreeSet::from(["a-b-c".to_owned()]));
    assert_eq!(command_lines(text), ["goalmill a 'b c' > d", "e"]);
    assert_eq!(words("goalmill a 'b c' > d"), ["goalmill", "a", "b c"]);
    let manifest = "[dependencies]\na.workspace = true\nb = \"1\"\n[other]\nc = 1\n";
    assert_eq!(names(manifest, "[dependencies]").into_iter().collect::<Vec<_>>(), ["a", "b"]);
}
