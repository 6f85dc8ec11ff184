//! Destructive commands, also inside `sudo`, `sh -c`, `xargs` and `find -exec`.
//!
//! The table may match too much: an unneeded approval is cheap. It is checked first.

use crate::{
    SimpleCommand, UnwrappedCommand, Word, Wrappers,
    classify::{Kind, kernel, shown},
    grammar::tables,
    wrappers::{self, Inner, unwrap},
};

/// When a command is destructive.
enum When {
    /// Always.
    Always,
    /// If one of these entries is among its words. All parts of an entry must match; a plain word
    /// must be the first operand, and the next plain word the second.
    With(&'static [&'static str]),
    /// If one of its words contains this, in any case.
    Holding(&'static [&'static str]),
}

use When::{Always, Holding, With};

const SQL: &[&str] = &["drop ", "delete from", "truncate "];
const REMOVE: &[&str] =
    &["remove", "purge", "autoremove", "uninstall", "erase", "rm", "un", "unlink", "unpublish"];
const RECURSIVE: &[&str] = &["-R", "--recursive"];
const FLUSH: &[&str] = &["-F", "-X", "-D", "--flush", "--delete", "--delete-chain"];

/// Names separated by spaces, and when they are destructive.
const TABLE: &[(&str, When)] = &[
    ("rm rmdir unlink shred srm wipe rimraf trash trash-put trash-empty truncate", Always),
    ("mke2fs mkswap wipefs fdisk sfdisk cfdisk gdisk sgdisk parted blkdiscard hdparm", Always),
    ("lvremove vgremove pvremove lvreduce swapoff debugfs fstrim format del rd", Always),
    ("pkill killall skill xkill shutdown reboot halt poweroff init telinit", Always),
    ("umount fusermount fusermount3 pivot_root switch_root insmod rmmod modprobe", Always),
    ("kexec kldload kldunload kextload kextunload flashrom efibootmgr setenforce", Always),
    ("userdel groupdel deluser delgroup dropdb dropuser atrm", Always),
    ("dd", Holding(&["of="])),
    ("kill", Always),
    ("find", With(&["-delete"])),
    ("fd fdfind", With(&["-X rm"])),
    ("chmod chown chgrp setfacl chattr chcon", With(RECURSIVE)),
    ("mv cp install ln", With(&["/dev/null"])),
    ("rsync", Holding(&["--del", "--remove-source-files"])),
    ("tar bsdtar gtar", With(&["--remove-files"])),
    (
        "git",
        With(&[
            "push --force",
            "push -f",
            "push --force-with-lease",
            "push --force-if-includes",
            "push --delete",
            "push -d",
            "push --mirror",
            "push --prune",
            "reset --hard",
            "reset --merge",
            "reset --keep",
            "clean",
            "checkout -f",
            "checkout --force",
            "checkout --",
            "checkout .",
            "restore",
            "branch -D",
            "branch -d",
            "branch --delete",
            "branch -f",
            "branch --force",
            "tag -d",
            "tag --delete",
            "stash drop",
            "stash clear",
            "reflog expire",
            "reflog delete",
            "gc --prune",
            "filter-branch",
            "filter-repo",
            "worktree remove",
            "remote remove",
            "remote rm",
            "update-ref -d",
            "rm",
            "switch -f",
            "switch --force",
            "switch --discard-changes",
            "submodule deinit",
            "prune",
            "rebase",
            "replace -d",
            "notes remove",
            "notes prune",
        ]),
    ),
    ("svn", With(&["delete", "del", "remove", "rm", "revert", "cleanup"])),
    ("hg", With(&["strip", "purge", "rollback", "update -C", "revert"])),
    ("gh glab", Holding(&["delete"])),
    (
        "docker podman nerdctl",
        With(&[
            "rm",
            "rmi",
            "kill",
            "prune",
            "system prune",
            "system reset",
            "volume rm",
            "volume prune",
            "container rm",
            "container prune",
            "container kill",
            "image rm",
            "image prune",
            "network rm",
            "network prune",
            "builder prune",
            "compose down",
            "compose rm",
            "compose kill",
            "buildx prune",
            "stack rm",
            "service rm",
            "secret rm",
            "swarm leave",
        ]),
    ),
    ("docker-compose podman-compose", With(&["down", "rm", "kill"])),
    ("kubectl oc", With(&["delete", "drain", "replace --force"])),
    ("helm", With(&["uninstall", "delete", "rollback"])),
    (
        "terraform tofu terragrunt pulumi cdk vagrant",
        With(&["destroy", "apply -destroy", "state rm"]),
    ),
    (
        "aws gcloud az doctl heroku flyctl fly",
        Holding(&["delete", "terminate", "destroy", "purge"]),
    ),
    ("aws", With(&["s3 rm", "s3 rb"])),
    (
        "gsutil s3cmd mc rclone restic borg",
        With(&["rm", "rb", "del", "delete", "purge", "prune", "forget"]),
    ),
    (
        "apt apt-get aptitude yum dnf zypper brew snap flatpak pip pip3 pipx npm pnpm yarn",
        With(REMOVE),
    ),
    ("apk", With(&["del"])),
    ("pacman", Holding(&["-R"])),
    ("dpkg", With(&["-r", "-P", "--remove", "--purge"])),
    ("rpm", With(&["-e", "--erase"])),
    ("cargo gem", With(&["uninstall", "yank"])),
    ("crontab", With(&["-r"])),
    ("at", With(&["-r", "-d"])),
    (
        "systemctl",
        With(&[
            "stop", "disable", "mask", "kill", "poweroff", "reboot", "halt", "isolate", "revert",
        ]),
    ),
    ("service", Holding(&["stop"])),
    ("journalctl", Holding(&["--vacuum", "--rotate"])),
    ("history", With(&["-c", "-d"])),
    ("fuser", With(&["-k", "--kill"])),
    ("psql mysql mariadb sqlite3 sqlcmd clickhouse-client duckdb bq", Holding(SQL)),
    ("mysqladmin", With(&["drop", "shutdown"])),
    ("redis-cli", Holding(&["flushall", "flushdb", "del", "unlink", "shutdown"])),
    ("mongo mongosh", Holding(&["drop", "deletemany", "deleteone", "remove("])),
    ("etcdctl consul vault nomad", Holding(&["del"])),
    ("iptables ip6tables", With(FLUSH)),
    ("nft", Holding(&["flush", "delete"])),
    ("ufw", With(&["reset", "disable", "delete"])),
    ("ip", Holding(&["del", "flush"])),
    ("zfs zpool", With(&["destroy", "rollback"])),
    ("btrfs", With(&["subvolume delete"])),
    ("cryptsetup", Holding(&["luksformat", "erase"])),
    ("mdadm", With(&["--zero-superblock", "--stop", "-S"])),
    ("badblocks", With(&["-w"])),
    ("nvme", With(&["format", "sanitize"])),
    ("diskutil", Holding(&["erase", "delete"])),
    ("virsh lxc incus", With(&["destroy", "undefine", "delete"])),
    ("gio", With(&["trash", "remove"])),
    ("gpg", Holding(&["--delete"])),
    ("passwd", With(&["-d", "-l"])),
    ("ipcrm", Always),
];

