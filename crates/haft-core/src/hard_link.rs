//! Hard links: files with several names. A rule about one name applies to the file, so that a hard
//! link cannot bypass a deny rule.

/// An open file with more than one name, from `fstat` on the file descriptor that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HardLinkedFile {
    /// The device number.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
    /// The link count.
    pub links: u64,
    /// The inode change time (`ctime`): seconds and nanoseconds. Every new name changes it.
    pub changed: (i64, u64),
}

impl HardLinkedFile {
    /// Returns device and inode, which identify the file.
    #[must_use]
    pub fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }
}

/// Whether a rule restricts another name of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OtherNames {
    /// No rule restricts one of them.
    Allowed,
    /// A rule denies one of them, or requires approval for it.
    Denied,
    /// Unknown: there are too many files to scan, or they cannot be read.
    Unknown,
}
