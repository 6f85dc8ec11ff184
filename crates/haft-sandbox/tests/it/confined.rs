//! What a sandboxed command can read, write and reach.

use std::{net::TcpListener, process::Stdio, time::Duration};

use haft_sandbox::{
    Access, Command, Environment, Exit, ExitReason, Helper, Level, Network, ProcessStream, Profile,
    ReadableFiles, Root, Sandbox, SandboxErrorKind, Workspace,
};

use crate::kit::*;

#[tokio::test]
async fn command_writes_only_in_its_workspace() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let before = snapshot(&fixture.outside);
        let script = format!(
            "echo new > sub/made; echo changed > notes.txt; cat notes.txt
             for f in {out}/new {out}/secret.txt ../outside/x /etc/haft-test /usr/haft-test /haft-test /home/x /root/x
             do echo bad > $f; done 2>/dev/null
             ln -s {out}/secret.txt sub/link; echo bad > sub/link
             ln {out}/secret.txt sub/hard && echo bad > sub/hard
             mv {out}/secret.txt sub/; rm -rf {out}; chmod 777 {out}/secret.txt; truncate -s 0 {out}/secret.txt
             exit 0",
            out = fixture.outside.display()
        );
        let ended = sh(&sandbox, fixture.profile(), script).await;
        assert!(ended.is_success(), "{ended:?}");
        assert_eq!(out(&ended), "changed\n");
        assert_eq!(get(&fixture.inside.join("sub/made")), "new\n");
        assert_eq!(get(&fixture.inside.join("notes.txt")), "changed\n");
        assert_eq!(snapshot(&fixture.outside), before, "{}", sandbox.tier().level);
    }
}

#[tokio::test]
async fn new_files_belong_to_the_owner_of_the_workspace() {
    use std::os::unix::fs::MetadataExt as _;
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        assert!(
            sh(&sandbox, fixture.profile(), "echo x > sub/made; mkdir sub/directory")
                .await
                .is_success()
        );
        let owner = fixture.inside.metadata().unwrap();
        for made in ["sub/made", "sub/directory"] {
            let meta = fixture.inside.join(made).metadata().unwrap();
            assert_eq!((meta.uid(), meta.gid()), (owner.uid(), owner.gid()), "{made}");
        }
    }
}

#[tokio::test]
async fn protected_names_cannot_be_created_or_changed() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let git = fixture.inside.join(".git");
        std::fs::create_dir_all(git.join("hooks")).unwrap();
        put(&git.join("config"), "[core]");
        put(&git.join("index"), "index");
        std::fs::create_dir(fixture.inside.join(".github")).unwrap();
        let before = snapshot(&fixture.inside);
        let script = "
            echo bad > .git/hooks/pre-commit; echo bad > .git/config; echo bad >> .git/config
            mv .git moved; mkdir -p .git/hooks && echo bad > .git/hooks/pre-commit
            mv .git/config .git/old; echo x > .git/new && mv .git/new .git/config; rm -f .git/config; rm -rf .git/hooks
            mkdir .haft; echo bad > .haft/rules; echo bad > haft.toml; echo bad > haft.local.toml; echo bad > .envrc
            mkdir -p .vscode; echo bad > .vscode/tasks.json; mkdir -p .github/workflows; echo bad > .github/workflows/x.yml
            mv .github g; mkdir sub/w && mkdir sub/w/workflows && mv sub/w .github
            ln -s sub .haft; ln notes.txt .envrc; rmdir .haft .envrc; mv sub .haft; mv notes.txt haft.toml
            rm -rf sub/w .git/new .github/w
            exit 0";
        let ended = sh(&sandbox, fixture.profile(), script).await;
        assert!(ended.is_success(), "{ended:?}");
        assert_eq!(snapshot(&fixture.inside), before, "{}: {}", sandbox.tier().level, err(&ended));
        // The rest of `.git` is writable.
        let ended = sh(&sandbox, fixture.profile(), "echo more > .git/index").await;
        assert!(ended.is_success(), "{}", err(&ended));
        assert_eq!(get(&git.join("index")), "more\n");
    }
}

