//! The HTTP proxy that the environment names: `HTTPS_PROXY`, `http_proxy`, `ALL_PROXY`, `NO_PROXY`.

use std::{collections::BTreeMap, net::IpAddr};

/// Returns the proxy for an address; `None` for a host of this machine or of `NO_PROXY`.
pub(crate) fn of_environment(
    address: &str,
    variables: &BTreeMap<String, String>,
) -> Option<String> {
    let (scheme, rest) = address.split_once("://")?;
    let host = host_of(rest);
    let value = |name: &str| {
        let value = variables.get(name).map(|value| value.trim());
        value.filter(|value| !value.is_empty())
    };
    let exceptions = value("NO_PROXY").or(value("no_proxy")).unwrap_or_default();
    if is_loopback(host) || exceptions.split(',').any(|one| is_except(one.trim(), host)) {
        return None;
    }
    // `HTTP_PROXY` in capitals may come from the header of a request (httpoxy).
    let names = match scheme {
        "https" => ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"].as_slice(),
        _ => ["http_proxy", "ALL_PROXY", "all_proxy"].as_slice(),
    };
    let proxy = names.iter().find_map(|name| value(name))?;
    Some(if proxy.contains("://") { proxy.to_owned() } else { format!("http://{proxy}") })
}

/// An address without user and password, to be shown.
pub(crate) fn without_user(address: &str) -> String {
    match address.split_once("://") {
        Some((scheme, rest)) => {
            let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            let (authority, path) = rest.split_at(end);
            let host = authority.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}{path}")
        }
        None => address.rsplit('@').next().unwrap_or_default().to_owned(),
    }
}

/// The host of an address without its scheme.
fn host_of(rest: &str) -> &str {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    match host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        Some((host, _)) => host,
        None => host.split(':').next().unwrap_or_default(),
    }
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether an entry of `NO_PROXY` is about a host: `*`, the host itself, or a domain above it.
fn is_except(entry: &str, host: &str) -> bool {
    let domain = entry.trim_start_matches("*.").trim_start_matches('.').to_ascii_lowercase();
    let host = host.to_ascii_lowercase();
    entry == "*"
        || (!domain.is_empty()
            && (host == domain
                || host.strip_suffix(&domain).is_some_and(|rest| rest.ends_with('.'))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(address: &str, variables: &[(&str, &str)]) -> Option<String> {
        let variables = variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        of_environment(address, &variables.collect())
    }

    #[test]
    fn password_of_a_proxy_is_not_shown() {
        assert_eq!(without_user("http://me:hidden@host:1/x"), "http://host:1/x");
        assert_eq!(without_user("http://a:b@c@host"), "http://host");
        assert_eq!(without_user("me:hidden@host:1"), "host:1");
        assert_eq!(without_user("http://host/a@b"), "http://host/a@b");
    }

    #[test]
    fn scheme_selects_the_variable() {
        let both = [("HTTPS_PROXY", "http://s:1"), ("http_proxy", "p:2")];
        assert_eq!(proxy("https://api.example/v1", &both).as_deref(), Some("http://s:1"));
        assert_eq!(proxy("http://api.example/v1", &both).as_deref(), Some("http://p:2"));
        assert_eq!(proxy("http://api.example/v1", &[("HTTP_PROXY", "http://x:1")]), None);
        let all = [("ALL_PROXY", "http://a:1"), ("HTTPS_PROXY", " ")];
        assert_eq!(proxy("https://api.example/v1", &all).as_deref(), Some("http://a:1"));
    }

    #[test]
    fn local_and_excepted_hosts_are_reached_directly() {
        let all = ("ALL_PROXY", "http://a:1");
        for local in ["http://localhost:1/v1", "http://127.0.0.1/v1", "http://[::1]:8/v1"] {
            assert_eq!(proxy(local, &[all]), None, "{local}");
        }
        for (entry, is_direct) in [
            ("api.example.org", true),
            ("example.org", true),
            (".example.org", true),
            ("*.example.org", true),
            ("a, EXAMPLE.ORG", true),
            ("*", true),
            ("ample.org", false),
            ("other.org", false),
            ("", false),
        ] {
            let found = proxy("https://api.example.org/v1", &[all, ("NO_PROXY", entry)]);
            assert_eq!(found.is_none(), is_direct, "{entry}");
        }
    }
}
