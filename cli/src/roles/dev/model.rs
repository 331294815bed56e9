//! The language model of `dev`: by name, of the settings, of the environment, or scripted.

use goalmill_common::config::{Dialect, ModelTag, PlannerSettings, Settings, model_by_name, model_from_environment};
use goalmill_demo::scripted::{Script, ScriptedServer};

use super::story;
use crate::args::{Demo, DevArgs};
use crate::exit::{Exit, Failed};

/// Name of the scripted model in plans and metrics.
const SCRIPTED: &str = "scripted";
/// The name that stands for no model.
const NONE: &str = "none";

/// The model that was chosen.
#[derive(Default)]
pub struct DevModel {
    /// Ends with this value.
    _server: Option<ScriptedServer>,
    /// Where the model comes from, for the banner; `None` without a model.
    pub source: Option<String>,
    /// The shipped agents ask it; else the demo agents are served.
    pub serves_agents: bool,
}

/// Name of the script, if any.
fn script_name(args: &DevArgs) -> Option<String> {
    let named = args.model_script.as_ref().map(|path| path.display().to_string());
    named.or_else(|| (args.demo == Some(Demo::Story)).then(|| story::SCRIPT_NAME.to_owned()))
}

fn script(args: &DevArgs) -> Result<Option<Script>, Failed> {
    let script = match (&args.model_script, args.demo) {
        (Some(path), _) => Script::load(path).map_err(|error| error.to_string()),
        (None, Some(Demo::Story)) => Script::parse(story::SCRIPT),
        (None, Some(Demo::Trip | Demo::Saga) | None) => return Ok(None),
    };
    script.map(Some).map_err(|error| Failed::invalid(error).help("the fields of a script: docs/models.md"))
}

/// Chooses the model and puts it into the settings.
///
/// - `is_order_default`: the settings do not say which planners are asked.
pub async fn choose(args: &DevArgs, settings: &mut Settings, is_order_default: bool) -> Result<DevModel, Failed> {
    let serves_agents = args.demo.is_none() && !args.demo_agents;
    if let Some(script) = script(args)? {
        let server = serve(script, args, settings).await?;
        let source = script_name(args).map(|name| format!("scripted by {name}"));
        return Ok(DevModel { _server: Some(server), source, serves_agents: serves_agents && args.model.is_some() });
    }
    let (source, is_asked_for) = match args.model.as_deref() {
        Some(NONE) => return Ok(DevModel::default()),
        Some(SCRIPTED) if !settings.models.iter().any(|model| model.name == SCRIPTED) => {
            let failed = Failed::new(Exit::Usage, "the model `scripted` needs a script");
            return Err(failed.help("try: goalmill dev --model scripted --model-script FILE"));
        }
        Some(name) => {
            let own = settings.models.iter().find(|model| model.name == name).cloned();
            let model = own.map_or_else(|| model_by_name(name), Ok);
            settings.models = vec![model.map_err(|error| Failed::new(Exit::Usage, error))?];
            ("--model".to_owned(), true)
        }
        None if args.demo.is_some() => return Ok(DevModel::default()),
        None if !settings.models.is_empty() => ("of the settings".to_owned(), is_order_default),
        None => match model_from_environment() {
            Some(model) => {
                settings.models = vec![model];
                ("of the environment; `--model none` does without".to_owned(), true)
            }
            None => return Ok(DevModel::default()),
        },
    };
    if is_asked_for {
        ask_first(&mut settings.planner.order);
    }
    Ok(DevModel { _server: None, source: Some(source), serves_agents })
}

/// How long the rules wait for a scripted model, in milliseconds.
const SCRIPTED_FALLBACK_MS: u64 = 30_000;

/// Serves the script and makes it the only model of the settings.
async fn serve(script: Script, args: &DevArgs, settings: &mut Settings) -> Result<ScriptedServer, Failed> {
    if args.model.as_deref().is_some_and(|name| name != SCRIPTED) {
        let failed = Failed::new(Exit::Usage, format!("the model of `--model-script` has the name `{SCRIPTED}`"));
        return Err(failed.help("try: --model scripted"));
    }
    let server = ScriptedServer::start(script)
        .await
        .map_err(|error| Failed::new(Exit::Other, format!("the scripted model cannot be served: {error}")))?;
    let mut model = server.settings(SCRIPTED, Dialect::Openai);
    model.tags = [ModelTag::Cheap, ModelTag::Strong].into();
    settings.models = vec![model];
    ask_first(&mut settings.planner.order);
    // Its answers always come: on a busy machine the rules must not take its place.
    if settings.planner.fallback_after_ms == PlannerSettings::default().fallback_after_ms {
        settings.planner.fallback_after_ms = SCRIPTED_FALLBACK_MS;
    }
    Ok(server)
}

