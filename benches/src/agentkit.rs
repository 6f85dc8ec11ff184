//! agentkit 0.10: the same tool through its registry and executor.
//!
//! As its documentation shows a normal call: `BasicToolExecutor::execute` with a `ToolRequest`, and
//! the checker that allows everything. The request carries a JSON value, so the text is parsed
//! first, as its agent loop does. The tool proposes no permission requests, so nothing is
//! authorized; nothing is validated against the schema or bounded either. Each call gets a context
//! of its own.

use agentkit_capabilities::CapabilityContext;
use agentkit_core::{MetadataMap, SessionId, ToolOutput, ToolResultPart, TurnId};
use agentkit_tools_core::{
    AllowAllPermissions, BasicToolExecutor, Tool, ToolContext, ToolError, ToolExecutionOutcome,
    ToolExecutor, ToolRegistry, ToolRequest, ToolResult, ToolSpec,
};
use async_trait::async_trait;

use crate::{
    add::{DESCRIPTION, NAME, Question, add, schema},
    harness::Subject,
};

struct AddTool {
    spec: ToolSpec,
}

#[async_trait]
impl Tool for AddTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn invoke(
        &self,
        request: ToolRequest,
        _: &mut ToolContext<'_>,
    ) -> Result<ToolResult, ToolError> {
        let args = serde_json::from_value(request.input)
            .map_err(|e| ToolError::InvalidInput(e.to_string()))?;
        let text = add(args).await;
        Ok(ToolResult::new(ToolResultPart::success(request.call_id, ToolOutput::text(text))))
    }
}

pub(crate) struct Agentkit {
    executor: BasicToolExecutor,
    session: SessionId,
    turn: TurnId,
    metadata: MetadataMap,
}

impl Agentkit {
    pub(crate) fn new() -> Self {
        let tool = AddTool { spec: ToolSpec::new(NAME, DESCRIPTION, schema()) };
        Self {
            executor: BasicToolExecutor::from_registry(ToolRegistry::new().with(tool)),
            session: SessionId::new("s1"),
            turn: TurnId::new("t1"),
            metadata: MetadataMap::new(),
        }
    }
}

impl Subject for Agentkit {
    async fn ask(&self, question: &'static Question) {
        let input = match serde_json::from_str(&question.arguments) {
            Ok(input) => input,
            Err(error) => panic!("agentkit: {error}"),
        };
        let request =
            ToolRequest::new("call-1", NAME, input, self.session.clone(), self.turn.clone());
        let mut context = ToolContext {
            capability: CapabilityContext {
                session_id: Some(&self.session),
                turn_id: Some(&self.turn),
                metadata: &self.metadata,
            },
            permissions: &AllowAllPermissions,
            resources: &(),
            cancellation: None,
            execution_scope: None,
            approved_request: None,
        };
        match self.executor.execute(request, &mut context).await {
            ToolExecutionOutcome::Completed(ToolResult {
                result: ToolResultPart { output: ToolOutput::Text(text), is_error: false, .. },
                ..
            }) => question.check(&text),
            other => panic!("agentkit: {other:?}"),
        }
    }
}
