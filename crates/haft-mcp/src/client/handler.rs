//! What a server may send to us: progress of a call, changes of its list of tools, and questions.
//! Everything else is ignored or refused.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use haft::ToolContext;
use rmcp::{
    ClientHandler, ErrorData, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationCapability,
        FormElicitationCapability, Implementation, ProgressNotificationParam, ProgressToken,
        ProtocolVersion, UrlElicitationCapability,
    },
    service::{NotificationContext, RequestContext},
};
use tokio::sync::Notify;

use super::elicitation::{self, Elicitor};

/// Longer messages of progress are cut.
const MAX_PROGRESS_CHARS: usize = 500;

/// What the handler of one connection shares with its calls.
#[derive(Debug, Default)]
pub(super) struct Notifications {
    /// The list of tools has changed.
    pub(super) tools_changed: Notify,
    progress: Mutex<HashMap<ProgressToken, ToolContext>>,
}

impl Notifications {
    /// Reports the progress of a request to a call, until the guard is dropped.
    pub(super) fn follow(self: &Arc<Self>, token: ProgressToken, cx: &ToolContext) -> Following {
        self.lock().insert(token.clone(), cx.clone());
        Following { notifications: Arc::clone(self), token }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ProgressToken, ToolContext>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reports progress until it is dropped.
pub(super) struct Following {
    notifications: Arc<Notifications>,
    token: ProgressToken,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.notifications.lock().remove(&self.token);
    }
}

/// The client side of one connection.
#[derive(Debug, Clone)]
pub(super) struct Handler {
    pub(super) server: Arc<str>,
    pub(super) notifications: Arc<Notifications>,
    pub(super) elicitor: Option<Arc<dyn Elicitor>>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if self.elicitor.is_some() {
            let elicitation = ElicitationCapability::new()
                .with_form(FormElicitationCapability::new().with_schema_validation(true))
                .with_url(UrlElicitationCapability::default());
            capabilities.elicitation = Some(elicitation);
        }
        ClientConfig::new(capabilities, Implementation::new("haft", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(elicitation::answer(&self.server, self.elicitor.as_deref(), request).await)
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let call = self.notifications.lock().get(&params.progress_token).cloned();
        let Some(call) = call else { return };
        let fraction = match params.total {
            Some(total) if total > 0.0 => params.progress / total,
            _ => f64::NAN, // how far it is remains unknown
        };
        let mut message = params.message.unwrap_or_default();
        if let Some((cut, _)) = message.char_indices().nth(MAX_PROGRESS_CHARS) {
            message.truncate(cut);
        }
        #[expect(clippy::cast_possible_truncation, reason = "a fraction for people")]
        call.progress(fraction as f32, message);
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.notifications.tools_changed.notify_one();
    }
}
