//! The net below the watched calls (`bpf/net.h`): its programs at the filesystems' own tracepoints, and what
//! it has counted; with it the program at the kernel's note of a writeback error (`bpf/writeback.h`). Nothing
//! else depends on them: a kernel that refuses them is traced without.

use libbpf_rs::skel::Skel;
use libbpf_rs::{ErrorKind, Link, MapCore, MapFlags};

use super::contract::{Record, SyncSkel, record, types, view};
use super::identity::NeighbourIdentity;
use super::shares::Shares;
use crate::model::{self, FileId, Op, Target};

/// A filesystem with tracepoints where its syncs begin. Those of one program have the same first argument.
struct Filesystem {
    name: &'static str,
    program: &'static str,
    tracepoints: &'static [&'static str],
}

const FILESYSTEMS: [Filesystem; 4] = [
    Filesystem { name: "ext4", program: "net_file", tracepoints: &["ext4_sync_file_enter"] },
    Filesystem { name: "xfs", program: "net_xfs", tracepoints: &["xfs_file_fsync", "xfs_dir_fsync"] },
    Filesystem { name: "btrfs", program: "net_file", tracepoints: &["btrfs_sync_file"] },
    Filesystem { name: "f2fs", program: "net_inode", tracepoints: &["f2fs_sync_file_enter"] },
];

/// The program at the place where the kernel remembers that it could not write, whichever filesystem it was.
const WRITEBACK: &str = "net_writeback";
const WRITEBACK_TRACEPOINT: &str = "filemap_set_wb_err";

/// The programs at the entries of calls that sync whole filesystems. Each is attached where its call is not
/// watched.
const SYNCS_OF_ALL: [(&str, Op); 2] = [("net_sync", Op::Sync), ("net_syncfs", Op::Syncfs)];

/// No system call has this number, and a thread that is in none has -1.
const NO_NUMBER: i32 = -2;

pub(super) struct Net {
    /// The filesystems that the kernel has at this moment.
    present: Vec<&'static Filesystem>,
    /// Of [`SYNCS_OF_ALL`].
    of_all: Vec<&'static str>,
    state: model::Net,
}

impl Net {
    /// Only for filesystems that the kernel has, because each program makes the start longer.
    pub(super) fn of_this_host(watched: &[Op]) -> Net {
        Net::of_filesystems(std::fs::read_to_string("/proc/filesystems").ok().as_deref(), watched)
    }

    /// `filesystems`: /proc/filesystems; None if it cannot be read.
    fn of_filesystems(filesystems: Option<&str>, watched: &[Op]) -> Net {
        let has = |name: &str| {
            filesystems.is_none_or(|list| list.lines().any(|line| line.split('\t').next_back() == Some(name)))
        };
        let present = FILESYSTEMS.iter().filter(|filesystem| has(filesystem.name)).collect();
        let of_all = SYNCS_OF_ALL.iter().filter(|(_, op)| !watched.contains(op)).map(|&(program, _)| program);
        Net { present, of_all: of_all.collect(), state: model::Net::default() }
    }

    /// Whether a program of the net is to be loaded.
    pub(super) fn wants(&self, program: &str) -> bool {
        program == WRITEBACK
            || self.of_all.contains(&program)
            || self.present.iter().any(|filesystem| filesystem.program == program)
    }

    /// Where it is attached.
    pub(super) fn state(&self) -> &model::Net {
        &self.state
    }

