//! Limits how many requests with invalid credentials an address may send.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

use super::refusal::AccessRefusal;

const MINUTE_MS: u64 = 60_000;
/// Most addresses that are counted.
const ADDRESSES_MAX: usize = 10_000;

/// Counts failures by address, in windows of a minute.
#[derive(Debug)]
pub(crate) struct FailureLimit {
    failures_max: u32,
    windows: Mutex<BTreeMap<IpAddr, Window>>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    begun_ms: u64,
    failures: u32,
}

impl Window {
    fn is_over(self, now_ms: u64) -> bool {
        now_ms >= self.begun_ms.saturating_add(MINUTE_MS)
    }
}

impl FailureLimit {
    /// - `failures_max`: failures in a minute after which an address is refused.
    pub(crate) fn new(failures_max: u32) -> Self {
        Self { failures_max, windows: Mutex::default() }
    }

    /// Refuses an address that has sent too many.
    pub(super) fn check_address(&self, address: IpAddr, now_ms: u64) -> Result<(), AccessRefusal> {
        self.wait_ms(address, now_ms).map_or(Ok(()), |wait_ms| Err(AccessRefusal::TooManyFailures { wait_ms }))
    }

    /// The milliseconds after which an address is heard again; `None` if it is heard now.
    fn wait_ms(&self, address: IpAddr, now_ms: u64) -> Option<u64> {
        let windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let window = windows.get(&network(address)).filter(|window| !window.is_over(now_ms))?;
        (window.failures >= self.failures_max).then(|| (window.begun_ms + MINUTE_MS).saturating_sub(now_ms))
    }

    pub(crate) fn record(&self, address: IpAddr, now_ms: u64) {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let address = network(address);
        if windows.len() >= ADDRESSES_MAX && !windows.contains_key(&address) {
            windows.retain(|_, window| !window.is_over(now_ms));
            if windows.len() >= ADDRESSES_MAX {
                windows.pop_first();
            }
        }
        let window = windows.entry(address).or_insert(Window { begun_ms: now_ms, failures: 0 });
        if window.is_over(now_ms) {
            *window = Window { begun_ms: now_ms, failures: 0 };
        }
        window.failures = window.failures.saturating_add(1);
    }
}

/// The network that counts as one caller: of an IPv6 address the first 64 bits, which one customer usually has whole.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("it is an address")
    }

    #[test]
    fn an_address_waits_for_the_rest_of_its_minute() {
        let limit = FailureLimit::new(2);
        let (one, two) = (address("10.0.0.1"), address("10.0.0.2"));
        limit.record(one, 1_000);
        assert_eq!(limit.wait_ms(one, 1_000), None);
        limit.record(one, 2_000);
        assert_eq!(limit.wait_ms(one, 2_000), Some(59_000));
        assert_eq!(limit.wait_ms(two, 2_000), None, "others are heard");
        assert_eq!(limit.wait_ms(one, 61_000), None, "its minute is over");
        limit.record(one, 61_000);
        assert_eq!(limit.wait_ms(one, 61_000), None, "the count begins again");
    }

    #[test]
    fn addresses_of_one_network_count_together() {
        let limit = FailureLimit::new(1);
        limit.record(address("2001:db8:1:2::1"), 0);
        assert!(limit.wait_ms(address("2001:db8:1:2:ffff::9"), 1).is_some());
        assert_eq!(limit.wait_ms(address("2001:db8:1:3::1"), 1), None);
        limit.record(address("10.0.0.1"), 0);
        assert!(limit.wait_ms(address("::ffff:10.0.0.1"), 1).is_some());
    }

    #[test]
    fn the_number_of_counted_addresses_is_bounded() {
        let limit = FailureLimit::new(1);
        for i in 0..=u32::try_from(ADDRESSES_MAX).expect("it fits") {
            limit.record(IpAddr::V4(i.into()), 0);
        }
        assert_eq!(limit.windows.lock().expect("nobody panicked").len(), ADDRESSES_MAX);
    }
}
