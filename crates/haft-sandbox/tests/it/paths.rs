//! Path traversal attacks as data, and symlink races (TOCTOU).

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    os::unix::{fs::symlink, net::UnixListener},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use haft_sandbox::{Access, DeleteScope, PathError, PathErrorKind, Replace, WalkLimits, Workspace};
use proptest::prelude::*;
use serde::Deserialize;

use crate::kit::{Fixture, get, put, snapshot};

/// One line of the corpus: an operation on a path and its expected result.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Attack {
    group: String,
    #[serde(rename = "do")]
    act: String,
    path: String,
    /// A cause, `ok`, `refused` for any cause, or `refused_or_ok` if systems differ.
    want: String,
}

/// A workspace full of hostile symlinks and special files, next to a directory whose name has the
/// same prefix.
struct HostileWorkspace {
    fixture: Fixture,
    evil: PathBuf,
    _socket: UnixListener,
}

impl HostileWorkspace {
    fn create() -> Self {
        let fixture = Fixture::new();
        let (inside, outside) = (&fixture.inside, &fixture.outside);
        let evil = inside.with_file_name("inside-evil");
        fs::create_dir(&evil).unwrap();
        put(&evil.join("secret.txt"), "evil");
        fs::create_dir_all(inside.join("sub/deep")).unwrap();
        put(&inside.join("sub/deep/file.txt"), "deep");
        fs::create_dir_all(inside.join(".git/hooks")).unwrap();
        put(&inside.join(".git/config"), "[core]");
        fs::create_dir_all(inside.join("nested/repo/.git/hooks")).unwrap();
        for (name, target) in [
            ("out", outside.to_str().unwrap()),
            ("outrel", "../outside"),
            ("chain", "out"),
            ("etc", "/etc"),
            ("passwd", "/etc/passwd"),
            ("up", ".."),
            ("dotdot", "sub/../.."),
            ("secret", outside.join("secret.txt").to_str().unwrap()),
            ("dangling", "../outside/new"),
            ("danglingabs", outside.join("new").to_str().unwrap()),
            ("rootlink", "/"),
            ("deepout", "sub/deep/../../../outside"),
            ("sub/uplink", ".."),
            ("sub/back", ".."),
            ("procroot", "/proc/self/root"),
            ("magic", "/proc/self/exe"),
            ("proccwd", "/proc/self/cwd"),
            ("procfd", "/proc/self/fd/0"),
            ("devnull", "/dev/null"),
            ("evil", evil.to_str().unwrap()),
            ("loop1", "loop2"),
            ("loop2", "loop1"),
            ("selfloop", "selfloop"),
            ("bigloop", "sub/../bigloop/x"),
            ("inlink", "notes.txt"),
            ("indir", "sub"),
            ("absin", inside.join("notes.txt").to_str().unwrap()),
            ("gitlink", ".git"),
            ("sub/gitup", "../.git"),
        ] {
            symlink(target, inside.join(name)).unwrap();
        }
        fs::hard_link(outside.join("secret.txt"), inside.join("hard")).unwrap();
        for fifo in ["fifo", "sub/fifo2"] {
            rustix::fs::mknodat(
                rustix::fs::CWD,
                inside.join(fifo),
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::from_raw_mode(0o666),
                0,
            )
            .unwrap();
        }
        let socket = UnixListener::bind(inside.join("socket")).unwrap();
        put(&inside.join("spare"), "spare");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            inside.join("sub/socket"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o666),
            0,
        )
        .unwrap();
        Self { evil, fixture, _socket: socket }
    }

    fn path(&self, text: &str) -> String {
        let mut text = text
            .replace("{inside}", self.fixture.inside.to_str().unwrap())
            .replace("{outside}", self.fixture.outside.to_str().unwrap())
            .replace("{base}", self.fixture.inside.parent().unwrap().to_str().unwrap());
        for (name, unit) in [("long", "x"), ("deep", "d/"), ("up", "../")] {
            while let Some(start) = text.find(&format!("{{{name}:")) {
                let end = start + text[start..].find('}').unwrap();
                let count: usize = text[start + name.len() + 2..end].parse().unwrap();
                text.replace_range(start..=end, &unit.repeat(count));
            }
        }
        text
    }

    /// Returns everything that must not change. The hard link count of the secret may change.
    fn outside(&self) -> Vec<(PathBuf, String)> {
        let mut all = snapshot(&self.fixture.outside);
        all.extend(snapshot(&self.evil));
        for (_, what) in &mut all {
            *what = what.replace(" 2 ", " 1 ");
        }
        all
    }

    fn protected(&self) -> Vec<(PathBuf, String)> {
        let git = self.fixture.inside.join(".git");
        let mut all = snapshot(&git);
        all.retain(|(path, _)| *path == git.join("config") || path.starts_with(git.join("hooks")));
        all.extend([".haft", "haft.toml", ".envrc", ".vscode", ".mcp.json"].map(|name| {
            let there = self.fixture.inside.join(name).symlink_metadata().is_ok();
            (PathBuf::from(name), there.to_string())
        }));
        all
    }
}