    /// Attaches what was loaded.
    pub(super) fn attach(&mut self, skel: &mut SyncSkel, links: &mut Vec<Link>) {
        self.state = model::Net::default();
        match attach_to_writeback(skel) {
            Ok(link) => {
                links.push(link);
                self.state.writeback = true;
            }
            Err(why) => self.state.writeback_refused = Some(why),
        }
        self.state.syncs_of_all = true;
        for program in skel.object_mut().progs_mut() {
            if !self.of_all.iter().any(|of_all| program.name() == *of_all) {
                continue;
            }
            match program.attach() {
                Ok(link) => links.push(link),
                Err(error) => {
                    self.state.syncs_of_all = false;
                    self.state.refused = Some(format!("{}: {error:#}", program.name().to_string_lossy()));
                }
            }
        }
        for filesystem in &self.present {
            let mut programs = skel.object_mut().progs_mut();
            let Some(program) = programs.find(|program| program.name() == filesystem.program) else {
                continue;
            };
            let mut is_attached = false;
            for tracepoint in filesystem.tracepoints {
                match program.attach_raw_tracepoint(tracepoint) {
                    Ok(link) => {
                        links.push(link);
                        is_attached = true;
                    }
                    // Built without tracepoints, or with others.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => self.state.refused = Some(format!("{tracepoint}: {error:#}")),
                }
            }
            if is_attached {
                self.state.filesystems.push(filesystem.name.to_owned());
            }
        }
    }
}

fn attach_to_writeback(skel: &mut SyncSkel) -> Result<Link, String> {
    let mut programs = skel.object_mut().progs_mut();
    let program = programs.find(|program| program.name() == WRITEBACK).ok_or("no such program")?;
    program.attach_raw_tracepoint(WRITEBACK_TRACEPOINT).map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!("this kernel has no tracepoint {WRITEBACK_TRACEPOINT}"),
        _ => format!("{WRITEBACK_TRACEPOINT}: {error:#}"),
    })
}

/// Whether a program of this name belongs to the net.
pub(super) fn is_of_it(program: &str) -> bool {
    program.starts_with("net_")
}

/// The numbers of the watched calls that sync, and of those that write.
pub(super) fn watched_numbers(ops: &[Op]) -> ([i32; record::WATCHED_SYNCS], [i32; record::WATCHED_WRITES]) {
    let writes = |op: Op| op.writes() || !op.makes_durable();
    (numbers(ops, |op| !writes(op)), numbers(ops, writes))
}

fn numbers<const N: usize>(ops: &[Op], of_kind: impl Fn(Op) -> bool) -> [i32; N] {
    let calls = ops.iter().filter(|op| of_kind(**op)).flat_map(|op| op.calls());
    let mut numbers = calls.map(|call| i32::try_from(call.native).unwrap_or(NO_NUMBER));
    std::array::from_fn(|_| numbers.next().unwrap_or(NO_NUMBER))
}

/// Thread group, its start, and its syncs outside of the watched calls.
pub(super) fn read(skel: &SyncSkel) -> libbpf_rs::Result<Vec<(u32, u64, u64)>> {
    let map = &skel.maps.unwatched;
    let mut processes = Vec::new();
    for key in map.keys() {
        let Some(value) = map.lookup(&key, MapFlags::ANY)? else { continue };
        if let (Some(process), Some(n)) = (view::<types::process>(&key), value.first_chunk()) {
            processes.push((process.tgid, process.leader_start, u64::from_ne_bytes(*n)));
        }
    }
    Ok(processes)
}

/// What neighbours synced outside of the watched calls, by device and command, as far as there was room.
pub(super) fn neighbours(skel: &SyncSkel) -> libbpf_rs::Result<Vec<(NeighbourIdentity, u64)>> {
    // At once, because whoever syncs in such a way does it all the time: each look reads them.
    let most = record::UNWATCHED_NEIGHBOURS as u32;
    let all = skel.maps.neighbours_unwatched.lookup_batch(most, MapFlags::ANY, MapFlags::ANY)?;
    let neighbour = |(key, value): (Vec<u8>, Vec<u8>)| {
        let count = u64::from_ne_bytes(*value.first_chunk()?);
        Some((view::<types::neighbour_identity>(&key)?, count))
    };
    Ok(all.filter_map(neighbour).collect())
}

/// How often the error of a file changed to one errno since this was last asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WritebackError {
    /// A file, or, by its device, a filesystem's metadata.
    pub target: Target,
    pub errno: i32,
    pub changes: u64,
}

