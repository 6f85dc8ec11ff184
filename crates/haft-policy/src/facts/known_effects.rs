//! What is known about the effects of commands, and which command has them.

use haft_core::text::shortened;
use haft_shell::{CommandEffect, Kind, RedirectKind, SimpleCommand};

use super::Facts;

/// What is known about commands that are not read-only.
#[derive(Debug, Clone)]
pub(crate) struct KnownEffects {
    pub(crate) kind: Kind,
    pub(crate) effect: CommandEffect,
    /// The command that has them, as shown to people.
    pub(crate) cause: Option<String>,
}

impl KnownEffects {
    /// Classifies a text of these commands.
    pub(super) fn of(text: &str, commands: &[SimpleCommand]) -> Self {
        let found = haft_shell::classify(text);
        let cause = found.cause.and_then(|at| commands.get(at)).and_then(shown);
        Self { kind: found.kind, effect: found.known, cause }
    }
}

/// How much of a command is shown in a reason.
const MAX_SHOWN_CHARS: usize = 80;

/// Shows a command with the files that its redirections write; `None` if it starts nothing.
fn shown(command: &SimpleCommand) -> Option<String> {
    if command.is_bare() {
        return None;
    }
    let mut text = command.to_string();
    for redirect in &command.redirects {
        let is_write = matches!(redirect.kind, RedirectKind::Write | RedirectKind::ReadWrite);
        if is_write && !redirect.is_harmless() {
            text += " > ";
            text += redirect.target.literal().unwrap_or("…");
        }
    }
    // The redactor treats `…` as the end of a text that was cut.
    let text = text.replace('…', "<unknown>");
    Some(format!("`{}`", shortened(&text, MAX_SHOWN_CHARS)))
}

impl Facts<'_> {
    /// Keeps the strictest effects of all texts.
    pub(super) fn add_effects_known(&mut self, found: KnownEffects) {
        self.effects_known = Some(match self.effects_known.take() {
            Some(known) => {
                let is_stricter = (found.kind, found.effect) > (known.kind, known.effect);
                KnownEffects {
                    kind: known.kind.max(found.kind),
                    effect: known.effect.max(found.effect),
                    cause: if is_stricter { found.cause } else { known.cause },
                }
            }
            None => found,
        });
    }
}
