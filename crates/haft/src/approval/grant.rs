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
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::ApprovalScope;
use crate::{
    clock::{Clock, RuntimeClock},
    policy::Policy,
    turn::ValidatedCall,
};

type Hash = [u8; 32];

/// What an approval is bound to: everything it depends on, as digests.
///
/// Two digests of the same call are equal as long as nothing has changed that an answer depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalDigest {
    definition: Hash,
    arguments: Hash,
    directory: Hash,
    policy: u64,
    state: Hash,
    /// This one call of this one run.
    call: Hash,
    /// The session, or the run if there is none.
    session: Hash,
}

impl ApprovalDigest {
    /// Computes it for a call and the rules as they are now.
    pub(crate) fn of(call: &ValidatedCall, policy: &dyn Policy) -> Self {
        let (cx, tool) = (call.context(), call.tool());
        let fingerprint = policy.fingerprint(&call.policy_request());
        let scope = cx.scope();
        let session = match &scope.session {
            Some(session) => ["session", session],
            None => ["run", scope.run.as_str()],
        };
        let user = scope.user.as_deref();
        Self {
            // Two sources may have the same definition; an approval of one is none of the other.
            definition: digest([
                tool.raw_hash(),
                tool.source().as_bytes(),
                tool.name().as_str().as_bytes(),
            ]),
            arguments: digest([canonical(call.arguments()).as_bytes()]),
            directory: digest([scope.working_directory.as_os_str().as_encoded_bytes()]),
            policy: fingerprint.revision,
            state: digest([fingerprint.state.as_bytes()]),
            call: digest([
                scope.run.as_str().as_bytes(),
                &scope.cycle.to_be_bytes(),
                cx.call_id().as_str().as_bytes(),
            ]),
            session: digest([
                session[0].as_bytes(),
                session[1].as_bytes(),
                &[u8::from(user.is_some())],
                user.unwrap_or_default().as_bytes(),
            ]),
        }
    }

    /// Returns the key of this call within its session. `because` is the reason that was shown: a
    /// new reason is not covered by an old approval.
    pub(crate) fn in_session(&self, because: &[u8]) -> Hash {
        digest([
            &self.definition[..],
            &self.arguments,
            &self.directory,
            &self.policy.to_be_bytes(),
            &self.state,
            &self.session,
            because,
        ])
    }

    /// The call for a single-use approval, the session for a longer one.
    fn scope(&self, lasting: ApprovalScope) -> &Hash {
        match lasting {
            ApprovalScope::Once => &self.call,
            ApprovalScope::Session | ApprovalScope::Always => &self.session,
        }
    }
}

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
        let mut nonce = [0; NONCE_BYTES];
        {
            let mut state = lock(&self.state);
            state.issued = state.issued.wrapping_add(1);
            nonce[..10].copy_from_slice(&self.seed);
            nonce[10..].copy_from_slice(&state.issued.to_be_bytes());
        }
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
        // Only expired grants are forgotten; they would be refused anyway.
        state.spent = state.spent.split_off(&(now.saturating_add(1), [0; NONCE_BYTES]));
        if state.spent.len() >= Self::MAX_SPENT {
            return Err(GrantError::Full);
        }
        state.spent.insert((token.until, token.nonce));
        Ok(token.lasting)
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
        let lasting = [ApprovalScope::Once, ApprovalScope::Session, ApprovalScope::Always]
            .into_iter()
            .find(|l| mark(*l) == lasting && version == VERSION)?;
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

fn mark(lasting: ApprovalScope) -> u8 {
    match lasting {
        ApprovalScope::Once => 1,
        ApprovalScope::Session => 2,
        ApprovalScope::Always => 3,
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

/// Hashes several parts with their lengths, so that different lists never hash the same input.
pub(crate) fn digest<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Hash {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// Writes canonical JSON: keys sorted as in RFC 8785, no whitespace, whole numbers without a point.
/// Not recursive: what a person edits may be nested deeply.
pub(crate) fn canonical(value: &Value) -> String {
    enum Step<'a> {
        Value(&'a Value),
        Key(&'a str),
        Word(char),
    }
    let mut out = String::new();
    let mut steps = vec![Step::Value(value)];
    while let Some(step) = steps.pop() {
        match step {
            Step::Word(word) => out.push(word),
            Step::Key(key) => {
                quote(key, &mut out);
                out.push(':');
            }
            Step::Value(Value::String(text)) => quote(text, &mut out),
            Step::Value(Value::Number(number)) => match number.as_f64() {
                // Beyond this a float cannot represent every integer, and stays as written.
                Some(float) if number.is_f64() && float.trunc() == float && float.abs() < 9e15 => {
                    #[expect(clippy::cast_possible_truncation, reason = "whole and small")]
                    out.push_str(&(float as i64).to_string());
                }
                _ => out.push_str(&number.to_string()),
            },
            Step::Value(Value::Array(list)) => {
                steps.push(Step::Word(']'));
                for (at, item) in list.iter().enumerate().rev() {
                    steps.push(Step::Value(item));
                    if at > 0 {
                        steps.push(Step::Word(','));
                    }
                }
                out.push('[');
            }
            Step::Value(Value::Object(map)) => {
                let mut pairs: Vec<_> = map.iter().collect();
                pairs.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
                steps.push(Step::Word('}'));
                for (at, (key, item)) in pairs.into_iter().enumerate().rev() {
                    steps.push(Step::Value(item));
                    steps.push(Step::Key(key));
                    if at > 0 {
                        steps.push(Step::Word(','));
                    }
                }
                out.push('{');
            }
            Step::Value(plain) => out.push_str(&plain.to_string()),
        }
    }
    out
}

fn quote(text: &str, out: &mut String) {
    out.push_str(&Value::String(text.to_owned()).to_string());
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
    use serde_json::json;

    use super::*;

    const SOON: Duration = Duration::from_secs(60);

    fn binding() -> ApprovalDigest {
        let of = |word: &str| digest([word.as_bytes()]);
        ApprovalDigest {
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
        for lasting in [ApprovalScope::Once, ApprovalScope::Session, ApprovalScope::Always] {
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
    fn equal_data_has_one_canonical_form() {
        let one = json!({"b": [1.0, -0.5, "é\n\"", null], "a": {"\u{10000}": 1, "\u{ff61}": true}});
        let two = json!({"a": {"\u{ff61}": true, "\u{10000}": 1}, "b": [1, -0.5, "é\n\"", null]});
        assert_eq!(canonical(&one), canonical(&two));
        // Sorted by UTF-16 code units, where surrogate pairs come first.
        assert_eq!(
            canonical(&one),
            "{\"a\":{\"\u{10000}\":1,\"\u{ff61}\":true},\"b\":[1,-0.5,\"é\\n\\\"\",null]}"
        );
        for (a, b) in [(json!(["a", "b"]), json!(["a,b"])), (json!(1), json!("1"))] {
            assert_ne!(canonical(&a), canonical(&b));
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
        fn canonical_json_is_the_same_data(text in "[\\[\\]{}a\":,0-9.\\\\ \
            ]{0,40}") {
            if let Ok(value) = serde_json::from_str::<Value>(&text) {
                let again: Value = serde_json::from_str(&canonical(&value)).unwrap();
                prop_assert_eq!(canonical(&again), canonical(&value));
            }
        }
    }
}
