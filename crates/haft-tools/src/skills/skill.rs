//! One skill: its `SKILL.md`, parsed and checked.
//!
//! In: the name of its directory and the text. Out: the skill, or what is wrong with a line. Pure.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use haft::{
    front_matter::{FieldValue, FrontMatter, FrontMatterError},
    policy::{PathBase, Pattern},
};

/// The longest name and description, in characters, as the format of skills says.
const MAX_NAME_CHARS: usize = 64;
const MAX_DESCRIPTION_CHARS: usize = 1_024;

/// A skill.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skill {
    /// Its name, which is that of its directory.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// Its text below the front matter.
    pub body: String,
    /// The tools that it wants to use without a question, as patterns of rules.
    pub allowed_tools: Vec<String>,
    /// Whether its directory is trusted. Otherwise it grants nothing.
    pub is_trusted: bool,
    /// Whether the model may load it (`disable-model-invocation`).
    pub is_for_models: bool,
    /// The directory that has the directory of the skill.
    pub root: PathBuf,
}

/// Something wrong with a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillFinding {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what to write instead.
    pub message: String,
    /// Whether it is about a whole directory of skills, and not about one skill that is left out.
    pub is_about_directory: bool,
}

impl SkillFinding {
    pub(super) fn of_skill(file: PathBuf, line: usize, message: impl Into<String>) -> Self {
        Self { file, line, message: message.into(), is_about_directory: false }
    }

    pub(super) fn of_directory(path: PathBuf, message: impl Into<String>) -> Self {
        Self { file: path, line: 1, message: message.into(), is_about_directory: true }
    }
}

impl fmt::Display for SkillFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_about_directory {
            return write!(f, "{}: {}", self.file.display(), self.message);
        }
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.message)
    }
}

impl Skill {
    /// Parses a `SKILL.md` in the directory of this name.
    pub(super) fn parse(
        directory: &str,
        text: &str,
        root: &Path,
        is_trusted: bool,
    ) -> Result<Self, FrontMatterError> {
        let read = FrontMatter::parse(text)?;
        let line = |key: &str| read.field(key).map_or(1, |field| field.line);
        let name = read.text("name").unwrap_or(directory);
        if !is_name(name) {
            let why = "the name must have 1 to 64 lower-case letters, digits and single hyphens";
            return Err(FrontMatterError::new(line("name"), why));
        }
        if name != directory {
            let why = format!("the name `{name}` is not that of its directory, `{directory}`");
            return Err(FrontMatterError::new(line("name"), why));
        }
        let Some(description) = read.text("description") else {
            let why = "the field `description` is missing; say what the skill does and when to \
                       use it";
            return Err(FrontMatterError::new(line("description"), why));
        };
        if description.chars().count() > MAX_DESCRIPTION_CHARS {
            let why = format!("the description is longer than {MAX_DESCRIPTION_CHARS} characters");
            return Err(FrontMatterError::new(line("description"), why));
        }
        let allowed_tools = read.list("allowed-tools");
        for pattern in &allowed_tools {
            if let Err(error) = Pattern::parse(pattern, &PathBase::default()) {
                let why = format!("`{pattern}` in `allowed-tools` is not a pattern: {error}");
                return Err(FrontMatterError::new(line("allowed-tools"), why));
            }
        }
        Ok(Self {
            name: name.to_owned(),
            description: description.split_whitespace().collect::<Vec<_>>().join(" "),
            body: read.body.trim().to_owned(),
            allowed_tools,
            is_trusted,
            is_for_models: !disables_models(&read)?,
            root: root.to_owned(),
        })
    }

    /// Returns the path of its `SKILL.md`.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.directory().join("SKILL.md")
    }

    /// Returns its directory.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        self.root.join(&self.name)
    }

    pub(super) fn is_offered(&self) -> bool {
        self.is_for_models
    }
}

/// Whether the model may not load the skill. FAIL CLOSED: a value that is neither true nor false is
/// a mistake, so that the skill is left out.
fn disables_models(read: &FrontMatter<'_>) -> Result<bool, FrontMatterError> {
    let Some(field) = read.field("disable-model-invocation") else { return Ok(false) };
    match &field.value {
        FieldValue::Text(text) if text.eq_ignore_ascii_case("true") => Ok(true),
        FieldValue::Text(text) if text.eq_ignore_ascii_case("false") => Ok(false),
        _ => {
            let why = "`disable-model-invocation` must be `true` or `false`";
            Err(FrontMatterError::new(field.line, why))
        }
    }
}

/// Whether a name has the form that the format of skills demands.
fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=MAX_NAME_CHARS).contains(&name.len())
        && name.chars().all(is_plain)
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Skill, FrontMatterError> {
        Skill::parse("pdf-forms", text, Path::new("/s"), true)
    }

    #[test]
    fn skill_has_what_its_front_matter_says() {
        let text = "---\nname: pdf-forms\ndescription: Fills forms.\n\
                    allowed-tools: Bash(pdftk *) Read\n---\n\nStep one.\n";
        let skill = parse(text).unwrap();
        assert_eq!((skill.name.as_str(), skill.body.as_str()), ("pdf-forms", "Step one."));
        assert_eq!(skill.allowed_tools, ["Bash(pdftk *)", "Read"]);
        assert!(skill.is_offered());
        let hidden = parse("---\ndescription: x\ndisable-model-invocation: true\n---\n").unwrap();
        assert!(!hidden.is_offered(), "only a person may use it");
    }

    #[test]
    fn disable_model_invocation_is_true_or_false_in_any_case_or_a_mistake() {
        let parse = |value: &str| {
            parse(&format!("---\ndescription: x\ndisable-model-invocation:{value}\n---\n"))
        };
        for value in [" true", " True", " TRUE", " \"true\""] {
            assert!(!parse(value).unwrap().is_offered(), "{value}");
        }
        for value in [" false", " False", " FALSE"] {
            assert!(parse(value).unwrap().is_offered(), "{value}");
        }
        for value in [" yes", " 1", " on", " treu", "", " [true]", " \"\""] {
            let error = parse(value).unwrap_err();
            assert_eq!(error.line, 3, "{value}: {error}");
        }
    }

    #[test]
    fn mistakes_name_their_line() {
        let line = |text: &str| parse(text).unwrap_err().line;
        assert_eq!(line("---\nname: pdf-forms\n---\n"), 1, "no description");
        assert_eq!(line("---\ndescription: x\nname: other\n---\n"), 3);
        assert_eq!(line("---\ndescription: x\nname: PDF\n---\n"), 3);
        assert_eq!(line("---\nallowed-tools: Bash(\ndescription: x\n---\n"), 2);
        let long = "x".repeat(1_025);
        assert_eq!(line(&format!("---\nname: pdf-forms\ndescription: {long}\n---\n")), 3);
        for name in ["", "-a", "a-", "a--b", "A", "a_b", "../a", &"a".repeat(65)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