#[tokio::test]
async fn concurrent_commands_do_not_unprotect_names_for_each_other() {
    let Some(sandbox) = sandboxes().await.into_iter().find(|s| s.tier().level == Level::Namespaces)
    else {
        return;
    };
    let fixture = Fixture::new();
    let before = snapshot(&fixture.inside);
    let wait = "while [ ! -e sub/go ]; do sleep 0.02; done; mkdir .haft; echo bad > .haft/x; echo bad > haft.toml; echo done";
    let mut long = sandbox.start(Command::shell(wait), fixture.profile()).await.unwrap();
    for _ in 0..3 {
        assert!(sh(&sandbox, fixture.profile(), "true").await.is_success());
    }
    put(&fixture.inside.join("sub/go"), "");
    let ended = long.wait().await;
    assert_eq!(out(&ended), "done\n", "{}", err(&ended));
    std::fs::remove_file(fixture.inside.join("sub/go")).unwrap();
    assert_eq!(snapshot(&fixture.inside), before);
}

#[tokio::test]
async fn many_concurrent_commands_leave_no_files_and_unprotect_nothing() {
    let Some(sandbox) = sandboxes().await.into_iter().find(|s| s.tier().level == Level::Namespaces)
    else {
        return;
    };
    let fixture = Fixture::new();
    let before = snapshot(&fixture.inside);
    let script =
        "mkdir .haft/x; echo bad > haft.toml; rmdir .haft; mkdir .haft; mv sub .haft; echo $?";
    let runs = (0..24).map(|_| sh(&sandbox, fixture.profile(), script));
    for ended in futures_util::future::join_all(runs).await {
        assert_eq!(out(&ended), "1\n", "{}", err(&ended));
    }
    assert_eq!(snapshot(&fixture.inside), before);
}

#[tokio::test]
async fn read_only_profile_cannot_write_in_the_workspace() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let before = snapshot(&fixture.inside);
        let script = "cat notes.txt; echo bad > notes.txt; echo bad > new; rm notes.txt; mkdir x; mv sub y; touch sub/z; exit 0";
        let ended = sh(&sandbox, fixture.profile().read_only(), script).await;
        assert_eq!(out(&ended), "inside");
        assert_eq!(snapshot(&fixture.inside), before);
    }
}

#[tokio::test]
async fn root_replaced_after_authorization_is_refused() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let profile = fixture.profile();
        std::fs::rename(&fixture.inside, fixture.outside.join("moved")).unwrap();
        std::fs::create_dir(&fixture.inside).unwrap();
        let error = sandbox.start(Command::shell("true"), profile).await.unwrap_err();
        assert_eq!(error.kind(), SandboxErrorKind::BadProfile, "{error}");
    }
}

#[tokio::test]
async fn nested_roots_keep_their_own_access() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let mut profile = fixture.profile();
        profile.protected.clear();
        profile.roots.push(Root {
            path: fixture.outside.clone(),
            access: Access::Read,
            identity: None,
        });
        if sandbox.tier().level == Level::Namespaces {
            profile.roots.push(Root {
                path: fixture.inside.join("sub"),
                access: Access::Read,
                identity: None,
            });
        }
        let script = format!(
            "echo x > top; cat {0}/secret.txt; echo bad > {0}/new; echo bad > sub/new; ls sub {0}",
            fixture.outside.display()
        );
        let ended = sh(&sandbox, profile, script).await;
        assert!(fixture.inside.join("top").exists(), "{}", err(&ended));
        assert!(out(&ended).starts_with("outside"), "{ended:?}");
        assert!(!fixture.outside.join("new").exists());
        if sandbox.tier().level == Level::Namespaces {
            assert!(!fixture.inside.join("sub/new").exists(), "the inner root is read-only");
        }
    }
}

#[tokio::test]
async fn reads_outside_the_allowlist_are_refused() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let mut profile = fixture.profile();
        profile.reads = ReadableFiles::Only(vec![]);
        let script = format!(
            "cat notes.txt; cat {}/secret.txt; ls /var; ls /sys; ls /",
            fixture.outside.display()
        );
        let ended = sh(&sandbox, profile, script).await;
        assert_eq!(out(&ended), "inside", "{}", err(&ended));
    }
}

