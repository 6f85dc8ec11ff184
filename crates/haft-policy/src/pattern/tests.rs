//! Patterns against calls: the grammar row by row, and properties for all of them.

use haft_core::{Capabilities, Capability, Effect, Label, ToolSpec, Trust};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    context::PolicyContext,
    testing::{TestCall, at, call, call_in, context},
};

fn pattern(text: &str) -> Pattern {
    let anchor = PathBase { directory: Some("/proj".into()), home: Some("/home/u".into()) };
    Pattern::parse(text, &anchor).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn error(text: &str) -> PatternError {
    Pattern::parse(text, &PathBase::default()).expect_err(text)
}

fn open() -> Value {
    json!({"additionalProperties": true})
}

/// A call of a local tool that declares its effects.
fn does(effects: Vec<Effect>) -> TestCall {
    let spec = ToolSpec::new("t", "Does it.")
        .capabilities([Capability::Filesystem, Capability::Network])
        .effects(effects);
    call(spec, open(), json!({}))
}

fn reads(path: &str) -> TestCall {
    let spec = ToolSpec::new("look", "Looks.").read_only().capabilities([Capability::Filesystem]);
    call(spec.effects([Effect::read(path)]), open(), json!({}))
}

fn writes(path: &str) -> TestCall {
    let spec = ToolSpec::new("put", "Puts.").capabilities([Capability::Filesystem]);
    call(spec.effects([Effect::write(path)]), open(), json!({}))
}

fn fetches(address: &str) -> TestCall {
    let spec = ToolSpec::new("get", "Gets.").read_only().capabilities([Capability::Network]);
    call(spec.effects([Effect::external(address)]), open(), json!({}))
}

fn says(arguments: Value) -> TestCall {
    call(ToolSpec::new("mail_send", "Sends."), open(), arguments)
}

/// `yes`, `no`, `part` or `unknown`, from one side.
fn side(text: &str, call: &TestCall, context: &PolicyContext, side: Side) -> &'static str {
    let facts = Facts::of(&call.request(), context);
    let hits = pattern(text).hits(&facts, side);
    match (hits.yes, hits.unknown) {
        (Parts::NONE, Parts::NONE) => "no",
        (yes, Parts::NONE) if yes == facts.all() => "yes",
        (Parts::NONE, _) => "unknown",
        _ => "part",
    }
}

fn deny(text: &str, call: &TestCall) -> &'static str {
    side(text, call, &context(), Side::Restrict)
}

fn allow(text: &str, call: &TestCall) -> &'static str {
    side(text, call, &context(), Side::Allow)
}

#[test]
fn paths_are_matched_by_component_from_their_base() {
    for (text, path, is) in [
        ("Read(./src/**)", "src/a/b", "yes"),
        ("Read(./src/**)", "/w/src/a", "yes"),
        ("Read(./src/**)", "./x/../src/a", "yes"),
        ("Read(./src/**)", "srcs/a", "no"),
        ("Read(./src/**)", "/x/src/a", "no"),
        ("Read(src)", "a/b/src/c", "yes"),
        ("Read(./src)", "a/src/c", "no"),
        ("Read(./src)", "src/c", "yes"),
        ("Read(*.pem)", "a/b/key.pem", "yes"),
        ("Read(*.pem)", "/x/key.pem", "no"),
        ("Read(./*.pem)", "a/key.pem", "no"),
        ("Read(./a/**/z)", "a/b/c/z", "yes"),
        ("Read(./a/**/z)", "a/z", "yes"),
        ("Read(./a/?[0-9])", "a/x7", "yes"),
        ("Read(//etc/**)", "/etc/passwd", "yes"),
        ("Read(//etc/**)", "etc/passwd", "no"),
        ("Read(~/.ssh/**)", "/home/u/.ssh/id", "yes"),
        ("Read(~/.ssh/**)", "~/.ssh/id", "part"),
        ("Read(/docs/*)", "/proj/docs/a", "yes"),
        ("Read(/docs/*)", "docs/a", "no"),
        ("Read(../shared/**)", "/shared/a", "yes"),
        ("path=./src/**", "src/a", "yes"),
        ("look path=./src/**", "src/a", "yes"),
        ("path=./lib|./src", "src/a", "yes"),
        ("path='./my files/**'", "my files/a", "yes"),
    ] {
        assert_eq!(deny(text, &reads(path)), is, "deny {text} {path}");
        assert_eq!(allow(text, &reads(path)), is, "allow {text} {path}");
    }
    assert_eq!(deny("Read(./a/*)", &reads("a/b/c")), "yes", "a deny goes below");
    assert_eq!(allow("Read(./a/*)", &reads("a/b/c")), "no", "an allow stays in its component");
}

