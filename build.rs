//! Compiles bpf/*.bpf.c into skeletons, `$OUT_DIR/NAME.skel.rs`, and bpf/tests/*.bpf.c into objects for the tests.

use std::ffi::OsString;
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

fn main() {
    println!("cargo:rerun-if-changed=bpf");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let architecture = match std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "x86",
        Ok("aarch64") => "arm64",
        other => panic!("no programs for the architecture {other:?}: x86_64 and aarch64 are served"),
    };
    // libbpf's headers, as libbpf-sys brings them.
    let headers = std::env::var("DEP_BPF_INCLUDE").expect("libbpf-sys names its headers");
    // v2: 5.10 refuses the atomics that a later instruction set brings.
    let arguments = [
        format!("-D__TARGET_ARCH_{architecture}"),
        "-mcpu=v2".into(),
        format!("-I{headers}"),
        "-Wall".into(),
        "-Werror".into(),
        // libbpf's own helper definitions declare structs they only point to.
        "-Wno-missing-declarations".into(),
    ]
    .map(OsString::from);
    SkeletonBuilder::new()
        .source("bpf/sync.bpf.c")
        .clang_args(&arguments)
        .obj(out.join("sync.bpf.o"))
        .build_and_generate(out.join("sync.skel.rs"))
        .expect("bpf/sync.bpf.c");
    SkeletonBuilder::new()
        .source("bpf/tests/bucket.bpf.c")
        .clang_args(&arguments)
        .obj(out.join("bucket.bpf.o"))
        .build()
        .expect("bpf/tests/bucket.bpf.c");
}
