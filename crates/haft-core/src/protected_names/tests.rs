use std::{path::Path, time::Instant};

use proptest::prelude::*;

use super::*;
use crate::config_files::{CONFIG_FILES, RESERVED_DIRECTORY};

const CHANGES: [Change; 7] = [
    Change::CreateDir,
    Change::CreateFile,
    Change::CreateLink,
    Change::Write,
    Change::Remove,
    Change::MoveTo,
    Change::MoveFrom,
];

fn protection(path: &str) -> Protection {
    ProtectedNames::standard().protection(Path::new(path))
}

fn with_exceptions(exceptions: &[&str]) -> ProtectedNames {
    ProtectedNames::new(PROTECTED.iter().map(|name| name.pattern), exceptions)
}

#[test]
fn a_protected_name_is_one_in_any_spelling_and_at_any_depth() {
    for path in [
        ".git/hooks",
        ".git/hooks/pre-commit",
        ".GIT/Hooks/x",
        "sub/deep/.git/config",
        "haft.toml",
        ".HAFT/rules",
        ".g\u{200c}it/hooks",
        "git~1/hooks",
        "GIT~0000000000000000000000000000001/hooks",
        ".git./hooks ",
        ".git....................................../hooks",
        ".envrc",
        "a/.envrc",
        ".git::$INDEX_ALLOCATION/config",
        ".git:a_stream_with_a_very_long_name_that_goes_on/config",
        ".vscode/tasks.json",
        ".github/workflows/ci.yml",
        ".g\u{131}t/../haft.toml",
        "HAFT.TOML",
        ".\u{feff}haft",
        "\u{212a}/.envrc",
        ".git/worktrees/feature/commondir",
        "sub/.GIT/worktrees/any name/GITDIR",
        ".git/rebase-merge/git-rebase-todo",
        "jenkinsfile",
        ".rprofile",
        ".config/git/config",
        ".cargo/config.toml",
        ".ſsh/config",
    ] {
        assert_eq!(protection(path), Protection::Protected, "{path}");
    }
}

#[test]
fn every_file_that_configures_haft_is_protected_at_any_depth() {
    let files = CONFIG_FILES.iter().map(|file| file.path);
    for path in files.chain([RESERVED_DIRECTORY]) {
        assert_eq!(protection(path), Protection::Protected, "{path}");
        assert_eq!(protection(&format!("sub/deep/{path}")), Protection::Protected, "{path}");
    }
}

#[test]
fn ancestors_of_a_protected_name_are_above() {
    for path in [
        ".git",
        "sub/.git",
        ".github",
        "GIT~1",
        ".git/worktrees",
        ".git/worktrees/feature",
        ".config",
        ".cargo",
        ".jj/repo",
    ] {
        assert_eq!(protection(path), Protection::Contains, "{path}");
    }
    for path in [
        ".gitignore",
        "src/haft.toml.rs",
        ".git/index",
        ".git/config.lock",
        ".git/worktrees/feature/HEAD",
        ".git/worktrees/feature/logs/commondir",
        "hooks",
        "config",
        ".github/x",
        "package.json",
        "Makefile",
        "node_modules/.bin/x",
        "target/debug/build",
        ".gradle/caches",
    ] {
        assert_eq!(protection(path), Protection::Unprotected, "{path}");
    }
}

#[test]
fn head_is_protected_in_exactly_this_spelling_and_outside_of_git() {
    for path in ["HEAD", "sub/HEAD", "HEAD/x", ".gitx/HEAD", ".GIT/HEAD", "git~1/x/HEAD"] {
        assert_eq!(protection(path), Protection::Protected, "{path}");
    }
    for path in ["head", "Head", ".git/HEAD", "a/.git/logs/HEAD", "HEAD.md"] {
        assert_eq!(protection(path), Protection::Unprotected, "{path}");
    }
}

#[test]
fn config_and_hooks_next_to_a_head_return_the_directory_to_check() {
    let names = ProtectedNames::standard();
    let look = |path: &str| -> Vec<String> {
        let shown = |path: &Path| path.display().to_string();
        names.possible_git_directories(Path::new(path)).map(shown).collect()
    };
    for name in ["config", "Hooks", "config.worktree", "commondir", "config."] {
        assert_eq!(look(name), [""], "{name}");
        assert_eq!(look(&format!("a/b/{name}")), ["a/b"], "{name}");
    }
    assert_eq!(look("a/hooks/pre-commit"), ["a"]);
    assert_eq!(look("config/hooks/x"), ["config", ""]);
    for path in ["objects", "refs/x", "a/HEAD", ".git/refs/remotes/origin/config"] {
        assert_eq!(look(path), [""; 0], "{path}");
    }
    let without_head = ProtectedNames::new([".envrc"], [] as [&str; 0]);
    assert_eq!(without_head.possible_git_directories(Path::new("config")).count(), 0);
}

