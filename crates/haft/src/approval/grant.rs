//! Grants: signed approvals that are bound to one call, expire, and are single-use (no replay).
//!
//! In: what was approved. Out: a token; later, whether it covers the call that is about to run. The
//! token contains a digest of everything the approval depends on, so an error can name the
//! difference. The key is random at start and never leaves this file: no tool, hook or policy can
//! sign.
//!
//! INVARIANT: a token is spent at most once, and a spent one is remembered until it has expired.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use haft_core::{Error, ErrorKind, sync::lock};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Serialize;
use sha2::Sha256;

use super::{
    ApprovalScope,
    canonical::canonical,
    digest::{ApprovalDigest, Hash},
};
use crate::clock::{Clock, RuntimeClock};

/// Why a grant does not cover a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GrantError {
    /// It is not a grant.
    Malformed,
    /// It was not signed with this key, or was modified.
    Forged,
    /// It has expired.
    Expired,
    /// It was already used.
    Spent,
    /// The tool's definition has changed.
    WrongDefinition,
    /// It was issued for other arguments.
    WrongArguments,
    /// It was issued for another directory.
    WrongDirectory,
    /// It was issued under other rules.
    WrongPolicy,
    /// What the call would touch, or what the run has read, has changed.
    StateChanged,
    /// It was issued for another call.
    WrongCall,
    /// Too many grants were used recently to detect a replay.
    Full,
}

impl GrantError {
    /// Returns whether asking again could help: the call is the same, but its state has changed.
    pub(crate) fn is_change(self) -> bool {
        matches!(self, Self::WrongPolicy | Self::StateChanged)
    }
}

impl fmt::Display for GrantError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "it is not a grant",
            Self::Forged => "its signature is invalid",
            Self::Expired => "it has expired",
            Self::Spent => "it was already used",
            Self::WrongDefinition => "the tool's definition has changed",
            Self::WrongArguments => "it was issued for other arguments",
            Self::WrongDirectory => "it was issued for another directory",
            Self::WrongPolicy => "it was issued under other rules",
            Self::StateChanged => "the state it was issued for has changed",
            Self::WrongCall => "it was issued for another call",
            Self::Full => "too many grants were used recently",
        })
    }
}

/// Signs grants and remembers the spent ones.
///
/// A runtime makes its own. A host whose grants must outlive the process, or are signed elsewhere,
/// makes one with its own key and passes it to
/// [`RuntimeBuilder::grants`](crate::RuntimeBuilder::grants).
#[expect(missing_debug_implementations, reason = "a debug print would leak the key")]
pub struct GrantStore {
    key: Hmac<Sha256>,
    /// The prefix of every nonce: two stores with one key never make the same.
    seed: [u8; 10],
    clock: Arc<dyn Clock>,
    started: Instant,
    /// The time when this store was opened.
    since: Duration,
    state: Mutex<StoreState>,
}

#[derive(Default)]
struct StoreState {
    issued: u64,
    /// Ordered by expiry, so that expired ones are dropped with one split.
    spent: BTreeSet<(u64, Nonce)>,
}

impl StoreState {
    /// Remembers a nonce as used, until it has expired.
    fn spend(&mut self, until: u64, nonce: Nonce, now: u64) -> Result<(), GrantError> {
        // Only expired ones are forgotten; they would be refused anyway.
        self.spent = self.spent.split_off(&(now.saturating_add(1), [0; NONCE_BYTES]));
        if self.spent.len() >= GrantStore::MAX_SPENT {
            return Err(GrantError::Full);
        }
        self.spent.insert((until, nonce));
        Ok(())
    }
}

type Nonce = [u8; NONCE_BYTES];

const NONCE_BYTES: usize = 18;
/// Version, scope, nonce, expiry, four digests, policy, and the call or the session.
const BODY_BYTES: usize = 1 + 1 + NONCE_BYTES + 8 + 32 * 5 + 8;
const MAC_BYTES: usize = 32;
/// A multiple of three, so that base64 has exactly one spelling.
const TOKEN_BYTES: usize = BODY_BYTES + MAC_BYTES;
const _: () = assert!(TOKEN_BYTES.is_multiple_of(3));
const PREFIX: &str = "haft1.";
const VERSION: u8 = 1;
const SEAL_PREFIX: &str = "haft-seal1.";
/// Nonce and expiry.
const SEAL_HEAD_BYTES: usize = NONCE_BYTES + 8;