#[test]
fn relative_directory_restricts_at_any_depth_and_allows_only_in_the_working_directory() {
    for (text, path, restricts, allows) in [
        ("Read(secrets/**)", "secrets/key", "yes", "yes"),
        ("Read(secrets/**)", "vendor/x/secrets/key", "yes", "no"),
        ("Read(secrets/**)", "vendor/secrets", "yes", "no"),
        ("Read(secrets/**)", "my-secrets/key", "no", "no"),
        ("Read(secrets/**)", "/x/secrets/key", "no", "no"),
        ("Read(a/b.txt)", "x/a/b.txt", "yes", "no"),
        ("Read(a*/b)", "x/ab/b/c", "yes", "no"),
        ("path=secrets/*", "vendor/secrets/key", "yes", "no"),
        ("Read(./secrets/**)", "vendor/secrets/key", "no", "no"),
        ("Read(/secrets/**)", "vendor/secrets/key", "no", "no"),
        ("Read(/secrets/**)", "/proj/vendor/secrets/key", "no", "no"),
        ("Read(../secrets/**)", "vendor/secrets/key", "no", "no"),
        ("Read(**/secrets/**)", "vendor/secrets/key", "yes", "yes"),
    ] {
        assert_eq!(deny(text, &reads(path)), restricts, "deny {text} {path}");
        assert_eq!(allow(text, &reads(path)), allows, "allow {text} {path}");
    }
    assert_eq!(deny("Edit(tests/**)", &writes("crates/a/tests/it.rs")), "yes");
    assert_eq!(allow("Edit(tests/**)", &writes("crates/a/tests/it.rs")), "no");
}

#[test]
fn relative_path_restricts_from_the_directory_of_its_file_too() {
    for (text, path, restricts, allows) in [
        ("Read(secrets/**)", "/proj/secrets/key", "yes", "no"),
        ("Read(secrets/**)", "/proj/vendor/secrets/key", "yes", "no"),
        ("Read(./secrets/**)", "/proj/secrets/key", "yes", "no"),
        ("Read(./secrets/**)", "/proj/vendor/secrets/key", "no", "no"),
        ("Read(.env)", "/proj/a/.env", "yes", "no"),
        ("Read(.env)", "/other/.env", "no", "no"),
        ("path=secrets/*", "/proj/secrets/key", "yes", "no"),
    ] {
        assert_eq!(deny(text, &reads(path)), restricts, "deny {text} {path}");
        assert_eq!(allow(text, &reads(path)), allows, "allow {text} {path}");
    }
}

#[test]
fn negated_path_is_an_error_of_its_own_kind() {
    for text in ["Read(!secrets/**)", "Edit(!.env)", "path=!x", "look path=a|!b"] {
        assert_eq!(error(text).kind, PatternErrorKind::Negated, "{text}");
    }
    assert_eq!(error("Read(~other/x)").kind, PatternErrorKind::Invalid);
    assert_eq!(deny("Read(./!odd)", &reads("!odd")), "yes", "a name may begin so");
}

#[test]
fn read_deny_also_denies_writes_but_read_allow_does_not_allow_them() {
    assert_eq!(deny("Read(./.env)", &writes(".env")), "yes");
    assert_eq!(allow("Read(./.env)", &writes(".env")), "no");
    assert_eq!(deny("Edit(./.env)", &reads(".env")), "no");
    assert_eq!(allow("Edit(./src/**)", &writes("src/a")), "yes");
    assert_eq!(allow("Read", &reads("anywhere")), "yes", "the parts of that kind, of any tool");
    assert_eq!(allow("Read", &writes("anywhere")), "no");
}

#[test]
fn every_part_is_judged_separately() {
    // A forbidden path next to an allowed one is not covered.
    let both = does(vec![Effect::read("ok/a"), Effect::read("/etc/shadow")]);
    assert_eq!(allow("Read(./ok/**)", &both), "part");
    assert_eq!(deny("Read(//etc/**)", &both), "part");
    let mixed = does(vec![Effect::write("ok/a"), Effect::external("https://x.org")]);
    assert_eq!(allow("Edit(./ok/**)", &mixed), "part");
    assert_eq!(
        allow("t path=./ok/**", &mixed),
        "yes",
        "a rule that names the tool covers the rest too"
    );
    assert_eq!(allow("t path=./ok/** host=y.org", &mixed), "no");
    assert_eq!(deny("t host=y.org", &mixed), "no", "a deny needs one that matches");
    assert_eq!(allow("path=./ok/** host=x.org", &mixed), "yes");
}

#[test]
fn named_tool_without_declared_paths_is_unknown() {
    let silent = says(json!({"to": "bob"}));
    assert_eq!(deny("mail_send path=./a", &silent), "unknown");
    assert_eq!(allow("mail_send path=./a", &silent), "unknown");
    assert_eq!(deny("path=./a", &silent), "no");
    assert_eq!(deny("Read(./a)", &silent), "no");
}

