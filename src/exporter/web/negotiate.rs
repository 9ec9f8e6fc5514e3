//! What a client would like to have: the media type and the encoding of its answer (RFC 9110, 12.5). Pure.

use crate::exporter::source::Format;

/// The format to answer `Accept` with. Text unless OpenMetrics is asked for, and preferred.
pub fn format(accept: Option<&str>, open_metrics: bool) -> Format {
    let Some(accept) = accept.filter(|_| open_metrics) else { return Format::Text };
    let mut text = 0;
    let mut open = 0;
    for (range, parameters) in elements(accept) {
        let quality = quality(parameters);
        match range.to_ascii_lowercase().as_str() {
            // Versions 0.0.1 and 1.0.0 are the same but for their number; a later one is not ours to give.
            "application/openmetrics-text" if is_version_one(parameters) => open = open.max(quality),
            "text/plain" | "text/*" | "*/*" => text = text.max(quality),
            _ => {}
        }
    }
    if open > 0 && open >= text { Format::OpenMetrics } else { Format::Text }
}

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

fn is_version_one(parameters: &str) -> bool {
    matches!(parameter(parameters, "version"), None | Some("0.0.1" | "1.0.0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_gets_the_format_that_it_prefers() {
        // Prometheus 2.x, and 3.x without protocol buffers
        for accept in [
            "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
        ] {
            assert_eq!(format(Some(accept), true), Format::OpenMetrics);
            assert_eq!(format(Some(accept), false), Format::Text);
        }
        let text_first = "text/plain;version=0.0.4;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5";
        assert_eq!(format(Some(text_first), true), Format::Text);
    }

    #[test]
    fn people_and_strangers_get_text() {
        for accept in [
            None,
            Some("*/*"),
            Some("text/html,application/xhtml+xml,*/*;q=0.8"),
            Some("application/openmetrics-text;version=2.0.0"),
            Some("application/openmetrics-text;q=0"),
            Some("application/json"),
            Some(";;,,=;q=x"),
            Some(""),
        ] {
            assert_eq!(format(accept, true), Format::Text, "{accept:?}");
        }
    }

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
