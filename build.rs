//! Compiles bpf/*.bpf.c into skeletons, `$OUT_DIR/NAME.skel.rs`, with the constants of their enums beside
//! them, `$OUT_DIR/NAME.constants.rs`, and for some the names of their types, `$OUT_DIR/NAME.types`
//! (src/probe/min_core_btf.rs). bpf/tests/*.bpf.c become objects for the tests. What the build is of goes to
//! src/probe/build_info.rs in variables.

#[path = "build/commit.rs"]
mod commit;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use libbpf_cargo::SkeletonBuilder;
use libbpf_rs::btf::types::Enum;
use libbpf_rs::btf::{Btf, BtfKind, BtfType};
use libbpf_rs::libbpf_sys::API_HEADERS;
use sha2::{Digest, Sha256};

/// One for each family of probes.
const OBJECTS: [&str; 3] = ["sync", "wait", "timer"];

/// Those whose programs read structures of the kernel.
const READ_THE_KERNEL: [&str; 2] = ["sync", "wait"];

/// The enums whose constants both sides need: the object, the enum, and the type of its constants in Rust.
const ENUMS: [(&str, &str, &str); 26] = [
    ("sync", "histogram_shape", "usize"),
    ("sync", "target_limit", "usize"),
    ("sync", "name_limit", "usize"),
    ("sync", "pending_limit", "u64"),
    ("sync", "error_limit", "u64"),
    ("sync", "room", "usize"),
    ("sync", "share_limit", "u32"),
    ("sync", "grave", "usize"),
    ("sync", "unsynced_limit", "usize"),
    ("sync", "part_limit", "usize"),
    ("sync", "unwatched_limit", "usize"),
    ("sync", "writeback_limit", "usize"),
    ("sync", "op", "u8"),
    ("sync", "watched_calls", "usize"),
    ("sync", "kind", "u8"),
    ("sync", "identity_flags", "u16"),
    ("sync", "slot", "u32"),
    ("sync", "free_list", "u32"),
    ("sync", "row_state", "u8"),
    ("sync", "completion", "u8"),
    ("sync", "owner_bit", "u32"),
    ("sync", "request_owner_bit", "u32"),
    ("sync", "event_type", "u32"),
    ("wait", "committer", "usize"),
    ("wait", "clock_limit", "usize"),
    ("timer", "timer_limit", "usize"),
];

/// As libbpf's headers call them.
const ARCHITECTURES: [&str; 2] = ["x86", "arm64"];

fn main() {
    println!("cargo:rerun-if-changed=bpf");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let architecture = match std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "x86",
        Ok("aarch64") => "arm64",
        other => panic!("no programs for the architecture {other:?}: x86_64 and aarch64 are served"),
    };
    let headers = libbpf_headers(&out);
    let clang = arguments(architecture, &headers);
    let mut digest = Sha256::new();
    for name in OBJECTS {
        SkeletonBuilder::new()
            .source(format!("bpf/{name}.bpf.c"))
            .clang_args(&clang)
            .obj(out.join(format!("{name}.bpf.o")))
            .build_and_generate(out.join(format!("{name}.skel.rs")))
            .unwrap_or_else(|error| panic!("bpf/{name}.bpf.c: {error:?}"));
        let object = out.join(format!("{name}.bpf.o"));
        digest.update(std::fs::read(&object).expect("it was just compiled"));
        std::fs::write(out.join(format!("{name}.constants.rs")), constants_of(name, &object))
            .expect("OUT_DIR can be written to");
        if !READ_THE_KERNEL.contains(&name) {
            continue;
        }
        let types = types_of(&object);
        std::fs::write(out.join(format!("{name}.types")), types.join("\n"))
            .expect("OUT_DIR can be written to");
    }
    SkeletonBuilder::new()
        .source("bpf/tests/bucket.bpf.c")
        .clang_args(&clang)
        .obj(out.join("bucket.bpf.o"))
        .build()
        .expect("bpf/tests/bucket.bpf.c");
    println!("cargo:rustc-env=BUILD_OBJECTS={:x}", digest.finalize());
    println!("cargo:rustc-env=BUILD_TARGET={}", std::env::var("TARGET").expect("cargo sets TARGET"));
    name_commit();
    // Who develops hears at once of what does not compile for the other architecture, and of a header that
    // leans on what was included before it.
    if std::env::var("PROFILE").as_deref() == Ok("debug") {
        own_headers().for_each(|header| check_alone(&header, &clang));
        for other in ARCHITECTURES.into_iter().filter(|name| *name != architecture) {
            for name in OBJECTS {
                SkeletonBuilder::new()
                    .source(format!("bpf/{name}.bpf.c"))
                    .clang_args(arguments(other, &headers))
                    .obj(out.join(format!("{name}-{other}.bpf.o")))
                    .build()
                    .unwrap_or_else(|error| panic!("bpf/{name}.bpf.c for {other}: {error:?}"));
            }
        }
    }
}