#[tokio::test]
async fn proc_exposes_no_files_or_environment_of_other_processes() {
    let process = std::process::id();
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let mut profile = fixture.profile().read_only();
        profile.reads = ReadableFiles::Only(vec![]);
        put(&fixture.outside.join("near.txt"), "near");
        let script = format!(
            "for p in {process} 1 $PPID; do cat /proc/$p/environ; cat /proc/$p/root{0}/near.txt; \
             ls /proc/$p/cwd/ /proc/$p/fd/; cat /proc/$p/task/$p/environ; done; \
             cat /proc/self/root{0}/near.txt; ls /home/* /root /srv /mnt /media /var /run/user; \
             ls /run /boot /data /work",
            fixture.outside.display()
        );
        let ended = sh(&sandbox, profile, script).await;
        let level = sandbox.tier().level;
        // The first process of the pid namespace belongs to the command and has no data of the
        // host.
        let text = out(&ended).replace('\0', "\n");
        for found in ["near", "CARGO", "secret"] {
            assert!(!text.contains(found), "{level}: {text}");
        }
    }
}

#[tokio::test]
async fn files_of_root_are_not_readable_when_root_runs_the_sandbox() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let mut profile = fixture.profile();
        if sandbox.tier().level == Level::Landlock {
            profile = profile.read_only(); // with a directory of root's to write in, the tier says `partial`
        }
        let ended = sh(&sandbox, profile, "cat /etc/shadow; id -u").await;
        if !ended.tier.fs.is_enforced() {
            eprintln!("NOT TESTED: root cannot become another user here: {:?}", ended.tier);
            continue;
        }
        assert_ne!(out(&ended), "0\n");
        assert_eq!(out(&ended).lines().count(), 1, "{}", out(&ended));
    }
}

#[tokio::test]
async fn network_is_unreachable_unless_the_profile_allows_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected");
        let command = || Command::new("bash").args(["-c", &script]);
        let ended = sandbox.run(command(), fixture.profile()).await.unwrap();
        assert_eq!(out(&ended), "", "{}", sandbox.tier().level);
        assert!(!ended.is_success());
        let mut profile = fixture.profile();
        profile.network = Network::Host;
        let ended = sandbox.run(command(), profile).await.unwrap();
        assert_eq!(out(&ended), "connected\n", "{}", err(&ended));
    }
}

#[tokio::test]
async fn command_gets_only_its_own_environment() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let environment = Environment::new().set("GIVEN", "a b\nc").set("HOME", "/nowhere");
        let command = Command::new("env").arg("-0").environment(environment);
        let ended = sandbox.run(command, fixture.profile()).await.unwrap();
        let text = out(&ended);
        let mut names: Vec<_> =
            text.split('\0').filter_map(|line| line.split_once('=')).map(|(n, _)| n).collect();
        names.sort_unstable();
        assert_eq!(
            names.iter().filter(|n| **n != "TMPDIR").copied().collect::<Vec<_>>(),
            ["GIVEN", "HOME", "PATH"]
        );
        assert!(text.contains("GIVEN=a b\nc\0") && text.contains("HOME=/nowhere\0"));
    }
}

#[tokio::test]
async fn command_starts_in_its_working_directory() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let workspace = fixture.workspace();
        let command = Command::new("pwd").current_dir(&workspace.resolve("sub").unwrap());
        assert_eq!(
            out(&sandbox.run(command, fixture.profile()).await.unwrap()).trim(),
            fixture.inside.join("sub").to_str().unwrap()
        );
        let ended = sh(&sandbox, fixture.profile(), "pwd").await;
        assert_eq!(out(&ended).trim(), fixture.inside.to_str().unwrap());

        let gone = Command::new("pwd").current_dir(&workspace.resolve("gone").unwrap());
        assert_eq!(
            sandbox.start(gone, fixture.profile()).await.unwrap_err().kind(),
            SandboxErrorKind::BadCommand
        );
        // It was a directory at authorization time (TOCTOU).
        let resolved = workspace.resolve("sub").unwrap();
        std::fs::remove_dir_all(fixture.inside.join("sub")).unwrap();
        std::os::unix::fs::symlink("/etc", fixture.inside.join("sub")).unwrap();
        let swapped = Command::new("pwd").current_dir(&resolved);
        assert_eq!(
            sandbox.start(swapped, fixture.profile()).await.unwrap_err().kind(),
            SandboxErrorKind::BadCommand
        );
    }
}