/// Performs one operation on a path.
fn attempt(workspace: &Workspace, act: &str, path: &str) -> Result<(), PathError> {
    let bounds = WalkLimits::default();
    let spare = || workspace.resolve_entry("spare");
    match act {
        "read" => workspace.read(&workspace.resolve(path)?, 1 << 20).map(drop),
        "write" => workspace.write(&workspace.resolve(path)?, b"attack", Replace::Always).map(drop),
        "make" => workspace.make_directory(&workspace.resolve(path)?),
        "delete" => workspace.remove(&workspace.resolve_entry(path)?, DeleteScope::Entry).map(drop),
        "delete_all" => workspace
            .remove(&workspace.resolve_entry(path)?, DeleteScope::Everything(bounds))
            .map(drop),
        "rename_to" => {
            workspace.rename(&spare()?, &workspace.resolve_entry(path)?, Replace::Always)
        }
        "rename_from" => workspace.rename(
            &workspace.resolve_entry(path)?,
            &workspace.resolve_entry("moved")?,
            Replace::Never,
        ),
        "rename_sub" => workspace.rename(
            &workspace.resolve_entry("sub")?,
            &workspace.resolve_entry(path)?,
            Replace::Never,
        ),
        "copy_to" => {
            workspace.copy(&spare()?, &workspace.resolve(path)?, Replace::Always, bounds).map(drop)
        }
        "copy_from" => workspace
            .copy(&workspace.resolve(path)?, &workspace.resolve("copied")?, Replace::Never, bounds)
            .map(drop),
        "copy_sub" => workspace
            .copy(&workspace.resolve("sub")?, &workspace.resolve(path)?, Replace::Never, bounds)
            .map(drop),
        "list" => workspace.list(&workspace.resolve(path)?, 1_000).map(drop),
        "walk" => workspace.walk(&workspace.resolve(path)?, bounds)?.try_for_each(|entry| {
            let entry = entry?;
            // Every returned entry can be opened, and none is outside.
            if let Ok(mut opened) = entry.open() {
                let mut text = String::new();
                std::io::Read::read_to_string(&mut opened.file, &mut text).unwrap();
                assert!(!text.contains("evil"), "{:?}", entry.resolved());
            }
            Ok(())
        }),
        "folder" => workspace.check_directory(&workspace.resolve(path)?),
        other => panic!("`{other}` is no act"),
    }
}

