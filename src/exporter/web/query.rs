//! What comes behind the question mark of an address. Pure.

/// Names with their values, decoded.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// An error: a name that is none of these, or a name that stands twice. One that is not understood
/// must not be passed over: it may be `strict` with a letter missing. What is encoded wrongly is
/// read as the standard of forms has it, and then is no server's name.
pub(super) fn read(text: &str, known: &[&str]) -> Result<Query, String> {
    let mut query = Query::default();
    for (name, value) in form_urlencoded::parse(text.as_bytes()) {
        if !known.contains(&&*name) {
            return Err(format!("the query may have {}, and nothing else", known.join(" and ")));
        }
        if query.get(&name).is_some() {
            return Err(format!("{name} stands twice in the query"));
        }
        query.0.push((name.into_owned(), value.into_owned()));
    }
    Ok(query)
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
        for wrong in ["strct", "server=a&server=b", "%zz", "=1"] {
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