#[test]
fn hosts_are_matched_by_label_and_ambiguous_ones_are_unknown() {
    for (text, address, is) in [
        ("WebFetch(domain:x.org)", "https://X.ORG/p", "yes"),
        ("WebFetch(domain:*.x.org)", "https://a.b.x.org", "yes"),
        ("WebFetch(domain:*.x.org)", "https://x.org", "no"),
        ("WebFetch(domain:x.org)", "https://evilx.org", "no"),
        ("WebFetch(domain:x.org)", "https://x.org@evil.org", "no"),
        ("WebFetch(domain:x.org)", "https://x.org\\@evil.org", "unknown"),
        ("host=x.org|y.org", "https://y.org", "yes"),
        ("get host=*.x.org", "https://a.x.org", "yes"),
        ("WebFetch", "https://a.x.org", "yes"),
    ] {
        assert_eq!(deny(text, &fetches(address)), is, "deny {text} {address}");
        assert_eq!(allow(text, &fetches(address)), is, "allow {text} {address}");
    }
}

#[test]
fn tools_of_a_source_are_matched_by_source_and_tool() {
    let remote = |source: &str, tool: &str| {
        call_in(at("/w"), Some(source), ToolSpec::new(tool, "Does it."), open(), json!({}))
    };
    let github = remote("github", "get_issue");
    for (text, is) in [
        ("mcp__github", "yes"),
        ("mcp__github__*", "yes"),
        ("mcp__github__get_issue", "yes"),
        ("mcp__github__get_*", "yes"),
        ("mcp__github__get", "no"),
        ("mcp__git", "no"),
        ("mcp__*", "yes"),
        ("mcp__*__get_issue", "yes"),
        ("source=github", "yes"),
        ("source=gitlab", "no"),
        ("tool=mcp__github__get_issue|x", "yes"),
        ("*", "yes"),
        ("get_issue", "no"),
    ] {
        assert_eq!(deny(text, &github), is, "deny {text}");
        assert_eq!(allow(text, &github), is, "allow {text}");
    }
    let odd = remote("a__b", "c");
    assert_eq!(deny("mcp__a__b__c", &odd), "yes", "a deny takes the text either way");
    assert_eq!(allow("mcp__a__b__c", &odd), "no", "an allow does not guess where the source ends");
    assert_eq!(allow("source=a__b", &odd), "yes");
    assert_eq!(
        deny(
            "mcp__github__get_issue",
            &call(ToolSpec::new("mcp__github__get_issue", "Is called so."), open(), json!({}))
        ),
        "no",
        "our own tool is of no source, whatever it is called"
    );
    assert_eq!(deny("Bash", &remote("s", "Bash")), "no", "nor does a source bring our shell");
}

#[test]
fn parameters_and_arguments_are_compared_as_written() {
    let mail = says(json!({
        "to": "bob@x.org", "n": 5, "big": 12345678901u64, "urgent": true, "cc": ["a@x.org", "b@y.org"],
        "deep": {"a": [{"b": "c"}]}, "dotted.name": "d",
    }));
    for (text, is) in [
        ("mail_send(to:bob@x.org)", "yes"),
        ("mail_send(to:*@x.org)", "yes"),
        ("mail_send(to:bob)", "no"),
        ("mail_send(from:*)", "no"),
        ("mail_send(n:5)", "yes"),
        ("arg.to=*@x.org", "yes"),
        ("arg.to=eve@x.org|bob@x.org", "yes"),
        ("arg.to='bob@x.org'", "yes"),
        ("arg.n=5", "yes"),
        ("arg.n=5.0", "no"),
        ("arg.urgent=true", "yes"),
        ("arg.deep.a.b=c", "yes"),
        ("arg.dotted.name=d", "yes"),
        ("arg.deep=c", "unknown"),
        ("arg.deep=*", "yes"),
        ("arg.nothing=*", "no"),
        ("mail_send arg.n=5 arg.urgent=true", "yes"),
        ("mail_send arg.n=5 arg.urgent=false", "no"),
    ] {
        assert_eq!(deny(text, &mail), is, "{text}");
        assert_eq!(allow(text, &mail), is, "{text}");
    }
    assert_eq!(deny("arg.cc=*@y.org", &mail), "yes", "one of the list is enough to deny");
    assert_eq!(allow("arg.cc=*@y.org", &mail), "no", "and not to allow");
}