#[tokio::test]
async fn input_is_passed_and_arguments_are_not_parsed_by_a_shell() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let big = vec![b'x'; 5 << 20];
        let ended =
            sandbox.run(Command::new("wc").arg("-c").input(big), fixture.profile()).await.unwrap();
        assert_eq!(out(&ended).trim(), (5 << 20).to_string());
        let ended = sandbox.run(Command::new("cat"), fixture.profile()).await.unwrap();
        assert!(ended.is_success() && ended.stdout.seen() == 0, "no input is an empty input");
        let odd = ["$(id)", "; rm -rf /", "a b", "*", "é\n'\"", ""];
        let ended = sandbox
            .run(Command::new("printf").arg("<%s>").args(odd), fixture.profile())
            .await
            .unwrap();
        assert_eq!(out(&ended), odd.map(|arg| format!("<{arg}>")).concat());
    }
}

#[tokio::test]
async fn output_is_truncated_at_its_limit_and_counted_beyond_it() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let script = "head -c 10000000 /dev/zero; head -c 300000 /dev/zero >&2; exit 3";
        let ended =
            sandbox.run(Command::shell(script).keep_bytes(1_000), fixture.profile()).await.unwrap();
        assert_eq!((ended.exit, ended.exit_reason), (Exit::Code(3), ExitReason::Exited));
        assert_eq!((ended.stdout.bytes().len(), ended.stdout.seen()), (1_000, 10_000_000));
        assert_eq!((ended.stderr.bytes().len(), ended.stderr.seen()), (1_000, 300_000));
        let flood = Command::new("yes").keep_bytes(10).kill_above(1 << 20);
        let ended =
            tokio::time::timeout(Duration::from_secs(20), sandbox.run(flood, fixture.profile()))
                .await
                .unwrap()
                .unwrap();
        assert_eq!(ended.exit_reason, ExitReason::OutputLimit);
        let facts = serde_json::to_value(ended.facts()).unwrap();
        assert_eq!(
            (&facts["exit_reason"], &facts["stdout_kept"]),
            (&"output_limit".into(), &10.into())
        );
    }
}

#[tokio::test]
async fn output_is_streamed_as_it_is_written() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let script =
            "echo one; while [ ! -e sub/go ]; do sleep 0.02; done; echo two >&2; echo three";
        let mut running = sandbox.start(Command::shell(script), fixture.profile()).await.unwrap();
        let first = running.next().await.unwrap();
        assert_eq!((first.stream, &first.bytes[..]), (ProcessStream::Stdout, &b"one\n"[..]));
        put(&fixture.inside.join("sub/go"), "");
        let mut rest = Vec::new();
        while let Some(piece) = running.next().await {
            rest.push((piece.stream, String::from_utf8(piece.bytes).unwrap()));
        }
        rest.sort_by_key(|(stream, _)| *stream == ProcessStream::Stdout);
        assert_eq!(
            rest,
            [
                (ProcessStream::Stderr, "two\n".to_owned()),
                (ProcessStream::Stdout, "three\n".to_owned())
            ]
        );
        assert!(running.wait().await.is_success());
    }
}

#[tokio::test]
async fn command_that_cannot_start_is_an_error() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        for command in [
            Command::new("no-such-program-anywhere"),
            Command::new("/no/such/program"),
            Command::new("/etc/passwd"),
            Command::new("./notes.txt"),
            Command::new(""),
            Command::new("echo").arg("a\0b"),
        ] {
            let error = sandbox.start(command, fixture.profile()).await.unwrap_err();
            assert_eq!(error.kind(), SandboxErrorKind::BadCommand, "{error}");
        }
        let mut profile = fixture.profile();
        profile.roots[0].path = "/".into();
        profile.roots[0].identity = None;
        let error = sandbox.start(Command::new("true"), profile).await.unwrap_err();
        assert_eq!(error.kind(), SandboxErrorKind::BadProfile, "{error}");
    }
}

#[tokio::test]
async fn command_inherits_no_file_descriptors_and_no_signal_state() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let ended = sh(
            &sandbox,
            fixture.profile(),
            "ls /proc/self/fd; grep -E 'Sig(Ign|Blk)' /proc/self/status; yes | head -1",
        )
        .await;
        let text = out(&ended);
        assert!(
            text.starts_with("0\n1\n2\n3\n"),
            "the fourth is the directory being listed: {text}"
        );
        assert!(!text.starts_with("0\n1\n2\n3\n4"), "{text}");
        assert!(text.contains("SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"), "{text}");
        assert!(ended.is_success());
    }
}

