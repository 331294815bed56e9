//! A language model out of a script, so that planning by a model can be tried without one.

use std::path::Path;

use goalmill_common::config::{Dialect, ModelTag, Settings};
use goalmill_scheduler::model::scripted::{Script, ScriptedServer};

use crate::exit::{Exit, Failed};

/// What the model is called in plans and metrics.
const NAME: &str = "scripted";

/// Serves the script, and makes it the only model.
pub async fn serve(script: Option<&Path>, settings: &mut Settings) -> Result<Option<ScriptedServer>, Failed> {
    let Some(path) = script else { return Ok(None) };
    let script = Script::load(path)
        .map_err(|error| Failed::invalid(error.to_string()).help("the fields of a script: docs/models.md"))?;
    let server = ScriptedServer::start(script)
        .await
        .map_err(|error| Failed::new(Exit::Other, format!("the scripted model cannot be served: {error}")))?;
    let mut model = server.settings(NAME, Dialect::Openai);
    model.tags = [ModelTag::Cheap, ModelTag::Strong].into();
    settings.models = vec![model];
    ask_first(&mut settings.planner.order);
    Ok(Some(server))
}

/// Puts the planner that asks models in front of the others.
fn ask_first(order: &mut Vec<String>) {
    if !order.iter().any(|name| name == "llm" || name == "tools") {
        order.insert(0, "llm".into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_script_takes_the_place_of_the_models_in_the_settings() {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let file = dir.path().join("script.yaml");
        let mut settings = Settings::default();
        std::fs::write(&file, "answers: [{text: hello}]").expect("a file can be written");
        let server = serve(Some(&file), &mut settings).await.expect("the script is valid");
        assert!(server.is_some());
        assert_eq!(settings.models.len(), 1);
        assert_eq!(settings.planner.order, ["llm", "rules"]);
        assert!(settings.models[0].base_url.starts_with("http://127.0.0.1:"));
        std::fs::write(&file, "answers: [{txt: hello}]").expect("a file can be written");
        let failed = serve(Some(&file), &mut settings).await.expect_err("there is no such field");
        assert!(failed.to_string().contains("script.yaml") && failed.to_string().contains("txt"), "{failed}");
        assert!(serve(None, &mut settings).await.expect("nothing is asked").is_none());
    }
}
