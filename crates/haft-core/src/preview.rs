//! `Preview`: what a person reads about a call before it is approved, in place of raw arguments.

/// What a person reads about a call before it is approved.
///
/// A tool makes one in [`Tool::preview`](crate::Tool::preview) if its arguments do not show the
/// effect: an edit is shown as a unified diff. An approver shows it in place of the arguments that
/// it [replaces](Self::in_place_of). The text is not sanitized: the approver does that.
///
/// ```
/// let preview = haft_core::Preview::diff("@@ -1 +1 @@\n-a\n+b\n").in_place_of(["old", "new"]);
/// assert!(preview.replaces("old") && !preview.replaces("path"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preview {
    /// A unified diff without file names.
    pub diff: String,
    /// The arguments that need not be shown besides it.
    pub arguments: Vec<&'static str>,
}

impl Preview {
    /// Shows the effect as a unified diff.
    #[must_use]
    pub fn diff(diff: impl Into<String>) -> Self {
        Self { diff: diff.into(), arguments: Vec::new() }
    }

    /// Names the arguments that the text shows completely.
    #[must_use]
    pub fn in_place_of(mut self, arguments: impl IntoIterator<Item = &'static str>) -> Self {
        self.arguments.extend(arguments);
        self
    }

    /// Returns whether an argument need not be shown.
    #[must_use]
    pub fn replaces(&self, argument: &str) -> bool {
        self.arguments.contains(&argument)
    }
}