#[test]
fn undeclared_effects_and_capabilities_are_unknown() {
    let silent = says(json!({}));
    let spec = || ToolSpec::new("t", "Does it.");
    let network = call(spec().capabilities([Capability::Network]), open(), json!({}));
    assert_eq!(deny("capability=email", &silent), "unknown");
    assert_eq!(deny("capability=email", &network), "no");
    assert_eq!(deny("capability=email|network", &network), "yes");
    assert_eq!(deny("effect=write", &silent), "unknown");
    assert_eq!(deny("effect=unknown", &silent), "yes");
    assert_eq!(deny("effect=write", &call(spec().read_only(), open(), json!({}))), "no");
    let both = does(vec![Effect::read("a"), Effect::write("b")]);
    assert_eq!(deny("effect=write", &both), "yes");
    assert_eq!(allow("effect=read", &both), "no", "an allow of reading does not allow writing");
    assert_eq!(allow("effect=read|write", &both), "yes");
    assert_eq!(allow("capability=network", &both), "no", "it reaches files as well");
    assert_eq!(deny("destructive", &silent), "yes");
    assert_eq!(allow("read_only", &reads("a")), "yes");
    assert_eq!(deny("destructive", &reads("a")), "no");
}

#[test]
fn run_selectors_depend_on_the_run() {
    let metadata = json!({"tenant": "acme", "a": {"b": 1}});
    let mut scope = at("/w");
    scope.agent = Some("helper".into());
    scope.user = Some("ann@x.org".into());
    scope.metadata = std::sync::Arc::new(metadata.as_object().unwrap().clone());
    scope.label = Label { trust: Trust::Untrusted, ..Label::CLEAN };
    let call = call_in(scope, None, ToolSpec::new("t", "Does it."), open(), json!({"x": "y"}));
    for (text, is) in [
        ("agent=help*", "yes"),
        ("agent=other", "no"),
        ("user=*@x.org", "yes"),
        ("meta.tenant=acme", "yes"),
        ("meta.a.b=1", "yes"),
        ("meta.none=*", "no"),
        ("label=tainted", "yes"),
        ("label=untrusted|secret", "yes"),
        ("label=trusted", "no"),
        ("label=public", "yes"),
        ("provenance=untrusted", "no"),
        ("t label=untrusted agent=helper", "yes"),
    ] {
        assert_eq!(deny(text, &call), is, "{text}");
    }
}

#[test]
fn command_specifier_matches_only_commands() {
    let spec = ToolSpec::new("shell", "Runs.").capabilities([Capability::Subprocess]);
    let effects = [Effect::execute("git status"), Effect::write("a")];
    let run = call(spec.effects(effects), open(), json!({}));
    let context = context();
    let facts = Facts::of(&run.request(), &context);
    let hits = pattern("Bash(git *)").hits(&facts, Side::Restrict);
    let commands = select_parts(&facts, |part| matches!(part, Part::Command(_)));
    assert!(hits.yes.or(hits.unknown).without(commands).is_empty());
    assert_eq!(deny("Bash(*)", &run), "yes");
    assert_eq!(deny("Bash(git *)", &reads("a")), "no");
    let broken = call(
        ToolSpec::new("shell", "Runs."),
        json!({"properties": {"command": {"type": "string"}}}),
        json!({"command": "echo 'never closed"}),
    );
    let facts = Facts::of(&broken.request(), &context);
    let hits = pattern("Bash(rm *)").hits(&facts, Side::Restrict);
    assert!(!hits.unknown.is_empty() && hits.why.is_some(), "{facts:?}");
}

#[test]
fn agent_is_matched_by_name() {
    let agent = |name: &str| {
        let schema = json!({"properties": {"agent": {"type": "string"}}});
        call(ToolSpec::new("agent", "Delegates."), schema, json!({"agent": name}))
    };
    assert_eq!(deny("Agent(reviewer)", &agent("reviewer")), "yes");
    assert_eq!(deny("Agent(reviewer)", &agent("writer")), "no");
    assert_eq!(deny("Agent(reviewer)", &says(json!({"agent": "reviewer"}))), "no");
}

#[test]
fn only_unconditional_patterns_cover_a_tool() {
    let call = call(ToolSpec::new("shell", "Runs."), open(), json!({}));
    let context = context();
    let facts = Facts::of(&call.request(), &context);
    for (text, is) in [
        ("shell", true),
        ("Bash", true),
        ("Bash(*)", true),
        ("*", true),
        ("sh*", true),
        ("tool=shell", true),
        ("tool=shell|x", true),
        ("Bash(rm *)", false),
        ("shell arg.x=1", false),
        ("shell label=untrusted", false),
        ("shell path=./a", false),
        ("shell(x:1)", false),
        ("other", false),
        ("mcp__*", false),
    ] {
        assert_eq!(pattern(text).covers_tool(&facts.names), is, "{text}");
    }
}

