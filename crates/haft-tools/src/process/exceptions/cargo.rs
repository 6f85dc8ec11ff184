//! `cargo new` and `cargo init`: they create a repository for the new package, unless it is inside
//! of one.

use haft_sandbox::{ResolvedPath, Workspace};

use super::{Exception, new_repository, repository};

/// Options without a value. An unknown option gets no exception: `--config` may name programs.
const FLAGS: &[&str] = &["--bin", "--lib", "-q", "--quiet", "-v", "--verbose", "--offline"];
/// Options with a value.
const OPTIONS: &[&str] = &["--name", "--edition", "--vcs", "--color"];

/// A command that creates a package.
pub(super) struct NewPackage<'a> {
    path: &'a str,
    /// The value of `--vcs`.
    vcs: Option<&'a str>,
}

impl<'a> NewPackage<'a> {
    /// Parses `cargo new PATH` or `cargo init [PATH]`. `None` for any other command.
    pub(super) fn of(words: &[&'a str]) -> Option<Self> {
        let ["cargo", subcommand @ ("new" | "init"), rest @ ..] = words else { return None };
        let (mut path, mut vcs) = (None, None);
        let mut rest = rest.iter().copied();
        while let Some(word) = rest.next() {
            if !word.starts_with('-') {
                // A second path is an error of cargo.
                path.is_none().then(|| path = Some(word))?;
                continue;
            }
            if FLAGS.contains(&word) {
                continue;
            }
            let (option, value) = match word.split_once('=') {
                Some((option, value)) => (option, value),
                None => (word, rest.next()?),
            };
            OPTIONS.contains(&option).then_some(())?;
            if option == "--vcs" {
                vcs = Some(value);
            }
        }
        let path = match (path, *subcommand) {
            (None, "new") => return None,
            (path, _) => path.unwrap_or("."),
        };
        Some(Self { path, vcs })
    }

    /// Returns the exception for the new repository: none if cargo creates no repository. `None` if
    /// the directory is unknown.
    pub(super) fn exception(
        &self,
        start: &ResolvedPath,
        workspace: &Workspace,
    ) -> Option<Vec<Exception>> {
        let creates = match self.vcs {
            Some(vcs) => vcs == "git",
            None => {
                let package = workspace.resolve_from(start, self.path).ok()?;
                repository(&package, workspace).is_none()
            }
        };
        if !creates {
            return Some(Vec::new());
        }
        Some(vec![new_repository(start, self.path, workspace)?])
    }
}
