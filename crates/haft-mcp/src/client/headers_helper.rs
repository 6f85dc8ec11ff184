//! Runs the command that makes the headers of a server, such as a short-lived token.
//!
//! In: the command. Out: names and values of headers. Its time and its output are bounded, and its
//! process group ends with it. INVARIANT: what it prints appears in no error.

use std::{collections::BTreeMap, time::Duration};

use haft::secrets::Secret;
use tokio::io::AsyncReadExt as _;

use super::{
    config::{HeadersHelper, HttpEndpoint, StdioCommand},
    process::{PlainProcess, StderrTail},
};

/// How long it may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The longest output.
const MAX_BYTES: u64 = 64 << 10;

impl HeadersHelper {
    /// Runs the command, and returns the headers of the endpoint with its own.
    pub(super) async fn merged(
        &self,
        server: &str,
        endpoint: &HttpEndpoint,
    ) -> Result<HttpEndpoint, String> {
        let run = tokio::time::timeout(TIMEOUT, self.run(server, &endpoint.url));
        let headers = run
            .await
            .unwrap_or_else(|_| Err(format!("it did not end within {TIMEOUT:?}")))
            .map_err(|why| format!("the command of its headers failed: {why}"))?;
        let mut merged = endpoint.clone();
        merged
            .headers
            .retain(|(name, _)| !headers.keys().any(|own| own.eq_ignore_ascii_case(name)));
        let own = headers.into_iter().map(|(name, value)| (name, Secret::from(value.as_str())));
        merged.headers.extend(own);
        Ok(merged)
    }

    async fn run(&self, server: &str, url: &str) -> Result<BTreeMap<String, String>, String> {
        // The names are those that helpers for Claude Code know.
        let mut command = StdioCommand::new("sh")
            .args(["-c", self.command.as_str()])
            .variable("CLAUDE_CODE_MCP_SERVER_NAME", server)
            .variable("CLAUDE_CODE_MCP_SERVER_URL", url);
        for (name, value) in &self.environment {
            command.environment.entry(name.clone()).or_insert_with(|| value.clone());
        }
        command.directory = self.directory.clone();
        let stderr = StderrTail::default();
        let (process, streams) =
            PlainProcess::start(&command, &stderr).map_err(|why| why.to_string())?;
        drop(streams.stdin);
        let mut output = Vec::new();
        let mut stdout = streams.stdout.take(MAX_BYTES + 1);
        stdout.read_to_end(&mut output).await.map_err(|why| why.to_string())?;
        if output.len() as u64 > MAX_BYTES {
            return Err(format!("it printed more than {MAX_BYTES} bytes"));
        }
        match process.exit().await {
            Some(status) if status.success() => {}
            Some(status) => return Err(format!("it ended with {status}")),
            None => return Err("its end is unknown".to_owned()),
        }
        serde_json::from_slice(&output)
            .map_err(|_| "it did not print a JSON object of texts".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn merged(command: &str) -> Result<Vec<(String, String)>, String> {
        let environment = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
        let command = command.to_owned();
        let helper = HeadersHelper { command, environment, directory: None };
        let mut endpoint = HttpEndpoint::new("https://hub.example/mcp");
        endpoint.headers = vec![("X-A".into(), Secret::from("old")), ("B".into(), "b".into())];
        let merged = helper.merged("hub", &endpoint).await?;
        let shown = |(name, value): &(String, Secret)| (name.clone(), value.reveal().to_owned());
        Ok(merged.headers.iter().map(shown).collect())
    }

    #[tokio::test]
    async fn headers_of_the_command_replace_configured_ones() {
        let command = r#"printf '{"x-a": "%s %s"}' "$CLAUDE_CODE_MCP_SERVER_NAME" \
            "$CLAUDE_CODE_MCP_SERVER_URL""#;
        let found = merged(command).await.unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(found, [pair("B", "b"), pair("x-a", "hub https://hub.example/mcp")]);
    }

    #[tokio::test]
    async fn command_that_fails_floods_or_prints_something_else_is_an_error_without_its_output() {
        for bad in [
            "echo s3cret; exit 3",
            "echo s3cret",
            r#"echo '{"Authorization": ["s3cret"]}'"#,
            "yes s3cret",
            "no-such-program-s",
        ] {
            let why = merged(bad).await.unwrap_err();
            assert!(!why.contains("s3cret"), "{why}");
        }
    }
}