#[test]
fn above_a_protected_name_only_directories_are_created_and_removed() {
    let names = ProtectedNames::standard();
    for change in CHANGES {
        let is_fine = matches!(change, Change::CreateDir | Change::Remove);
        assert_eq!(names.check(Path::new("a/.git"), change).is_ok(), is_fine, "{change:?}");
        let refused = names.check(Path::new("a/.git/config"), change).unwrap_err();
        assert_eq!(refused.path, Path::new("a/.git/config"));
        assert_eq!(refused.reason, "git runs the programs that it names");
        names.check(Path::new("a/.git/index"), change).unwrap();
    }
}

#[test]
fn every_name_has_a_reason_and_a_pattern_that_matches_itself() {
    let names = ProtectedNames::standard();
    for name in PROTECTED {
        let path = name.pattern.replace('*', "any");
        assert_eq!(names.protection(Path::new(&path)), Protection::Protected, "{path}");
        assert_eq!(names.reason(Path::new(&path)), Some(name.reason), "{path}");
        assert_eq!(names.pattern(Path::new(&path)), Some(name.pattern), "{path}");
        let is_clause = !name.reason.ends_with('.') && name.reason.len() > 10;
        assert!(is_clause, "{path}");
        let count = PROTECTED.iter().filter(|other| other.pattern == name.pattern).count();
        assert_eq!(count, 1, "{path} is there once");
    }
    let own = ProtectedNames::new(["own.txt"], [] as [&str; 0]);
    assert_eq!(own.reason(Path::new("own.txt")), Some(CONFIGURED_REASON));
    assert_eq!(own.reason(Path::new("other.txt")), None);
}

#[test]
fn an_exception_frees_itself_and_what_lies_below() {
    let names = with_exceptions(&[".git/config", "./wt/.git", ".git/worktrees/*"]);
    for path in [".git/config", "sub/.git/config", ".git/worktrees/a/gitdir", "wt/.git/hooks/x"] {
        assert_eq!(names.protection(Path::new(path)), Protection::Unprotected, "{path}");
    }
    for path in [".git/hooks", ".GIT/config", "a/wt/.git/config.worktree", ".git/config.worktree"] {
        assert_eq!(names.protection(Path::new(path)), Protection::Protected, "{path}");
    }
    assert_eq!(names.protection(Path::new("wt/.git")), Protection::Unprotected);
    assert_eq!(names.protection(Path::new("a/wt/.git")), Protection::Contains);
    assert_eq!(names.protection(Path::new(".git")), Protection::Contains);
    assert!(names.check(Path::new("wt/.git"), Change::CreateFile).is_ok());
    assert!(names.check(Path::new(".git"), Change::CreateFile).is_err());
}

#[test]
fn directories_that_lead_to_an_exception_may_be_made() {
    let names = with_exceptions(&[".claude/commands/x.md", "../.git/config", "", "/.envrc"]);
    assert!(names.check(Path::new(".claude"), Change::CreateDir).is_ok());
    assert!(names.check(Path::new("a/.claude/commands"), Change::CreateDir).is_ok());
    assert!(names.check(Path::new(".claude"), Change::CreateFile).is_err());
    assert!(names.check(Path::new(".claude/hooks"), Change::CreateDir).is_err());
    assert!(names.check(Path::new(".git/config"), Change::Write).is_err(), "`..` frees nothing");
    assert!(names.check(Path::new(".envrc"), Change::Write).is_err(), "nor an absolute path");
}

#[test]
fn nothing_is_moved_into_a_git_directory_or_out_of_it() {
    let allowed = |from: &str, to: &str| is_move_allowed(Path::new(from), Path::new(to));
    assert!(allowed("a", "b") && allowed(".git/a", ".git/b/c") && allowed("x/.git/a", "x/.git/b"));
    assert!(allowed("a/.git", "b/.git"), "`check` refuses it: a protected name would lie below");
    assert!(!allowed("a", ".git/a") && !allowed(".git/a", "a"));
    assert!(!allowed("x/.git/a", "y/.git/a"));
    assert!(!allowed(".git/a", ".git/b/.git/a"), "a repository inside of one is another one");
    assert!(!allowed("a", ".GIT/a"));
}

