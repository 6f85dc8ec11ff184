//! The terminal on stderr, shared by live output, the status line, questions and messages.
//!
//! In: whole lines, a status line, and the news that a question is open. Out: text on stderr.
//!
//! INVARIANT: text is written at the left edge of an empty line. The status line is the only text
//! without a line break behind it, and it is erased before other text is written.
//! INVARIANT: while a question is open, neither live output nor a status line is written.

use std::{
    fmt::{self, Write as _},
    io::{self, IsTerminal as _, Write as _},
    sync::{
        Mutex, MutexGuard, TryLockError,
        atomic::{AtomicUsize, Ordering},
    },
};

use haft_core::sync;

/// The state of the terminal. A process has one terminal, so there is one state.
static SCREEN: Mutex<Screen> = Mutex::new(Screen { status: String::new(), questions: 0 });

/// The width of a terminal that does not report its width.
const DEFAULT_COLUMNS: usize = 80;

/// The width that the environment sets for pages and messages (`COLUMNS`); 0 if it sets none.
static NAMED_COLUMNS: AtomicUsize = AtomicUsize::new(0);

/// A terminal that is narrower is treated as this wide.
const MIN_PAGE_COLUMNS: usize = 20;

struct Screen {
    /// The status line on the screen, with the cursor behind it. Empty when there is none.
    status: String,
    /// How many questions are open.
    questions: usize,
}

impl Screen {
    /// Erases the status line, and what the keyboard has echoed behind it. Blanks do it on every
    /// terminal; escape codes do not, and `NO_COLOR` removes them.
    fn erase_status(&mut self, out: &mut String) {
        if !self.status.is_empty() {
            self.status.clear();
            out.push('\r');
            out.extend(std::iter::repeat_n(' ', line_width()));
            out.push('\r');
        }
    }
}

/// Writes a text at once, so that what the keyboard echoes cannot come in between. A closed
/// terminal must not stop the calls, so errors are ignored.
fn write(text: &str) {
    if text.is_empty() {
        return;
    }
    let mut out = anstream::stderr().lock();
    let is_plain = anstream::AutoStream::choice(&io::stderr()) == anstream::ColorChoice::Never;
    let _ = match is_plain {
        true => {
            let plain = anstream::adapter::strip_str(text).to_string();
            out.write_all(plain.as_bytes())
        }
        false => out.write_all(text.as_bytes()),
    };
    let _ = out.flush();
}

fn lock() -> MutexGuard<'static, Screen> {
    sync::lock(&SCREEN)
}

/// Whether stdout and stderr are a terminal.
pub(crate) fn is_watched() -> bool {
    io::stdout().is_terminal() && io::stderr().is_terminal()
}

/// How many columns the terminal has, as it is now.
pub(crate) fn columns() -> Option<usize> {
    columns_of(io::stderr())
}

#[cfg(unix)]
fn columns_of(terminal: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(terminal).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

#[cfg(not(unix))]
fn columns_of<T>(_: T) -> Option<usize> {
    None
}

/// Sets the width of pages and messages, as `COLUMNS` names it. Questions and live output do not
/// use it: they must fit the real terminal, so that no text can forge a line.
pub(crate) fn set_named_columns(columns: usize) {
    NAMED_COLUMNS.store(columns, Ordering::Relaxed);
}

/// How many columns a page on stdout may use; `None` if stdout is not a terminal.
pub(crate) fn page_width() -> Option<usize> {
    io::stdout().is_terminal().then(|| usable_columns(columns_of(io::stdout())))
}

/// How many columns a message on stderr may use; `None` if stderr is not a terminal.
pub(crate) fn message_width() -> Option<usize> {
    io::stderr().is_terminal().then(|| usable_columns(columns()))
}

fn usable_columns(real: Option<usize>) -> usize {
    let named = Some(NAMED_COLUMNS.load(Ordering::Relaxed)).filter(|columns| *columns > 0);
    named.or(real).unwrap_or(DEFAULT_COLUMNS).max(MIN_PAGE_COLUMNS) - 1
}

/// How many columns a line may use. The last one stays free: some terminals wrap as soon as it is
/// used.
pub(crate) fn line_width() -> usize {
    columns().unwrap_or(DEFAULT_COLUMNS).saturating_sub(1).max(1)
}

/// Writes whole lines, and a status line below them. Writes nothing and returns false while a
/// question is open. The status line must fit `line_width`.
pub(crate) fn show(lines: &str, status: &str) -> bool {
    let mut screen = lock();
    if screen.questions > 0 {
        return false;
    }
    if lines.is_empty() && status == screen.status {
        return true; // a line that is written again and again flickers
    }
    let mut out = String::new();
    screen.erase_status(&mut out);
    out.push_str(lines);
    out.push_str(status);
    write(&out);
    status.clone_into(&mut screen.status);
    true
}

/// Writes a message on a line of its own.
pub(crate) fn message(text: impl fmt::Display) {
    let mut screen = lock();
    let mut out = String::new();
    screen.erase_status(&mut out);
    let _ = writeln!(out, "{text}");
    write(&out);
}

/// Ends the line in which the terminal has echoed `^C`.
pub(crate) fn end_echo() {
    let mut screen = lock();
    let mut out = String::new();
    match screen.status.is_empty() {
        true => out.push('\n'),
        false => screen.erase_status(&mut out),
    }
    write(&out);
}

/// Erases the status line and resets the terminal before the process ends. Does not wait for a
/// blocked terminal.
pub(crate) fn leave() {
    crate::tty_mode::read_lines();
    let screen = match SCREEN.try_lock() {
        Ok(screen) => Some(screen),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    };
    if let Some(mut screen) = screen {
        let mut out = String::new();
        screen.erase_status(&mut out);
        write(&out);
    }
}

/// Whether a question is open.
pub(crate) fn has_question() -> bool {
    lock().questions > 0
}

/// An open question. Live output and the status line wait until it is dropped.
#[must_use]
pub(crate) struct OpenQuestion(());

impl OpenQuestion {
    pub(crate) fn new() -> Self {
        let mut screen = lock();
        screen.questions += 1;
        let mut out = String::new();
        screen.erase_status(&mut out);
        write(&out);
        Self(())
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        let mut screen = lock();
        screen.questions = screen.questions.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_line_is_erased_once_and_whole() {
        let mut screen = Screen { status: "running 2 s".to_owned(), questions: 0 };
        let mut text = String::new();
        screen.erase_status(&mut text);
        assert_eq!(text.trim_matches('\r').trim_matches(' '), "");
        assert_eq!(text.len(), line_width() + 2);
        let mut text = String::new();
        screen.erase_status(&mut text);
        assert_eq!(text, "");
    }

    #[test]
    fn live_output_waits_while_a_question_is_open() {
        let question = OpenQuestion::new();
        assert!(has_question() && !show("text\n", "status"));
        let second = OpenQuestion::new();
        drop(question);
        assert!(!show("text\n", ""), "the second question is still open");
        drop(second);
        // Other tests of this process may have a question open for a moment.
        let is_shown = (0..10_000_000).any(|_| {
            std::thread::yield_now();
            show("", "")
        });
        assert!(is_shown, "output still waits");
    }
}
