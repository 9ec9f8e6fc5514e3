//! Needs root: the bucket function stands in C and in Rust; the kernel runs the one, this program the other.

use crate::common::needs;
use fsynctop::model::histogram::{BUCKETS, bucket_of, lower_edge};
use libbpf_rs::{ObjectBuilder, ProgramInput};

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn the_kernels_bucket_is_ours_at_every_boundary() {
    needs(&[]);
    let object = ObjectBuilder::default()
        .open_file(concat!(env!("OUT_DIR"), "/bucket.bpf.o"))
        .unwrap()
        .load()
        .unwrap();
    let program = object.progs_mut().find(|program| program.name() == "bucket").expect("the object has it");
    let kernels_bucket_of = |ns: u64| {
        let mut context = ns.to_ne_bytes();
        let input = ProgramInput { context_in: Some(&mut context), ..Default::default() };
        program.test_run(input).unwrap().return_value as usize
    };
    let edges = (0..BUCKETS).map(lower_edge);
    let powers = (0..u64::BITS).map(|exponent| 1 << exponent);
    let around = |ns: u64| [ns.saturating_sub(1), ns, ns.saturating_add(1)];
    let latencies: Vec<u64> = edges.chain(powers).flat_map(around).chain([u64::MAX - 1, u64::MAX]).collect();
    let mut met = [false; BUCKETS];
    for &ns in &latencies {
        let bucket = kernels_bucket_of(ns);
        assert_eq!(bucket, bucket_of(ns), "{ns} ns");
        met[bucket] = true;
    }
    assert!(met.into_iter().all(|met| met), "every bucket was met");
}