impl GrantStore {
    /// Maximum number of remembered grants: a few megabytes.
    pub const MAX_SPENT: usize = 100_000;

    /// Opens a store with a random key.
    ///
    /// # Errors
    /// Fails if the system returns no random bytes.
    pub fn new() -> Result<Self, Error> {
        Self::with_key(random()?, Duration::ZERO)
    }

    /// Opens a store with a key that outlives the process. `now` is the time on a clock that does
    /// so too, such as the Unix time; grants expire by that clock. A host that stores the key must
    /// store [`GrantStore::spent`] as well, or grants could be replayed after a restart.
    ///
    /// # Errors
    /// Fails if the system returns no random bytes.
    pub fn with_key(key: [u8; 32], now: Duration) -> Result<Self, Error> {
        // HMAC pads a short key with zeros.
        let mut block = [0; 64];
        block[..key.len()].copy_from_slice(&key);
        Ok(Self {
            key: Hmac::new(&block.into()),
            seed: random()?,
            started: RuntimeClock.now(),
            clock: Arc::new(RuntimeClock),
            since: now,
            state: Mutex::default(),
        })
    }

    /// Uses another clock than that of the async runtime; the store was opened now. A runtime sets
    /// its own clock for the store that it opens itself.
    #[must_use]
    pub fn with_clock(self, clock: impl Clock) -> Self {
        self.on_clock(Arc::new(clock))
    }