#[test]
fn index_key_is_in_every_matching_call() {
    let argument = |name, value| Key::Argument { tool: "mail_send", name, value };
    let like = |name, value| Key::ArgumentLike { tool: "mail_send", name, value };
    for (text, key) in [
        ("mail_send", Key::Tool("mail_send")),
        ("mail_send(to:x)", argument("to", "x")),
        ("mail_send arg.a.b=x", argument("a.b", "x")),
        ("mail_send arg.to=x*y", like("to", Affix::Start("x".to_owned()))),
        ("mail_send arg.to=*@x.org", like("to", Affix::End("@x.org".to_owned()))),
        ("mail_send(to:\\**)", like("to", Affix::Start("*".to_owned()))),
        ("mail_send arg.to=a* arg.cc=x", argument("cc", "x")),
        ("mail_send arg.to=*x*", like("to", Affix::Middle("x".to_owned()))),
        ("mail_send arg.to=*", Key::Tool("mail_send")),
        ("mail_send arg.to=x|y", Key::Tool("mail_send")),
        ("Bash(git push *)", Key::Command(Some("git"), Some("push"))),
        ("Bash(git push)", Key::Command(Some("git"), Some("push"))),
        ("Bash(git pu*)", Key::Command(Some("git"), None)),
        ("Bash(git *)", Key::Command(Some("git"), None)),
        ("Bash(git*)", Key::Command(None, None)),
        ("Bash(X=1 git push)", Key::Command(None, None)),
        ("mail_send path=./a", Key::Tool("mail_send")),
        ("mcp__github__get_*", Key::Source("github")),
        ("mcp__github", Key::Source("github")),
        ("mcp__a__b__c", Key::Any),
        ("mcp__*", Key::Any),
        ("source=github", Key::Source("github")),
        ("Read(//etc/ssl/**)", Key::Below(Path::new("/etc/ssl"))),
        ("Read(~/.ssh/*)", Key::Below(Path::new("/home/u/.ssh"))),
        ("Read(/docs/*.md)", Key::Below(Path::new("/proj/docs"))),
        ("Read(//**/.env)", Key::FileName(".env")),
        ("Read(.env)", Key::FileName(".env")),
        ("Edit(./src/**)", Key::FileName("src")),
        ("Edit(./**)", Key::Any),
        ("WebFetch(domain:*.x.org)", Key::Host("x.org")),
        ("host=a*.x.org", Key::Host("x.org")),
        ("host=a|b", Key::Any),
        ("WebFetch(domain:*)", Key::Any),
        ("capability=email", Key::Any),
        ("Bash", Key::Any),
        ("g*", Key::Any),
        ("* path=./a", Key::Any),
    ] {
        if !cfg!(any(target_os = "macos", target_os = "windows")) {
            assert_eq!(pattern(text).key(), key, "{text}");
        }
    }
}

#[cfg(unix)]
#[test]
fn symlink_cannot_bypass_a_deny_or_widen_an_allow() {
    let directory = crate::testing::TestDirectory::new("pattern-links");
    directory.dir("w/src");
    directory.dir("secrets");
    directory.link("w/out", "../secrets");
    directory.link("way", "secrets");
    let context = PolicyContext::default();
    let reads = |path: &str| {
        let spec =
            ToolSpec::new("look", "Looks.").read_only().capabilities([Capability::Filesystem]);
        call_in(at(directory.at("w")), None, spec.effects([Effect::read(path)]), open(), json!({}))
    };
    let secrets = format!("Read(/{}/**)", directory.at("secrets").display());
    let way = format!("Read(/{}/**)", directory.at("way").display());
    let through = reads("out/key");
    assert_eq!(side(&secrets, &through, &context, Side::Restrict), "yes", "the path is a link");
    assert_eq!(side(&way, &through, &context, Side::Restrict), "yes", "the pattern is one, too");
    assert_eq!(side("Read(./out/**)", &through, &context, Side::Restrict), "yes", "as written");
    let direct = reads(directory.at("secrets/key").to_str().unwrap());
    assert_eq!(side("Read(./out/**)", &direct, &context, Side::Restrict), "yes");
    assert_eq!(side("Read(./out/**)", &through, &context, Side::Allow), "no", "it leads elsewhere");
    assert_eq!(side("Read(./**)", &through, &context, Side::Allow), "no");
    assert_eq!(side("Read(./src/**)", &reads("src/a"), &context, Side::Allow), "yes");
    assert!(pattern("Read(./out/**)").has_symlink_prefix(&*context.resolver, &directory.at("w")));
    assert!(!pattern("Read(./src/**)").has_symlink_prefix(&*context.resolver, &directory.at("w")));
    assert!(pattern(&way).has_symlink_prefix(&*context.resolver, &directory.at("w")));
}

