//! What a confined command can read, write and reach.

use std::{net::TcpListener, process::Stdio, time::Duration};

use haft_sandbox::{
    Access, Command, Environment, ErrorKind, Exit, Helper, How, Level, Network, Reads, Root,
    Sandbox, Stream,
};

use crate::kit::*;

#[tokio::test]
async fn it_writes_in_its_workspace_and_nowhere_else() {
    for sandbox in sandboxes().await {
        let room = Room::new();
        let before = picture(&room.outside);
        let script = format!(
            "echo new > sub/made; echo changed > notes.txt; cat notes.txt
             for f in {out}/new {out}/secret.txt ../outside/x /etc/haft-test /usr/haft-test /haft-test /home/x /root/x
             do echo bad > $f; done 2>/dev/null
             ln -s {out}/secret.txt sub/link; echo bad > sub/link
             ln {out}/secret.txt sub/hard && echo bad > sub/hard
             mv {out}/secret.txt sub/; rm -rf {out}; chmod 777 {out}/secret.txt; truncate -s 0 {out}/secret.txt
             exit 0",
            out = room.outside.display()
        );
        let ended = sh(&sandbox, room.profile(), script).await;
        assert!(ended.is_success(), "{ended:?}");
        assert_eq!(out(&ended), "changed\n");
        assert_eq!(get(&room.inside.join("sub/made")), "new\n");
        assert_eq!(get(&room.inside.join("notes.txt")), "changed\n");
        assert_eq!(picture(&room.outside), before, "{}", sandbox.tier().level);
    }
}

#[tokio::test]
async fn what_it_makes_belongs_to_who_owns_the_workspace() {
    use std::os::unix::fs::MetadataExt as _;
    for sandbox in sandboxes().await {
        let room = Room::new();
        assert!(
            sh(&sandbox, room.profile(), "echo x > sub/made; mkdir sub/folder").await.is_success()
        );
        let owner = room.inside.metadata().unwrap();
        for made in ["sub/made", "sub/folder"] {
            let meta = room.inside.join(made).metadata().unwrap();
            assert_eq!((meta.uid(), meta.gid()), (owner.uid(), owner.gid()), "{made}");
        }
    }
}

#[tokio::test]
async fn protected_names_stay_as_they_are_whether_they_exist_or_not() {
    for sandbox in sandboxes().await {
        let room = Room::new();
        let git = room.inside.join(".git");
        std::fs::create_dir_all(git.join("hooks")).unwrap();
        put(&git.join("config"), "[core]");
        put(&git.join("index"), "index");
        std::fs::create_dir(room.inside.join(".github")).unwrap();
        let before = picture(&room.inside);
        let script = "
            echo bad > .git/hooks/pre-commit; echo bad > .git/config; echo bad >> .git/config
            mv .git moved; mkdir -p .git/hooks && echo bad > .git/hooks/pre-commit
            mv .git/config .git/old; echo x > .git/new && mv .git/new .git/config; rm -f .git/config; rm -rf .git/hooks
            mkdir .haft; echo bad > .haft/rules; echo bad > haft.toml; echo bad > .envrc
            mkdir -p .vscode; echo bad > .vscode/tasks.json; mkdir -p .github/workflows; echo bad > .github/workflows/x.yml
            mv .github g; mkdir sub/w && mkdir sub/w/workflows && mv sub/w .github
            ln -s sub .haft; ln notes.txt .envrc; rmdir .haft .envrc; mv sub .haft; mv notes.txt haft.toml
            rm -rf sub/w .git/new .github/w
            exit 0";
        let ended = sh(&sandbox, room.profile(), script).await;
        assert!(ended.is_success(), "{ended:?}");
        assert_eq!(picture(&room.inside), before, "{}: {}", sandbox.tier().level, err(&ended));
        // The rest of `.git` can be worked with.
        let ended = sh(&sandbox, room.profile(), "echo more > .git/index").await;
        assert!(ended.is_success(), "{}", err(&ended));
        assert_eq!(get(&git.join("index")), "more\n");
    }
}

