//! Content negotiation: the form of the metrics and the encoding of an answer (RFC 9110, 12.5.1 and 12.5.3).
//! Pure.

use crate::exporter::source::Form;

const PROTOBUF_MESSAGE: &str = "io.prometheus.client.MetricFamily";

/// The form that a client likes best. Where it takes none of them, or does not say, the text that everybody
/// can read.
pub fn form(accept: Option<&str>) -> Form {
    let mut best = (Form::Text, 0);
    for form in Form::ALL {
        let quality = quality_of(form, accept.unwrap_or_default());
        if quality > best.1 {
            best = (form, quality);
        }
    }
    best.0
}

pub fn content_type(form: Form) -> &'static str {
    match form {
        Form::Text => "text/plain; version=0.0.4; charset=utf-8",
        Form::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        Form::Protobuf => {
            "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
        }
    }
}

/// What the most specific range that includes a form says of it; of several, the first. In thousandths.
fn quality_of(form: Form, accept: &str) -> u32 {
    let mut found = (0, 0);
    for (range, parameters) in elements(accept) {
        if let Some(rank) = rank(form, range, parameters)
            && rank > found.0
        {
            found = (rank, quality(parameters));
        }
    }
    found.1
}

/// How specific a range is. None: it does not include the form. Parameters that say nothing about the form
/// are passed over, such as Prometheus' `escaping`: all names here are plain.
fn rank(form: Form, range: &str, parameters: &str) -> Option<u32> {
    let is = |name: &str| range.eq_ignore_ascii_case(name);
    // A range without a version means any.
    let version = |own: &str| match parameter(parameters, "version") {
        None => Some(3),
        Some(version) => (version == own).then_some(4),
    };
    match form {
        _ if is("*/*") => Some(1),
        Form::Text if is("text/*") => Some(2),
        Form::OpenMetrics | Form::Protobuf if is("application/*") => Some(2),
        Form::Text if is("text/plain") => version("0.0.4"),
        Form::OpenMetrics if is("application/openmetrics-text") => version("1.0.0"),
        // What else it may be called says nothing of what is in it.
        Form::Protobuf if is("application/vnd.google.protobuf") => {
            let is_delimited = parameter(parameters, "encoding") == Some("delimited");
            (is_delimited && parameter(parameters, "proto") == Some(PROTOBUF_MESSAGE)).then_some(4)
        }
        _ => None,
    }
}

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

    #[test]
    fn a_form_is_that_which_the_client_likes_best() {
        // As Prometheus 2.42, 3.5, and 3.5 with native histograms ask.
        const OLD: &str = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                           text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        const NEW: &str = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                           application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;\
                           q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        const NATIVE: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;\
                              q=0.6,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,*/*;q=0.2";
        for (header, wanted) in [
            (None, Form::Text),
            (Some(""), Form::Text),
            (Some("*/*"), Form::Text),
            (Some("text/html, application/xhtml+xml, */*;q=0.8"), Form::Text),
            (Some(OLD), Form::OpenMetrics),
            (Some(NEW), Form::OpenMetrics),
            (Some(NATIVE), Form::Protobuf),
            (Some("application/openmetrics-text, text/plain"), Form::Text),
            (
                Some("Application/OpenMetrics-Text; Version=\"1.0.0\"; Q=0.9, text/plain;q=0.1"),
                Form::OpenMetrics,
            ),
            (Some("application/*, text/*;q=0.1"), Form::OpenMetrics),
            (Some("application/*, application/openmetrics-text;q=0"), Form::Protobuf),
            // Refused by name, whatever the wildcard says.
            (Some("text/plain;q=0, */*"), Form::OpenMetrics),
            // Versions and messages of which there are none here.
            (Some("application/openmetrics-text;version=2.0.0, text/plain;q=0.1"), Form::Text),
            (Some("application/vnd.google.protobuf, text/plain;q=0.1"), Form::Text),
            (
                Some(
                    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text,*/*;q=0.1",
                ),
                Form::Text,
            ),
            // The specific one decides, wherever it stands.
            (
                Some("text/plain;version=0.0.4;q=0.1, text/plain, application/openmetrics-text;q=0.5"),
                Form::OpenMetrics,
            ),
            // None is taken: the text is what everybody can read.
            (Some("application/json"), Form::Text),
            (Some("text/plain;q=0"), Form::Text),
        ] {
            assert_eq!(form(header), wanted, "{header:?}");
        }
    }

    #[test]
    fn each_form_is_what_its_own_content_type_asks_for() {
        for wanted in Form::ALL {
            assert_eq!(form(Some(content_type(wanted))), wanted);
            assert!(content_type(Form::Protobuf).contains(PROTOBUF_MESSAGE));
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
            fn a_form_is_found_for_it_without_a_panic(header in "\\PC{0,200}") {
                form(Some(&header));
            }

            #[test]
            fn the_form_has_the_highest_quality_of_those_that_are_named(
                qualities in prop::array::uniform3(1u32..=1000),
                order in Just([0, 1, 2]).prop_shuffle(),
                any in 0u32..=1000,
                noise in "[a-z/*;=,. ]{0,30}",
            ) {
                let named = |at: usize| {
                    let (name, quality) = (content_type(Form::ALL[at]), qualities[at]);
                    format!("{name}; q={}.{:03}", quality / 1000, quality % 1000)
                };
                let all: Vec<_> = order.into_iter().map(named).collect();
                let header = format!("x-{noise}, {}, */*;q={}.{:03}", all.join(","), any / 1000, any % 1000);
                let most = qualities.iter().max().unwrap();
                let wanted = Form::ALL[qualities.iter().position(|quality| quality == most).unwrap()];
                prop_assert_eq!(form(Some(&header)), wanted, "{}", header);
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
