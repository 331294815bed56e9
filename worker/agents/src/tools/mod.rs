//! Tools of an agent: each has a schema, a policy and limits.
//!
//! Tools are built with their agent. A name that is not among them is refused, whatever a text says.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use goalmill_common::failure::Failure;
use goalmill_common::id::AgentType;
use goalmill_llm::Tool;
use goalmill_plan::schema::SCHEMA_BYTES_MAX;
use goalmill_worker::executor::Calls;
use serde::Deserialize;
use serde_json::{Map, Value};

mod address_guard;
mod agent_tool;
mod ask_person;
mod bound_tool;
mod file_tools;
mod http_get;
#[cfg_attr(not(feature = "mcp"), path = "mcp_tools_disabled.rs")]
mod mcp_tools;
mod program_tools;
mod sandbox;
mod search_outputs;
mod sql;
mod submit_plan;
mod workspace;

use agent_tool::AgentToolSettings;
pub(crate) use bound_tool::{AgentTool, BoundTool, PlanCall, ToolPolicy, ToolTerms};
pub use mcp_tools::mcp_executor;

use mcp_tools::McpToolServer;
use submit_plan::{SubmitPlan, SubmitPlanSettings};
use workspace::Workspaces;

/// Maximum number of tools of one agent.
const TOOLS_MAX: usize = 128;
/// Estimated bytes of the compiled schemas of the tools of one attempt.
const SCHEMAS_BYTES_MAX: usize = 64 << 20;

/// Names of all tools.
const NAMES: [&str; 9] =
    ["http_get", "read_file", "write_file", "list_files", "search_outputs", "ask_person", "sql", "python", "shell"];

/// Stands between the name of a server or agent type and the name of its tool or action.
const SEPARATOR: &str = "__";
/// Maximum characters of a tool name that models accept.
const NAME_CHARS_MAX: usize = 64;

/// Whether models accept a name of a tool.
fn is_tool_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    name.len() <= NAME_CHARS_MAX && name.chars().all(is_plain)
}

/// The name of the tool that submits a plan.
const SUBMIT_PLAN: &str = "submit_plan";

/// A tool in the settings: its name; an object with `name`, `policy`, `price` and the fields of the tool; or an object
/// with `agent`, for another agent type.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum ToolSettings {
    Name(String),
    Entry {
        name: String,
        #[serde(default)]
        policy: Option<ToolPolicy>,
        /// US dollars of one call.
        #[serde(default)]
        price: f64,
        /// The tool's own fields.
        #[serde(flatten)]
        fields: Map<String, Value>,
    },
    Agent(AgentToolSettings),
}

/// The tools of one agent.
#[derive(Clone)]
pub(crate) struct AgentTools {
    tools: Vec<Arc<BoundTool>>,
    /// MCP servers; their tools are added for each attempt.
    servers: Vec<McpToolServer>,
    /// Agent types that are tools; added for each attempt, with their cards.
    agents: Vec<AgentToolSettings>,
    /// The tool `submit_plan`; added for each attempt.
    plans: Option<(SubmitPlanSettings, ToolPolicy)>,
}

impl AgentTools {
    /// The error is a message for people.
    ///
    /// - `servers`: settings of MCP servers by the prefix of their tools.
    pub fn build(
        agent_type: &AgentType,
        settings: &[ToolSettings],
        servers: &BTreeMap<String, Value>,
        files_dir: &Path,
    ) -> Result<Self, String> {
        let mut tools: Vec<Arc<BoundTool>> = Vec::new();
        let (mut agents, mut plans) = (Vec::new(), None);
        for entry in settings {
            let (name, policy, price, fields) = match entry.clone() {
                ToolSettings::Name(name) => (name, None, 0.0, Map::new()),
                ToolSettings::Entry { name, policy, price, fields } => (name, policy, price, fields),
                ToolSettings::Agent(agent) => {
                    agent
                        .check_agent_tool(&agents)
                        .map_err(|reason| format!("`tools`: `{}`: {reason}", agent.agent))?;
                    agents.push(agent);
                    continue;
                }
            };
            let policy = policy.unwrap_or_else(|| ToolPolicy::default_of(&name));
            if tools.iter().any(|known| known.name() == name) || (name == SUBMIT_PLAN && plans.is_some()) {
                return Err(format!("`tools`: `{name}` is there twice"));
            }
            let wrong = |reason: String| format!("`tools`: `{name}`: {reason}");
            let terms = ToolTerms::new(policy, price).map_err(wrong)?;
            let fields = Value::Object(fields);
            if name == SUBMIT_PLAN {
                let settings = SubmitPlanSettings::from_fields(fields, terms.price).map_err(wrong)?;
                plans = Some((settings, policy));
                continue;
            }
            let tool = build_tool(&name, fields, files_dir).map_err(wrong)?;
            tools.push(BoundTool::new(tool, terms)?.into());
        }
        let server = |(name, settings): (&String, &Value)| {
            let server = McpToolServer::new(agent_type, name, settings);
            server.map_err(|reason| format!("`mcp`: `{name}`: {reason}"))
        };
        let servers = servers.iter().map(server).collect::<Result<_, _>>()?;
        Ok(Self { tools, servers, agents, plans })
    }

