//! Resource limits: address space, CPU time, file size, open files, processes, memory.

use std::time::Duration;

use haft_sandbox::{Command, Exit, ExitReason, Helper, Level, Sandbox, SandboxErrorKind, Strength};

use crate::kit::*;

#[tokio::test]
async fn address_space_is_limited() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let mut profile = fixture.profile();
        profile.limits.memory = 300 << 20;
        let hungry = |megabytes: u32| {
            Command::new("perl").args([
                "-e".to_owned(),
                format!("my $x = 'a' x ({megabytes} << 20); print length $x"),
            ])
        };
        let ended = sandbox.run(hungry(600), profile.clone()).await.unwrap();
        assert_eq!(ended.stdout.seen(), 0);
        assert!(!ended.is_success());
        let ended = sandbox.run(hungry(20), profile).await.unwrap();
        assert_eq!(out(&ended), (20 << 20).to_string(), "{}", err(&ended));
        assert!(ended.memory > 20 << 20);
    }
}

#[tokio::test]
async fn cpu_time_is_limited() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let mut profile = fixture.profile();
        profile.limits.cpu_seconds = 1;
        let ended = sh(&sandbox, profile, "while :; do :; done").await;
        assert!(matches!(ended.exit, Exit::Signal(24 | 9)), "{ended:?}");
        // The kernel measures the limit precisely but reports the usage in ticks.
        assert!(ended.cpu.as_millis() >= 500 && ended.cpu.as_secs() < 10, "{:?}", ended.cpu);
    }
}

#[tokio::test]
async fn file_size_and_open_files_are_limited() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let mut profile = fixture.profile();
        profile.limits.file_size = 1 << 20;
        profile.limits.open_files = 20;
        let script = "head -c 5000000 /dev/zero > sub/big; ulimit -n; ulimit -Hn; ulimit -c";
        let ended = sh(&sandbox, profile, script).await;
        assert_eq!(fixture.inside.join("sub/big").metadata().unwrap().len(), 1 << 20);
        assert_eq!(out(&ended), "20\n20\n0\n");
    }
}

#[tokio::test]
async fn fork_bomb_is_stopped_if_the_tier_enforces_limits() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let mut profile = fixture.profile();
        profile.limits.processes = 20;
        let script = "i=0; while [ $i -lt 60 ]; do sleep 20 & i=$((i+1)); echo $i; done";
        let mut running = sandbox.start(Command::shell(script), profile).await.unwrap();
        let limits = running.tier().limits.clone();
        let ended = running.wait().await;
        let started = out(&ended).lines().count();
        match limits {
            Strength::Enforced => assert!(started < 30, "{started}"),
            // Other processes of the user share the limit, so only an upper bound is known.
            Strength::Partial(why) if why.contains("same user") => assert!(started <= 60),
            Strength::Partial(_) => assert_eq!(started, 60),
            Strength::None => panic!("there are no limits"),
        }
    }
}

#[tokio::test]
async fn private_temporary_directory_is_limited_and_removed() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let mut profile = fixture.profile();
        profile.limits.scratch = 1 << 20;
        let marker = marker();
        let script = format!(
            "[ -n \"$TMPDIR\" ] || exit 9; echo x > $TMPDIR/{marker} && cat $TMPDIR/{marker}; ls $TMPDIR"
        );
        let ended = sh(&sandbox, profile, script).await;
        if ended.exit == Exit::Code(9) {
            eprintln!("NOT TESTED: no temporary directory here: {:?}", ended.tier.notes);
            continue;
        }
        assert!(out(&ended).starts_with("x\n"), "{}", err(&ended));
        let left = std::fs::read_dir("/tmp")
            .unwrap()
            .flatten()
            .filter(|e| e.path().join(&marker).exists());
        assert_eq!(left.count(), 0);
        assert!(!std::path::Path::new("/tmp").join(&marker).exists());
    }
}

/// Returns a script that keeps this many MiB allocated for a while.
fn hold(megabytes: u32) -> String {
    format!("perl -e 'my $x = \"a\" x ({megabytes} << 20); print length $x; sleep 20'")
}