/// Returns whether a command is destructive or contains an unparseable text, and why.
pub(super) fn of(command: &SimpleCommand, level: usize) -> Option<(Kind, String)> {
    let views = if !command.may_wrap(Wrappers::All) {
        vec![UnwrappedCommand { command: command.clone(), at: None, is_unread: false }]
    } else if level == 0 {
        command.unwrapped(Wrappers::All)
    } else {
        // Nested texts are classified one by one elsewhere.
        unwrap::in_words(command)
    };
    if views.iter().any(|view| view.is_unread) {
        let why = "it passes a text to a shell that cannot be parsed";
        return Some((Kind::Unparseable, why.to_owned()));
    }
    let outer = command.words.first().map(shown).unwrap_or_default();
    for view in &views {
        if let Some(name) = view.command.words.first().and_then(Word::literal)
            && destroys(name, &view.command.words)
        {
            let by = if name == outer { String::new() } else { format!(", started by `{outer}`") };
            return Some((Kind::Destructive, format!("`{name}` {}{by}", description(name))));
        }
        if let Some(file) = kernel::written(&view.command, &[]) {
            return Some((Kind::Destructive, kernel::describe(&file)));
        }
    }
    // Something unknown is started: then the name of a destructive command is enough.
    let opaque = views.iter().skip(1).any(|view| view.command.words == [Word::unknown()])
        || level > 0 && views.iter().any(|view| is_opaque(&view.command));
    let words = command.words.iter().skip(1).filter(|_| opaque).filter_map(Word::literal);
    let mut names = words.flat_map(|word| word.split(|c: char| !is_of_name(c)));
    let name = names.find(|name| always(name))?;
    Some((
        Kind::Destructive,
        format!("`{outer}` starts something unknown, and `{name}` is among its words"),
    ))
}

