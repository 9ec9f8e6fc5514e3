//! Latencies, counts, rates and error numbers in readable form.

/// A latency for a table: `85ns`, `1.7µs`, `240µs`, `3.1s`, `2m05s`. Two or three digits, which matches the
/// histogram's precision of 3 %.
pub fn duration(ns: u64) -> String {
    let (value, unit) = scaled(ns);
    value + unit
}

/// A latency for a sentence: `240 µs`, `3.1 s`, `2m05s`.
pub(crate) fn duration_in_words(ns: u64) -> String {
    let (value, unit) = scaled(ns);
    if unit.is_empty() { value } else { format!("{value} {unit}") }
}

fn scaled(ns: u64) -> (String, &'static str) {
    let seconds = (ns as f64 / 1e9).round() as u64;
    if seconds >= 3600 {
        return (format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60), "");
    }
    if seconds >= 60 {
        return (format!("{}m{:02}s", seconds / 60, seconds % 60), "");
    }
    let mut value = ns as f64;
    let mut unit = "ns";
    for larger in ["µs", "ms", "s"] {
        // 999.6 µs is 1.0 ms, not 1000 µs.
        if value.round() < 1000.0 {
            break;
        }
        (value, unit) = (value / 1000.0, larger);
    }
    // 9.96 is 10, not 10.0; nanoseconds have no fraction.
    let whole = unit == "ns" || value >= 9.95;
    (if whole { format!("{value:.0}") } else { format!("{value:.1}") }, unit)
}

/// An amount of data: `85 B`, `1.7 kB`, `240 MB`, in powers of a thousand, as disks are sold.
pub(crate) fn bytes(n: u64) -> String {
    let (mut value, mut unit) = (n as f64, "B");
    for larger in ["kB", "MB", "GB", "TB"] {
        if value.round() < 1000.0 {
            break;
        }
        (value, unit) = (value / 1000.0, larger);
    }
    let whole = unit == "B" || value >= 9.95;
    if whole { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") }
}

/// The length of an interval: `1.37 s`, `10.0 s`, `300 s`.
pub fn interval(duration: std::time::Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        s if s < 9.995 => format!("{s:.2} s"),
        s if s < 99.95 => format!("{s:.1} s"),
        s => format!("{} s", count(s.round() as u64)),
    }
}

/// A count with thousands separators: `3,237`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// So many of something: `1 sync`, `3,237 syncs`.
pub fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// A count over a time, per second: `2,366`, `0.4`; a dash if the time is zero.
pub fn rate(n: u64, over: std::time::Duration) -> String {
    if over.is_zero() {
        return "–".into();
    }
    match n as f64 / over.as_secs_f64() {
        0.0 => "0".into(),
        r if r < 0.05 => "<0.1".into(),
        r if r < 9.95 => format!("{r:.1}"),
        r => count(r.round() as u64),
    }
}

/// Capitalises the first letter.
pub(crate) fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// A share (0 to 1) as a percentage: `57 %`.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// The name of an errno: `EIO`, or a number if it has none.
pub fn errno(number: i32) -> String {
    match nix::errno::Errno::from_raw(number) {
        nix::errno::Errno::UnknownErrno => format!("errno {number}"),
        known => format!("{known:?}"),
    }
}