#[test]
fn path_traversal_corpus_cannot_change_anything_outside() {
    let attacks: Vec<Attack> = include_str!("../data/paths.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(attacks.len() >= 400, "{}", attacks.len());
    let mut wrong = Vec::new();
    let mut hostile = HostileWorkspace::create();
    for attack in &attacks {
        let before = (snapshot(&hostile.fixture.inside), hostile.outside(), hostile.protected());
        let result =
            attempt(&hostile.fixture.workspace(), &attack.act, &hostile.path(&attack.path));
        let got = result.as_ref().map_or_else(|refusal| refusal.cause().as_str(), |()| "ok");
        let is_right = match attack.want.as_str() {
            "refused" => result.is_err(),
            "refused_or_ok" => true,
            want => got == want,
        };
        if !is_right {
            wrong.push(format!(
                "{} {} {:?}: wanted {}, got {got}",
                attack.group, attack.act, attack.path, attack.want
            ));
        }
        let after = (snapshot(&hostile.fixture.inside), hostile.outside(), hostile.protected());
        assert_eq!(after.1, before.1, "{attack:?}");
        if result.is_err() {
            assert_eq!(after, before, "a refused operation must change nothing: {attack:?}");
        }
        if attack.group == "protected" {
            assert_eq!(after.2, before.2, "{attack:?}");
        }
        if after.0 != before.0 {
            hostile = HostileWorkspace::create();
        }
    }
    assert!(wrong.is_empty(), "{}\n{} of {}", wrong.join("\n"), wrong.len(), attacks.len());
}

#[test]
fn path_traversal_corpus_cannot_change_a_read_only_root() {
    let attacks = include_str!("../data/paths.jsonl").lines();
    let hostile = HostileWorkspace::create();
    let before = (snapshot(&hostile.fixture.inside), hostile.outside());
    let workspace =
        Workspace::builder().root(&hostile.fixture.inside, Access::Read).build().unwrap();
    for line in attacks {
        let attack: Attack = serde_json::from_str(line).unwrap();
        let result = attempt(&workspace, &attack.act, &hostile.path(&attack.path));
        let changes = !["read", "list", "walk", "folder"].contains(&attack.act.as_str());
        let is_nothing = attack.act == "make" && attack.want == "ok";
        assert!(!changes || result.is_err() || is_nothing, "{attack:?}");
    }
    assert_eq!((snapshot(&hostile.fixture.inside), hostile.outside()), before);
}

#[test]
fn hard_link_is_replaced_and_never_written_through() {
    let hostile = HostileWorkspace::create();
    let workspace = hostile.fixture.workspace();
    workspace.write(&workspace.resolve("hard").unwrap(), b"new", Replace::Always).unwrap();
    assert_eq!(get(&hostile.fixture.inside.join("hard")), "new");
    assert_eq!(get(&hostile.fixture.outside.join("secret.txt")), "outside");
}

#[test]
fn symlink_race_cannot_escape_the_workspace() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace();
    fs::create_dir(fixture.inside.join("d")).unwrap();
    put(&fixture.inside.join("d/file"), "inside");
    put(&fixture.outside.join("file"), "outside");
    symlink(&fixture.outside, fixture.inside.join("l")).unwrap();
    let before = snapshot(&fixture.outside);
    let is_done = AtomicBool::new(false);
    let (mut reads, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            let (d, l) = (fixture.inside.join("d"), fixture.inside.join("l"));
            while !is_done.load(Ordering::Relaxed) {
                renameat_with(CWD, &d, CWD, &l, RenameFlags::EXCHANGE).unwrap();
                // Leaves time for an open between two swaps.
                (0..2_000).for_each(|_| std::hint::spin_loop());
            }
        });
        // Until both states were seen often enough; a busy machine needs more iterations.
        for turn in 0..3_000_000_u32 {
            if reads >= 2_000 && refused >= 2_000 {
                break;
            }
            // Resolved first and used later, as between authorization and execution (TOCTOU).
            let Ok(resolved) = workspace.resolve("d/file") else {
                refused += 1;
                continue;
            };
            match workspace.read(&resolved, 100) {
                Ok(bytes) => {
                    assert_eq!(bytes, b"inside");
                    reads += 1;
                }
                Err(_) => refused += 1,
            }
            if turn % 16 == 0 {
                drop(workspace.write(&resolved, b"inside", Replace::Always));
                let Ok(other) = workspace.resolve("d/other") else { continue };
                if workspace.write(&other, b"x", Replace::Never).is_ok() {
                    let _ = workspace.remove(&other, DeleteScope::Entry);
                }
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert_eq!(snapshot(&fixture.outside), before);
    assert!(
        reads >= 2_000 && refused >= 2_000,
        "the race did not happen: {reads} reads, {refused} refused"
    );
}

#[test]
fn symlink_race_cannot_escape_a_walk_copy_or_delete() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace();
    let before = snapshot(&fixture.outside);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let here = fixture.inside.join("sub/x");
            while !is_done.load(Ordering::Relaxed) {
                let _ = fs::create_dir_all(here.join("y"));
                if let Ok(mut file) = fs::File::create(here.join("y/file")) {
                    let _ = std::io::Write::write_all(&mut file, b"inside");
                }
                let _ = fs::rename(&here, fixture.inside.join("sub/away"));
                let _ = symlink(&fixture.outside, &here);
                let _ = fs::remove_file(&here);
                let _ = fs::remove_dir_all(fixture.inside.join("sub/away"));
            }
        });
        for _ in 0..300 {
            let sub = workspace.resolve("sub").unwrap();
            for entry in workspace.walk(&sub, WalkLimits::default()).unwrap().flatten() {
                if let Ok(mut opened) = entry.open() {
                    let mut text = String::new();
                    let _ = std::io::Read::read_to_string(&mut opened.file, &mut text);
                    assert!(!text.contains("outside"), "{:?}", entry.resolved());
                }
            }
            let copied = workspace.resolve("copied").unwrap();
            let _ = workspace.copy(&sub, &copied, Replace::Always, WalkLimits::default());
            assert!(!fixture.inside.join("copied/x/secret.txt").exists());
            let _ = workspace.remove(&copied, DeleteScope::Everything(WalkLimits::default()));
            if let Ok(x) = workspace.resolve_entry("sub/x") {
                let _ = workspace.remove(&x, DeleteScope::Everything(WalkLimits::default()));
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert_eq!(snapshot(&fixture.outside), before);
}

#[test]
fn grant_allows_only_its_protected_name() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace();
    let resolved = workspace.resolve(".envrc").unwrap();
    let granted = workspace.with_writable([resolved.clone()]);
    assert!(workspace.is_protected(&resolved) && !granted.is_protected(&resolved));
    granted.write(&resolved, b"export A=1", Replace::Never).unwrap();
    for other in [".haft/x", "haft.toml", "sub/.envrc", ".git/config"] {
        let other = granted.resolve(other).unwrap();
        assert_eq!(
            granted.write(&other, b"", Replace::Always).unwrap_err().cause(),
            PathErrorKind::Protected,
            "{other}"
        );
    }
    assert_eq!(
        workspace.write(&resolved, b"", Replace::Always).unwrap_err().cause(),
        PathErrorKind::Protected
    );
}