#[tokio::test]
async fn commands_that_share_a_workspace_do_not_uncover_names_for_each_other() {
    let Some(sandbox) = sandboxes().await.into_iter().find(|s| s.tier().level == Level::Namespaces)
    else {
        return;
    };
    let room = Room::new();
    let before = picture(&room.inside);
    let wait = "while [ ! -e sub/go ]; do sleep 0.02; done; mkdir .haft; echo bad > .haft/x; echo bad > haft.toml; echo done";
    let mut long = sandbox.start(Command::shell(wait), room.profile()).await.unwrap();
    for _ in 0..3 {
        assert!(sh(&sandbox, room.profile(), "true").await.is_success());
    }
    put(&room.inside.join("sub/go"), "");
    let ended = long.wait().await;
    assert_eq!(out(&ended), "done\n", "{}", err(&ended));
    std::fs::remove_file(room.inside.join("sub/go")).unwrap();
    assert_eq!(picture(&room.inside), before);
}

#[tokio::test]
async fn a_protected_name_that_is_a_link_is_refused_where_it_cannot_be_held() {
    let Some(sandbox) = sandboxes().await.into_iter().find(|s| s.tier().level == Level::Namespaces)
    else {
        return;
    };
    let room = Room::new();
    std::os::unix::fs::symlink("sub", room.inside.join(".haft")).unwrap();
    let error = sandbox.start(Command::shell("true"), room.profile()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadProfile);
    assert!(error.to_string().contains(".haft"), "{error}");
}

#[tokio::test]
async fn a_read_only_profile_writes_nothing_in_the_workspace() {
    for sandbox in sandboxes().await {
        let room = Room::new();
        let before = picture(&room.inside);
        let script = "cat notes.txt; echo bad > notes.txt; echo bad > new; rm notes.txt; mkdir x; mv sub y; touch sub/z; exit 0";
        let ended = sh(&sandbox, room.profile().read_only(), script).await;
        assert_eq!(out(&ended), "inside");
        assert_eq!(picture(&room.inside), before);
    }
}

#[tokio::test]
async fn a_folder_that_took_the_place_of_the_judged_one_is_refused() {
    for sandbox in sandboxes().await {
        let room = Room::new();
        let profile = room.profile();
        std::fs::rename(&room.inside, room.outside.join("moved")).unwrap();
        std::fs::create_dir(&room.inside).unwrap();
        let error = sandbox.start(Command::shell("true"), profile).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadProfile, "{error}");
    }
}

#[tokio::test]
async fn several_roots_have_an_access_each_also_inside_one_another() {
    for sandbox in sandboxes().await {
        let room = Room::new();
        let mut profile = room.profile();
        profile.protected.clear();
        profile.roots.push(Root {
            path: room.outside.clone(),
            access: Access::Read,
            identity: None,
        });
        if sandbox.tier().level == Level::Namespaces {
            profile.roots.push(Root {
                path: room.inside.join("sub"),
                access: Access::Read,
                identity: None,
            });
        }
        let script = format!(
            "echo x > top; cat {0}/secret.txt; echo bad > {0}/new; echo bad > sub/new; ls sub {0}",
            room.outside.display()
        );
        let ended = sh(&sandbox, profile, script).await;
        assert!(room.inside.join("top").exists(), "{}", err(&ended));
        assert!(out(&ended).starts_with("outside"), "{ended:?}");
        assert!(!room.outside.join("new").exists());
        if sandbox.tier().level == Level::Namespaces {
            assert!(!room.inside.join("sub/new").exists(), "the inner root is read-only");
        }
    }
}

#[tokio::test]
async fn only_what_is_named_can_be_read_when_the_profile_says_so() {
    for sandbox in sandboxes().await {
        let room = Room::new();
        let mut profile = room.profile();
        profile.reads = Reads::Only(vec![]);
        let script = format!(
            "cat notes.txt; cat {}/secret.txt; ls /var; ls /sys; ls /",
            room.outside.display()
        );
        let ended = sh(&sandbox, profile, script).await;
        assert_eq!(out(&ended), "inside", "{}", err(&ended));
    }
}

#[tokio::test]
async fn what_only_root_may_read_is_not_read_through_a_sandbox_of_root() {
    for sandbox in sandboxes().await {
        let room = Room::new();
        let mut profile = room.profile();
        if sandbox.tier().level == Level::Landlock {
            profile = profile.read_only(); // with a folder of root's to write in, the tier says `partial`
        }
        let ended = sh(&sandbox, profile, "cat /etc/shadow; id -u").await;
        assert_ne!(out(&ended), "0\n");
        assert_eq!(out(&ended).lines().count(), 1, "{}", out(&ended));
    }
}

