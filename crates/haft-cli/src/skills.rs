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
            let path = directory.join(name);
            match is_inside(&path, &setup.site.root) {
                Some(true) if setup.is_trusted => {
                    skills = skills.directory_with_trust(path, setup.site.covers_content());
                }
                Some(true) => skills = skills.directory(path, false),
                Some(false) => setup.note(format!(
                    "`{}` is a symlink out of the project, so its skills are not read",
                    path.display()
                )),
                None => {}
            }
        }
    }
    if let Some(home) = setup.site.home() {
        let path = home.join(USER_DIRECTORY);
        if path.is_dir() && !path.starts_with(&setup.site.root) {
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
        setup.note(format!("skill left out: {finding}"));
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
