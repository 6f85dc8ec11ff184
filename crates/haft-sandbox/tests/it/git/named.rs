//! Files that the configuration of a repository names: file tools and commands protect the same
//! ones, also in nested repositories, submodules and linked worktrees.

use std::fs;

use haft_core::protected_names::ProtectedNames;
use haft_sandbox::{PathErrorKind, Replace, Workspace};

use super::matrix::{has_git, host, repository};
use crate::kit::*;

/// A repository with a nested one, a submodule and a linked worktree, each with its own settings.
const SETUP: &str = "
    mkdir -p tools/hooks conf scripts
    echo 'x' > scripts/clean.py; echo 'x' > scripts/free.py
    git config core.hooksPath tools/hooks
    git config include.path ../conf/more
    git config filter.f.clean 'python3 scripts/clean.py %f'
    git config filter.f.smudge ./scripts/smudge
    git config core.fsmonitor true
    git config core.sshCommand './scripts/ssh -v'
    git config alias.hi '!scripts/hi.sh now'
    git config credential.helper '!f() { sh scripts/keys.sh; }; f'
    echo 'x' > scripts/keys.sh
    git config core.pager 'scripts/page | less'
    printf '[core]\\n\\tattributesFile = conf/attributes\\n' > conf/more
    git init -q deep/er/nested
    git -C deep/er/nested config core.hooksPath my-hooks
    git -C deep/er/nested config diff.d.textconv ./show
    git -C deep/er/nested config includeIf.gitdir:/x/.path ../absent
    git -C deep/er/nested config merge.m.driver '../driver %A'
    git clone -q . ../outside/lib
    git submodule --quiet add ../outside/lib lib
    git -C lib config core.hooksPath lib-hooks
    git worktree add -q wt side
    git config extensions.worktreeConfig true
    git -C wt config --worktree core.attributesFile wt-attributes";

/// Files that git runs or obeys, and one next to each that it does not.
const NAMED: &[(&str, &str)] = &[
    ("tools/hooks/pre-commit", "tools/free"),
    ("conf/more", "conf/free"),
    ("conf/attributes", "attributes"),
    ("scripts/clean.py", "scripts/free.py"),
    ("scripts/smudge", "scripts/other"),
    ("scripts/ssh", "scripts/sshd"),
    ("scripts/hi.sh", "scripts/now"),
    ("scripts/keys.sh", "scripts/f"),
    ("scripts/page", "scripts/less"),
    ("deep/er/nested/my-hooks/pre-commit", "deep/er/nested/free"),
    ("deep/er/nested/show", "deep/er/nested/sub/show"),
    ("deep/er/nested/absent", "absent"),
    ("lib/lib-hooks/pre-commit", "lib/free"),
    ("wt/tools/hooks/pre-commit", "wt/tools/free"),
    ("wt/wt-attributes", "wt-attributes"),
];

fn write(workspace: &Workspace, file: &str) -> Result<(), PathErrorKind> {
    let resolved = workspace.resolve(file).unwrap();
    let parent = resolved.parent().unwrap();
    workspace.make_directory(&parent).map_err(|e| e.cause())?;
    workspace.write(&resolved, b"x", Replace::Always).map(drop).map_err(|e| e.cause())
}

