//! Plans that are valid and wrong to see: the prompt once more, texts that are placeholders, steps of another goal.

use std::collections::BTreeSet;

use goalmill_common::goal::Goal;
use goalmill_common::plan::{Plan, Step};
use goalmill_common::problem::Issue;
use goalmill_plan::validate::names::{stem, words};
use serde_json::Value;

use super::prompt_store::Prompt;

/// Shorter texts of an example, such as `fr`, are no facts of it.
const FACT_CHARS_MIN: usize = 4;
/// Descriptions that describe nothing, without case and punctuation.
const EMPTY_DESCRIPTIONS: [&str; 14] = [
    "", "string", "text", "description", "what is to be done", "placeholder", "todo", "tbd", "value", "input", "step",
    "none", "null", "example",
];
/// Texts of inputs that give no value, without case and punctuation.
const EMPTY_INPUTS: [&str; 5] = ["", "string", "placeholder", "todo", "tbd"];

/// Words of an input that are a sentence of the prompt, at least.
const SENTENCE_WORDS_MIN: usize = 5;
/// Letters of a content word, at least.
const WORD_CHARS_MIN: usize = 3;
/// Words that every plan and every goal may have.
const COMMON_WORDS: [&str; 60] = [
    "the", "and", "for", "with", "from", "that", "this", "then", "than", "into", "all", "any", "are", "was", "has",
    "have", "not", "but", "our", "your", "their", "its", "his", "her", "will", "can", "must", "should", "who", "what",
    "when", "where", "which", "how", "please", "step", "steps", "task", "tasks", "goal", "plan", "action", "agent",
    "run", "perform", "execute", "complete", "make", "get", "give", "use", "using", "input", "output", "outputs",
    "result", "results", "user", "request", "general",
];

/// The plan speaks of nothing that the goal speaks of.
pub const GOAL_NOT_ADDRESSED: &str = "GOAL_NOT_ADDRESSED";
/// An input holds a sentence of the instructions.
pub const PROMPT_COPIED: &str = "PROMPT_COPIED";

/// What a prompt shows, as far as its goal does not say the same.
#[derive(Clone, Debug, Default)]
pub struct PromptExample {
    descriptions: BTreeSet<String>,
    /// Texts of inputs.
    facts: BTreeSet<String>,
    /// The words of the system message, in lower case.
    instructions: String,
}

impl PromptExample {
    /// The examples of a prompt are the lines of its system message that are plans.
    pub fn from_prompt(prompt: &Prompt) -> Self {
        let [system, others @ ..] = prompt.messages.as_slice() else { return Self::default() };
        let mut example = Self { instructions: normal(system.text()), ..Self::default() };
        let plans = system.text().lines().filter(|line| line.starts_with('{')).map(serde_json::from_str::<Value>);
        for step in plans.flatten().filter_map(|plan| plan.get("steps")?.as_array().cloned()).flatten() {
            example.descriptions.extend(step.get("description").and_then(Value::as_str).map(normal));
            let texts = texts(step.get("inputs").unwrap_or(&Value::Null));
            let is_fact = |text: &String| !text.contains("{{") && text.chars().count() >= FACT_CHARS_MIN;
            example.facts.extend(texts.into_iter().filter(is_fact));
        }
        example.facts.retain(|fact| !others.iter().any(|message| message.text().contains(fact.as_str())));
        example
    }

    /// Whether a plan repeats it: all descriptions of a plan with other facts, or one of its facts.
    fn is_repeated_by(&self, plan: &Plan, step: &Step) -> bool {
        let is_known = |step: &Step| self.descriptions.contains(&normal(&step.description));
        let is_whole = !self.facts.is_empty() && plan.steps.iter().all(is_known);
        is_whole || texts(&step.inputs.value()).iter().any(|text| self.facts.contains(text))
    }
}

/// Why a valid plan is a guess: it has no content word of the goal, or an input is a sentence of the instructions.
pub fn doubts(plan: &Plan, goal: &Goal, example: &PromptExample) -> Vec<Issue> {
    let mut doubts = Vec::new();
    let wanted = content_words([goal.description.as_str()]);
    let steps: Vec<Value> = plan.steps.iter().map(|step| serde_json::to_value(step).unwrap_or_default()).collect();
    let said: Vec<String> = steps.iter().flat_map(texts).collect();
    if !wanted.is_empty() && wanted.is_disjoint(&content_words(said.iter().map(String::as_str))) {
        doubts.push(Issue {
            code: GOAL_NOT_ADDRESSED.into(),
            pointer: "/steps".into(),
            detail: "no step has a word of the goal".into(),
            hint: "read the plan before it runs; a larger model may plan better".into(),
        });
    }
    let said_by_goal = normal(&goal.description);
    for (at, step) in plan.steps.iter().enumerate() {
        let is_copied = |text: &String| {
            let text = normal(text);
            let is_sentence = text.split(' ').count() >= SENTENCE_WORDS_MIN;
            is_sentence && example.instructions.contains(&text) && !said_by_goal.contains(&text)
        };
        if texts(&step.inputs.value()).iter().any(is_copied) {
            doubts.push(Issue {
                code: PROMPT_COPIED.into(),
                pointer: format!("/steps/{at}/inputs"),
                detail: format!("an input of step `{}` is a sentence of the instructions to the model", step.id),
                hint: "read the plan before it runs; a larger model may plan better".into(),
            });
        }
    }
    doubts
}

