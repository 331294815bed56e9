//! Decides which network addresses a tool may reach: public ones, and those that the settings allow.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A range of addresses: an address and the length of its prefix in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AddressRange {
    /// IPv4 addresses are mapped into IPv6.
    bits: u128,
    prefix: u32,
}

impl AddressRange {
    /// Parses `10.0.0.0/8`, `fd00::/8` or one address.
    fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.trim().parse().ok()?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let prefix: u32 = prefix.map_or(Some(width), |prefix| prefix.trim().parse().ok())?;
        (prefix <= width).then(|| Self { bits: mapped(address), prefix: 128 - width + prefix })
    }

    fn contains(self, address: IpAddr) -> bool {
        self.prefix == 0 || (self.bits ^ mapped(address)) >> (128 - self.prefix) == 0
    }
}

fn mapped(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Refuses addresses in networks that are not public.
#[derive(Clone, Debug, Default)]
pub(super) struct AddressGuard(Vec<AddressRange>);

impl AddressGuard {
    /// - `allowed`: addresses and ranges that may be reached although they are not public.
    pub fn new(allowed: &[String]) -> Result<Self, String> {
        let range = |text: &String| {
            AddressRange::parse(text).ok_or_else(|| format!("`{text}` is no address or range such as `10.0.0.0/8`"))
        };
        allowed.iter().map(range).collect::<Result<_, _>>().map(Self)
    }

    pub fn may_reach(&self, address: IpAddr) -> bool {
        is_public(address) || self.0.iter().any(|range| range.contains(address))
    }
}

/// Whether an address belongs to a host on the Internet.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// According to the IANA registry of special-purpose addresses.
fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_shared = a == 100 && (64..128).contains(&b);
    let is_protocol = (a, b, c) == (192, 0, 0);
    let is_benchmark = a == 198 && (b == 18 || b == 19);
    let is_relay = (a, b, c) == (192, 88, 99);
    !(a == 0
        || a >= 224
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || is_shared
        || is_protocol
        || is_benchmark
        || is_relay)
}

/// Only global unicast (`2000::/3`), without ranges that lead to IPv4 hosts or to no host.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    let is_global = a & 0xe000 == 0x2000;
    let is_six_to_four = a == 0x2002;
    // Teredo, ORCHID, benchmarks, documentation.
    let is_special = (a == 0x2001 && (b < 0x0200 || b == 0x0db8)) || (a == 0x3fff && b < 0x1000);
    is_global && !is_six_to_four && !is_special
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("it is an address")
    }

    #[test]
    fn only_hosts_on_the_internet_are_public() {
        for text in ["1.1.1.1", "93.184.216.34", "172.32.0.1", "2606:2800:220:1::1", "2001:4860:4860::8888"] {
            assert!(is_public(address(text)), "{text}");
        }
        for text in [
            "0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.9.9.9", "169.254.169.254", "172.16.0.1",
            "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.168.1.1", "198.18.0.1", "224.0.0.1", "255.255.255.255",
            "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "fc00::1",
            "fd12:3456::1", "fe80::1", "fec0::1", "ff02::1", "2001:db8::1", "2002:7f00:1::", "2001::1",
        ] {
            assert!(!is_public(address(text)), "{text}");
        }
    }

    #[test]
    fn the_settings_can_allow_ranges() {
        let guard = AddressGuard::new(&["10.0.0.0/8".into(), "127.0.0.1".into(), "fd00::/8".into()]);
        let guard = guard.expect("they are ranges");
        for text in ["10.255.0.1", "127.0.0.1", "::ffff:10.0.0.1", "fd12::1", "1.1.1.1"] {
            assert!(guard.may_reach(address(text)), "{text}");
        }
        for text in ["11.0.0.0", "127.0.0.2", "192.168.0.1", "fc00::1", "::1"] {
            assert_eq!(guard.may_reach(address(text)), text == "11.0.0.0", "{text}");
        }
        assert!(["x", "10.0.0.0/33", "fd00::/129", ""].iter().all(|text| AddressRange::parse(text).is_none()));
    }
}
