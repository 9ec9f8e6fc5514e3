//! What a client would like to have: the encoding of its answer (RFC 9110, 12.5.3). Pure.

/// Whether the answer may be compressed with gzip.
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
}