/// The stems of the words that say what a text is about; a script without spaces gives pairs of neighbouring signs.
fn content_words<'t>(texts: impl IntoIterator<Item = &'t str>) -> BTreeSet<String> {
    let mut stems = BTreeSet::new();
    for text in texts {
        let outside = text.split("{{").map(|part| part.split_once("}}").map_or(part, |(_, rest)| rest));
        for word in outside.flat_map(|part| part.split_whitespace().flat_map(words)) {
            let has_case = word.chars().any(char::is_lowercase);
            if has_case && word.chars().count() >= WORD_CHARS_MIN && !COMMON_WORDS.contains(&word.as_str()) {
                stems.insert(stem(&word));
            } else if !has_case && !word.is_ascii() {
                let signs: Vec<char> = word.chars().collect();
                stems.extend(signs.windows(2).map(String::from_iter));
            }
        }
    }
    stems
}

/// The steps of a plan that repeat the example or say nothing.
pub fn issues(plan: &Plan, example: &PromptExample) -> Vec<Issue> {
    let mut issues = Vec::new();
    for (at, step) in plan.steps.iter().enumerate() {
        let mut issue = |code: &str, detail: String, hint: &str| {
            issues.push(Issue { code: code.into(), pointer: format!("/steps/{at}"), detail, hint: hint.into() });
        };
        if example.is_repeated_by(plan, step) {
            let detail = format!("step `{}` repeats the example of the prompt", step.id);
            issue("EXAMPLE_REPEATED", detail, "plan the goal: its own steps, with facts that it states");
        } else if says_nothing(step) {
            let detail = format!("step `{}` says nothing: its texts are empty or placeholders", step.id);
            issue("STEP_SAYS_NOTHING", detail, "describe what the step does, and give real values");
        }
    }
    issues
}

fn says_nothing(step: &Step) -> bool {
    let inputs = step.inputs.value();
    let texts = texts(&inputs);
    let has_action = !step.action.is_empty();
    if is_placeholder(&step.description, &EMPTY_DESCRIPTIONS) {
        let is_empty = step.description.is_empty();
        return !is_empty || !has_action && texts.is_empty() && !step.kind.is_inline();
    }
    let given: Vec<&String> = texts.iter().filter(|text| !text.is_empty()).collect();
    !given.is_empty() && given.iter().all(|text| is_placeholder(text, &EMPTY_INPUTS)) && !has_other_values(&inputs)
}

fn is_placeholder(text: &str, words: &[&str]) -> bool {
    let text = text.trim();
    let is_slot = text.starts_with('<') && text.ends_with('>') && !text[1..].contains('<');
    // A text without letters and digits, such as `-1` or `…`, may still be a value if it is no row of dots.
    let is_dots = !text.is_empty() && text.chars().all(|c| matches!(c, '.' | '…'));
    let normal = normal(text);
    is_slot || is_dots || words.contains(&normal.as_str()) && (text.is_empty() || !normal.is_empty())
}

/// Whether inputs have numbers or truth values, which always say something.
fn has_other_values(value: &Value) -> bool {
    match value {
        Value::Bool(_) | Value::Number(_) => true,
        Value::Array(items) => items.iter().any(has_other_values),
        Value::Object(map) => map.values().any(has_other_values),
        Value::Null | Value::String(_) => false,
    }
}

/// All texts in a value.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(map) => map.values().flat_map(texts).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

