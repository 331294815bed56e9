//! Reads the validity of X.509 certificates, and tells when the end is near.

use goalmill_common::clock::rfc3339;
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::time::Time;

/// The end is near when less than this is left, or less than a quarter of the time for which the certificate was issued.
const NEAR_MS: u64 = 14 * DAY_MS;
const DAY_MS: u64 = 86_400_000;
const HOUR_MS: u64 = 3_600_000;

/// The time in which a certificate counts, in Unix milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CertificateValidity {
    pub(super) begin_ms: u64,
    pub(super) end_ms: u64,
}

impl CertificateValidity {
    /// Reads that of a certificate; `None` if it has another form.
    pub(super) fn of_certificate(der: &[u8]) -> Option<Self> {
        let validity = Certificate::from_der(der).ok()?.tbs_certificate.validity;
        let ms = |time: Time| u64::try_from(time.to_unix_duration().as_millis()).ok();
        Some(Self { begin_ms: ms(validity.not_before)?, end_ms: ms(validity.not_after)? })
    }

    /// That of a chain: no certificate of it may have ended. `None` if none can be read.
    pub(super) fn of_chain<'a>(chain: impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        chain.filter_map(Self::of_certificate).min_by_key(|validity| validity.end_ms)
    }

    /// What to say about the end, if it is near or past: what is wrong, a semicolon, and what to do.
    pub(super) fn warning(&self, now_ms: u64) -> Option<String> {
        let end = rfc3339(self.end_ms);
        let fix = "renew it: changed files are read without a restart";
        let Some(left_ms) = self.end_ms.checked_sub(now_ms).filter(|left_ms| *left_ms > 0) else {
            return Some(format!("the certificate of the API ended at {end}, and clients refuse it; {fix}"));
        };
        let is_near = left_ms < NEAR_MS.min(self.end_ms.saturating_sub(self.begin_ms) / 4);
        let left = match left_ms {
            DAY_MS.. => format!("{} days", left_ms / DAY_MS),
            _ => format!("{} hours", left_ms / HOUR_MS),
        };
        is_near.then(|| format!("the certificate of the API ends at {end}, in {left}; {fix}"))
    }
}

#[cfg(test)]
mod tests {
    use goalmill_common::clock::parse_rfc3339;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn certificate(begin: (i32, u8, u8), end: (i32, u8, u8)) -> Vec<u8> {
        let mut params = CertificateParams::new(["localhost".to_owned()]).expect("it is a name");
        params.not_before = date_time_ymd(begin.0, begin.1, begin.2);
        params.not_after = date_time_ymd(end.0, end.1, end.2);
        let key = KeyPair::generate().expect("a key can be made");
        params.self_signed(&key).expect("a certificate can be made").der().to_vec()
    }

    fn ms(text: &str) -> u64 {
        parse_rfc3339(text).expect("it is a time")
    }

    #[test]
    fn both_forms_of_times_are_read() {
        // From 2050 on, times have four digits of the year.
        let der = certificate((2026, 11, 25), (2061, 2, 28));
        let read = CertificateValidity::of_certificate(&der).expect("it is a certificate");
        assert_eq!(
            read,
            CertificateValidity { begin_ms: ms("2026-11-25T00:00:00Z"), end_ms: ms("2061-02-28T00:00:00Z") }
        );
        let early = certificate((1999, 1, 2), (2027, 3, 4));
        let chain = [der.as_slice(), early.as_slice(), b"no certificate"];
        let first = CertificateValidity::of_chain(chain.into_iter()).expect("two can be read");
        assert_eq!(
            first,
            CertificateValidity { begin_ms: ms("1999-01-02T00:00:00Z"), end_ms: ms("2027-03-04T00:00:00Z") }
        );
    }

    #[test]
    fn what_is_no_certificate_is_not_read() {
        let der = certificate((2026, 11, 25), (2027, 11, 25));
        for cut in 0..der.len().min(200) {
            // The end of the validity is read, or nothing.
            if let Some(read) = CertificateValidity::of_certificate(&der[..cut]) {
                panic!("{cut} bytes are read as {read:?}");
            }
        }
        for other in [&b""[..], b"\x30", b"\x30\x80", b"\x30\x84\xff\xff\xff\xff", b"\x02\x01\x00", &[0x30; 64]] {
            assert_eq!(CertificateValidity::of_certificate(other), None);
        }
    }

    #[test]
    fn the_end_is_said_before_and_after_it() {
        let year = CertificateValidity { begin_ms: 0, end_ms: 365 * DAY_MS };
        assert_eq!(year.warning(350 * DAY_MS), None);
        let near = year.warning(352 * DAY_MS).expect("13 days are left");
        assert!(near.contains("ends at 1971-01-01T00:00:00.000Z, in 13 days; renew it"), "{near}");
        assert!(year.warning(365 * DAY_MS - HOUR_MS).expect("an hour is left").contains("in 1 hours"));
        assert!(year.warning(365 * DAY_MS).expect("it has ended").contains("ended at"));
        // A certificate of a day is renewed after 16 hours or so.
        let day = CertificateValidity { begin_ms: 0, end_ms: DAY_MS };
        assert_eq!(day.warning(17 * HOUR_MS), None);
        assert!(day.warning(19 * HOUR_MS).is_some());
    }
}
