//! Rules that are reloaded while calls run, and approvals that are saved to a file.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use haft_core::Error;
use haft_policy::{
    ConfigFile, ConfigLayer, FileFormat, LoadOptions, PolicyConfig, ReloadableRules,
    RuleStore as _, RuleWrite, Rules, SuggestedRules,
};

/// A temporary directory for one test.
struct TempDir(PathBuf);

impl TempDir {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("live-{name}"));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("haft.local.toml")
    }

    fn write(&self, text: &str) {
        fs::File::create(self.file()).unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn text(&self) -> String {
        String::from_utf8(fs::read(self.file()).unwrap()).unwrap()
    }

    /// Rules from the file that approvals are also saved to.
    fn live(&self) -> ReloadableRules {
        let path = self.file();
        ReloadableRules::with_loader(move || -> Result<Rules, Error> {
            let text = fs::read(&path).map(|bytes| String::from_utf8(bytes).unwrap());
            let file = ConfigFile {
                layer: ConfigLayer::Local,
                form: FileFormat::Toml,
                path: path.clone(),
                anchor: path.parent().unwrap().to_owned(),
                text: text.unwrap_or_default(),
            };
            let place = LoadOptions {
                trusted: true,
                always_file: Some(path.clone()),
                ..LoadOptions::default()
            };
            let setup = PolicyConfig::read(&[file], &place)?;
            Rules::new(setup.rules, setup.context)
        })
        .unwrap()
    }

    fn offer(&self, rules: &[&str]) -> SuggestedRules {
        SuggestedRules {
            rules: rules.iter().map(|&rule| rule.to_owned()).collect(),
            file: self.file(),
        }
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const DENY: &str = "# mine\n[[rule]]\nmatch = \"Bash(rm *)\"\ndecision = \"deny\"\n";

#[test]
fn permanent_approval_is_written_once_and_applies_at_once() {
    let directory = TempDir::new("keep");
    directory.write(DENY);
    let live = directory.live();
    let before = live.current();
    live.save(&directory.offer(&["Bash(git push origin *)", "Bash(ls \"a\\b\")"])).unwrap();
    let once = directory.text();
    assert!(once.starts_with(DENY), "{once}");
    let rules: Vec<_> = live.current().rules().iter().map(|r| r.matches[0].to_string()).collect();
    assert_eq!(rules, ["Bash(rm *)", "Bash(git push origin *)", "Bash(ls \"a\\b\")"]);
    assert_eq!(before.rules().len(), 1, "an authorization in progress keeps its rules");
    live.save(&directory.offer(&["Bash(git push origin *)"])).unwrap();
    assert_eq!(directory.text(), once);
    let left: Vec<_> = fs::read_dir(&directory.0).unwrap().collect();
    assert_eq!(left.len(), 1, "no other file is left: {left:?}");
}

#[cfg(unix)]
#[test]
fn new_rule_file_is_owner_only_and_an_existing_one_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt;
    let directory = TempDir::new("mode");
    let live = directory.live();
    live.save(&directory.offer(&["Bash(ls)"])).unwrap();
    let mode = || fs::metadata(directory.file()).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    fs::set_permissions(directory.file(), fs::Permissions::from_mode(0o644)).unwrap();
    live.save(&directory.offer(&["Bash(pwd)"])).unwrap();
    assert_eq!(mode(), 0o644);
    assert_eq!(live.current().rules().len(), 2);
}

#[cfg(unix)]
#[test]
fn rules_are_not_written_through_a_symlink() {
    let directory = TempDir::new("link");
    let live = directory.live();
    let target = directory.0.join("elsewhere.toml");
    fs::File::create(&target).unwrap();
    std::os::unix::fs::symlink(&target, directory.file()).unwrap();
    let error = live.save(&directory.offer(&["Bash(ls)"])).unwrap_err().to_string();
    assert!(error.contains("was not written"), "{error}");
    assert_eq!(fs::read(&target).unwrap(), b"");
}

#[test]
fn invalid_rule_file_is_not_written() {
    let directory = TempDir::new("bad");
    directory.write(DENY);
    let live = directory.live();
    for bad in ["what = 1\n", "rule = []\n", "[[rule]\n"] {
        directory.write(bad);
        assert!(live.save(&directory.offer(&["Bash(ls)"])).is_err(), "{bad}");
        assert_eq!(directory.text(), bad);
    }
    directory.write(DENY);
    assert!(live.save(&directory.offer(&["Bash(a\u{202}\nb)"])).is_err());
    let elsewhere =
        SuggestedRules { file: directory.0.join("other.toml"), ..directory.offer(&["Bash(ls)"]) };
    let error = live.save(&elsewhere).unwrap_err().to_string();
    assert!(error.contains("is not the file that rules are saved to"), "{error}");
    assert_eq!(directory.text(), DENY);
    assert_eq!(live.current().rules().len(), 1);
}

#[test]
fn invalid_file_keeps_the_old_rules_and_is_reported() {
    let directory = TempDir::new("reload");
    directory.write(DENY);
    let live = directory.live();
    directory.write("[[rule]]\nmatch = \"x\"\n");
    let error = live.reload().unwrap_err().to_string();
    assert!(error.starts_with("the previous rules stay in force\n"), "{error}");
    assert!(error.contains("haft.local.toml:1:1: a rule without `decision`"), "{error}");
    assert_eq!(live.current().rules().len(), 1);
    directory.write("");
    live.reload().unwrap();
    assert_eq!(live.current().rules().len(), 0);
}

#[test]
fn recorder_sees_both_texts_and_decides_whether_the_rule_is_written() {
    use std::sync::{Arc, Mutex};
    let directory = TempDir::new("recorder");
    directory.write(DENY);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let live = directory.live().with_recorder(move |write: RuleWrite<'_>| -> Result<(), Error> {
        let before = write.before().map(str::to_owned);
        log.lock().unwrap().push((before, write.after().to_owned()));
        write.commit()
    });
    live.save(&directory.offer(&["Bash(ls)"])).unwrap();
    assert_eq!(*seen.lock().unwrap(), [(Some(DENY.to_owned()), directory.text())]);
    let live = directory.live().with_recorder(|_: RuleWrite<'_>| Err("it was planted"));
    let before = directory.text();
    let error = live.save(&directory.offer(&["Bash(pwd)"])).unwrap_err().to_string();
    assert!(error.contains("it was planted"), "{error}");
    assert_eq!(directory.text(), before);
    assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 1, "no other file is left");
}

#[cfg(unix)]
#[test]
fn fifo_in_the_place_of_the_local_file_is_refused_at_once() {
    let directory = TempDir::new("fifo");
    let live = directory.live();
    assert!(std::process::Command::new("mkfifo").arg(directory.file()).status().unwrap().success());
    let error = live.save(&directory.offer(&["Bash(ls)"])).unwrap_err().to_string();
    assert!(error.contains("named pipe (FIFO)"), "{error}");
}

#[test]
fn rules_without_a_file_can_be_replaced_but_not_saved() {
    let live = ReloadableRules::new(
        Rules::new(Vec::new(), haft_policy::PolicyContext::default()).unwrap(),
    );
    assert!(live.reload().is_err());
    assert!(
        live.save(&SuggestedRules { rules: vec!["x".to_owned()], file: "/x.toml".into() }).is_err()
    );
    let failed = ReloadableRules::with_loader(|| Err::<Rules, _>("no such directory"));
    assert_eq!(failed.unwrap_err().to_string(), "no such directory");
}
