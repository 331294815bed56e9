//! `model check`: what a model can do, found by asking it.

use std::path::Path;
use std::sync::Arc;

use futures_util::StreamExt;
use goalmill_agents::written_calls;
use goalmill_common::config::{ModelSettings, Settings, model_by_name};
use goalmill_common::random::Random;
use goalmill_llm::{
    Completion, CompletionDelta, CompletionRequest, Message, ModelError, ModelRegistry, ResponseFormat, ResponseMode,
    SchemaForm, Tool, ToolChoice,
};
use goalmill_planning::plan_schema_of;
use serde::Serialize;
use serde_json::{Value, json};

use super::config::settings;
use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit, Failed};
use crate::output::{Palette, Table, Tone, while_waiting};

/// Tokens of one answer; enough for a model that thinks before a short answer.
const OUTPUT_TOKENS_MAX: u64 = 2_000;

/// What was found of a model.
#[derive(Serialize)]
struct ModelCheck {
    model: String,
    /// The name at the server, and its address.
    wire_name: String,
    base_url: String,
    dialect: &'static str,
    probes: Vec<Probe>,
    /// US dollars of all calls.
    cost: f64,
    /// Planners and agents can use the model.
    usable: bool,
}

/// One question to the model.
#[derive(Serialize)]
struct Probe {
    probe: &'static str,
    passed: bool,
    /// How the form of the answer was requested; none without an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<ResponseMode>,
    input_tokens: u64,
    output_tokens: u64,
    latency_ms: u64,
    /// What is wrong, or worth knowing.
    #[serde(skip_serializing_if = "String::is_empty")]
    detail: String,
    #[serde(skip)]
    cost: f64,
}

impl Probe {
    fn new(probe: &'static str, answer: &Result<Completion, ModelError>) -> Self {
        match answer {
            Ok(answer) => Self {
                probe,
                passed: true,
                mode: Some(answer.mode),
                input_tokens: answer.usage.input_tokens,
                output_tokens: answer.usage.output_tokens,
                latency_ms: answer.latency_ms,
                detail: String::new(),
                cost: answer.cost.dollars(),
            },
            Err(error) => Self {
                probe,
                passed: false,
                mode: None,
                input_tokens: 0,
                output_tokens: 0,
                latency_ms: 0,
                detail: format!("{error} [{}]", error.code()),
                cost: 0.0,
            },
        }
    }

    /// A probe that was not made.
    fn not_asked(probe: &'static str, detail: &str) -> Self {
        Self { detail: format!("not asked: {detail}"), ..Self::new(probe, &Err(ModelError::Cancelled)) }
    }

    /// The same probe, failed for this reason; an earlier reason stays.
    fn refuse(&mut self, detail: impl Into<String>) {
        self.passed = false;
        if self.detail.is_empty() {
            self.detail = detail.into();
        }
    }
}

pub async fn run(context: &CommandContext, name: &str, config: Option<&Path>) -> CommandResult {
    let settings = settings(config, &[])?.settings;
    let known = settings.models.iter().find(|model| model.name == name).cloned();
    let model = match known {
        Some(model) => model,
        None => model_by_name(name).map_err(|error| unknown(name, &settings.models, &error))?,
    };
    let registry = ModelRegistry::from_settings(std::slice::from_ref(&model), context.clock.clone(), Random::system());
    let registry = Arc::new(registry.map_err(|error| Failed::invalid(error.to_string()))?);
    let probes =
        while_waiting(&context.screen, &format!("asking `{}`", model.name), probes(&registry, &model.name, &settings))
            .await;
    let has = |name: &str| probes.iter().any(|probe| probe.probe == name && probe.passed);
    let usable = has("plan") && has("tool call");
    let check = ModelCheck {
        wire_name: model.wire_name().to_owned(),
        base_url: model.base_url.clone(),
        dialect: model.dialect.as_str(),
        cost: probes.iter().map(|probe| probe.cost).sum(),
        model: model.name,
        probes,
        usable,
    };
    context.screen.show(&check, &check.model, |palette| table(&check, palette))?;
    Ok(if check.usable { Exit::Done } else { Exit::Other })
}

