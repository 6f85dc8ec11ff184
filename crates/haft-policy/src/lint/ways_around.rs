//! Known ways around a rule: commands that do what it restricts, and that it does not match.
//!
//! A rule about a program restricts a name and not an effect: `rm` is denied, and `find -delete` is
//! not. Each reported command was judged by the rules, so a rule that also covers it is not
//! reported.

use haft_core::Decision;
use serde_json::json;

use crate::{facts::Sample, pattern::Pattern, rules::Rules};

/// For each program, an ordinary use of it and other commands with the same effect.
const PROGRAMS: [(&str, &str, &[&str]); 16] = [
    (
        "rm",
        "rm -rf x",
        &[
            "find x -delete",
            "git clean -fdx x",
            "unlink x",
            "python3 -c 'import shutil; shutil.rmtree(\"x\")'",
        ],
    ),
    (
        "rm -rf",
        "rm -rf x",
        &["rm -fr x", "rm -r -f x", "rm --recursive --force x", "find x -delete"],
    ),
    (
        "git push --force",
        "git push --force",
        &["git push -f", "git push origin main --force", "git push origin +main"],
    ),
    ("git push -f", "git push -f", &["git push --force", "git push origin +main"]),
    (
        "git commit --no-verify",
        "git commit --no-verify",
        &["git commit -n", "git commit -m x --no-verify", "git -c core.hooksPath=x commit"],
    ),
    (
        "git reset --hard",
        "git reset --hard",
        &["git checkout -f", "git restore .", "git reset -q --hard"],
    ),
    ("npm install", "npm install x", &["npm i x", "npm add x", "npx -y x", "yarn add x"]),
    ("pip install", "pip install x", &["uv pip install x", "pipx install x"]),
    (
        "curl",
        "curl https://x.org",
        &[
            "wget -qO- https://x.org",
            "python3 -c 'import urllib.request as u; u.urlopen(\"https://x.org\")'",
        ],
    ),
    ("wget", "wget https://x.org", &["curl https://x.org"]),
    (
        "git push",
        "git push origin main",
        &["gh repo sync", "python3 -c 'import os; os.system(\"git push\")'"],
    ),
    ("git commit", "git commit -m x", &["git merge x", "git cherry-pick x", "git am x"]),
    ("npm publish", "npm publish", &["yarn publish", "pnpm publish", "npx -y np"]),
    ("sudo", "sudo x", &["su -c x", "doas x", "pkexec x"]),
    (
        "chmod",
        "chmod +x a",
        &[
            "install -m 755 a b",
            "git update-index --chmod=+x a",
            "python3 -c 'import os; os.chmod(\"a\", 493)'",
        ],
    ),
    ("ssh", "ssh host", &["scp a host:", "rsync a host:", "git clone ssh://host/x"]),
];

/// Ways to read a denied file with a command that does not name it as a file.
const READS: [&str; 3] =
    ["git show HEAD:{}", "python3 -c 'print(open(\"{}\").read())'", "tar cf - ."];

/// Returns what gets around a rule that denies or asks, and how to close it.
pub(super) fn find(rules: &Rules, at: usize) -> Option<(String, String)> {
    let rule = rules.rules().get(at)?;
    if !matches!(rule.decision, Decision::Deny | Decision::Ask) {
        return None;
    }
    let own = rule.decision.as_str();
    rule.matches.iter().find_map(|pattern| {
        let (subject, ways) = match pattern.restricted_path() {
            Some(path) => (format!("reading `{path}`"), reads(rules, path)),
            None => {
                let program = program(rules, at, pattern)?;
                (format!("`{}`", program.0), programs(rules, program))
            }
        };
        let shown: Vec<String> = ways.iter().map(|way| format!("`{way}`")).collect();
        let first = ways.first()?;
        let message = format!(
            "{subject} is restricted (`{own}`), and {} {} not",
            shown.join(", "),
            if shown.len() == 1 { "is" } else { "are" },
        );
        Some((message, format!("try `haft explain Bash command={}`", quoted(first))))
    })
}

/// Returns the program that a rule is about as a whole.
fn program(
    rules: &Rules,
    at: usize,
    pattern: &Pattern,
) -> Option<&'static (&'static str, &'static str, &'static [&'static str])> {
    let command = pattern.as_str().strip_prefix("Bash(")?;
    let named = |(program, ..): &&(&str, &str, &[&str])| {
        command.strip_prefix(program).is_some_and(|rest| rest.starts_with([' ', ':', '*', ')']))
    };
    let program = PROGRAMS.iter().filter(named).max_by_key(|(program, ..)| program.len())?;
    rules.applies_to_sample(at, &sample(program.1)).then_some(program)
}

fn programs(rules: &Rules, program: &(&str, &str, &[&'static str])) -> Vec<String> {
    let is_open = |way: &&&str| !rules.restricts_sample(&sample(way));
    // Its first way is another spelling: if that is restricted, a rule about the whole program is
    // there, and is reported.
    if program.0.contains(" -") && !program.2.first().is_some_and(|way| is_open(&way)) {
        return Vec::new();
    }
    program.2.iter().filter(is_open).map(|way| (*way).to_owned()).collect()
}

fn reads(rules: &Rules, path: &str) -> Vec<String> {
    let path = path.trim_start_matches("./");
    // Globs name no file that a command could name.
    if path.contains(['*', '?', '[', '~']) || path.starts_with('/') {
        return Vec::new();
    }
    let ways = READS.iter().map(|way| way.replace("{}", path));
    ways.filter(|way| !rules.restricts_sample(&sample(way))).collect()
}

fn sample(command: &str) -> Sample {
    Sample::new("shell", json!({"command": command}))
}

/// Quotes a text for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
