//! Privilege escalation by set-user-id and set-group-id files or file capabilities is refused.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
};

use haft_sandbox::Level;

use crate::kit::*;

/// Returns every file below a directory that has a set-id bit, as seen from outside.
fn set_id_files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut todo = vec![directory.to_path_buf()];
    while let Some(here) = todo.pop() {
        for entry in fs::read_dir(&here).unwrap().flatten() {
            let meta = entry.path().symlink_metadata().unwrap();
            if meta.is_dir() {
                todo.push(entry.path());
            } else if meta.mode() & 0o6000 != 0 {
                found.push(format!("{} {:o}", entry.path().display(), meta.mode()));
            }
        }
    }
    found
}

/// Raw syscalls for every call that takes a mode: `creat`, `mknod`, `mknodat`, the `chmod` family,
/// `O_TMPFILE` with a later `linkat`, and `openat2`.
#[cfg(target_arch = "x86_64")]
const RAW_CALLS: &str = r#"umask 0; use Fcntl;
    sysopen(my $f, "f", O_CREAT|O_WRONLY, 04755); sysopen(my $g, "g", O_CREAT|O_RDWR|O_EXCL, 02755);
    my ($h, $i, $j, $k, $l, $m, $dot) = ("h", "i", "j", "k", "l", "m", ".");
    syscall(85, $h, 04755); syscall(133, $i, 0104755, 0); syscall(259, -100, $j, 0102755, 0);
    open(my $o, ">", "k"); syscall(91, fileno($o), 04755); syscall(90, $k, 04755);
    syscall(268, -100, $k, 04755); syscall(452, -100, $k, 04755, 0);
    my $t = syscall(257, -100, $dot, 020200002, 04755); my $fd = "/proc/self/fd/$t";
    syscall(265, -100, $fd, -100, $l, 0x400) if $t >= 0;
    my $how = pack("QQQ", 0101, 04755, 0); syscall(437, -100, $m, $how, 24);"#;
#[cfg(not(target_arch = "x86_64"))]
const RAW_CALLS: &str =
    r#"umask 0; use Fcntl; sysopen(my $f, "f", O_CREAT|O_WRONLY, 04755); chmod 04755, "f";"#;

#[tokio::test]
async fn command_cannot_create_a_set_id_file() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let script = "cd sub
            cp /bin/sh a && chmod 4755 a; cp /bin/sh b && chmod 2755 b; cp /bin/sh c; chmod u+s c; chmod 6711 c
            install -m 4755 /bin/sh d; mknod -m 4666 e p
            exit 0";
        let ended = sh(&sandbox, fixture.profile(), script).await;
        assert!(ended.is_success(), "{}", err(&ended));
        let ended = sh(&sandbox, fixture.profile(), format!("cd sub; perl -e '{RAW_CALLS}'")).await;
        assert!(ended.is_success(), "{}", err(&ended));
        assert_eq!(set_id_files(&fixture.inside), Vec::<String>::new(), "{}", sandbox.tier().level);
    }
}

#[tokio::test]
async fn ordinary_modes_still_work() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let script = "cd sub; umask 022; echo x > plain; mkdir -m 2775 dir; mkdir plaindir
            perl -e 'use Fcntl; sysopen(my $f, \"run\", O_CREAT|O_WRONLY, 0755); open(my $r, \"<\", \"plain\") or die'
            stat -c '%a %n' plain run";
        let ended = sh(&sandbox, fixture.profile(), script).await;
        assert_eq!(out(&ended), "644 plain\n755 run\n", "{}", err(&ended));
        if sandbox.tier().level == Level::Namespaces {
            let ended = sh(
                &sandbox,
                fixture.profile(),
                "cd sub; chmod 750 run && chmod +t plaindir && chmod go-rwx plain",
            )
            .await;
            assert!(ended.is_success(), "{}", err(&ended));
            let mode = |name: &str| {
                fixture.inside.join("sub").join(name).metadata().unwrap().permissions().mode()
                    & 0o7777
            };
            assert_eq!((mode("run"), mode("plain"), mode("plaindir")), (0o750, 0o600, 0o1755));
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn command_cannot_set_file_capabilities() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        // Version 2 of `security.capability`: effective, cap_setuid.
        let script = r#"cd sub; cp /bin/sh r
            perl -e 'my ($f, $n) = ("r", "security.capability"); my $c = pack("VVVVV", 0x02000001, 0x80, 0, 0, 0);
                print syscall(188, $f, $n, $c, length $c, 0)'"#;
        let ended = sh(&sandbox, fixture.profile(), script).await;
        assert_eq!(out(&ended), "-1", "{}: {}", sandbox.tier().level, err(&ended));
    }
}
