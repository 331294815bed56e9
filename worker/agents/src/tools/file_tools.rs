//! Tools `read_file`, `write_file` and `list_files`: the files of the plan.

use std::sync::Arc;

use async_trait::async_trait;
use goalmill_common::id::PlanId;
use goalmill_common::task::Task;
use serde_json::{Value, json};

use super::workspace::Workspaces;
use super::{AgentTool, text_of};

/// Bytes that one call reads.
const PART_BYTES: u64 = 24 << 10;

/// Runs blocking work on the files of the task's plan.
async fn with_files<T: Send + 'static>(
    files: &Arc<Workspaces>,
    task: &Task,
    work: impl FnOnce(&Workspaces, &PlanId) -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let (files, plan) = (Arc::clone(files), task.plan.clone());
    let done = tokio::task::spawn_blocking(move || work(&files, &plan)).await;
    done.unwrap_or_else(|_| Err("the files of the plan cannot be used".into()))
}

pub(super) struct ReadFile(pub Arc<Workspaces>);

#[async_trait]
impl AgentTool for ReadFile {
    fn name(&self) -> &'static str {
        "read_file"
    }

    fn description(&self) -> &'static str {
        "Reads a text file of the plan. A long file is read in parts: `next_offset` is where the next one begins."
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object", "additionalProperties": false, "required": ["path"],
            "properties": {
                "path": {"type": "string"},
                "offset": {"type": "integer", "minimum": 0, "description": "in bytes"},
            },
        })
    }

    fn is_read_only(&self) -> bool {
        true
    }

    async fn run(&self, arguments: &Value, task: &Task) -> Result<Value, String> {
        let path = text_of(arguments, "path").to_owned();
        let offset = arguments["offset"].as_u64().unwrap_or_default();
        let part =
            with_files(&self.0, task, move |files, plan| files.read_part(plan, &path, offset, PART_BYTES)).await?;
        Ok(json!({"bytes": part.bytes, "next_offset": part.next_offset, "text": part.text}))
    }
}

pub(super) struct WriteFile(pub Arc<Workspaces>);

#[async_trait]
impl AgentTool for WriteFile {
    fn name(&self) -> &'static str {
        "write_file"
    }

    fn description(&self) -> &'static str {
        "Writes a text file of the plan, in place of an older one of the same path."
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object", "additionalProperties": false, "required": ["path", "text"],
            "properties": {
                "path": {"type": "string", "description": "relative, such as `report.md` or `data/clean.csv`"},
                "text": {"type": "string"},
            },
        })
    }

    async fn run(&self, arguments: &Value, task: &Task) -> Result<Value, String> {
        let (path, text) = (text_of(arguments, "path").to_owned(), text_of(arguments, "text").to_owned());
        let written = json!({"path": path, "bytes": text.len()});
        with_files(&self.0, task, move |files, plan| files.write(plan, &path, &text)).await?;
        Ok(written)
    }
}

pub(super) struct ListFiles(pub Arc<Workspaces>);

#[async_trait]
impl AgentTool for ListFiles {
    fn name(&self) -> &'static str {
        "list_files"
    }

    fn description(&self) -> &'static str {
        "Lists the files of the plan with their sizes in bytes."
    }

    fn parameters(&self) -> Value {
        json!({"type": "object", "additionalProperties": false, "properties": {}})
    }

    fn is_read_only(&self) -> bool {
        true
    }

    async fn run(&self, _: &Value, task: &Task) -> Result<Value, String> {
        let files = with_files(&self.0, task, |files, plan| files.list(plan)).await?;
        Ok(files.into_iter().map(|(path, bytes)| json!({"path": path, "bytes": bytes})).collect())
    }
}
