//! docs/recording-format.md is made of the code that writes and reads recordings.

use std::fmt::Write;

use super::folder::{Name, Tier};
use super::frame::{HEAD_BYTES, Kind, MAGIC, MAX_PAYLOAD, VERSION};
use super::pack::Preamble;
use crate::model::fixture::assert_expected;

/// The messages of wire.rs as protoc reads them.
fn proto(source: &str) -> String {
    let mut out = String::from("syntax = \"proto3\";\n");
    let (mut notes, mut field): (Vec<&str>, Option<String>) = (Vec::new(), None);
    for line in source.lines().map(str::trim) {
        if let Some(note) = line.strip_prefix("/// ") {
            notes.push(note);
        } else if let Some(message) = line.strip_prefix("pub(crate) struct ") {
            out.push('\n');
            notes.drain(..).for_each(|note| out.push_str(&format!("// {note}\n")));
            let _ = writeln!(out, "message {message}");
        } else if let Some(attributes) = line.strip_prefix("#[prost(") {
            field = Some(attributes.trim_end_matches(")]").to_owned());
        } else if line == "}" && !out.ends_with("}\n") {
            out.push_str("}\n");
        } else if let Some((name, kind)) = line.strip_prefix("pub ").and_then(|line| line.split_once(": ")) {
            let attributes = field.take().expect("a field has its attributes");
            let of = kind.trim_end_matches(',').trim_end_matches('>').rsplit('<').next().unwrap();
            let kind = match attributes.split([',', ' ']).next().unwrap() {
                "message" => of,
                kind => kind.split('=').next().unwrap(),
            };
            let label = match () {
                () if attributes.contains("repeated") => "repeated ",
                () if attributes.contains("optional") && kind != of => "optional ",
                () => "",
            };
            let tag = attributes.split('"').rev().nth(1).unwrap();
            notes.drain(..).for_each(|note| out.push_str(&format!("  // {note}\n")));
            let _ = writeln!(out, "  {label}{kind} {name} = {tag};");
        }
    }
    out
}

const KINDS: [(Kind, &str, &str); 5] = [
    (
        Kind::Preamble,
        "JSON",
        "What the numbers of the segment mean: `program` (the version that recorded), `ops`, `roles`, \
         `phases` of waits and states of `committers` (their names by number), `buckets` of the histograms, `merged_ns` (null where intervals are as they were taken). Its span is empty",
    ),
    (
        Kind::Setup,
        "JSON",
        "How tracing was set up, from the interval with this sequence number on: `mode`, `kernel`, `host`, `ops` (watched), \
         `by_thread`, `of_anybody`, `net`, `note`",
    ),
    (
        Kind::Names,
        "JSON",
        "`servers`, `files`, `neighbours` and `stacks` (of waits: `frames`, functions of the kernel, outermost first; at \
         most 64, of at most 128 bytes), each with its `number` in this segment. One that is told again replaces what \
         was told before, also for earlier intervals. Paths are text in which bytes that are no UTF-8 are `\\xNN` and a backslash is two",
    ),
    (Kind::Interval, "protocol buffers", "The figures of an interval, below"),
    (Kind::Batch, "zlib", "Other frames, one behind the other; they have no batches among them"),
];

fn page() -> String {
    let preamble = Preamble::of_this_version();
    let buckets = preamble.buckets;
    let kinds =
        KINDS.map(|(kind, form, what)| format!("| {} | {kind:?} | {form} | {what} |\n", kind as u8)).concat();
    let names = Tier::ALL.map(|tier| format!("`{}`", Name { tier, number: 42, is_plain: false }));
    format!(
        "\
# The format of recordings

This page suffices to write another reader. It is made of the code: `FSYNCTOP_UPDATE_EXPECTED=1 cargo test --lib \
the_page_of_the_format` writes it, and a test fails where it differs. Versions: kinds, fields and names are added, and \
never get another meaning; a reader passes over kinds and fields that it does not know.

## The folder

A recording is a folder of segments, each of which can be read alone: {}. Before the number stands how fine its intervals \
are: `all`, as they were taken; `10s` and `1m`, merged from those, so that the past gets coarser before it goes. Numbers \
count up for each of them; the lowest go first. A segment that is still being written has `-plain` before `.fst`; once it \
is complete, it is written anew without that, in fewer bytes, and the plain one is removed. Where both are there, the one \
with more intervals counts. Copying the folder at any time gives a recording.

## Frames

A segment is a row of frames: a head of {HEAD_BYTES} bytes, and a payload. Numbers are little-endian, times are nanoseconds.

| bytes | |
|---|---|
| 0 to 3 | `{}` |
| 4 | the version of the head, {VERSION} |
| 5 | the kind of the payload |
| 6, 7 | the length of the head |
| 8 to 11 | the length of the payload, at most {MAX_PAYLOAD} |
| 12 to 15 | CRC-32 (of zlib) of the payload |
| 16 to 23 | the sequence number of the interval: it counts up from the start of tracing |
| 24 to 31, 32 to 39 | the beginning and the end by the wall clock, since 1970 |
| 40 to 47 | the length by the monotonic clock |
| 48 to 55 | the end by the monotonic clock, since the host was started; 0 where it is not known |
| 56 to 59 | how many intervals this one is made of; of a batch, those in it; 0 for what belongs to no time |
| 60 to 63 | CRC-32 of bytes 0 to 59 |

Behind a frame that is damaged, the next one is found by its magic number and the checksum of its head: whatever happens \
to a file costs what it hits.

| kind | | payload | |
|---|---|---|---|
{kinds}
A segment begins with a preamble. In one that is complete, all names and setups are told in a first batch and once more in \
the last one, which has the preamble, too: no damaged byte costs one. Between these, ten intervals are one batch.

## Figures

In `Interval`, servers, files, neighbours, stacks, roles (`role`), operations (`op`) and phases are numbers. A histogram is log-linear, \
with {} buckets for each power of two from 2^{} to 2^{} ns, one below and one above.

```proto
{}```
",
        names.join(", "),
        String::from_utf8_lossy(&MAGIC),
        buckets.per_power_of_two,
        buckets.first_exponent,
        buckets.last_exponent,
        proto(include_str!("wire.rs")),
    )
}

#[test]
fn the_page_of_the_format_is_made_of_the_code() {
    for kind in 0..=u8::MAX {
        let is_told = KINDS.iter().any(|(told, ..)| *told as u8 == kind);
        assert_eq!(super::frame::is_known(kind), is_told, "kind {kind}");
    }
    assert_expected("docs/recording-format.md", &page());
}
