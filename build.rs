//! Compiles bpf/*.bpf.c into skeletons, `$OUT_DIR/NAME.skel.rs`.

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
    SkeletonBuilder::new()
        .source("bpf/sync.bpf.c")
        // v2: 5.10 refuses the atomics that a later instruction set brings.
        .clang_args([
            format!("-D__TARGET_ARCH_{architecture}"),
            "-mcpu=v2".into(),
            format!("-I{headers}"),
            "-Wall".into(),
            "-Werror".into(),
            // libbpf's own helper definitions declare structs they only point to.
            "-Wno-missing-declarations".into(),
        ])
        .build_and_generate(out.join("sync.skel.rs"))
        .expect("bpf/sync.bpf.c");
}
