//! The id of an artifact, which cannot be guessed and cannot be a path.

use std::{fmt, str::FromStr};

use data_encoding::BASE32_DNSCURVE;
use serde::{Deserialize, Serialize};

use super::NotKept;

/// The id of an artifact: 128 random bits, so that it cannot be guessed. It is written as 26
/// lower-case letters and digits, so it cannot be used for path traversal.
///
/// ```
/// use haft::artifacts::ArtifactId;
///
/// assert!("../../etc/passwd".parse::<ArtifactId>().is_err());
/// let id: ArtifactId = "0123456789bcdfghjklmnpqrs0".parse().unwrap();
/// assert_eq!(id.to_string(), "0123456789bcdfghjklmnpqrs0");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ArtifactId([u8; 16]);

impl ArtifactId {
    pub(super) fn random() -> Result<Self, NotKept> {
        let mut bits = [0; 16];
        getrandom::fill(&mut bits)
            .map_err(|e| NotKept::Trouble(format!("the system provides no randomness: {e}")))?;
        Ok(Self(bits))
    }
}

impl fmt::Display for ArtifactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&BASE32_DNSCURVE.encode_display(&self.0), f)
    }
}

impl fmt::Debug for ArtifactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ArtifactId {
    type Err = ParseArtifactIdError;

    fn from_str(text: &str) -> Result<Self, ParseArtifactIdError> {
        // The length first: longer text is not decoded.
        if text.len() != 26 {
            return Err(ParseArtifactIdError);
        }
        let bits = BASE32_DNSCURVE.decode(text.as_bytes()).map_err(|_| ParseArtifactIdError)?;
        bits.try_into().map(Self).map_err(|_| ParseArtifactIdError)
    }
}

impl From<ArtifactId> for String {
    fn from(id: ArtifactId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for ArtifactId {
    type Error = ParseArtifactIdError;

    fn try_from(text: String) -> Result<Self, ParseArtifactIdError> {
        text.parse()
    }
}

/// The error for a text that is not an [`ArtifactId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseArtifactIdError;

impl fmt::Display for ParseArtifactIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a result id has 26 characters: digits and lower-case letters without a, e, i, o",
        )
    }
}

impl std::error::Error for ParseArtifactIdError {}
