//! Network access of one command: what it may contact, and who decides about other hosts.
//!
//! In: the hosts of the configuration, of a rule or of a declared tool, and those of the call. Out:
//! the network of its sandbox, and the decisions of its proxy. A host that is not listed is a
//! nested call, so that rules decide about it and an approver is asked, once for each host.
//!
//! FAIL CLOSED: no list means no network. Without namespaces hosts cannot be filtered, so a call
//! that requests some is refused.

use std::sync::Arc;

use haft::policy::NetworkAccess;
use haft_core::{
    BoxFuture, Capabilities, Capability, Confidentiality, Failure, FailureCode, Label, ToolContext,
    ToolSpec, Trust, host::HostContext,
};
use haft_sandbox::{Level, Network, RunningProcess};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::network::{Contacts, Decide, NetworkLimits, Proxy, Resolve, Sites, SystemResolver};

/// Network settings of all processes.
#[derive(Debug, Clone)]
pub(crate) struct NetworkOptions {
    /// What every command may contact.
    pub(crate) access: NetworkAccess,
    pub(crate) resolver: Arc<dyn Resolve>,
    pub(crate) limits: NetworkLimits,
}

impl Default for NetworkOptions {
    fn default() -> Self {
        Self {
            access: NetworkAccess::none(),
            resolver: Arc::new(SystemResolver),
            limits: NetworkLimits::default(),
        }
    }
}

/// The network of one command.
#[derive(Debug, Clone)]
pub(super) struct CommandNetwork {
    access: NetworkAccess,
    /// The call asks for it, or its tool declares it.
    is_requested: bool,
    options: NetworkOptions,
}

impl CommandNetwork {
    /// The network of a command that requests these hosts beyond those of every command.
    pub(super) fn requested(
        options: &NetworkOptions,
        requested: Option<&[String]>,
    ) -> Result<Self, Failure> {
        let texts = requested.unwrap_or_default().iter().map(String::as_str);
        let access = NetworkAccess::parse(texts).map_err(|error| {
            Failure::invalid(format!("`network`: {}", error.message)).with_next(error.hint)
        })?;
        let is_requested = !access.is_none();
        let access = access.join(&options.access);
        Ok(Self { access, is_requested, options: options.clone() })
    }

    /// The network that a tool declares.
    pub(super) fn declared(options: &NetworkOptions, access: NetworkAccess) -> Self {
        Self { is_requested: !access.is_none(), access, options: options.clone() }
    }

    /// Returns the network of the sandbox.
    ///
    /// # Errors
    /// Fails if the call requests hosts and this level cannot filter them.
    pub(super) fn at(&self, level: Level) -> Result<Network, Failure> {
        if self.access.is_none() {
            return Ok(Network::None);
        }
        if self.access.is_all() {
            return Ok(Network::Host);
        }
        match level {
            Level::Namespaces => Ok(Network::Proxy),
            // Commands that need no network still run.
            _ if !self.is_requested => Ok(Network::None),
            level => Err(Failure::new(
                FailureCode::SandboxUnavailable,
                format!(
                    "network access by host needs the tier `namespaces`, and the tier of this \
                     sandbox is `{level}`: Landlock filters ports, not hosts"
                ),
            )
            .with_next(
                "run the command without network, or ask the user to enable user namespaces or to \
                 allow all hosts with `network = \"all\"`",
            )),
        }
    }

    /// Starts the proxy of a command. It ends when the tasks are dropped.
    pub(super) fn serve(
        &self,
        running: &mut RunningProcess,
        tier: Value,
        cx: &ToolContext,
    ) -> Result<(JoinSet<std::io::Result<()>>, Contacts), Failure> {
        let (mut tasks, contacts) = (JoinSet::new(), Contacts::default());
        let listener = running.take_listener().map_err(|error| {
            Failure::failed("the network proxy could not be started").with_source(error)
        })?;
        if let Some(listener) = listener {
            let mut sites = Sites::default();
            for (host, port) in self.access.hosts().filter_map(|entry| entry.exact()) {
                sites.add(host, port).map_err(|error| Failure::invalid(error.to_string()))?;
            }
            let decide = CallDecisions { access: self.access.clone(), cx: cx.clone(), tier };
            let proxy = Proxy {
                decide: Arc::new(decide),
                sites,
                resolver: Arc::clone(&self.options.resolver),
                limits: self.options.limits.clone(),
                contacts: contacts.clone(),
            };
            tasks.spawn(proxy.serve(listener));
        }
        Ok((tasks, contacts))
    }
}

/// Returns a description of the sandbox, with the contacts of its command.
pub(super) fn tier_with(mut tier: Value, contacts: &Contacts) -> Value {
    if let (Some(fields), Some(hosts)) = (tier.as_object_mut(), contacts.value()) {
        fields.insert("hosts".to_owned(), hosts);
    }
    tier
}

/// Decides for the proxy of one call.
struct CallDecisions {
    access: NetworkAccess,
    cx: ToolContext,
    tier: Value,
}

impl Decide for CallDecisions {
    fn is_allowed(&self, host: &str, port: u16) -> bool {
        self.access.allows(host, port) && !self.cx.is_host_restricted(host)
    }

    fn is_port_listed(&self, host: &str, port: u16) -> bool {
        self.access.allows(host, port)
    }

    fn ask(&self, host: &str, port: u16) -> BoxFuture<'static, Result<(), String>> {
        let (cx, host) = (self.cx.clone(), host.to_owned());
        let is_listed = self.access.allows(&host, port);
        Box::pin(async move {
            let named = if host.contains(':') { format!("[{host}]") } else { host.clone() };
            let arguments = json!({"host": named, "port": port, "for": cx.tool_name().as_str()});
            let (step, schema) = contact_step();
            match cx.authorize_step(step, schema, arguments).await {
                Ok(()) => Ok(()),
                Err(failure) if is_listed => Err(failure.message().to_owned()),
                Err(failure) => Err(format!("`{host}` is not listed; {}", failure.message())),
            }
        })
    }

    fn contacted(&self, contacts: &Contacts) {
        self.cx.set_tier(tier_with(self.tier.clone(), contacts));
    }
}

/// The name of the step in questions and records.
const CONTACT: &str = "contact_host";

/// The step of a command that contacts a host: in no registry, so no model can call it.
fn contact_step() -> (ToolSpec, Value) {
    let spec = ToolSpec::new(
        CONTACT,
        "A running command contacts this host for the first time. The host is not listed in \
         `network`.",
    )
    .title("Contact a host")
    .read_only()
    .open_world(true)
    .capabilities(Capabilities::from([Capability::Network]))
    .label(Label { trust: Trust::Trusted, confidentiality: Confidentiality::Internal });
    let schema = json!({
        "type": "object",
        "properties": {
            "host": {"type": "string", "x-haft": "url"},
            "port": {"type": "integer"},
            "for": {"type": "string"},
        },
        "required": ["host", "port", "for"],
        "additionalProperties": false,
    });
    (spec, schema)
}
