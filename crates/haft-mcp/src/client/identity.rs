//! What a server is, besides its definitions: its command or URL, the file that is run, and the
//! name that it gives itself. A server that became another one is not trusted with old approvals.
//!
//! In: the command of a server. Out: the file to run, and its digest. INVARIANT: no value of a
//! variable is kept, because it may be a secret.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::config::{ServerTransport, StdioCommand};

/// A larger file is not read.
const MAX_PROGRAM_BYTES: u64 = 512 << 20;
/// How many digests are kept in memory.
const MAX_DIGESTS: usize = 1_000;

/// Programs that run a package. The package is an argument, so that the command names it.
const LAUNCHERS: &[&str] = &[
    "npx", "npm", "pnpm", "pnpx", "yarn", "bunx", "uvx", "pipx", "docker", "podman", "nix",
    "cargo", "go", "ssh",
];
/// Programs that run a file. The file counts, not the interpreter, which changes with the system.
const INTERPRETERS: &[&str] = &[
    "node",
    "nodejs",
    "deno",
    "bun",
    "tsx",
    "python",
    "uv",
    "ruby",
    "perl",
    "php",
    "java",
    "dotnet",
    "sh",
    "bash",
    "dash",
    "zsh",
    "fish",
    "env",
    "cmd",
    "powershell",
    "pwsh",
];

/// The file that is run, as it was pinned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedProgram {
    /// Where it was, for people. Another place with the same content is the same program.
    pub path: String,
    /// The digest of its content.
    pub hash: String,
}

/// What a server is, as far as it is known at its start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ServerIdentity {
    /// The command or the URL, as its file writes it.
    pub(super) command: String,
    /// The file that is run; `None` for a URL, for a package, and for a file that cannot be read.
    pub(super) program: Option<PinnedProgram>,
    /// The name that the server gives itself.
    pub(super) name: Option<String>,
}

impl ServerIdentity {
    /// Returns a digest of it. A tool has it in its definition, so that approvals for the tool of
    /// another server do not count.
    pub(super) fn digest(&self) -> String {
        let program = self.program.as_ref().map_or("", |program| &program.hash);
        let mut hasher = Sha256::new();
        for part in [&*self.command, program, self.name.as_deref().unwrap_or_default()] {
            hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        shown(&hasher.finalize())
    }
}

/// The machine that a digest of a program counts for: another one has another build of it.
pub(super) fn platform() -> String {
    format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH)
}

/// Returns the program of a server with its digest. It reads a file.
pub(super) fn program(transport: &ServerTransport) -> Option<PinnedProgram> {
    let ServerTransport::Stdio(command) = transport else { return None };
    let path = program_file(command)?;
    let hash = digest(&path).ok()?;
    Some(PinnedProgram { path: path.display().to_string(), hash })
}

/// Finds the file whose code runs.
fn program_file(command: &StdioCommand) -> Option<PathBuf> {
    let program = Path::new(&command.program);
    let stem = program.file_stem()?.to_str()?.to_ascii_lowercase();
    // `python3.12` is `python`.
    let stem = stem.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if LAUNCHERS.contains(&stem) {
        return None;
    }
    if INTERPRETERS.contains(&stem) {
        let words = command.args.iter().filter(|word| !word.starts_with('-'));
        return words
            .map(|word| in_directory(command, Path::new(word)))
            .find(|path| path.is_file());
    }
    if program.components().count() > 1 {
        return Some(in_directory(command, program));
    }
    let directories = std::env::split_paths(command.environment.get("PATH")?);
    directories.map(|directory| directory.join(program)).find(|path| path.is_file())
}

fn in_directory(command: &StdioCommand, path: &Path) -> PathBuf {
    match &command.directory {
        Some(directory) => directory.join(path),
        None => path.to_owned(),
    }
}

/// Which content of a file: the kernel changes one of these with every write.
#[derive(PartialEq, Eq, Hash)]
struct FileVersion(PathBuf, Vec<i128>);

type Digests = Mutex<HashMap<FileVersion, Arc<OnceLock<Option<String>>>>>;

/// Returns the digest of a file. A hundred servers may be one program, which is read once.
fn digest(path: &Path) -> io::Result<String> {
    static DIGESTS: OnceLock<Digests> = OnceLock::new();
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > MAX_PROGRAM_BYTES {
        return Err(io::Error::other("it is not a file, or it is too large"));
    }
    let Some(version) = version(path, &metadata) else { return read(file) };
    let mut known =
        DIGESTS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() >= MAX_DIGESTS {
        known.clear();
    }
    let digest = Arc::clone(known.entry(version).or_default());
    drop(known);
    let digest = digest.get_or_init(|| read(file).ok());
    digest.clone().ok_or_else(|| io::Error::other("it cannot be read"))
}

#[cfg(unix)]
fn version(path: &Path, metadata: &fs::Metadata) -> Option<FileVersion> {
    use std::os::unix::fs::MetadataExt as _;
    let m = metadata;
    // The time of the last change of the inode cannot be set by a program.
    let numbers = [
        i128::from(m.dev()),
        i128::from(m.ino()),
        i128::from(m.len()),
        i128::from(m.mtime()),
        i128::from(m.mtime_nsec()),
        i128::from(m.ctime()),
        i128::from(m.ctime_nsec()),
    ];
    Some(FileVersion(path.to_owned(), numbers.to_vec()))
}

#[cfg(not(unix))]
fn version(_: &Path, _: &fs::Metadata) -> Option<FileVersion> {
    None
}

fn read(file: File) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; 256 << 10];
    let mut file = file.take(MAX_PROGRAM_BYTES);
    loop {
        match file.read(&mut chunk)? {
            0 => break,
            n => hasher.update(chunk.get(..n).unwrap_or_default()),
        }
    }
    Ok(shown(&hasher.finalize()))
}

fn shown(digest: &[u8]) -> String {
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_of(program: &str, args: &[&str], directory: &Path) -> Option<PathBuf> {
        let mut command = StdioCommand::new(program).args(args.iter().copied());
        command.directory = Some(directory.to_owned());
        command.environment.insert("PATH".into(), directory.display().to_string());
        program_file(&command)
    }

    #[test]
    fn program_is_the_file_whose_code_runs() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["server", "server.py", "data.json"] {
            fs::File::create(dir.path().join(name)).unwrap();
        }
        let at = |name: &str| Some(dir.path().join(name));
        let cases: [(&str, &[&str], _); 7] = [
            ("server", &["data.json"], at("server")),
            ("./server", &[], at("./server")),
            ("python3.12", &["-u", "server.py", "data.json"], at("server.py")),
            ("/usr/bin/sh", &["server"], at("server")),
            ("npx", &["-y", "some-package", "data.json"], None),
            ("python", &["-m", "some_package"], None),
            ("not-here", &[], None),
        ];
        for (program, args, found) in cases {
            assert_eq!(file_of(program, args, dir.path()), found, "{program} {args:?}");
        }
    }

    #[test]
    fn digest_follows_the_content_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server");
        let digest_of = |text: &str| {
            // A new file in its place, as a package manager writes it.
            let new = dir.path().join("new");
            std::io::Write::write_all(&mut File::create(&new).unwrap(), text.as_bytes()).unwrap();
            fs::rename(&new, &path).unwrap();
            digest(&path).unwrap()
        };
        let first = digest_of("one");
        assert_eq!(first, digest(&path).unwrap());
        assert_ne!(first, digest_of("two"));
        assert_eq!(first, digest_of("one"));
        assert!(digest(dir.path()).is_err(), "a directory");
    }
}
