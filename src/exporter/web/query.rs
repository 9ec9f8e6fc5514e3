//! What comes behind the question mark of an address. Pure.

/// Names with their values, decoded.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// An error: a name that is none of these, a name that stands twice, or what is not encoded as it should be.
/// One that is not understood must not be passed over: it may be `strict` with a letter missing.
pub(super) fn read(text: &str, known: &[&str]) -> Result<Query, String> {
    let mut query = Query::default();
    for part in text.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let decode = |text| decoded(text).ok_or("the query is not encoded as it should be (%XX, UTF-8)");
        let (name, value) = (decode(name)?, decode(value)?);
        if !known.contains(&&*name) {
            return Err(format!("the query may have {}, and nothing else", known.join(" and ")));
        }
        if query.get(&name).is_some() {
            return Err(format!("{name} stands twice in the query"));
        }
        query.0.push((name, value));
    }
    Ok(query)
}

/// As forms encode it: `+` is a space.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, others @ ..] = rest {
        rest = others;
        bytes.push(match (first, others) {
            (b'+', _) => b' ',
            (b'%', [high, low, behind @ ..]) => {
                rest = behind;
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                (digit(high)? * 16 + digit(low)?) as u8
            }
            (b'%', _) => return None,
            (&byte, _) => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KNOWN: [&str; 2] = ["server", "strict"];

    #[test]
    fn names_and_values_are_decoded() {
        let query = read("server=%2fvar%2Flib/my+sql%20%C3%A9&strict", &KNOWN).unwrap();
        assert_eq!((query.get("server"), query.get("strict")), (Some("/var/lib/my sql é"), Some("")));
        assert_eq!(read("", &KNOWN).unwrap(), Query::default());
        assert_eq!(read("&server=&", &KNOWN).unwrap().get("server"), Some(""));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for wrong in ["strct", "server=a&server=b", "server=%", "server=%4", "server=%zz", "server=%ff", "=1"]
        {
            assert!(read(wrong, &KNOWN).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_asked_is_read_without_a_panic(text in ".{0,60}") {
            let _ = read(&text, &KNOWN);
        }
    }
}
