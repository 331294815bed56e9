//! Free addresses.

use std::net::TcpListener;

/// `address` when it is free, else a free port of the same host.
pub fn free(address: &str) -> String {
    if address.is_empty() || TcpListener::bind(address).is_ok() {
        return address.into();
    }
    match address.rsplit_once(':') {
        Some((host, _)) => format!("{host}:0"),
        None => address.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_gives_way_to_a_free_one() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("some port is free");
        let address = taken.local_addr().expect("it is bound").to_string();
        assert_eq!(free(&address), "127.0.0.1:0");
        drop(taken);
        assert_eq!(free(&address), address);
        assert_eq!(free(""), "");
    }
}
