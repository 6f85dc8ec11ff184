//! Rules about programs apply to every spelling that resolves to the file.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_core::Decision::{self, Allow, Ask, Deny};
use proptest::prelude::*;
use serde_json::json;

use super::super::*;
use crate::{
    path_resolver::{PathResolver, normalize_lexically},
    pattern::{PathBase, Pattern},
};

/// A file system with two symlinks: `/w/link.sh` to `/w/deploy.sh`, and `/w/dir` to `/w/src`.
#[derive(Debug)]
struct Linked;

impl PathResolver for Linked {
    fn resolve(&self, path: &Path) -> Result<PathBuf, String> {
        let path = normalize_lexically(path);
        if path == Path::new("/w/link.sh") {
            return Ok("/w/deploy.sh".into());
        }
        match path.strip_prefix("/w/dir") {
            Ok(rest) => Ok(Path::new("/w/src").join(rest)),
            Err(_) => Ok(path),
        }
    }
}

fn judged(rules: &[(Decision, &str)], command: &str) -> Decision {
    let anchor = PathBase { directory: Some("/w".into()), home: Some("/home/u".into()) };
    let rules = rules.iter().map(|(decision, text)| {
        let pattern = Pattern::parse(text, &anchor).unwrap_or_else(|e| panic!("{text}: {e}"));
        Rule::new(decision.clone(), pattern)
    });
    let context = PolicyContext {
        resolver: Arc::new(Linked),
        home: Some("/home/u".into()),
        ..PolicyContext::default()
    };
    let rules = Rules::new(rules.collect(), context).unwrap();
    let mut sample = Sample::new("shell", json!({"command": command}));
    sample.scope = haft_core::Scope::from(haft_core::RunScope {
        working_directory: Path::new("/w").into(),
        ..haft_core::RunScope::default()
    });
    rules.judge_sample(&sample).decision
}

/// Checks for each command whether a deny stops it.
fn denies(deny: &str, commands: &[&str], wanted: bool) {
    let rules = [(Allow, "Bash(*)"), (Deny, deny)];
    let wrong: Vec<_> =
        commands.iter().filter(|text| (judged(&rules, text) == Deny) != wanted).collect();
    assert!(wrong.is_empty(), "{deny}: {wrong:#?}");
}

#[test]
fn every_spelling_of_a_denied_program_is_denied() {
    let commands = [
        "./deploy.sh",
        "././deploy.sh prod",
        "/w/deploy.sh",
        "/w/../w/deploy.sh",
        "//w//deploy.sh",
        "src/../deploy.sh",
        "cd src && ../deploy.sh",
        "cd src; ../deploy.sh",
        "cd src && bash ../deploy.sh",
        "cd src && cd .. && ./deploy.sh",
        "(cd src; ../deploy.sh)",
        "bash deploy.sh",
        "bash ./deploy.sh prod",
        "bash -x deploy.sh",
        "bash -- deploy.sh",
        "sh -eu deploy.sh",
        "zsh deploy.sh",
        "source deploy.sh",
        ". ./deploy.sh",
        "bash < deploy.sh",
        "env bash deploy.sh",
        "sudo ./deploy.sh",
        "timeout 5 /w/deploy.sh",
        "exec ./deploy.sh",
        "xargs ./deploy.sh",
        "find . -exec ./deploy.sh {} \\;",
        "sh -c ././deploy.sh",
        "sh -c 'cd src && ../deploy.sh'",
        "bash -c 'bash deploy.sh'",
        "ls; ././deploy.sh",
        "echo $(bash deploy.sh)",
        "perl deploy.sh",
        "python3 ./deploy.sh",
        "bash --rcfile deploy.sh -i",
        "./link.sh",
        "bash link.sh",
        "dir/../deploy.sh",
        "$PWD/deploy.sh",
        "./dep*",
        "/w/$X/../deploy.sh",
        "cd $X && ./deploy.sh",
        "cd $X && ../deploy.sh",
        "pushd src; ../deploy.sh",
        "env -C src ../deploy.sh",
        "for d in a b; do cd $d; ../deploy.sh; done",
        "PATH=. deploy.sh",
        "PATH=.:$PATH; deploy.sh prod",
        "export PATH=.; deploy.sh",
        "env PATH=. deploy.sh",
        "env -i A=1 PATH=.:/bin deploy.sh prod",
        "sudo PATH=. deploy.sh",
        "timeout 5 env PATH=. deploy.sh",
        "export PATH=.; timeout 5 deploy.sh",
        "sh -c 'PATH=. deploy.sh'",
        "env -S 'PATH=. deploy.sh'",
        "bash \"$X\"",
        "python3 \"$X\"",
    ];
    denies("Bash(./deploy.sh:*)", &commands, true);
    denies("Bash(/w/deploy.sh:*)", &commands, true);
    denies("Bash(././deploy.sh *)", &commands, true);
    denies("Bash(./dep*)", &commands, true);
}