fn unknown(name: &str, models: &[ModelSettings], error: &str) -> Failed {
    let names: Vec<String> = models.iter().map(|model| format!("`{}`", model.name)).collect();
    let known =
        if names.is_empty() { "the settings have no `models`".into() } else { format!("known: {}", names.join(", ")) };
    Failed::new(Exit::NotFound, format!("no model `{name}` is in the settings, and {error}")).help(known)
}

async fn probes(models: &Arc<ModelRegistry>, name: &str, settings: &Settings) -> Vec<Probe> {
    let text = text(models).await;
    // The reason would be the same four times.
    if !text.passed {
        return vec![text];
    }
    let stream = stream(models).await;
    let plan = probe_plan(models, name, settings).await;
    let [call, result] = tool_call(models).await;
    vec![text, stream, plan, call, result]
}

fn request(messages: Vec<Message>, format: ResponseFormat) -> CompletionRequest {
    CompletionRequest {
        output_tokens_max: Some(OUTPUT_TOKENS_MAX),
        temperature: Some(0.0),
        ..CompletionRequest::new(messages, format)
    }
}

async fn text(models: &ModelRegistry) -> Probe {
    let answer =
        models.complete(&request(vec![Message::user("Answer with the one word: ready")], ResponseFormat::Text)).await;
    let mut probe = Probe::new("text", &answer);
    if answer.is_ok_and(|answer| answer.text.trim().is_empty()) {
        probe.refuse("the answer is empty");
    }
    probe
}

async fn stream(models: &Arc<ModelRegistry>) -> Probe {
    let question =
        request(vec![Message::user("Count from 1 to 20, in digits, separated by spaces.")], ResponseFormat::Text);
    let (mut pieces, mut ended) = (0_u64, Err(ModelError::Cancelled));
    let mut deltas = models.stream(question);
    while let Some(delta) = deltas.next().await {
        if let CompletionDelta::Ended(result) = delta {
            ended = *result;
        } else if delta.is_content() {
            pieces += 1;
        }
    }
    let mut probe = Probe::new("stream", &ended);
    if probe.passed && pieces < 2 {
        probe.refuse("the answer came in one piece: progress cannot be shown, and a hanging server is noticed late");
    } else if probe.passed {
        probe.detail = format!("{pieces} pieces");
    }
    probe
}

/// A plan of the shipped agents, with the schema that planners send.
async fn probe_plan(models: &ModelRegistry, name: &str, settings: &Settings) -> Probe {
    let schema = plan_schema_of(goalmill_agents::shipped_cards(), &settings.planner.llm, &settings.limits);
    let text = "Plan this goal in two steps: find three facts about bees, then write a paragraph about them. The first step is \
                `research` of `research_agent`, the second one is `write` of `writer_agent` and depends on the first one.";
    let format = ResponseFormat::Json { name: "plan".into(), schema: schema.clone() };
    let answer = models.complete(&request(vec![Message::user(text)], format)).await;
    let mut probe = Probe::new("plan", &answer);
    if let Ok(answer) = &answer {
        let form = match answer.mode {
            ResponseMode::JsonSchema => models.schema_form(name).await.unwrap_or(SchemaForm::Prompt),
            ResponseMode::ForcedTool | ResponseMode::JsonObject | ResponseMode::Tools | ResponseMode::Text => {
                SchemaForm::Prompt
            }
        };
        probe.detail = format!("{} form, {} bytes", form.as_str(), schema.form(form).to_string().len());
        if let Err(reason) = check_plan(answer.content()) {
            probe.passed = false;
            probe.detail = format!("{reason}; {}", probe.detail);
        }
    }
    probe
}