    pub(crate) fn on_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { started: clock.now(), clock, ..self }
    }

    /// Restores what was used before a restart.
    #[must_use]
    pub fn with_spent(self, spent: impl IntoIterator<Item = (Duration, [u8; 18])>) -> Self {
        lock(&self.state)
            .spent
            .extend(spent.into_iter().map(|(until, nonce)| (millis(until), nonce)));
        self
    }

    /// Returns the used grants that have not expired: expiry and nonce.
    #[must_use]
    pub fn spent(&self) -> Vec<(Duration, [u8; 18])> {
        let now = self.now();
        let state = lock(&self.state);
        let alive = state.spent.iter().filter(|(until, _)| *until > now);
        alive.map(|(until, nonce)| (Duration::from_millis(*until), *nonce)).collect()
    }

    /// Signs an approval of exactly this, valid for this time. The text is URL-safe.
    #[must_use]
    pub fn issue(
        &self,
        binding: &ApprovalDigest,
        lasting: ApprovalScope,
        good_for: Duration,
    ) -> String {
        let until = self.now().saturating_add(millis(good_for));
        let nonce = self.nonce();
        let mut all = Vec::with_capacity(TOKEN_BYTES);
        all.push(VERSION);
        all.push(mark(lasting));
        all.extend(nonce);
        all.extend(until.to_be_bytes());
        all.extend(binding.definition);
        all.extend(binding.arguments);
        all.extend(binding.directory);
        all.extend(binding.policy.to_be_bytes());
        all.extend(binding.state);
        all.extend(binding.scope(lasting));
        let mac = self.key.clone().chain_update(&all).finalize().into_bytes();
        all.extend(mac);
        format!("{PREFIX}{}", encode(&all))
    }

    /// Signs an approval of exactly this call, once.
    pub(crate) fn issue_once(&self, binding: &ApprovalDigest, good_for: Duration) -> String {
        self.issue(binding, ApprovalScope::Once, good_for)
    }

    /// Uses a grant for a call with this digest, and returns its scope.
    ///
    /// # Errors
    /// Returns what differs. A grant that does not match is not used up.
    pub fn spend(
        &self,
        token: &str,
        binding: &ApprovalDigest,
    ) -> Result<ApprovalScope, GrantError> {
        let token = self.read(token)?;
        let now = self.now();
        let mut state = lock(&self.state);
        self.fits(&token, binding, now, &state)?;
        state.spend(token.until, token.nonce, now)?;
        Ok(token.lasting)
    }

    /// Signs data that comes back later, at most once and within this time.
    pub(crate) fn seal(&self, data: &impl Serialize, good_for: Duration) -> String {
        let text = sealed_text(data);
        let mut head = [0; SEAL_HEAD_BYTES];
        head[..NONCE_BYTES].copy_from_slice(&self.nonce());
        let until = self.now().saturating_add(millis(good_for));
        head[NONCE_BYTES..].copy_from_slice(&until.to_be_bytes());
        let mac = self.seal_mac(&head, &text).finalize().into_bytes();
        format!("{SEAL_PREFIX}{}{}", hex(&head), hex(&mac))
    }

    /// Accepts data with its seal, once.
    pub(crate) fn open_sealed(&self, data: &impl Serialize, seal: &str) -> Result<(), GrantError> {
        let seal = seal.strip_prefix(SEAL_PREFIX).ok_or(GrantError::Malformed)?;
        let bytes: [u8; SEAL_HEAD_BYTES + MAC_BYTES] = unhex(seal).ok_or(GrantError::Malformed)?;
        let (head, mac) = bytes.split_at(SEAL_HEAD_BYTES);
        // Compares in constant time (no timing attack).
        self.seal_mac(head, &sealed_text(data))
            .verify_slice(mac)
            .map_err(|_| GrantError::Forged)?;
        let mut head = head;
        let nonce = take(&mut head).ok_or(GrantError::Malformed)?;
        let until = take(&mut head).map(u64::from_be_bytes).ok_or(GrantError::Malformed)?;
        let now = self.now();
        if until <= now {
            return Err(GrantError::Expired);
        }
        let mut state = lock(&self.state);
        if state.spent.contains(&(until, nonce)) {
            return Err(GrantError::Spent);
        }
        state.spend(until, nonce, now)
    }

    /// The signature of a sealed text. A grant begins with its version, so no grant is also a seal.
    fn seal_mac(&self, head: &[u8], text: &str) -> Hmac<Sha256> {
        self.key.clone().chain_update(SEAL_PREFIX).chain_update(head).chain_update(text)
    }

    /// Makes a nonce that no other grant or seal has.
    fn nonce(&self) -> Nonce {
        let mut nonce = [0; NONCE_BYTES];
        let mut state = lock(&self.state);
        state.issued = state.issued.wrapping_add(1);
        nonce[..10].copy_from_slice(&self.seed);
        nonce[10..].copy_from_slice(&state.issued.to_be_bytes());
        nonce
    }

    /// Returns the scope of a grant, without using it.
    pub(crate) fn look(
        &self,
        token: &str,
        binding: &ApprovalDigest,
    ) -> Result<ApprovalScope, GrantError> {
        let token = self.read(token)?;
        self.fits(&token, binding, self.now(), &lock(&self.state))?;
        Ok(token.lasting)
    }

    fn fits(
        &self,
        token: &Token,
        binding: &ApprovalDigest,
        now: u64,
        state: &StoreState,
    ) -> Result<(), GrantError> {
        for (is_wrong, refusal) in [
            (token.until <= now, GrantError::Expired),
            (state.spent.contains(&(token.until, token.nonce)), GrantError::Spent),
            (token.definition != binding.definition, GrantError::WrongDefinition),
            (token.arguments != binding.arguments, GrantError::WrongArguments),
            (token.directory != binding.directory, GrantError::WrongDirectory),
            (token.scope != *binding.scope(token.lasting), GrantError::WrongCall),
            (token.policy != binding.policy, GrantError::WrongPolicy),
            (token.state != binding.state, GrantError::StateChanged),
        ] {
            if is_wrong {
                return Err(refusal);
            }
        }
        Ok(())
    }

    /// Parses a token and verifies its signature.
    fn read(&self, token: &str) -> Result<Token, GrantError> {
        let text = token.strip_prefix(PREFIX).ok_or(GrantError::Malformed)?;
        let all = decode(text).ok_or(GrantError::Malformed)?;
        let (body, mac) = all.split_at(BODY_BYTES);
        // Compares in constant time (no timing attack).
        self.key.clone().chain_update(body).verify_slice(mac).map_err(|_| GrantError::Forged)?;
        Token::of(body).ok_or(GrantError::Malformed)
    }

    fn now(&self) -> u64 {
        millis(self.since.saturating_add(self.clock.now().saturating_duration_since(self.started)))
    }
}

