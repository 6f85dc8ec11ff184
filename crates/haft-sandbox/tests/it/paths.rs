//! Attacks on paths, as data, and attackers that change things in between.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    os::unix::{fs::symlink, net::UnixListener},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use haft_sandbox::{Access, Bounds, Extent, PathError, PathErrorKind, Replace, Workspace};
use proptest::prelude::*;
use serde::Deserialize;

use crate::kit::{Room, get, picture, put};

/// One line of the data: what is done to a path, and what must come of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Attack {
    group: String,
    #[serde(rename = "do")]
    act: String,
    path: String,
    /// A cause, `ok`, `refused` for any cause, or `refused_or_ok` where systems differ.
    want: String,
}

/// A workspace full of traps, with a directory beside it whose name begins in the same way.
struct Trap {
    room: Room,
    evil: PathBuf,
    _socket: UnixListener,
}

impl Trap {
    fn set() -> Self {
        let room = Room::new();
        let (inside, outside) = (&room.inside, &room.outside);
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
        Self { evil, room, _socket: socket }
    }

    fn path(&self, text: &str) -> String {
        let mut text = text
            .replace("{inside}", self.room.inside.to_str().unwrap())
            .replace("{outside}", self.room.outside.to_str().unwrap())
            .replace("{base}", self.room.inside.parent().unwrap().to_str().unwrap());
        for (name, unit) in [("long", "x"), ("deep", "d/"), ("up", "../")] {
            while let Some(start) = text.find(&format!("{{{name}:")) {
                let end = start + text[start..].find('}').unwrap();
                let count: usize = text[start + name.len() + 2..end].parse().unwrap();
                text.replace_range(start..=end, &unit.repeat(count));
            }
        }
        text
    }

    /// Everything that nobody may change. The second name of the secret may be taken away.
    fn outside(&self) -> Vec<(PathBuf, String)> {
        let mut all = picture(&self.room.outside);
        all.extend(picture(&self.evil));
        for (_, what) in &mut all {
            *what = what.replace(" 2 ", " 1 ");
        }
        all
    }

    fn protected(&self) -> Vec<(PathBuf, String)> {
        let git = self.room.inside.join(".git");
        let mut all = picture(&git);
        all.retain(|(path, _)| *path == git.join("config") || path.starts_with(git.join("hooks")));
        all.extend([".haft", "haft.toml", ".envrc", ".vscode", ".mcp.json"].map(|name| {
            let there = self.room.inside.join(name).symlink_metadata().is_ok();
            (PathBuf::from(name), there.to_string())
        }));
        all
    }
}

/// Does one thing to a path.
fn attempt(workspace: &Workspace, act: &str, path: &str) -> Result<(), PathError> {
    let bounds = Bounds::default();
    let spare = || workspace.resolve_entry("spare");
    match act {
        "read" => workspace.read(&workspace.resolve(path)?, 1 << 20).map(drop),
        "write" => workspace.write(&workspace.resolve(path)?, b"attack", Replace::Always).map(drop),
        "make" => workspace.make_folder(&workspace.resolve(path)?),
        "delete" => workspace.remove(&workspace.resolve_entry(path)?, Extent::Entry).map(drop),
        "delete_all" => {
            workspace.remove(&workspace.resolve_entry(path)?, Extent::Everything(bounds)).map(drop)
        }
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
            // Whatever is shown can be asked for, and nothing of it is outside.
            if let Ok(mut opened) = entry.open() {
                let mut text = String::new();
                std::io::Read::read_to_string(&mut opened.file, &mut text).unwrap();
                assert!(!text.contains("evil"), "{:?}", entry.place());
            }
            Ok(())
        }),
        "folder" => workspace.check_folder(&workspace.resolve(path)?),
        other => panic!("`{other}` is no act"),
    }
}

