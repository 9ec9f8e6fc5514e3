//! Paths as text, without loss: bytes that are no UTF-8 as `\xNN`, a backslash as `\\`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

pub(crate) fn escape(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        text.push_str(&chunk.valid().replace('\\', "\\\\"));
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    text
}

/// None: not the text of a path.
pub(crate) fn unescape(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = match (first, tail) {
            (b'\\', [b'\\', tail @ ..]) => {
                bytes.push(b'\\');
                tail
            }
            (b'\\', [b'x', high, low, tail @ ..]) => {
                let digits = [*high, *low];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
                tail
            }
            (b'\\', _) => return None,
            (byte, tail) => {
                bytes.push(byte);
                tail
            }
        };
    }
    Some(OsString::from_vec(bytes).into())
}

/// For serde, of the paths of a structure.
pub(crate) mod text {
    use std::path::{Path, PathBuf};

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{escape, unescape};

    pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        escape(path).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        let text = String::deserialize(deserializer)?;
        unescape(&text).ok_or_else(|| D::Error::custom("a path with a wrong escape"))
    }
}

/// The same where there may be none; of what holds paths of its own or shares them.
pub(crate) mod optional_text {
    use std::path::{Path, PathBuf};

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{escape, unescape};

    pub(crate) fn serialize<P: AsRef<Path>, S: Serializer>(
        path: &Option<P>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        path.as_ref().map(|path| escape(path.as_ref())).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, P: From<PathBuf>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<P>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| {
            unescape(&text).map(P::from).ok_or_else(|| D::Error::custom("a path with a wrong escape"))
        })
        .transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_survives() {
        for bytes in
            [&b"/var/lib/mysql/ibdata1"[..], b"/a\\b", b"/\xff\xfe/\\x41", "/t\u{e4}ble\n".as_bytes()]
        {
            let path = PathBuf::from(OsString::from_vec(bytes.to_vec()));
            assert_eq!(unescape(&escape(&path)), Some(path));
        }
        assert_eq!(escape(Path::new("/plain")), "/plain");
        for wrong in ["\\", "\\x", "\\xg0", "\\q"] {
            assert_eq!(unescape(wrong), None, "{wrong}");
        }
    }

    mod any_text {
        use proptest::prelude::*;

        use super::*;

        proptest! {
            #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

            #[test]
            fn of_a_path_is_that_path_again(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
                let path = PathBuf::from(OsString::from_vec(bytes));
                prop_assert_eq!(unescape(&escape(&path)), Some(path));
            }

            #[test]
            fn becomes_no_longer_path_than_it_is(text in "(\\\\|\\\\x|[0-9a-f]|\\PC){0,60}") {
                prop_assert!(unescape(&text).is_none_or(|path| path.as_os_str().len() <= text.len()));
            }
        }
    }
}
