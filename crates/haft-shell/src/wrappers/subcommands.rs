//! Options before subcommands.
//!
//! `npm -s publish` is `npm publish`. A deny rule must see that. These views only restrict; an
//! allow rule compares the words as written.
//!
//! An unlisted option may or may not take the next word, so both readings are views. If there are
//! too many, the view is the program with an unknown word.

use crate::{Word, WordPiece, wrappers::Inner};

/// A program, and its options that take the next word as their value.
const TABLE: [(&str, &str); 13] = [
    (
        "npm",
        "-w --workspace --prefix --registry -C --userconfig --globalconfig --cache --loglevel --tag \
         --otp --access --script-shell --scope --node-options --omit --include --location -L",
    ),
    (
        "pnpm",
        "-C --dir --filter -F --filter-prod --workspace-concurrency --loglevel --reporter --tag",
    ),
    ("yarn", "--cwd --cache-folder --modules-folder --registry --network-timeout --mutex"),
    ("bun", "--cwd --filter -F --config -c --registry --tag"),
    (
        "cargo",
        "--color --config -Z -C --explain --manifest-path -p --package --target --target-dir \
         --registry --index --token -j --jobs -F --features --profile",
    ),
    (
        "docker podman nerdctl",
        "-H --host -c --context --config -l --log-level --tlscacert --tlscert --tlskey --connection \
         --url --identity --root --runroot --storage-driver -f --file -p --project-name --profile \
         --project-directory --env-file --parallel --ansi --progress -n --namespace",
    ),
    (
        "docker-compose podman-compose",
        "-f --file -p --project-name --profile --project-directory --env-file",
    ),
    (
        "kubectl oc helm",
        "-n --namespace --context --cluster --kubeconfig --kube-context -s --server --user --token \
         --as --as-group --as-uid --cache-dir --certificate-authority --client-certificate \
         --client-key --request-timeout --tls-server-name -v --v --vmodule --log-dir --profile \
         --username --password -l --selector -o --output -f --filename",
    ),
    (
        "pip pipx",
        "--python --log --proxy --retries --timeout --exists-action --trusted-host --cert \
         --client-cert --cache-dir --use-feature --use-deprecated --keyring-provider -i --index-url \
         --extra-index-url",
    ),
    ("uv", "--directory --project --python -p --cache-dir --config-file --color"),
    ("gh glab", "-R --repo --hostname -H"),
    ("go", "-C"),
    ("terraform tofu", "-chdir"),
];

/// Maximum number of readings of unlisted options.
const MAX_READINGS: usize = 4;

/// Returns whether a program of this name has subcommands after options.
///
/// ```
/// assert!(haft_shell::has_subcommands("npm"));
/// assert!(haft_shell::has_subcommands("git"));
/// assert!(!haft_shell::has_subcommands("rm"));
/// ```
#[must_use]
pub fn has_subcommands(name: &str) -> bool {
    name == "git" || valued(name).is_some()
}

fn valued(name: &str) -> Option<&'static str> {
    let name = unversioned(name);
    TABLE.iter().find(|(names, _)| names.split(' ').any(|own| own == name)).map(|(_, own)| *own)
}

/// Returns the name without a version: `pip3.12` is `pip`.
fn unversioned(name: &str) -> &str {
    match name.strip_prefix("pip") {
        Some(rest) if rest.bytes().all(|b| b.is_ascii_digit() || b == b'.' || b == b'-') => "pip",
        _ => name,
    }
}

/// Returns whether an option precedes the subcommand or the word after it, or the program name has
/// a version.
pub(crate) fn has_leading_options(name: &str, words: &[Word]) -> bool {
    unversioned(name) != name
        || words.iter().skip(1).take(2).any(is_option) && valued(name).is_some()
}

/// An option, or the toolchain of `cargo +nightly build`.
fn is_option(word: &Word) -> bool {
    matches!(word.pieces.first(), Some(WordPiece::Text(text)) if text.starts_with(['-', '+']))
}

/// Returns the command without the version in its name. Else without the options before its
/// subcommand; then also without those after the subcommand: `docker compose -f x down` is `docker
/// compose down`.
pub(crate) fn inner(name: &str, words: &[Word]) -> Vec<Inner> {
    let known = valued(name).unwrap_or_default();
    let kept = |words: &[Word], count: usize, rest: &[Word]| {
        let mut kept = words.get(..count).unwrap_or_default().to_vec();
        kept.extend_from_slice(rest);
        kept
    };
    let plain = unversioned(name);
    if plain != name {
        let view = kept(&[Word::text(plain)], 1, words.get(1..).unwrap_or_default());
        return vec![Inner::Words(view, None)];
    }
    let Some(places) = operands(words, 1, known) else {
        return vec![Inner::Words(kept(words, 1, &[Word::unknown()]), None)];
    };
    let mut found: Vec<Vec<Word>> = Vec::new();
    for at in places {
        let whole = kept(words, 1, words.get(at..).unwrap_or_default());
        match operands(&whole, 2, known) {
            Some(places) => found.extend(
                places
                    .into_iter()
                    .map(|next| kept(&whole, 2, whole.get(next..).unwrap_or_default())),
            ),
            None => found.push(kept(&whole, 2, &[Word::unknown()])),
        }
        found.push(whole);
    }
    let mut distinct: Vec<Vec<Word>> = Vec::new();
    for view in found {
        // A view that still starts with an option is checked again.
        if view != words && !distinct.contains(&view) {
            distinct.push(view);
        }
    }
    distinct.into_iter().map(|words| Inner::Words(words, None)).collect()
}

/// Returns where the next operand may be: one position, or more if it is unknown whether an option
/// takes the next word. `None` if there are too many.
fn operands(words: &[Word], from: usize, known: &str) -> Option<Vec<usize>> {
    let mut places = Vec::new();
    let mut at = from;
    while let Some(word) = words.get(at).filter(|word| is_option(word)) {
        at += 1;
        if word.literal() == Some("--") {
            break;
        }
        match value(word, known) {
            Value::None => {}
            Value::Next => at += 1,
            Value::Maybe if words.get(at).is_some_and(|next| !is_option(next)) => {
                places.push(at);
                at += 1;
            }
            Value::Maybe => {}
        }
        if places.len() >= MAX_READINGS {
            return None;
        }
    }
    if at < words.len() {
        places.push(at);
    }
    Some(places)
}

/// Whether an option takes the next word.
enum Value {
    None,
    Next,
    Maybe,
}

fn value(word: &Word, known: &str) -> Value {
    let Some(WordPiece::Text(text)) = word.pieces.first() else { return Value::Maybe };
    if text.contains('=') || text.starts_with('+') {
        return Value::None;
    }
    let is_known = |option: &str| known.split_whitespace().any(|own| own == option);
    if word.literal().is_some_and(is_known) {
        return Value::Next;
    }
    // In a cluster the last letter may take the next word: `-DH tcp://h`.
    let last = text.chars().next_back().map(|letter| format!("-{letter}"));
    let is_unlisted = text.starts_with("--") || word.has_unknown();
    if is_unlisted || last.is_some_and(|last| is_known(&last)) { Value::Maybe } else { Value::None }
}