#[test]
fn every_attack_of_the_corpus_ends_as_it_should_and_nothing_outside_changes() {
    let attacks: Vec<Attack> = include_str!("../data/paths.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(attacks.len() >= 400, "{}", attacks.len());
    let mut wrong = Vec::new();
    let mut trap = Trap::set();
    for attack in &attacks {
        let before = (picture(&trap.room.inside), trap.outside(), trap.protected());
        let result = attempt(&trap.room.workspace(), &attack.act, &trap.path(&attack.path));
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
        let after = (picture(&trap.room.inside), trap.outside(), trap.protected());
        assert_eq!(after.1, before.1, "{attack:?}");
        if result.is_err() {
            assert_eq!(after, before, "what is refused has touched nothing: {attack:?}");
        }
        if attack.group == "protected" {
            assert_eq!(after.2, before.2, "{attack:?}");
        }
        if after.0 != before.0 {
            trap = Trap::set();
        }
    }
    assert!(wrong.is_empty(), "{}\n{} of {}", wrong.join("\n"), wrong.len(), attacks.len());
}

#[test]
fn every_attack_fails_in_a_root_that_may_only_be_read() {
    let attacks = include_str!("../data/paths.jsonl").lines();
    let trap = Trap::set();
    let before = (picture(&trap.room.inside), trap.outside());
    let workspace = Workspace::builder().root(&trap.room.inside, Access::Read).build().unwrap();
    for line in attacks {
        let attack: Attack = serde_json::from_str(line).unwrap();
        let result = attempt(&workspace, &attack.act, &trap.path(&attack.path));
        let changes = !["read", "list", "walk", "folder"].contains(&attack.act.as_str());
        let is_nothing = attack.act == "make" && attack.want == "ok";
        assert!(!changes || result.is_err() || is_nothing, "{attack:?}");
    }
    assert_eq!((picture(&trap.room.inside), trap.outside()), before);
}

#[test]
fn a_hard_link_is_broken_and_never_written_through() {
    let trap = Trap::set();
    let workspace = trap.room.workspace();
    workspace.write(&workspace.resolve("hard").unwrap(), b"new", Replace::Always).unwrap();
    assert_eq!(get(&trap.room.inside.join("hard")), "new");
    assert_eq!(get(&trap.room.outside.join("secret.txt")), "outside");
}

#[test]
fn whoever_swaps_a_folder_for_a_link_gets_nothing_out_and_nothing_in() {
    let room = Room::new();
    let workspace = room.workspace();
    fs::create_dir(room.inside.join("d")).unwrap();
    put(&room.inside.join("d/file"), "inside");
    put(&room.outside.join("file"), "outside");
    symlink(&room.outside, room.inside.join("l")).unwrap();
    let before = picture(&room.outside);
    let is_done = AtomicBool::new(false);
    let (mut reads, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            let (d, l) = (room.inside.join("d"), room.inside.join("l"));
            while !is_done.load(Ordering::Relaxed) {
                renameat_with(CWD, &d, CWD, &l, RenameFlags::EXCHANGE).unwrap();
                // A moment in which something can be opened.
                (0..2_000).for_each(|_| std::hint::spin_loop());
            }
        });
        // Until enough has happened on both sides of the swap; a busy machine takes more turns.
        for turn in 0..3_000_000_u32 {
            if reads >= 2_000 && refused >= 2_000 {
                break;
            }
            // Found once and used later, as a call that was judged and then runs.
            let Ok(place) = workspace.resolve("d/file") else {
                refused += 1;
                continue;
            };
            match workspace.read(&place, 100) {
                Ok(bytes) => {
                    assert_eq!(bytes, b"inside");
                    reads += 1;
                }
                Err(_) => refused += 1,
            }
            if turn % 16 == 0 {
                drop(workspace.write(&place, b"inside", Replace::Always));
                let Ok(other) = workspace.resolve("d/other") else { continue };
                if workspace.write(&other, b"x", Replace::Never).is_ok() {
                    let _ = workspace.remove(&other, Extent::Entry);
                }
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert_eq!(picture(&room.outside), before);
    assert!(
        reads >= 2_000 && refused >= 2_000,
        "the race was one: {reads} reads, {refused} refused"
    );
}

#[test]
fn whoever_swaps_a_file_for_a_link_while_a_tree_is_walked_copied_or_deleted_gets_nothing() {
    let room = Room::new();
    let workspace = room.workspace();
    let before = picture(&room.outside);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let here = room.inside.join("sub/x");
            while !is_done.load(Ordering::Relaxed) {
                let _ = fs::create_dir_all(here.join("y"));
                if let Ok(mut file) = fs::File::create(here.join("y/file")) {
                    let _ = std::io::Write::write_all(&mut file, b"inside");
                }
                let _ = fs::rename(&here, room.inside.join("sub/away"));
                let _ = symlink(&room.outside, &here);
                let _ = fs::remove_file(&here);
                let _ = fs::remove_dir_all(room.inside.join("sub/away"));
            }
        });
        for _ in 0..300 {
            let sub = workspace.resolve("sub").unwrap();
            for entry in workspace.walk(&sub, Bounds::default()).unwrap().flatten() {
                if let Ok(mut opened) = entry.open() {
                    let mut text = String::new();
                    let _ = std::io::Read::read_to_string(&mut opened.file, &mut text);
                    assert!(!text.contains("outside"), "{:?}", entry.place());
                }
            }
            let copied = workspace.resolve("copied").unwrap();
            let _ = workspace.copy(&sub, &copied, Replace::Always, Bounds::default());
            assert!(!room.inside.join("copied/x/secret.txt").exists());
            let _ = workspace.remove(&copied, Extent::Everything(Bounds::default()));
            if let Ok(x) = workspace.resolve_entry("sub/x") {
                let _ = workspace.remove(&x, Extent::Everything(Bounds::default()));
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert_eq!(picture(&room.outside), before);
}

#[test]
fn a_grant_opens_one_protected_name_and_no_other() {
    let room = Room::new();
    let workspace = room.workspace();
    let place = workspace.resolve(".envrc").unwrap();
    let granted = workspace.granting([place.clone()]);
    assert!(workspace.is_protected(&place) && !granted.is_protected(&place));
    granted.write(&place, b"export A=1", Replace::Never).unwrap();
    for other in [".haft/x", "haft.toml", "sub/.envrc", ".git/config"] {
        let other = granted.resolve(other).unwrap();
        assert_eq!(
            granted.write(&other, b"", Replace::Always).unwrap_err().cause(),
            PathErrorKind::Protected,
            "{other}"
        );
    }
    assert_eq!(
        workspace.write(&place, b"", Replace::Always).unwrap_err().cause(),
        PathErrorKind::Protected
    );
}

#[test]
fn a_place_of_one_workspace_is_nothing_to_another() {
    let (one, two) = (Room::new(), Room::new());
    let place = one.workspace().resolve("notes.txt").unwrap();
    assert_eq!(
        two.workspace().read(&place, 100).unwrap_err().cause(),
        PathErrorKind::OutsideWorkspace
    );
}

#[test]
fn several_roots_are_told_apart_and_links_between_them_are_followed() {
    let (one, two) = (Room::new(), Room::new());
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
fn a_file_that_changed_since_it_was_read_is_not_replaced_and_a_draft_leaves_nothing_behind() {
    let room = Room::new();
    let workspace = room.workspace();
    let place = workspace.resolve("notes.txt").unwrap();
    let stamp = workspace.meta(&place).unwrap().stamp;
    workspace.write(&place, b"mine", Replace::If(stamp)).unwrap();
    assert_eq!(
        workspace.write(&place, b"late", Replace::If(stamp)).unwrap_err().cause(),
        PathErrorKind::Changed
    );
    assert_eq!(
        workspace.write(&place, b"new", Replace::Never).unwrap_err().cause(),
        PathErrorKind::Exists
    );
    drop(workspace.draft(&place, Replace::Always).unwrap());
    let names: Vec<_> =
        fs::read_dir(&room.inside).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(get(&room.inside.join("notes.txt")), "mine");
}

#[test]
fn modes_are_kept_and_privileges_in_them_are_not() {
    use std::os::unix::fs::PermissionsExt as _;
    let room = Room::new();
    let workspace = room.workspace();
    let file = room.inside.join("notes.txt");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o6750)).unwrap();
    workspace.write(&workspace.resolve("notes.txt").unwrap(), b"x", Replace::Always).unwrap();
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o7777, 0o750);
}

