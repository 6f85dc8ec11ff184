//! Seals the state of an open question, so that a client can neither forge nor change it.
//!
//! A state is an id, an expiry and a tag over both and over what the question belongs to: the
//! caller, the request, the definition of the tool and the arguments.
//!
//! INVARIANT: a state is valid only for the request that it was made for. Whether it was used is
//! the table's business.

use std::time::SystemTime;

use haft::{Error, ErrorKind};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

const ID_BYTES: usize = 16;
const TAG_BYTES: usize = 32;
const STATE_BYTES: usize = ID_BYTES + 8 + TAG_BYTES;

/// The random id of a parked job.
pub(super) type ParkedId = [u8; ID_BYTES];

/// The key of this process, or of several. States of a process with another key are invalid.
pub(super) struct Sealer(Hmac<Sha256>);

/// Why a state is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StateError {
    /// It was not made here, or not for this request.
    Forged,
    /// It is too old.
    Expired,
}

/// What a state belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Binding([u8; 32]);

impl Binding {
    /// Hashes the parts; each has its length before it, so that they cannot run into each other.
    pub(super) fn of(parts: &[&[u8]]) -> Self {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }
}

impl Sealer {
    /// Makes a random key.
    pub(super) fn new() -> Result<Self, Error> {
        let mut key = [0_u8; 32];
        getrandom::fill(&mut key).map_err(|e| {
            Error::new(ErrorKind::BadConfig, format!("the system has no random numbers: {e}"))
        })?;
        Self::with_key(key)
    }

    /// Uses a key that other processes have too.
    pub(super) fn with_key(key: [u8; 32]) -> Result<Self, Error> {
        let mac = Hmac::new_from_slice(&key)
            .map_err(|e| Error::new(ErrorKind::BadConfig, e.to_string()))?;
        Ok(Self(mac))
    }

    /// Makes a random id.
    pub(super) fn id() -> Option<ParkedId> {
        let mut id = ParkedId::default();
        getrandom::fill(&mut id).ok()?;
        Some(id)
    }

    /// Seals an id until a time.
    pub(super) fn seal(&self, id: ParkedId, expires: SystemTime, binding: Binding) -> String {
        let expires = unix_millis(expires).to_be_bytes();
        let mut mac = self.0.clone();
        mac.update(&id);
        mac.update(&expires);
        mac.update(&binding.0);
        let tag = mac.finalize().into_bytes();
        let mut state = String::with_capacity(STATE_BYTES * 2);
        for byte in id.iter().chain(&expires).chain(tag.iter()) {
            state.push(HEX[usize::from(byte >> 4)]);
            state.push(HEX[usize::from(byte & 15)]);
        }
        state
    }

    /// Opens a state that belongs to this request and is not too old.
    pub(super) fn open(
        &self,
        state: &str,
        now: SystemTime,
        binding: Binding,
    ) -> Result<ParkedId, StateError> {
        let bytes = from_hex(state).ok_or(StateError::Forged)?;
        let (id, rest) = bytes.split_at(ID_BYTES);
        let (expires, tag) = rest.split_at(8);
        let mut mac = self.0.clone();
        mac.update(id);
        mac.update(expires);
        mac.update(&binding.0);
        mac.verify_slice(tag).map_err(|_| StateError::Forged)?;
        let expires = u64::from_be_bytes(expires.try_into().map_err(|_| StateError::Forged)?);
        if unix_millis(now) >= expires {
            return Err(StateError::Expired);
        }
        id.try_into().map_err(|_| StateError::Forged)
    }
}

const HEX: [char; 16] =
    ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];

fn from_hex(text: &str) -> Option<[u8; STATE_BYTES]> {
    let text = text.as_bytes();
    if text.len() != STATE_BYTES * 2 {
        return None;
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; STATE_BYTES];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

fn unix_millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    #[test]
    fn state_is_valid_only_unchanged_in_time_and_for_its_request() {
        let sealer = Sealer::new().unwrap();
        let (id, until) = (Sealer::id().unwrap(), NOW + Duration::from_secs(60));
        let binding = Binding::of(&[b"alice", b"delete"]);
        let state = sealer.seal(id, until, binding);
        assert_eq!(sealer.open(&state, NOW, binding), Ok(id));
        assert_eq!(sealer.open(&state, until, binding), Err(StateError::Expired));
        let other = Binding::of(&[b"bob", b"delete"]);
        assert_eq!(sealer.open(&state, NOW, other), Err(StateError::Forged));
        let other_key = Sealer::new().unwrap();
        assert_eq!(other_key.open(&state, NOW, binding), Err(StateError::Forged));
        for at in 0..state.len() {
            let mut changed = state.clone().into_bytes();
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(sealer.open(&changed, NOW, binding), Err(StateError::Forged), "{at}");
        }
        for wrong in ["", "zz", &format!("{state}-TAMPERED"), &state[2..], &state.to_uppercase()] {
            assert_eq!(sealer.open(wrong, NOW, binding), Err(StateError::Forged), "{wrong}");
        }
    }

    #[test]
    fn parts_of_a_binding_cannot_run_into_each_other() {
        assert_ne!(Binding::of(&[b"ab", b"c"]), Binding::of(&[b"a", b"bc"]));
    }
}
