//! The server: what it says of itself, its tools and its resources.

use goalmill_client::{Client, ClientError, EventQuery};
use goalmill_common::id::PlanId;
use http::request::Parts;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData, Implementation, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, ResourceContents, ResourceTemplate, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Map, Value, json};

use crate::approval;
use crate::tools;

/// Scheme of resources.
const SCHEME: &str = concat!("goalmill", "://plans/");
/// Events of a log in one resource.
const EVENTS_MAX: usize = 1_000;

/// Gives the client of the API that acts for a caller.
pub trait CallerClient: Clone + Send + Sync + 'static {
    /// The client of the caller who sent a request; none if the caller is not known.
    ///
    /// - `request`: none over standard input and output.
    fn client_of(&self, request: Option<&Parts>) -> Option<Client>;
}

/// One client for all calls: over standard input and output there is one caller.
impl CallerClient for Client {
    fn client_of(&self, _: Option<&Parts>) -> Option<Client> {
        Some(self.clone())
    }
}

/// Answers the messages of MCP clients.
#[derive(Clone, Debug)]
pub struct McpServer<C> {
    /// Whose requests the calls become.
    pub clients: C,
    /// Whether tools that change something are offered.
    pub writes: bool,
    /// The setting or option that allows writes. The instructions for clients contain it.
    pub how_to_allow_writes: &'static str,
}

impl<C: CallerClient> McpServer<C> {
    /// The client of the caller that a message came from.
    fn client(&self, context: &RequestContext<RoleServer>) -> Result<Client, ErrorData> {
        let client = self.clients.client_of(context.extensions.get::<Parts>());
        client.ok_or_else(|| ErrorData::internal_error("the caller of this message was not checked", None))
    }
}

impl<C: CallerClient> ServerHandler for McpServer<C> {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        let instructions = match self.writes {
            true => "Preview a goal before you submit it. A person decides about approvals.".to_owned(),
            false => format!("This server only reads. With {} it can submit goals.", self.how_to_allow_writes),
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
        let Some(tool) = tools.iter().find(|tool| tool.name == request.name) else {
            let known: Vec<&str> = tools.iter().map(|tool| tool.name.as_ref()).collect();
            let message = format!("there is no tool `{}`; the tools are {}", request.name, known.join(", "));
            return Err(ErrorData::invalid_params(message, None));
        };
        if let Err(error) = tools::check_arguments(tool, request.arguments.as_ref().unwrap_or(&Map::new())) {
            return Ok(tools::refused(&error).into());
        }
        let client = self.client(&context)?;
        if request.name == tools::APPROVAL_TOOL {
            return approval::decide(&client, &request, &context).await;
        }
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        Ok(match tools::call(&client, &request.name, arguments).await {
            Ok(value) => CallToolResult::structured(value),
            Err(error) => tools::refused(&error),
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
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let (uri, client) = (request.uri, self.client(&context)?);
        let unknown = || {
            let message = format!("there is no resource `{uri}`: give {SCHEME}PLAN or {SCHEME}PLAN/events");
            ErrorData::resource_not_found(message, None)
        };
        let rest = uri.strip_prefix(SCHEME).ok_or_else(unknown)?;
        let (plan, part) = rest.split_once('/').unwrap_or((rest, ""));
        let failed = |error: ClientError| ErrorData::resource_not_found(error.to_string(), None);
        let plan = client.resolve(plan).await.map_err(failed)?;
        let value = match part {
            "" => json!(client.plan(&plan).await.map_err(failed)?),
            "events" => log(&client, &plan).await.map_err(failed)?,
            _ => return Err(unknown()),
        };
        let contents = ResourceContents::text(value.to_string(), uri).with_mime_type("application/json");
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}

async fn log(client: &Client, plan: &PlanId) -> Result<Value, ClientError> {
    Ok(json!(client.filtered_events(plan, 0, EVENTS_MAX, &EventQuery::default()).await?))
}