#[test]
fn bounds_hold_and_nothing_was_touched_when_one_is_met() {
    let room = Room::new();
    let workspace = room.workspace();
    for n in 0..50 {
        put(&room.inside.join(format!("sub/{n}")), "12345");
    }
    let mut deep = room.inside.join("sub");
    for _ in 0..20 {
        deep.push("d");
        fs::create_dir(&deep).unwrap();
    }
    let before = picture(&room.inside);
    let sub = workspace.resolve_entry("sub").unwrap();
    for bounds in
        [Bounds { entries: 10, ..Bounds::default() }, Bounds { depth: 5, ..Bounds::default() }]
    {
        let refused = workspace.remove(&sub, Extent::Everything(bounds)).unwrap_err();
        assert_eq!(refused.cause(), PathErrorKind::TooMany);
        let to = workspace.resolve("copied").unwrap();
        assert_eq!(
            workspace.copy(&sub, &to, Replace::Never, bounds).unwrap_err().cause(),
            PathErrorKind::TooMany
        );
    }
    let small = Bounds { bytes: 100, ..Bounds::default() };
    let to = workspace.resolve("copied").unwrap();
    assert_eq!(
        workspace.copy(&sub, &to, Replace::Never, small).unwrap_err().cause(),
        PathErrorKind::TooMany
    );
    assert_eq!(workspace.list(&sub, 10).unwrap_err().cause(), PathErrorKind::TooMany);
    let notes = workspace.resolve("notes.txt").unwrap();
    assert_eq!(workspace.read(&notes, 3).unwrap_err().cause(), PathErrorKind::TooLarge);
    assert_eq!(picture(&room.inside), before);
    assert_eq!(workspace.list(&sub, 100).unwrap().len(), 51);
    let mut walk = workspace.walk(&sub, Bounds::default()).unwrap();
    let mut seen = 0;
    while let Some(entry) = walk.next() {
        seen += 1;
        if entry.unwrap().level() == 3 {
            walk.pass_by();
        }
    }
    assert_eq!(seen, 53, "below the third level nothing was entered");
}

