//! Finding the files that rules deny, compared with `find`. A pattern at any depth visits every
//! entry; a path that a rule spells out visits none.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use haft::{
    host::{Clock as _, RuntimeClock},
    policy::{Decision, FileRules as _, PathBase, Pattern, PolicyContext, Rule, Rules},
    tool::{RunScope, Scope},
};

use crate::{Case, Group};

/// The entries that are visited, except the directories above them.
const FILES: usize = 199_000;
const FILES_PER_DIRECTORY: usize = 200;

pub(crate) fn groups() -> Result<Vec<Group>, String> {
    let home = Rc::new(tempfile::tempdir().map_err(|e| e.to_string())?);
    let root = home.path().canonicalize().map_err(|e| e.to_string())?;
    fill(&root).map_err(|e| e.to_string())?;
    let case = |name: &str, pattern: &str| -> Result<Case, String> {
        let pattern = Pattern::parse(pattern, &PathBase::default()).map_err(|e| e.to_string())?;
        let rule = Rule::new(Decision::Deny, pattern);
        let rules = Rules::new(vec![rule], PolicyContext::default()).map_err(|e| e.to_string())?;
        let scope = Scope::from(RunScope {
            working_directory: root.as_path().into(),
            ..RunScope::default()
        });
        let (scope, roots, home) = (Arc::new(scope), vec![root.clone()], home.clone());
        Ok(Case::new(name, move || {
            let _home = &home;
            let found = rules.denied_paths(&roots, &scope, &|| RuntimeClock.now());
            match found.map_err(|e| e.to_string())?.read.len() {
                1 => Ok(()),
                n => Err(format!("{n} files are denied, and it should be 1")),
            }
        }))
    };
    let cases = vec![case("denied_paths", "Read(**/.env)")?, find(root.clone())];
    let group = |name: &str, cases| Group {
        name: name.to_owned(),
        cases,
        times: 1,
        rest: Duration::ZERO,
        has_cpu: true,
        max_rounds: usize::MAX,
    };
    Ok(vec![
        group("denied: a pattern in 200 000 files", cases),
        group("denied: a literal path", vec![case("denied_paths", "Read(./d0/.env)")?]),
    ])
}

fn find(root: PathBuf) -> Case {
    Case::new("find -name .env", move || {
        let mut find = Command::new("find");
        let status = find.arg(&root).args(["-name", ".env"]).stdout(Stdio::null()).status();
        if status.map_err(|e| e.to_string())?.success() {
            Ok(())
        } else {
            Err("find failed".to_owned())
        }
    })
}

fn fill(root: &Path) -> std::io::Result<()> {
    for directory in 0..FILES / FILES_PER_DIRECTORY {
        let directory = root.join(format!("d{directory}"));
        fs::create_dir(&directory)?;
        for file in 1..FILES_PER_DIRECTORY {
            fs::File::create(directory.join(format!("file{file}.rs")))?;
        }
    }
    fs::File::create(root.join("d0/.env")).map(drop)
}
