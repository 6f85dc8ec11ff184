//! A client that writes and reads JSON lines, and the servers that tests talk to.

use std::collections::VecDeque;

use haft::{
    Config, Failure, Output, Runtime, RuntimeBuilder, ToolRegistry,
    host::Frame,
    tool::{Capabilities, DynTool, IntoTools, ToolSpec},
};
use haft_mcp::server::{McpServer, McpServerBuilder};
use serde_json::{Value, json};
use tokio::{
    io::{
        AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf,
        WriteHalf, duplex, split,
    },
    task::JoinHandle,
};

/// The version whose requests describe themselves.
pub(crate) const MODERN: &str = "2026-07-28";
/// The version with sessions.
pub(crate) const LEGACY: &str = "2025-11-25";

/// A runtime whose results have no markers, as a server's.
pub(crate) fn runtime(tools: impl IntoTools) -> RuntimeBuilder {
    let mut config = Config::default();
    config.frame = Frame::Never;
    config.max_tool_tokens = None;
    config.prompts_at_once = 64;
    Runtime::builder().registry(ToolRegistry::builder().add(tools).build().unwrap()).config(config)
}

/// A tool that returns its argument `text`.
pub(crate) fn echo() -> DynTool {
    let spec =
        ToolSpec::new("echo", "Returns a text.").read_only().capabilities(Capabilities::NONE);
    let schema = json!({"properties": {"text": {"type": "string"}}, "required": ["text"]});
    DynTool::new(spec, schema, |args, _| async move {
        Ok::<_, Failure>(Output::text(args["text"].as_str().unwrap_or_default()))
    })
}

/// A client over pipes.
pub(crate) struct Client {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    server: JoinHandle<Result<(), haft::Error>>,
    /// What arrived while another message was awaited.
    pub(crate) others: VecDeque<Value>,
    next_id: u64,
    version: &'static str,
    pub(crate) capabilities: Value,
}

impl Client {
    /// Connects, and initializes by the version with sessions.
    pub(crate) async fn legacy(server: McpServerBuilder, capabilities: Value) -> Self {
        let mut client = Self::connect(&server.build().unwrap(), LEGACY, capabilities.clone());
        let info = json!({"name": "test", "version": "1"});
        let params = json!({
            "protocolVersion": LEGACY, "capabilities": capabilities, "clientInfo": info,
        });
        let answer = client.request("initialize", params).await;
        assert_eq!(answer["result"]["protocolVersion"], LEGACY, "{answer}");
        client.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        client
    }

    /// Connects; requests describe themselves.
    pub(crate) fn modern(server: McpServerBuilder, capabilities: Value) -> Self {
        Self::connect(&server.build().unwrap(), MODERN, capabilities)
    }

    pub(crate) fn connect(server: &McpServer, version: &'static str, capabilities: Value) -> Self {
        let (ours, theirs) = duplex(1 << 16);
        let ((reader, writer), (input, output)) = (split(ours), split(theirs));
        let server = server.clone();
        let server = tokio::task::spawn(async move { server.serve(input, output).await });
        let lines = BufReader::new(reader).lines();
        let others = VecDeque::new();
        Self { lines, writer, server, others, next_id: 0, version, capabilities }
    }

    pub(crate) async fn send(&mut self, message: Value) {
        let line = format!("{message}\n");
        self.writer.write_all(line.as_bytes()).await.unwrap();
    }

    /// Sends a request and returns its id.
    pub(crate) async fn start(&mut self, method: &str, mut params: Value) -> u64 {
        self.next_id += 1;
        if self.version == MODERN {
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": self.capabilities,
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            });
            let given = params["_meta"].as_object().cloned().unwrap_or_default();
            params["_meta"] = meta;
            params["_meta"].as_object_mut().unwrap().extend(given);
        }
        let id = self.next_id;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send(request).await;
        id
    }

    /// Returns the next message.
    pub(crate) async fn receive(&mut self) -> Value {
        let limit = std::time::Duration::from_secs(20);
        let line = tokio::time::timeout(limit, self.lines.next_line()).await;
        serde_json::from_str(&line.expect("a message in time").unwrap().expect("a message"))
            .unwrap()
    }

    /// Waits for the answer to a request; other messages are kept.
    pub(crate) async fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.receive().await;
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.others.push_back(message);
        }
    }

    /// Waits for a message of the server with this method.
    pub(crate) async fn expect(&mut self, method: &str) -> Value {
        if let Some(at) = self.others.iter().position(|message| message["method"] == method) {
            return self.others.remove(at).unwrap();
        }
        loop {
            let message = self.receive().await;
            if message["method"] == method {
                return message;
            }
            self.others.push_back(message);
        }
    }

    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.start(method, params).await;
        self.answer(id).await
    }

    pub(crate) async fn call(&mut self, name: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": name, "arguments": arguments})).await
    }

    /// Closes the connection and waits for the server.
    pub(crate) async fn close(mut self) {
        self.writer.shutdown().await.unwrap();
        drop((self.lines, self.writer));
        let limit = std::time::Duration::from_secs(10);
        tokio::time::timeout(limit, self.server).await.expect("it ends").unwrap().unwrap();
    }
}
