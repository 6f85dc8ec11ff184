//! Files with several names. A rule about one name is a rule about the file.

/// An open file that has more than one name, as `fstat` describes it on the handle that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HardLinked {
    /// The device it is on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// How many names it has.
    pub links: u64,
    /// When its inode last changed (`ctime`): seconds and nanoseconds. Every new name changes it.
    pub changed: (i64, u64),
}

impl HardLinked {
    /// Returns which file it is, whatever its name and state.
    #[must_use]
    pub fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }
}

/// What rules say about the other names of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OtherNames {
    /// No rule restricts one of them.
    Clear,
    /// A rule denies one of them, or asks about it.
    Kept,
    /// That cannot be told: there are too many files to look at, or they cannot be looked at.
    Unknown,
}