#[test]
fn skill_rule_restricts_loading_and_reading_that_skill() {
    let tool = |source: Option<&str>, name: &str, arguments: Value| {
        let spec = ToolSpec::new(name, "A skill.").read_only().capabilities(Capabilities::NONE);
        call_in(at("/w"), source, spec, open(), arguments)
    };
    let load = |name: &str| tool(Some("skill"), "load", json!({"name": name}));
    let read = |name: &str| tool(Some("skill"), "read", json!({"skill": name, "path": "a"}));
    for text in ["Skill", "Skill(*)", "tool=Skill", "Skill(deploy)", "Skill(deploy *)"] {
        assert_eq!(deny(text, &load("deploy")), "yes", "{text}");
        assert_eq!(deny(text, &read("deploy")), "yes", "{text}");
        assert_eq!(deny(text, &tool(None, "get", json!({"name": "deploy"}))), "no", "{text}");
        let other = tool(Some("other"), "load", json!({"name": "deploy"}));
        assert_eq!(deny(text, &other), "no", "{text}");
        // A server may have the name of the source of skills.
        assert_eq!(side(text, &load("deploy"), &context(), Side::Allow), "no", "{text}");
    }
    for text in ["Skill(deploy:*)", "Skill(/deploy)", "Skill(name:deploy)", "Skill(dep*)"] {
        assert_eq!(deny(text, &load("deploy")), "yes", "{text}");
        assert_eq!(deny(text, &read("other")), "no", "{text}");
    }
    assert_eq!(deny("Skill(deploy)", &load("deploy-all")), "no");
    let both = tool(Some("skill"), "load", json!({"name": "deploy", "skill": "other"}));
    assert_eq!(deny("Skill(deploy)", &both), "yes", "a second argument does not hide the first");
    let none = tool(Some("skill"), "load", json!({}));
    assert_eq!(deny("Skill(deploy)", &none), "unknown");
    assert_eq!(deny("Skill(deploy)", &tool(None, "Skill", json!({"skill": "deploy"}))), "yes");
    assert_eq!(error("Skill(deploy staging)").hint.as_deref(), Some("write `Skill(deploy)`"));
}

#[test]
fn inert_patterns_are_reported_with_a_replacement() {
    for (text, hint) in [
        ("Write(./a)", "write `Edit(./a)`"),
        ("NotebookEdit(./a)", "write `Edit(./a)`"),
        ("Glob(./a)", "write `Read(./a)`"),
        ("Cd(x)", "remove it"),
    ] {
        let error = error(text);
        assert_eq!(error.kind, PatternErrorKind::MatchesNothing, "{text}");
        assert_eq!(error.hint.as_deref(), Some(hint), "{text}");
    }
}

#[test]
fn mistakes_have_an_offset_and_a_hint() {
    for (text, at, says) in [
        ("", 0, "write `*`"),
        ("Bash(git push", 4, "never closed"),
        ("mail_send(command:x)", 10, "`Bash(…)`"),
        ("mail_send(path:x)", 10, "`path=…`"),
        ("mail_send(to=bob)", 10, "write `mail_send arg.to=bob`"),
        ("mail_send(./a)", 10, "path=./a"),
        ("shell(cargo *)", 6, "matched by `Bash(cargo *)`"),
        ("WebFetch(https://x.org/p)", 9, "write `WebFetch(domain:x.org)`"),
        ("WebFetch(domain:x.org:80)", 21, "no port"),
        ("Read(!./a)", 5, "`except`"),
        ("Read(./a[b)", 8, "never closed"),
        ("Read(./a/../b)", 9, "without it"),
        ("capabilty=email", 0, "did you mean `capability`?"),
        ("capability=emial", 11, "did you mean `email`?"),
        ("effect=wirte", 7, "did you mean `write`?"),
        ("label=tanted", 6, "did you mean `tainted`?"),
        ("t destructiv", 2, "did you mean `destructive`?"),
        ("t arg.x=", 8, "a value is missing"),
        ("t arg.x=\"a", 8, "never closed"),
        ("t arg.x='a'b", 11, "put a space"),
        ("destructive=1", 0, "write `destructive` alone"),
        ("provenance=web", 11, "untrusted"),
        ("a b", 2, "not a selector"),
        ("Read(./a)x", 4, "never closed"),
        ("t\u{0}x", 1, "control"),
    ] {
        let error = error(text);
        let kind =
            if text.contains('!') { PatternErrorKind::Negated } else { PatternErrorKind::Invalid };
        assert_eq!(error.kind, kind, "{text}");
        assert_eq!(error.at, at, "{text}: {error}");
        assert!(error.to_string().contains(says), "{text}: {error}");
    }
}

