//! Tests of escaping and shortening together.

use super::*;

proptest::proptest! {
    /// Nothing that moves a cursor, hides or reorders reaches a terminal, and different names stay
    /// different.
    #[test]
    fn escaped_names_are_visible_and_stay_different(a: Vec<u8>, b: Vec<u8>) {
        for text in [escape(&a), escape_to_ascii(&a), escape_sentence(&String::from_utf8_lossy(&a))] {
            proptest::prop_assert!(!text.chars().any(is_deceptive));
        }
        proptest::prop_assert!(escape_to_ascii(&a).is_ascii());
        proptest::prop_assert_eq!(escape(&a) == escape(&b), a == b);
        proptest::prop_assert_eq!(escape_to_ascii(&a) == escape_to_ascii(&b), a == b);
        proptest::prop_assert!(escape(&a).len() <= 10 * a.len());
    }

    #[test]
    fn what_is_shortened_fits(name: Vec<u8>, columns in 1usize..100) {
        let path = escape(&name);
        proptest::prop_assert!(width(&shorten_path(&path, columns, "…")) <= columns);
        proptest::prop_assert!(width(&shorten_middle(&path, columns, "…")) <= columns);
    }
}
use std::time::Duration;

#[test]
fn control_characters_in_names_are_escaped() {
    assert_eq!(escape(b"/a\nb\x1b[2J\x07\x7f"), "/a\\nb\\x1b[2J\\x07\\x7f");
    assert_eq!(
        escape("gpj.\u{202e}exe \u{200b}\u{9b}31m".as_bytes()),
        "gpj.\\u{202e}exe \\u{200b}\\u{9b}31m"
    );
    assert_eq!(escape(b"\xff\xc3ok\xe2\x82"), "\\xff\\xc3ok\\xe2\\x82");
    assert_eq!(escape("bücher".as_bytes()), "bücher");
    assert_eq!(escape_to_ascii("bücher".as_bytes()), "b\\u{fc}cher");
    assert_eq!(escape_sentence("a\\nb\u{1b}"), "a\\nb\\x1b");
}

#[test]
fn names_that_differ_stay_different() {
    assert_ne!(escape(b"a\nb"), escape(b"a\\nb"));
    assert_ne!(escape(b"a\xff"), escape(b"a\\xff"));
}

#[test]
fn latencies_have_two_or_three_digits_and_a_unit() {
    for (ns, text) in [
        (0, "0ns"),
        (85, "85ns"),
        (999, "999ns"),
        (1_000, "1.0µs"),
        (9_949, "9.9µs"),
        (9_960, "10µs"),
        (240_400, "240µs"),
        (999_600, "1.0ms"),
        (1_700_000, "1.7ms"),
        (90_000_000, "90ms"),
        (3_100_000_000, "3.1s"),
        (59_400_000_000, "59s"),
        (59_600_000_000, "1m00s"),
        (125_000_000_000, "2m05s"),
        (3_725_000_000_000, "1h02m"),
    ] {
        assert_eq!(duration(ns), text, "{ns}");
    }
    assert_eq!(duration_in_words(90_000_000), "90 ms");
    assert_eq!(duration_in_words(125_000_000_000), "2m05s");
}

#[test]
fn intervals_counts_and_rates() {
    assert_eq!(interval(Duration::from_millis(1_368)), "1.37 s");
    assert_eq!(interval(Duration::from_millis(9_999)), "10.0 s");
    assert_eq!(interval(Duration::from_secs(86_400)), "86,400 s");
    assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
    let second = Duration::from_secs(1);
    assert_eq!(rate(2_366, second), "2,366");
    assert_eq!(rate(14, Duration::from_millis(1_370)), "10");
    assert_eq!(rate(4, 10 * second), "0.4");
    assert_eq!(rate(1, 100 * second), "<0.1");
    assert_eq!(rate(0, second), "0");
    assert_eq!(rate(5, Duration::ZERO), "–");
    assert_eq!(percent(0.566), "57 %");
}

#[track_caller]
fn never_wider(all: std::ops::Range<usize>, shortened: impl Fn(usize) -> String) {
    for columns in all {
        assert!(width(&shortened(columns)) <= columns, "{columns}");
    }
}

#[test]
fn a_shortened_path_keeps_its_file_name() {
    let path = "/var/lib/mysql/#innodb_redo/#ib_redo5";
    assert_eq!(shorten_path(path, 40, "…"), path);
    assert_eq!(shorten_path(path, 30, "…"), "/var/lib/mysql/…/#ib_redo5");
    assert_eq!(shorten_path(path, 20, "…"), "/var/lib/…/#ib_redo5");
    assert_eq!(shorten_path(path, 22, "..."), "/var/lib/.../#ib_redo5");
    assert_eq!(shorten_path(path, 7, "…"), "#ib…do5");
    never_wider(1..45, |columns| shorten_path(path, columns, "…"));
}

#[test]
fn the_end_of_a_path_keeps_the_directories_next_to_the_file() {
    let path = "/var/lib/mysql/shop/products.ibd";
    assert_eq!(end_of_path(path, 32, "…"), path);
    assert_eq!(end_of_path(path, 31, "…"), "…/lib/mysql/shop/products.ibd");
    assert_eq!(end_of_path(path, 24, "…"), "…/shop/products.ibd");
    assert_eq!(end_of_path(path, 24, "..."), ".../shop/products.ibd");
    assert_eq!(end_of_path(path, 14, "…"), "…/products.ibd");
    assert_eq!(end_of_path(path, 7, "…"), "pro…ibd");
    never_wider(1..40, |columns| end_of_path(path, columns, "…"));
}

#[test]
fn a_text_shortened_at_its_end_ends_with_a_word() {
    let text = "the binary log is busy";
    assert_eq!(shorten_end(text, 22, " …"), text);
    assert_eq!(shorten_end(text, 21, " …"), "the binary log is …");
    assert_eq!(shorten_end(text, 20, " …"), "the binary log is …");
    assert_eq!(shorten_end(text, 18, " …"), "the binary log …");
    assert_eq!(shorten_end("unbreakable", 8, " …"), "unbrea …");
    never_wider(0..24, |columns| shorten_end(text, columns, " …"));
}

#[test]
fn shortening_cuts_no_escape_and_no_wide_character_in_two() {
    let name = escape("/d/\u{202e}\u{202e}データベース\n\n".as_bytes());
    for columns in 1..30 {
        let short = shorten_path(&name, columns, "…");
        assert!(width(&short) <= columns, "{columns}: {short}");
        assert_eq!(short.matches("\\u").count(), short.matches("\\u{202e}").count(), "{short}");
        assert_eq!(
            short.matches('\\').count(),
            short.matches("\\u{202e}").count() + short.matches("\\n").count()
        );
    }
}

#[test]
fn errnos_have_their_names() {
    assert_eq!(errno(libc::EIO), "EIO");
    assert_eq!(errno(libc::ENOSPC), "ENOSPC");
    assert_eq!(errno(9_999), "errno 9999");
}
