//! Host names (RFC 1123), with labels in Punycode checked as IDNA does (RFC 5891, RFC 5892).

use std::sync::LazyLock;

/// A host name of letters, digits and hyphens.
pub(super) fn is_ascii_hostname(text: &str) -> bool {
    text.len() <= 253 && !text.is_empty() && text.split('.').all(is_label)
}

fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// A host name whose `xn--` labels encode valid labels.
pub(super) fn is_hostname(text: &str) -> bool {
    is_ascii_hostname(text)
        && text.split('.').all(|label| match label.strip_prefix("xn--") {
            Some(encoded) => decode(encoded).is_some_and(|label| is_unicode_label(&label)),
            // Two hyphens there are reserved for such prefixes.
            None => label.get(2..4) != Some("--"),
        })
}

/// Decodes Punycode (RFC 3492).
fn decode(text: &str) -> Option<Vec<char>> {
    const BASE: u32 = 36;
    const MIN_THRESHOLD: u32 = 1;
    const MAX_THRESHOLD: u32 = 26;
    let (basic, encoded) = match text.rsplit_once('-') {
        Some((basic, encoded)) if !basic.is_empty() => (basic, encoded),
        _ => ("", text),
    };
    let mut decoded: Vec<char> = basic.chars().collect();
    let (mut point, mut at, mut bias) = (128_u32, 0_u32, 72_u32);
    let mut digits = encoded.bytes();
    while digits.len() > 0 {
        let (before, mut weight, mut position) = (at, 1_u32, BASE);
        loop {
            let digit = match digits.next()? {
                byte @ b'a'..=b'z' => u32::from(byte - b'a'),
                byte @ b'A'..=b'Z' => u32::from(byte - b'A'),
                byte @ b'0'..=b'9' => u32::from(byte - b'0') + 26,
                _ => return None,
            };
            at = at.checked_add(digit.checked_mul(weight)?)?;
            let threshold = position.saturating_sub(bias).clamp(MIN_THRESHOLD, MAX_THRESHOLD);
            if digit < threshold {
                break;
            }
            weight = weight.checked_mul(BASE - threshold)?;
            position += BASE;
        }
        let len = u32::try_from(decoded.len()).ok()? + 1;
        // Adapt the bias to the size of the last step.
        let mut delta = (at - before) / if before == 0 { 700 } else { 2 };
        delta += delta / len;
        let mut steps = 0;
        while delta > (BASE - MIN_THRESHOLD) * MAX_THRESHOLD / 2 {
            delta /= BASE - MIN_THRESHOLD;
            steps += BASE;
        }
        bias = steps + (BASE - MIN_THRESHOLD + 1) * delta / (delta + 38);
        point = point.checked_add(at / len)?;
        at %= len;
        decoded.insert(usize::try_from(at).ok()?, char::from_u32(point)?);
        at += 1;
    }
    Some(decoded)
}

/// Letters, marks and decimal digits are valid in a label.
static VALID: LazyLock<Option<regex::Regex>> =
    LazyLock::new(|| regex::Regex::new(r"^[\p{L}\p{Mn}\p{Mc}\p{Nd}]$").ok());
static MARK: LazyLock<Option<regex::Regex>> = LazyLock::new(|| regex::Regex::new(r"^\p{M}$").ok());
/// Marks that a zero-width joiner may follow: canonical combining class 9.
static VIRAMA: LazyLock<Option<regex::Regex>> = LazyLock::new(|| {
    let viramas = [
        0x94d, 0x9cd, 0xa4d, 0xacd, 0xb4d, 0xbcd, 0xc4d, 0xccd, 0xd3b, 0xd3c, 0xd4d, 0xdca, 0xe3a,
        0xeba, 0xf84, 0x1039, 0x103a, 0x1714, 0x1734, 0x17d2, 0x1a60, 0x1b44, 0x1baa, 0x1bab,
        0x1bf2, 0x1bf3, 0x2d7f, 0xa806, 0xa8c4, 0xa953, 0xa9c0, 0xaaf6, 0xabed, 0x10a3f, 0x11046,
        0x1107f, 0x110b9, 0x11133, 0x11134, 0x111c0, 0x11235, 0x112ea, 0x1134d, 0x11442, 0x114c2,
        0x115bf, 0x1163f, 0x116b6, 0x1172b, 0x11839, 0x119e0, 0x11a34, 0x11a47, 0x11a99, 0x11c3f,
        0x11d44, 0x11d45, 0x11d97,
    ];
    let set: String = viramas.iter().map(|point| format!(r"\x{{{point:x}}}")).collect();
    regex::Regex::new(&format!("^[{set}]$")).ok()
});

fn is_in(c: char, set: &LazyLock<Option<regex::Regex>>) -> bool {
    let mut buffer = [0; 4];
    set.as_ref().is_some_and(|set| set.is_match(c.encode_utf8(&mut buffer)))
}

/// The rules of RFC 5892 for the characters of a label.
fn is_unicode_label(label: &[char]) -> bool {
    if label.first().is_some_and(|first| is_in(*first, &MARK)) {
        return false;
    }
    let any = |from: char, to: char| label.iter().any(|c| (from..=to).contains(c));
    let is_japanese = any('\u{3040}', '\u{30fa}')
        || any('\u{30fc}', '\u{30ff}')
        || any('\u{4e00}', '\u{9fff}')
        || any('\u{3400}', '\u{4dbf}');
    let mixes_digits = any('\u{660}', '\u{669}') && any('\u{6f0}', '\u{6f9}');
    !mixes_digits
        && label.iter().enumerate().all(|(n, c)| {
            let before = n.checked_sub(1).and_then(|n| label.get(n));
            let after = label.get(n + 1);
            match c {
                '\u{200d}' => before.is_some_and(|c| is_in(*c, &VIRAMA)),
                // Its rule needs the joining types of letters, which are not in the tree.
                '\u{200c}' => true,
                '\u{b7}' => before == Some(&'l') && after == Some(&'l'),
                '\u{375}' => after.is_some_and(|c| ('\u{370}'..='\u{3ff}').contains(c)),
                '\u{5f3}' | '\u{5f4}' => {
                    before.is_some_and(|c| ('\u{590}'..='\u{5ff}').contains(c))
                }
                '\u{30fb}' => is_japanese,
                // Exceptions that are not allowed, and those that are.
                '\u{640}'
                | '\u{7fa}'
                | '\u{302e}'
                | '\u{302f}'
                | '\u{3031}'..='\u{3035}'
                | '\u{303b}' => false,
                '\u{6fd}' | '\u{6fe}' | '\u{f0b}' | '\u{3007}' => true,
                c => c.is_ascii() || is_in(*c, &VALID),
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names_have_short_labels_of_letters_digits_and_hyphens() {
        for good in ["a", "www.example.com", "a-b.c1", "xn--4gbwdl.xn--wgbh1c", "1host"] {
            assert!(is_hostname(good), "{good}");
        }
        let long = "a".repeat(64);
        for bad in ["", ".", "a.", "-a", "a-", "a_b", "ü", "ab--c", "xn--X", &long] {
            assert!(!is_hostname(bad), "{bad}");
        }
        assert!(is_ascii_hostname("ab--c") && !is_hostname(&format!("{}.a", long)));
    }

    #[test]
    fn punycode_is_decoded() {
        let text =
            |encoded: &str| decode(encoded).map(|label| label.into_iter().collect::<String>());
        assert_eq!(text("bcher-kva").as_deref(), Some("bücher"));
        assert_eq!(text("maana-pta").as_deref(), Some("mañana"));
        assert_eq!(text("99999999999"), None);
    }
}