#[test]
fn near_miss_names_what_is_missing() {
    let context = context();
    let near = |text: &str, call: &TestCall| {
        pattern(text).near_miss(&Facts::of(&call.request(), &context))
    };
    let reason = |text: &str| Some(text.to_owned());
    assert_eq!(near("Read(./src/**)", &reads("a/b")), reason("`/w/a/b` is not below `./src/**`"));
    assert_eq!(near("Edit(./**)", &reads("a")), reason("`/w/a` is read, not written"));
    assert_eq!(near("look label=untrusted", &reads("a")), reason("the run is not untrusted"));
    assert_eq!(
        near("WebFetch(domain:y.org)", &fetches("https://x.org")),
        reason("`x.org` is not `y.org`")
    );
    assert_eq!(
        near("mail_send(to:eve)", &says(json!({"to": "bob"}))),
        reason("the tool matches, `to` is \"bob\"")
    );
    assert_eq!(near("other label=untrusted", &reads("a")), None);
    assert_eq!(near("capability=email", &reads("a")), None, "one condition that fails is far off");
    assert_eq!(near("look label=secret arg.x=1", &reads("a")), None, "so are two");
}

#[test]
fn brackets_inside_a_specifier_are_part_of_it() {
    for (text, inside) in [
        ("Bash(echo (a) b)", "echo (a) b"),
        ("Bash(echo \\) x)", "echo \\) x"),
        ("Bash(echo :)) label=untrusted", "echo :)"),
        ("Bash(f(x)) destructive", "f(x)"),
    ] {
        let pattern = pattern(text);
        assert_eq!(pattern.inside(), inside, "{text}");
        assert!(matches!(pattern.head, Some(Head::Command(_))), "{text}");
    }
}

fn any_pattern() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("Bash"),
        Just("Read"),
        Just("Edit"),
        Just("WebFetch"),
        Just("mcp__s__t"),
        Just("t"),
        Just("("),
        Just(")"),
        Just(" "),
        Just("="),
        Just("*"),
        Just("**"),
        Just("/"),
        Just("//"),
        Just("~"),
        Just("."),
        Just(".."),
        Just("["),
        Just("]"),
        Just("\\"),
        Just("'"),
        Just("\""),
        Just("|"),
        Just("!"),
        Just("domain:"),
        Just("arg.x"),
        Just("path"),
        Just("host"),
        Just("label"),
        Just("tainted"),
        Just("effect"),
        Just("read"),
        Just("capability"),
        Just("é"),
        Just("\u{202e}"),
        Just("destructive"),
    ];
    prop::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat())
}

/// Valid patterns.
fn good_pattern() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "*",
        "t",
        "look",
        "g*",
        "Read",
        "Edit",
        "Bash",
        "WebFetch",
        "Read(./a/**)",
        "Read(a)",
        "Read(./a/*)",
        "Edit(./**)",
        "Read(//w/a)",
        "WebFetch(domain:*.x.org)",
        "path=./a",
        "host=x.org",
        "effect=read",
        "capability=filesystem",
        "arg.x=*",
        "arg.x=a|b",
        "t(x:a)",
        "look path=./a",
        "t host=x.org",
        "label=trusted",
        "read_only",
        "mcp__s",
        "source=s",
        "Read(~/a)",
        "t path=./a host=x.org",
    ])
}

fn any_call() -> impl Strategy<Value = TestCall> {
    let target =
        prop::sample::select(vec!["a", "a/b", "b", "../a", "/etc/x", "a/b/c/d", "~/a", "k:v"]);
    let address =
        prop::sample::select(vec!["https://x.org", "a.x.org", "https:x", "https://[::1]/"]);
    let effect = prop_oneof![
        target.clone().prop_map(Effect::read),
        target.prop_map(Effect::write),
        address.prop_map(Effect::external),
    ];
    let name = prop::sample::select(vec!["t", "look", "get", "read_file"]);
    let source = prop::option::of(Just("s"));
    let argument =
        prop::option::of(prop::sample::select(vec![json!("a"), json!(["a", "c"]), json!({})]));
    let declares = prop::option::of(prop::collection::vec(effect, 0..3));
    (name, source, argument, declares, any::<bool>()).prop_map(
        |(name, source, argument, declares, reaches)| {
            let mut spec = ToolSpec::new(name, "Does it.");
            if let Some(effects) = declares {
                spec = spec.effects(effects);
            }
            if reaches {
                spec = spec.capabilities([Capability::Filesystem]);
            } else if name == "get" {
                spec = spec.capabilities(Capabilities::NONE);
            }
            let arguments = argument.map_or(json!({}), |x| json!({"x": x}));
            call_in(at("/w"), source, spec, open(), arguments)
        },
    )
}