#[tokio::test]
async fn file_tools_and_commands_protect_the_same_files_that_git_configuration_names() {
    if !has_git() {
        return;
    }
    for sandbox in sandboxes().await {
        let level = sandbox.tier().level;
        let fixture = repository();
        host(&fixture, &fixture.inside, SETUP);
        let workspace = fixture.workspace();
        for (named, free) in NAMED {
            let before = fs::read(fixture.inside.join(named)).ok();
            assert_eq!(write(&workspace, named), Err(PathErrorKind::Protected), "{named}");
            let resolved = workspace.resolve(named).unwrap();
            let reason = workspace.protection(&resolved).unwrap();
            assert!(reason.contains("git"), "{named}: {reason}");
            let script = format!(
                "mkdir -p $(dirname {named}); echo x >> {named}; rm -f {named}; echo x > new; mv new {named}
                 top=$(dirname {named}); [ $top = . ] || mv $top moved"
            );
            let ended = sh(&sandbox, fixture.profile(), script).await;
            let after = fs::read(fixture.inside.join(named)).ok();
            assert_eq!(before, after, "{level} {named}: {}", err(&ended));
            assert!(!ended.refused.is_empty(), "{level} {named}: {}", err(&ended));
            // The parent may have been moved if it is a whole repository.
            let script = format!(
                "rm -f new; [ ! -e moved ] || mv moved $(dirname {named}); mkdir -p $(dirname {free}) && echo x > {free}"
            );
            let ended = sh(&sandbox, fixture.profile(), script).await;
            assert!(ended.is_success(), "{level} {free}: {}", err(&ended));
            assert_eq!(write(&workspace, free), Ok(()), "{free}");
        }
    }
}

#[tokio::test]
async fn moved_repository_keeps_its_named_files_protected() {
    if !has_git() {
        return;
    }
    for sandbox in sandboxes().await {
        let fixture = repository();
        host(&fixture, &fixture.inside, "git init -q a; git -C a config core.hooksPath h; mkdir b");
        let script = "echo x > b/warm; mkdir -p a/h; echo x > a/h/pre-commit; rmdir b 2> /dev/null; rm b/warm; rmdir b
            mv a b; mkdir -p b/h; echo x > b/h/pre-commit; echo x > b/free";
        let ended = sh(&sandbox, fixture.profile(), script).await;
        let level = sandbox.tier().level;
        assert!(fixture.inside.join("b/free").exists(), "{level}: {}", err(&ended));
        for hook in ["a/h/pre-commit", "b/h/pre-commit"] {
            assert!(!fixture.inside.join(hook).exists(), "{level} {hook}");
        }
        assert_eq!(ended.refused.len(), 2, "{level}: {:?}", ended.refused);
    }
}

#[test]
fn changed_configuration_is_read_again_by_file_tools() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace();
    assert_eq!(write(&workspace, "h/pre-commit"), Ok(()));
    fs::create_dir(fixture.inside.join(".git")).unwrap();
    put(&fixture.inside.join(".git/config"), "[core]\n\thooksPath = h\n");
    assert_eq!(write(&workspace, "h/pre-commit"), Err(PathErrorKind::Protected));
    put(&fixture.inside.join(".git/config"), "[core]\n\thooksPath = g\n");
    assert_eq!(write(&workspace, "h/pre-commit"), Ok(()));
    assert_eq!(write(&workspace, "g/pre-commit"), Err(PathErrorKind::Protected));
}

#[test]
fn workspace_below_the_top_of_a_repository_obeys_its_configuration() {
    let fixture = Fixture::new();
    let outer = fixture.inside.parent().unwrap();
    fs::create_dir(outer.join(".git")).unwrap();
    put(&outer.join(".git/config"), "[core]\n\thooksPath = inside/h\n");
    let workspace = fixture.workspace();
    assert_eq!(write(&workspace, "h/pre-commit"), Err(PathErrorKind::Protected));
    assert_eq!(write(&workspace, "sub/h/pre-commit"), Ok(()));
}

#[test]
fn names_with_a_leading_dot_hold_at_the_root_only() {
    use haft_core::protected_names::Protection::{Contains, Protected as Kept, Unprotected};
    let names = ProtectedNames::new(["./a/b", "c"], [] as [&str; 0]);
    for (path, standing) in [
        ("a/b", Kept),
        ("A/B/x", Kept),
        ("a", Contains),
        ("x/a/b", Unprotected),
        ("x/a", Unprotected),
        ("x/c", Kept),
    ] {
        assert_eq!(names.protection(path.as_ref()), standing, "{path}");
    }
    assert_eq!(names.at("/w/a".as_ref()).protection("b".as_ref()), Unprotected);
}