#[test]
fn resolved_path_is_refused_in_another_workspace() {
    let (one, two) = (Fixture::new(), Fixture::new());
    let resolved = one.workspace().resolve("notes.txt").unwrap();
    assert_eq!(
        two.workspace().read(&resolved, 100).unwrap_err().cause(),
        PathErrorKind::OutsideWorkspace
    );
}

#[test]
fn symlinks_between_roots_keep_the_access_of_the_target() {
    let (one, two) = (Fixture::new(), Fixture::new());
    symlink(two.inside.join("notes.txt"), one.inside.join("over")).unwrap();
    let workspace = Workspace::builder()
        .root(&one.inside, Access::Write)
        .root(&two.inside, Access::Read)
        .build()
        .unwrap();
    let over = workspace.resolve("over").unwrap();
    assert_eq!((over.root(), workspace.read(&over, 100).unwrap()), (1, b"inside".to_vec()));
    assert_eq!(
        workspace.write(&over, b"", Replace::Always).unwrap_err().cause(),
        PathErrorKind::ReadOnly
    );
    let there = workspace.resolve(two.inside.join("sub")).unwrap();
    assert_eq!(workspace.resolve_from(&there, "../notes.txt").unwrap(), over);
    assert_eq!(
        workspace.resolve_from(&there, "../../outside/secret.txt").unwrap_err().cause(),
        PathErrorKind::OutsideWorkspace
    );
}

#[test]
fn changed_file_is_not_replaced_and_dropped_write_leaves_no_temporary_file() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace();
    let resolved = workspace.resolve("notes.txt").unwrap();
    let stamp = workspace.meta(&resolved).unwrap().stamp;
    workspace.write(&resolved, b"mine", Replace::If(stamp)).unwrap();
    assert_eq!(
        workspace.write(&resolved, b"late", Replace::If(stamp)).unwrap_err().cause(),
        PathErrorKind::Changed
    );
    assert_eq!(
        workspace.write(&resolved, b"new", Replace::Never).unwrap_err().cause(),
        PathErrorKind::Exists
    );
    drop(workspace.start_write(&resolved, Replace::Always).unwrap());
    let names: Vec<_> =
        fs::read_dir(&fixture.inside).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(get(&fixture.inside.join("notes.txt")), "mine");
}

#[test]
fn replaced_file_keeps_its_mode_without_setuid_bits() {
    use std::os::unix::fs::PermissionsExt as _;
    let fixture = Fixture::new();
    let workspace = fixture.workspace();
    let file = fixture.inside.join("notes.txt");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o6750)).unwrap();
    workspace.write(&workspace.resolve("notes.txt").unwrap(), b"x", Replace::Always).unwrap();
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o7777, 0o750);
}