/// Hands the commit and its date on. A debug build does not ask git: who develops would compile and link
/// everything once more after each commit.
fn name_commit() {
    commit::VARIABLES.iter().for_each(|name| println!("cargo:rerun-if-env-changed={name}"));
    let ask_git = std::env::var("PROFILE").as_deref() != Ok("debug");
    let variable = |name: &str| std::env::var(name).ok();
    let found = commit::find(Path::new("."), ask_git, variable).unwrap_or_else(|error| panic!("{error}"));
    found.watch.iter().for_each(|path| println!("cargo:rerun-if-changed={}", path.display()));
    println!("cargo:rustc-env=BUILD_COMMIT={}", found.commit.unwrap_or_default());
    println!("cargo:rustc-env=BUILD_COMMIT_DATE={}", found.date.unwrap_or_default());
}

/// Writes libbpf's headers for programs to where clang finds them as `<bpf/…>`: those of the crate, whichever
/// libbpf the binary is linked with.
fn libbpf_headers(out: &Path) -> PathBuf {
    let include = out.join("include");
    std::fs::create_dir_all(include.join("bpf")).expect("OUT_DIR can be written to");
    for (name, text) in API_HEADERS {
        std::fs::write(include.join("bpf").join(name), text).expect("OUT_DIR can be written to");
    }
    include
}

fn own_headers() -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir("bpf").expect("bpf/ is part of the sources");
    let paths = entries.map(|entry| entry.expect("a directory's entry").path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "h"))
}

fn check_alone(header: &Path, arguments: &[OsString]) {
    let mut clang = Command::new(std::env::var_os("CLANG").unwrap_or_else(|| "clang".into()));
    clang.args(["-target", "bpf", "-fsyntax-only", "-x", "c", "/dev/null"]).args(arguments);
    let status = clang.arg("-Wno-unused-function").arg("-include").arg(header).status();
    assert!(status.is_ok_and(|status| status.success()), "{} does not compile alone", header.display());
}

fn btf_of(object: &Path) -> Btf<'static> {
    Btf::from_path(object).unwrap_or_else(|error| panic!("{}: {error:?}", object.display()))
}

/// The constants of an object's enums in Rust, each enum with a list of them for tests that want all.
fn constants_of(name: &str, object: &Path) -> String {
    let btf = btf_of(object);
    let mut text = String::new();
    for (_, name, kind) in ENUMS.into_iter().filter(|(of, ..)| *of == name) {
        let found = btf.type_by_name::<Enum>(name);
        let found = found.unwrap_or_else(|| panic!("{} has no enum {name}", object.display()));
        let mut all = String::new();
        for member in found.iter() {
            let constant = member.name.expect("a constant has a name").to_string_lossy();
            // The format has 32 bits, and compilers differ in whether they say that they are without a sign.
            let value = member.value as u32;
            text += &format!("pub const {constant}: {kind} = {value};\n");
            all += &format!("(\"{constant}\", {value}), ");
        }
        text += &format!(
            "#[cfg(test)]\n#[allow(dead_code)]\npub const ALL_OF_{}: &[(&str, {kind})] = &[{all}];\n",
            name.to_uppercase()
        );
    }
    text
}

/// The names of the structures, unions and enums that an object's programs know, the kernel's among them.
fn types_of(object: &Path) -> Vec<String> {
    let btf = btf_of(object);
    let types = (1..btf.len() as u32).filter_map(|id| btf.type_by_id::<BtfType>(id.into()));
    let has_members =
        |kind| matches!(kind, BtfKind::Struct | BtfKind::Union | BtfKind::Enum | BtfKind::Enum64);
    let mut names: Vec<_> = types
        .filter(|found| has_members(found.kind()))
        .filter_map(|found| Some(found.name()?.to_str()?.to_owned()))
        .filter(|name| !name.is_empty())
        .collect();
    names.sort();
    names.dedup();
    names
}

/// What clang is told when it compiles for an architecture.
fn arguments(architecture: &str, headers: &Path) -> Vec<OsString> {
    let sources = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let headers = headers.display();
    [
        format!("-D__TARGET_ARCH_{architecture}"),
        // 5.10 refuses the atomics that a later instruction set brings.
        "-mcpu=v2".into(),
        format!("-I{headers}"),
        // The objects name the files of their lines: as they are called here, or the same sources would make
        // other objects in another directory. The last one that fits counts.
        format!("-ffile-prefix-map={sources}=."),
        format!("-ffile-prefix-map={headers}=libbpf"),
        "-Wall".into(),
        "-Werror".into(),
        // libbpf's own helper definitions declare structs they only point to.
        "-Wno-missing-declarations".into(),
    ]
    .map(OsString::from)
    .into()
}
