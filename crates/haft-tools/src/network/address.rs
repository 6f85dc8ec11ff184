//! SSRF: classifies IP addresses. Everything except public unicast is refused, including loopback,
//! private, link-local and cloud metadata addresses, and IPv4 embedded in IPv6.
//!
//! Ranges are data. An IPv4 address in no range is public; an IPv6 address is public only inside
//! `2000::/3`. Pure: no DNS lookup, no connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether the host program may open a range by allowing a site in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Own servers of the operator. An allowed name may resolve to it.
    Private,
    /// No name may resolve to it, allowed or not.
    Never,
}

/// A refused range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    /// Kind of address, as part of a sentence: "a loopback address".
    pub(crate) what: &'static str,
    /// Whether an allowed name may resolve to it.
    pub(crate) reach: Reach,
}

const fn private(what: &'static str) -> Range {
    Range { what, reach: Reach::Private }
}

const fn never(what: &'static str) -> Range {
    Range { what, reach: Reach::Never }
}

const V4: [(Ipv4Addr, u32, Range); 18] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8, never("an address of \"this network\"")),
    (Ipv4Addr::new(10, 0, 0, 0), 8, private("a private address")),
    (Ipv4Addr::new(100, 64, 0, 0), 10, private("a carrier-grade NAT address")),
    (Ipv4Addr::new(127, 0, 0, 0), 8, private("a loopback address")),
    (Ipv4Addr::new(169, 254, 0, 0), 16, never("a link-local address")),
    (Ipv4Addr::new(172, 16, 0, 0), 12, private("a private address")),
    (Ipv4Addr::new(192, 0, 0, 0), 24, never("a protocol address")),
    (Ipv4Addr::new(192, 0, 2, 0), 24, never("a documentation address")),
    (Ipv4Addr::new(192, 88, 99, 0), 24, never("a 6to4 relay address")),
    (Ipv4Addr::new(192, 168, 0, 0), 16, private("a private address")),
    (Ipv4Addr::new(198, 18, 0, 0), 15, never("a benchmark address")),
    (Ipv4Addr::new(198, 51, 100, 0), 24, never("a documentation address")),
    (Ipv4Addr::new(203, 0, 113, 0), 24, never("a documentation address")),
    (Ipv4Addr::new(224, 0, 0, 0), 4, never("a multicast address")),
    (Ipv4Addr::new(255, 255, 255, 255), 32, never("the broadcast address")),
    (Ipv4Addr::new(240, 0, 0, 0), 4, never("a reserved address")),
    // Public by number, but answered by the cloud host of this machine.
    (Ipv4Addr::new(168, 63, 129, 16), 32, never("a cloud metadata address")),
    (Ipv4Addr::new(100, 100, 100, 200), 32, never("a cloud metadata address")),
];

const V6: [(Ipv6Addr, u32, Range); 20] = [
    (Ipv6Addr::UNSPECIFIED, 128, never("the unspecified address")),
    (Ipv6Addr::LOCALHOST, 128, private("a loopback address")),
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, never("an IPv4-mapped IPv6 address")),
    (Ipv6Addr::UNSPECIFIED, 96, never("an IPv4-compatible address")),
    (Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, 0, 0), 96, never("a translated IPv4 address")),
    (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96, never("a NAT64 address")),
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48, never("a local NAT64 address")),
    (Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0), 64, never("a discard address")),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, never("a Teredo address")),
    (Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0), 48, never("a benchmark address")),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, never("a documentation address")),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, never("a protocol address")),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, never("a 6to4 address")),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, never("a documentation address")),
    (Ipv6Addr::new(0x5f00, 0, 0, 0, 0, 0, 0, 0), 16, never("a segment routing address")),
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), 128, never("a cloud metadata address")),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, private("a unique local address")),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, never("a link-local address")),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, never("a site-local address")),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, never("a multicast address")),
];

/// Returns the refused range of an address; `None` for a public address.
pub(crate) fn range(address: IpAddr) -> Option<Range> {
    match address {
        IpAddr::V4(address) => v4(address),
        IpAddr::V6(address) => v6(address),
    }
}

/// The longest prefix wins, so that one address can be stricter than its surrounding range.
fn v4(address: Ipv4Addr) -> Option<Range> {
    let within = |(start, length, _): &&(Ipv4Addr, u32, Range)| {
        (address.to_bits() ^ start.to_bits()).checked_shr(32 - length).unwrap_or(0) == 0
    };
    V4.iter().filter(within).max_by_key(|(_, length, _)| *length).map(|(.., range)| *range)
}