proptest! {
    // Most random patterns do not match a random call; those are drawn again.
    #![proptest_config(ProptestConfig { max_global_rejects: 65_536, ..ProptestConfig::default() })]

    #[test]
    fn parser_never_panics(text in any_pattern(), noise in ".{0,40}") {
        for text in [text, noise] {
            match Pattern::parse(&text, &PathBase::default()) {
                Ok(pattern) => { let _ = pattern.key(); }
                Err(error) => prop_assert!(error.at <= text.len() && error.hint.is_some()),
            }
        }
    }

    #[test]
    fn escaped_value_matches_itself(value in "[^\\p{Cc}]{1,20}", step in "[^/\\p{Cc}]{1,12}") {
        let call = says(json!({"x": value}));
        let text = format!("mail_send arg.x=\"{}\"", crate::glob::literally(&value));
        prop_assert_eq!(allow(&text, &call), "yes");
        prop_assume!(step != "." && step != ".." && !step.starts_with('~'));
        let path = format!("a/{step}");
        let text = format!("path=\"./a/{}\"", crate::glob::literally(&step));
        prop_assert_eq!(allow(&text, &reads(&path)), "yes");
    }

    #[test]
    fn whatever_an_allow_matches_a_deny_matches_too(text in good_pattern(), call in any_call()) {
        let context = context();
        let facts = Facts::of(&call.request(), &context);
        let pattern = pattern(text);
        let allowed = pattern.hits(&facts, Side::Allow).yes;
        let denied = pattern.hits(&facts, Side::Restrict);
        prop_assert!(allowed.without(denied.yes.or(denied.unknown)).is_empty(), "{text} {facts:?}");
    }

    #[test]
    fn another_selector_never_adds_hits(
        text in good_pattern(),
        more in prop::sample::select(vec![
            "path=./a", "host=x.org", "arg.x=a", "effect=read", "capability=email", "read_only",
            "label=untrusted", "tool=t", "source=s",
        ]),
        call in any_call(),
        side in prop::sample::select(vec![Side::Allow, Side::Restrict]),
    ) {
        let context = context();
        let facts = Facts::of(&call.request(), &context);
        let wide = pattern(text).hits(&facts, side);
        let narrow = pattern(&format!("{text} {more}")).hits(&facts, side);
        let all = wide.yes.or(wide.unknown);
        let hit = narrow.yes.or(narrow.unknown);
        // A selector of parts adds the parts it is about, but never the call itself.
        prop_assert!(hit.is_empty() || !all.is_empty(), "{text} {more} {facts:?}");
        if !more.starts_with("path=") && !more.starts_with("host=") {
            prop_assert!(narrow.yes.without(wide.yes).is_empty(), "{text} {more} {facts:?}");
            prop_assert!(hit.without(all).is_empty(), "{text} {more} {facts:?}");
        }
    }

    #[test]
    fn matching_call_has_the_index_key(text in good_pattern(), call in any_call()) {
        let context = context();
        let facts = Facts::of(&call.request(), &context);
        let pattern = pattern(text);
        let hits = pattern.hits(&facts, Side::Restrict);
        prop_assume!(!hits.yes.is_empty());
        let paths: Vec<&Path> = facts.parts.iter().filter_map(|part| match part {
            Part::Path { spelled, .. } => Some(spelled.as_path()),
            _ => None,
        }).collect();
        let found = match pattern.key() {
            Key::Tool(name) => facts.names.own == name || facts.names.known_as.contains(&name),
            Key::Argument { tool, name, .. } | Key::ArgumentLike { tool, name, .. } => {
                (facts.names.own == tool || facts.names.known_as.contains(&tool))
                    && !crate::facts::find(facts.arguments, name).is_empty()
            }
            Key::Source(source) => facts.names.remote.is_some_and(|(own, _)| own == source),
            Key::Below(directory) => paths.iter().any(|path| path.starts_with(directory)),
            Key::FileName(name) => paths.iter().any(|path| path.iter().any(|own| own == name)),
            Key::Host(host) => facts.parts.iter().any(|part| matches!(part, Part::Host(Ok(own))
                if own == host || own.ends_with(&format!(".{host}")))),
            Key::Command(..) | Key::Any => true,
        };
        prop_assert!(found, "{text} {facts:?}");
    }
}

#[test]
fn tool_names_take_the_wildcards_of_name_globs() {
    let call = call(ToolSpec::new("read_a", "Reads."), open(), json!({}));
    for (text, is) in [
        ("read_?", "yes"),
        ("read_??", "no"),
        ("r*_?", "yes"),
        ("*? arg.x=*", "no"),
        ("* tool=read_?", "yes"),
    ] {
        assert_eq!(side(text, &call, &context(), Side::Restrict), is, "{text}");
    }
    assert!(error("read_[ab]").message.contains("is not allowed in a tool name"));
}