#[test]
fn other_programs_do_not_match_a_deny() {
    let commands = [
        "./build.sh",
        "bash build.sh",
        "src/deploy.sh",
        "cd src && ./build.sh",
        "cd src && ../build.sh",
        "cd src && bash tools/deploy.sh",
        "/opt/deploy.sh",
        "cat deploy.sh",
        "cat ./deploy.sh",
        "chmod +x deploy.sh",
        "python3 report.py deploy.sh",
        "bash build.sh ./deploy.sh",
        "git add deploy.sh",
        "ls && cd src && make",
        "npm run build",
        "python3 -c 'x' deploy.sh",
        "awk -f deploy.awk deploy.sh",
        "env PATH=. build.sh",
        "env PATH=. cat deploy.sh",
    ];
    denies("Bash(./deploy.sh:*)", &commands, false);
}

#[test]
fn arguments_and_wildcards_of_a_denied_program_still_count() {
    denies(
        "Bash(./deploy.sh prod:*)",
        &["././deploy.sh prod", "bash deploy.sh prod now", "cd src && ../deploy.sh prod"],
        true,
    );
    denies("Bash(./deploy.sh prod:*)", &["././deploy.sh dev", "bash deploy.sh dev"], false);
    denies(
        "Bash(./scripts/*)",
        &["scripts/a.sh", "bash scripts/a.sh", "/w/scripts/a.sh x", "cd src && ../scripts/a.sh"],
        true,
    );
    denies("Bash(./scripts/*)", &["bash tools/a.sh", "/w/tools/a.sh"], false);
    denies("Bash(deploy.sh:*)", &["bash deploy.sh x", "./deploy.sh", "python3 deploy.sh"], true);
    denies("Bash(~/bin/x:*)", &["~/bin/x", "/home/u/bin/x", "bash /home/u/bin/x"], true);
}

#[test]
fn every_spelling_of_pip_is_denied() {
    denies(
        "Bash(pip install:*)",
        &[
            "python3 -m pip install x",
            "python3 -mpip install x",
            "python3 -Impip install x",
            "python3.12 -I -mpip install x",
            "python3 -I -m pip -q install x",
            "env python3 -mpip install x",
            "pip3 install x",
            "pip3.12 install x",
            "pip-3.12 install x",
            "pip3 -q install x",
            "sudo pip3 install x",
            "/usr/bin/pip3 install x",
            "sh -c 'pip3 install x'",
        ],
        true,
    );
    denies("Bash(pip:*)", &["pip3", "pip3 list", "python3 -mpip list"], true);
    denies(
        "Bash(pip install:*)",
        &["pip3 list", "python3 -mpip list", "python3 -mvenv x", "pipx install x", "pip3x install"],
        false,
    );
    assert_eq!(judged(&[(Allow, "Bash(pip install:*)")], "pip3 install x"), Ask);
}

