//! The engines that are more than a profile, and which of them a server is of.

use super::asking::connection::Client;
use super::mysql::adapter::MySql;
use super::what::adapter::Adapter;
use super::what::product::Version;
use crate::model::{Engine, Server};

/// The one list of them: an array of a function for the client of each.
macro_rules! for_each_client {
    ($function:ident) => {
        [
            $function::<$crate::server::mysql::status::client::Client>,
            $function::<$crate::server::postgres::status::client::Client>,
            $function::<$crate::server::etcd::status::client::Client>,
            $function::<$crate::server::redis::status::client::Client>,
        ]
    };
}
pub(crate) use for_each_client;

fn adapter_of<C: Client>() -> &'static dyn Adapter {
    C::ADAPTER
}

pub(crate) fn all() -> impl Iterator<Item = &'static dyn Adapter> {
    for_each_client!(adapter_of).into_iter().map(|adapter| adapter())
}

/// Of an array that [`for_each_client`] made, the entry of one engine.
pub(crate) fn entry_of<T, const N: usize>(adapter: &dyn Adapter, entries: [T; N]) -> T {
    let mut entries = entries.into_iter().zip(all());
    let found = entries.find(|(_, other)| adapter.is(*other));
    found.expect("each adapter that a server can have is one of the list").0
}

/// An engine that is no more than a profile.
struct OfProfile;

impl Adapter for OfProfile {
    fn profiles(&self) -> &'static [&'static str] {
        &[]
    }
}

/// Of a process: by what its executable says, else by the profile that its name leads to. What is of no
/// engine is taken for a MySQL, whose rules find what there is.
pub(super) fn of_process(version: Option<&Version>, engine: Option<&Engine>) -> &'static dyn Adapter {
    match (version, engine) {
        (Some(version), _) => all().find(|adapter| adapter.products().contains(&version.product)),
        (None, Some(engine)) => Some(of_profile(engine).unwrap_or(&OfProfile)),
        (None, None) => None,
    }
    .unwrap_or(&MySql)
}

/// Of a server that was described, which is asked like a MySQL if nothing else is known.
pub(crate) fn of_server(server: &Server) -> &'static dyn Adapter {
    match (&server.version, &server.engine) {
        (Some(version), _) => {
            all().find(|adapter| adapter.products().iter().any(|it| version.starts_with(it)))
        }
        (None, Some(engine)) => of_profile(engine),
        (None, None) => None,
    }
    .unwrap_or(&MySql)
}

fn of_profile(engine: &Engine) -> Option<&'static dyn Adapter> {
    all().find(|adapter| adapter.profiles().contains(&&*engine.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::engines::Engines;
    use crate::model::fixture::{self, MYSQL};

    #[test]
    fn each_adapter_has_profiles_and_is_found_by_them_and_by_its_products() {
        let engines = Engines::builtin();
        for adapter in all() {
            assert!(!adapter.profiles().is_empty());
            for name in adapter.profiles() {
                let engine = engines.by_name(name).expect(name);
                assert!(of_process(None, Some(&engine)).is(adapter));
                assert!(adapter.counts_for(&engine), "{name}");
            }
            for &product in adapter.products() {
                let version = Version { product, number: "1.2".into() };
                let server = fixture::server(MYSQL, "x", &version.to_string(), 1);
                assert!(of_process(Some(&version), None).is(adapter));
                assert!(of_server(&server).is(adapter));
            }
        }
        let rocksdb = engines.by_name("rocksdb").unwrap();
        assert!(of_process(None, Some(&rocksdb)).is(&OfProfile));
        assert!(of_process(None, None).is(&MySql));
    }
}
