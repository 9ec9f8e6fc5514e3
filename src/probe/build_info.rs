//! What this build is: its sources, what it was built for, the libbpf that it is linked with, its programs.

use std::ffi::CStr;
use std::fmt;

use libbpf_rs::libbpf_sys;

/// Digits of a commit and of a hash that are shown: enough to tell them apart.
const SHOWN: usize = 12;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildInfo {
    pub version: &'static str,
    /// None if the sources do not know it; see docs/building.md.
    pub commit: Option<&'static str>,
    /// As 2026-11-24.
    pub commit_date: Option<&'static str>,
    /// As rustc calls it: x86_64-unknown-linux-gnu.
    pub target: &'static str,
    /// Whether the binary is linked with no library at run time, not even that of C.
    pub is_static: bool,
    /// Major and minor version, as it says itself at run time.
    pub libbpf: String,
    /// The SHA-256 of the objects with the programs: the same from the same sources and the same clang.
    pub objects: &'static str,
}

pub fn build_info() -> BuildInfo {
    let known = |text: &'static str| Some(text).filter(|text| !text.is_empty());
    BuildInfo {
        version: env!("CARGO_PKG_VERSION"),
        commit: known(env!("BUILD_COMMIT")).map(shortened),
        commit_date: known(env!("BUILD_COMMIT_DATE")),
        target: env!("BUILD_TARGET"),
        is_static: cfg!(target_feature = "crt-static"),
        libbpf: libbpf(),
        objects: shortened(env!("BUILD_OBJECTS")),
    }
}

fn shortened(digits: &'static str) -> &'static str {
    digits.get(..SHOWN).unwrap_or(digits)
}

fn libbpf() -> String {
    // SAFETY: a constant string of libbpf's, as "v1.7".
    let version = unsafe { CStr::from_ptr(libbpf_sys::libbpf_version_string()) };
    version.to_string_lossy().trim_start_matches('v').to_owned()
}

/// As `fsynctop --version` shows it, behind the name.
impl fmt::Display for BuildInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let commit = match (self.commit, self.commit_date) {
            (Some(commit), Some(date)) => format!("{commit}, {date}"),
            (Some(commit), None) => commit.to_owned(),
            (None, _) => "unknown".to_owned(),
        };
        let vendored = if cfg!(feature = "vendored") { "built in" } else { "shared library" };
        writeln!(f, "{}", self.version)?;
        writeln!(f, "commit:      {commit}")?;
        writeln!(f, "target:      {}{}", self.target, if self.is_static { ", static" } else { "" })?;
        writeln!(f, "libbpf:      {}, {vendored}", self.libbpf)?;
        write!(f, "BPF objects: sha256 {}", self.objects)
    }
}

#[cfg(test)]
mod tests {
    use ring::digest::{Context, SHA256};

    use super::super::timer::TIMER_OBJECT;
    use super::super::{OBJECT, WAIT_OBJECT};
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_objects_inside() {
        let mut context = Context::new(&SHA256);
        [OBJECT, WAIT_OBJECT, TIMER_OBJECT].iter().for_each(|object| context.update(object));
        let digest: String = context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(env!("BUILD_OBJECTS"), digest);
    }

    #[test]
    fn what_is_not_known_is_said_to_be_unknown() {
        let known = BuildInfo {
            version: "1.2.3",
            commit: Some("0123456789ab"),
            commit_date: Some("2026-11-24"),
            target: "x86_64-unknown-linux-gnu",
            is_static: true,
            libbpf: "1.7".into(),
            objects: "ba9876543210",
        };
        let text = known.to_string();
        assert!(text.starts_with("1.2.3\ncommit:      0123456789ab, 2026-11-24\ntarget:"), "{text}");
        let undated = BuildInfo { commit_date: None, ..known.clone() };
        assert!(undated.to_string().contains("\ncommit:      0123456789ab\n"));
        let unknown = BuildInfo { commit: None, commit_date: None, is_static: false, ..known };
        let text = unknown.to_string();
        assert!(text.contains("\ncommit:      unknown\ntarget:      x86_64-unknown-linux-gnu\n"), "{text}");
    }

    #[test]
    fn libbpf_says_its_version() {
        let info = build_info();
        let parts: Vec<_> = info.libbpf.split('.').map(str::parse::<u32>).collect();
        assert!(parts.len() == 2 && parts.iter().all(Result::is_ok), "{}", info.libbpf);
        assert!(info.target.contains("-linux-"), "{}", info.target);
    }
}
