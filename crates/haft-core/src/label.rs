//! Taint labels: how far a result is trusted, and who may see it. Policies use them against prompt
//! injection and data exfiltration.
//!
//! INVARIANT: a run carries the join of all it has read. Trust only falls, confidentiality only
//! rises.

use serde::{Deserialize, Serialize};

/// How far the content of a result may be trusted. Ordered: later is less trusted.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default,
)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Written by the host or the user.
    Trusted,
    /// From the user's own workspace.
    Workspace,
    /// From anywhere else, such as the web. It may contain prompt injection.
    #[default]
    Untrusted,
}

/// Who may see a result. Ordered: later is more confidential.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default,
)]
#[serde(rename_all = "snake_case")]
pub enum Confidentiality {
    /// It may be shown to any person and sent to any host.
    Public,
    /// For the people of this run.
    #[default]
    Internal,
    /// Only for the tools that need it.
    Secret,
}

/// Trust and confidentiality together. The default is untrusted and internal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
pub struct Label {
    /// How far it is trusted.
    pub trust: Trust,
    /// Who may see it.
    pub confidentiality: Confidentiality,
}

impl Label {
    /// The label of a run that has read nothing.
    pub const CLEAN: Label =
        Label { trust: Trust::Trusted, confidentiality: Confidentiality::Public };

    /// Returns the label of a value that is derived from both.
    #[must_use]
    pub fn join(self, other: Label) -> Label {
        Label {
            trust: self.trust.max(other.trust),
            confidentiality: self.confidentiality.max(other.confidentiality),
        }
    }
}

impl Label {
    /// Returns it as a number, for an atomic.
    #[must_use]
    pub fn to_bits(self) -> u8 {
        (self.trust as u8) << 4 | self.confidentiality as u8
    }

    /// Returns the label of a number; of an unknown number the strictest.
    #[must_use]
    pub fn from_bits(bits: u8) -> Self {
        Self {
            trust: match bits >> 4 {
                0 => Trust::Trusted,
                1 => Trust::Workspace,
                _ => Trust::Untrusted,
            },
            confidentiality: match bits & 0xf {
                0 => Confidentiality::Public,
                1 => Confidentiality::Internal,
                _ => Confidentiality::Secret,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_survives_its_number() {
        for trust in [Trust::Trusted, Trust::Workspace, Trust::Untrusted] {
            for confidentiality in
                [Confidentiality::Public, Confidentiality::Internal, Confidentiality::Secret]
            {
                let label = Label { trust, confidentiality };
                assert_eq!(Label::from_bits(label.to_bits()), label);
            }
        }
    }

    #[test]
    fn a_join_never_gains_trust_and_never_loses_confidentiality() {
        let secret = Label { trust: Trust::Trusted, confidentiality: Confidentiality::Secret };
        let joined = Label::CLEAN.join(secret).join(Label::default());
        assert_eq!(joined.trust, Trust::Untrusted);
        assert_eq!(joined.confidentiality, Confidentiality::Secret);
    }
}
