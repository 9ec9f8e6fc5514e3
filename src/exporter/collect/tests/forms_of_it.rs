//! One exposition in all its forms: each says what the text says, and whoever it is made for understands it.

use prost::Message;
use serde_json::Value;

use super::*;
use crate::exporter::collect::forms::metrics_proto::{MetricFamily, MetricType};
use crate::model::histogram::{BUCKETS, Histogram};

/// The strict parser of Prometheus' own client library: each sample that it finds.
const PARSER: &str = r#"
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
families = list(text_string_to_metric_families(sys.stdin.read()))
print(json.dumps([
    [family.name, family.type, family.unit, [[s.name, list(s.labels.items()), s.value] for s in family.samples]]
    for family in families
]))
"#;

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"")
}

/// A series as the text format writes it.
fn series(name: &str, labels: &[(String, String)]) -> String {
    let labels: Vec<_> =
        labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    if labels.is_empty() { name.to_owned() } else { format!("{name}{{{}}}", labels.join(",")) }
}

fn in_all_forms(world: &World) -> [Vec<u8>; 3] {
    let families = expose::families(&world.book, &own());
    Form::ALL.map(|form| forms::write(form, &families, &world.book.options().buckets).unwrap())
}

fn busy_world() -> World {
    let mut world = hostile_world();
    world.tick();
    // Latencies of all sizes, those that the kernel does not tell apart at both ends included.
    let all: Vec<_> = (0..41).map(|bit| (bit + 1, 3 << bit)).collect();
    world.sync(0, &all);
    world.tick();
    world
}

fn text_of(bytes: &[u8]) -> BTreeMap<String, f64> {
    samples(std::str::from_utf8(bytes).unwrap())
}

#[test]
fn openmetrics_says_the_same_to_its_own_parser() {
    let [text, openmetrics, _] = in_all_forms(&busy_world());
    let mut parser = Command::new("/usr/bin/python3")
        .args(["-c", PARSER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python3, which tools/dependencies installs");
    std::io::Write::write_all(&mut parser.stdin.take().unwrap(), &openmetrics).unwrap();
    let output = parser.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let families: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut found = BTreeMap::new();
    let string = |value: &Value| value.as_str().unwrap().to_owned();
    for family in families.as_array().unwrap() {
        let (name, unit) = (string(&family[0]), string(&family[2]));
        for unit_of_it in ["seconds", "bytes"] {
            assert_eq!(unit == unit_of_it, name.ends_with(&format!("_{unit_of_it}")), "{name} {unit}");
        }
        for sample in family[3].as_array().unwrap() {
            let labels = sample[1].as_array().unwrap().iter();
            let labels: Vec<_> = labels.map(|pair| (string(&pair[0]), string(&pair[1]))).collect();
            found.insert(series(&string(&sample[0]), &labels), sample[2].as_f64().unwrap());
        }
    }
    assert_eq!(families.as_array().unwrap().len(), families::ALL.len());
    assert_eq!(found, text_of(&text));
}

#[test]
fn protobuf_says_the_same_and_has_each_latency_in_a_native_bucket_as_well() {
    let [text, _, protobuf] = in_all_forms(&busy_world());
    let (mut found, mut left, mut of_all, mut natives) = (BTreeMap::new(), &protobuf[..], 0, 0);
    while !left.is_empty() {
        let family = MetricFamily::decode_length_delimited(&mut left).unwrap();
        let known = families::ALL.iter().find(|known| known.name == family.name).unwrap();
        assert_eq!(family.help, known.help);
        of_all += 1;
        for metric in family.metric {
            let labels: Vec<_> = metric.label.into_iter().map(|pair| (pair.name, pair.value)).collect();
            let Some(histogram) = metric.histogram else {
                let number = match known.kind {
                    Kind::Counter => metric.counter,
                    _ => metric.gauge,
                };
                found.insert(series(&family.name, &labels), number.unwrap().value);
                continue;
            };
            assert_eq!(family.r#type, MetricType::Histogram as i32);
            let of =
                |end: &str, labels: &[(String, String)]| series(&format!("{}{end}", family.name), labels);
            let bounds = histogram
                .bucket
                .iter()
                .map(|bucket| (bucket.upper_bound.to_string(), bucket.cumulative_count));
            for (bound, count) in bounds.chain([("+Inf".to_owned(), histogram.sample_count)]) {
                let mut labels = labels.clone();
                labels.push(("le".to_owned(), bound));
                found.insert(of("_bucket", &labels), count as f64);
            }
            found.insert(of("_sum", &labels), histogram.sample_sum);
            found.insert(of("_count", &labels), histogram.sample_count as f64);
            // Prometheus refuses a histogram whose buckets do not add up to its count.
            let (mut count, mut sum) = (0, histogram.zero_count);
            for delta in &histogram.positive_delta {
                count += delta;
                sum += u64::try_from(count).unwrap();
            }
            assert_eq!((histogram.schema, sum), (4, histogram.sample_count), "{labels:?}");
            let lengths = histogram.positive_span.iter().map(|span| span.length as usize);
            assert_eq!(lengths.sum::<usize>(), histogram.positive_delta.len());
            assert!(histogram.positive_delta.len() <= BUCKETS && histogram.zero_threshold > 0.0);
            natives += histogram.positive_delta.len();
        }
    }
    assert!(natives >= 30, "{natives}");
    assert_eq!(of_all, families::ALL.len());
    assert_eq!(found, text_of(&text));
}

#[test]
fn a_server_that_has_seen_every_latency_takes_no_more_than_this() {
    let mut world = World::with_mysql();
    // In each of the kernel's buckets, with differences that take many bytes.
    let all = Histogram::from_sorted((0..BUCKETS).map(|bucket| (bucket, 1 << (bucket % 2 * 40))));
    world.files.push(redo(MYSQL, 1, &[(1, 1_000)]));
    world.tick();
    let [text_before, _, before] = in_all_forms(&world);
    let all = Stats { count: all.count(), sum_ns: 1 << 60, histogram: all, ..Stats::default() };
    world.files[0].stats.merge(&all);
    world.tick();
    let [text_after, _, after] = in_all_forms(&world);
    let more = after.len() - before.len();
    // What docs/metrics.md says of it.
    assert!((2_000..4_096).contains(&more), "{more} bytes");
    assert!(text_after.len() - text_before.len() < 1_000);
}
