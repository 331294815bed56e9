//! Prompt templates: built in, or from a directory, each with a version.
//!
//! A template begins with `{# version: 1 #}`. What stands above the line `--- user ---` is what the planner says, what
//! stands below it is about the goal. Templates are cut before they are rendered, so a goal cannot move that line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use goalmill_expression::{Evaluator, Missing, TemplateValues};
use goalmill_llm::Message;
use serde_json::Value;

/// The templates that are shipped, by name.
pub(super) const BUILT_IN: [(&str, &str); 7] = [
    ("critique", include_str!("../../../../config/prompts/critique.md")),
    ("goal", include_str!("../../../../config/prompts/goal.md")),
    ("judge", include_str!("../../../../config/prompts/judge.md")),
    ("plan", include_str!("../../../../config/prompts/plan.md")),
    ("review", include_str!("../../../../config/prompts/review.md")),
    ("revise", include_str!("../../../../config/prompts/revise.md")),
    ("tools", include_str!("../../../../config/prompts/tools.md")),
];

const USER: &str = "\n--- user ---\n";
/// How the names of templates begin that only goals name.
const PLAN_PREFIX: &str = "plan-";
/// The id of a template that a goal brings along.
const OF_GOAL: &str = "planning.prompt";
/// Characters of a template's id.
const ID_CHARS_MAX: usize = 64;
/// Work units of one rendering.
const FUEL: u64 = 5_000_000;
/// Bytes of a template's file.
const BYTES_MAX: usize = 256 << 10;
/// Bytes of a rendered part.
const RENDERED_BYTES_MAX: usize = 8 << 20;

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
            let template = Template::from_text(name, text).expect("the shipped prompts are well formed");
            ((*name).to_owned(), template)
        };
        Self(BUILT_IN.iter().map(read).collect())
    }

    /// The shipped ones, and in their place those that stand in the directory: `plan.md`, `critique.md`, …. Goals may
    /// name `plan-….md` besides.
    pub fn from_dir(dir: &Path) -> Result<Self, PromptError> {
        let mut prompts = Self::built_in();
        let unreadable =
            |path: &Path, e: &std::io::Error| PromptError::Unreadable { path: path.into(), reason: e.to_string() };
        for entry in std::fs::read_dir(dir).map_err(|e| unreadable(dir, &e))? {
            let path = entry.map_err(|e| unreadable(dir, &e))?.path();
            let is_template = path.extension().is_some_and(|ending| ending == "md");
            let Some(name) = path.file_stem().and_then(|stem| stem.to_str()).filter(|_| is_template) else { continue };
            if !prompts.0.contains_key(name) && !name.starts_with(PLAN_PREFIX) {
                let known = prompts.0.keys().map(String::as_str).collect::<Vec<_>>().join("`, `");
                let reason = format!("there is no such prompt; there are: `{known}`, and `{PLAN_PREFIX}…` for goals");
                return Err(PromptError::Invalid { name: name.into(), reason });
            }
            let text = std::fs::read_to_string(&path).map_err(|e| unreadable(&path, &e))?;
            prompts.0.insert(name.to_owned(), Template::from_text(name, &text)?);
        }
        Ok(prompts)
    }

    /// The ids of templates that goals may name.
    pub fn plan_ids(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).filter(|name| *name == "plan" || name.starts_with(PLAN_PREFIX)).collect()
    }

    /// What is wrong with the prompt of a goal.
    pub fn check_goal_prompt(&self, prompt: &str) -> Result<(), GoalPromptError> {
        match GoalPrompt::parse(prompt) {
            GoalPrompt::Id(id) if !self.plan_ids().contains(&id) => Err(GoalPromptError::UnknownTemplate),
            GoalPrompt::Id(_) | GoalPrompt::Instructions(_) => Ok(()),
            GoalPrompt::Template(text) => Template::of_goal(text).map(drop).map_err(GoalPromptError::Invalid),
        }
    }

    /// Fills in the first prompt of a planner.
    ///
    /// - `prompt`: of the goal. A template takes the place of `plan`; instructions are added to every template.
    pub fn render_plan(&self, name: &str, prompt: Option<&str>, context: &Value) -> Result<Prompt, PromptError> {
        let (is_plan, prompt) = (name == "plan", prompt.map(GoalPrompt::parse));
        match prompt {
            Some(GoalPrompt::Id(id)) if is_plan => self.render(id, context),
            Some(GoalPrompt::Template(text)) if is_plan => {
                let template = Template::of_goal(text).map_err(|error| named(OF_GOAL, error))?;
                fill_in(OF_GOAL, &template, context)
            }
            Some(GoalPrompt::Instructions(text)) => {
                let mut prompt = self.render(name, context)?;
                if let Some(Message::System { text: system }) = prompt.messages.first_mut() {
                    *system = format!("{system}\n\nInstructions for this goal:\n{}", text.trim());
                }
                prompt.version = format!("{}+{}", prompt.version, fingerprint(text));
                Ok(prompt)
            }
            Some(GoalPrompt::Id(_) | GoalPrompt::Template(_)) | None => self.render(name, context),
        }
    }

    /// Fills a template in.
    pub fn render(&self, name: &str, context: &Value) -> Result<Prompt, PromptError> {
        let template = self.0.get(name).ok_or_else(|| named(name, "there is no such prompt".into()))?;
        fill_in(name, template, context)
    }
}