/// Takes them, so that there is room for others.
pub(super) fn take_writeback_errors(
    skel: &SyncSkel,
    shares: &mut Shares,
) -> std::io::Result<Vec<WritebackError>> {
    let map = &skel.maps.writeback_errors;
    let mut errors = Vec::new();
    // A key that is deleted lets the walk begin anew.
    for key in map.keys().take(record::WRITEBACK_FILES) {
        let Some(value) = take(map, &key).map_err(std::io::Error::other)? else { continue };
        let (error, count) = (view::<types::writeback_error>(&key), view::<types::error_count>(&value));
        let (Some(error), Some(count)) = (error, count) else { continue };
        shares.give_back(skel, count.share, record::ROOM_WRITEBACK)?;
        let types::writeback_error { device, inode, generation, .. } = error;
        let target = match inode {
            0 => Target::Filesystem(device),
            _ => Target::File(FileId { device, inode, generation, weak: generation == 0, part: false }),
        };
        let errno = i32::try_from(error.error).unwrap_or(0);
        errors.push(WritebackError { target, errno, changes: count.n });
    }
    Ok(errors)
}

/// At once, since 5.14. Before, what comes in between is in the total only.
fn take(map: &impl MapCore, key: &[u8]) -> libbpf_rs::Result<Option<Vec<u8>>> {
    map.lookup_and_delete(key).or_else(|_| {
        let value = map.lookup(key, MapFlags::ANY)?;
        map.delete(key)?;
        Ok(value)
    })
}

/// Makes room for others. What cannot be deleted stays.
pub(super) fn forget(skel: &SyncSkel, processes: &[(u32, u64)]) {
    delete_from(&skel.maps.unwatched, |process: types::process| {
        processes.contains(&(process.tgid, process.leader_start))
    });
}

/// The same of neighbours. What these sync in this moment may only be in the sum of all.
pub(super) fn forget_neighbours(skel: &SyncSkel, is_idle: impl Fn(&NeighbourIdentity) -> bool) {
    delete_from(&skel.maps.neighbours_unwatched, |neighbour| is_idle(&neighbour));
}

fn delete_from<Key: Record>(map: &impl MapCore, wanted: impl Fn(Key) -> bool) {
    for key in map.keys() {
        if view::<Key>(&key).is_some_and(&wanted) {
            let _ = map.delete(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_programs_of_filesystems_that_are_there_are_loaded() {
        let wanted = |list| {
            let net = Net::of_filesystems(list, &[Op::Fsync, Op::Syncfs]);
            assert!(net.wants(WRITEBACK), "on whichever filesystem");
            assert!(net.wants("net_sync") && !net.wants("net_syncfs"), "the latter is watched");
            ["net_file", "net_inode", "net_xfs"].map(|program| net.wants(program))
        };
        assert_eq!(wanted(Some("nodev\tproc\nnodev\text4x\n\text4\n")), [true, false, false]);
        assert_eq!(wanted(Some("nodev\tsysfs\n\txfs\n\tbtrfs\n")), [true, false, true]);
        assert_eq!(wanted(Some("nodev\ttmpfs\n")), [false; 3]);
        assert_eq!(wanted(None), [true; 3], "then those that cannot be attached are found out");
        assert!(FILESYSTEMS.iter().all(|filesystem| is_of_it(filesystem.program)) && is_of_it(WRITEBACK));
        assert!(SYNCS_OF_ALL.iter().all(|(program, _)| is_of_it(program)));
    }

    #[test]
    fn only_the_numbers_of_watched_calls_are_those_of_watched_calls() {
        let (syncs, writes) = watched_numbers(&[Op::Fdatasync]);
        let watched: Vec<_> = syncs.into_iter().filter(|number| *number != NO_NUMBER).collect();
        assert_eq!(
            (watched, writes),
            (vec![libc::SYS_fdatasync as i32], [NO_NUMBER; record::WATCHED_WRITES])
        );
        let (syncs, writes) = watched_numbers(&Op::ALL);
        assert!(syncs.iter().chain(&writes).all(|number| *number != NO_NUMBER), "there is room for all");
        assert!(writes.contains(&(libc::SYS_pwritev2 as i32)));
    }
}
