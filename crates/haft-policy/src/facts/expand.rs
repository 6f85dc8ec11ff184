//! Expands globs as a shell does, with the names that exist now.
//!
//! Only restricting rules use this. A glob that cannot be expanded completely is unknown, and a
//! deny about its files then asks.

use std::path::Path;

use crate::{
    glob::{Glob, Style},
    path_resolver::PathResolver,
};

/// Maximum number of names in an expansion.
const MAX_NAMES: usize = 1_024;

/// The names that a glob expands to.
pub(super) struct ExpandedNames {
    /// As the shell would write them: relative ones start in the directory.
    pub(super) names: Vec<String>,
    /// Whether the shell expands to these, and not perhaps to fewer.
    pub(super) is_exact: bool,
}

/// Returns the names that a glob expands to in a directory; `None` if they cannot be determined.
/// `\` escapes a character.
pub(super) fn expand(
    glob: &str,
    directory: &Path,
    resolver: &dyn PathResolver,
) -> Option<ExpandedNames> {
    let (mut names, mut is_exact, mut left) = (vec![String::new()], true, 4 * MAX_NAMES);
    for (n, step) in glob.split('/').enumerate() {
        // Some shells search all directories below for `**`.
        if step == "**" {
            return None;
        }
        if n > 0 {
            names.iter_mut().for_each(|name| name.push('/'));
        }
        // What a bracket matches depends on the locale.
        let (step, is_narrow) = match step.find('[') {
            Some(at) => (format!("{}*", &step[..at]), false),
            None => (step.to_owned(), true),
        };
        is_exact &= is_narrow;
        let glob = Glob::parse(&step, Style::Files).ok()?;
        if let Some(literal) = glob.literal() {
            names.iter_mut().for_each(|name| name.push_str(literal));
            continue;
        }
        let takes = |name: &str| {
            // A leading dot must be written.
            (!name.starts_with('.') || step.starts_with(['.', '\\'])) && glob.matches(name, false)
        };
        let mut found = Vec::new();
        for before in names {
            let entries = resolver.names(&directory.join(&before), &mut left).ok()?;
            found.extend(entries.iter().filter(|e| takes(e)).map(|e| format!("{before}{e}")));
            if found.len() > MAX_NAMES {
                return None;
            }
        }
        names = found;
    }
    Some(ExpandedNames { names, is_exact })
}
