//! The connection to an MCP server: made when it is needed, made again after it broke, and its list of tools.

use std::process::Stdio;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::AgentType;
use goalmill_worker::executor::clip;
use goalmill_worker::executor::command::program;
use goalmill_worker::executor::http::parse_headers;
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, Tool};
use rmcp::service::{NotificationContext, Peer, RoleClient, RunningService};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ServiceExt};
use tokio::sync::Mutex;

use crate::failure;
use crate::settings::McpSettings;

/// The other side of a connection.
pub(crate) type McpPeer = Peer<RoleClient>;

/// How long a server may take to start and to list its tools.
const START: Duration = Duration::from_mins(1);
/// Variables that every program gets.
const BASE: [&str; 5] = ["PATH", "HOME", "LANG", "TMPDIR", "USER"];
/// Tools of one server that are listed.
const TOOLS_MAX: usize = 1_000;

/// What a server says of itself, and its tools.
type ToolList = Arc<RwLock<Option<Arc<(String, Vec<Tool>)>>>>;

/// A server, connected or not.
pub(crate) struct McpConnection {
    agent_type: AgentType,
    settings: McpSettings,
    running: Mutex<Option<RunningService<RoleClient, ToolListener>>>,
    tools: ToolList,
}

impl McpConnection {
    pub(crate) fn new(agent_type: AgentType, settings: McpSettings) -> Self {
        Self { agent_type, settings, running: Mutex::default(), tools: ToolList::default() }
    }

    /// The server's description and its tools, once it was connected.
    pub(crate) fn tools(&self) -> Option<Arc<(String, Vec<Tool>)>> {
        self.tools.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The server; connects if there is no connection.
    pub(crate) async fn peer(&self) -> Result<McpPeer, Failure> {
        let mut running = self.running.lock().await;
        if let Some(running) = running.as_ref().filter(|running| !running.is_closed()) {
            return Ok(running.peer().clone());
        }
        *running = None;
        let made = tokio::time::timeout(START, self.connect()).await;
        let made = made.unwrap_or_else(|_| Err(format!("it did not answer within {} s", START.as_secs())));
        let made = made.map_err(|reason| {
            let message = format!("the MCP server of agent type `{}` cannot be reached: {reason}", self.agent_type);
            failure(FailureClass::Transient, "MCP_UNREACHABLE", message)
        })?;
        let peer = made.peer().clone();
        *running = Some(made);
        Ok(peer)
    }

    /// Gives up a connection that broke.
    pub(crate) async fn close(&self) {
        *self.running.lock().await = None;
    }

    async fn connect(&self) -> Result<RunningService<RoleClient, ToolListener>, String> {
        let listener = ToolListener { tools: self.tools.clone() };
        let running = match &self.settings.url {
            Some(url) => {
                goalmill_http::install_tls();
                let headers = parse_headers(&self.settings.headers)?;
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
                config.custom_headers = headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
                listener.serve(StreamableHttpClientTransport::from_config(config)).await
            }
            None => listener.serve(self.start()?).await,
        };
        let running = running.map_err(|error| error.to_string())?;
        list_tools(running.peer(), &self.tools).await.map_err(|error| error.to_string())?;
        Ok(running)
    }

    /// Starts the program, with the variables that it is given and no others.
    fn start(&self) -> Result<TokioChildProcess, String> {
        let McpSettings { argv, env, set, .. } = &self.settings;
        let command = program(argv, BASE.into_iter().chain(env.iter().map(String::as_str)), set);
        let started = TokioChildProcess::builder(command).stderr(Stdio::null()).spawn();
        let (process, _) = started.map_err(|error| format!("`{}` cannot be started: {error}", argv[0]))?;
        Ok(process)
    }
}

/// Lists the tools again when the server says that they have changed.
struct ToolListener {
    tools: ToolList,
}

impl ClientHandler for ToolListener {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(ClientCapabilities::default(), Implementation::new("goalmill", env!("CARGO_PKG_VERSION")))
    }

    async fn on_tool_list_changed(&self, context: NotificationContext<RoleClient>) {
        if let Err(error) = list_tools(&context.peer, &self.tools).await {
            tracing::warn!("the tools of an MCP server cannot be listed: {error}");
        }
    }
}

async fn list_tools(peer: &McpPeer, list: &ToolList) -> Result<(), rmcp::ServiceError> {
    let mut tools = peer.list_all_tools().await?;
    tools.truncate(TOOLS_MAX);
    let info = peer.peer_info();
    let about = info.as_deref().and_then(|info| info.instructions.clone()).unwrap_or_default();
    *list.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new((clip(&about), tools)));
    Ok(())
}
