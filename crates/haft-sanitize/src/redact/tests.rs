//! What must be redacted, what must not, and that the result does not depend on splitting.
#![expect(clippy::disallowed_methods, reason = "tests measure real time; this crate has no clock")]

use std::time::{Duration, Instant};

use data_encoding::{BASE64, BASE64URL_NOPAD, HEXLOWER, HEXUPPER};
use proptest::prelude::*;
use serde_json::json;

use super::{key_patterns::RULES, *};

/// Expands an example: `<36>` becomes letters and digits, and so on.
fn example(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        out.push_str(before);
        let Some((inner, tail)) = after.split_once('>') else { break };
        let (kind, size) = match inner.strip_prefix(['A', 'h', 'd']) {
            Some(size) => (&inner[..1], size),
            None => ("", inner),
        };
        let letters = match kind {
            "A" => "A2B3C4D5E6F7G2H3",
            "h" => "0a1b2c3d4e5f6789",
            "d" => "1234567890",
            _ => "a1B2c3D4e5F6g7H8j9K0",
        };
        out.extend(letters.chars().cycle().take(size.parse().expect("a number")));
        rest = tail;
    }
    out + rest
}

fn plain() -> Redactor {
    Redactor::default()
}

fn with(list: &[(&str, &str)]) -> Redactor {
    let secrets = KnownSecrets::new();
    for (name, value) in list {
        secrets.add(name, value).unwrap();
    }
    Redactor::new(secrets)
}

#[test]
fn every_pattern_matches_its_example_and_not_its_counterexample() {
    for rule in RULES {
        for frame in ["{}", "x {} y", "(\"{}\")", "a\\n{}\\n", "k={}&", "%20{}"] {
            let (yes, no) = (example(rule.yes), example(rule.no));
            let shown = plain().text(&frame.replace("{}", &yes)).into_owned();
            let mark = format!("[REDACTED:{}:", rule.id);
            assert!(shown.contains(&mark), "{}: {yes} in {frame}\nshown as {shown}", rule.id);
            let text = frame.replace("{}", &no);
            assert_eq!(plain().text(&text), text, "{}: this is none", rule.id);
        }
    }
    assert!(RULES.len() >= 60);
}

#[test]
fn every_pattern_starts_with_a_prefix_and_stays_within_its_length() {
    for rule in RULES {
        let yes = example(rule.yes).to_ascii_lowercase();
        let word = rule.words.iter().find(|word| yes.contains(&word.to_ascii_lowercase()));
        assert!(word.is_some(), "{} does not hold its word", rule.id);
        assert!(rule.words.iter().all(|word| word.len() >= 3 && word.is_ascii()), "{}", rule.id);
        assert!(rule.reach > yes.len(), "{} is longer than its reach", rule.id);
        let shown = plain().text(&example(rule.yes)).into_owned();
        assert!(!shown.contains("a1B2c3D4"), "{}: something sticks out: {shown}", rule.id);
    }
}

