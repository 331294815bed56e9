//! Tools `python` and `shell`: run programs that the model writes. The settings must allow them.

use std::path::Path;

use async_trait::async_trait;
use goalmill_common::task::Task;
use serde_json::{Value, json};

use super::sandbox::{ProgramSettings, Sandbox};
use super::{AgentTool, text_of};

/// Bytes of one program: it is an argument of the interpreter.
const CODE_BYTES_MAX: usize = 64 << 10;

/// An interpreter of programs.
pub(super) struct ProgramTool {
    name: &'static str,
    description: &'static str,
    /// The path or name of the interpreter.
    program: String,
    sandbox: Sandbox,
}

impl ProgramTool {
    pub fn python(settings: ProgramSettings, files_dir: &Path) -> Result<Self, String> {
        let description = "Runs a Python program in the directory of the plan's files and returns its output. It has no \
                           network and no packages besides the standard library and those installed.";
        Self::new("python", description, "python3", settings, files_dir)
    }

    pub fn shell(settings: ProgramSettings, files_dir: &Path) -> Result<Self, String> {
        let description = "Runs shell commands (`sh`) in the directory of the plan's files and returns their output. \
                           They have no network.";
        Self::new("shell", description, "sh", settings, files_dir)
    }

    fn new(
        name: &'static str,
        description: &'static str,
        program: &str,
        settings: ProgramSettings,
        files_dir: &Path,
    ) -> Result<Self, String> {
        let program = settings.program.clone().unwrap_or_else(|| program.to_owned());
        Ok(Self { name, description, program, sandbox: Sandbox::new(settings, files_dir)? })
    }
}

#[async_trait]
impl AgentTool for ProgramTool {
    fn name(&self) -> &'static str {
        self.name
    }

    fn description(&self) -> &'static str {
        self.description
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object", "additionalProperties": false, "required": ["code"],
            "properties": {"code": {"type": "string", "minLength": 1, "maxLength": CODE_BYTES_MAX}},
        })
    }

    async fn run(&self, arguments: &Value, task: &Task) -> Result<Value, String> {
        let code = text_of(arguments, "code");
        if code.len() > CODE_BYTES_MAX {
            return Err(format!("the code has more than {CODE_BYTES_MAX} bytes"));
        }
        if code.contains('\0') {
            return Err("the code contains a zero byte".into());
        }
        Box::pin(self.sandbox.run_program(&task.plan, &[&self.program, "-c", code])).await
    }
}
