//! The unified diff of a change to a file, for the person who approves it.

use std::{io::Read as _, time::Duration};

use haft_core::ToolContext;
use similar::TextDiff;

use super::paths::Files;

/// A larger file, or a longer new text, is not compared.
const MAX_BYTES: u64 = 1 << 20;
/// A longer diff is not shown: then a person reads the arguments.
const MAX_DIFF_LINES: usize = 2_000;
/// How long the comparison may take; after that the diff is correct, but longer than needed.
const MAX_TIME: Duration = Duration::from_millis(200);
/// How many unchanged lines are shown around a change.
const CONTEXT_LINES: usize = 3;

/// Returns the content of the file that a call names; `None` if it is not an ordinary readable file
/// of moderate size.
pub(super) fn content(files: &Files, path: &str, cx: &ToolContext) -> Option<Vec<u8>> {
    let resolved = files.find(path, cx).ok()?;
    let opened = files.workspace().open(&resolved).ok()?;
    if opened.meta.size > MAX_BYTES {
        return None;
    }
    let mut content = Vec::new();
    opened.file.take(MAX_BYTES + 1).read_to_end(&mut content).ok()?;
    (content.len() as u64 <= MAX_BYTES).then_some(content)
}

/// Returns the unified diff of two contents, without file names. `None` if they are equal, are not
/// UTF-8 text, or if the diff is too long to be read.
pub(super) fn unified(old: &[u8], new: &[u8]) -> Option<String> {
    if new.len() as u64 > 2 * MAX_BYTES || old == new {
        return None;
    }
    let (old, new) = (std::str::from_utf8(old).ok()?, std::str::from_utf8(new).ok()?);
    // Only a line feed ends a line: after a lone carriage return the line goes on.
    let (old, new): (Vec<&str>, Vec<&str>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let mut diff = TextDiff::configure();
    let diff = diff.timeout(MAX_TIME).newline_terminated(true).diff_slices(&old, &new);
    let text = diff.unified_diff().context_radius(CONTEXT_LINES).to_string();
    (text.split('\n').count() <= MAX_DIFF_LINES).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_is_shown_with_its_surroundings() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let new = old.replace('5', "five");
        insta::assert_snapshot!(unified(old.as_bytes(), new.as_bytes()).unwrap(), @r"
        @@ -2,7 +2,7 @@
         2
         3
         4
        -5
        +five
         6
         7
         8
        ");
        let odd = unified(b"a\rb\n", b"a\rc\n").unwrap();
        assert_eq!(odd, "@@ -1 +1 @@\n-a\rb\n+a\rc\n");
        let cut = unified(b"a\n", b"a").unwrap();
        assert!(cut.contains("\\ No newline at end of file"), "{cut}");
    }

    #[test]
    fn equal_binary_and_long_contents_have_no_diff() {
        assert_eq!(unified(b"a\n", b"a\n"), None);
        assert_eq!(unified(b"a\n", b"\xff\n"), None);
        let long = "a\n".repeat(MAX_DIFF_LINES + 1);
        assert_eq!(unified(b"", long.as_bytes()), None);
    }
}
