//! The formats of JSON Schema that are asserted, each by a function over text.
//!
//! Internationalized host names and mail addresses are not asserted: they need the tables of IDNA.
//! A format that is unknown, or newer than the draft of the schema, restricts nothing.

mod date;
mod hostname;
mod email;
mod template;

use crate::{
    draft::Draft,
    uri::{self, Charset},
};

/// Returns whether a text has a format.
pub(crate) type Check = fn(&str) -> bool;

/// Returns the check of a format; `None` if the format is not asserted in a draft. A regular
/// expression is checked by the caller.
pub(crate) fn check(format: &str, draft: Draft) -> Option<Check> {
    let (first, check): (Draft, Check) = match format {
        "date" => (Draft::Draft4, date::is_date),
        "date-time" => (Draft::Draft4, date::is_date_time),
        "time" => (Draft::Draft4, date::is_time),
        "duration" => (Draft::Draft201909, date::is_duration),
        "email" => (Draft::Draft4, email::is_email),
        "hostname" if draft < Draft::Draft7 => (Draft::Draft4, hostname::is_ascii_hostname),
        "hostname" => (Draft::Draft7, hostname::is_hostname),
        "ipv4" => (Draft::Draft4, |text| text.parse::<std::net::Ipv4Addr>().is_ok()),
        "ipv6" => (Draft::Draft4, |text| text.parse::<std::net::Ipv6Addr>().is_ok()),
        "uri" => (Draft::Draft4, |text| uri::is_absolute(text, Charset::Ascii)),
        "uri-reference" => (Draft::Draft6, |text| uri::is_reference(text, Charset::Ascii)),
        "uri-template" => (Draft::Draft6, template::is_template),
        "iri" => (Draft::Draft7, |text| uri::is_absolute(text, Charset::Unicode)),
        "iri-reference" => (Draft::Draft7, |text| uri::is_reference(text, Charset::Unicode)),
        "json-pointer" => (Draft::Draft6, is_json_pointer),
        "relative-json-pointer" => (Draft::Draft7, is_relative_json_pointer),
        "uuid" => (Draft::Draft201909, is_uuid),
        _ => return None,
    };
    (draft >= first).then_some(check)
}

/// RFC 6901: empty, or segments that each start with `/`, with `~` only in `~0` and `~1`.
fn is_json_pointer(text: &str) -> bool {
    (text.is_empty() || text.starts_with('/'))
        && text.split('~').skip(1).all(|after| after.starts_with(['0', '1']))
}

/// A number without leading zeros, and then `#` or a pointer.
fn is_relative_json_pointer(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    !number.is_empty()
        && (number == "0" || !number.starts_with('0'))
        && (rest == "#" || is_json_pointer(rest))
}

/// RFC 9562: groups of 8, 4, 4, 4 and 12 hexadecimal digits.
fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(n, byte)| match n {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_and_refuse() {
        for (format, good, bad) in [
            ("json-pointer", "/a/~0~1", "/a~"),
            ("json-pointer", "", "a"),
            ("relative-json-pointer", "0#", "01"),
            ("relative-json-pointer", "12/a", "0a"),
            (
                "uuid",
                "2EB8AA08-aa98-11ea-b4aa-73b441d16380",
                "2eb8aa08aa98-11ea-b4aa73b441d16380-1",
            ),
            ("ipv4", "127.0.0.1", "127.0.0.01"),
            ("ipv6", "::1", "::1%eth0"),
            ("uri", "urn:a", "a"),
            ("iri", "http://ü", "ü"),
        ] {
            let check = check(format, Draft::Draft202012).unwrap();
            assert!(check(good) && !check(bad), "{format} {good} {bad}");
        }
        assert!(check("uuid", Draft::Draft7).is_none() && check("int32", Draft::Draft7).is_none());
    }
}
