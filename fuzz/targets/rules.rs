//! No text makes the rule parser panic, and parsed rules can decide, be listed and be explained.
#![no_main]

use haft_policy::{ConfigFile, ConfigLayer, Decision, FileFormat, LexicalResolver, LoadOptions, PathBase, Pattern, PolicyConfig, PolicyContext, Rule, Rules};
use libfuzzer_sys::fuzz_target;
use std::{path::PathBuf, sync::Arc};

/// Without a disk: a path resolves to itself.
fn context() -> PolicyContext {
    let mut context = PolicyContext::default();
    context.resolver = Arc::new(LexicalResolver);
    context
}

fn read(text: &str, form: FileFormat, trusted: bool) {
    let file = ConfigFile {
        layer: ConfigLayer::Project,
        form,
        path: "/w/haft.toml".into(),
        anchor: "/w".into(),
        text: text.to_owned(),
    };
    let place = LoadOptions { home: Some("/home/u".into()), trusted, ..LoadOptions::default() };
    // An error has a position and a message.
    let setup = match PolicyConfig::read(&[file], &place) {
        Ok(setup) => setup,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    if let Ok(rules) = Rules::new(setup.rules, context()) {
        for finding in rules.lint(&[]) {
            assert!(!finding.to_string().is_empty() && !finding.hint.is_empty());
        }
    }
}

fn pattern(text: &str) {
    let anchor = PathBase { directory: Some(PathBuf::from("/w")), home: Some("/home/u".into()) };
    let pattern = match Pattern::parse(text, &anchor) {
        Ok(pattern) => pattern,
        Err(error) => {
            assert!(error.at <= text.len().max(4096) && !error.message.is_empty());
            return;
        }
    };
    // It prints as it was written, and decides any call.
    assert_eq!(pattern.as_str(), text);
    let context = context();
    let calls = [
        ("shell", serde_json::json!({"command": text})),
        ("read_file", serde_json::json!({"path": text})),
        ("fetch_url", serde_json::json!({"url": text})),
        ("mcp__s__t", serde_json::json!({"x": [text]})),
    ];
    for (tool, arguments) in &calls {
        let _ = pattern.is_about_example(tool, arguments, &context);
    }
    let rules =
        vec![Rule::new(Decision::Deny, pattern.clone()), Rule::new(Decision::Allow, pattern)];
    if let Ok(rules) = Rules::new(rules, context) {
        let _ = rules.lint(&[]);
    }
}

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    read(&text, FileFormat::Toml, true);
    read(&text, FileFormat::Toml, false);
    read(&text, FileFormat::Settings, true);
    pattern(&text);
    for line in text.lines().take(16) {
        pattern(line);
    }
});
