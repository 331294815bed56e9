//! Settings of the planners that use language models.

use serde::{Deserialize, Serialize};

use crate::planning::{PlanFeature, ReadGoal};

/// How a model makes plans, and how much that may take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LlmSettings {
    /// Directory of prompt templates that stand in for the built-in ones of the same name; none when empty.
    pub prompts_dir: String,
    /// How far a plan is worked out before it runs.
    pub strategy: PlanningStrategy,
    /// First answers that are asked for; the one with the fewest issues is worked on. Of several without any, the one in
    /// which a review finds the fewest errors.
    pub candidates: u32,
    /// Asks a model whether a plan that holds can reach the goal; what it objects to is corrected once, and reported. Plans
    /// begin as a whole then.
    pub review: bool,
    /// Whether a model reads constraints, criteria, deadline and inputs from the text of a goal before it is planned. One
    /// more call for each goal.
    pub read_goal: ReadGoal,
    /// What models may use in a plan besides steps with an action.
    pub features: Vec<PlanFeature>,
    /// Corrections of one model's draft.
    pub rounds_max: u32,
    /// Answers in a row without fewer issues, after which another model writes the plan.
    pub stalled_max: u32,
    /// Tokens of all calls for one plan, or one revision; the goal's budget counts too.
    pub tokens_max: u64,
    /// Tokens of one answer; reserved from the budget before each call.
    pub output_tokens_max: u64,
    /// 0 to 2; the server's own when missing.
    pub temperature: Option<f64>,
    /// Actions that a prompt lists; of more, those nearest to the goal are.
    pub actions_max: usize,
    /// Turns of the planner `tools`.
    pub turns_max: u32,
    /// Earlier valid plans that are remembered, to be shown as examples; 0 for none.
    pub memory_plans: usize,
    /// Remembered plans that one prompt shows.
    pub examples_max: usize,
    /// Estimated tokens of a goal's context and of retrieved passages in one prompt; 0 leaves them out.
    pub context_tokens_max: u64,
    /// Characters of a model's reasoning that the provenance keeps for each answer; 0 for none.
    pub reasoning_chars_max: usize,
    /// Documents that may help with goals.
    pub retriever: RetrieverSettings,
}

/// Documents whose passages are shown to models. Nothing is read or fetched that is not listed here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetrieverSettings {
    /// Folder of documents (`md`, `txt`, `rst`, `adoc`, `csv`, `html`) with its sub-folders; none when empty.
    pub documents_dir: String,
    /// Addresses of documents, `http://` or `https://`. Redirects are not followed.
    pub urls: Vec<String>,
    /// Passages that one prompt shows; 0 for none.
    pub passages_max: usize,
    /// Characters of one passage.
    pub passage_chars_max: usize,
    /// Files of the folder, in the order of their paths.
    pub files_max: usize,
    /// Bytes of all documents together; a single one has at most 1 MiB.
    pub bytes_max: usize,
    /// Milliseconds after which the documents are read again.
    pub refresh_ms: u64,
    /// Milliseconds to wait for one address.
    pub fetch_timeout_ms: u64,
}

impl Default for RetrieverSettings {
    fn default() -> Self {
        Self {
            documents_dir: String::new(),
            urls: Vec::new(),
            passages_max: 3,
            passage_chars_max: 1_200,
            files_max: 1_000,
            bytes_max: 8 << 20,
            refresh_ms: 300_000,
            fetch_timeout_ms: 5_000,
        }
    }
}

/// How far a plan is worked out before it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanningStrategy {
    /// All steps, each of them something an agent does.
    #[default]
    Flat,
    /// Large parts are steps of kind `plan`, planned when they are reached.
    Hierarchical,
    /// What can be known, with a checkpoint at its end at which the planner continues.
    Iterative,
}

impl PlanningStrategy {
    /// The word used in settings and provenance.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Hierarchical => "hierarchical",
            Self::Iterative => "iterative",
        }
    }
}

impl Default for LlmSettings {
    fn default() -> Self {
        Self {
            prompts_dir: String::new(),
            strategy: PlanningStrategy::Flat,
            candidates: 1,
            review: false,
            read_goal: ReadGoal::Off,
            features: PlanFeature::ALL.to_vec(),
            rounds_max: 6,
            stalled_max: 2,
            tokens_max: 200_000,
            output_tokens_max: 4_096,
            temperature: None,
            actions_max: 40,
            turns_max: 60,
            memory_plans: 0,
            examples_max: 2,
            context_tokens_max: 4_000,
            reasoning_chars_max: 2_000,
            retriever: RetrieverSettings::default(),
        }
    }
}

/// Every relation that does not hold, as sentences.
pub(super) fn violations(llm: &LlmSettings) -> Vec<String> {
    let checks = [
        ((1..=8).contains(&llm.candidates), "1 <= planner.llm.candidates <= 8"),
        (llm.stalled_max > 0, "planner.llm.stalled_max > 0"),
        (llm.output_tokens_max > 0, "planner.llm.output_tokens_max > 0"),
        (llm.output_tokens_max < llm.tokens_max, "planner.llm.output_tokens_max < planner.llm.tokens_max"),
        (llm.temperature.is_none_or(|t| (0.0..=2.0).contains(&t)), "0 <= planner.llm.temperature <= 2"),
        (llm.actions_max > 0, "planner.llm.actions_max > 0"),
        (llm.turns_max > 0, "planner.llm.turns_max > 0"),
        (llm.memory_plans <= 10_000, "planner.llm.memory_plans <= 10000"),
        (llm.context_tokens_max <= 1_000_000, "planner.llm.context_tokens_max <= 1000000"),
        (llm.reasoning_chars_max <= 100_000, "planner.llm.reasoning_chars_max <= 100000"),
        (llm.retriever.passages_max <= 50, "planner.llm.retriever.passages_max <= 50"),
        (
            (100..=20_000).contains(&llm.retriever.passage_chars_max),
            "100 <= planner.llm.retriever.passage_chars_max <= 20000",
        ),
        (llm.retriever.files_max <= 10_000, "planner.llm.retriever.files_max <= 10000"),
        (llm.retriever.bytes_max <= 64 << 20, "planner.llm.retriever.bytes_max <= 67108864"),
        (llm.retriever.refresh_ms >= 1_000, "planner.llm.retriever.refresh_ms >= 1000"),
        (llm.retriever.fetch_timeout_ms > 0, "planner.llm.retriever.fetch_timeout_ms > 0"),
        (llm.retriever.urls.len() <= 50, "planner.llm.retriever.urls has at most 50 addresses"),
        (
            llm.retriever.urls.iter().all(|url| url.starts_with("http://") || url.starts_with("https://")),
            "planner.llm.retriever.urls begin with http:// or https://",
        ),
    ];
    checks.iter().filter(|(holds, _)| !holds).map(|(_, text)| format!("`{text}` must hold")).collect()
}
