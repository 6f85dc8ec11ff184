//! The input mode of the terminal: whole lines, or single keys without Enter and without echo.
//!
//! INVARIANT: the terminal reads lines again when a question ends, however it ends, and before the
//! process exits.

/// Sets the terminal back to whole lines when it is dropped.
pub(crate) struct LineModeOnDrop;

impl Drop for LineModeOnDrop {
    fn drop(&mut self) {
        read_lines();
    }
}

#[cfg(unix)]
#[cfg(feature = "mcp")]
pub(crate) use unix::hide_typing;
#[cfg(unix)]
pub(crate) use unix::{read_keys, read_lines};

#[cfg(unix)]
mod unix {
    use std::{
        io,
        sync::{Mutex, PoisonError},
    };

    use rustix::termios::{
        LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
    };

    /// The mode that was set before single keys. A process has one terminal.
    static LINE_MODE: Mutex<Option<Termios>> = Mutex::new(None);

    /// Makes the terminal give every key at once. Signals of keys (Ctrl-C) work as before. Returns
    /// false if there is no such terminal.
    pub(crate) fn read_keys() -> bool {
        let mut line_mode = LINE_MODE.lock().unwrap_or_else(PoisonError::into_inner);
        if line_mode.is_some() {
            return true;
        }
        let Ok(before) = tcgetattr(io::stdin()) else { return false };
        let mut keys = before.clone();
        keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        keys.special_codes[SpecialCodeIndex::VMIN] = 1;
        keys.special_codes[SpecialCodeIndex::VTIME] = 0;
        if tcsetattr(io::stdin(), OptionalActions::Now, &keys).is_err() {
            return false;
        }
        *line_mode = Some(before);
        true
    }

    /// Makes the terminal not show what is typed, until it reads lines as before.
    #[cfg(feature = "mcp")]
    pub(crate) fn hide_typing() {
        let mut line_mode = LINE_MODE.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(before) = tcgetattr(io::stdin()) else { return };
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        if tcsetattr(io::stdin(), OptionalActions::Now, &hidden).is_ok() {
            line_mode.get_or_insert(before);
        }
    }

    /// Makes the terminal give whole lines, as before.
    pub(crate) fn read_lines() {
        let mut line_mode = LINE_MODE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = line_mode.take() {
            // An error leaves the terminal as it is; there is no other way to set it.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
        }
    }
}

/// There are no single keys here.
#[cfg(not(unix))]
pub(crate) fn read_keys() -> bool {
    false
}

#[cfg(not(unix))]
pub(crate) fn read_lines() {}

#[cfg(all(not(unix), feature = "mcp"))]
pub(crate) fn hide_typing() {}
