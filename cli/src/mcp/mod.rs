//! `goalmill mcp`: an MCP server over standard input and output, in front of the HTTP API.
//!
//! It holds no state: each tool is one or two requests of the API client. Tools that change something are offered only with
//! `--allow-writes`; an approval always asks the person at the client, by elicitation.

mod approval;
mod tools;

use anyhow::Context;
use goalmill_client::{Client, ClientError, EventQuery};
use goalmill_common::id::PlanId;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData, Implementation, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, ResourceContents, ResourceTemplate, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ServerHandler, ServiceExt};
use serde_json::{Value, json};

use crate::args::McpArgs;
use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit, Failed};

/// Scheme of resources.
const SCHEME: &str = concat!("goalmill", "://plans/");
/// Events of a log in one resource.
const EVENTS_MAX: usize = 1_000;

/// Serves until standard input ends.
pub async fn run(context: &CommandContext, args: &McpArgs) -> CommandResult {
    let server = McpServer { client: context.client.clone(), writes: args.allow_writes };
    let serving = async {
        let running = server.serve(rmcp::transport::stdio()).await.context("the client did not initialize")?;
        running.waiting().await.context("the session has failed")?;
        anyhow::Ok(())
    };
    serving.await.map_err(|error| Failed::other(format!("{error:#}")))?;
    Ok(Exit::Done)
}

/// One session.
struct McpServer {
    client: Client,
    /// Whether tools that change something are offered.
    writes: bool,
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        let instructions = match self.writes {
            true => "Preview a goal before you submit it. A person decides about approvals.",
            false => "This server only reads. `goalmill mcp --allow-writes` can submit goals.",
        };
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("goalmill", env!("CARGO_PKG_VERSION")))
            .with_instructions(instructions)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::list(self.writes)))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::list(self.writes).into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tools = tools::list(self.writes);
        if !tools.iter().any(|tool| tool.name == request.name) {
            let known: Vec<&str> = tools.iter().map(|tool| tool.name.as_ref()).collect();
            let message = format!("there is no tool `{}`; the tools are {}", request.name, known.join(", "));
            return Err(ErrorData::invalid_params(message, None));
        }
        if request.name == approval::TOOL {
            return approval::decide(&self.client, &request, &context).await;
        }
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        Ok(match tools::call(&self.client, &request.name, arguments).await {
            Ok(value) => CallToolResult::structured(value),
            Err(error) => refused(&error),
        }
        .into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::default())
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template = |path: &str, name: &str, about: &str| {
            ResourceTemplate::new(format!("{SCHEME}{path}"), name)
                .with_description(about)
                .with_mime_type("application/json")
        };
        Ok(ListResourceTemplatesResult::with_all_items(vec![
            template("{plan_id}", "plan", "A plan with its steps, statuses and outputs"),
            template("{plan_id}/events", "plan log", "The first 1,000 events of a plan's log"),
        ]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        let unknown = || {
            let message = format!("there is no resource `{uri}`: give {SCHEME}PLAN or {SCHEME}PLAN/events");
            ErrorData::resource_not_found(message, None)
        };
        let rest = uri.strip_prefix(SCHEME).ok_or_else(unknown)?;
        let (plan, part) = rest.split_once('/').unwrap_or((rest, ""));
        let failed = |error: ClientError| ErrorData::resource_not_found(error.to_string(), None);
        let plan = self.client.resolve(plan).await.map_err(failed)?;
        let value = match part {
            "" => json!(self.client.plan(&plan).await.map_err(failed)?),
            "events" => self.log(&plan).await.map_err(failed)?,
            _ => return Err(unknown()),
        };
        let contents = ResourceContents::text(value.to_string(), uri).with_mime_type("application/json");
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}

impl McpServer {
    async fn log(&self, plan: &PlanId) -> Result<Value, ClientError> {
        Ok(json!(self.client.filtered_events(plan, 0, EVENTS_MAX, &EventQuery::default()).await?))
    }
}

/// A failed call that the model can read: the API's problem with places and hints.
fn refused(error: &tools::McpToolError) -> CallToolResult {
    match error {
        tools::McpToolError::Client(ClientError::Problem(problem)) => CallToolResult::structured_error(json!(problem)),
        error => CallToolResult::structured_error(json!({ "detail": error.to_string() })),
    }
}