#[test]
fn a_tree_with_more_folders_than_descriptors_is_copied_and_deleted() {
    let room = Room::new();
    let workspace = room.workspace();
    for n in 0..3_000 {
        fs::create_dir(room.inside.join(format!("sub/{n}"))).unwrap();
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    assert!(limit.is_none_or(|limit| limit > 100));
    let (sub, to) = (workspace.resolve("sub").unwrap(), workspace.resolve("copied").unwrap());
    assert_eq!(
        workspace.copy(&sub, &to, Replace::Never, Bounds::default()).unwrap().entries,
        3_000
    );
    assert_eq!(
        workspace.remove(&to, Extent::Everything(Bounds::default())).unwrap().entries,
        3_001
    );
}

#[test]
fn a_copy_over_a_file_leaves_who_may_use_it_as_it_was() {
    let room = Room::new();
    let workspace = room.workspace();
    let mode =
        |path: &str| fs::metadata(room.inside.join(path)).unwrap().permissions().mode() & 0o777;
    for (name, mode) in [("open", 0o755), ("closed", 0o600), ("moved", 0o640)] {
        let path = room.inside.join(name);
        fs::File::create(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let find = |path: &str| workspace.resolve(path).unwrap();
    let copy = |from: &str, to: &str| {
        workspace.copy(&find(from), &find(to), Replace::Always, Bounds::default()).unwrap();
    };
    copy("open", "new");
    assert_eq!(mode("new"), 0o755, "a new file may be used as the one it is a copy of");
    copy("open", "closed");
    assert_eq!(mode("closed"), 0o600, "a closed file is not opened by what is copied into it");
    let bounds = Bounds::default();
    workspace.carry(&find("moved"), &find("closed"), Replace::Always, bounds).unwrap();
    assert_eq!(mode("closed"), 0o640, "what is moved stays what it was, as by a rename");
}

#[test]
fn a_deletion_ends_between_two_entries_when_it_is_told_to() {
    let room = Room::new();
    let workspace = room.workspace();
    for n in 0..10 {
        fs::create_dir(room.inside.join(format!("sub/{n}"))).unwrap();
    }
    let sub = workspace.resolve("sub").unwrap();
    let all = fs::read_dir(room.inside.join("sub")).unwrap().count();
    let asked = std::cell::Cell::new(0);
    let stop = || asked.replace(asked.get() + 1) == 4;
    let everything = Extent::Everything(Bounds::default());
    let done = workspace.remove_until(&sub, everything, &stop).unwrap();
    let left = fs::read_dir(room.inside.join("sub")).unwrap().count();
    assert_eq!((done.entries, left), (4, all - 4), "{done:?}");
    assert_eq!(done.left_over, left + 1, "the folder itself is one of them");
}

/// Parts that hostile paths are made of.
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

/// Where hostile symlinks lead.
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
enum Move {
    /// A call of a tool.
    Call(usize, Vec<usize>, bool),
    /// What somebody else does in the workspace in the meantime.
    Link(usize, usize),
    Folder(usize),
}

fn a_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        8 => (0..ACTS.len(), prop::collection::vec(0..PARTS.len(), 1..6), any::<bool>()).prop_map(|(act, path, abs)| Move::Call(act, path, abs)),
        1 => (0..3_usize, 0..TARGETS.len()).prop_map(|(name, target)| Move::Link(name, target)),
        1 => (0..3_usize).prop_map(Move::Folder),
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

    /// Forty rooms, 250 hostile moves in each: ten thousand.
    #[test]
    fn the_tree_outside_is_the_same_after_ten_thousand_hostile_calls(moves in prop::collection::vec(a_move(), 250)) {
        let trap = Trap::set();
        let inside = &trap.room.inside;
        let before = (trap.outside(), trap.protected());
        let workspace = trap.room.workspace();
        for (turn, step) in moves.iter().enumerate() {
            match step {
                Move::Call(act, parts, is_absolute) => {
                    let path: Vec<_> = parts.iter().map(|part| PARTS[*part]).collect();
                    let mut path = path.join("/");
                    if *is_absolute {
                        path = format!("{}/{path}", inside.display());
                    }
                    let _ = attempt(&workspace, ACTS[*act], &path);
                }
                Move::Link(name, target) => {
                    let name = inside.join(format!("l{name}"));
                    let _ = fs::remove_file(&name);
                    let _ = symlink(trap.path(TARGETS[*target]), &name);
                }
                Move::Folder(name) => {
                    let name = inside.join(format!("l{name}"));
                    let _ = fs::remove_file(&name);
                    let _ = fs::create_dir(&name);
                }
            }
            if turn % 50 == 49 {
                prop_assert_eq!(&(trap.outside(), trap.protected()), &before);
                // The traps are set anew, because some were taken away.
                let _ = fs::create_dir_all(inside.join("sub/deep"));
                put(&inside.join("spare"), "spare");
                let _ = symlink("../outside", inside.join("out"));
            }
        }
        prop_assert_eq!((trap.outside(), trap.protected()), before);
        prop_assert_eq!(get(Path::new(&trap.room.outside.join("secret.txt"))), "outside");
    }
}