/// The words of a text, in lower case.
fn normal(text: &str) -> String {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use goalmill_common::json::Json;
    use goalmill_llm::Message;
    use serde_json::json;

    use super::*;

    fn step(description: &str, inputs: &Value) -> Step {
        let step = json!({"id": "s1", "description": description, "agent_type": "a", "action": "do"});
        Step { inputs: Json::from_value(inputs), ..serde_json::from_value(step).expect("it is a step") }
    }

    fn codes(steps: Vec<Step>, goal: &str) -> Vec<String> {
        let example = json!({"steps": [{"id": "s1", "description": "Read the report", "inputs": {"path": "report.txt", "language": "fr"}},
                                       {"id": "s2", "description": "Mail it", "inputs": {"body": "{{ steps.s1.outputs.text }}"}}]});
        let prompt = Prompt {
            template: "plan".into(),
            version: "1".into(),
            messages: vec![Message::system(format!("Rules\n{example}\nIts plan: {example}")), Message::user(goal)],
        };
        let plan = Plan { steps, ..Plan::default() };
        issues(&plan, &PromptExample::from_prompt(&prompt)).into_iter().map(|issue| issue.code).collect()
    }

    #[test]
    fn the_example_of_the_prompt_is_no_plan_unless_the_goal_has_its_facts() {
        let whole =
            || vec![step("Read the report.", &json!({"path": "x.txt"})), step("mail it", &json!({"body": "x"}))];
        assert_eq!(codes(whole(), "Goal: bake bread"), ["EXAMPLE_REPEATED", "EXAMPLE_REPEATED"]);
        assert!(codes(whole(), "Goal: translate report.txt").is_empty());
        let fact = || vec![step("Look it up", &json!({"path": "report.txt"})), step("Bake", &json!({"path": "a"}))];
        assert_eq!(codes(fact(), "Goal: bake bread"), ["EXAMPLE_REPEATED"]);
        assert!(codes(fact(), "Goal: shorten report.txt").is_empty());
        let own = vec![step("Read the report", &json!({"language": "fr"})), step("Bake", &json!({"path": "a"}))];
        assert!(codes(own, "Goal: bake bread").is_empty());
    }

    fn doubts_of(goal: &str, description: &str, inputs: &Value) -> Vec<String> {
        let prompt = Prompt {
            template: "plan".into(),
            version: "1".into(),
            messages: vec![
                Message::system("Each step has a sentence that says what this step does."),
                Message::user("x"),
            ],
        };
        let plan = Plan { steps: vec![step(description, inputs)], ..Plan::default() };
        let goal = Goal { description: goal.into(), ..Goal::default() };
        doubts(&plan, &goal, &PromptExample::from_prompt(&prompt)).into_iter().map(|issue| issue.code).collect()
    }

    #[test]
    fn a_plan_without_a_word_of_the_goal_is_a_guess() {
        for (goal, description, inputs) in [
            ("Bake bread", "Read the report", json!({"path": "report.txt"})),
            (
                "Email the newsletter to the team",
                "Perform the task",
                json!({"text": "{{ steps.team.outputs.newsletter }}"}),
            ),
            ("预订去巴黎的机票", "查询上海天气", json!({})),
        ] {
            assert_eq!(doubts_of(goal, description, &inputs), [GOAL_NOT_ADDRESSED], "{goal}: {description}");
        }
        for (goal, description, inputs) in [
            ("Bake bread", "Start the baking", json!({})),
            ("Bake bread", "Heat the oven", json!({"food": ["Bread"]})),
            ("预订去巴黎的机票", "预订机票", json!({})),
            ("Do it", "Read the report", json!({})),
            ("42", "Read the report", json!({})),
        ] {
            assert_eq!(doubts_of(goal, description, &inputs), [""; 0], "{goal}: {description}");
        }
    }

    #[test]
    fn an_input_that_is_a_sentence_of_the_instructions_is_a_guess() {
        let copied = json!({"text": "a sentence that says what this step does"});
        assert_eq!(doubts_of("Bake bread", "Bake", &copied), [PROMPT_COPIED]);
        assert_eq!(doubts_of("Bake bread", "Bake", &json!({"text": "what this step does"})), [""; 0]);
        let goal = "Bake a sentence that says what this step does";
        assert_eq!(doubts_of(goal, "Bake", &copied), [""; 0], "the goal says it");
    }

    #[test]
    fn a_step_whose_texts_are_placeholders_says_nothing() {
        for (description, inputs) in [
            ("...", json!({"to": "Rome"})),
            ("String", json!({})),
            ("<what to do>", json!({})),
            ("Fly", json!({"to": "string"})),
            ("Fly", json!({"to": "<city>", "note": ""})),
        ] {
            assert_eq!(codes(vec![step(description, &inputs)], "x"), ["STEP_SAYS_NOTHING"], "{description} {inputs}");
        }
        for (description, inputs) in [
            ("Fly", json!({})),
            ("", json!({"to": "Rome"})),
            ("", json!({})),
            ("Add a field", json!({"type": "string", "name": "age"})),
            ("Fly", json!({"to": "", "seats": 2})),
            ("Count", json!({"separator": "-"})),
        ] {
            assert!(codes(vec![step(description, &inputs)], "x").is_empty(), "{description} {inputs}");
        }
    }
}
