//! The supervisor: names that commands create, move and remove, at every depth and in both tiers.

use std::{fs, path::Path};

use haft_sandbox::{Command, Level};

use crate::kit::*;

/// Runs a script and returns its standard output and standard error.
async fn run(sandbox: &haft_sandbox::Sandbox, fixture: &Fixture, script: &str) -> (String, String) {
    let ended = sandbox.run(Command::shell(script), fixture.profile()).await.unwrap();
    (out(&ended), err(&ended))
}

#[tokio::test]
async fn common_file_operations_behave_as_without_a_supervisor() {
    const SCRIPT: &str = r#"
        set -e; umask 027
        echo one > a; echo two >> a; cat a
        mkdir -p d/e/f; mv a d/e/f/b; cp -r d g; ln d/e/f/b hard; ln -s d/e soft; cat soft/f/b
        echo three > soft/f/c; cat d/e/f/c
        mkfifo pipe; (echo through > pipe &) ; cat pipe
        : > /dev/null; echo err > /dev/stderr; echo out > /dev/stdout; echo fd > /dev/fd/1
        echo self > /proc/self/fd/1
        rm hard pipe; rmdir g/e/f 2>/dev/null || rm -r g
        truncate -s 3 d/e/f/b; cat d/e/f/b; echo
        stat -c '%a %n' d/e/f/c d; ls
        cd d; echo rel > ../rel; cat ../rel; cat < ../rel; exec 5> fd; echo five >&5; cat fd
        set -C; (echo no > fd) 2>/dev/null || echo noclobber
        set +C; tmp=$(mktemp); echo tmp > $tmp; cat $tmp
    "#;
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let (text, errors) = run(&sandbox, &fixture, SCRIPT).await;
        let plain = Fixture::new();
        let host = std::process::Command::new("bash")
            .args(["--noprofile", "--norc", "-c", SCRIPT])
            .current_dir(&plain.inside)
            .output()
            .unwrap();
        assert_eq!(
            text,
            String::from_utf8_lossy(&host.stdout),
            "{}: {errors}",
            sandbox.tier().level
        );
        assert_eq!(errors, "err\n");
        let names = |fixture: &Fixture| {
            let all = snapshot(&fixture.inside).into_iter();
            all.map(|(path, what)| (path.strip_prefix(&fixture.inside).unwrap().to_owned(), what))
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&fixture), names(&plain), "{}", sandbox.tier().level);
    }
}

#[tokio::test]
async fn protected_names_cannot_be_created_at_any_depth() {
    const ATTEMPTS: &[&str] = &[
        "echo x > haft.toml",
        "echo x > sub/haft.toml",
        "mkdir -p sub/deep && echo x > sub/deep/haft.local.toml",
        "mkdir -p sub/.git && mkdir sub/.git/hooks",
        "mkdir -p sub/.git && echo x > sub/.git/config",
        "ln -s /tmp .envrc",
        "ln notes.txt .envrc",
        "mkfifo haft.toml",
        "cp notes.txt x && mv x sub/.mcp.json",
        "mkdir -p x/hooks && mv x .git",
        "mkdir -p x/workflows && mv x sub/.github",
        "ln -s sub s && echo x > s/haft.toml",
        "cd sub && echo x > ../haft.toml",
        "exec 5>x && ln /proc/self/fd/5 haft.toml",
        "mkdir haft.toml",
        "echo x > HAFT.toml",
        "mkdir -p sub/.claude",
        "perl -e 'open(F, \">\", \"haft.toml\") or die'",
        "perl -e 'truncate(\"haft.toml\", 5) or die'",
    ];
    for sandbox in sandboxes().await {
        for attempt in ATTEMPTS {
            let fixture = Fixture::new();
            run(&sandbox, &fixture, attempt).await;
            let all = snapshot(&fixture.inside);
            let is_bad = |path: &Path| {
                let text =
                    path.strip_prefix(&fixture.inside).unwrap().to_string_lossy().to_lowercase();
                [
                    "haft.toml",
                    "haft.local.toml",
                    ".envrc",
                    ".mcp.json",
                    ".claude",
                    "hooks",
                    "config",
                ]
                .iter()
                .any(|name| text.ends_with(name))
                    && !text.starts_with("x/")
                    || text.contains(".github")
            };
            let bad: Vec<_> = all.iter().filter(|(path, _)| is_bad(path)).collect();
            assert!(bad.is_empty(), "{}: {attempt}: {bad:?}", sandbox.tier().level);
        }
    }
}