/// Typical tool output.
const ORDINARY: &str = r##"
commit 9fceb02d0ae598e95dc970b74767f19372d61af8 (HEAD -> main)
index e69de29bb2d1d6434b8b29ae775ad8c2e48c5391..0cfbf08886fca9a91cb753ec8734c84fcbe52c9f 100644
id: 550e8400-e29b-41d4-a716-446655440000
sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
"integrity": "sha512-v2kDEe57lecTulaDIuNTPy3Ry4gLGJ6Z1O3vE1krgXZNrsQ+LFTGHVxVjcXPs17LhbZVGedAJv8XZ1tvj5FvSg=="
<img src="data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==">
let token = tokens.next().ok_or_else(|| Error::eof())?;
fn authorize(token: &str, secret: Option<String>) -> Result<(), Error> {
password = get_password(user1)
self.api_key = config.api_key2
if password == "" { return Err(WeakPassword) }
const SECRET: &str = env!("APP_SECRET");
api_key=os.environ["API_KEY"]
export TOKEN=$GITHUB_TOKEN PASSWORD=${DB_PASSWORD}
token: string; refresh_token?: string; password: String,
{"max_tokens": 4096, "token_count": 1234567, "next_page_token": "CAUQAA2b3c4d5e6f"}
tokenizer: gpt2bpe50k, total_tokens=123456
The secret: patience. My password: none of your business. A bearer of good news authorization is pending.
Passwords must hold 8 characters; the token is sent as a header. Basic authorization: see chapter 12.
https://example.org:8080/path?x=1@2 and git@github.com:owner/name.git and mailto:ada@example.org
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGmZ8rO2f0yq7c4gq9v3hY2mJbqzqJ8Jm1n2o3p4q5r6 ada@host
-----BEGIN CERTIFICATE-----
MIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYDVQQGEwJJRTESMBAGA1UE
-----END CERTIFICATE-----
task-runner desk-lamp risk-averse ask-me mask-rcnn disk-usage sk-loading sk-circle-fade-dot
error[E0277]: the trait bound `T: Serialize` is not satisfied at src/lib.rs:12:34
2026-11-16T05:43:29.123456Z  INFO haft: call c1 finished in 12.5ms (1234567890 bytes)
0x7ffee4c0a8b0 7f 45 4c 46 02 01 01 00 U+202E \u00e9 é 漢字 🦀
key-value npm_config_registry=https://registry.example.org hf_hub_download SG.html sl.html dapier
<div class="sk-folding-cube-animation"></div> xoxb-your-token-goes-here ghp_xxx AKIAFAKE
password: ******** api_key: <your-api-key> secret: xxxxxxxx token: {{token}} passphrase: %PASS%
"##;

#[test]
fn ordinary_text_stays_as_it_is() {
    for line in ORDINARY.lines() {
        assert_eq!(plain().text(line), line);
        assert!(matches!(plain().text(line), Cow::Borrowed(_)), "{line}: not even copied");
    }
    assert_eq!(plain().text(ORDINARY), ORDINARY);
}

#[test]
fn value_assigned_to_a_secret_like_name_is_redacted() {
    for (text, shown) in [
        ("DB_PASSWORD=hunter2x", "DB_PASSWORD=[REDACTED:assigned:8]"),
        ("dbPassword: 'hunter2x'", "dbPassword: '[REDACTED:assigned:8]'"),
        (r#"{"api_key": "abc123def"}"#, r#"{"api_key": "[REDACTED:assigned:9]"}"#),
        (r#"{\"api-key\":\"abc123def\"}"#, r#"{\"api-key\":\"[REDACTED:assigned:9]\"}"#),
        ("client_secret = abc123def;", "client_secret = [REDACTED:assigned:9];"),
        ("?access_token=abc123def&x=1", "?access_token=[REDACTED:assigned:9]&x=1"),
        ("let api_key: &str = \"abc123def\";", "let api_key: &str = \"[REDACTED:assigned:9]\";"),
        ("token => abc123def", "token => [REDACTED:assigned:9]"),
        ("postgres://u:p4ss@h/d", "postgres://u:[REDACTED:url-password:4]@h/d"),
        ("x-api-key: abcdef123456", "x-api-key: [REDACTED:assigned:12]"),
    ] {
        assert_eq!(plain().text(text), shown);
        assert_eq!(plain().text(shown), shown, "twice is once");
    }
}

#[test]
fn key_glued_to_other_letters_is_redacted() {
    for (text, shown) in [
        ("KEYghp_<36>", "KEY[REDACTED:github-token:40]"),
        ("x1AKIAABCDEFGHIJKLMN23", "x1[REDACTED:aws-access-key:20]"),
        ("_AIza<35>.", "_[REDACTED:google-api-key:39]."),
        ("tokensk-ant-api03-<60>", "token[REDACTED:anthropic-key:73]"),
        ("keyglpat-<20>", "key[REDACTED:gitlab-token:26]"),
        ("0xoxb-<d12>-<d12>-<24>", "0[REDACTED:slack-token:55]"),
    ] {
        let text = example(text);
        assert_eq!(plain().text(&text), shown, "{text}");
        for size in [1, 3, 11] {
            assert_eq!(streamed(&plain(), &text, &[size]), shown, "{text} by {size}");
        }
    }
    for text in [
        "southghp_lane",
        "SOUTHEASTASIANCOUNTRIESAND",
        "task-runner-2024-with-a-long-name-v2",
        "monkey-0a1b2c3d4e5f67890a1b2c3d4e5f6789",
        "task_test_20240131abcdefgh12345678",
    ] {
        assert_eq!(plain().text(text), text);
    }
}

#[test]
fn secret_on_a_command_line_is_redacted() {
    for (text, shown) in [
        ("mysql --password hunter2x db", "mysql --password [REDACTED:assigned:8] db"),
        ("gh --token=abc123def", "gh --token=[REDACTED:assigned:9]"),
        ("x --api-key 'abc123def' y", "x --api-key '[REDACTED:assigned:9]' y"),
        ("x --db-password \"my pass word 1\"", "x --db-password \"[REDACTED:assigned:14]\""),
        ("x --secret-key  s3cr3t!x", "x --secret-key  [REDACTED:assigned:8]"),
        ("[\"--token\", \"abc123def\"]", "[\"--token\", \"[REDACTED:assigned:9]\"]"),
        (
            "x --passphrase 'correct horse battery staple'",
            "x --passphrase '[REDACTED:assigned:28]'",
        ),
    ] {
        assert_eq!(plain().text(text), shown);
        assert_eq!(plain().text(shown), shown, "twice is once");
        for size in [1, 5] {
            assert_eq!(streamed(&plain(), text, &[size]), shown, "{text} by {size}");
        }
    }
    for text in [
        "--password-file secrets1.txt --password-stdin",
        "use --password to set it, or --token TOKEN",
        "--password $PASS1234 --token ${T0KEN123} --secret <secret123>",
        "  --token string        The token (default \"\", see page 12)",
        "--max-tokens 4096k --token-count 12ab34",
        "--password secret://mail --api-key env:KEY12345",
    ] {
        assert_eq!(plain().text(text), text);
    }
}

#[test]
fn netrc_password_is_redacted() {
    for (text, shown) in [
        (
            "machine api.example.org login ada password hunter2x",
            "machine api.example.org login ada password [REDACTED:netrc:8]",
        ),
        (
            "machine h\n  login ada\n  password correcthorse\nmachine b",
            "machine h\n  login ada\n  password [REDACTED:netrc:12]\nmachine b",
        ),
        (
            "default login anonymous password a@b",
            "default login anonymous password [REDACTED:netrc:3]",
        ),
        ("machine h password hunter2x", "machine h password [REDACTED:netrc:8]"),
    ] {
        assert_eq!(plain().text(text), shown);
        assert_eq!(plain().text(shown), shown, "twice is once");
        for size in [1, 5] {
            assert_eq!(streamed(&plain(), text, &[size]), shown, "{text} by {size}");
        }
    }
    for text in [
        "login with password authentication",
        "the login and password are wrong",
        "a machine learning password checker",
        "login page password reset",
        "machine h login ada",
    ] {
        assert_eq!(plain().text(text), text);
    }
}

#[test]
fn credentials_in_a_url_are_redacted() {
    for (text, shown) in [
        (
            "https://ada:hunter2@example.org/x",
            "https://ada:[REDACTED:url-password:7]@example.org/x",
        ),
        ("redis://:hunter2@h:6379", "redis://:[REDACTED:url-password:7]@h:6379"),
        ("mongodb://u:p@ss^1@h/d", "mongodb://u:[REDACTED:url-password:6]@h/d"),
        (
            "https://<24>@git.example.org/a.git",
            "https://[REDACTED:url-token:24]@git.example.org/a.git",
        ),
        ("https://<40>:x-oauth-basic@h/a", "https://[REDACTED:url-token:54]@h/a"),
    ] {
        let text = example(text);
        assert_eq!(plain().text(&text), shown);
        assert_eq!(plain().text(shown), shown, "twice is once");
        for size in [1, 5] {
            assert_eq!(streamed(&plain(), &text, &[size]), shown, "{text} by {size}");
        }
    }
    for text in [
        "https://ada@example.org/x and ssh://git@github.com/a/b",
        "https://example.org/@ada-lovelace-1815-1852/post",
        "https://a-very-long-host-name-12345.example.org/x@y",
        "https://a-very-long-user-name-without-digits@example.org",
        "http://example.org:8080/a?b=c@d",
    ] {
        assert_eq!(plain().text(text), text);
    }
}

#[test]
fn quoted_password_with_blanks_is_redacted() {
    for (text, shown) in [
        ("password = \"my pass word 1\"", "password = \"[REDACTED:assigned:14]\""),
        ("DB_PASSWORD='correct horse battery staple'", "DB_PASSWORD='[REDACTED:assigned:28]'"),
        (r#"{"passphrase": "red green blue"}"#, r#"{"passphrase": "[REDACTED:assigned:14]"}"#),
        (r#"{\"pwd\": \"a b c d3!\"}"#, r#"{\"pwd\": \"[REDACTED:assigned:9]\"}"#),
    ] {
        assert_eq!(plain().text(text), shown);
        assert_eq!(plain().text(shown), shown, "twice is once");
        for size in [1, 5] {
            assert_eq!(streamed(&plain(), text, &[size]), shown, "{text} by {size}");
        }
    }
    for text in [
        r#"{"password": "must have at least 8 characters"}"#,
        r#"password: "Enter your new password 2x""#,
        r#"secret = "see page 12 of the manual""#,
        r#"{"password": "Reset link sent"}"#,
        r#"password="" user="ada lovelace 1815 x""#,
        r#"{"token": "a b c d e f 1 2 3"}"#,
    ] {
        assert_eq!(plain().text(text), text);
    }
    assert_eq!(
        plain().text(r#"password="hunter2x or so""#),
        r#"password="[REDACTED:assigned:8] or so""#,
        "the first word alone"
    );
    let data =
        json!({"passphrase": "red green blue", "password": "must have at least 8 characters"});
    let shown = plain().json(&data).unwrap();
    assert_eq!(shown["passphrase"], "[REDACTED:assigned:14]");
    assert_eq!(shown["password"], data["password"]);
}

#[test]
fn more_specific_pattern_names_the_find() {
    let key = example("sk-ant-api03-<60>");
    let shown = plain().text(&format!("api_key={key}")).into_owned();
    assert_eq!(shown, format!("api_key=[REDACTED:anthropic-key:{}]", key.len()));
    // Longer than an assigned value may be: no part of it remains.
    let jwt = example("eyJ<400>.eyJ<900>.<43>");
    let shown = plain().text(&format!("token={jwt} x")).into_owned();
    assert_eq!(shown, format!("token=[REDACTED:jwt:{}] x", jwt.len()));
}

#[test]
fn truncated_key_is_redacted() {
    let cut = example("-----BEGIN PRIVATE KEY-----\n<64>\n<64>\n");
    let shown = plain().text(&cut).into_owned();
    assert!(shown.starts_with("[REDACTED:private-key:"), "{shown}");
    let text = "the line -----BEGIN PRIVATE KEY----- is missing";
    assert_eq!(plain().text(text), text);
}

#[test]
fn truncated_private_key_with_line_numbers_indentation_and_headers_is_redacted() {
    for text in [
        "1\t-----BEGIN RSA PRIVATE KEY-----\n2\t<64>\n3\t<64>\n4\t<20>",
        "  -----BEGIN PRIVATE KEY-----\n  <64>\n  <64>\n",
        "> -----BEGIN PRIVATE KEY-----\n> <64>\n> <20>",
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n<64>\n<64>\n",
        "key: |\r\n  -----BEGIN PRIVATE KEY-----\r\n  <64>\r\n  <40>\r\n",
    ] {
        let text = example(text);
        let shown = plain().text(&format!("{text}\nand so on: this stays\n")).into_owned();
        let mut words =
            text.split_whitespace().filter(|word| word.len() >= 20 && !word.contains('-'));
        assert!(words.clone().count() >= 2, "{text}");
        assert!(words.all(|word| !shown.contains(word)), "{shown}");
        assert!(shown.ends_with("and so on: this stays\n"), "{shown}");
        for size in [1, 7, 64] {
            let whole = plain().text(&text).into_owned();
            assert_eq!(streamed(&plain(), &text, &[size]), whole, "{size}");
        }
    }
}

#[test]
fn known_secret_is_redacted_in_every_encoded_form() {
    let value = "p@ss w/örd\"7";
    let redactor = with(&[("db", value)]);
    let mut forms = vec![value.to_owned(), HEXLOWER.encode(value.as_bytes())];
    forms.push(HEXUPPER.encode(value.as_bytes()));
    forms.push("p%40ss%20w%2F%C3%B6rd%227".to_owned());
    forms.push("p%40ss+w%2f%c3%b6rd%227".to_owned());
    forms.push("p@ss w/örd\\\"7".to_owned());
    for pad in ["", "a", "ab", "abc"] {
        let longer = format!("{pad}{value}{pad}");
        forms.push(BASE64.encode(longer.as_bytes()));
        forms.push(BASE64URL_NOPAD.encode(longer.as_bytes()));
    }
    for form in forms {
        let shown = redactor.text(&form).into_owned();
        assert!(shown.contains("[REDACTED:secret/db:"), "{form} is shown as {shown}");
        assert!(shown.len() - shown.find(']').unwrap() < 12, "{form} is shown as {shown}");
    }
}

#[test]
fn json_keys_and_numbers_are_redacted() {
    let redactor = with(&[("pin", "12345678"), ("word", "open sesame")]);
    let data = json!({
        "a": [1, {"open sesame": 12345678}],
        "password": "letmein1",
        "tokens": 5,
        "token": "abc",
        "nested": {"apiKey": "Zm9vYmFy1", "note": "say open sesame"},
    });
    assert_eq!(
        redactor.json(&data).unwrap(),
        json!({
            "a": [1, {"[REDACTED:secret/word:11]": "[REDACTED:secret/pin:8]"}],
            "password": "[REDACTED:assigned:8]",
            "tokens": 5,
            "token": "abc",
            "nested": {"apiKey": "[REDACTED:assigned:9]", "note": "say [REDACTED:secret/word:11]"},
        })
    );
    let shown = redactor.json(&data).unwrap();
    assert_eq!(redactor.json(&shown), None, "twice is once");
    assert_eq!(redactor.json(&json!({"a": ["b", 1, null]})), None);
}

#[test]
fn json_deeper_than_the_limit_is_not_shown() {
    let mut deep = json!("password=hunter2x");
    for _ in 0..MAX_JSON_DEPTH + 20 {
        deep = json!([deep]);
    }
    let shown = plain().json(&deep).unwrap().to_string();
    assert!(!shown.contains("hunter2x") && shown.contains("too-deep"), "{shown}");
}

#[test]
fn backslash_before_a_secret_does_not_hide_its_first_letter() {
    let redactor = with(&[("share", "nightly-77"), ("root", "rn-4711-x")]);
    for text in [r"c:\data\nightly-77", r"x\r\nightly-77", r"a\rn-4711-x", r"night\nly-77"] {
        let shown = redactor.text(text).into_owned();
        assert!(shown.contains("[REDACTED:secret/"), "{text} became {shown}");
        for cut in 1..text.len() {
            assert_eq!(streamed(&redactor, text, &[cut, 999]), shown, "{text} at {cut}");
        }
    }
}

#[test]
fn message_with_truncated_values_contains_no_half_secret() {
    let redactor = with(&[("door", "open sesame 4711")]);
    for (words, shown) in [
        ("`x` is \"say open sesame 47…\", not a number", "`x` is \"say …\", not a number"),
        ("open ses … (900 bytes in all)", " … (900 bytes in all)"),
        ("open se…, open sesame…, open sesame 4711", "…, …, [REDACTED:secret/door:16]"),
        ("one of a, b, … or ope…n", "one of a, b, … or …n"),
    ] {
        assert_eq!(redactor.message(words).as_deref(), Some(shown), "{words}");
        assert_eq!(redactor.message(shown), None, "twice changes nothing: {shown}");
    }
    for fine in ["nothing at all…", "a, b, …", "one … (9 bytes in all)", "no…", "…", ""] {
        assert_eq!(redactor.message(fine), None, "{fine}");
    }
}

/// The cost per byte of ten times as much text is at most twice as high.
#[test]
fn redaction_time_is_linear_in_the_text() {
    let took = |text: &str| {
        let clock = Instant::now();
        std::hint::black_box(plain().text(text).len());
        clock.elapsed()
    };
    for piece in
        ["sk-", "eyJ", "://a:", "password=", "-----BEGIN PRIVATE KEY-----", "sk-a1-", "token "]
    {
        let (short, long) =
            (piece.repeat(30_000 / piece.len()), piece.repeat(300_000 / piece.len()));
        took(&short);
        // Another process may take the processor during one measurement, but not during all.
        let costs: Vec<_> = (0..5).map(|_| (took(&short), took(&long))).collect();
        let is_linear = |(short, long): &(Duration, Duration)| *long <= *short * 20;
        assert!(costs.iter().any(is_linear), "{piece}: 30 kB and 300 kB took {costs:?}");
    }
}

#[test]
fn hostile_text_costs_at_most_a_few_times_ordinary_text() {
    // Both are measured on the same machine at the same moment. The worst is about 12 times slower;
    // before the work was bounded it was thousands of times.
    let size = 24 << 10;
    let took = |text: &str| {
        let clock = Instant::now();
        std::hint::black_box(plain().text(text).len());
        clock.elapsed()
    };
    let ordinary = ORDINARY.repeat(size / ORDINARY.len() + 1);
    took(&ordinary);
    let words: Vec<&str> = RULES.iter().flat_map(|rule| rule.words).copied().collect();
    for word in words {
        for tail in ["", "=", "-", "=x1", "=a/"] {
            let piece = format!("{word}{tail}");
            let text = piece.repeat(size / piece.len());
            took(&text[..text.len() / 16]);
            // A busy machine may delay one of them, but not three times in a row.
            let is_fine = (0..3).any(|_| took(&text) < took(&ordinary) * 100);
            assert!(is_fine, "{piece}: {:?}, ordinary text {:?}", took(&text), took(&ordinary));
        }
    }
}

#[test]
fn crowded_text_hides_no_secret_and_does_not_depend_on_splitting() {
    for piece in
        ["password=", "eyJ-", "sk-a1-", "-----BEGIN", "token=x1", "://a:", "bearer=", "eyJ-é"]
    {
        let secrets = example("password: hunter2x ghp_<36> and AIza<35>");
        for between in ["", " ", "-", "\n", "=", "]", ": "] {
            let text = format!("{}{between}{secrets} end.", piece.repeat(20_000 / piece.len()));
            let shown = plain().text(&text).into_owned();
            for secret in ["hunter2x", "ghp_", "a1B2c3"] {
                assert!(!shown.contains(secret), "{piece}{between}: {secret}");
            }
            assert_eq!(plain().text(&shown), shown, "{piece}{between}: twice is once");
            for sizes in [&[4_096, 7][..], &[1_000], &[9_001, 1, 1]] {
                assert_eq!(streamed(&plain(), &text, sizes), shown, "{piece}{between}: {sizes:?}");
            }
        }
    }
    let shown = plain().text(&"eyJ-".repeat(20_000)).into_owned();
    assert!(shown.contains("[REDACTED:crowded:"), "{}", shown.len());
    // A list of names is not hostile text.
    let list = "password\npassword1\nsecret\ntoken\napi_key,access_token,private_key\n".repeat(500);
    assert_eq!(plain().text(&list), list);
}

/// Feeds a text in pieces of these sizes, repeatedly.
fn streamed(redactor: &Redactor, text: &str, sizes: &[usize]) -> String {
    let mut stream = redactor.stream();
    let mut out = String::new();
    let (mut at, mut sizes) = (0, sizes.iter().cycle());
    while at < text.len() {
        let end = text.ceil_char_boundary((at + sizes.next().unwrap()).min(text.len()));
        out += &stream.feed(&text[at..end]);
        assert!(stream.buffered() < 64 << 10);
        at = end;
    }
    out + &stream.finish()
}

#[test]
fn every_example_is_found_across_every_split() {
    for rule in RULES {
        let text = format!("say {} then", example(rule.yes));
        let whole = plain().text(&text).into_owned();
        for size in [1, 2, 3, 7] {
            assert_eq!(streamed(&plain(), &text, &[size]), whole, "{} by {size}", rule.id);
        }
        for cut in 1..text.len().min(80) {
            assert_eq!(streamed(&plain(), &text, &[cut, 9_999]), whole, "{} at {cut}", rule.id);
        }
    }
}

#[test]
fn stream_buffers_only_what_may_be_a_secret() {
    let mut stream = with(&[("key", "open sesame")]).stream();
    for piece in ["page 1", ", page 2\n", "and some more text", " of this and that."] {
        assert_eq!(stream.feed(piece), piece);
        assert_eq!(stream.buffered(), 0);
    }
    assert_eq!(
        stream.feed("my open sesame."),
        "my [REDACTED:secret/key:11].",
        "a mark waits for nothing"
    );
    assert_eq!(stream.feed("op"), "");
    assert_eq!(stream.feed("ium"), "opium");
}

#[test]
fn invisible_characters_hide_no_secret() {
    let redactor = with(&[("door", "correct horse"), ("deep", "K7-open-sesame-K7-open-sesame")]);
    for (text, shown) in [
        ("say corr\u{200b}ect horse now", "say [REDACTED:secret/door:13] now"),
        ("say corr<U+200B>ect<U+202E> horse now", "say [REDACTED:secret/door:13] now"),
        ("c\x1b[31morrect\x1b[0m horse\x1b[K", "[REDACTED:secret/door:13]\x1b[K"),
        ("Y29ycmVj\u{2060}dCBob3JzZQ==", "[REDACTED:secret/door:20]"),
        ("pass\u{ad}word=hun\u{200d}ter2x!", "pass\u{ad}word=[REDACTED:assigned:9]"),
        ("k ghp_a1B2c3D4e5<U+FEFF>a1B2c3D4e5a1B2c3D4e5a1B2c3D4e5", "k [REDACTED:github-token:44]"),
        ("K7-open-sesame-\nK7-open-sesame", "[REDACTED:secret/deep:29]"),
        ("corr\u{200b}ec\u{200b} horse", "corr\u{200b}ec\u{200b} horse"),
    ] {
        assert_eq!(redactor.text(text), shown, "{text:?}");
        assert_eq!(redactor.text(shown), shown, "twice is once");
        assert_eq!(streamed(&redactor, text, &[1]), shown, "{text:?}");
    }
}

#[test]
fn base64_wrapped_into_lines_is_redacted() {
    let redactor = with(&[("door", "correct horse battery staple")]);
    let file = "# settings\nname=ada\nword=correct horse battery staple\nend=1\n".repeat(2);
    let coded = BASE64.encode(file.as_bytes());
    for width in [16, 60, 64, 76] {
        for (end, indent) in [("\n", ""), ("\r\n", ""), ("\\n", ""), ("\n", "    ")] {
            let lines = coded.as_bytes().chunks(width).map(|l| str::from_utf8(l).unwrap());
            let text = lines.collect::<Vec<_>>().join(&format!("{end}{indent}"));
            let shown = redactor.text(&text).into_owned();
            assert_eq!(shown.matches("[REDACTED:secret/door:").count(), 2, "{width}: {shown}");
            assert_eq!(streamed(&redactor, &text, &[7, 50]), shown);
        }
    }
}

#[test]
fn secret_with_blanks_is_found_across_line_breaks() {
    let secret = "correct horse battery staple";
    let redactor = with(&[("pass", secret), ("other", "K7 \"open\" sesame")]);
    let breaks = ["\n", "\r\n", "\n    ", "\n\t", "  ", " \n ", "\\n", "\\r\\n  ", "\t", "\n\n"];
    for wrap in breaks {
        for at in 0..3 {
            let mut words = secret.split(' ').enumerate();
            let (_, first) = words.next().unwrap();
            let wrapped = words.fold(first.to_owned(), |text, (n, word)| {
                text + if n == at + 1 { wrap } else { " " } + word
            });
            for text in [format!("say {wrapped} now"), format!("say({wrapped})"), wrapped.clone()] {
                let shown = redactor.text(&text).into_owned();
                assert!(shown.contains("[REDACTED:secret/pass:"), "{text:?} became {shown:?}");
                assert!(!shown.contains("horse") && !shown.contains("staple"), "{shown:?}");
                assert_eq!(redactor.text(&shown), shown, "twice is once");
                for sizes in [&[1][..], &[3, 5], &[7, 50]] {
                    assert_eq!(streamed(&redactor, &text, sizes), shown, "{text:?}");
                }
            }
        }
        let every = secret.replace(' ', wrap);
        assert!(!redactor.text(&every).contains("horse"), "{every:?}");
        let json = format!("K7{wrap}\\\"open\\\"{wrap}sesame");
        assert!(!redactor.text(&json).contains("sesame"), "{json:?}");
    }
    // A break inside of a word, and text that only looks like it.
    assert!(!redactor.text("correct hor\n  se battery staple").contains("battery"));
    for other in [
        "correct horse battery",
        "a correct\nhorse",
        &format!("correct{}horse battery staple", " ".repeat(300)),
    ] {
        assert_eq!(redactor.text(other), other);
        assert_eq!(streamed(&redactor, other, &[2, 9]), other);
    }
}

#[test]
fn stream_buffer_of_invisible_text_is_bounded() {
    let redactor = with(&[("door", "open sesame")]);
    let mut stream = redactor.stream();
    let mut out = stream.feed("open ses");
    for _ in 0..5_000 {
        out += &stream.feed("\u{200b}\x1b[0m");
        assert!(stream.buffered() < 64 << 10);
    }
    out += &stream.feed("ame!");
    out += &stream.finish();
    assert!(!out.contains("ses") && out.ends_with("[REDACTED:secret/door:11]!"), "{}", out.len());
}

#[test]
fn invisible_secret_is_refused() {
    assert!(KnownSecrets::new().add("s", "\u{200b}\u{200b}\u{200b}\u{200b}abc").is_err());
    let redactor = with(&[("s", "ab\u{200b}cd\u{7}efgh")]);
    assert_eq!(redactor.text("abcdefgh"), "[REDACTED:secret/s:8]");
    assert_eq!(redactor.text("ab\u{200b}cd\u{7}efgh"), "[REDACTED:secret/s:8]");
}

/// Invisible text that may be between two characters.
fn unseen() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "\u{200b}",
        "\u{202e}",
        "\u{feff}",
        "\u{ad}",
        "\u{e0041}",
        "\0",
        "\u{8}",
        "\x1b[0m",
        "\x1b[38;5;1m",
        "\x1b]0;t\x07",
        "\x1b]8;;http://x.example\x1b\\",
        "<U+200B>",
        "<U+E0041>",
    ]);
    prop::collection::vec(piece, 0..3).prop_map(|all| all.concat())
}

/// Pieces of text that are relevant for secrets, in any order.
fn bits() -> impl Strategy<Value = String> {
    let rules: Vec<String> = RULES.iter().map(|rule| example(rule.yes)).collect();
    let bit = prop_oneof![
        4 => "[a-z =:\"'\\n/@.é漢-]{0,6}",
        2 => prop::sample::select(rules.clone()),
        2 => (prop::sample::select(rules), 0.0..1.0f64).prop_map(|(text, part)| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share")]
            let end = (text.len() as f64 * part) as usize;
            text[..end].to_owned()
        }),
        2 => prop::sample::select(vec![
            "sesame-42", "sesame-4", "c2VzYW1lLTQy", "736573616d652d3432", "open door", "open", "do",
            "[REDACTED:secret/a:9]", "[REDACTED:", "password", "=", "token: ", "sk-", "Bearer ", "\\n",
            "\u{200b}", "<U+200B>", "<U+", "\x1b[0m", "\x1b", "\r", "\n", "\\n",
            "\"", "]", "{", "-----BEGIN PRIVATE KEY-----", "-----END", "://u:", "@", "%3D", "a1", "_",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(bit, 0..9).prop_map(|bits| bits.concat())
}

#[test]
fn redacted_key_does_not_turn_the_text_before_it_into_a_key() {
    for text in
        ["lsv2_pt_<h32>_<h10>sk-ant-api03-<90>", "AIza<30>-ab12ghp_<36>", "npm_<36>ghp_<36>"]
    {
        let once = plain().text(&example(text)).into_owned();
        assert_eq!(plain().text(&once), once, "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn streamed_redaction_equals_the_whole_for_any_split(
        text in bits(), sizes in prop::collection::vec(1usize..40, 1..5),
    ) {
        let list = [("a", "sesame-42"), ("b", "open door"), ("c", "sesame-4221"), ("d", "door =\nopen")];
        let redactor = with(&list);
        let whole = redactor.text(&text).into_owned();
        prop_assert_eq!(streamed(&redactor, &text, &sizes), whole);
    }

    #[test]
    fn redaction_is_idempotent(text in bits()) {
        let redactor = with(&[("a", "sesame-42"), ("b", "open door")]);
        let once = redactor.text(&text).into_owned();
        let twice = redactor.text(&once).into_owned();
        prop_assert_eq!(&twice, &once, "from {}", text);
    }

    #[test]
    fn no_form_of_a_secret_remains_in_any_text(
        before in "\\PC{0,12}", after in "\\PC{0,12}", secret in "[!-Z^-~]{6,24}", sizes in prop::collection::vec(1usize..9, 1..4),
    ) {
        let secrets = KnownSecrets::new();
        prop_assume!(secrets.add("s", &secret).is_ok());
        let redactor = Redactor::new(secrets);
        for form in encodings::of(&secret) {
            let text = format!("{before}{form}{after}");
            let shown = redactor.text(&text).into_owned();
            prop_assert!(!shown.contains(&form), "{} in {}", form, shown);
            prop_assert_eq!(streamed(&redactor, &text, &sizes), shown);
        }
    }

    #[test]
    fn no_formatting_and_no_split_hides_a_secret(
        before in "[a-z<\n ]{0,6}", after in "[ .<\\x1b\n]{0,4}",
        between in prop::collection::vec(unseen(), 40),
        which in 0..3usize,
        sizes in prop::collection::vec(1usize..9, 1..5),
    ) {
        let redactor = with(&[("a", "open-sesame-42")]);
        let key = example("ghp_<36>");
        let secret = ["open-sesame-42", "b3Blbi1zZXNhbWUtNDI=", &key][which];
        let mut text = format!("{before} ");
        for (c, gap) in secret.chars().zip(between.iter().cycle()) {
            text.push(c);
            text.push_str(gap);
        }
        text.push_str(&after);
        // Raw, and as for a result: an escape sequence may swallow the first letter of a secret, so
        // text with one is also redacted before it is sanitized.
        let cleaned = redactor.text(&text).into_owned();
        let cleaned = redactor.text(&crate::sanitize(&cleaned).text).into_owned();
        prop_assert!(cleaned.contains("ACTED:") && !cleaned.contains("esame"), "{:?}", cleaned);
        for text in [text, cleaned] {
            let shown = redactor.text(&text).into_owned();
            prop_assert!(shown.contains("ACTED:"), "{:?} became {:?}", text, shown);
            let plain = visible_text::bare(&shown, SHOWN.skipping(visible_text::Breaks::All), true).text.into_owned();
            prop_assert!(!plain.contains(secret.trim_end_matches('=')), "{:?}", shown);
            prop_assert_eq!(streamed(&redactor, &text, &sizes), shown.clone());
            prop_assert_eq!(redactor.text(&shown), &*shown);
        }
    }

    #[test]
    fn no_escape_sequence_hides_a_secret_by_swallowing_letters(
        escape in prop::sample::select(vec!["\x1b", "\x1b ", "\x1b[", "\x1b[1", "\x1b(", "\x1b]0;", "\x1bP"]),
        at in 0..14usize, end in prop::sample::select(vec!["", "\x07", "\x1b\\", "\x1b[0m", "\n"]),
    ) {
        let redactor = with(&[("a", "open-sesame-42")]);
        let (head, tail) = "open-sesame-42".split_at(at);
        // Before it, and colours inside of it.
        let text = format!("x {escape}{head}\x1b[1m{tail}{end}");
        let cleaned = redactor.text(&text).into_owned();
        let cleaned = redactor.text(&crate::sanitize(&cleaned).text).into_owned();
        prop_assert!(!cleaned.contains("sam") && !cleaned.contains("-42"), "{:?}: {:?}", text, cleaned);
        let (mut stream, mut shown) = (redactor.sanitizing_stream(), String::new());
        text.chars().for_each(|c| shown += &stream.feed(c.encode_utf8(&mut [0; 4])));
        shown += &stream.finish();
        prop_assert!(!shown.contains("sam") && !shown.contains("-42"), "{:?}: {:?}", text, shown);
    }

    #[test]
    fn redaction_never_panics(text in any::<String>(), sizes in prop::collection::vec(1usize..9, 1..4)) {
        let whole = plain().text(&text).into_owned();
        prop_assert_eq!(streamed(&plain(), &text, &sizes), whole);
    }
}
