//! No text makes the shell parser panic, and its output is bounded. A verdict is as strict as its
//! strictest part.
#![no_main]

use haft_shell::{Kind, MAX_CHARACTERS, MAX_COMMANDS, Wrappers, classify};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let found = classify(&text);
    assert!(!found.why.is_empty());
    assert!(found.parts.iter().all(|part| part.kind <= found.kind), "{found:?}");
    let script = match haft_shell::parse(&text) {
        Ok(script) => script,
        Err(error) => {
            assert!(!error.why.is_empty());
            return assert_eq!(found.kind, Kind::Unparseable);
        }
    };
    assert_eq!(found.parts.len(), script.commands.len());
    if found.kind == Kind::ReadOnly {
        assert!(script.commands.iter().all(|command| command.assignments.is_empty()));
        // A write next to it is still a write.
        assert!(classify(&format!("touch x\n{text}")).kind > Kind::ReadOnly);
    }
    assert!(text.chars().count() <= MAX_CHARACTERS);
    assert!(script.commands.len() <= MAX_COMMANDS, "{} commands", script.commands.len());
    for command in &script.commands {
        let _ = command.to_string();
        for how in [Wrappers::Harmless, Wrappers::All] {
            let views = command.unwrapped(how);
            assert!(!views.is_empty() && views.len() <= 65, "{} views", views.len());
            assert_eq!(views[0].command, *command);
            // A command that may not wrap has exactly one view.
            assert!(command.may_wrap(how) || views.len() == 1, "{command}");
        }
        // What an allow sees through a wrapper, a deny sees too.
        let all = command.unwrapped(Wrappers::All);
        for view in command.unwrapped(Wrappers::Harmless) {
            let known = view.command.words.first().is_some_and(|word| word.literal().is_some());
            assert!(!known || all.iter().any(|o| o.command == view.command), "{command}");
        }
        // A fully literal command parses again.
        if let Some(text) = command.literal() {
            let _ = haft_shell::parse(&text);
        }
    }
});
