//! JSON pointers: the name of a location in a value (RFC 6901).

/// The parent location, and the name in it.
pub(crate) fn split(at: &str) -> Option<(&str, String)> {
    let (parent, last) = at.rsplit_once('/')?;
    Some((parent, unescaped(last)))
}

/// The location of a member.
pub(crate) fn below(parent: &str, name: &str) -> String {
    format!("{parent}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// Decodes a segment of a pointer to the name in it.
pub(crate) fn unescaped(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}
