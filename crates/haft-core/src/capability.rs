//! What kinds of things a tool may reach.
//!
//! Undeclared is judged as all of them; the empty set says "none" and means it.

use std::{fmt, str::FromStr};

use serde::{Serialize, Serializer};

macro_rules! capabilities {
    ($($(#[$doc:meta])* $variant:ident $text:literal;)*) => {
        /// One kind of thing a tool may reach.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Capability { $($(#[$doc])* $variant,)* }

        impl Capability {
            /// Every capability.
            pub const ALL: &'static [Capability] = &[$(Capability::$variant,)*];

            /// Returns its word.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Capability::$variant => $text,)* }
            }
        }
    };
}

capabilities! {
    /// Talks to other machines.
    Network "network";
    /// Reads or writes files.
    Filesystem "filesystem";
    /// Reads or writes a database.
    Database "database";
    /// Sends mail.
    Email "email";
    /// Moves money.
    Payment "payment";
    /// Destroys what cannot be brought back.
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
            format!("`{text}` is no capability; there are {}", all.join(", "))
        })
    }
}

/// A set of capabilities.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Capabilities(u16);

impl Capabilities {
    /// The set with nothing in it: the tool reaches nothing.
    pub const NONE: Capabilities = Capabilities(0);
    /// Every capability: what an undeclared set is judged as.
    pub const ALL: Capabilities = Capabilities((1 << Capability::ALL.len()) - 1);

    /// Returns this set with one more.
    #[must_use]
    pub const fn with(self, capability: Capability) -> Self {
        Self(self.0 | 1 << capability as u16)
    }

    /// Returns whether the set holds a capability.
    #[must_use]
    pub const fn has(self, capability: Capability) -> bool {
        self.0 & (1 << capability as u16) != 0
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Goes through the set in its fixed order.
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
    fn all_holds_each_and_none_holds_none() {
        for capability in Capability::ALL {
            assert!(Capabilities::ALL.has(*capability));
            assert!(!Capabilities::NONE.has(*capability));
            assert_eq!(capability.as_str().parse::<Capability>().unwrap(), *capability);
        }
        assert!("netwrok".parse::<Capability>().unwrap_err().contains("network"));
    }
}
