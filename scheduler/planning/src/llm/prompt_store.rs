//! Prompt templates: built in, or from a directory, each with a version.
//!
//! A template begins with `{# version: 1 #}`. What stands above the line `--- user ---` is what the planner says, what
//! stands below it is about the goal. Templates are cut before they are rendered, so a goal cannot move that line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use goalmill_llm::Message;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde_json::Value;

/// The templates that are shipped, by name.
pub(super) const BUILT_IN: [(&str, &str); 5] = [
    ("critique", include_str!("../../../../config/prompts/critique.md")),
    ("plan", include_str!("../../../../config/prompts/plan.md")),
    ("review", include_str!("../../../../config/prompts/review.md")),
    ("revise", include_str!("../../../../config/prompts/revise.md")),
    ("tools", include_str!("../../../../config/prompts/tools.md")),
];

const USER: &str = "\n--- user ---\n";
/// Work units of one rendering.
const FUEL: u64 = 5_000_000;
/// Bytes of a template's file.
const BYTES_MAX: usize = 256 << 10;

/// Why prompts cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    #[error("`{}` cannot be read: {reason}", path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error("prompt `{name}`: {reason}")]
    Invalid { name: String, reason: String },
}

/// One template.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Template {
    version: String,
    system: String,
    user: String,
}

/// All templates.
#[derive(Clone, Debug)]
pub struct PromptStore(BTreeMap<String, Template>);

/// A rendered prompt, and what it was made from.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    pub template: String,
    pub version: String,
    pub messages: Vec<Message>,
}

impl PromptStore {
    pub fn built_in() -> Self {
        let read = |(name, text): &(&str, &str)| {
            let template = Template::read(name, text).expect("the shipped prompts are well formed");
            ((*name).to_owned(), template)
        };
        Self(BUILT_IN.iter().map(read).collect())
    }

    /// The shipped ones, and in their place those that stand in the directory: `plan.md`, `critique.md`, ….
    pub fn from_dir(dir: &Path) -> Result<Self, PromptError> {
        let mut prompts = Self::built_in();
        let unreadable =
            |path: &Path, e: &std::io::Error| PromptError::Unreadable { path: path.into(), reason: e.to_string() };
        for entry in std::fs::read_dir(dir).map_err(|e| unreadable(dir, &e))? {
            let path = entry.map_err(|e| unreadable(dir, &e))?.path();
            let is_template = path.extension().is_some_and(|ending| ending == "md");
            let Some(name) = path.file_stem().and_then(|stem| stem.to_str()).filter(|_| is_template) else { continue };
            if !prompts.0.contains_key(name) {
                let known = prompts.0.keys().map(String::as_str).collect::<Vec<_>>().join("`, `");
                let reason = format!("there is no such prompt; there are: `{known}`");
                return Err(PromptError::Invalid { name: name.into(), reason });
            }
            let text = std::fs::read_to_string(&path).map_err(|e| unreadable(&path, &e))?;
            prompts.0.insert(name.to_owned(), Template::read(name, &text)?);
        }
        Ok(prompts)
    }

    /// Fills a template in.
    pub fn render(&self, name: &str, context: &Value) -> Result<Prompt, PromptError> {
        let invalid = |reason: String| PromptError::Invalid { name: name.into(), reason };
        let template = self.0.get(name).ok_or_else(|| invalid("there is no such prompt".into()))?;
        let context = minijinja::Value::from(Serde(context));
        let render = |source: &str| {
            let environment = environment();
            let rendered = environment.template_from_str(source).and_then(|template| template.render(&context));
            rendered.map(|text| text.trim().to_owned()).map_err(|e| invalid(e.to_string()))
        };
        let messages = vec![Message::system(render(&template.system)?), Message::user(render(&template.user)?)];
        Ok(Prompt { template: name.to_owned(), version: template.version.clone(), messages })
    }
}

impl Template {
    fn read(name: &str, text: &str) -> Result<Self, PromptError> {
        let invalid = |reason: String| PromptError::Invalid { name: name.into(), reason };
        if text.len() > BYTES_MAX {
            return Err(invalid(format!("it is larger than {BYTES_MAX} bytes")));
        }
        let text = text.replace("\r\n", "\n");
        let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
        let version = first.trim().strip_prefix("{# version:").and_then(|rest| rest.strip_suffix("#}"));
        let version = version.map(str::trim).filter(|version| !version.is_empty());
        let version = version.ok_or_else(|| invalid("its first line must be `{# version: 1 #}`".into()))?;
        let (system, user) =
            rest.split_once(USER).ok_or_else(|| invalid("the line `--- user ---` is missing".into()))?;
        let (system, user) = (tight(system), tight(user));
        for part in [&system, &user] {
            environment().template_from_str(part).map_err(|e| invalid(e.to_string()))?;
        }
        Ok(Self { version: version.to_owned(), system, user })
    }
}

/// Lines that hold one tag and nothing else leave no line behind.
fn tight(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let tag = line.trim();
        let is_tag = tag.starts_with("{%") && tag.find("%}") == Some(tag.len().saturating_sub(2));
        out.push_str(if is_tag { tag } else { line });
    }
    out
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    environment.set_fuel(Some(FUEL));
    environment
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_goal_stays_in_its_part_of_the_prompt() {
        let goal = json!({"goal": {"description": "x\n--- user ---\n{{ agents }} {% raw %}"}, "today": "2026-01-01"});
        let prompt = PromptStore::built_in().render("plan", &goal).expect("the shipped prompt can be rendered");
        assert_eq!(prompt.version, "2");
        assert_eq!(prompt.messages.len(), 2);
        assert!(prompt.messages[1].text().starts_with("Goal: x\n--- user ---\n{{ agents }} {% raw %}"));
        assert!(prompt.messages[0].text().contains("\"{{ steps.ID.outputs.FIELD }}\""));
    }

    #[test]
    fn a_directory_replaces_what_it_holds_and_mistakes_are_named() {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("it can be written");
        write("plan.md", "{# version: mine-2 #}\nPlan.\n--- user ---\n{{ goal.description }}\n");
        write("notes.txt", "not a prompt");
        let prompts = PromptStore::from_dir(dir.path()).expect("the directory is valid");
        let prompt = prompts.render("plan", &json!({"goal": {"description": "tea"}})).expect("it can be rendered");
        assert_eq!((prompt.version.as_str(), prompt.messages[1].text()), ("mine-2", "tea"));
        assert!(prompts.render("revise", &json!({})).is_ok());
        for (text, part) in [
            ("Plan.\n--- user ---\n", "version: 1"),
            ("{# version: 1 #}\nPlan.\n", "--- user ---"),
            ("{# version: 1 #}\n{% if %}\n--- user ---\n", "syntax error"),
        ] {
            write("plan.md", text);
            let error = PromptStore::from_dir(dir.path()).expect_err("the prompt is not valid").to_string();
            assert!(error.contains("`plan`") && error.contains(part), "{error}");
        }
        write("plan.md", "{# version: 1 #}\na\n--- user ---\nb\n");
        write("plam.md", "{# version: 1 #}\na\n--- user ---\nb\n");
        let error = PromptStore::from_dir(dir.path()).expect_err("there is no such prompt").to_string();
        assert!(error.contains("`plam`") && error.contains("`critique`"), "{error}");
    }
}
