//! A scripted language model, for trying out model planners.

use goalmill_common::config::{Dialect, ModelTag, Settings};
use goalmill_demo::scripted::{Script, ScriptedServer};

use super::story;
use crate::args::{Demo, DevArgs};
use crate::exit::{Exit, Failed};

/// Name of the model in plans and metrics.
const NAME: &str = "scripted";

/// Name of the script, if any.
pub fn script_name(args: &DevArgs) -> Option<String> {
    let named = args.model_script.as_ref().map(|path| path.display().to_string());
    named.or_else(|| (args.demo == Some(Demo::Story)).then(|| story::SCRIPT_NAME.to_owned()))
}

fn script(args: &DevArgs) -> Result<Option<Script>, Failed> {
    let script = match (&args.model_script, args.demo) {
        (Some(path), _) => Script::load(path).map_err(|error| error.to_string()),
        (None, Some(Demo::Story)) => Script::parse(story::SCRIPT),
        (None, Some(Demo::Trip) | None) => return Ok(None),
    };
    script.map(Some).map_err(|error| Failed::invalid(error).help("the fields of a script: docs/models.md"))
}

/// Serves the script and makes it the only model of the settings.
pub async fn serve(args: &DevArgs, settings: &mut Settings) -> Result<Option<ScriptedServer>, Failed> {
    let Some(script) = script(args)? else { return Ok(None) };
    let server = ScriptedServer::start(script)
        .await
        .map_err(|error| Failed::new(Exit::Other, format!("the scripted model cannot be served: {error}")))?;
    let mut model = server.settings(NAME, Dialect::Openai);
    model.tags = [ModelTag::Cheap, ModelTag::Strong].into();
    settings.models = vec![model];
    ask_first(&mut settings.planner.order);
    Ok(Some(server))
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
        let server = serve(&args_of_file, &mut settings).await.expect("the script is valid");
        assert!(server.is_some());
        assert_eq!(settings.models.len(), 1);
        assert_eq!(settings.planner.order, ["llm", "rules"]);
        assert!(settings.models[0].base_url.starts_with("http://127.0.0.1:"));
        std::fs::write(&file, "answers: [{txt: hello}]").expect("a file can be written");
        let failed = serve(&args_of_file, &mut settings).await.expect_err("there is no such field");
        assert!(failed.to_string().contains("script.yaml") && failed.to_string().contains("txt"), "{failed}");
        assert!(serve(&args("goalmill dev --demo"), &mut settings).await.expect("nothing is asked").is_none());
    }

    #[tokio::test]
    async fn the_story_brings_its_own_script() {
        let mut settings = Settings::default();
        let told = args("goalmill dev --demo story");
        assert!(serve(&told, &mut settings).await.expect("the shipped script is valid").is_some());
        assert_eq!(script_name(&told).as_deref(), Some("config/stories/paris.yaml"));
    }
}