fn v6(address: Ipv6Addr) -> Option<Range> {
    let within = |(start, length, _): &&(Ipv6Addr, u32, Range)| {
        (address.to_bits() ^ start.to_bits()).checked_shr(128 - length).unwrap_or(0) == 0
    };
    let found = V6.iter().filter(within).max_by_key(|(_, length, _)| *length);
    if let Some((.., range)) = found {
        return Some(*range);
    }
    let parts = address.segments();
    // An embedded IPv4 address, tunnelled over the local network (ISATAP).
    if parts[5] == 0x5efe && parts[4] & !0x0200 == 0 {
        return Some(never("an ISATAP address"));
    }
    // FAIL CLOSED: public IPv6 addresses are allocated from `2000::/3` only.
    (parts[0] >> 13 != 1).then_some(never("a reserved address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range_of(text: &str) -> Option<Range> {
        range(text.parse().unwrap())
    }

    #[test]
    fn first_and_last_address_of_each_range_are_refused() {
        for (inside, outside) in [
            (["0.0.0.0", "0.255.255.255"], ["1.0.0.0", "1.0.0.0"]),
            (["10.0.0.0", "10.255.255.255"], ["9.255.255.255", "11.0.0.0"]),
            (["100.64.0.0", "100.127.255.255"], ["100.63.255.255", "100.128.0.0"]),
            (["127.0.0.0", "127.255.255.255"], ["126.255.255.255", "128.0.0.0"]),
            (["169.254.0.0", "169.254.255.255"], ["169.253.255.255", "169.255.0.0"]),
            (["172.16.0.0", "172.31.255.255"], ["172.15.255.255", "172.32.0.0"]),
            (["192.0.0.0", "192.0.0.255"], ["191.255.255.255", "192.0.1.0"]),
            (["192.0.2.0", "192.0.2.255"], ["192.0.1.255", "192.0.3.0"]),
            (["192.88.99.0", "192.88.99.255"], ["192.88.98.255", "192.88.100.0"]),
            (["192.168.0.0", "192.168.255.255"], ["192.167.255.255", "192.169.0.0"]),
            (["198.18.0.0", "198.19.255.255"], ["198.17.255.255", "198.20.0.0"]),
            (["198.51.100.0", "198.51.100.255"], ["198.51.99.255", "198.51.101.0"]),
            (["203.0.113.0", "203.0.113.255"], ["203.0.112.255", "203.0.114.0"]),
            (["224.0.0.0", "255.255.255.255"], ["223.255.255.255", "223.255.255.255"]),
            (["168.63.129.16", "168.63.129.16"], ["168.63.129.15", "168.63.129.17"]),
            (["2001::", "2001:1ff:ffff::"], ["2001:200::", "2001:4860:4860::8888"]),
            (["2001:db8::", "2001:db8:ffff::1"], ["2001:db7::", "2001:db9::"]),
            (["2002::", "2002:ffff::"], ["2003::", "2003::"]),
            (["3fff::", "3fff:fff:ffff::"], ["3fff:1000::", "3ffe::"]),
        ] {
            for address in inside {
                assert!(range_of(address).is_some(), "{address}");
            }
            for address in outside {
                assert_eq!(range_of(address), None, "{address}");
            }
        }
    }

    #[test]
    fn embedded_ipv4_and_reserved_ipv6_are_not_public() {
        for address in [
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "::ffff:0:127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::7f00:1",
            "2002:7f00:1::",
            "2607:f8b0::5efe:7f00:1",
            "2607:f8b0::200:5efe:10.0.0.1",
            "4000::1",
            "5f00::1",
            "fc00::1",
            "fdff::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "1::1",
        ] {
            assert!(range_of(address).is_some(), "{address}");
        }
    }

    #[test]
    fn allowed_names_reach_private_addresses_but_never_metadata() {
        for own in
            ["127.0.0.1", "10.1.2.3", "172.20.0.1", "192.168.1.1", "100.64.0.1", "::1", "fd00::1"]
        {
            assert_eq!(range_of(own).unwrap().reach, Reach::Private, "{own}");
        }
        for never in [
            "169.254.169.254",
            "100.100.100.200",
            "168.63.129.16",
            "fd00:ec2::254",
            "0.0.0.0",
            "::",
            "fe80::1",
            "::ffff:10.0.0.1",
        ] {
            assert_eq!(range_of(never).unwrap().reach, Reach::Never, "{never}");
        }
    }
}
