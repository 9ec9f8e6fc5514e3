//! Content negotiation: the encoding of an answer (RFC 9110, 12.5.3). Pure.

/// True if the client accepts gzip.
pub fn gzip(accept_encoding: Option<&str>) -> bool {
    let mut any = None;
    for (coding, parameters) in elements(accept_encoding.unwrap_or_default()) {
        let wanted = quality(parameters) > 0;
        match coding.to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => return wanted,
            "*" => any = Some(wanted),
            _ => {}
        }
    }
    any.unwrap_or(false)
}

/// The elements of a list, each with its parameters.
fn elements(list: &str) -> impl Iterator<Item = (&str, &str)> {
    list.split(',').map(|element| {
        let (name, parameters) = element.split_once(';').unwrap_or((element, ""));
        (name.trim(), parameters)
    })
}

fn parameter<'a>(parameters: &'a str, wanted: &str) -> Option<&'a str> {
    parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case(wanted).then(|| value.trim().trim_matches('"'))
    })
}

/// In thousandths.
fn quality(parameters: &str) -> u32 {
    match parameter(parameters, "q") {
        None => 1000,
        Some(value) => value.parse::<f64>().map_or(0, |q| (q.clamp(0.0, 1.0) * 1000.0).round() as u32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_given_to_who_takes_it() {
        for (header, wanted) in [
            (Some("gzip"), true),
            (Some("deflate, gzip;q=1.0, *;q=0.5"), true),
            (Some("GZip ; Q=0.5"), true),
            (Some("*"), true),
            (Some("gzip;q=0, *"), false),
            (Some("gzip;q=nonsense"), false),
            (Some("identity"), false),
            (Some(""), false),
            (None, false),
        ] {
            assert_eq!(gzip(header), wanted, "{header:?}");
        }
    }

    mod any_header {
        use proptest::prelude::*;

        use super::*;

        proptest! {
            #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

            #[test]
            fn is_read_without_a_panic(header in "\\PC{0,200}") {
                gzip(Some(&header));
            }

            #[test]
            fn gzip_is_never_given_where_nothing_stands_for_it(header in "[a-f=;,q.0-9 \"]{0,100}") {
                prop_assert!(!gzip(Some(&header)));
            }

            #[test]
            fn gzip_is_given_exactly_where_its_quality_is_not_zero(
                before in prop::collection::vec("(br|deflate|identity|zstd)(;q=[01])?", 0..4),
                quality in 0u32..=1000,
                after in prop::collection::vec("(br|[*]|zstd)(;q=[01])?", 0..4),
            ) {
                let own = format!("gzip;q={}.{:03}", quality / 1000, quality % 1000);
                let all: Vec<_> = before.into_iter().chain([own]).chain(after).collect();
                prop_assert_eq!(gzip(Some(&all.join(", "))), quality > 0, "{:?}", all);
            }

            #[test]
            fn a_quality_is_between_none_and_all(value in "\\PC{0,20}") {
                let quality = quality(&format!("q={value}"));
                prop_assert!(quality <= 1000);
            }
        }
    }
}
