//! `contentEncoding` and `contentMediaType`, which drafts 6 and 7 assert.

use data_encoding::{BASE32, BASE32HEX, BASE64, BASE64URL, Encoding, HEXUPPER};
use serde_json::{Map, Value};

/// What text has to contain.
#[derive(Debug, Clone)]
pub(super) struct Content {
    encoding: Option<Encoding>,
    is_json: bool,
}

impl Content {
    /// Reads both keywords of a schema; `None` if nothing known is asserted.
    pub(super) fn read(map: &Map<String, Value>) -> Option<Self> {
        let text = |keyword: &str| map.get(keyword).and_then(Value::as_str);
        let encoding = match text("contentEncoding") {
            None => None,
            Some("base64") => Some(BASE64),
            Some("base64url") => Some(BASE64URL),
            Some("base32") => Some(BASE32),
            Some("base32hex") => Some(BASE32HEX),
            Some("base16") => Some(HEXUPPER),
            Some(_) => return None,
        };
        let is_json = match text("contentMediaType") {
            None => false,
            Some("application/json") => true,
            Some(_) => return None,
        };
        (encoding.is_some() || is_json).then_some(Self { encoding, is_json })
    }

    /// Returns the keyword that a text violates.
    pub(super) fn violated(&self, text: &str) -> Option<&'static str> {
        let decoded = match &self.encoding {
            Some(encoding) => match encoding.decode(text.as_bytes()) {
                Ok(decoded) => Some(decoded),
                Err(_) => return Some("contentEncoding"),
            },
            None => None,
        };
        if !self.is_json {
            return None;
        }
        let bytes = decoded.as_deref().unwrap_or(text.as_bytes());
        if std::str::from_utf8(bytes).is_err() {
            return Some("contentEncoding");
        }
        serde_json::from_slice::<Value>(bytes).is_err().then_some("contentMediaType")
    }
}