#[tokio::test]
async fn resident_memory_of_the_process_tree_is_limited() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let mut profile = fixture.profile();
        profile.limits.resident = 200 << 20;
        // Perl keeps some of these twice.
        let script = format!("{0} & {0} & {0} & {0} & wait", hold(40));
        let ended = sh(&sandbox, profile.clone(), script).await;
        assert_eq!(
            ended.exit_reason,
            ExitReason::OutOfMemory,
            "{}: {ended:?}",
            sandbox.tier().level
        );
        assert!(ended.wall < Duration::from_secs(15), "{:?}", ended.wall);
        let script = hold(30).replace("sleep 20", "sleep 1");
        let ended = sh(&sandbox, profile, script).await;
        assert_eq!((ended.exit_reason, out(&ended)), (ExitReason::Exited, (30 << 20).to_string()));
    }
}

#[tokio::test]
async fn programs_that_reserve_much_address_space_can_start() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let mut profile = fixture.profile();
        profile.limits.resident = 512 << 20;
        if cfg!(target_arch = "x86_64") {
            // mmap of 20 GiB without access and without reservation.
            let script = "perl -e 'print syscall(9, 0, 20 << 30, 0, 0x4022, -1, 0) == -1 ? 0 : 1'";
            let ended = sh(&sandbox, profile.clone(), script).await;
            assert_eq!(out(&ended), "1", "{}", err(&ended));
        }
        let script = "command -v node >/dev/null || exit 9
            node -e 'new WebAssembly.Memory({initial: 1}); console.log(1)'";
        let ended = sh(&sandbox, profile, script).await;
        if ended.exit == Exit::Code(9) {
            eprintln!("NOT TESTED: there is no node here");
            continue;
        }
        assert_eq!(out(&ended), "1\n", "{}", err(&ended));
    }
}

/// The file that enables [`a_process_with_low_limits`].
const NOTE: &str = "haft-low-limits-note";

/// Inner part of the test below: runs with few open files or processes.
#[tokio::test]
async fn a_process_with_low_limits() {
    if !std::path::Path::new(NOTE).exists() {
        return;
    }
    let named = get(std::path::Path::new(NOTE));
    let found = Sandbox::detect(Helper::At(helper())).await;
    let result = match found {
        Ok(sandbox) => {
            assert_eq!(
                sandbox.tier().notes.iter().find(|note| note.contains("no namespaces")),
                None
            );
            let fixture = Fixture::new();
            sandbox.run(Command::shell("echo hello"), fixture.profile()).await
        }
        Err(error) => Err(error),
    };
    match result {
        Ok(ended) => assert_eq!(out(&ended), "hello\n", "{}", err(&ended)),
        Err(error) => {
            assert_eq!(error.kind(), SandboxErrorKind::Transient, "{error}");
            assert!(error.to_string().contains(&named), "{error}");
            let failure = error.into_failure();
            assert!(failure.message().contains(&named), "{failure}");
        }
    }
    put(std::path::Path::new("inner-done"), "");
}

#[tokio::test]
async fn low_ulimits_give_a_named_error_and_never_a_weaker_tier() {
    let has_namespaces = Sandbox::at(Helper::At(helper()), Level::Namespaces).await.is_ok();
    if !has_namespaces {
        eprintln!("NOT TESTED: there are no namespaces here");
        return;
    }
    let settings = [
        ("ulimit -n 10", "ulimit -n"),
        ("ulimit -n 16", "ulimit -n"),
        ("ulimit -n 32", "ulimit -n"),
        ("ulimit -n 64", "ulimit -n"),
        ("ulimit -u 1", "ulimit -u"),
    ];
    for (setting, named) in settings {
        let directory = tempfile::tempdir().unwrap();
        put(&directory.path().join(NOTE), named);
        let script = format!(
            "{setting}; exec \"$0\" --exact limits::a_process_with_low_limits --test-threads 1"
        );
        let output = tokio::process::Command::new("bash")
            .args(["-c", &script])
            .arg(std::env::current_exe().unwrap())
            .current_dir(directory.path())
            .env("TMPDIR", directory.path())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(Duration::from_secs(60), output).await;
        let output = output.unwrap_or_else(|_| panic!("`{setting}` hangs")).unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{setting}: {text}");
        assert!(directory.path().join("inner-done").exists(), "{setting}: {text}");
    }
}
