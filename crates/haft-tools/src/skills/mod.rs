//! Skills: directories with a `SKILL.md` that a model loads when it needs them.
//!
//! The model always sees names and descriptions, as part of the tool `skill__load`. That tool
//! returns the text of a skill, and `skill__read` a file of it. Files are read below the directory
//! of the skill only, through a directory file descriptor: a symlink that leaves it is refused.
//! The directories are listed again before each turn, and changed files are read again, so a
//! changed skill takes effect on the next.

mod access;
mod grants;
mod load;
mod read;
mod skill;

use std::{
    collections::HashMap,
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use haft::registry::ToolSource;
use haft_core::{BoxError, BoxFuture, DynTool, sync::lock};
use haft_sandbox::{
    Access, FileKind, FileVersion, PathError, PathErrorKind, ResolvedPath, Workspace,
};

pub use self::{
    grants::SkillGrants,
    skill::{Skill, SkillFinding},
};

/// The name of the source, and the prefix of its tools.
const SOURCE: &str = "skill";
/// How many skills a directory may have; more than a model can choose among.
const MAX_SKILLS: usize = 200;
/// How many entries of a directory are looked at; files that are no skills count too.
const MAX_ENTRIES: usize = 10_000;
/// The largest `SKILL.md`, in bytes.
const MAX_SKILL_BYTES: usize = 256 << 10;

/// Skills of one or more directories, as a source of tools. Clones share everything.
///
/// ```
/// use haft::ToolRegistry;
/// use haft_tools::Skills;
///
/// let skills = Skills::new().directory("/srv/project/.claude/skills", false);
/// assert!(skills.list().is_empty(), "the directory does not exist");
/// let registry = ToolRegistry::builder().source(skills).build()?;
/// # Ok::<(), haft::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Skills {
    roots: Vec<SkillRoot>,
    known: Arc<Mutex<Known>>,
    grants: SkillGrants,
}

/// A directory that has a directory for each skill.
#[derive(Clone)]
struct SkillRoot {
    path: PathBuf,
    /// The directory that it must not leave through a symlink.
    within: Option<PathBuf>,
    trusts: Arc<TrustFn>,
    /// What each `SKILL.md` said, with the version of the file. An unchanged file is not read
    /// again. [`load`] compares a skill with its file before it returns or grants anything.
    parsed: Arc<Mutex<HashMap<String, (FileVersion, ParsedSkill)>>>,
}

/// A skill, or what is wrong with its file.
type ParsedSkill = Result<Skill, SkillFinding>;

/// Whether a `SKILL.md` with this content is trusted.
type TrustFn = dyn Fn(&Path, &[u8]) -> bool + Send + Sync;

/// What was read last.
#[derive(Default)]
struct Known {
    skills: Arc<Vec<Skill>>,
    tools: Vec<DynTool>,
}

impl Skills {
    /// Makes a source without a directory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a directory that has a directory for each skill, by its absolute path. It need not
    /// exist. Of two skills with the same name a trusted one counts, else the one added first.
    ///
    /// A skill of a directory that is not trusted grants nothing, and its text is labelled as
    /// untrusted.
    #[must_use]
    pub fn directory(self, path: impl Into<PathBuf>, is_trusted: bool) -> Self {
        self.directory_with_trust(path, move |_, _| is_trusted)
    }

    /// Adds a directory of which each `SKILL.md` is trusted or not, by its path and its content.
    /// The function is asked when a file is new or has changed: a file that changed since it was
    /// trusted grants nothing.
    #[must_use]
    pub fn directory_with_trust(
        self,
        path: impl Into<PathBuf>,
        trusts: impl Fn(&Path, &[u8]) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.add(path.into(), None, Arc::new(trusts))
    }

    /// Adds a directory as [`directory_with_trust`](Self::directory_with_trust) does. While it is,
    /// or is below, a symlink out of `project`, it is not read.
    #[must_use]
    pub fn directory_of_project(
        self,
        path: impl Into<PathBuf>,
        project: impl Into<PathBuf>,
        trusts: impl Fn(&Path, &[u8]) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.add(path.into(), Some(project.into()), Arc::new(trusts))
    }

