//! A workspace that is a home directory: files that shells, logins and other programs obey cannot
//! be changed, and ordinary work is possible.

use std::{fs, path::Path, process::Command as Host};

use crate::kit::*;

/// Files of a home directory that another program obeys or executes.
const OBEYED: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".inputrc",
    ".pam_environment",
    ".config/fish/config.fish",
    ".config/autostart/a.desktop",
    ".config/systemd/user/a.service",
    ".config/environment.d/a.conf",
    ".config/git/config",
    ".local/share/systemd/user/a.service",
    ".local/bin/ls",
    ".local/lib/python3.12/site-packages/a.pth",
    ".ssh/authorized_keys",
    ".ssh/config",
    ".gitconfig",
    ".git-credentials",
    ".cargo/config.toml",
    ".cargo/credentials.toml",
    ".cargo/env",
    ".cargo/bin/cargo",
    ".npmrc",
    ".netrc",
    ".curlrc",
    ".aws/credentials",
    ".gnupg/gpg.conf",
    ".kube/config",
    ".docker/config.json",
    ".vimrc",
    ".emacs.d/init.el",
    ".tmux.conf",
    ".claude/settings.json",
];

/// Attempts with each name, as `$n`.
const ATTEMPTS: &str = r#"
    mkdir -p "$(dirname "$n")"
    echo bad > "$n"; echo bad >> "$n"; ln -s plain "$n"; ln plain "$n"; rm -f "$n"; mv "$n" stolen
    echo bad > p; mv -f p "$n"; chmod 777 "$n"; [ -e stolen ] && echo "stole $n"; rm -f p stolen
"#;

#[tokio::test]
async fn startup_and_configuration_files_of_a_home_directory_cannot_be_changed() {
    const ORDINARY: &str = "mkdir -p Documents .cache/app .config/app .local/share/app && \
        echo text > Documents/a && mv Documents/a Documents/b && echo s > .config/app/settings && \
        echo d > .local/share/app/data && echo h > .bash_history && cat Documents/b && echo works";
    for sandbox in sandboxes().await {
        for exist in [true, false] {
            let fixture = Fixture::new();
            let level = sandbox.tier().level;
            put(&fixture.inside.join("plain"), "plain");
            for name in OBEYED.iter().filter(|_| exist) {
                let path = fixture.inside.join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                put(&path, "good");
            }
            let names = OBEYED.join(" ");
            let script = format!(
                "export HOME=$PWD; for n in {names}; do {ATTEMPTS} done 2>/dev/null; {ORDINARY}"
            );
            let ended = sh(&sandbox, fixture.profile(), script).await;
            assert_eq!(out(&ended), "text\nworks\n", "{level}: {}", err(&ended));
            assert!(!ended.refused.is_empty(), "{level}");
            for name in OBEYED {
                let path = fixture.inside.join(name);
                if exist {
                    assert_eq!(get(&path), "good", "{level}: {name}");
                } else {
                    assert!(path.symlink_metadata().is_err(), "{level}: {name}");
                }
            }
            assert_eq!(get(&fixture.inside.join("plain")), "plain");
            assert_eq!(get(&fixture.inside.join(".config/app/settings")), "s\n");
        }
    }
}

fn host_git(home: &Path, args: &[&str]) -> Option<String> {
    let output = Host::new("git")
        .args(["-c", "safe.directory=*"])
        .args(args)
        .current_dir(home)
        .env("HOME", home)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .ok()?;
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[tokio::test]
async fn git_works_in_a_home_directory_and_its_configuration_cannot_be_changed() {
    const CONFIG: &str = "[user]\n\tname = A\n\temail = a@example.com\n[safe]\n\tdirectory = *\n";
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        put(&fixture.inside.join(".gitconfig"), CONFIG);
        if host_git(&fixture.inside, &["init", "-q"]).is_none() {
            return eprintln!("NOT TESTED: there is no git here");
        }
        let config = get(&fixture.inside.join(".git/config"));
        let script = "export HOME=$PWD; git add notes.txt && git commit -q -m first && \
            git switch -q -c other && echo more >> notes.txt && git commit -q -a -m second && \
            git log --format=%s; git config --global core.pager evil; git config core.pager evil; \
            git status --porcelain -uno";
        let ended = sh(&sandbox, fixture.profile(), script).await;
        let level = sandbox.tier().level;
        assert_eq!(out(&ended), "second\nfirst\n", "{level}: {}", err(&ended));
        assert_eq!(get(&fixture.inside.join(".gitconfig")), CONFIG, "{level}");
        assert_eq!(get(&fixture.inside.join(".git/config")), config, "{level}");
        let log = host_git(&fixture.inside, &["log", "--format=%an %s"]).unwrap();
        assert_eq!(log, "A second\nA first\n", "{level}");
    }
}