#[tokio::test]
async fn there_is_no_network_unless_the_profile_has_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for sandbox in sandboxes().await {
        let room = Room::new();
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected");
        let command = || Command::new("bash").args(["-c", &script]);
        let ended = sandbox.run(command(), room.profile()).await.unwrap();
        assert_eq!(out(&ended), "", "{}", sandbox.tier().level);
        assert!(!ended.is_success());
        let mut profile = room.profile();
        profile.network = Network::Host;
        let ended = sandbox.run(command(), profile).await.unwrap();
        assert_eq!(out(&ended), "connected\n", "{}", err(&ended));
    }
}

#[tokio::test]
async fn it_gets_the_variables_it_was_given_and_no_others() {
    for sandbox in sandboxes().await {
        let room = Room::new();
        let environment = Environment::new().set("GIVEN", "a b\nc").set("HOME", "/nowhere");
        let command = Command::new("env").arg("-0").environment(environment);
        let ended = sandbox.run(command, room.profile()).await.unwrap();
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
async fn it_starts_in_the_folder_it_was_given() {
    for sandbox in sandboxes().await {
        let room = Room::new();
        let workspace = room.workspace();
        let command = Command::new("pwd").folder(&workspace.find("sub").unwrap());
        assert_eq!(
            out(&sandbox.run(command, room.profile()).await.unwrap()).trim(),
            room.inside.join("sub").to_str().unwrap()
        );
        let ended = sh(&sandbox, room.profile(), "pwd").await;
        assert_eq!(out(&ended).trim(), room.inside.to_str().unwrap());

        let gone = Command::new("pwd").folder(&workspace.find("gone").unwrap());
        assert_eq!(
            sandbox.start(gone, room.profile()).await.unwrap_err().kind(),
            ErrorKind::BadCommand
        );
        // It was a folder when it was judged.
        let place = workspace.find("sub").unwrap();
        std::fs::remove_dir_all(room.inside.join("sub")).unwrap();
        std::os::unix::fs::symlink("/etc", room.inside.join("sub")).unwrap();
        let swapped = Command::new("pwd").folder(&place);
        assert_eq!(
            sandbox.start(swapped, room.profile()).await.unwrap_err().kind(),
            ErrorKind::BadCommand
        );
    }
}

#[tokio::test]
async fn it_reads_its_input_and_arguments_are_not_read_by_a_shell() {
    for sandbox in sandboxes().await {
        let room = Room::new();
        let big = vec![b'x'; 5 << 20];
        let ended =
            sandbox.run(Command::new("wc").arg("-c").input(big), room.profile()).await.unwrap();
        assert_eq!(out(&ended).trim(), (5 << 20).to_string());
        let ended = sandbox.run(Command::new("cat"), room.profile()).await.unwrap();
        assert!(ended.is_success() && ended.stdout.seen() == 0, "no input is an empty input");
        let odd = ["$(id)", "; rm -rf /", "a b", "*", "é\n'\"", ""];
        let ended = sandbox
            .run(Command::new("printf").arg("<%s>").args(odd), room.profile())
            .await
            .unwrap();
        assert_eq!(out(&ended), odd.map(|arg| format!("<{arg}>")).concat());
    }
}

#[tokio::test]
async fn output_is_kept_up_to_a_cap_and_counted_beyond_it() {
    for sandbox in sandboxes().await {
        let room = Room::new();
        let script = "head -c 10000000 /dev/zero; head -c 300000 /dev/zero >&2; exit 3";
        let ended = sandbox.run(Command::shell(script).keep(1_000), room.profile()).await.unwrap();
        assert_eq!((ended.exit, ended.how), (Exit::Code(3), How::Itself));
        assert_eq!((ended.stdout.bytes().len(), ended.stdout.seen()), (1_000, 10_000_000));
        assert_eq!((ended.stderr.bytes().len(), ended.stderr.seen()), (1_000, 300_000));
        let flood = Command::new("yes").keep(10).flood(1 << 20);
        let ended =
            tokio::time::timeout(Duration::from_secs(20), sandbox.run(flood, room.profile()))
                .await
                .unwrap()
                .unwrap();
        assert_eq!(ended.how, How::Flooded);
        let facts = serde_json::to_value(ended.facts()).unwrap();
        assert_eq!((&facts["how"], &facts["stdout_kept"]), (&"flooded".into(), &10.into()));
    }
}

#[tokio::test]
async fn pieces_come_as_they_are_written() {
    for sandbox in sandboxes().await {
        let room = Room::new();
        let script =
            "echo one; while [ ! -e sub/go ]; do sleep 0.02; done; echo two >&2; echo three";
        let mut running = sandbox.start(Command::shell(script), room.profile()).await.unwrap();
        let first = running.next().await.unwrap();
        assert_eq!((first.stream, &first.bytes[..]), (Stream::Out, &b"one\n"[..]));
        put(&room.inside.join("sub/go"), "");
        let mut rest = Vec::new();
        while let Some(piece) = running.next().await {
            rest.push((piece.stream, String::from_utf8(piece.bytes).unwrap()));
        }
        rest.sort_by_key(|(stream, _)| *stream == Stream::Out);
        assert_eq!(rest, [(Stream::Err, "two\n".to_owned()), (Stream::Out, "three\n".to_owned())]);
        assert!(running.wait().await.is_success());
    }
}

#[tokio::test]
async fn a_command_that_cannot_be_started_is_told_and_nothing_ran() {
    for sandbox in sandboxes().await {
        let room = Room::new();
        for command in [
            Command::new("no-such-program-anywhere"),
            Command::new("/no/such/program"),
            Command::new("/etc/passwd"),
            Command::new("./notes.txt"),
            Command::new(""),
            Command::new("echo").arg("a\0b"),
        ] {
            let error = sandbox.start(command, room.profile()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadCommand, "{error}");
        }
        let mut profile = room.profile();
        profile.roots[0].path = "/".into();
        profile.roots[0].identity = None;
        let error = sandbox.start(Command::new("true"), profile).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadProfile, "{error}");
    }
}

#[tokio::test]
async fn it_holds_no_descriptor_of_the_runtime_and_its_signals_are_plain() {
    for sandbox in sandboxes().await {
        let room = Room::new();
        let ended = sh(
            &sandbox,
            room.profile(),
            "ls /proc/self/fd; grep -E 'Sig(Ign|Blk)' /proc/self/status; yes | head -1",
        )
        .await;
        let text = out(&ended);
        assert!(text.starts_with("0\n1\n2\n3\n"), "the fourth is the folder being listed: {text}");
        assert!(!text.starts_with("0\n1\n2\n3\n4"), "{text}");
        assert!(text.contains("SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"), "{text}");
        assert!(ended.is_success());
    }
}

#[tokio::test]
async fn it_cannot_reach_processes_outside() {
    let mut victim =
        std::process::Command::new("sleep").arg("600").stdout(Stdio::null()).spawn().unwrap();
    for sandbox in sandboxes().await {
        let room = Room::new();
        let id = victim.id();
        let script = format!(
            "kill -9 {id}; kill -9 {me}; cat /proc/{id}/environ /proc/{me}/environ; kill -9 -1; kill -0 $PPID; true",
            me = std::process::id()
        );
        let ended = sh(&sandbox, room.profile(), script).await;
        assert_eq!(ended.stdout.seen(), 0, "{}", out(&ended));
        assert!(victim.try_wait().unwrap().is_none(), "{}: the victim lives", sandbox.tier().level);
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
}

#[tokio::test]
async fn without_a_helper_nothing_runs_and_the_hint_says_why() {
    let error = Sandbox::detect(Helper::ThisProgram).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoHelper);
    assert!(error.hint_text().unwrap().contains("haft_sandbox::init()"), "{error}");
    let failure = error.into_failure();
    assert_eq!(failure.code(), haft_core::Code::SandboxUnavailable);
    assert!(!failure.message().contains("init"), "the model hears nothing of how we are built");

    for not_a_helper in ["/bin/true", "/bin/cat", "/no/such/file"] {
        let error =
            Sandbox::at(Helper::At(not_a_helper.into()), Level::Namespaces).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TierMissing, "{error}");
    }
    let none = Sandbox::at(Helper::At(helper()), Level::None).await.unwrap_err();
    assert_eq!(none.kind(), ErrorKind::TierMissing);
}