#[test]
fn exceeded_bound_changes_nothing() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace();
    for n in 0..50 {
        put(&fixture.inside.join(format!("sub/{n}")), "12345");
    }
    let mut deep = fixture.inside.join("sub");
    for _ in 0..20 {
        deep.push("d");
        fs::create_dir(&deep).unwrap();
    }
    let before = snapshot(&fixture.inside);
    let sub = workspace.resolve_entry("sub").unwrap();
    for bounds in [
        WalkLimits { entries: 10, ..WalkLimits::default() },
        WalkLimits { depth: 5, ..WalkLimits::default() },
    ] {
        let refused = workspace.remove(&sub, DeleteScope::Everything(bounds)).unwrap_err();
        assert_eq!(refused.cause(), PathErrorKind::TooMany);
        let to = workspace.resolve("copied").unwrap();
        assert_eq!(
            workspace.copy(&sub, &to, Replace::Never, bounds).unwrap_err().cause(),
            PathErrorKind::TooMany
        );
    }
    let small = WalkLimits { bytes: 100, ..WalkLimits::default() };
    let to = workspace.resolve("copied").unwrap();
    assert_eq!(
        workspace.copy(&sub, &to, Replace::Never, small).unwrap_err().cause(),
        PathErrorKind::TooMany
    );
    assert_eq!(workspace.list(&sub, 10).unwrap_err().cause(), PathErrorKind::TooMany);
    let notes = workspace.resolve("notes.txt").unwrap();
    assert_eq!(workspace.read(&notes, 3).unwrap_err().cause(), PathErrorKind::TooLarge);
    assert_eq!(snapshot(&fixture.inside), before);
    assert_eq!(workspace.list(&sub, 100).unwrap().len(), 51);
    for (bound, listed, is_cut) in [(10, 10, true), (50, 50, true), (51, 51, false)] {
        let (entries, more) = workspace.list_at_most(&sub, bound).unwrap();
        assert_eq!((entries.len(), more), (listed, is_cut), "{bound}");
    }
    let mut walk = workspace.walk(&sub, WalkLimits::default()).unwrap();
    let mut seen = 0;
    while let Some(entry) = walk.next() {
        seen += 1;
        if entry.unwrap().level() == 3 {
            walk.skip_entry();
        }
    }
    assert_eq!(seen, 53, "nothing below the third level was visited");
}

#[test]
fn tree_with_more_directories_than_file_descriptors_is_copied_and_deleted() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace();
    for n in 0..3_000 {
        fs::create_dir(fixture.inside.join(format!("sub/{n}"))).unwrap();
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    assert!(limit.is_none_or(|limit| limit > 100));
    let (sub, to) = (workspace.resolve("sub").unwrap(), workspace.resolve("copied").unwrap());
    assert_eq!(
        workspace.copy(&sub, &to, Replace::Never, WalkLimits::default()).unwrap().entries,
        3_000
    );
    assert_eq!(
        workspace.remove(&to, DeleteScope::Everything(WalkLimits::default())).unwrap().entries,
        3_001
    );
}

#[test]
fn copy_over_a_file_keeps_its_permissions() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace();
    let mode =
        |path: &str| fs::metadata(fixture.inside.join(path)).unwrap().permissions().mode() & 0o777;
    for (name, mode) in [("open", 0o755), ("closed", 0o600), ("moved", 0o640)] {
        let path = fixture.inside.join(name);
        fs::File::create(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let find = |path: &str| workspace.resolve(path).unwrap();
    let copy = |from: &str, to: &str| {
        workspace.copy(&find(from), &find(to), Replace::Always, WalkLimits::default()).unwrap();
    };
    copy("open", "new");
    assert_eq!(mode("new"), 0o755, "a new file gets the mode of its source");
    copy("open", "closed");
    assert_eq!(mode("closed"), 0o600, "a replaced file keeps its mode");
    let bounds = WalkLimits::default();
    workspace
        .move_across_devices(&find("moved"), &find("closed"), Replace::Always, bounds)
        .unwrap();
    assert_eq!(mode("closed"), 0o640, "a moved file keeps its own mode, as with a rename");
}

#[test]
fn delete_can_be_cancelled_between_two_entries() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace();
    for n in 0..10 {
        fs::create_dir(fixture.inside.join(format!("sub/{n}"))).unwrap();
    }
    let sub = workspace.resolve("sub").unwrap();
    let all = fs::read_dir(fixture.inside.join("sub")).unwrap().count();
    let asked = std::cell::Cell::new(0);
    let stop = || asked.replace(asked.get() + 1) == 4;
    let everything = DeleteScope::Everything(WalkLimits::default());
    let done = workspace.remove_until(&sub, everything, &stop).unwrap();
    let left = fs::read_dir(fixture.inside.join("sub")).unwrap().count();
    assert_eq!((done.entries, left), (4, all - 4), "{done:?}");
    assert_eq!(done.not_deleted, left + 1, "the directory itself is counted");
}

