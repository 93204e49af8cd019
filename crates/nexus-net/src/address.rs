//! Which addresses are public, and what the others are kept for.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address that is not public is kept for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// This machine itself.
    Loopback,
    /// A private network.
    Private,
    /// The network segment, where clouds answer questions about the machine.
    LinkLocal,
    /// Many receivers at once.
    Multicast,
    /// Documentation, tests, translation or nothing at all.
    Reserved,
}

impl fmt::Display for Kept {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Loopback => "this machine",
            Self::Private => "a private network",
            Self::LinkLocal => "the local network segment",
            Self::Multicast => "a multicast group",
            Self::Reserved => "a reserved address",
        })
    }
}

/// Tells what an address is kept for; `None` when it is public.
pub fn kept_address(address: IpAddr) -> Option<Kept> {
    match address {
        IpAddr::V4(address) => kept_v4(address),
        IpAddr::V6(address) => kept_v6(address),
    }
}

fn kept_v4(address: Ipv4Addr) -> Option<Kept> {
    let [first, second, third, _] = address.octets();
    match (first, second, third) {
        (127, ..) => Some(Kept::Loopback),
        // An unset address reaches this machine on Linux.
        (0, ..) => Some(Kept::Loopback),
        (10, ..) | (172, 16..=31, _) | (192, 168, _) | (100, 64..=127, _) => Some(Kept::Private),
        (169, 254, _) => Some(Kept::LinkLocal),
        (224..=239, ..) => Some(Kept::Multicast),
        (192, 0, 0 | 2)
        | (192, 88, 99)
        | (198, 18..=19, _)
        | (198, 51, 100)
        | (203, 0, 113)
        | (240.., ..) => Some(Kept::Reserved),
        _ => None,
    }
}

fn kept_v6(address: Ipv6Addr) -> Option<Kept> {
    if address.is_loopback() || address.is_unspecified() {
        return Some(Kept::Loopback);
    }
    // An IPv4 address in other clothes is judged as what it is.
    if let Some(inner) = address.to_ipv4_mapped() {
        return kept_v4(inner);
    }
    let parts = address.segments();
    let embedded = |high: u16, low: u16| {
        let ([first, second], [third, fourth]) = (high.to_be_bytes(), low.to_be_bytes());
        kept_v4(Ipv4Addr::new(first, second, third, fourth))
    };
    match parts {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => embedded(high, low),
        [0xfc00..=0xfdff, ..] => Some(Kept::Private),
        [0xfe80..=0xfebf, ..] => Some(Kept::LinkLocal),
        [0xff00..=0xffff, ..] => Some(Kept::Multicast),
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Some(Kept::Reserved),
        [0x2000..=0x3fff, ..] => None,
        _ => Some(Kept::Reserved),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, expected: Option<Kept>) {
        assert_eq!(kept_address(address.parse().expect("an address")), expected, "{address}");
    }

    #[test]
    fn addresses_are_told_apart() {
        for public in
            ["1.1.1.1", "100.63.0.1", "172.32.0.1", "192.0.1.1", "2606:4700::1111", "::ffff:8.8.8.8"]
        {
            check(public, None);
        }
        for here in ["127.0.0.1", "127.9.9.9", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "64:ff9b::7f00:1"]
        {
            check(here, Some(Kept::Loopback));
        }
        for private in ["10.0.0.1", "172.31.0.1", "192.168.1.1", "100.64.0.1", "fd00::1", "2002:a00:1::"] {
            check(private, Some(Kept::Private));
        }
        check("169.254.169.254", Some(Kept::LinkLocal));
        check("::ffff:169.254.169.254", Some(Kept::LinkLocal));
        check("fe80::1", Some(Kept::LinkLocal));
        check("239.1.1.1", Some(Kept::Multicast));
        check("ff02::1", Some(Kept::Multicast));
        for reserved in
            ["198.18.0.1", "255.255.255.255", "2001:db8::1", "2001::1", "::7f00:1", "64:ff9b:1::1"]
        {
            check(reserved, Some(Kept::Reserved));
        }
    }
}