/// The content of a token, once its signature is verified.
#[derive(Clone, Copy)]
struct Token {
    lasting: ApprovalScope,
    nonce: Nonce,
    until: u64,
    definition: Hash,
    arguments: Hash,
    directory: Hash,
    policy: u64,
    state: Hash,
    scope: Hash,
}

impl Token {
    fn of(mut body: &[u8]) -> Option<Self> {
        let [version] = take(&mut body)?;
        let [lasting] = take(&mut body)?;
        let lasting = SCOPES.into_iter().find(|l| mark(*l) == lasting && version == VERSION)?;
        Some(Self {
            lasting,
            nonce: take(&mut body)?,
            until: u64::from_be_bytes(take(&mut body)?),
            definition: take(&mut body)?,
            arguments: take(&mut body)?,
            directory: take(&mut body)?,
            policy: u64::from_be_bytes(take(&mut body)?),
            state: take(&mut body)?,
            scope: take(&mut body)?,
        })
    }
}

fn take<const N: usize>(body: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = body.split_first_chunk::<N>()?;
    *body = rest;
    Some(*first)
}

/// The text of data that is signed. It does not depend on the order of keys, which a store may
/// change.
fn sealed_text(data: &impl Serialize) -> String {
    canonical(&serde_json::to_value(data).unwrap_or_default())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes what [`hex`] wrote, if it has this length.
fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| !pair.starts_with('+'))?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(bytes)
}

const SCOPES: [ApprovalScope; 4] = [
    ApprovalScope::Once,
    ApprovalScope::Session,
    ApprovalScope::Always,
    ApprovalScope::AlwaysInDirectory,
];

fn mark(lasting: ApprovalScope) -> u8 {
    match lasting {
        ApprovalScope::Once => 1,
        ApprovalScope::Session => 2,
        ApprovalScope::Always => 3,
        ApprovalScope::AlwaysInDirectory => 4,
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|e| {
        Error::new(
            ErrorKind::Unsupported,
            "the system returned no random bytes for the approval key",
        )
        .because(e.to_string())
    })?;
    Ok(bytes)
}

const BASE64_ALPHABET: &[u8; 64] =
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Encodes bytes as URL-safe base64, three at a time.
fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() / 3 * 4);
    for three in bytes.chunks(3) {
        let whole = three.iter().fold(0_u32, |whole, byte| whole << 8 | u32::from(*byte));
        for shift in [18, 12, 6, 0] {
            out.push(char::from(BASE64_ALPHABET[(whole >> shift & 63) as usize]));
        }
    }
    out
}