/// Describes what a command of this name does.
fn description(name: &str) -> &'static str {
    match name {
        "mount" | "umount" | "fusermount" | "fusermount3" | "pivot_root" | "switch_root"
        | "swapon" => "changes mounts",
        "sysctl" | "insmod" | "rmmod" | "modprobe" | "kexec" | "kldload" | "kldunload"
        | "kextload" | "kextunload" | "setenforce" => "changes the kernel",
        _ => "is destructive here",
    }
}

/// Returns whether a command starts something unknown.
fn is_opaque(command: &SimpleCommand) -> bool {
    let name = command.words.first().and_then(Word::literal);
    name.is_some_and(|name| {
        let inner = wrappers::inner(name, command, Wrappers::All);
        inner.iter().any(|inner| matches!(inner, Inner::Opaque))
    })
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// Returns whether a command of this name is always destructive.
fn always(name: &str) -> bool {
    name.starts_with("mkfs")
        || TABLE
            .iter()
            .any(|(names, when)| matches!(when, Always) && names.split(' ').any(|own| own == name))
        || matches!(name, "dd")
}

fn destroys(name: &str, words: &[Word]) -> bool {
    if name.starts_with("mkfs") || name.starts_with("mount.") || name.starts_with("umount.") {
        return true;
    }
    // `find . -name -delete` searches for a name.
    if name == "find" && super::find::check(words, &|_| Err(String::new())).is_ok() {
        return false;
    }
    let texts: Vec<&str> = words.iter().skip(1).filter_map(Word::literal).collect();
    if is_only_a_query(name, &texts) {
        return false;
    }
    // A device is destructive as a source too, when it is moved.
    if matches!(name, "cp" | "mv" | "install") && words.iter().skip(1).any(kernel::is_device) {
        return true;
    }
    // Listing is allowed; everything else changes mounts or the kernel.
    if matches!(name, "mount" | "sysctl" | "swapon") {
        return tables::of(name).is_none_or(|grammar| grammar.check(words).is_err());
    }
    if name == "git" && overwrites_or_deletes_remote(&texts) {
        return true;
    }
    let mut rules = TABLE.iter().filter(|(names, _)| names.split(' ').any(|own| own == name));
    rules.any(|(_, when)| match when {
        Always => true,
        With(all) => all.iter().any(|entry| fits(entry, &texts)),
        Holding(all) => texts.iter().any(|text| {
            let text = text.to_ascii_lowercase();
            all.iter().any(|part| text.contains(&part.to_ascii_lowercase()))
        }),
    })
}

/// Returns whether this form of the command only queries.
fn is_only_a_query(name: &str, texts: &[&str]) -> bool {
    match name {
        "kill" => matches!(texts, ["-l" | "-L"] | ["-0", _]),
        "git" => {
            texts.first() == Some(&"clean")
                && texts.iter().any(|t| matches!(*t, "-n" | "--dry-run"))
                && !texts.iter().any(|t| t.starts_with("-f") || t.starts_with("--f"))
        }
        "fdisk" | "sfdisk" | "parted" => matches!(texts, ["-l" | "--list"]),
        _ => matches!(texts, ["--help" | "--version"]),
    }
}

/// `git push origin +main` overwrites, `git push origin :old` deletes.
fn overwrites_or_deletes_remote(texts: &[&str]) -> bool {
    texts.first() == Some(&"push") && texts.iter().skip(1).any(|t| t.starts_with(['+', ':']))
}

/// Returns whether all words of an entry are given.
pub(super) fn fits(entry: &str, texts: &[&str]) -> bool {
    let mut operands = texts.iter().filter(|text| !text.starts_with('-'));
    entry.split(' ').all(|wanted| match wanted.strip_prefix('-') {
        Some(long) if long.starts_with('-') && long.len() > 1 => {
            // Programs accept prefixes of long options.
            let given = |text: &&str| {
                let name = text.split('=').next().unwrap_or_default();
                name.len() > 3 && wanted.starts_with(name)
            };
            texts.iter().any(given)
        }
        Some(letter) if letter.len() == 1 && letter != "-" => texts.iter().any(|text| {
            let letters = text.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
            letters.is_some_and(|letters| letters.contains(letter))
        }),
        Some(_) => texts.contains(&wanted),
        None if wanted.starts_with(|c: char| c.is_ascii_alphanumeric()) => {
            operands.next() == Some(&wanted)
        }
        None => texts.contains(&wanted),
    })
}