/// A process that is killed when the test ends.
struct Victim(std::process::Child);

impl Victim {
    fn new() -> Self {
        let mut sleep = std::process::Command::new("sleep");
        sleep.arg("600").stdout(Stdio::null()).stderr(Stdio::null());
        Self(sleep.spawn().unwrap())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn command_cannot_signal_or_read_processes_outside() {
    let mut victim = Victim::new();
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let id = victim.0.id();
        let script = format!(
            "kill -9 {id}; kill -9 {me}; cat /proc/{id}/environ /proc/{me}/environ; kill -9 -1; kill -0 $PPID; true",
            me = std::process::id()
        );
        let ended = sh(&sandbox, fixture.profile(), script).await;
        assert_eq!(ended.stdout.seen(), 0, "{}", out(&ended));
        assert!(
            victim.0.try_wait().unwrap().is_none(),
            "{}: the victim lives",
            sandbox.tier().level
        );
    }
}

#[tokio::test]
async fn missing_helper_is_an_error_with_a_hint() {
    let error = Sandbox::detect(Helper::ThisProgram).await.unwrap_err();
    assert_eq!(error.kind(), SandboxErrorKind::NoHelper);
    assert!(error.hint_text().unwrap().contains("haft_sandbox::init()"), "{error}");
    let failure = error.into_failure();
    assert_eq!(failure.code(), haft_core::FailureCode::SandboxUnavailable);
    assert!(!failure.message().contains("init"), "internal details must not reach the model");

    for not_a_helper in ["/bin/true", "/bin/cat", "/no/such/file"] {
        let error =
            Sandbox::at(Helper::At(not_a_helper.into()), Level::Namespaces).await.unwrap_err();
        assert_eq!(error.kind(), SandboxErrorKind::TierMissing, "{error}");
    }
    let none = Sandbox::at(Helper::At(helper()), Level::None).await.unwrap_err();
    assert_eq!(none.kind(), SandboxErrorKind::TierMissing);
}

#[tokio::test]
async fn files_keep_the_owner_of_the_workspace_when_root_runs_commands() {
    use std::os::unix::fs::{MetadataExt as _, chown};
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let owner = Some(12_345);
        if chown(&fixture.inside, owner, owner).is_err() {
            return; // only root can give a directory away
        }
        for name in ["sub", "notes.txt"] {
            chown(fixture.inside.join(name), owner, owner).unwrap();
        }
        let ended =
            sh(&sandbox, fixture.profile(), "echo mine > sub/made; echo more >> notes.txt; id -u")
                .await;
        if ended.tier.level == Level::Namespaces && !ended.tier.fs.is_enforced() {
            eprintln!("NOT TESTED: root cannot become another user here: {:?}", ended.tier);
            continue;
        }
        assert!(ended.is_success(), "{}", err(&ended));
        assert_ne!(out(&ended), "0\n");
        assert_eq!(
            fixture.inside.join("sub/made").metadata().unwrap().uid(),
            12_345,
            "{}",
            sandbox.tier().level
        );
        assert_eq!(get(&fixture.inside.join("notes.txt")), "insidemore\n");
    }
}