/// Why the prompt of a goal cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoalPromptError {
    UnknownTemplate,
    /// The template cannot be read; the reason.
    Invalid(String),
}

/// The prompt of a goal: one word is an id, a text with the line `--- user ---` a template, any other text instructions.
enum GoalPrompt<'p> {
    Id(&'p str),
    Template(&'p str),
    Instructions(&'p str),
}

impl<'p> GoalPrompt<'p> {
    fn parse(prompt: &'p str) -> Self {
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let trimmed = prompt.trim();
        if trimmed.len() <= ID_CHARS_MAX && trimmed.chars().all(is_word) {
            Self::Id(trimmed)
        } else if prompt.replace("\r\n", "\n").contains(USER) {
            Self::Template(prompt)
        } else {
            Self::Instructions(prompt)
        }
    }
}

/// A short name for a text.
fn fingerprint(text: &str) -> String {
    // FNV-1a: the same text has the same name in every process.
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{:08x}", hash >> 32)
}

fn named(name: &str, reason: String) -> PromptError {
    PromptError::Invalid { name: name.into(), reason }
}

fn fill_in(name: &str, template: &Template, context: &Value) -> Result<Prompt, PromptError> {
    let invalid = |reason: String| named(name, reason);
    let (evaluator, values) = (Evaluator::new(Missing::Empty, FUEL, RENDERED_BYTES_MAX), TemplateValues::new(context));
    let render = |source: &str| {
        let rendered = evaluator.render(source, &values);
        rendered.map(|text| text.trim().to_owned()).map_err(|e| invalid(e.to_string()))
    };
    let messages = vec![Message::system(render(&template.system)?), Message::user(render(&template.user)?)];
    Ok(Prompt { template: name.to_owned(), version: template.version.clone(), messages })
}

impl Template {
    /// A template that a goal brings along; its version may be missing.
    fn of_goal(text: &str) -> Result<Self, String> {
        let text = if text.trim_start().starts_with("{# version:") {
            text.trim_start().to_owned()
        } else {
            format!("{{# version: {} #}}\n{text}", fingerprint(text))
        };
        Self::from_text(OF_GOAL, &text).map_err(|error| match error {
            PromptError::Invalid { reason, .. } => reason,
            PromptError::Unreadable { reason, .. } => reason,
        })
    }

    fn from_text(name: &str, text: &str) -> Result<Self, PromptError> {
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
            Evaluator::check_template(part).map_err(|e| invalid(e.to_string()))?;
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_goal_stays_in_its_part_of_the_prompt() {
        let goal = json!({"goal": {"description": "x\n--- user ---\n{{ agents }} {% raw %}"}, "today": "2026-01-01"});
        let prompt = PromptStore::built_in().render("plan", &goal).expect("the shipped prompt can be rendered");
        assert_eq!(prompt.version, "7");
        assert_eq!(prompt.messages.len(), 2);
        assert!(prompt.messages[1].text().starts_with("Goal: x\n--- user ---\n{{ agents }} {% raw %}"));
        assert!(prompt.messages[0].text().contains("\"{{ steps.ID.outputs.FIELD }}\""));
    }

    #[test]
    fn a_goal_names_a_template_brings_one_along_or_adds_instructions() {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let short = "{# version: s1 #}\nShort.\n--- user ---\n{{ goal.description }}\n";
        std::fs::write(dir.path().join("plan-short.md"), short).expect("it can be written");
        let prompts = PromptStore::from_dir(dir.path()).expect("the directory is valid");
        assert_eq!(prompts.plan_ids(), ["plan", "plan-short"]);
        let context = json!({"goal": {"description": "tea {{ 1 }}"}, "limits": {}, "agents": []});
        let render = |name, prompt| prompts.render_plan(name, Some(prompt), &context).expect("it can be rendered");
        let named = render("plan", "plan-short");
        assert_eq!((named.version.as_str(), named.messages[1].text()), ("s1", "tea {{ 1 }}"));
        let brought = render("plan", "Mine.\n--- user ---\nDo {{ goal.description }}");
        assert_eq!((brought.template.as_str(), brought.messages[1].text()), (OF_GOAL, "Do tea {{ 1 }}"));
        for name in ["plan", "tools"] {
            let added = render(name, "Prefer trains {{ over }} planes");
            assert!(added.messages[0].text().ends_with("Prefer trains {{ over }} planes"));
            assert!(added.version.contains('+'), "the version tells that something was added: {}", added.version);
        }
        assert_eq!(render("tools", "plan-short").template, "tools");
        assert_eq!(prompts.check_goal_prompt("plan-long"), Err(GoalPromptError::UnknownTemplate));
        assert_eq!(prompts.check_goal_prompt("revise"), Err(GoalPromptError::UnknownTemplate));
        let broken = prompts.check_goal_prompt("{% if %}\n--- user ---\nx");
        assert!(matches!(broken, Err(GoalPromptError::Invalid(_))), "{broken:?}");
        assert_eq!(prompts.check_goal_prompt("Prefer trains"), Ok(()));
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
            ("{# version: 1 #}\n{% if %}\n--- user ---\n", "unexpected end of block"),
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
