//! `explain CODE`: prints what an error code means, and what to do about it.

use serde::Serialize;

use crate::exit::{CommandResult, Exit, Failed};
use crate::output::{Palette, Screen, Table, Tone};

/// The page of the codes, which is where their texts stand: `## Kinds: …`, `### Topic`, `#### CODE`, and the text of the code.
const PAGE: &str = include_str!("../../../docs/errors/README.md");

/// Codes that end with a number, as the agent or the program gave it, and their code in the table.
const NUMBERED: &[(&str, &str)] = &[("HTTP_", "HTTP_NNN"), ("EXIT_", "EXIT_N"), ("SIGNAL_", "SIGNAL_N")];

/// A code that is explained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Code {
    code: &'static str,
    kind: &'static str,
    /// The topic of its section.
    about: &'static str,
    text: &'static str,
    page: String,
}

/// Whether a word is a code and not a plan: plan ids have small letters and a dash.
pub fn is_meant(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_uppercase())
        && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

pub fn explain(screen: &Screen, word: &str) -> CommandResult {
    let all = codes();
    let Some(code) = all.iter().find(|code| code.code == titled(word)) else {
        let near = near(word, &all).map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
        return Err(Failed::new(Exit::NotFound, format!("no code is called `{word}`"))
            .help(format!("{near}agents may send codes of their own; list ours: goalmill explain --codes")));
    };
    screen.show(code, code.code, |palette| people(code, palette))?;
    Ok(Exit::Done)
}

pub fn list(screen: &Screen) -> CommandResult {
    let all = codes();
    screen.list(
        &all,
        &all,
        |code| code.code.to_owned(),
        |palette| {
            let mut table = Table::new(&["CODE", "OF", "ABOUT", "MEANS"]);
            for code in &all {
                let means = super::cell(screen, code.text);
                table.row([code.code.into(), code.kind.into(), code.about.to_lowercase(), means]);
            }
            table.render(palette, "")
        },
    )?;
    Ok(Exit::Done)
}

/// The code in the table.
fn titled(word: &str) -> &str {
    let numbered = NUMBERED.iter().find(|(begin, _)| {
        word.strip_prefix(begin).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    });
    numbered.map_or(word, |(_, title)| title)
}

fn people(code: &Code, palette: Palette) -> String {
    let head = palette.tone(Tone::Bold, code.code);
    let about = palette.tone(Tone::Dim, format!("{} · {}", code.kind, code.about.to_lowercase()));
    format!("{head}  {about}\n{}\n{}\n", code.text, palette.tone(Tone::Dim, &code.page))
}

/// All codes, in the order of the page.
fn codes() -> Vec<Code> {
    let mut kind = "";
    let mut codes = Vec::new();
    for part in PAGE.split("\n## ").skip(1) {
        for (at, topic) in part.split("\n### ").enumerate() {
            let head = topic.lines().next().unwrap_or_default();
            if at == 0 {
                kind = kind_of(head);
                continue;
            }
            let entries = topic.split("#### ").skip(1).filter_map(|entry| entry.split_once('\n'));
            codes.extend(entries.map(|(code, text)| Code {
                code,
                kind,
                about: head,
                text: text.trim_end(),
                page: format!("docs/errors/README.md#{}", code.to_lowercase()),
            }));
        }
    }
    codes
}

/// The word for the codes of a part of the page.
fn kind_of(heading: &str) -> &'static str {
    match heading.split([':', ' ']).next() {
        Some("Problems") => "problem",
        Some("Issues") => "issue",
        Some("Failures") => "failure",
        _ => "note",
    }
}

