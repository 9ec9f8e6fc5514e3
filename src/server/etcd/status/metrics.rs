//! A line of a page of metrics, in the text format of Prometheus: one number by its name and labels.

/// etcd's own is "3.5.21" or the like.
const VERSION_BYTES: usize = 64;
/// Above it, a number of this format no longer tells one from the next.
const LARGEST_COUNT: f64 = 9_007_199_254_740_992.0;

/// The name, the labels between their braces (none: empty), and the value as it stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample<'a> {
    pub name: &'a str,
    pub labels: &'a str,
    value: &'a str,
}

impl<'a> Sample<'a> {
    /// None: a comment, an empty line, or what is no sample.
    pub fn parse(line: &'a [u8]) -> Option<Sample<'a>> {
        let line = std::str::from_utf8(line).ok()?.trim();
        let end = line.find(|char: char| !char.is_ascii_alphanumeric() && char != '_' && char != ':')?;
        let (name, rest) = line.split_at(end);
        let (labels, rest) = match rest.strip_prefix('{') {
            // A value in quotes may have a brace; after the last one there is none.
            Some(rest) => rest.rsplit_once('}')?,
            None => ("", rest),
        };
        let value = rest.split_ascii_whitespace().next()?;
        let is_apart = rest.starts_with(|char: char| char.is_ascii_whitespace());
        (!name.is_empty() && is_apart).then_some(Sample { name, labels, value })
    }

    pub fn number(&self) -> Option<f64> {
        self.value.parse().ok().filter(|number: &f64| number.is_finite())
    }

    /// How often something happened: counts are written as other numbers are, "1.234567e+06".
    pub fn count(&self) -> Option<u64> {
        let number = self.number()?;
        let is_count = (0.0..=LARGEST_COUNT).contains(&number) && number.fract() == 0.0;
        is_count.then_some(number as u64)
    }

    /// The value of the one label that is expected, where it is a version.
    pub fn version(&self, label: &str) -> Option<String> {
        let value = self.labels.strip_prefix(label)?.strip_prefix("=\"")?.strip_suffix('"')?;
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+');
        let is_version = (1..=VERSION_BYTES).contains(&value.len()) && value.bytes().all(allowed);
        is_version.then(|| value.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_a_name_with_its_labels_and_a_number() {
        let parse = |line: &'static str| {
            Sample::parse(line.as_bytes()).map(|sample| (sample.name, sample.labels, sample.value))
        };
        assert_eq!(parse("etcd_a_count 5"), Some(("etcd_a_count", "", "5")));
        assert_eq!(parse(" a:b\t1.5e+06  1700000000000 "), Some(("a:b", "", "1.5e+06")));
        assert_eq!(parse("a{b=\"}\",c=\"d\"} 7"), Some(("a", "b=\"}\",c=\"d\"", "7")));
        for none in ["", "# HELP a b", "a", "a{b=\"c\" 1", "a{}1", "{} 1", "a{b} ", "\u{e4} 1"] {
            assert_eq!(parse(none), None, "{none:?}");
        }
        assert_eq!(Sample::parse(b"a\xff 1"), None);
    }

    #[test]
    fn a_count_is_whole_and_not_too_large_to_be_exact() {
        let count = |value| Sample { name: "a", labels: "", value }.count();
        assert_eq!(count("1.234567e+06"), Some(1_234_567));
        assert_eq!((count("0"), count("9007199254740992")), (Some(0), Some(1 << 53)));
        for none in ["-1", "1.5", "NaN", "+Inf", "1e300", "9007199254740994", "", "0x10"] {
            assert_eq!(count(none), None, "{none}");
        }
    }

    #[test]
    fn a_version_is_that_of_one_label() {
        let version = |labels| Sample { name: "a", labels, value: "1" }.version("server_version");
        assert_eq!(version("server_version=\"3.6.0-rc.2+git\"").as_deref(), Some("3.6.0-rc.2+git"));
        for none in [
            "",
            "server_version=\"\"",
            "version=\"3\"",
            "server_version=\"3\",a=\"b\"",
            "server_version=\"\x1b\"",
        ] {
            assert_eq!(version(none), None, "{none:?}");
        }
        let long = format!("server_version=\"{}\"", "1".repeat(65));
        assert_eq!(Sample { name: "a", labels: &long, value: "1" }.version("server_version"), None);
    }

    proptest::proptest! {
        #[test]
        fn no_line_makes_a_panic(bytes: Vec<u8>, text in "[a-z_{}=\" 0-9.e+-]{0,60}") {
            for line in [&bytes[..], text.as_bytes()] {
                if let Some(sample) = Sample::parse(line) {
                    let _ = (sample.count(), sample.version("a"));
                }
            }
        }
    }
}