    fn add(mut self, path: PathBuf, within: Option<PathBuf>, trusts: Arc<TrustFn>) -> Self {
        self.roots.push(SkillRoot { path, within, trusts, parsed: Arc::default() });
        self
    }

    /// Returns whether there is no directory.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// Returns the hook that makes `allowed-tools` of loaded skills count. Without it they grant
    /// nothing.
    #[must_use]
    pub fn grants(&self) -> SkillGrants {
        self.grants.clone()
    }

    /// Reads the skills that are there now, in order.
    #[must_use]
    pub fn list(&self) -> Vec<Skill> {
        self.read().0
    }

    /// Reads the directories and returns what is wrong with their skills. The other skills work.
    #[must_use]
    pub fn findings(&self) -> Vec<SkillFinding> {
        self.read().1
    }

    /// Reads every directory.
    fn read(&self) -> (Vec<Skill>, Vec<SkillFinding>) {
        let (mut skills, mut findings): (Vec<Skill>, Vec<SkillFinding>) = Default::default();
        for root in &self.roots {
            let found = read_root(root, &mut findings);
            for skill in found {
                match skills.iter_mut().find(|own| own.name == skill.name) {
                    Some(first) => {
                        let mut other = skill;
                        if other.is_trusted && !first.is_trusted {
                            std::mem::swap(first, &mut other);
                        }
                        let why = format!(
                            "another skill has the name `{}`: {}",
                            other.name,
                            first.file().display()
                        );
                        findings.push(SkillFinding::of_skill(other.file(), 1, why));
                    }
                    None => skills.push(skill),
                }
            }
        }
        (skills, findings)
    }

    /// Returns the tools for the skills that are there now. Unchanged skills give the same tools,
    /// so that the registry stays the same.
    fn tools_now(&self) -> Vec<DynTool> {
        let (skills, _) = self.read();
        let mut known = lock(&self.known);
        if known.tools.is_empty() || *known.skills != skills {
            known.skills = Arc::new(skills);
            known.tools = match known.skills.iter().any(Skill::is_offered) {
                true => vec![
                    load::tool(&known.skills, self.grants.clone()),
                    read::tool(Arc::clone(&known.skills)),
                ],
                false => Vec::new(),
            };
        }
        known.tools.clone()
    }
}

impl fmt::Debug for Skills {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let roots = self.roots.iter().map(|root| &root.path).collect::<Vec<_>>();
        f.debug_struct("Skills").field("roots", &roots).finish_non_exhaustive()
    }
}

impl ToolSource for Skills {
    fn name(&self) -> &str {
        SOURCE
    }

    fn tools(&self) -> BoxFuture<'_, Result<Vec<DynTool>, BoxError>> {
        let skills = self.clone();
        Box::pin(async move { Ok(tokio::task::spawn_blocking(move || skills.tools_now()).await?) })
    }
}

/// Reads the skills of one directory, by name.
fn read_root(root: &SkillRoot, findings: &mut Vec<SkillFinding>) -> Vec<Skill> {
    let of_directory = |why: String| SkillFinding::of_directory(root.path.clone(), why);
    let workspace = match check_inside(root).and_then(|()| open(&root.path)) {
        Ok(Some(workspace)) => workspace,
        Ok(None) => return Vec::new(),
        Err(why) => {
            findings.push(of_directory(why));
            return Vec::new();
        }
    };
    let list = workspace.resolve(".").and_then(|top| workspace.list_at_most(&top, MAX_ENTRIES));
    let list = match list {
        Ok((list, is_cut)) => {
            if is_cut {
                let why = format!("it has more than {MAX_ENTRIES} entries; the rest is not read");
                findings.push(of_directory(why));
            }
            list
        }
        Err(error) => {
            findings.push(of_directory(error.to_string()));
            return Vec::new();
        }
    };
    let mut skills = Vec::new();
    for entry in list {
        let relative = entry.resolved().relative().to_owned();
        let Some(name) = relative.to_str().filter(|name| !name.starts_with('.')) else { continue };
        let file = root.path.join(&relative).join("SKILL.md");
        match entry.kind() {
            FileKind::Directory => {}
            // FAIL CLOSED: its target may be anywhere, and may change.
            FileKind::Symlink => {
                let why = "the directory of the skill is a symlink, which is not followed";
                findings.push(SkillFinding::of_skill(file, 1, why));
                continue;
            }
            _ => continue,
        }
        if skills.len() >= MAX_SKILLS {
            let why = format!("it has more than {MAX_SKILLS} skills; the rest is not read");
            findings.push(of_directory(why));
            break;
        }
        match read_skill(&workspace, root, name) {
            Some(Ok(skill)) => skills.push(skill),
            Some(Err(finding)) => findings.push(finding),
            None => {}
        }
    }
    skills
}

