//! Everyday programs in each tier. Where one cannot work, the test says what fails instead.

use haft_sandbox::{Level, Sandbox};

use crate::kit::*;

/// One program: the script, and its standard output in each tier. `None` means that it fails.
struct Row {
    program: &'static str,
    script: &'static str,
    namespaces: Option<&'static str>,
    landlock: Option<&'static str>,
}

const fn everywhere(program: &'static str, script: &'static str, prints: &'static str) -> Row {
    Row { program, script, namespaces: Some(prints), landlock: Some(prints) }
}

const ROWS: &[Row] = &[
    // In tier `landlock` owners cannot be changed. Only root tries it, and `cp -a` then fails.
    everywhere(
        "/usr/bin/cp",
        "umask 022; mkdir a; echo x > a/f; chmod 750 a; chmod 640 a/f; ln -s f a/l
         if [ $(id -u) = 0 ]; then cp -a --no-preserve=ownership a b; else cp -a a b; fi
         stat -c '%a %F' b b/f b/l; cat b/l",
        "750 directory\n640 regular file\n777 symbolic link\nx\n",
    ),
    everywhere(
        "/usr/bin/install",
        "echo x > f; install -m 755 f g; install -d -m 700 d; install -D -m 600 f e/f/g
         stat -c %a g d e/f/g",
        "755\n700\n600\n",
    ),
    everywhere(
        "/usr/bin/tar",
        "mkdir a; echo x > a/f; chmod 640 a/f; tar cf a.tar a; rm -r a; tar xf a.tar --no-same-owner; stat -c %a a/f",
        "640\n",
    ),
    // In tier `landlock` a terminal would be one of the host, and semaphores are files in
    // `/dev/shm`, which all processes of the user share.
    Row {
        program: "/usr/bin/script",
        script: "script -qec 'test -t 0 && test -t 1 && tty' /dev/null | tr -d '\\r'",
        namespaces: Some("/dev/pts/0\n"),
        landlock: None,
    },
    Row {
        program: "/usr/bin/python3",
        script: "/usr/bin/python3 -c 'import multiprocessing as m
with m.Pool(2) as pool: print(pool.map(abs, [-1, -2]))'",
        namespaces: Some("[1, 2]\n"),
        landlock: None,
    },
];

#[tokio::test]
async fn everyday_programs_work_or_fail_as_documented() {
    for sandbox in sandboxes().await {
        for row in ROWS {
            if !std::path::Path::new(row.program).exists() {
                eprintln!("NOT TESTED: there is no {} here", row.program);
                continue;
            }
            let fixture = Fixture::new();
            let script = format!("set -e\n{}", row.script);
            let ended = sh(&sandbox, fixture.profile(), script).await;
            let level = sandbox.tier().level;
            let wanted = if level == Level::Namespaces { row.namespaces } else { row.landlock };
            let what = format!("{level} {}: {}{}", row.program, out(&ended), err(&ended));
            match wanted {
                Some(wanted) => assert!(ended.is_success() && out(&ended) == wanted, "{what}"),
                None => assert!(!ended.is_success() || out(&ended).is_empty(), "{what}"),
            }
        }
    }
}

/// Returns the sandbox with private mounts, `None` if this machine has none.
async fn namespaces() -> Option<Sandbox> {
    sandboxes().await.into_iter().find(|sandbox| sandbox.tier().level == Level::Namespaces)
}

#[tokio::test]
async fn terminals_of_the_host_are_not_visible() {
    let Some(sandbox) = namespaces().await else { return };
    let fixture = Fixture::new();
    let script = "ls /dev/pts; test ! -e /dev/tty; test ! -e /dev/console";
    let ended = sh(&sandbox, fixture.profile().read_only(), script).await;
    assert!(ended.is_success(), "{}", err(&ended));
    assert_eq!(out(&ended), "ptmx\n");
}
