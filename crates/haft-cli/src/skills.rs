//! Finds the skills of a project and of the user, for `haft run`, `haft chat` and
//! `haft tools list`.
//!
//! FAIL CLOSED: a directory of skills that is a symlink out of the project is not read, and a
//! `SKILL.md` that trust does not cover with its content grants nothing.

use std::path::Path;

use haft_tools::Skills;
use serde_json::{Value, json};

use crate::{
    setup::Setup,
    style::{self, BOLD, DIM, NAME, Table},
};

/// Where a project and the user keep skills.
pub(crate) const PROJECT_DIRECTORIES: [&str; 2] = [".haft/skills", ".claude/skills"];
const USER_DIRECTORY: &str = ".claude/skills";

/// Returns the skills of the working directory and the directories above it up to the project's
/// root, then those of the user.
pub(crate) fn find(setup: &Setup) -> Skills {
    let mut skills = Skills::new();
    for directory in setup.site.directories() {
        for name in PROJECT_DIRECTORIES {
            // A directory that is created later counts from then on.
            let (path, root) = (directory.join(name), &setup.site.root);
            skills = if setup.is_trusted {
                skills.directory_of_project(path, root, setup.site.covers_content())
            } else {
                skills.directory_of_project(path, root, |_, _| false)
            };
        }
    }
    if let Some(home) = setup.site.home() {
        let path = home.join(USER_DIRECTORY);
        if !path.starts_with(&setup.site.root) {
            skills = skills.directory(path, true);
        }
    }
    skills
}

/// Whether a directory is inside of another one; `None` if it does not exist.
pub(crate) fn is_inside(path: &Path, root: &Path) -> Option<bool> {
    let found = path.canonicalize().ok().filter(|found| found.is_dir())?;
    let root = root.canonicalize().ok()?;
    Some(found.starts_with(root))
}

/// Prints what is wrong with skills.
pub(crate) fn note_findings(skills: &Skills, setup: &Setup) {
    for finding in skills.findings() {
        setup.note(match finding.is_about_directory {
            true => format!("skills: {finding}"),
            false => format!("skill left out: {finding}"),
        });
    }
}

/// The skills as JSON.
pub(crate) fn to_json(skills: &Skills) -> impl Iterator<Item = Value> {
    skills.list().into_iter().map(|skill| {
        json!({
            "kind": "skill", "name": skill.name, "description": skill.description,
            "allowed_tools": skill.allowed_tools, "trusted": skill.is_trusted,
            "file": skill.file(),
        })
    })
}

/// The skills for a page; empty without any.
pub(crate) fn page(skills: &Skills) -> String {
    let list = skills.list();
    if list.is_empty() {
        return String::new();
    }
    let mut table = Table::new(2);
    for skill in list {
        let grants = match (skill.is_trusted, skill.allowed_tools.is_empty()) {
            (_, true) => String::new(),
            (true, false) => format!("allows {}", skill.allowed_tools.join(" ")),
            (false, false) => "allows nothing: not trusted, see `haft trust`".to_owned(),
        };
        table.row([
            (NAME, skill.name.clone()),
            (DIM, style::visible(&grants)),
            (anstyle::Style::new(), style::visible(&skill.description)),
        ]);
    }
    format!("\n{}\n{table}", style::paint(BOLD, "Skills"))
}
