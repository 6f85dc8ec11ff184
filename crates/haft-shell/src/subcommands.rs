//! Programs with subcommands, and the options that may stand before a subcommand.
//!
//! `npm -s publish` is `npm publish`. A rule that denies must see that. The views made here are only
//! for what restricts; an allow compares the words as they are written.
//!
//! An option that is not in the table may or may not take the next word, so both readings are views.

use crate::{Piece, Word, wrappers::Inner};

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

/// No more readings are made of options that are not known.
const MOST_READINGS: usize = 4;

/// Returns whether a program of this name has subcommands that options may stand before.
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
    // `pip3.12` is `pip`.
    let name = match name.strip_prefix("pip") {
        Some(rest) if rest.bytes().all(|b| b.is_ascii_digit() || b == b'.') => "pip",
        _ => name,
    };
    TABLE.iter().find(|(names, _)| names.split(' ').any(|own| own == name)).map(|(_, own)| *own)
}

/// Returns whether an option stands before the subcommand, or before what follows it.
pub(crate) fn may_skip(name: &str, words: &[Word]) -> bool {
    words.iter().skip(1).take(2).any(is_option) && valued(name).is_some()
}

/// An option, or the toolchain of `cargo +nightly build`.
fn is_option(word: &Word) -> bool {
    matches!(word.pieces.first(), Some(Piece::Text(text)) if text.starts_with(['-', '+']))
}

/// Returns the command without the options before its subcommand; then also without those between the
/// subcommand and what follows: `docker compose -f x down` is `docker compose down`.
pub(crate) fn inner(name: &str, words: &[Word]) -> Vec<Inner> {
    let known = valued(name).unwrap_or_default();
    let mut found: Vec<Vec<Word>> = Vec::new();
    for at in operand(words, 1, known) {
        let mut whole = words.get(..1).unwrap_or_default().to_vec();
        whole.extend_from_slice(words.get(at..).unwrap_or_default());
        for next in operand(&whole, 2, known) {
            let mut short = whole.get(..2).unwrap_or_default().to_vec();
            short.extend_from_slice(whole.get(next..).unwrap_or_default());
            found.push(short);
        }
        found.push(whole);
    }
    let mut distinct: Vec<Vec<Word>> = Vec::new();
    for view in found {
        // What still has an option in front is looked at once more.
        if view != words && !distinct.contains(&view) {
            distinct.push(view);
        }
    }
    distinct.into_iter().map(|words| Inner::Words(words, None)).collect()
}

/// Returns where the next word stands that is no option: one place, or two where it cannot be told
/// whether an option takes the word behind it.
fn operand(words: &[Word], from: usize, known: &str) -> Vec<usize> {
    let mut at = from;
    while let Some(word) = words.get(at).filter(|word| is_option(word)) {
        at += 1;
        let Some(text) = word.literal() else { continue };
        if text == "--" {
            break;
        }
        if text.contains('=') || text.starts_with('+') {
            continue;
        }
        if known.split_whitespace().any(|own| own == text) {
            at += 1;
        } else if text.starts_with("--") && words.get(at).is_some_and(|next| !is_option(next)) {
            // Not listed: with a value and without one.
            let mut both = vec![at];
            both.extend(operand(words, at + 1, known));
            both.truncate(MOST_READINGS);
            return both;
        }
    }
    if at < words.len() { vec![at] } else { Vec::new() }
}
