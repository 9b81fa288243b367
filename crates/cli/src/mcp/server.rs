//! The server: tools and resources over standard input and output.

use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate, ServerCapabilities, ServerConfig, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};

use super::tools::{self, Roots};
use crate::guide::GUIDE;

/// Serves until the client goes.
pub(super) fn serve(roots: Roots) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().context("where this program is")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let running = Server { roots, program }.serve(rmcp::transport::stdio()).await?;
        running.waiting().await?;
        anyhow::Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}

struct Server {
    roots: Roots,
    program: PathBuf,
}

/// Snapshots that are listed as resources.
const LISTED: usize = 50;

/// How often a client that asked for it hears that a call goes on.
const PROGRESS: Duration = Duration::from_millis(500);

/// What resources there are of a file: their name, what they are, and the verb with its options.
const RESOURCES: [(&str, &str, &str, &[&str]); 2] = [
    ("findings", "What looks wrong, as JSON", "application/json", &["insights", "--json", "--budget=4000"]),
    ("report", "The file on one page", "text/plain", &["summary", "--budget=2000"]),
];

impl Server {
    /// Runs a command line; what it prints, or what it complains about. Ends when the call is cancelled: the process is
    /// killed when its handle is dropped.
    async fn run(&self, line: &[String], context: &RequestContext<RoleServer>) -> Result<String, String> {
        let mut command = tokio::process::Command::new(&self.program);
        command.args(line).env("NO_COLOR", "1").stdin(Stdio::null()).kill_on_drop(true);
        let output = command.output();
        tokio::pin!(output);
        let mut ticks = tokio::time::interval(PROGRESS);
        let mut passed = 0_u32;
        let output = loop {
            tokio::select! {
                done = &mut output => break done.map_err(|error| error.to_string())?,
                () = context.ct.cancelled() => return Err("cancelled".to_owned()),
                _ = ticks.tick() => {
                    if let Some(token) = context.meta.get_progress_token() {
                        let progress = ProgressNotificationParam::new(token, f64::from(passed))
                            .with_message(format!("{}, {:.1} s", line.first().map_or("", String::as_str), f64::from(passed) * PROGRESS.as_secs_f64()));
                        // A client that has gone needs no progress.
                        let _ = context.peer.notify_progress(progress).await;
                    }
                    passed += 1;
                }
            }
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(text(&output.stderr)),
        }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("vramscope", env!("CARGO_PKG_VERSION")))
            .with_instructions(GUIDE)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tool = |tool: tools::Tool| {
            let reads = ToolAnnotations::from_raw(None, Some(true), Some(false), Some(true), Some(false));
            rmcp::model::Tool::new(tool.name, tool.about, Arc::new(tool.schema())).with_annotations(reads)
        };
        Ok(ListToolsResult::with_all_items(tools::all().into_iter().map(tool).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if !tools::all().iter().any(|tool| tool.name == request.name) {
            return Err(ErrorData::invalid_params(format!("there is no tool {:?}", request.name), None));
        }
        let args = request.arguments.unwrap_or_default();
        let answer = match tools::line(&self.roots, &request.name, &args) {
            Ok(line) => self.run(&line, &context).await,
            Err(error) => Err(error),
        };
        let result = match answer {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Err(error) => CallToolResult::error(vec![ContentBlock::text(error)]),
        };
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let of = |path: PathBuf| {
            let shown = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            RESOURCES.map(|(name, about, mime, _)| {
                Resource::new(format!("vramscope://{name}{}", path.display()), format!("{name} of {shown}"))
                    .with_description(about)
                    .with_mime_type(mime)
            })
        };
        Ok(ListResourcesResult::with_all_items(
            self.roots.snapshots(LISTED).into_iter().flat_map(of).collect(),
        ))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let of = |(name, about, mime, _): &(&str, &str, &str, &[&str])| {
            ResourceTemplate::new(format!("vramscope://{name}/{{+path}}"), *name)
                .with_description(*about)
                .with_mime_type(*mime)
        };
        Ok(ListResourceTemplatesResult::with_all_items(RESOURCES.iter().map(of).collect()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let wrong = |message: String| ErrorData::invalid_params(message, None);
        let found = RESOURCES.iter().find_map(|(name, _, mime, words)| {
            let path = request.uri.strip_prefix(&format!("vramscope://{name}"))?;
            Some((path, mime, words))
        });
        let Some((path, mime, words)) = found else {
            return Err(wrong(format!("{}: not a resource of this server", request.uri)));
        };
        let path = self.roots.allow(path).map_err(wrong)?;
        let mut line: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        line.insert(1, path.display().to_string());
        let text = self.run(&line, &context).await.map_err(wrong)?;
        let contents = ResourceContents::text(text, request.uri).with_mime_type(*mime);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}
