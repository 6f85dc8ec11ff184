//! Mail addresses (RFC 5321, section 4.1.2).

use std::net::{Ipv4Addr, Ipv6Addr};

use super::hostname::is_hostname;

/// The longest local part, in bytes.
const MAX_LOCAL_BYTES: usize = 64;

/// Whether a text is a mail address: a local part, `@`, and a host name or an address in brackets.
pub(super) fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    local.len() <= MAX_LOCAL_BYTES && is_local(local) && is_domain(domain)
}

/// Atoms with dots between them, or a quoted string.
fn is_local(local: &str) -> bool {
    if let Some(quoted) = local.strip_prefix('"') {
        let Some(quoted) = quoted.strip_suffix('"') else { return false };
        let mut rest = quoted.bytes();
        while let Some(byte) = rest.next() {
            let is_text = match byte {
                b'\\' => rest.next().is_some_and(|byte| matches!(byte, b' '..=b'~')),
                b'"' => false,
                byte => matches!(byte, b' '..=b'~'),
            };
            if !is_text {
                return false;
            }
        }
        return true;
    }
    let is_atom_char = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&b);
    local.split('.').all(|atom| !atom.is_empty() && atom.bytes().all(is_atom_char))
}

fn is_domain(domain: &str) -> bool {
    let Some(literal) = domain.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
        return is_hostname(domain);
    };
    match literal.get(..5) {
        Some(tag) if tag.eq_ignore_ascii_case("IPv6:") => literal[5..].parse::<Ipv6Addr>().is_ok(),
        _ => literal.parse::<Ipv4Addr>().is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_addresses_have_a_local_part_and_a_domain() {
        for good in [
            "a@b",
            "joe.bloggs@example.com",
            "te~st@example.com",
            "\"joe bloggs\"@example.com",
            "\"a@b\"@c",
            "\"\\\"\"@c",
            "a@[127.0.0.1]",
            "a@[IPv6:::1]",
            "\"\"@c",
        ] {
            assert!(is_email(good), "{good}");
        }
        for bad in [
            "a",
            "@b",
            "a@",
            ".a@b",
            "a..b@c",
            "a b@c",
            "a@b_c",
            "a@[127.0.0.300]",
            "ü@b",
            "\"a\"b\"@c",
            "a@b@c",
        ] {
            assert!(!is_email(bad), "{bad}");
        }
    }
}
