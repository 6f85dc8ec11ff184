//! Skills: what the model sees, what it can read, and what a loaded skill grants.

#![expect(clippy::disallowed_methods, reason = "the tests write the skills that they read")]

use std::{
    fs,
    os::unix::fs::symlink,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use haft::{
    FailureCode, Run, Runtime, ToolCall, ToolRegistry, ToolResult,
    agent::AgentFile,
    policy::{Decision, PathBase, Pattern, PolicyContext, Rule, Rules},
    serde_json::{Value, json},
    taint::{Label, Trust},
    tool::{DynTool, ToolSpec},
};
use haft_tools::Skills;

/// A directory of skills.
struct Fixture {
    root: PathBuf,
    /// Removed at the end.
    top: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().join("skills");
        fs::create_dir(&root).unwrap();
        Self { root, top }
    }

    fn put(&self, path: &str, text: &str) {
        let file = self.root.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn skill(&self, name: &str, fields: &str, body: &str) {
        self.put(&format!("{name}/SKILL.md"), &format!("---\nname: {name}\n{fields}---\n{body}\n"));
    }

    fn real_root(&self) -> PathBuf {
        self.root.canonicalize().unwrap()
    }

    fn skills(&self, is_trusted: bool) -> Skills {
        Skills::new().directory(&self.root, is_trusted)
    }
}

fn allow(pattern: &str, decision: Decision) -> Rule {
    Rule::new(decision, Pattern::parse(pattern, &PathBase::default()).unwrap())
}

/// A run over the skills and one tool that needs approval.
fn run(skills: &Skills, rules: Vec<Rule>) -> Run {
    runtime(skills, rules).run()
}

fn runtime(skills: &Skills, rules: Vec<Rule>) -> Runtime {
    // Its result is clean: text that is not trusted would make the next call ask.
    let spec = ToolSpec::new("deploy", "Deploys.").label(Label::CLEAN);
    let deploy = DynTool::new(spec, json!({}), |_, _| async { "deployed" });
    let registry = ToolRegistry::builder().add(deploy).source(skills.clone()).build().unwrap();
    let rules = Rules::new(rules, PolicyContext::default()).unwrap();
    let runtime = Runtime::builder().registry(registry).policy(rules).hook(skills.grants());
    runtime.build().unwrap()
}

async fn call(run: &Run, name: &str, arguments: Value) -> ToolResult {
    let turn = run.turn().await.unwrap();
    turn.run(vec![ToolCall::new("c", name, arguments)]).await.pop().unwrap()
}

fn code(result: &ToolResult) -> Option<FailureCode> {
    result.failure().map(haft::Failure::code)
}

#[tokio::test]
async fn names_and_descriptions_are_shown_and_the_text_only_when_loaded() {
    let fixture = Fixture::new();
    fixture.skill("release", "description: How to release.\n", "Run the tests first.");
    fixture.skill("private", "description: x\ndisable-model-invocation: true\n", "Hidden.");
    fixture.put("release/references/steps.md", "one\ntwo\n");
    let run = run(&fixture.skills(true), vec![]);
    let turn = run.turn().await.unwrap();
    let shown = turn.snapshot().to_anthropic().to_string();
    assert!(shown.contains("- release: How to release."), "{shown}");
    assert!(!shown.contains("Run the tests") && !shown.contains("private"), "{shown}");
    let loaded = call(&run, "skill__load", json!({"name": "release"})).await;
    assert!(loaded.text().starts_with("Run the tests first."), "{}", loaded.text());
    assert!(loaded.text().contains("references/steps.md"), "{}", loaded.text());
    let path = json!({"skill": "release", "path": "references/steps.md"});
    assert_eq!(call(&run, "skill__read", path).await.text(), "one\ntwo\n");
    let hidden = call(&run, "skill__load", json!({"name": "private"})).await;
    assert_eq!(code(&hidden), Some(FailureCode::BadArguments));
}

#[tokio::test]
async fn files_are_read_in_pages_inside_of_the_skill_only() {
    let fixture = Fixture::new();
    fixture.skill("a", "description: x\n", "A.");
    fixture.skill("b", "description: x\n", "B.");
    fixture.put("a/long.txt", &"é".repeat(25_000));
    fs::write(fixture.top.path().join("secret"), "secret").unwrap();
    symlink(fixture.top.path().join("secret"), fixture.root.join("a/out")).unwrap();
    symlink("../b/SKILL.md", fixture.root.join("a/other")).unwrap();
    symlink("long.txt", fixture.root.join("a/inside")).unwrap();
    let run = run(&fixture.skills(true), vec![]);
    let read = |path: &str, more: Value| {
        let mut arguments = json!({"skill": "a", "path": path});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call(&run, "skill__read", arguments)
    };
    let page = read("long.txt", json!({})).await;
    assert_eq!(page.text().matches('é').count(), 20_000);
    assert!(page.text().ends_with("[characters 0 to 20000 of 25000; continue with offset 20000]"));
    let rest = read("long.txt", json!({"offset": 20_000})).await;
    assert_eq!(rest.text(), "é".repeat(5_000));
    assert_eq!(read("inside", json!({"limit": 3})).await.text().matches('é').count(), 3);
    let absolute = fixture.root.join("b/SKILL.md");
    for path in ["out", "other", "../b/SKILL.md", "..", ".", absolute.to_str().unwrap(), "none"] {
        let refused = read(path, json!({})).await;
        assert!(refused.failure().is_some(), "`{path}`: {}", refused.text());
        assert!(!refused.text().contains("secret"), "`{path}`");
    }
}

#[tokio::test]
async fn changed_skill_takes_effect_on_the_next_turn() {
    let fixture = Fixture::new();
    fixture.skill("a", "description: First.\n", "One.");
    let skills = fixture.skills(true);
    let run = run(&skills, vec![]);
    let shown = async || run.turn().await.unwrap().snapshot().to_anthropic().to_string();
    assert!(shown().await.contains("- a: First."));
    let same = (run.turn().await.unwrap(), run.turn().await.unwrap());
    assert_eq!(same.0.snapshot().fingerprint(), same.1.snapshot().fingerprint());
    fixture.skill("a", "description: Second.\n", "Two.");
    fixture.skill("b", "description: New.\n", "B.");
    let now = shown().await;
    assert!(now.contains("- a: Second.") && now.contains("- b: New."), "{now}");
    assert_eq!(call(&run, "skill__load", json!({"name": "a"})).await.text(), "Two.");
    fs::remove_dir_all(fixture.root.join("a")).unwrap();
    fs::remove_dir_all(fixture.root.join("b")).unwrap();
    assert!(!shown().await.contains("skill__load"), "no skill, no tool");
}

#[test]
fn malformed_skill_is_a_finding_with_its_line_and_the_others_work() {
    let fixture = Fixture::new();
    fixture.skill("good", "description: Works.\n", "Good.");
    fixture.put("bad/SKILL.md", "---\nname: bad\nthis is no field\n---\n");
    fixture.put("wrong/SKILL.md", "---\nname: other\ndescription: x\n---\n");
    fixture.put("empty/notes.txt", "no SKILL.md");
    symlink(fixture.root.join("good"), fixture.root.join("link")).unwrap();
    fs::write(fixture.top.path().join("SKILL.md"), "---\ndescription: x\n---\n").unwrap();
    fs::create_dir(fixture.root.join("out")).unwrap();
    symlink("../../SKILL.md", fixture.root.join("out/SKILL.md")).unwrap();
    let skills = fixture.skills(true);
    let names: Vec<String> = skills.list().into_iter().map(|skill| skill.name).collect();
    assert_eq!(names, ["good"]);
    let findings: Vec<String> = skills.findings().iter().map(ToString::to_string).collect();
    assert_eq!(findings.len(), 4, "{findings:#?}");
    let has = |part: &str| findings.iter().any(|finding| finding.contains(part));
    assert!(has("bad/SKILL.md:3: the line is not a field"), "{findings:#?}");
    assert!(has("wrong/SKILL.md:2: the name `other` is not that"), "{findings:#?}");
    assert!(has("link/SKILL.md:1: ") && has("out/SKILL.md:1: "), "{findings:#?}");
}

#[tokio::test]
async fn allowed_tools_hold_from_the_next_turn_until_the_user_writes_again() {
    let fixture = Fixture::new();
    fixture.skill("release", "description: x\nallowed-tools: deploy\n", "Deploy it.");
    let run = run(&fixture.skills(true), vec![]);
    run.user_text("Release it.");
    assert_eq!(code(&call(&run, "deploy", json!({})).await), Some(FailureCode::Denied));
    let turn = run.turn().await.unwrap();
    let both = vec![
        ToolCall::new("l", "skill__load", json!({"name": "release"})),
        ToolCall::new("d", "deploy", json!({})),
    ];
    let results = turn.run(both).await;
    assert_eq!(code(&results[1]), Some(FailureCode::Denied), "the turn of the load itself");
    for _ in 0..2 {
        assert_eq!(call(&run, "deploy", json!({})).await.text(), "deployed");
    }
    let sub = run.sub_run().start();
    assert_eq!(code(&call(&sub, "deploy", json!({})).await), Some(FailureCode::Denied));
    run.user_text("Thanks. And now something else.");
    assert_eq!(code(&call(&run, "deploy", json!({})).await), Some(FailureCode::Denied));
}

#[tokio::test]
async fn allowed_tools_lose_to_a_deny_and_to_a_rule_that_asks() {
    let fixture = Fixture::new();
    fixture.skill("release", "description: x\nallowed-tools: deploy *\n", "Deploy it.");
    for decision in [Decision::Deny, Decision::Ask] {
        let run = run(&fixture.skills(true), vec![allow("deploy", decision.clone())]);
        let loaded = call(&run, "skill__load", json!({"name": "release"})).await;
        assert!(loaded.failure().is_none(), "{}", loaded.text());
        let refused = call(&run, "deploy", json!({})).await;
        assert!(refused.failure().is_some(), "{decision:?}");
    }
}

#[tokio::test]
async fn skill_of_an_untrusted_directory_grants_nothing_and_taints() {
    let fixture = Fixture::new();
    fixture.skill("release", "description: x\nallowed-tools: deploy\n", "Deploy it.");
    let run = run(&fixture.skills(false), vec![]);
    let loaded = call(&run, "skill__load", json!({"name": "release"})).await;
    assert_eq!(loaded.label().trust, Trust::Untrusted);
    assert_eq!(code(&call(&run, "deploy", json!({})).await), Some(FailureCode::Denied));
    let trusted = self::run(&fixture.skills(true), vec![]);
    let loaded = call(&trusted, "skill__load", json!({"name": "release"})).await;
    assert_eq!(loaded.label().trust, Trust::Trusted);
}

/// A rule about files; `/` is the directory of the skills.
fn file_rule(pattern: &str, decision: Decision, fixture: &Fixture) -> Rule {
    let base = PathBase { directory: Some(fixture.real_root()), ..PathBase::default() };
    Rule::new(decision, Pattern::parse(pattern, &base).unwrap())
}

#[tokio::test]
async fn file_rules_apply_to_skill_read_also_behind_a_symlink_or_a_hard_link() {
    let fixture = Fixture::new();
    fixture.skill("a", "description: x\n", "A.");
    fixture.put("a/.env", "secret");
    fixture.put("a/notes.txt", "notes");
    fs::hard_link(fixture.root.join("a/.env"), fixture.root.join("a/same.txt")).unwrap();
    symlink(".env", fixture.root.join("a/link.txt")).unwrap();
    symlink("notes.txt", fixture.root.join("a/named.env")).unwrap();
    for decision in [Decision::Deny, Decision::Ask] {
        let rules = ["Read(/**/.env)", "Read(/**/named.env)"];
        let rules = rules.map(|pattern| file_rule(pattern, decision.clone(), &fixture));
        let run = run(&fixture.skills(true), rules.to_vec());
        for path in [".env", "./.env", "same.txt", "link.txt", "named.env"] {
            let refused = call(&run, "skill__read", json!({"skill": "a", "path": path})).await;
            assert!(refused.failure().is_some(), "{decision:?} `{path}`: {}", refused.text());
            assert!(!refused.text().contains("secret"), "{decision:?} `{path}`");
        }
        let notes = call(&run, "skill__read", json!({"skill": "a", "path": "notes.txt"})).await;
        assert_eq!(notes.text(), "notes", "no rule is about it");
        let loaded = call(&run, "skill__load", json!({"name": "a"})).await;
        assert!(loaded.text().contains("notes.txt"), "{}", loaded.text());
        assert!(!loaded.text().contains(".env"), "a denied name is not listed: {}", loaded.text());
        assert!(!loaded.text().contains("same.txt"), "nor its hard link: {}", loaded.text());
    }
}

#[tokio::test]
async fn file_rules_apply_to_skill_load_and_a_refused_load_grants_nothing() {
    let fixture = Fixture::new();
    fixture.skill("a", "description: x\nallowed-tools: deploy\n", "Private text.");
    fixture.skill("b", "description: x\n", "B.");
    fs::create_dir(fixture.root.join("c")).unwrap();
    fixture.put("hidden/text.md", "---\ndescription: x\nallowed-tools: deploy\n---\nPrivate text.");
    fs::hard_link(fixture.root.join("hidden/text.md"), fixture.root.join("c/SKILL.md")).unwrap();
    for decision in [Decision::Deny, Decision::Ask] {
        let rules = ["Read(/a/**)", "Read(/hidden/**)"];
        let rules = rules.map(|pattern| file_rule(pattern, decision.clone(), &fixture));
        let run = run(&fixture.skills(true), rules.to_vec());
        for name in ["a", "c"] {
            let refused = call(&run, "skill__load", json!({"name": name})).await;
            assert!(refused.failure().is_some(), "{decision:?} {name}: {}", refused.text());
            assert!(!refused.text().contains("Private"), "{decision:?} {name}");
            let deployed = call(&run, "deploy", json!({})).await;
            assert!(deployed.failure().is_some(), "{decision:?} {name}");
        }
        assert_eq!(call(&run, "skill__load", json!({"name": "b"})).await.text(), "B.");
    }
}

#[tokio::test]
async fn skill_file_that_is_replaced_within_a_turn_is_not_loaded() {
    let fixture = Fixture::new();
    fixture.skill("a", "description: x\n", "One.");
    let run = run(&fixture.skills(true), vec![]);
    let turn = run.turn().await.unwrap();
    fixture.skill("a", "description: x\n", "Two.");
    let load = || vec![ToolCall::new("c", "skill__load", json!({"name": "a"}))];
    let refused = turn.run(load()).await.pop().unwrap();
    assert!(refused.text().contains("changed"), "{}", refused.text());
    assert!(!refused.text().contains("One.") && !refused.text().contains("Two."));
    assert_eq!(call(&run, "skill__load", json!({"name": "a"})).await.text(), "Two.");
}

#[tokio::test]
async fn run_with_the_id_of_another_run_has_none_of_its_grants() {
    let fixture = Fixture::new();
    fixture.skill("release", "description: x\nallowed-tools: deploy\n", "Deploy it.");
    let runtime = runtime(&fixture.skills(true), vec![]);
    let start = || runtime.run_builder().id("same").start();
    let first = start();
    call(&first, "skill__load", json!({"name": "release"})).await;
    assert_eq!(call(&first, "deploy", json!({})).await.text(), "deployed");
    let again = start();
    for _ in 0..3 {
        let refused = call(&again, "deploy", json!({})).await;
        assert_eq!(code(&refused), Some(FailureCode::Denied), "both runs are open");
    }
    assert_eq!(call(&first, "deploy", json!({})).await.text(), "deployed");
    drop(first);
    let reopened = start();
    call(&reopened, "deploy", json!({})).await;
    let refused = call(&reopened, "deploy", json!({})).await;
    assert_eq!(code(&refused), Some(FailureCode::Denied), "the first run is gone");
}

#[tokio::test]
async fn shown_descriptions_are_bounded_and_have_no_hidden_characters() {
    let fixture = Fixture::new();
    let hidden = "Re\u{200b}ads \u{202e}txt\u{1b}[31m and \u{e0041}more.";
    fixture.skill("a", &format!("description: {hidden}\n"), "A.");
    for n in 0..150 {
        let text = format!("description: {}\n", "é".repeat(1_000));
        fixture.skill(&format!("skill-{n:03}"), &text, "Text.");
    }
    let run = run(&fixture.skills(true), vec![]);
    let turn = run.turn().await.unwrap();
    let tools = turn.snapshot().to_anthropic();
    let find = |tool: &&Value| tool["name"] == "skill__load";
    let load = tools.as_array().unwrap().iter().find(find).unwrap();
    let about = load["description"].as_str().unwrap();
    assert!(about.len() < 17 << 10, "{}", about.len());
    let is_hidden = |c: char| matches!(c, '\u{200b}' | '\u{202e}' | '\u{1b}' | '\u{e0041}');
    assert!(!about.contains(is_hidden), "{about}");
    assert!(about.contains("- skill-000: é") && about.contains("é…"), "{about}");
    let shown = about.matches("\n- ").count();
    assert!((10..150).contains(&shown), "{shown}");
    let rest = 151 - shown;
    assert!(about.ends_with(&format!("[{rest} more skills: see the values of `name`]")), "{about}");
    let last = call(&run, "skill__load", json!({"name": "skill-149"})).await;
    assert_eq!(last.text(), "Text.", "a skill without a shown description can be loaded");
}

#[test]
fn directory_with_too_many_entries_gives_its_first_skills_and_a_finding() {
    let fixture = Fixture::new();
    for n in 0..1_000 {
        fixture.put(&format!("{n:04}.txt"), "");
    }
    fixture.skill("a", "description: x\n", "A.");
    let names = |fixture: &Fixture| -> Vec<String> {
        fixture.skills(true).list().into_iter().map(|skill| skill.name).collect()
    };
    assert_eq!(names(&fixture), ["a"], "files are no skills");
    assert!(fixture.skills(true).findings().is_empty());
    for n in 0..250 {
        fixture.skill(&format!("b-{n:03}"), "description: x\n", "B.");
    }
    let read = names(&fixture);
    assert_eq!((read.len(), read[0].as_str(), read[199].as_str()), (200, "a", "b-198"));
    let findings = fixture.skills(true).findings();
    let [finding] = findings.as_slice() else { panic!("{findings:#?}") };
    assert_eq!(finding.file, fixture.root);
    assert!(finding.message.contains("more than 200 skills"), "{finding}");
    for n in 1_000..9_800 {
        fs::write(fixture.root.join(format!("{n:04}.txt")), "").unwrap();
    }
    // 51 entries are not listed, so at least 200 of 251 skills are.
    assert_eq!(names(&fixture).len(), 200);
    let findings = fixture.skills(true).findings();
    let has = |part: &str| findings.iter().any(|finding| finding.to_string().contains(part));
    let named = format!("{}: it has more than 10000 entries", fixture.root.display());
    assert!(has(&named), "{findings:#?}");
}

#[tokio::test]
async fn deny_of_a_skill_refuses_to_load_and_to_read_it() {
    let fixture = Fixture::new();
    for name in ["release", "review"] {
        fixture.skill(name, "description: x\n", "Text.");
        fixture.put(&format!("{name}/a.md"), "file");
    }
    let run_with = |pattern| run(&fixture.skills(true), vec![allow(pattern, Decision::Deny)]);
    let one = run_with("Skill(release)");
    for (name, refused) in [("release", Some(FailureCode::Denied)), ("review", None)] {
        let load = call(&one, "skill__load", json!({"name": name})).await;
        assert_eq!(code(&load), refused, "{load:?}");
        let read = call(&one, "skill__read", json!({"skill": name, "path": "a.md"})).await;
        assert_eq!(code(&read), refused, "{read:?}");
    }
    let all = run_with("Skill").turn().await.unwrap().snapshot().to_anthropic().to_string();
    assert!(!all.contains("skill__load") && !all.contains("skill__read"), "{all}");
}

#[tokio::test]
async fn agent_file_that_disallows_skill_hides_both_tools() {
    let fixture = Fixture::new();
    fixture.skill("release", "description: x\n", "Text.");
    let runtime = runtime(&fixture.skills(true), vec![]);
    let shown = async |fields: &str| {
        let text = format!("---\nname: a\ndescription: x\n{fields}---\n");
        let view = AgentFile::parse(&text).unwrap().view();
        let run = runtime.run_builder().view(view).start();
        let turn = run.turn().await.unwrap();
        turn.snapshot().entries().map(|tool| tool.name().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(shown("disallowedTools: Skill\n").await, ["deploy"]);
    assert_eq!(shown("tools: Skill\n").await, ["skill__load", "skill__read"]);
    assert_eq!(shown("").await, ["deploy", "skill__load", "skill__read"]);
}

#[tokio::test]
async fn unchanged_file_is_not_read_again() {
    let fixture = Fixture::new();
    fixture.skill("a", "description: First.\n", "One.");
    fixture.skill("b", "description: Other.\n", "Two.");
    let readings = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&readings);
    let skills = Skills::new().directory_with_trust(&fixture.root, move |file, _| {
        let skill = file.parent().unwrap().file_name().unwrap().to_owned();
        list.lock().unwrap().push(skill.into_string().unwrap());
        true
    });
    let run = run(&skills, vec![]);
    for _ in 0..5 {
        run.turn().await.unwrap();
    }
    assert_eq!(*readings.lock().unwrap(), ["a", "b"], "each file was read once");
    fixture.skill("b", "description: Changed.\n", "Three.");
    let turn = run.turn().await.unwrap();
    let shown = turn.snapshot().get("skill__load").unwrap().spec().description.clone();
    assert!(shown.contains("- b: Changed."), "{shown}");
    assert_eq!(*readings.lock().unwrap(), ["a", "b", "b"]);
}

#[tokio::test]
async fn directory_that_is_created_later_is_read_and_a_symlink_out_of_the_project_is_not() {
    let top = tempfile::tempdir().unwrap();
    let project = top.path().join("project");
    let path = project.join(".haft/skills");
    fs::create_dir_all(project.join(".haft")).unwrap();
    let skills = Skills::new().directory_of_project(&path, &project, |_, _| true);
    let run = run(&skills, vec![]);
    let is_offered = async || {
        let turn = run.turn().await.unwrap();
        turn.snapshot().get("skill__load").is_some()
    };
    assert!(!is_offered().await && skills.findings().is_empty());
    fs::create_dir_all(path.join("late")).unwrap();
    fs::write(path.join("late/SKILL.md"), "---\ndescription: Came later.\n---\nHello.\n").unwrap();
    assert!(is_offered().await);

    fs::rename(&path, top.path().join("outside")).unwrap();
    symlink(top.path().join("outside"), &path).unwrap();
    assert!(!is_offered().await);
    let findings = skills.findings();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].is_about_directory);
    let shown = findings[0].to_string();
    assert!(
        shown.ends_with(
            ".haft/skills: it is a symlink out of the project, so its skills are not read"
        )
    );
}
