//! The server's first packet. Read here and not by `mysql_common`, which (0.37) overflows on a challenge
//! whose length no server would say.

use mysql_common::constants::CapabilityFlags;
use mysql_common::io::ParseBuf;

/// As many bytes of a challenge are used.
const CHALLENGE: usize = 20;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub capabilities: CapabilityFlags,
    pub challenge: Vec<u8>,
    pub plugin: Vec<u8>,
}

impl Greeting {
    /// Of protocol 10, which servers have had since 3.21; with what 4.1 brought.
    pub fn parse(packet: &[u8]) -> Option<Greeting> {
        let mut rest = ParseBuf(packet);
        if rest.checked_eat_u8()? != 10 {
            return None;
        }
        let end = rest.0.iter().position(|&byte| byte == 0)?;
        rest.checked_eat(end + 1)?; // version
        rest.checked_eat(4)?; // connection
        let mut challenge = rest.checked_eat(8)?.to_vec();
        rest.checked_eat(1)?;
        let low = rest.checked_eat_u16_le()?;
        rest.checked_eat(3)?; // character set, status
        let high = rest.checked_eat_u16_le()?;
        let capabilities = CapabilityFlags::from_bits_truncate(u32::from(high) << 16 | u32::from(low));
        let length = usize::from(rest.checked_eat_u8()?);
        rest.checked_eat(10)?;
        if !capabilities
            .contains(CapabilityFlags::CLIENT_PROTOCOL_41 | CapabilityFlags::CLIENT_SECURE_CONNECTION)
        {
            return None;
        }
        challenge.extend(rest.checked_eat(length.saturating_sub(8).max(13))?);
        challenge.truncate(CHALLENGE); // a zero follows
        let plugin = rest.eat_all();
        let plugin = plugin.strip_suffix(b"\0").unwrap_or(plugin).to_vec();
        Some(Greeting { capabilities, challenge, plugin })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(length: u8) -> Vec<u8> {
        let flags = CapabilityFlags::CLIENT_PROTOCOL_41 | CapabilityFlags::CLIENT_SECURE_CONNECTION;
        let flags = flags.bits().to_le_bytes();
        let head = [&b"\x0a10.11.6-MariaDB\0\x01\0\0\0abcdefgh\0"[..], &flags[..2], &[45, 2, 0], &flags[2..]]
            .concat();
        [&head[..], &[length], &[0; 10], b"ijklmnopqrst\0", b"mysql_native_password\0"].concat()
    }

    #[test]
    fn a_servers_greeting_is_read() {
        for length in [0, 13, 21] {
            let greeting = Greeting::parse(&packet(length)).unwrap();
            assert_eq!(greeting.challenge, b"abcdefghijklmnopqrst", "{length}");
            assert_eq!(greeting.plugin, b"mysql_native_password");
        }
    }

    #[test]
    fn no_length_and_no_cut_is_too_much_for_it() {
        for length in 0..=255 {
            let _ = Greeting::parse(&packet(length));
        }
        let whole = packet(21);
        let needed = whole.len() - b"mysql_native_password\0".len();
        for length in 0..needed {
            assert_eq!(Greeting::parse(&whole[..length]), None, "{length}");
        }
    }
}