#[tokio::test]
async fn existing_protected_files_cannot_be_changed_at_any_depth() {
    const ATTEMPTS: &[&str] = &[
        "echo bad > sub/haft.toml",
        "echo bad >> sub/.git/config",
        "rm -f sub/haft.toml",
        "rm -rf sub/.git",
        "mv sub/haft.toml x",
        "mv sub/.git x; echo bad > x/config",
        "cp notes.txt x; mv -f x sub/haft.toml",
        "ln sub/haft.toml y && echo bad > y",
        "perl -e 'truncate(\"sub/haft.toml\", 0)'",
        "perl -e 'open(F, \"+<\", \"sub/haft.toml\"); print F \"bad\"'",
        "exec 5<sub/haft.toml; echo bad > /proc/self/fd/5",
        "exec 5<sub/haft.toml; echo bad > /dev/fd/5",
        "ln -s haft.toml sub/l; echo bad > sub/l",
        "cd sub/.git; echo bad > config",
        "perl -e 'syscall(316, -100, \"notes.txt\", -100, \"sub/haft.toml\", 2)'",
    ];
    for sandbox in sandboxes().await {
        for attempt in ATTEMPTS {
            let fixture = Fixture::new();
            fs::create_dir_all(fixture.inside.join("sub/.git/hooks")).unwrap();
            put(&fixture.inside.join("sub/.git/config"), "good");
            put(&fixture.inside.join("sub/haft.toml"), "good");
            run(&sandbox, &fixture, attempt).await;
            let level = sandbox.tier().level;
            assert_eq!(get(&fixture.inside.join("sub/haft.toml")), "good", "{level}: {attempt}");
            assert_eq!(get(&fixture.inside.join("sub/.git/config")), "good", "{level}: {attempt}");
        }
    }
}

#[tokio::test]
async fn command_cannot_open_or_kill_the_supervisor() {
    const SCRIPT: &str = r#"
        for pid in $(ls /proc | grep -E '^[0-9]+$'); do
            for file in mem fd/0 fd/3 fd/4 fd/5 fd/6 fd/7 cwd/haft.toml root/haft.toml; do
                for base in /proc/$pid /proc/$pid/task/$pid /proc/$pid/task/$((pid + 1)); do
                    perl -e 'sysopen(F, $ARGV[0], 2) and print "opened $ARGV[0]\n"' $base/$file
                done
            done
            [ $pid = $$ ] || kill -9 $pid 2>/dev/null
        done
        echo still > here && cat here
    "#;
    for sandbox in sandboxes().await {
        if sandbox.tier().level != Level::Namespaces {
            continue; // without a pid namespace this would touch processes of the host
        }
        let fixture = Fixture::new();
        let (text, errors) = run(&sandbox, &fixture, SCRIPT).await;
        let first: Vec<_> = text.lines().filter(|line| line.contains("/proc/1/")).collect();
        assert!(first.is_empty(), "{first:?}");
        assert!(text.ends_with("still\n"), "{text} {errors}");
        assert!(!fixture.inside.join("haft.toml").exists());
    }
}

#[tokio::test]
async fn refused_paths_are_reported() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let script = "echo x > sub/haft.toml; echo x > sub/haft.toml; mkdir .claude; exit 0";
        let ended = sandbox.run(Command::shell(script), fixture.profile()).await.unwrap();
        let paths: Vec<_> = ended.refused.iter().map(|refused| refused.path.clone()).collect();
        assert_eq!(paths, [fixture.inside.join("sub/haft.toml"), fixture.inside.join(".claude")]);
        assert!(ended.refused.iter().all(|refused| !refused.reason.is_empty()));
    }
}

#[tokio::test]
async fn protected_name_that_is_a_symlink_protects_its_target() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        std::os::unix::fs::symlink("sub", fixture.inside.join(".claude")).unwrap();
        run(
            &sandbox,
            &fixture,
            "echo bad > sub/settings.json; echo bad > .claude/x; echo ok > fine",
        )
        .await;
        assert_eq!(fs::read_dir(fixture.inside.join("sub")).unwrap().count(), 0);
        assert_eq!(get(&fixture.inside.join("fine")), "ok\n");
    }
}

#[tokio::test]
async fn protection_leaves_no_visible_files_inside_or_on_the_host() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let before = snapshot(&fixture.inside);
        let command = Command::shell("ls -A; find . | sort | tail -3; echo ready; sleep 20");
        let mut running = sandbox.start(command, fixture.profile()).await.unwrap();
        let mut text = String::new();
        while !text.contains("ready") {
            text += &String::from_utf8_lossy(&running.next().await.unwrap().bytes);
        }
        assert_eq!(text, "notes.txt\nsub\n.\n./notes.txt\n./sub\nready\n");
        assert_eq!(snapshot(&fixture.inside), before);
        running.stop().await;
        assert_eq!(snapshot(&fixture.inside), before);
    }
}

#[tokio::test]
async fn sandbox_inside_a_supervised_one_is_refused() {
    let Some(sandbox) = sandboxes().await.into_iter().next() else { return };
    let fixture = Fixture::new();
    fs::copy(std::env::current_exe().unwrap(), fixture.inside.join("it")).unwrap();
    fs::copy(helper(), fixture.inside.join("haft-sandbox-helper")).unwrap();
    put(&fixture.inside.join(NOTE), "");
    let mut profile = fixture.profile();
    profile.limits.memory = 16 << 30;
    let command = Command::new("./it").args(["--exact", "supervised::in_a_supervised_sandbox"]);
    let ended = sandbox.run(command, profile).await.unwrap();
    assert!(ended.is_success(), "{}\n{}", out(&ended), err(&ended));
    assert!(fixture.inside.join("sub/inner-done").exists(), "{}", out(&ended));
}

