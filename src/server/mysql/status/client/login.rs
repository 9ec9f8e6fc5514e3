//! Proves who we are. A password is sent as a scramble of the server's challenge, or as it is where nobody
//! else can read it; a key to encrypt it with is never asked for, since whoever answers would choose the key.

use mysql_common::constants::CapabilityFlags;
use mysql_common::io::ParseBuf;
use mysql_common::packets::{AuthPlugin, AuthSwitchRequest, HandshakeResponse, SslRequest};
use mysql_common::proto::MySerialize;
use mysql_common::scramble::{scramble_native, scramble_sha256};

use super::greeting::Greeting;
use super::packets::{Error, Packets};
use crate::server::asking::options::{ConnectOptions, Tls};
use crate::server::mysql::status::options::user_name;

/// A server of several plugins may ask for one after another.
const ROUNDS: usize = 8;
/// Only for the server to know; what we send is short.
const MAX_PACKET: u32 = 1 << 20;
/// utf8mb4_general_ci
const CHARACTER_SET: u8 = 45;

/// What caching_sha2_password says after a scramble.
const KNOWN: u8 = 3;
const ASKS_FOR_PASSWORD: u8 = 4;

enum Plugin {
    Native,
    CachingSha2,
}

impl Plugin {
    fn response(&self, challenge: &[u8], password: &[u8]) -> Vec<u8> {
        let scramble = match self {
            Plugin::Native => scramble_native(challenge, password).map(|bytes| bytes.to_vec()),
            Plugin::CachingSha2 => scramble_sha256(challenge, password).map(|bytes| bytes.to_vec()),
        };
        scramble.unwrap_or_default() // there is no password
    }
}

pub(crate) fn log_in(
    mut packets: Packets,
    greeting: &Greeting,
    host: &str,
    tls: Tls,
    options: &ConnectOptions,
) -> Result<Packets, Error> {
    // Without CLIENT_LOCAL_FILES: no file of ours is for a server to ask for.
    let mut capabilities = CapabilityFlags::CLIENT_PROTOCOL_41
        | CapabilityFlags::CLIENT_SECURE_CONNECTION
        | CapabilityFlags::CLIENT_LONG_PASSWORD
        | CapabilityFlags::CLIENT_LONG_FLAG
        | CapabilityFlags::CLIENT_TRANSACTIONS
        | CapabilityFlags::CLIENT_PLUGIN_AUTH;
    let offered = greeting.capabilities.contains(CapabilityFlags::CLIENT_SSL);
    let encrypts = match tls {
        _ if packets.0.get_ref().is_socket() => false,
        Tls::Disabled => false,
        Tls::Preferred => offered,
        Tls::Required | Tls::VerifyIdentity if !offered => {
            return Err(Error::broken("the server has no TLS, which --ssl-mode asks for"));
        }
        Tls::Required | Tls::VerifyIdentity => true,
    };
    capabilities.set(CapabilityFlags::CLIENT_SSL, encrypts);
    capabilities &= greeting.capabilities;
    if encrypts {
        packets.send(&serialized(&SslRequest::new(capabilities, MAX_PACKET, CHARACTER_SET)))?;
        packets = packets.encrypt(host, tls == Tls::VerifyIdentity, options)?;
    }
    let password = options.password.as_ref().map(|password| password.reveal().as_bytes()).unwrap_or_default();
    let (plugin, name) = match AuthPlugin::from_bytes(&greeting.plugin) {
        name @ AuthPlugin::CachingSha2Password => (Plugin::CachingSha2, name),
        // The account's own may be another: then the server says so.
        _ => (Plugin::Native, AuthPlugin::MysqlNativePassword),
    };
    let response = HandshakeResponse::new(
        Some(plugin.response(&greeting.challenge, password)),
        (5, 5, 3),
        Some(user_name(options).into_bytes()),
        None::<Vec<u8>>,
        capabilities.contains(CapabilityFlags::CLIENT_PLUGIN_AUTH).then_some(name),
        capabilities,
        None,
        MAX_PACKET,
    );
    packets.send(&serialized(&response))?;
    authenticate(&mut packets, plugin, password)?;
    Ok(packets)
}

fn serialized(packet: &impl MySerialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.serialize(&mut bytes);
    bytes
}

/// Answers until the server has decided.
fn authenticate(packets: &mut Packets, mut plugin: Plugin, password: &[u8]) -> Result<(), Error> {
    for _ in 0..ROUNDS {
        let packet = packets.next()?;
        match (packet[0], &plugin) {
            (0x00, _) => return Ok(()),
            (0xff, _) => return Err(Error::of_server(&packet)),
            (0xfe, _) => {
                let (other, challenge) = switched(&packet)?;
                packets.send(&other.response(&challenge, password))?;
                plugin = other;
            }
            (0x01, Plugin::CachingSha2) if packet.get(1) == Some(&KNOWN) => {}
            (0x01, Plugin::CachingSha2) if packet.get(1) == Some(&ASKS_FOR_PASSWORD) => {
                if !password.is_empty() && !packets.0.get_ref().is_private() {
                    let text = "the server asks for the password itself (caching_sha2_password does, until the account \
                                has logged in once), and the connection is not encrypted, so it is not sent: give \
                                --socket, or --ssl-mode required or verify-identity";
                    return Err(Error::broken(text));
                }
                packets.send(&[password, b"\0"].concat())?;
            }
            _ => return Err(Error::broken("the server answered the login with something else")),
        }
    }
    Err(Error::broken("the server asks to log in again and again"))
}

/// The plugin that the server asks for instead, and its challenge.
fn switched(packet: &[u8]) -> Result<(Plugin, Vec<u8>), Error> {
    let unknown = |name: &str| {
        Error::Broken(format!(
            "the server asks for {name}, which is not used here: give an account of mysql_native_password or \
             caching_sha2_password, or one that the server knows by its socket"
        ))
    };
    if packet.len() == 1 {
        return Err(unknown("mysql_old_password")); // servers before 4.1
    }
    let request: AuthSwitchRequest = ParseBuf(packet)
        .parse(())
        .map_err(|_| Error::broken("the server asks for a plugin without a name"))?;
    let plugin = match request.auth_plugin() {
        AuthPlugin::MysqlNativePassword => Plugin::Native,
        AuthPlugin::CachingSha2Password => Plugin::CachingSha2,
        other => {
            let name = other.as_bytes();
            return Err(unknown(&String::from_utf8_lossy(&name[..name.len().min(64)])));
        }
    };
    Ok((plugin, request.plugin_data().to_vec()))
}
