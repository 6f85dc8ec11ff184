//! The files that a command can reach without naming them: what a sandbox shows, what is below a
//! directory, and what symlinks lead to.

use std::path::PathBuf;

use haft_core::Operation;

use super::{DirectoryListings, Facts, Part};
use crate::path_resolver::symlink_targets;

impl Facts<'_> {
    /// Treats every file that its commands name as a directory that is read recursively.
    pub(crate) fn widen(&mut self) {
        let mut below = Vec::new();
        for (at, part) in self.named_files() {
            if let Part::Path { operation, spelled, resolved } = part {
                let leads = resolved.as_ref().ok().filter(|leads| *leads != spelled);
                for directory in leads.into_iter().chain([spelled]) {
                    below.push((at, *operation, directory.clone(), String::new()));
                }
            }
        }
        self.beginnings.extend(below);
    }

    /// Returns the same call with these paths as its mentions, as what a confined command can read.
    pub(crate) fn showing(&self, paths: &[PathBuf]) -> Self {
        let part = |path: &PathBuf| Part::Path {
            operation: Operation::Read,
            spelled: path.clone(),
            resolved: self.context.resolver.resolve(path),
        };
        Self {
            declares_reads: true,
            beginnings: Vec::new(),
            possible: Vec::new(),
            mentions: paths.iter().map(|path| (0, part(path))).collect(),
            // It has its own limit.
            listings: DirectoryListings::default(),
            ..self.clone()
        }
    }

    /// Adds the targets of symlinks below these directories: a glob finds symlinks that the call
    /// does not name.
    ///
    /// # Errors
    /// Fails if they cannot be determined.
    pub(crate) fn follow(&mut self) -> Result<(), String> {
        let Some((at, _)) = self.named_files().next() else { return Ok(()) };
        let leads = |(_, part): (usize, &Part)| match part {
            Part::Path { resolved, .. } => resolved.clone().ok(),
            _ => None,
        };
        let directories = self.named_files().filter_map(leads).collect();
        for path in symlink_targets(&*self.context.resolver, directories)? {
            self.beginnings.push((at, Operation::Read, path.clone(), String::new()));
            let resolved = Ok(path.clone());
            let part = Part::Path { operation: Operation::Read, spelled: path, resolved };
            self.mentions.push((at, part));
        }
        Ok(())
    }
}
