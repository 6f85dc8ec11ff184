//! Programs that start a command from the rest of their words after a subcommand: `uv run`, `docker
//! exec`.
//!
//! An unlisted option makes the start of the command unknown.

use crate::{Word, wrappers::Options};

/// A program that starts a command.
struct Launcher {
    /// Names, separated by spaces.
    names: &'static str,
    /// The subcommand, one word or two. Empty if the command follows directly.
    path: &'static str,
    options: Options,
}

/// What a launcher starts.
pub(super) enum Launched {
    /// These words.
    Words(Vec<Word>),
    /// These words as a shell text.
    Shell(Vec<Word>),
    /// The program text on stdin.
    Input,
    /// Something; the start of the command is unknown.
    Unclear,
}

const PLAIN: Options =
    Options { flags: "qv", valued: "", long: &["quiet", "verbose"], operands: 0 };

const CONTAINER: Options = Options {
    flags: "ditTPq",
    valued: "euwvphlmcn",
    long: &[
        "detach",
        "interactive",
        "tty",
        "privileged",
        "rm",
        "init",
        "quiet",
        "read-only",
        "no-deps",
        "no-TTY",
        "build",
        "service-ports",
        "publish-all",
        "env=",
        "env-file=",
        "user=",
        "workdir=",
        "detach-keys=",
        "name=",
        "volume=",
        "mount=",
        "network=",
        "net=",
        "publish=",
        "memory=",
        "cpus=",
        "platform=",
        "entrypoint=",
        "hostname=",
        "label=",
        "pull=",
        "tmpfs=",
        "cap-add=",
        "cap-drop=",
        "security-opt=",
        "pids-limit=",
        "userns=",
        "index=",
    ],
    operands: 1,
};

const PACKAGE: Options = Options {
    flags: "yq",
    valued: "pc",
    long: &["yes", "no", "no-install", "quiet", "package=", "call=", "spec=", "from=", "with="],
    operands: 0,
};

const TABLE: [Launcher; 17] = [
    Launcher {
        names: "uv",
        path: "run",
        options: Options {
            flags: "qvnUs",
            valued: "p",
            long: &[
                "quiet",
                "verbose",
                "no-sync",
                "frozen",
                "locked",
                "isolated",
                "active",
                "offline",
                "no-project",
                "no-dev",
                "all-extras",
                "exact",
                "no-cache",
                "script",
                "with=",
                "python=",
                "project=",
                "directory=",
                "env-file=",
                "extra=",
                "group=",
                "package=",
                "index=",
                "with-requirements=",
                "with-editable=",
            ],
            operands: 0,
        },
    },
    Launcher { names: "uv", path: "tool run", options: PACKAGE },
    Launcher { names: "uvx npx bunx", path: "", options: PACKAGE },
    Launcher { names: "npm", path: "exec", options: PACKAGE },
    Launcher { names: "npm", path: "x", options: PACKAGE },
    Launcher { names: "pipx bun", path: "run", options: PACKAGE },
    Launcher { names: "pnpm yarn", path: "dlx", options: PACKAGE },
    Launcher {
        names: "pnpm yarn bundle bundler mise rbenv pyenv nodenv opam asdf devbox dotenv nix-shell",
        path: "exec",
        options: PLAIN,
    },
    Launcher {
        names: "poetry pdm rye hatch pixi pipenv toolbox doppler op devbox heroku",
        path: "run",
        options: PLAIN,
    },
    Launcher {
        names: "conda mamba micromamba",
        path: "run",
        options: Options {
            flags: "v",
            valued: "np",
            long: &["name=", "prefix=", "cwd=", "no-capture-output", "live-stream", "verbose"],
            operands: 0,
        },
    },
    Launcher { names: "docker podman nerdctl", path: "exec", options: CONTAINER },
    Launcher { names: "docker podman nerdctl", path: "run", options: CONTAINER },
    Launcher { names: "docker podman nerdctl", path: "compose exec", options: CONTAINER },
    Launcher { names: "docker podman nerdctl", path: "compose run", options: CONTAINER },
    Launcher { names: "docker-compose podman-compose", path: "exec", options: CONTAINER },
    Launcher {
        names: "kubectl oc lxc incus direnv rustup aws-vault",
        path: "exec",
        options: Options {
            flags: "itq",
            valued: "cfn",
            long: &["stdin", "tty", "quiet", "container=", "namespace=", "env=", "user=", "cwd="],
            operands: 1,
        },
    },
    Launcher {
        names: "rustup",
        path: "run",
        options: Options { flags: "", valued: "", long: &["install"], operands: 1 },
    },
];

/// Returns whether a program of this name is a launcher.
pub(super) fn is_known(name: &str) -> bool {
    name == "adb" || TABLE.iter().any(|own| own.names.split(' ').any(|own| own == name))
}

/// Returns what a command of this name starts; `None` if it starts nothing.
pub(super) fn launched(name: &str, words: &[Word]) -> Option<Launched> {
    let text = |n: usize| words.get(n).and_then(Word::literal);
    if name == "adb" && text(1) == Some("shell") {
        return Some(Launched::Shell(words.get(2..)?.to_vec()));
    }
    let is_it = |own: &&Launcher| {
        own.names.split(' ').any(|own| own == name)
            && own.path.split_whitespace().enumerate().all(|(n, part)| text(n + 1) == Some(part))
    };
    let launcher = TABLE.iter().find(is_it)?;
    let own = words.get(launcher.path.split_whitespace().count()..)?;
    let Some(given) = launcher.options.read(own) else { return Some(Launched::Unclear) };
    let option = |names: &[&str]| {
        let found = given.options.iter().find(|(name, _)| names.contains(&&**name));
        found.and_then(|(_, value)| *value)
    };
    let is_package = launcher.options.long.contains(&"call=");
    if let Some(call) = option(&["call", "c"]).filter(|_| is_package) {
        return Some(Launched::Shell(vec![Word::text(call)]));
    }
    let mut rest = own.get(given.rest..).unwrap_or_default();
    match rest.first().and_then(Word::literal) {
        Some("--") => rest = rest.get(1..).unwrap_or_default(),
        Some("-") if name == "uv" => return Some(Launched::Input),
        // Options after the operand: the command starts after `--`.
        Some(word) if word.starts_with('-') => {
            let dashes = rest.iter().position(|word| word.literal() == Some("--"));
            let Some(dashes) = dashes else { return Some(Launched::Unclear) };
            rest = rest.get(dashes + 1..).unwrap_or_default();
        }
        _ => {}
    }
    let entrypoint = option(&["entrypoint"]).map(Word::text);
    Some(Launched::Words(entrypoint.into_iter().chain(rest.iter().cloned()).collect()))
}
