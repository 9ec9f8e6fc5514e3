//! The stacks of the waits, as folded lines (frames from the outermost, and microseconds) and as a flame
//! graph.

use super::account::{Account, Stack};
use crate::text::escape;

/// One line per (role, operation, phase, stack): `redo;fdatasync;…frames…;[journal commit] 1234`.
pub fn folded(account: &Account) -> Vec<String> {
    let mut lines: Vec<String> = account.stacks.iter().filter_map(line).collect();
    lines.sort();
    lines
}

fn line(stack: &Stack) -> Option<String> {
    let microseconds = stack.ns / 1_000;
    let mut parts = vec![stack.who.role.name().to_owned(), stack.who.op.name().to_owned()];
    // Function names come from the kernel, but also from third-party modules.
    parts.extend(stack.frames.iter().map(|frame| escape(frame.as_bytes()).replace(';', ":")));
    parts.push(format!("[{}]", stack.phase.title()));
    (microseconds > 0).then(|| format!("{} {microseconds}", parts.join(";")))
}

/// The graph as SVG. None: nothing to draw.
pub fn graph(lines: &[String]) -> std::io::Result<Option<Vec<u8>>> {
    if lines.is_empty() {
        return Ok(None);
    }
    let mut options = inferno::flamegraph::Options::default();
    options.title = "What the syncs waited for".into();
    options.count_name = "µs".into();
    let mut svg = Vec::new();
    inferno::flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)
        .map_err(std::io::Error::other)?;
    Ok(Some(svg))
}

#[cfg(test)]
mod tests {
    use super::super::{Phase, Who};
    use super::*;
    use crate::model::{Op, Role, ServerId};

    fn account() -> Account {
        let who = Who { server: ServerId { pid: 7, start_ns: 0 }, role: Role::Redo, op: Op::Fdatasync };
        let frames = ["do_fsync", "jbd2_log_wait_commit"].map(String::from).to_vec();
        let stack = Stack { who, phase: Phase::JournalCommit, frames, ns: 12_345_678 };
        let cpu = Stack { who, phase: Phase::OnCpu, frames: Vec::new(), ns: 999 };
        Account { stacks: vec![stack, cpu], ..Account::default() }
    }

    #[test]
    fn a_line_has_its_frames_from_the_outermost_and_whole_microseconds() {
        let expected = "redo;fdatasync;do_fsync;jbd2_log_wait_commit;[journal commit] 12345";
        assert_eq!(folded(&account()), [expected]);
    }

    #[test]
    fn the_graph_shows_every_frame_and_nothing_makes_no_graph() {
        let svg = String::from_utf8(graph(&folded(&account())).unwrap().unwrap()).unwrap();
        assert!(
            svg.contains("<svg") && svg.contains("jbd2_log_wait_commit") && svg.contains("journal commit")
        );
        assert!(graph(&[]).unwrap().is_none());
    }
}