#[test]
fn options_before_a_subcommand_do_not_bypass_a_deny() {
    for (deny, commands) in [
        (
            "Bash(npm publish:*)",
            &[
                "npm publish",
                "npm -s publish",
                "npm --silent publish --tag x",
                "npm --prefix pkg publish",
                "npm -w pkg publish",
                "npm --registry=https://x publish",
                "npm --unheard-of publish",
                "npm --unheard-of value publish",
                "npm --a 1 --b 2 --c 3 publish",
                "npm --a 1 --b 2 --c 3 --d 4 publish",
                "npm --a 1 --b 2 --c 3 --d 4 --e 5 --f 6 --g 7 --h 8 publish --tag x",
                "npm --a 1 --b 2 --c 3 --d 4 --e 5 -s publish",
                "npm --$X value publish",
                "sudo npm --a 1 --b 2 --c 3 --d 4 --e 5 publish",
                "npm -- publish",
                "sudo npm -s publish",
                "/usr/bin/npm -s publish",
                "sh -c 'npm -s publish'",
            ][..],
        ),
        (
            "Bash(npm run deploy:*)",
            &[
                "npm run -s deploy",
                "npm -s run --silent deploy x",
                "npm run --a 1 --b 2 --c 3 --d 4 --e 5 deploy",
            ],
        ),
        ("Bash(git push:*)", &["git -C x push", "git --no-pager -c a.b=c push origin"]),
        (
            "Bash(cargo publish:*)",
            &["cargo +nightly publish", "cargo -q publish", "cargo --config a=b publish"],
        ),
        (
            "Bash(docker push:*)",
            &[
                "docker -H tcp://x push y",
                "docker --context x push y",
                "docker -D push y",
                "docker -Dl debug push y",
                "docker -DH tcp://h push y",
                "docker -DHtcp://h push y",
                "docker -Dldebug push y",
            ],
        ),
        ("Bash(docker compose down:*)", &["docker compose -f x.yml down -v"]),
        (
            "Bash(kubectl delete:*)",
            &["kubectl -n prod delete pod x", "kubectl --context=x delete pod y"],
        ),
        ("Bash(pip install:*)", &["pip -q install x", "pip --proxy x install y"]),
        ("Bash(yarn publish:*)", &["yarn --cwd x publish", "yarn -s publish"]),
        ("Bash(pnpm publish:*)", &["pnpm -r publish", "pnpm --filter x publish"]),
        ("Bash(gh pr merge:*)", &["gh -R a/b pr merge 1", "gh pr -R a/b merge 1"]),
        ("Bash(go generate:*)", &["go -C x generate ./..."]),
    ] {
        denies(deny, commands, true);
    }
    denies("Bash(npm publish:*)", &["npm -s run build", "npm --prefix publish run x"], false);
    denies("Bash(docker push:*)", &["docker -Dl debug pull y", "docker -DH tcp://h pull y"], false);
    denies(
        "Bash(rm:*)",
        &[
            "npm --unheard-of x",
            "kubectl --unheard-of get pods",
            "npm --a 1 --b 2 --c 3 publish",
            "npm --a 1 --b 2 --c 3 --d 4 --e 5 --f 6 --g 7 --h 8 publish",
        ],
        false,
    );
}

#[test]
fn commands_within_awk_and_sed_programs_are_denied() {
    denies(
        "Bash(git push:*)",
        &[
            "awk 'BEGIN{system(\"git push\")}'",
            "awk 'BEGIN{x=1system(\"git push origin\")}'",
            "awk '{\"git push\" | getline x}' f",
            "awk '{print | \"git -C x push\"}' f",
            "awk '{print | \"sh\"}' f",
            "awk '{system($0)}' f",
            "awk \"$X\" f",
            "gawk -e 'BEGIN{system(\"git push\")}'",
            "sudo /usr/bin/awk 'BEGIN{system(\"git push\")}'",
            "busybox awk 'BEGIN{system(\"git push\")}'",
            "find . -exec awk 'BEGIN{system(\"git push\")}' {} +",
            "sed '1e git push' f",
            "sed -n -e p -e '$e git push' f",
            "sed 's/x/git push/e' f",
            "timeout 5 sed --expression='1e git push' f",
        ],
        true,
    );
    denies(
        "Bash(git push:*)",
        &[
            "awk '{print $1}' f",
            "awk '/git push/ {print \"git push\"}' f",
            "awk 'BEGIN{system(\"git status\")}'",
            "awk '{print | \"sort\"}' f",
            "awk '{print > \"out\"}' f",
            "awk \"{print \\$$N}\" f",
            "sed -i 's/git pull/git push/' f",
            "sed \"s/a/$X/\" f",
            "sed -i 's|/e/|/x/|g; /e/d' f",
            "sed 'w out' f",
        ],
        false,
    );
}

#[test]
fn allow_is_not_widened_by_spellings() {
    for (allow, command) in [
        ("Bash(./deploy.sh:*)", "././deploy.sh"),
        ("Bash(./deploy.sh:*)", "bash deploy.sh"),
        ("Bash(./deploy.sh:*)", "cd src && ../deploy.sh"),
        ("Bash(git status:*)", "awk 'BEGIN{system(\"git status\")}'"),
        ("Bash(npm test:*)", "npm -s test"),
        ("Bash(npm test:*)", "npm --script-shell ./evil test"),
        ("Bash(cargo test:*)", "cargo --config x test"),
        ("Bash(cargo test:*)", "cargo +nightly test"),
    ] {
        assert_eq!(judged(&[(Allow, allow)], command), Ask, "{allow} {command}");
    }
    for (allow, command) in [
        ("Bash(./deploy.sh:*)", "./deploy.sh x"),
        ("Bash(npm run build:*)", "npm run build"),
        ("Bash(git -C sub status:*)", "git -C sub status"),
        ("Bash(cargo +nightly test:*)", "cargo +nightly test --all"),
        ("Bash(bash deploy.sh:*)", "bash deploy.sh x"),
    ] {
        assert_eq!(judged(&[(Allow, allow)], command), Allow, "{allow} {command}");
    }
}

