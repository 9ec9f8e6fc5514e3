//! Compiles bpf/floor.bpf.c with the same compiler and options as the toolkit's own programs.

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
    let arguments = [format!("-D__TARGET_ARCH_{architecture}"), "-mcpu=v2".into()].map(OsString::from);
    SkeletonBuilder::new()
        .source("bpf/floor.bpf.c")
        .clang_args(arguments)
        .obj(out.join("floor.bpf.o"))
        .build()
        .expect("bpf/floor.bpf.c");
}