    /// The set of one attempt: with the tools that the servers list, and the cards that agents have registered, now. It
    /// stays the same until the attempt ends.
    pub async fn for_attempt(&self, calls: &dyn Calls) -> Result<Self, Failure> {
        let mut found: Vec<(Box<dyn AgentTool>, ToolTerms)> = Vec::new();
        if !self.agents.is_empty() || self.plans.is_some() {
            let cards = calls.agent_cards().await?;
            for agent in &self.agents {
                let tools = agent.tools(&cards).into_iter();
                found.extend(tools.map(|tool| (Box::new(tool) as Box<dyn AgentTool>, agent.terms())));
            }
            if let Some((settings, policy)) = &self.plans {
                found.push((Box::new(SubmitPlan::new(settings, &cards)), ToolTerms::free(*policy)));
            }
        }
        for server in &self.servers {
            found.extend(server.list().await?);
        }
        let mut tools = self.tools.clone();
        let mut bytes: usize = tools.iter().map(|tool| tool.schema.bytes()).sum();
        for (tool, terms) in found {
            if bytes > SCHEMAS_BYTES_MAX {
                tracing::warn!("`{}` is left out: the schemas of the tools are too large together", tool.name());
                continue;
            }
            let tool = BoundTool::new(tool, terms);
            bytes += tool.as_ref().map_or(SCHEMA_BYTES_MAX, |tool| tool.schema.bytes());
            match tool {
                Ok(tool) if tools.iter().any(|known| known.name() == tool.name()) => {
                    tracing::warn!("`{}` is left out: another tool has this name", tool.name());
                }
                Ok(tool) if tools.len() < TOOLS_MAX => tools.push(tool.into()),
                Ok(tool) => tracing::warn!("`{}` is left out: an agent has at most {TOOLS_MAX} tools", tool.name()),
                Err(reason) => tracing::warn!("a tool is left out, because its schema cannot be used: {reason}"),
            }
        }
        Ok(Self { tools, servers: Vec::new(), agents: Vec::new(), plans: None })
    }

    /// Whether the model may call no tools.
    pub fn is_empty(&self) -> bool {
        self.allowed().next().is_none()
    }

    /// Whether the model may call this tool.
    pub fn has(&self, name: &str) -> bool {
        self.allowed().any(|tool| tool.name() == name)
    }

    /// The definitions of the tools that the model may call.
    pub fn definitions(&self) -> Vec<Tool> {
        let definition = |bound: &BoundTool| Tool {
            name: bound.name().into(),
            description: bound.tool.description().into(),
            parameters: bound.parameters.clone(),
        };
        self.allowed().map(definition).collect()
    }

    /// The tool of this name, or why it is not run.
    pub fn find(&self, name: &str) -> Result<&BoundTool, String> {
        match self.tools.iter().map(AsRef::as_ref).find(|tool| tool.name() == name) {
            Some(tool) if tool.terms.policy != ToolPolicy::Deny => Ok(tool),
            Some(_) => Err("the settings deny this tool".into()),
            None => {
                let names: Vec<&str> = self.allowed().map(|tool| tool.name()).collect();
                Err(format!("there is no such tool; there are: {}", names.join(", ")))
            }
        }
    }

    /// The name for display: the name of a known tool, or a fixed word for any other.
    pub fn known_name(&self, name: &str) -> &str {
        self.find(name).map_or("unknown", |tool| tool.name())
    }

    fn allowed(&self) -> impl Iterator<Item = &BoundTool> {
        self.tools.iter().map(AsRef::as_ref).filter(|tool| tool.terms.policy != ToolPolicy::Deny)
    }
}