/// Puts the planner `llm` before the others.
fn ask_first(order: &mut Vec<String>) {
    if !order.iter().any(|name| name == "llm" || name == "tools") {
        order.insert(0, "llm".into());
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use goalmill_common::config::ModelSettings;

    use super::*;
    use crate::args::{Cli, Command};

    fn args(line: &str) -> DevArgs {
        let cli = Cli::try_parse_from(line.split_whitespace()).expect("the line is right");
        let Command::Dev(args) = cli.command else { panic!("`{line}` is not `dev`") };
        args
    }

    #[tokio::test]
    async fn a_script_takes_the_place_of_the_models_in_the_settings() {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let file = dir.path().join("script.yaml");
        let args_of_file = args(&format!("goalmill dev --model-script {}", file.display()));
        let mut settings = Settings::default();
        std::fs::write(&file, "answers: [{text: hello}]").expect("a file can be written");
        let model = choose(&args_of_file, &mut settings, true).await.expect("the script is valid");
        assert!(model.source.is_some() && !model.serves_agents, "the demo agents work");
        assert_eq!(settings.models.len(), 1);
        assert_eq!(settings.planner.order, ["llm", "rules"]);
        assert!(settings.models[0].base_url.starts_with("http://127.0.0.1:"));
        let named = args(&format!("goalmill dev --model scripted --model-script {}", file.display()));
        assert!(choose(&named, &mut settings, true).await.expect("the script is valid").serves_agents);
        std::fs::write(&file, "answers: [{txt: hello}]").expect("a file can be written");
        let failed = choose(&args_of_file, &mut settings, true).await.err().expect("there is no such field");
        assert!(failed.to_string().contains("script.yaml") && failed.to_string().contains("txt"), "{failed}");
    }

    #[tokio::test]
    async fn the_story_brings_its_own_script() {
        let mut settings = Settings::default();
        let told = args("goalmill dev --demo story");
        let model = choose(&told, &mut settings, true).await.expect("the shipped script is valid");
        assert!(model.source.is_some() && !model.serves_agents);
        assert_eq!(model.source.as_deref(), Some("scripted by config/stories/paris.yaml"));
    }

    #[tokio::test]
    async fn one_switch_puts_a_model_first_and_serves_its_agents() {
        let own = ModelSettings { name: "own".into(), base_url: "http://127.0.0.1:1/v1".into(), ..Default::default() };
        let with = |models: &[ModelSettings]| Settings { models: models.to_vec(), ..Settings::default() };
        for (line, models, is_order_default, order, serves_agents) in [
            ("goalmill dev --model own", vec![own.clone()], false, vec!["llm", "rules"], true),
            ("goalmill dev --model ollama/qwen3", vec![], false, vec!["llm", "rules"], true),
            ("goalmill dev --model own --demo-agents", vec![own.clone()], true, vec!["llm", "rules"], false),
            ("goalmill dev", vec![own.clone()], true, vec!["llm", "rules"], true),
            ("goalmill dev", vec![own.clone()], false, vec!["rules"], true),
            ("goalmill dev --model none", vec![own.clone()], true, vec!["rules"], false),
            ("goalmill dev --demo", vec![own.clone()], true, vec!["rules"], false),
        ] {
            let mut settings = with(&models);
            let model = choose(&args(line), &mut settings, is_order_default).await.expect(line);
            assert_eq!(
                (settings.planner.order, model.serves_agents),
                (order.iter().map(|n| (*n).to_owned()).collect(), serves_agents),
                "{line}"
            );
        }
        for line in ["goalmill dev --model scripted", "goalmill dev --model nobody-knows-it"] {
            let failed = choose(&args(line), &mut with(&[]), true).await.err().expect(line);
            assert_eq!(failed.exit, Exit::Usage, "{failed}");
        }
    }
}