/// Components of hostile paths.
const PARTS: &[&str] = &[
    "..",
    ".",
    "",
    "a",
    "b",
    "out",
    "up",
    "sub",
    "deep",
    "notes.txt",
    "x",
    ".git",
    "hooks",
    "config",
    "haft.toml",
    "secret.txt",
    "outside",
    "inside",
    "~",
    "\0",
    "l0",
    "l1",
    "l2",
    "\u{202e}",
    "...",
    "etc",
    "passwd",
];

/// Targets of hostile symlinks.
const TARGETS: &[&str] = &[
    "..",
    "../outside",
    "/",
    "/etc/passwd",
    "sub",
    "l1",
    "l2",
    "../outside/secret.txt",
    ".git",
    "/proc/self/root",
    "../../..",
    ".",
    "{outside}",
    "{inside}/sub",
    "{outside}/secret.txt",
    "a/../..",
];

#[derive(Debug, Clone)]
enum Step {
    /// A call of a tool.
    Call(usize, Vec<usize>, bool),
    /// Another process replaces an entry by a symlink.
    Symlink(usize, usize),
    /// Another process replaces an entry by a directory.
    Directory(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..ACTS.len(), prop::collection::vec(0..PARTS.len(), 1..6), any::<bool>()).prop_map(|(act, path, abs)| Step::Call(act, path, abs)),
        1 => (0..3_usize, 0..TARGETS.len()).prop_map(|(name, target)| Step::Symlink(name, target)),
        1 => (0..3_usize).prop_map(Step::Directory),
    ]
}

const ACTS: &[&str] = &[
    "read",
    "write",
    "make",
    "delete",
    "delete_all",
    "rename_to",
    "rename_from",
    "copy_to",
    "copy_from",
    "list",
    "walk",
    "folder",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// Forty workspaces with 250 hostile steps each: ten thousand.
    #[test]
    fn ten_thousand_hostile_calls_change_nothing_outside(steps in prop::collection::vec(step(), 250)) {
        let hostile = HostileWorkspace::create();
        let inside = &hostile.fixture.inside;
        let before = (hostile.outside(), hostile.protected());
        let workspace = hostile.fixture.workspace();
        for (turn, step) in steps.iter().enumerate() {
            match step {
                Step::Call(act, parts, is_absolute) => {
                    let path: Vec<_> = parts.iter().map(|part| PARTS[*part]).collect();
                    let mut path = path.join("/");
                    if *is_absolute {
                        path = format!("{}/{path}", inside.display());
                    }
                    let _ = attempt(&workspace, ACTS[*act], &path);
                }
                Step::Symlink(name, target) => {
                    let name = inside.join(format!("l{name}"));
                    let _ = fs::remove_file(&name);
                    let _ = symlink(hostile.path(TARGETS[*target]), &name);
                }
                Step::Directory(name) => {
                    let name = inside.join(format!("l{name}"));
                    let _ = fs::remove_file(&name);
                    let _ = fs::create_dir(&name);
                }
            }
            if turn % 50 == 49 {
                prop_assert_eq!(&(hostile.outside(), hostile.protected()), &before);
                // Some hostile entries were deleted, so create them again.
                let _ = fs::create_dir_all(inside.join("sub/deep"));
                put(&inside.join("spare"), "spare");
                let _ = symlink("../outside", inside.join("out"));
            }
        }
        prop_assert_eq!((hostile.outside(), hostile.protected()), before);
        prop_assert_eq!(get(Path::new(&hostile.fixture.outside.join("secret.txt"))), "outside");
    }
}