/// Spellings of a path that resolve to `/w/deploy.sh`, from `/w` and from `/w/src`.
fn path_to_program() -> impl Strategy<Value = (String, String)> {
    let detour = prop::sample::select(vec!["./", "src/../", ".//", "a/b/../../", "dir/../"]);
    let detours = prop::collection::vec(detour, 0..4).prop_map(|all| all.concat());
    let start = prop::sample::select(vec![
        ("", "./"),
        ("", "/w/"),
        ("", "//w/./"),
        ("", "/tmp/../w/"),
        ("cd src && ", "../"),
        ("cd src; ", "../"),
        ("cd src/ && cd .. && ", "./"),
        ("cd /w/src && ls && ", "./../"),
        ("cd \"$X\" && ", "../"),
    ]);
    (start, detours).prop_map(|((goes, start), detours)| {
        (goes.to_owned(), format!("{start}{detours}deploy.sh"))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_random_spelling_bypasses_a_deny(
        (goes, path) in path_to_program(),
        starter in prop::sample::select(vec![
            "", "bash ", "sh -x ", "sudo ", "env A=1 ", "timeout 5 ", "exec ", "source ", ". ",
            "python3 -u ", "nohup nice -n 5 ", "xargs ", "sudo bash -- ", "env bash -eu ",
        ]),
        arguments in prop::sample::select(vec!["", " prod", " -x \"$Y\"", " > log", " | cat"]),
        deny in prop::sample::select(vec!["./deploy.sh:*", "/w/deploy.sh *", "src/../deploy.sh *"]),
    ) {
        let command = format!("{goes}{starter}{path}{arguments}");
        let deny = format!("Bash({deny})");
        let rules = [(Allow, "*"), (Deny, &*deny)];
        prop_assert_eq!(judged(&rules, &command), Deny, "{} {}", deny, command);
        // Inside a quoted script the directory is not tracked, so the result is `Unknown`.
        let quoted = command.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "\\$");
        let inside = format!("sh -c \"{quoted}\"");
        prop_assert_eq!(judged(&rules, &inside), Deny, "{} {}", deny, inside);
    }

    #[test]
    fn index_finds_every_rule_about_a_program(
        pattern in prop::sample::select(vec![
            "./deploy.sh *", "/w/deploy.sh", "deploy.sh *", "deploy.sh prod", "npm publish *",
            "npm run x", "./scripts/*", "*/deploy.sh", "~/bin/x *", "pip install *", "docker compose down",
            "src/../deploy.sh *",
        ]),
        starter in prop::sample::select(vec![
            "", "bash ", "sudo ", "cd src && ", "cd $X; ", "PATH=. ", "python3 -m ", "npm -s ", "npm ",
            "docker -H x compose -f y ", "for i in 1; do cd src; bash ../", "sh -c ", "node --odd ",
        ]),
        rest in prop::sample::select(vec![
            "deploy.sh", "./deploy.sh prod", "../deploy.sh", "/w/./deploy.sh", "scripts/a", "publish",
            "--prefix x publish", "run -s x", "pip -q install y", "down", "/home/u/bin/x", "$X/deploy.sh",
            "link.sh", "$X",
        ]),
        ends in prop::sample::select(vec!["", "; done", " prod"]),
    ) {
        let anchor = PathBase { directory: Some("/w".into()), home: Some("/home/u".into()) };
        let parsed = Pattern::parse(&format!("Bash({pattern})"), &anchor).unwrap();
        let context =
            PolicyContext { resolver: Arc::new(Linked), home: Some("/home/u".into()), ..PolicyContext::default() };
        let rules = Rules::new(vec![Rule::new(Deny, parsed)], context.clone()).unwrap();
        let command = format!("{starter}{rest}{ends}");
        let mut sample = Sample::new("shell", json!({"command": command}));
        sample.scope = haft_core::Scope::from(haft_core::RunScope {
            working_directory: Path::new("/w").into(),
            ..haft_core::RunScope::default() });
        let facts = sample.facts(&context);
        if rules.applies(0, &facts).is_some() {
            prop_assert!(rules.deny.find(&facts, &rules.rules).contains(&0), "{pattern} {command}");
        }
    }
}