/// The code with the most pairs of letters in common, if it has most of them.
fn near(word: &str, all: &[Code]) -> Option<&'static str> {
    let pairs = |text: &str| -> Vec<(char, char)> { text.chars().zip(text.chars().skip(1)).collect() };
    let given = pairs(word);
    let alike = |code: &Code| {
        let own = pairs(code.code);
        let shared = own.iter().filter(|pair| given.contains(pair)).count();
        2 * shared * 100 / (own.len() + given.len()).max(1)
    };
    all.iter().map(|code| (alike(code), code.code)).filter(|(score, _)| *score >= 60).max().map(|(_, code)| code)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use goalmill_common::problem::ErrorCode;

    use super::*;

    /// Quoted words of the sources that look like codes and are none.
    const OTHER_WORDS: &[&str] =
        &["NO_COLOR", "RUST_LOG", "XDG_CONFIG_HOME", "OPENAI_API_KEY", "MY_KEY", "RESOURCE_EXHAUSTED"];

    #[test]
    fn every_code_in_the_sources_is_explained_and_no_other_is() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut used: BTreeSet<String> = ErrorCode::ALL.iter().map(|code| code.as_str().to_owned()).collect();
        let mut text = String::new();
        for part in [
            "common/src", "common/expression/src", "common/http/src", "common/llm/src", "scheduler/src",
            "scheduler/engine/src", "scheduler/plan/src", "scheduler/planning/src", "scheduler/router/src",
            "scheduler/shard/src", "worker/src", "worker/agents/src", "worker/demo/src", "worker/mcp/src",
        ] {
            for file in sources(&root.join(part)) {
                let whole = std::fs::read_to_string(&file).expect("a source can be read");
                // Tests stand at the end of a file, and make codes up.
                let code = whole.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                used.extend(quoted(code));
                text.push_str(code);
            }
        }
        // Imports tell codes too; their other words are those of foreign formats.
        for file in sources(&root.join("cli/src/import")) {
            text.push_str(&std::fs::read_to_string(&file).expect("a source can be read"));
        }
        let told = told();
        // The variables of OpenTelemetry and of model servers look like codes, too.
        let is_variable = |code: &str| code.starts_with("OTEL_") || code.ends_with("_API_KEY") || code == "OLLAMA_HOST";
        used.retain(|code| !is_variable(code));
        let missing: Vec<&String> = used.iter().filter(|code| !told.contains(code.as_str())).collect();
        assert_eq!(missing, Vec::<&String>::new(), "`docs/errors/README.md` has no text for them");
        let is_used = |code: &&&str| text.contains(&format!("\"{code}\""));
        let numbered = |code: &&&str| NUMBERED.iter().any(|(_, title)| title == *code);
        let unused: Vec<&&str> = told.iter().filter(|code| !is_used(code) && !numbered(code)).collect();
        assert_eq!(unused, Vec::<&&str>::new(), "nothing tells them");
    }

    #[test]
    fn codes_are_told_from_plans_and_numbers_do_not_matter() {
        assert!(is_meant("PLAN_CYCLE") && is_meant("INTERNAL") && is_meant("HTTP_503"));
        assert!(!is_meant("@latest") && !is_meant("p0-01kb") && !is_meant("") && !is_meant("01kb"));
        assert_eq!((titled("HTTP_503"), titled("SIGNAL_9"), titled("EXIT_1")), ("HTTP_NNN", "SIGNAL_N", "EXIT_N"));
        assert_eq!((titled("EXIT_UNKNOWN"), titled("HTTP_TIMEOUT")), ("EXIT_UNKNOWN", "HTTP_TIMEOUT"));
        assert_eq!(near("PLAN_CICLE", &codes()), Some("PLAN_CYCLE"));
        assert_eq!(near("QQQ", &codes()), None);
    }

    #[test]
    fn a_code_has_its_kind_and_its_topic() {
        let cycle = codes().into_iter().find(|code| code.code == "PLAN_CYCLE").expect("it is explained");
        assert_eq!((cycle.kind, cycle.about), ("issue", "The graph"));
        let kinds: Vec<&str> = codes().chunk_by(|a, b| a.kind == b.kind).map(|codes| codes[0].kind).collect();
        assert_eq!(kinds, ["problem", "issue", "failure", "note"]);
        assert!(!cycle.text.is_empty() && !cycle.text.contains('#'), "{}", cycle.text);
        assert_eq!(told().len(), codes().len(), "a code has two texts");
        for code in codes() {
            assert!(code.text.len() > 10 && !code.text.ends_with('\n'), "`{}` says `{}`", code.code, code.text);
        }
    }

    fn told() -> BTreeSet<&'static str> {
        codes().iter().map(|code| code.code).collect()
    }

    /// All sources below a directory, without files of tests.
    fn sources(dir: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(dir).expect("the directory is there").flatten() {
            let path = entry.path();
            if path.is_dir() {
                found.extend(sources(&path));
            } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
                found.push(path);
            }
        }
        found
    }

    /// Quoted words in upper case with an underscore.
    fn quoted(source: &str) -> BTreeSet<String> {
        let is_code = |word: &&str| {
            word.trim_matches('_').contains('_')
                && word.chars().all(|c| c.is_ascii_uppercase() || c == '_')
                && !word.starts_with("CARGO_")
                && !word.starts_with("GOALMILL_")
                && !word.ends_with('_')
                && !OTHER_WORDS.contains(word)
        };
        source.split('"').filter(is_code).map(str::to_owned).collect()
    }
}
