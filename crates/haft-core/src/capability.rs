//! Capabilities: what kinds of resources a tool may access.
//!
//! INVARIANT: an undeclared set counts as all of them. The empty set means none.

use std::{fmt, str::FromStr};

use serde::{Serialize, Serializer};

macro_rules! capabilities {
    ($($(#[$doc:meta])* $variant:ident $text:literal;)*) => {
        /// One kind of resource that a tool may access.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Capability { $($(#[$doc])* $variant,)* }

        impl Capability {
            /// Every capability.
            pub const ALL: &'static [Capability] = &[$(Capability::$variant,)*];

            /// Returns its name.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Capability::$variant => $text,)* }
            }
        }
    };
}

capabilities! {
    /// Uses the network.
    Network "network";
    /// Reads or writes files.
    Filesystem "filesystem";
    /// Reads or writes a database.
    Database "database";
    /// Sends mail.
    Email "email";
    /// Moves money.
    Payment "payment";
    /// Destroys data that cannot be restored.
    Destructive "destructive";
    /// Starts processes.
    Subprocess "subprocess";
    /// Reads secrets.
    Secrets "secrets";
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Capability {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|c| c.as_str() == text).ok_or_else(|| {
            let all: Vec<_> = Self::ALL.iter().map(|c| c.as_str()).collect();
            format!("unknown capability `{text}`; expected one of {}", all.join(", "))
        })
    }
}

/// A set of capabilities.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Capabilities(u16);

impl Capabilities {
    /// The empty set: the tool accesses nothing.
    pub const NONE: Capabilities = Capabilities(0);
    /// Every capability: the meaning of an undeclared set.
    pub const ALL: Capabilities = Capabilities((1 << Capability::ALL.len()) - 1);

    /// Returns this set with one more.
    #[must_use]
    pub const fn with(self, capability: Capability) -> Self {
        Self(self.0 | 1 << capability as u16)
    }

    /// Returns whether the set contains a capability.
    #[must_use]
    pub const fn has(self, capability: Capability) -> bool {
        self.0 & (1 << capability as u16) != 0
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Iterates over the set in a fixed order.
    pub fn iter(self) -> impl Iterator<Item = Capability> {
        Capability::ALL.iter().copied().filter(move |c| self.has(*c))
    }
}

impl FromIterator<Capability> for Capabilities {
    fn from_iter<I: IntoIterator<Item = Capability>>(iter: I) -> Self {
        iter.into_iter().fold(Self::NONE, Self::with)
    }
}

impl<const N: usize> From<[Capability; N]> for Capabilities {
    fn from(list: [Capability; N]) -> Self {
        list.into_iter().collect()
    }
}

impl fmt::Debug for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl Serialize for Capabilities {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_contains_every_capability_and_none_contains_no_capability() {
        for capability in Capability::ALL {
            assert!(Capabilities::ALL.has(*capability));
            assert!(!Capabilities::NONE.has(*capability));
            assert_eq!(capability.as_str().parse::<Capability>().unwrap(), *capability);
        }
        assert!("netwrok".parse::<Capability>().unwrap_err().contains("network"));
    }
}
