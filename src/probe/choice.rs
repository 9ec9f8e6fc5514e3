//! Which ways of attaching are tried, in which order, and why the others are not. Pure: what works is found out by
//! trying.

use crate::snapshot::AttachMode::{self, Fentry, Kprobe, Tracepoint};

/// fentry costs only the calls that it watches. A kernel that preempts may preempt a program inside it, and skips the
/// same program's other runs on that processor until it goes on; the same holds for syscall tracepoints in newer
/// kernels (docs/kernels.md). kprobe.multi runs programs with preemption off: it is dearer than fentry, but loses none.
pub fn order(preemptible: bool) -> &'static [AttachMode] {
    if preemptible { &[Kprobe, Tracepoint, Fentry] } else { &[Fentry, Tracepoint] }
}

/// Why the modes that come after the chosen one were not tried.
pub fn untried(chosen: AttachMode, preemptible: bool) -> Vec<(AttachMode, String)> {
    let order = order(preemptible);
    let after = order.iter().skip_while(|mode| **mode != chosen).skip(1);
    after
        .map(|&mode| {
            let why = match mode {
                Tracepoint => {
                    format!("{} works, and costs only the calls that it watches", chosen.name())
                }
                Fentry | Kprobe => "this kernel preempts its programs, and then skips others".to_owned(),
            };
            (mode, format!("not tried: {why}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_that_was_not_tried_has_its_reason() {
        let names = |chosen, preemptible| {
            untried(chosen, preemptible)
                .iter()
                .map(|(mode, why)| format!("{}: {why}", mode.name()))
                .collect::<Vec<_>>()
        };
        let cheap =
            |mode| format!("tracepoint: not tried: {mode} works, and costs only the calls that it watches");
        let skips = "fentry: not tried: this kernel preempts its programs, and then skips others";
        assert_eq!(names(Fentry, false), [cheap("fentry")]);
        assert_eq!(names(Tracepoint, false), [""; 0]);
        assert_eq!(names(Kprobe, true), [&cheap("kprobe"), skips]);
        assert_eq!(names(Tracepoint, true), [skips]);
        assert_eq!(names(Fentry, true), [""; 0]);
    }
}