/// Whether the answer is a plan of the known agent types.
fn check_plan(content: &str) -> Result<(), String> {
    let plan: Value =
        serde_json::from_str(content.trim()).map_err(|error| format!("the answer is not JSON: {error}"))?;
    let steps = plan.get("steps").and_then(Value::as_array).ok_or("the answer has no list `steps`")?;
    if steps.is_empty() {
        return Err("the plan has no steps".into());
    }
    let known = goalmill_agents::shipped_cards();
    // The strict form of the schema has the agent in `work`.
    let agent_type = |step: &Value| step.get("work").unwrap_or(step)["agent_type"].clone();
    let is_known = |name: &Value| known.iter().any(|agent| *name == agent.agent_type.as_str());
    match steps.iter().map(agent_type).find(|name| !is_known(name)) {
        Some(name) => Err(format!("a step has an unknown agent type: {name}")),
        None => Ok(()),
    }
}

/// A tool call, and what the model makes of its result.
async fn tool_call(models: &ModelRegistry) -> [Probe; 2] {
    let number = json!({"type": "integer"});
    let parameters = json!({"type": "object", "properties": {"a": number, "b": number}, "required": ["a", "b"]});
    let tool = Tool { name: "add".into(), description: "Adds two numbers.".into(), parameters };
    let tools = vec![tool];
    let format = ResponseFormat::Tools { tools: tools.clone(), choice: ToolChoice::Auto };
    let question = Message::user("Use the tool to add 1234 and 4321, then tell me the sum.");
    let first = models.complete(&request(vec![question.clone()], format.clone())).await;
    let mut call = Probe::new("tool call", &first);
    let is_text = first.as_ref().is_ok_and(|answer| answer.tool_calls.is_empty());
    let made = first.as_ref().ok().and_then(|answer| {
        let written = if is_text { written_calls(&answer.text, &tools) } else { Vec::new() };
        answer.tool_calls.first().cloned().or_else(|| written.into_iter().next())
    });
    let (Ok(first), Some(made)) = (&first, made) else {
        call.refuse("the model called no tool");
        return [call, Probe::not_asked("tool result", "there was no call")];
    };
    if is_text {
        call.detail = "the call is written in the text; agents and planners read it there".into();
    }
    let inputs = made.parse_arguments().unwrap_or_default();
    let number = |field: &str| inputs[field].as_i64().or_else(|| inputs[field].as_str()?.parse().ok());
    if made.name != "add" || number("a").zip(number("b")).is_none_or(|(a, b)| a + b != 5_555) {
        call.refuse(format!("the call has other inputs than asked for: {} {}", made.name, made.arguments));
    }
    let (turn, tool_result) = if is_text {
        (Message::assistant(first.text.clone()), Message::user("Result of `add`: 5555"))
    } else {
        let turn = Message::Assistant {
            text: first.text.clone(),
            tool_calls: vec![made.clone()],
            provider_fields: first.provider_fields.clone(),
        };
        (turn, Message::Tool { call_id: made.id, name: made.name, text: "5555".into() })
    };
    let second = models.complete(&request(vec![question, turn, tool_result], format)).await;
    let mut result = Probe::new("tool result", &second);
    if second.is_ok_and(|answer| !answer.text.replace([',', '.', ' ', '\''], "").contains("5555")) {
        result.refuse("the answer does not have the result of the tool");
    }
    [call, result]
}

fn table(check: &ModelCheck, palette: Palette) -> String {
    let mut table = Table::new(&["", "PROBE", "MODE", "TOKENS", "SECONDS", "DETAIL"]);
    for probe in &check.probes {
        let mark = if probe.passed { "✓" } else { "✗" };
        let mode = probe.mode.map_or("-", ResponseMode::as_str);
        table.row([
            mark.to_owned(),
            probe.probe.to_owned(),
            mode.to_owned(),
            format!("{} + {}", probe.input_tokens, probe.output_tokens),
            format!("{:.1}", probe.latency_ms as f64 / 1_000.0),
            probe.detail.clone(),
        ]);
    }
    let head = format!("{} · {} at {} · {}\n", check.model, check.wire_name, check.base_url, check.dialect);
    let (tone, verdict) = match check.usable {
        true => (Tone::Good, "planners and agents can use this model"),
        false => (Tone::Bad, "planners or agents cannot use this model as it is set"),
    };
    format!("{head}\n{}\n{} · {:.6} USD", table.render(palette, ""), palette.tone(tone, verdict), check.cost)
}
