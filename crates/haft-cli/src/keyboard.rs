//! The keyboard of the terminal: whole lines, and single keys without Enter.
//!
//! A thread reads continuously: input that was typed before a question can be discarded, and a
//! waiting question can be cancelled.
//! FAIL CLOSED: what was typed before a person can have read the question answers nothing, and a
//! key with an escape sequence (an arrow, for example) is not taken for the letter at its end.

use std::{
    io::{self, Read as _, Write as _},
    time::Duration,
};

use haft::BoxFuture;
use tokio::{sync::mpsc, time::Instant};

use crate::{prompt::Keys, style, tty_mode};

/// The limit on pieces typed ahead; more are dropped.
const MAX_TYPED_AHEAD: usize = 256;
/// The longest line; a longer one is split.
const MAX_LINE_BYTES: usize = 1 << 20;
/// How long the first question waits, to discard input that was typed before the command was ready.
const TYPED_AHEAD_WAIT: Duration = Duration::from_millis(50);
/// How long a question is on the screen before a key can answer it. A person who types something
/// else at that moment does not answer by accident.
const READING_TIME: Duration = Duration::from_millis(200);
/// How long after a key its Enter may come: the habit of a person who types `y` and Enter.
const ENTER_AFTER_KEY: Duration = Duration::from_millis(400);
/// How long the rest of an escape sequence may take.
const ESCAPE_WAIT: Duration = Duration::from_millis(50);

/// End of input: Ctrl-D, where the terminal does not translate it.
const CTRL_D: &str = "\u{4}";

/// The keyboard of the terminal.
#[derive(Default)]
pub(crate) struct Keyboard {
    typed: Option<mpsc::Receiver<io::Result<Vec<u8>>>>,
    /// What was read and not used yet.
    buffer: Vec<u8>,
    /// When the last single key was given out, without its Enter.
    last_key: Option<Instant>,
}

impl Keyboard {
    /// Waits for more input; false at its end.
    async fn read_more(&mut self) -> io::Result<bool> {
        match self.typed.get_or_insert_with(start_reading).recv().await.transpose()? {
            Some(piece) => {
                self.buffer.extend_from_slice(&piece);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn discard(&mut self) {
        self.buffer.clear();
        while self.typed.as_mut().is_some_and(|typed| typed.try_recv().is_ok()) {}
    }

    /// Takes the text up to the next line end; `None` if there is none yet.
    fn take_line(&mut self) -> Option<String> {
        let end = self.buffer.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
        let end = end.or((self.buffer.len() >= MAX_LINE_BYTES).then_some(self.buffer.len()))?;
        Some(text(self.buffer.drain(..end)))
    }

    /// Takes what a single key gave: usually one character. A paste gives more at once.
    fn take_key(&mut self) -> Option<String> {
        if self.buffer.first() == Some(&b'\n')
            && self.last_key.take().is_some_and(|at| at.elapsed() < ENTER_AFTER_KEY)
        {
            self.buffer.remove(0);
        }
        if self.buffer.is_empty() {
            return None;
        }
        if let Some(line) = self.take_line() {
            self.last_key = None;
            return Some(line);
        }
        self.last_key = Some(Instant::now());
        Some(text(self.buffer.drain(..)))
    }
}

fn text(bytes: impl Iterator<Item = u8>) -> String {
    String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
}

impl Keys for Keyboard {
    fn discard_typed(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if self.typed.is_none() {
                self.typed = Some(start_reading());
                tokio::time::sleep(TYPED_AHEAD_WAIT).await;
            }
            self.discard();
        })
    }

    fn line(&mut self) -> BoxFuture<'_, io::Result<Option<String>>> {
        Box::pin(async {
            tty_mode::read_lines();
            loop {
                if let Some(line) = self.take_line() {
                    return Ok(Some(line));
                }
                if !self.read_more().await? {
                    let rest = text(self.buffer.drain(..));
                    return Ok(Some(rest).filter(|rest| !rest.is_empty()));
                }
            }
        })
    }

    fn key(&mut self) -> BoxFuture<'_, io::Result<Option<String>>> {
        Box::pin(async {
            if !tty_mode::read_keys() {
                return self.line().await;
            }
            let typed = loop {
                match self.take_key() {
                    Some(typed) => break typed,
                    None if self.read_more().await? => {}
                    None => return Ok(None),
                }
            };
            let key = match typed.as_str() {
                CTRL_D => return Ok(None),
                "\t" => "c".to_owned(),
                " " => "space".to_owned(),
                escape if escape.starts_with('\u{1b}') => {
                    tokio::time::sleep(ESCAPE_WAIT).await;
                    self.discard();
                    "Esc".to_owned()
                }
                _ => typed,
            };
            // The terminal does not echo it.
            let shown = style::visible(key.trim());
            let _ = writeln!(anstream::stderr(), "{shown}");
            Ok(Some(key))
        })
    }

    fn wait_for_reader(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if tty_mode::read_keys() {
                tokio::time::sleep(READING_TIME).await;
                self.discard();
                self.last_key = None;
            }
        })
    }
}

/// Reads on its own thread until the end of the input or of the process.
fn start_reading() -> mpsc::Receiver<io::Result<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel(MAX_TYPED_AHEAD);
    tokio::task::spawn_blocking(move || {
        let mut piece = [0; 4096];
        loop {
            let read = match io::stdin().lock().read(&mut piece) {
                Ok(0) => return,
                Ok(length) => Ok(piece[..length].to_vec()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => Err(e),
            };
            let is_over = read.is_err();
            match sender.try_send(read) {
                Ok(()) | Err(mpsc::error::TrySendError::Full(_)) if !is_over => {}
                _ => return,
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What single keys give for this input, in order.
    fn keys(typed: &[u8]) -> Vec<String> {
        let mut keyboard = Keyboard { buffer: typed.to_vec(), ..Keyboard::default() };
        std::iter::from_fn(|| keyboard.take_key()).collect()
    }

    #[test]
    fn key_is_given_without_enter_and_a_paste_as_a_whole() {
        assert_eq!(keys(b"y"), ["y"]);
        assert_eq!(keys(b"\n"), ["\n"]);
        assert_eq!(keys(b"?\n\n"), ["?\n", "\n"], "each line is an answer");
        assert_eq!(keys(b"yes please"), ["yes please"], "it is not the key `y`");
        assert_eq!(keys("ä".as_bytes()), ["ä"]);
    }

    #[test]
    fn enter_right_after_a_key_belongs_to_it() {
        let mut keyboard = Keyboard { buffer: b"y".to_vec(), ..Keyboard::default() };
        assert_eq!(keyboard.take_key().as_deref(), Some("y"));
        keyboard.buffer.push(b'\n');
        assert_eq!(keyboard.take_key(), None);
        keyboard.buffer.push(b'\n');
        assert_eq!(keyboard.take_key().as_deref(), Some("\n"), "a second one is an answer");
    }
}
