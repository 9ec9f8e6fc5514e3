//! Where a client comes from, as far as fairness is concerned. Clients on this host are told apart by user:
//! one of them has sixteen million loopback addresses to itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::server::who::owner;

/// From wide to narrow: an attacker has many addresses sooner than many networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    party: Party,
    /// IPv4: /24; IPv6: /64.
    network: IpAddr,
    address: IpAddr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Party {
    /// A user of this host, with all numbers that are subordinate to theirs.
    User(u32),
    /// IPv4: /16; IPv6: /48, which is what a site is given.
    Site(IpAddr),
}

/// How many are of the same party, network, address. Compared in this order: who has a network has all its
/// addresses.
pub(crate) type Weight = [usize; 3];

impl Origin {
    /// `user`: of this host, where that is known.
    pub fn new(peer: SocketAddr, user: Option<u32>) -> Origin {
        let address = peer.ip().to_canonical();
        let user = user.map(|user| Party::User(owner::account(user)));
        let party = user.unwrap_or_else(|| Party::Site(prefix(address, 16, 48)));
        Origin { party, network: prefix(address, 24, 64), address }
    }

    /// A user of this host, on a local socket.
    pub(crate) fn local(user: u32) -> Origin {
        Origin::new((Ipv4Addr::LOCALHOST, 0).into(), Some(user))
    }

    pub(crate) fn is_same_network(&self, other: &Origin) -> bool {
        self.network == other.network
    }

    pub(crate) fn is_same_address(&self, other: &Origin) -> bool {
        self.address == other.address
    }

    pub(crate) fn is_same_party(&self, other: &Origin) -> bool {
        self.party == other.party
    }

    /// Whether it is the same party, the same network, the same address.
    fn shared_with(&self, other: &Origin) -> [bool; 3] {
        [self.party == other.party, self.network == other.network, self.address == other.address]
    }

    pub(crate) fn weight<'a>(&self, among: impl IntoIterator<Item = &'a Origin>) -> Weight {
        among.into_iter().fold(Weight::default(), |mut weight, other| {
            let shared = self.shared_with(other);
            weight.iter_mut().zip(shared).for_each(|(weight, shared)| *weight += usize::from(shared));
            weight
        })
    }
}

/// The network that an address is in: its first bits.
fn prefix(address: IpAddr, v4_bits: u32, v6_bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() & (u32::MAX << (32 - v4_bits))).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << (128 - v6_bits))).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(address: &str, user: Option<u32>) -> Origin {
        Origin::new(SocketAddr::new(address.parse().unwrap(), 1), user)
    }

    #[test]
    fn addresses_are_grouped_by_what_one_attacker_has_of_them() {
        for (a, b, shared) in [
            ("192.0.2.1", "192.0.2.1", [true, true, true]),
            ("192.0.2.1", "::ffff:192.0.2.1", [true, true, true]),
            ("192.0.2.1", "192.0.2.66", [true, true, false]),
            ("192.0.2.1", "192.0.3.1", [true, false, false]),
            ("192.0.2.1", "192.1.2.1", [false, false, false]),
            ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", [true, true, false]),
            ("2001:db8:0:1::1", "2001:db8:0:2::1", [true, false, false]),
            ("2001:db8:0:1::1", "2001:db8:1:1::1", [false, false, false]),
        ] {
            assert_eq!(origin(a, None).shared_with(&origin(b, None)), shared, "{a} {b}");
        }
    }

    #[test]
    fn users_of_this_host_are_told_apart_whatever_their_address() {
        let (one, other) = (origin("127.0.0.1", Some(1000)), origin("127.0.0.1", Some(1001)));
        assert_eq!(one.shared_with(&other), [false, true, true]);
        assert_eq!(one.shared_with(&origin("127.9.9.9", Some(1000))), [true, false, false]);
        assert_eq!(one.weight(&[one, one, other]), [2, 3, 3]);
    }
}