/// The file that enables [`in_a_supervised_sandbox`].
const NOTE: &str = "haft-supervised-note";

/// Inner part of the test above.
#[tokio::test]
async fn in_a_supervised_sandbox() {
    use haft_sandbox::{Helper, Sandbox, SandboxErrorKind};
    if !Path::new(NOTE).exists() {
        return;
    }
    let error = Sandbox::detect(Helper::At(helper())).await.unwrap_err();
    assert_eq!(error.kind(), SandboxErrorKind::TierMissing);
    assert!(error.to_string().contains("supervises"), "{error}");
    put(Path::new("sub/inner-done"), "");
}

#[tokio::test]
async fn chmod_works_only_in_the_workspace() {
    use std::os::unix::fs::PermissionsExt as _;
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let (secret, level) = (fixture.outside.join("secret.txt"), sandbox.tier().level);
        let before = fs::metadata(&secret).unwrap().permissions().mode();
        let script = format!(
            "umask 022; echo x > f; chmod 755 f; chmod u+x notes.txt; stat -c %a f notes.txt; \
             perl -e 'open(F, \"<\", \"f\"); chmod(0600, *F) or die $!'; stat -c %a f; \
             chmod 777 {0}; perl -e 'open(F, \"<\", \"{0}\"); chmod(0777, *F)'; chmod 4755 f; \
             cd $TMPDIR; echo t > t; chmod 700 t; stat -c %a t",
            secret.display()
        );
        let (text, errors) = run(&sandbox, &fixture, &script).await;
        assert_eq!(text, "755\n744\n600\n700\n", "{level}: {errors}");
        assert_eq!(fs::metadata(&secret).unwrap().permissions().mode(), before, "{level}");
        let mode = fs::metadata(fixture.inside.join("f")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600, "{level}");
    }
}

#[tokio::test]
async fn directory_from_outside_cannot_bring_protected_names_by_rename() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let script = "mkdir -p $TMPDIR/x/.git/hooks && echo bad > $TMPDIR/x/.git/hooks/pre-commit \
                      && perl -e 'rename(\"$ENV{TMPDIR}/x\", \"y\") or print \"$!\\n\"'; \
                      mv $TMPDIR/x z; cp -r $TMPDIR/x w; exit 0";
        let (text, _) = run(&sandbox, &fixture, script).await;
        assert_eq!(text, "Invalid cross-device link\n", "{}", sandbox.tier().level);
        let all = snapshot(&fixture.inside);
        assert!(!all.iter().any(|(path, _)| path.ends_with("hooks")), "{all:?}");
    }
}

#[tokio::test]
async fn command_cannot_create_a_repository_that_git_on_the_host_obeys() {
    const PARTS: &str = "mkdir -p $d/objects $d/refs; echo '[core]' > $d/config; echo ref > $d/HEAD; \
                         mkdir $d/hooks; echo x > $d/commondir";
    for sandbox in sandboxes().await {
        for resolved in
            [".git/y", "git~1/tools", ".GIT/t", ".git/refs/remotes/e", "plain", "sub/.git/refs/q"]
        {
            for order in ["", "echo x > $d/config;", "echo ref > $d/HEAD; mkdir $d/hooks;"] {
                let fixture = Fixture::new();
                fs::create_dir_all(fixture.inside.join(".git/objects")).unwrap();
                let script = format!("d='{resolved}'; mkdir -p $d; {order} {PARTS}; exit 0");
                run(&sandbox, &fixture, &script).await;
                let has = |name: &str| {
                    fixture.inside.join(resolved).join(name).symlink_metadata().is_ok()
                };
                let is_repository =
                    has("HEAD") && (has("commondir") || has("objects") && has("refs"));
                let is_obeyed = has("config") || has("hooks") || has("commondir");
                let level = sandbox.tier().level;
                assert!(!(is_repository && is_obeyed), "{level}: {resolved}: {order}");
            }
        }
    }
}

#[tokio::test]
async fn git_file_that_redirects_git_cannot_be_removed_or_replaced() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        put(&fixture.inside.join("sub/.git"), "gitdir: ../.git/modules/sub\n");
        let script = "rm -f sub/.git; mkdir sub/.git; mv notes.txt sub/.git; exit 0";
        run(&sandbox, &fixture, script).await;
        assert_eq!(get(&fixture.inside.join("sub/.git")), "gitdir: ../.git/modules/sub\n");
    }
}

#[tokio::test]
async fn datagram_socket_pairs_are_refused_and_stream_pairs_are_allowed() {
    let script = "perl -MSocket -e 'for my $k (SOCK_STREAM, SOCK_DGRAM, SOCK_RAW) { print \
                  socketpair(my $a, my $b, AF_UNIX, $k, 0) ? 1 : 0 }'";
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        assert_eq!(run(&sandbox, &fixture, script).await.0, "100", "{}", sandbox.tier().level);
    }
}