fn part() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-zA-Z._-]{1,8}",
        2 => prop::sample::select(vec![
            ".git", "hooks", "config", "worktrees", "commondir", ".github", "workflows", "HEAD",
            ".envrc", "haft.toml", ".config", "git", ".GIT", "git~1", "rebase-merge",
        ])
        .prop_map(str::to_owned),
    ]
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(part(), 1..6).prop_map(|parts| parts.join("/"))
}

fn exception() -> impl Strategy<Value = String> {
    (any::<bool>(), path()).prop_map(
        |(anchored, path)| {
            if anchored { format!("./{path}") } else { path }
        },
    )
}

/// Whether a path lies at or below an exception, written once more without the matcher.
fn is_freed(path: &str, exception: &str) -> bool {
    let parts: Vec<&str> = path.split('/').filter(|part| *part != ".").collect();
    let (wanted, depths) = match exception.strip_prefix("./") {
        Some(rest) => (rest, 1),
        None => (exception, parts.len()),
    };
    let wanted: Vec<&str> = wanted.split('/').collect();
    (0..depths).any(|at| parts[at..].starts_with(&wanted))
}

proptest! {
    #[test]
    fn everything_below_a_protected_path_is_protected(path in path(), below in part()) {
        prop_assume!(below != "..");
        let names = ProtectedNames::standard();
        if names.protection(Path::new(&path)) == Protection::Protected {
            let below = format!("{path}/{below}");
            prop_assert_eq!(names.protection(Path::new(&below)), Protection::Protected, "{}", below);
        }
    }

    #[test]
    fn a_prefix_does_not_bypass_the_protection(path in path(), prefix in "[a-z]{1,6}") {
        let names = ProtectedNames::standard();
        let deeper = format!("{prefix}/{path}");
        prop_assert_eq!(names.protection(Path::new(&path)), names.protection(Path::new(&deeper)));
    }

    #[test]
    fn upper_case_does_not_bypass_the_protection(path in path()) {
        prop_assume!(!path.contains("HEAD"));
        let upper = path.to_uppercase();
        prop_assume!(!upper.contains("HEAD"));
        let names = ProtectedNames::standard();
        prop_assert_eq!(names.protection(Path::new(&path)), names.protection(Path::new(&upper)));
    }

    #[test]
    fn exceptions_free_nothing_else(path in path(), exception in exception()) {
        let (plain, with) = (ProtectedNames::standard(), with_exceptions(&[&exception]));
        let path_ = Path::new(&path);
        let freed = with.protection(path_) == Protection::Unprotected;
        if plain.protection(path_) != Protection::Unprotected {
            prop_assert!(!freed || is_freed(&path, &exception), "{} {}", path, exception);
            for change in CHANGES {
                let was_refused = plain.check(path_, change).is_err();
                let is_allowed = with.check(path_, change).is_ok();
                let leads = change == Change::CreateDir;
                prop_assert!(!was_refused || !is_allowed || freed || leads);
            }
        }
        for change in CHANGES {
            prop_assert!(plain.check(path_, change).is_err() || with.check(path_, change).is_ok());
        }
    }

    #[test]
    fn check_refuses_at_least_what_is_protected(path in path()) {
        let names = ProtectedNames::standard();
        let path = Path::new(&path);
        let all = CHANGES.iter().filter(|change| names.check(path, **change).is_ok()).count();
        let expected = match names.protection(path) {
            Protection::Unprotected => 7,
            Protection::Contains => 2,
            Protection::Protected => 0,
        };
        prop_assert_eq!(all, expected);
        prop_assert_eq!(names.reason(path).is_some(), names.protection(path) != Protection::Unprotected);
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it measures")]
fn a_million_ordinary_paths_are_checked_within_a_second() {
    let names = with_exceptions(&[".git/config"]);
    let paths = [
        "src/main.rs",
        "target/debug/deps/libserde-0f3c2f6c8e7d9a10.rmeta",
        "node_modules/.cache/babel/0123456789abcdef.json",
        "crates/some-crate/src/module/deep/file.rs",
        ".git/objects/ab/tmp_obj_AbCdEf",
        "Cargo.lock",
    ];
    let check = |path: &str| names.check(std::hint::black_box(Path::new(path)), Change::CreateFile);
    // Without optimisation a check takes some ten times as long.
    let rounds = if cfg!(debug_assertions) { 10_000 } else { 170_000 };
    let round = || {
        let start = Instant::now();
        for _ in 0..rounds {
            assert!(paths.iter().all(|path| check(path).is_ok()));
        }
        start.elapsed().as_millis()
    };
    // Other programs may slow one round.
    let best = (0..3).map(|_| round()).min();
    assert!(best.is_some_and(|best| best < 1_000), "{best:?} ms");
}

#[test]
fn the_length_filter_drops_no_protected_name() {
    let mut own: Vec<String> = PROTECTED.iter().map(|name| name.pattern.to_owned()).collect();
    let long = "x".repeat(200);
    own.extend([long.clone(), "*/any".to_owned(), "\u{e9}t\u{e9}".to_owned(), "a".to_owned()]);
    let names = ProtectedNames::new(own, [] as [&str; 0]);
    for path in [&*long, "A", "q/any", "a", "\u{c9}T\u{c9}", ".ENVRC", ".envrc:x", ".envrc . ."] {
        assert_eq!(names.protection(Path::new(path)), Protection::Protected, "{path}");
    }
}

#[test]
fn project_names_are_free_below_dependencies_and_cannot_be_moved_out() {
    let names = ProtectedNames::standard();
    for free in [
        "node_modules/a/.travis.yml",
        "web/node_modules/@x/a/.vscode/settings.json",
        "vendor/a/.github/workflows/ci.yml",
        ".venv/lib/python3/site-packages/a/.npmrc",
    ] {
        assert_eq!(names.protection(Path::new(free)), Protection::Unprotected, "{free}");
    }
    for kept in [
        "node_modules/a/haft.toml",
        "node_modules/a/.git/hooks/x",
        "vendor/.envrc",
        "vendor/a/.bashrc",
        "Node_Modules/a/.travis.yml",
        "node_modules.bak/a/.travis.yml",
    ] {
        assert_eq!(names.protection(Path::new(kept)), Protection::Protected, "{kept}");
    }
    let moves = |from: &str, to: &str| is_move_allowed(Path::new(from), Path::new(to));
    assert!(moves("node_modules/.a-x", "node_modules/a"));
    assert!(moves("node_modules/a/node_modules/b", "node_modules/b"));
    assert!(moves("lib", "node_modules/lib"), "what was checked strictly may go there");
    assert!(!moves("node_modules/a", "a"));
    assert!(!moves("node_modules", "old"));
    assert!(!moves("vendor/a", "node_modules/a"));
}

#[test]
fn the_name_of_the_root_is_part_of_the_match() {
    let names = ProtectedNames::standard();
    let protection = |root: &str, path: &str| names.at(Path::new(root)).protection(Path::new(path));
    for (root, path) in [
        ("/w/.claude", "settings.json"),
        ("/w/.CLAUDE", "new/file"),
        ("/w/.github", "workflows/ci.yml"),
        ("/w/.config", "git/config"),
        ("/w/.config/git", "config"),
        ("/w/.git", "config"),
        ("/w/.git", "hooks/pre-commit"),
        ("/w/.git/hooks", "pre-commit"),
        ("/w/.git/worktrees/x", "gitdir"),
        ("/w/.git/objects/info", "alternates"),
        ("/w/node_modules/x/.vscode", "tasks.json"),
        ("/w/src", ".envrc"),
    ] {
        assert_eq!(protection(root, path), Protection::Protected, "{root} {path}");
    }
    assert_eq!(protection("/w/.git", "worktrees/x"), Protection::Contains);
    for (root, path) in [
        ("/w/.github", "README.md"),
        ("/w/.config", "app.toml"),
        ("/w/.git", "refs/heads/main"),
        ("/w/.claude/worktrees/x", "src/main.rs"),
        ("/w/.github/x", "workflows/ci.yml"),
        ("/w/.claude", ""),
        ("/", "config"),
        ("", "config"),
    ] {
        assert_eq!(protection(root, path), Protection::Unprotected, "{root} {path}");
    }
}

#[test]
fn exceptions_hold_in_a_root_with_a_protected_name() {
    let names = ProtectedNames::new([".git/config", ".claude"], ["./config", "./agents/a.md"]);
    let git = names.at(Path::new("/w/.git"));
    assert!(git.check(Path::new("config"), Change::Write).is_ok());
    let claude = names.at(Path::new("/w/.claude"));
    assert!(claude.check(Path::new("agents"), Change::CreateDir).is_ok(), "it leads to one");
    assert!(claude.check(Path::new("agents/a.md"), Change::CreateFile).is_ok());
    let refused = claude.check(Path::new("agents/b.md"), Change::CreateFile).unwrap_err();
    assert_eq!(refused.path, Path::new("agents/b.md"));
}