/// Opens a directory of skills; `None` if it does not exist.
fn open(path: &Path) -> Result<Option<Workspace>, String> {
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let workspace = Workspace::builder().root(path, Access::Read).build();
    workspace.map(Some).map_err(|error| error.to_string())
}

/// FAIL CLOSED: refuses a directory that a symlink leads out of the project. Its files were not
/// reviewed with the project. A directory that does not exist has no files.
fn check_inside(root: &SkillRoot) -> Result<(), String> {
    let Some(within) = &root.within else { return Ok(()) };
    match (root.path.canonicalize(), within.canonicalize()) {
        (Ok(path), Ok(within)) if path.starts_with(&within) => Ok(()),
        (Err(_), _) if root.path.symlink_metadata().is_err() => Ok(()),
        _ => Err("it is a symlink out of the project, so its skills are not read".to_owned()),
    }
}

/// Reads and parses the `SKILL.md` of a skill, unless the file is unchanged; `None` if it has none.
fn read_skill(workspace: &Workspace, root: &SkillRoot, name: &str) -> Option<ParsedSkill> {
    let file = root.path.join(name).join("SKILL.md");
    let wrong = |why: String| Some(Err(SkillFinding::of_skill(file.clone(), 1, why)));
    let found = resolve_inside(workspace, name, "SKILL.md");
    let found = found.and_then(|resolved| Ok((workspace.meta(&resolved)?.stamp, resolved)));
    let (version, resolved) = match found {
        Ok(found) => found,
        Err(error) if error.is_missing => return None,
        Err(error) => return wrong(error.message),
    };
    let parsed = || lock(&root.parsed);
    if let Some((known, skill)) = parsed().get(name)
        && *known == version
    {
        return Some(skill.clone());
    }
    let bytes = match workspace.read(&resolved, MAX_SKILL_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.cause() == PathErrorKind::NotFound => return None,
        Err(error) => return wrong(error.to_string()),
    };
    let Ok(text) = String::from_utf8(bytes) else {
        return wrong("the file is not UTF-8".to_owned());
    };
    let is_trusted = (root.trusts)(&file, text.as_bytes());
    let skill = Skill::parse(name, &text, &root.path, is_trusted)
        .map_err(|error| SkillFinding::of_skill(file.clone(), error.line, error.message));
    let mut parsed = parsed();
    if parsed.len() >= MAX_ENTRIES {
        parsed.clear();
    }
    parsed.insert(name.to_owned(), (version, skill.clone()));
    Some(skill)
}

/// Why a file of a skill cannot be read.
struct Unreadable {
    is_missing: bool,
    message: String,
}

impl From<PathError> for Unreadable {
    fn from(error: PathError) -> Self {
        Self { is_missing: error.cause() == PathErrorKind::NotFound, message: error.to_string() }
    }
}

/// Resolves a path below the directory of a skill. FAIL CLOSED: a path that leaves it, also through
/// a symlink, is refused (path traversal).
fn resolve_inside(
    workspace: &Workspace,
    skill: &str,
    path: &str,
) -> Result<ResolvedPath, Unreadable> {
    let outside = || Unreadable {
        is_missing: false,
        message: format!("`{path}` is outside of the directory of the skill"),
    };
    if Path::new(path).is_absolute() {
        return Err(outside());
    }
    let resolved = workspace.resolve(Path::new(skill).join(path))?;
    if !resolved.relative().starts_with(skill) || resolved.relative() == Path::new(skill) {
        return Err(outside());
    }
    Ok(resolved)
}