/// Decodes what [`encode`] wrote, if it has the length of a token.
fn decode(text: &str) -> Option<[u8; TOKEN_BYTES]> {
    let mut all = [0; TOKEN_BYTES];
    if text.len() != TOKEN_BYTES / 3 * 4 {
        return None;
    }
    for (four, three) in text.as_bytes().chunks(4).zip(all.chunks_mut(3)) {
        let mut whole = 0_u32;
        for letter in four {
            let value = match letter {
                b'A'..=b'Z' => letter - b'A',
                b'a'..=b'z' => letter - b'a' + 26,
                b'0'..=b'9' => letter - b'0' + 52,
                b'-' => 62,
                b'_' => 63,
                _ => return None,
            };
            whole = whole << 6 | u32::from(value);
        }
        three.copy_from_slice(&whole.to_be_bytes()[1..]);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SOON: Duration = Duration::from_secs(60);

    fn binding() -> ApprovalDigest {
        let of = |word: &str| super::super::digest([word.as_bytes()]);
        ApprovalDigest {
            has_read: [false; 2],
            definition: of("definition"),
            arguments: of("arguments"),
            directory: of("directory"),
            policy: 7,
            state: of("state"),
            call: of("call"),
            session: of("session"),
        }
    }

    fn refused(change: impl FnOnce(&mut ApprovalDigest)) -> GrantError {
        let grants = GrantStore::new().unwrap();
        let token = grants.issue(&binding(), ApprovalScope::Once, SOON);
        let mut other = binding();
        change(&mut other);
        let refusal = grants.spend(&token, &other).unwrap_err();
        // A grant that does not match is not used up.
        assert_eq!(grants.spend(&token, &binding()), Ok(ApprovalScope::Once));
        refusal
    }

    #[test]
    fn grant_covers_its_call_exactly_once() {
        let grants = GrantStore::new().unwrap();
        for lasting in SCOPES {
            let token = grants.issue(&binding(), lasting, SOON);
            assert_eq!(grants.look(&token, &binding()), Ok(lasting));
            assert_eq!(grants.spend(&token, &binding()), Ok(lasting));
            assert_eq!(grants.spend(&token, &binding()), Err(GrantError::Spent));
            assert_eq!(grants.look(&token, &binding()), Err(GrantError::Spent));
        }
    }

    #[test]
    fn invalid_token_is_malformed() {
        let grants = GrantStore::new().unwrap();
        let good = grants.issue(&binding(), ApprovalScope::Once, SOON);
        let longer = format!("{good}A");
        for token in ["", "haft1.", "haft1.é", &good[1..], &good[..good.len() - 1], &longer] {
            assert_eq!(grants.spend(token, &binding()), Err(GrantError::Malformed), "{token}");
        }
    }

    #[test]
    fn token_of_another_key_is_refused() {
        let theirs = GrantStore::new().unwrap().issue(&binding(), ApprovalScope::Once, SOON);
        assert_eq!(GrantStore::new().unwrap().spend(&theirs, &binding()), Err(GrantError::Forged));
    }

    #[tokio::test(start_paused = true)]
    async fn a_grant_expires() {
        let grants = GrantStore::new().unwrap();
        let token = grants.issue(&binding(), ApprovalScope::Once, SOON);
        tokio::time::advance(SOON - Duration::from_millis(1)).await;
        assert_eq!(grants.look(&token, &binding()), Ok(ApprovalScope::Once));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(grants.spend(&token, &binding()), Err(GrantError::Expired));
    }

    #[test]
    fn another_definition_is_refused() {
        assert_eq!(refused(|b| b.definition = [0; 32]), GrantError::WrongDefinition);
    }

    #[test]
    fn other_arguments_are_refused() {
        assert_eq!(refused(|b| b.arguments = [0; 32]), GrantError::WrongArguments);
    }

    #[test]
    fn another_directory_is_refused() {
        assert_eq!(refused(|b| b.directory = [0; 32]), GrantError::WrongDirectory);
    }

    #[test]
    fn other_rules_are_refused() {
        assert_eq!(refused(|b| b.policy = 8), GrantError::WrongPolicy);
    }

    #[test]
    fn changed_state_is_refused() {
        assert_eq!(refused(|b| b.state = [0; 32]), GrantError::StateChanged);
    }

    #[test]
    fn another_call_is_refused() {
        assert_eq!(refused(|b| b.call = [0; 32]), GrantError::WrongCall);
    }

    #[test]
    fn session_approval_covers_its_next_call_and_no_other_session() {
        let grants = GrantStore::new().unwrap();
        let token = grants.issue(&binding(), ApprovalScope::Session, SOON);
        let elsewhere = ApprovalDigest { session: [0; 32], ..binding() };
        assert_eq!(grants.spend(&token, &elsewhere), Err(GrantError::WrongCall));
        let next = ApprovalDigest { call: [0; 32], ..binding() };
        assert_eq!(grants.spend(&token, &next), Ok(ApprovalScope::Session));
    }

    #[tokio::test(start_paused = true)]
    async fn full_store_refuses_until_a_grant_expires() {
        let grants = GrantStore::new().unwrap();
        let many = (0..GrantStore::MAX_SPENT as u64).map(|n| {
            let mut nonce = [0; NONCE_BYTES];
            nonce[..8].copy_from_slice(&n.to_be_bytes());
            (SOON, nonce)
        });
        let grants = grants.with_spent(many);
        let token = grants.issue(&binding(), ApprovalScope::Once, SOON * 2);
        assert_eq!(grants.spend(&token, &binding()), Err(GrantError::Full));
        tokio::time::advance(SOON).await;
        assert_eq!(grants.spend(&token, &binding()), Ok(ApprovalScope::Once));
        assert_eq!(grants.spent().len(), 1, "what has expired is let go");
    }

    #[tokio::test(start_paused = true)]
    async fn stored_key_accepts_grants_after_a_restart_but_no_replay() {
        let day = Duration::from_secs(86_400);
        let before = GrantStore::with_key([7; 32], day).unwrap();
        let [open, used] = [(); 2].map(|()| before.issue(&binding(), ApprovalScope::Once, SOON));
        assert_eq!(before.spend(&used, &binding()), Ok(ApprovalScope::Once));
        let after =
            GrantStore::with_key([7; 32], day + SOON / 2).unwrap().with_spent(before.spent());
        assert_eq!(after.spend(&used, &binding()), Err(GrantError::Spent));
        assert_eq!(after.spend(&open, &binding()), Ok(ApprovalScope::Once));
        let late = GrantStore::with_key([7; 32], day + SOON).unwrap();
        assert_eq!(late.spend(&open, &binding()), Err(GrantError::Expired));
    }

    #[test]
    fn sealed_data_is_accepted_once_unchanged_and_in_time() {
        let clock = crate::clock::ManualClock::new();
        let grants = GrantStore::new().unwrap().with_clock(clock.clone());
        let (data, other) = (serde_json::json!({"a": 1}), serde_json::json!({"a": 2}));
        let seal = grants.seal(&data, SOON);
        assert_eq!(grants.open_sealed(&other, &seal), Err(GrantError::Forged));
        let foreign = GrantStore::new().unwrap();
        assert_eq!(foreign.open_sealed(&data, &seal), Err(GrantError::Forged));
        assert_eq!(grants.open_sealed(&data, &seal), Ok(()));
        assert_eq!(grants.open_sealed(&data, &seal), Err(GrantError::Spent));
        let late = grants.seal(&data, SOON);
        clock.advance(SOON);
        assert_eq!(grants.open_sealed(&data, &late), Err(GrantError::Expired));
        for text in ["", "haft-seal1.", "haft-seal1.zz", &seal[1..], &seal[..seal.len() - 1]] {
            assert_eq!(grants.open_sealed(&data, text), Err(GrantError::Malformed), "{text}");
        }
    }

    proptest! {
        #[test]
        fn flipping_any_bit_of_a_token_is_refused(at in 0usize..310, bit in 0u8..7) {
            let grants = GrantStore::new().unwrap();
            let token = grants.issue(&binding(), ApprovalScope::Once, SOON);
            prop_assert_eq!(token.len(), 310);
            let mut bytes = token.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            let flipped = String::from_utf8(bytes).unwrap();
            let refusal = grants.spend(&flipped, &binding()).unwrap_err();
            prop_assert!(matches!(refusal, GrantError::Malformed | GrantError::Forged));
            prop_assert_eq!(grants.spend(&token, &binding()), Ok(ApprovalScope::Once));
        }

        #[test]
        fn flipping_any_bit_of_a_seal_is_refused(at in 0usize..127, bit in 0u8..7) {
            let grants = GrantStore::new().unwrap();
            let seal = grants.seal(&"data", SOON);
            prop_assert_eq!(seal.len(), 127);
            let mut bytes = seal.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            let flipped = String::from_utf8(bytes).unwrap();
            // Hexadecimal digits have two spellings; another one is the same seal.
            prop_assume!(!flipped.eq_ignore_ascii_case(&seal) || at < SEAL_PREFIX.len());
            let refusal = grants.open_sealed(&"data", &flipped).unwrap_err();
            prop_assert!(matches!(refusal, GrantError::Malformed | GrantError::Forged));
            prop_assert_eq!(grants.open_sealed(&"data", &seal), Ok(()));
        }
    }
}