fn build_tool(name: &str, fields: Value, files_dir: &Path) -> Result<Box<dyn AgentTool>, String> {
    let files = |fields| parse(fields).map(|limits| Arc::new(Workspaces::new(files_dir, limits)));
    Ok(match name {
        "http_get" => Box::new(http_get::HttpGet::new(parse(fields)?)?),
        "read_file" => Box::new(file_tools::ReadFile(files(fields)?)),
        "write_file" => Box::new(file_tools::WriteFile(files(fields)?)),
        "list_files" => Box::new(file_tools::ListFiles(files(fields)?)),
        "search_outputs" => {
            parse::<NoFields>(fields)?;
            Box::new(search_outputs::SearchOutputs)
        }
        "ask_person" => Box::new(ask_person::AskPerson::new(parse(fields)?)?),
        "sql" => Box::new(sql::Sql::new(parse(fields)?, files_dir)?),
        "python" => Box::new(program_tools::ProgramTool::python(parse(fields)?, files_dir)?),
        "shell" => Box::new(program_tools::ProgramTool::shell(parse(fields)?, files_dir)?),
        _ => return Err(format!("there is no such tool; there are: {}, {SUBMIT_PLAN}", NAMES.join(", "))),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoFields {}

fn parse<T: serde::de::DeserializeOwned>(fields: Value) -> Result<T, String> {
    serde_json::from_value(fields).map_err(|error| error.to_string())
}

/// The value of a required text argument; the arguments are valid.
fn text_of<'a>(arguments: &'a Value, name: &str) -> &'a str {
    arguments[name].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn build(settings: &Value) -> Result<AgentTools, String> {
        let settings: Vec<ToolSettings> =
            serde_json::from_value(settings.clone()).map_err(|error| error.to_string())?;
        AgentTools::build(&"a".into(), &settings, &BTreeMap::new(), Path::new("/nowhere"))
    }

    #[test]
    fn every_tool_can_be_built_and_has_a_usable_schema() {
        let allowed = NAMES.map(|name| json!({"name": name, "policy": "allow"}));
        let tools = build(&json!(allowed)).expect("all tools exist");
        assert_eq!(tools.definitions().len(), NAMES.len());
    }

    #[test]
    fn a_denied_tool_is_neither_shown_nor_run() {
        let tools = build(&json!(["read_file", {"name": "write_file", "policy": "deny"}])).expect("they exist");
        assert_eq!(tools.definitions().iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["read_file"]);
        assert!(tools.find("write_file").is_err_and(|reason| reason.contains("deny")));
        assert!(
            tools.find("shell").is_err_and(|reason| reason.contains("read_file") && !reason.contains("write_file"))
        );
    }

    #[test]
    fn programs_run_only_when_the_settings_allow_them() {
        let tools = build(&json!(["read_file", "python", "shell"])).expect("they exist");
        assert!(["python", "shell"].iter().all(|name| tools.find(name).is_err() && !tools.has(name)));
        let tools = build(&json!([{"name": "python", "policy": "allow"}, "shell"])).expect("they exist");
        assert_eq!((tools.has("python"), tools.has("shell")), (true, false));
    }

    #[test]
    fn wrong_settings_are_refused_with_the_tool() {
        for (settings, part) in [
            (json!(["shell_"]), "http_get"),
            (json!(["read_file", "read_file"]), "twice"),
            (json!([{"name": "read_file", "bytes": 1}]), "unknown field `bytes`"),
            (json!([{"name": "search_outputs", "x": 1}]), "unknown field `x`"),
            (json!([{"name": "shell", "timeout_ms": 0}]), "`timeout_ms`"),
            (json!([{"name": "sql", "postgres_url_env": "GOALMILL_TEST_UNSET"}]), "GOALMILL_TEST_UNSET"),
            (json!([{"name": "sql", "rows_max": 0}]), "`rows_max`"),
            (json!([{"name": "python", "read_paths": ["lib"]}]), "`read_paths`"),
            (json!([{"name": "http_get", "allow_addresses": ["10.0.0.0/40"]}]), "10.0.0.0/40"),
            (json!([{"name": "http_get", "price": -1}]), "`price`"),
            (json!(["submit_plan"]), "`agents`"),
            (json!([{"name": "submit_plan", "agents": []}]), "`agents`"),
            (json!([{"name": "submit_plan", "agents": ["a"], "steps_max": 0}]), "`steps_max`"),
            (json!([{"name": "submit_plan", "agents": ["a"], "price": 1}]), "`price`"),
            (json!([{"agent": "a"}, {"agent": "a"}]), "twice"),
            (json!([{"agent": "a", "limit_seconds": 0}]), "`limit_seconds`"),
        ] {
            let refused = build(&settings).err().expect("it is refused");
            assert!(refused.contains(part), "{refused}");
        }
    }
}