#[tokio::test]
async fn workspace_below_a_private_directory_of_root_is_usable() {
    use std::os::unix::fs::PermissionsExt as _;
    let Ok(closed) = tempfile::tempdir_in("/var/cache") else { return };
    std::fs::set_permissions(closed.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    put(&closed.path().join("secret.txt"), "outside");
    let inside = closed.path().join("deep/inside");
    std::fs::create_dir_all(&inside).unwrap();
    let workspace = Workspace::builder()
        .root(&inside, Access::Write)
        .protect_only(["haft.toml"])
        .build()
        .unwrap();
    for sandbox in sandboxes().await {
        let profile = Profile { roots: workspace.roots(), ..Profile::default() };
        let script = format!(
            "echo x > made && cat {}/made; cat ../../secret.txt; ls ../..",
            inside.display()
        );
        let ended = sh(&sandbox, profile, script).await;
        assert!(out(&ended).starts_with("x\n"), "{}: {}", sandbox.tier().level, err(&ended));
        if sandbox.tier().level == Level::Namespaces && ended.tier.fs.is_enforced() {
            assert_eq!(out(&ended), "x\ndeep\n", "only the path to the root is visible");
        }
    }
}

/// The file that enables [`a_machine_without_namespaces`].
const NOTE: &str = "haft-inner-note";

/// Inner part of the test below: runs inside a sandbox, where no namespace can be created.
#[tokio::test]
async fn a_machine_without_namespaces() {
    if !std::path::Path::new(NOTE).exists() {
        return;
    }
    let missing = Sandbox::at(Helper::At(helper()), Level::Namespaces).await.unwrap_err();
    assert_eq!(missing.kind(), SandboxErrorKind::TierMissing);
    assert!(missing.hint_text().unwrap().contains("user namespaces"), "{missing}");
    let sandbox = Sandbox::detect(Helper::At(helper())).await.unwrap();
    assert_eq!(sandbox.tier().level, Level::Landlock);
    assert!(
        sandbox.tier().notes.iter().any(|note| note.contains("namespaces")),
        "{:?}",
        sandbox.tier()
    );
    let fixture = Fixture::new();
    let script =
        format!("echo x > sub/made; cat sub/made; echo bad > {}/new", fixture.outside.display());
    let ended = sh(&sandbox, fixture.profile(), script).await;
    assert_eq!(out(&ended), "x\n", "{}", err(&ended));
    assert!(!fixture.outside.join("new").exists());
    put(std::path::Path::new("sub/inner-done"), "");
}

#[tokio::test]
async fn without_namespaces_landlock_is_used_and_the_tier_says_why() {
    let Some(sandbox) = sandboxes().await.into_iter().find(|s| s.tier().level == Level::Namespaces)
    else {
        return;
    };
    let fixture = Fixture::new();
    std::fs::copy(std::env::current_exe().unwrap(), fixture.inside.join("it")).unwrap();
    std::fs::copy(helper(), fixture.inside.join("haft-sandbox-helper")).unwrap();
    put(&fixture.inside.join(NOTE), "");
    let mut profile = fixture.profile();
    // A supervised process cannot set up another sandbox.
    profile.protected.clear();
    profile.limits.memory = 16 << 30;
    let command = Command::new("./it").args(["--exact", "confined::a_machine_without_namespaces"]);
    let ended = sandbox.run(command, profile).await.unwrap();
    assert!(ended.is_success(), "{}\n{}", out(&ended), err(&ended));
    assert!(fixture.inside.join("sub/inner-done").exists(), "{}", out(&ended));
}

/// Creates a helper that is killed the first `failures` times it is started, and then works.
fn unsteady_helper(directory: &std::path::Path, failures: u32) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let (path, count) = (directory.join("helper"), directory.join("count"));
    let script = format!(
        "#!/bin/sh\necho x >> '{0}'\n[ \"$(wc -l < '{0}')\" -gt {failures} ] || kill -9 $$\nexec '{1}' \"$@\"\n",
        count.display(),
        helper().display()
    );
    put(&path, &script);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[tokio::test]
async fn failed_probe_is_retried() {
    let expected = Sandbox::detect(Helper::At(helper())).await.unwrap().tier().level;
    let directory = tempfile::tempdir().unwrap();
    let unsteady = unsteady_helper(directory.path(), 2);
    let sandbox = Sandbox::detect(Helper::At(unsteady)).await.unwrap();
    assert_eq!(sandbox.tier().level, expected);
}

#[tokio::test]
async fn probe_that_keeps_failing_never_falls_back_to_a_weaker_tier() {
    let directory = tempfile::tempdir().unwrap();
    // A probe of a weaker tier would be the fourth start and would succeed.
    let unsteady = unsteady_helper(directory.path(), 3);
    let error = Sandbox::detect(Helper::At(unsteady)).await.unwrap_err();
    assert_eq!(error.kind(), SandboxErrorKind::Transient, "{error}");
    assert!(error.to_string().contains("signal 9"), "{error}");
    assert_eq!(get(&directory.path().join("count")).lines().count(), 3);
}
