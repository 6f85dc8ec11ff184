//! What an approval is bound to: digests of the call, its tool, its directory, the rules and what
//! the decision depends on.

use haft_core::{Confidentiality, Trust};
use haft_policy::Policy;
use sha2::{Digest as _, Sha256};

use super::{ApprovalScope, canonical::canonical};
use crate::validate::ValidatedCall;

pub(super) type Hash = [u8; 32];

/// What an approval is bound to: everything it depends on, as digests.
///
/// Two digests of the same call are equal as long as nothing has changed that an answer depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalDigest {
    pub(super) definition: Hash,
    pub(super) arguments: Hash,
    pub(super) directory: Hash,
    pub(super) policy: u64,
    pub(super) state: Hash,
    /// This one call of this one run.
    pub(super) call: Hash,
    /// The session, or the run if there is none.
    pub(super) session: Hash,
    /// Whether the run has read untrusted text, and whether a secret.
    pub(super) has_read: [bool; 2],
}

impl ApprovalDigest {
    /// Computes it for a call and the rules as they are now.
    pub(crate) fn of(call: &ValidatedCall, policy: &dyn Policy) -> Self {
        let (cx, tool) = (call.context(), call.tool());
        let fingerprint = policy.fingerprint(&call.policy_request());
        let scope = cx.scope();
        let session = match &scope.session {
            Some(session) => ["session", session],
            None => ["run", scope.run.as_str()],
        };
        let user = scope.user.as_deref();
        let label = call.taint().label().join(scope.label);
        Self {
            has_read: [
                label.trust == Trust::Untrusted,
                label.confidentiality == Confidentiality::Secret,
            ],
            // Two sources may have the same definition; an approval of one is none of the other.
            definition: digest([
                tool.raw_hash(),
                tool.source().as_bytes(),
                tool.name().as_str().as_bytes(),
            ]),
            arguments: digest([canonical(call.arguments()).as_bytes()]),
            directory: digest([scope.working_directory.as_os_str().as_encoded_bytes()]),
            policy: fingerprint.revision,
            state: digest([fingerprint.state.as_bytes()]),
            call: digest([
                scope.run.as_str().as_bytes(),
                &scope.cycle.to_be_bytes(),
                cx.call_id().as_str().as_bytes(),
            ]),
            session: digest([
                session[0].as_bytes(),
                session[1].as_bytes(),
                &[u8::from(user.is_some())],
                user.unwrap_or_default().as_bytes(),
            ]),
        }
    }

    /// Returns the key of this call within its session. `because` is the reason that was shown: a
    /// new reason is not covered by an old approval.
    pub(crate) fn in_session(&self, because: &[u8]) -> Hash {
        digest([
            &self.definition[..],
            &self.arguments,
            &self.directory,
            &self.policy.to_be_bytes(),
            &self.state,
            &self.session,
            because,
        ])
    }

    /// Returns the key of all calls of the tool about the same file within the session. `rule` is
    /// the rule that was shown; it names the resolved file. After the run has read untrusted text
    /// or a secret, the key is another one.
    pub(crate) fn in_session_by_rule(&self, rule: &str, because: &[u8]) -> Hash {
        let arguments = digest([b"rule".as_slice(), rule.as_bytes()]);
        let state = digest([self.has_read.map(u8::from).as_slice()]);
        Self { arguments, state, ..self.clone() }.in_session(because)
    }

    /// The call for a single-use approval, the session for a longer one.
    pub(super) fn scope(&self, lasting: ApprovalScope) -> &Hash {
        match lasting {
            ApprovalScope::Once => &self.call,
            ApprovalScope::Session | ApprovalScope::Always | ApprovalScope::AlwaysInDirectory => {
                &self.session
            }
        }
    }
}

/// Hashes several parts with their lengths, so that different lists never hash the same input.
pub(crate) fn digest<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Hash {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}
