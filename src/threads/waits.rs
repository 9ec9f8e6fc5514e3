//! What a blocked sync waits for, read from its kernel stack.

/// The cause of a wait, and the stack frame that shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    pub what: String,
    pub frame: String,
}

/// Frames and their meaning; one that ends in '*' is a prefix. The innermost frame that is listed decides, so
/// what stands in almost every stack (`schedule`, `io_schedule`, `folio_wait_bit`) is left out.
const FRAMES: &[(&[&str], &str)] = &[
    (
        &["folio_wait_writeback*", "wait_on_page_writeback*", "__filemap_fdatawait_range"],
        "its data pages to be written",
    ),
    (&["jbd2_log_wait_commit", "jbd2_complete_transaction"], "the journal commit"),
    (&["__jbd2_log_wait_for_space", "jbd2_log_do_checkpoint"], "room in the journal"),
    (&["do_get_write_access"], "a metadata buffer that the running journal commit holds"),
    (
        &["wait_transaction_locked", "wait_transaction_switching", "add_transaction_credits"],
        "the journal's running transaction to close",
    ),
    (
        &[
            "xlog_wait_on_iclog",
            "xlog_force_lsn",
            "xlog_cil_force_seq",
            "xlog_cil_push_now",
            "xlog_state_get_iclog_space",
            "xfs_log_force*",
        ],
        "the XFS log",
    ),
    (&["xlog_grant_head_wait"], "room in the XFS log"),
    (
        &["btrfs_sync_log", "wait_log_commit", "wait_for_commit", "btrfs_commit_transaction"],
        "the btrfs log or transaction commit",
    ),
    (
        &["btrfs_wait_ordered_*", "btrfs_start_ordered_extent*"],
        "its data to be written and checksummed by btrfs",
    ),
    (&["zil_commit*", "txg_wait_*"], "the ZFS intent log or transaction group"),
    (
        &["request_wait_answer", "fuse_simple_request", "__fuse_simple_request", "__fuse_request_send"],
        "the FUSE server's answer",
    ),
    (&["rpc_wait_bit_killable", "nfs_wait_bit_killable", "nfs4_*", "nfs_*"], "the NFS server"),
    (&["cifs_*", "smb2_*"], "the SMB server"),
    (&["ceph_*"], "the Ceph cluster"),
    (&["wbt_wait*", "rq_qos_wait", "ioc_rqos_throttle", "blk_throtl*"], "the block layer's throttling"),
    (&["blk_mq_get_tag", "__blk_mq_get_tag"], "a free request in the device's queue"),
    (
        &["blk_queue_enter", "__bio_queue_enter", "blk_mq_queue_enter"],
        "a device queue that is frozen or suspended",
    ),
    (&["md_flush_request", "md_super_wait", "md_write_start"], "the RAID array"),
    (&["blkdev_issue_flush"], "the device cache flush"),
    (
        &["percpu_rwsem_wait", "__percpu_down_read", "sb_start_write", "__sb_start_write"],
        "a filesystem that is frozen (fsfreeze, a snapshot)",
    ),
    (&["super_lock", "iterate_supers*"], "a filesystem that is being frozen, mounted or unmounted"),
    (
        &["wb_wait_for_completion", "sync_inodes_sb", "wb_wait_completion"],
        "the writeback of the whole filesystem",
    ),
    (&["balance_dirty_pages*"], "the limit of dirty memory"),
    (
        &["rwsem_down_*", "__mutex_lock*", "mutex_lock*", "__down*", "osq_lock"],
        "a lock that another thread holds",
    ),
    // past the page cache; whatever of the above it calls is further in, and decides first
    (&["__iomap_dio_rw", "__blockdev_direct_IO"], "its data to be written"),
    // under blkdev_issue_flush as well as under other writes, so what stands below decides first
    (&["submit_bio_wait", "wait_on_buffer", "__wait_on_buffer"], "a write to the device"),
];

/// These only say how the wait is done: when a frame further out says what for, that one counts.
const GENERIC: &[&str] = &["submit_bio_wait", "wait_on_buffer", "__wait_on_buffer"];

/// Filesystems whose data is written by something else than a device, by a prefix of their functions.
const REMOTE: &[(&str, &str)] = &[
    ("fuse_", "by the FUSE server"),
    ("nfs_", "by the NFS server"),
    ("nfs4_", "by the NFS server"),
    ("cifs_", "by the SMB server"),
    ("ceph_", "by the Ceph cluster"),
];

/// By the stack, innermost frame first; without one, by the wait channel alone. None when no frame is known.
pub fn waits_for(stack: &[String], wait_channel: Option<&str>) -> Option<Wait> {
    let frames: Vec<&str> = if stack.is_empty() {
        wait_channel.into_iter().collect()
    } else {
        stack.iter().map(String::as_str).collect()
    };
    let known = || frames.iter().filter_map(|frame| Some((*frame, meaning(frame)?)));
    let (frame, what) = known().find(|(frame, _)| !GENERIC.contains(frame)).or_else(|| known().next())?;
    let remote = REMOTE.iter().find(|(prefix, _)| frames.iter().any(|frame| frame.starts_with(prefix)));
    let what = match remote {
        Some((_, by_whom)) if what.ends_with("written") => format!("{what} {by_whom}"),
        _ => what.to_owned(),
    };
    Some(Wait { what, frame: frame.to_owned() })
}

fn meaning(frame: &str) -> Option<&'static str> {
    let matches = |pattern: &&str| match pattern.strip_suffix('*') {
        Some(prefix) => frame.starts_with(prefix),
        // the compiler's copies of a function: "blk_mq_get_tag.isra.0"
        None => frame == *pattern || frame.strip_prefix(*pattern).is_some_and(|rest| rest.starts_with('.')),
    };
    FRAMES.iter().find(|(patterns, _)| patterns.iter().any(matches)).map(|(_, what)| *what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(stack: &[&str]) -> Option<(String, String)> {
        let stack: Vec<String> = stack.iter().map(|frame| frame.to_string()).collect();
        waits_for(&stack, None).map(|wait| (wait.what, wait.frame))
    }

    fn expect(stack: &[&str], what: &str, frame: &str) {
        assert_eq!(reading(stack), Some((what.to_owned(), frame.to_owned())));
    }

    #[test]
    fn the_innermost_frame_that_is_known_decides() {
        expect(
            &["folio_wait_bit", "folio_wait_writeback", "__filemap_fdatawait_range", "ext4_sync_file"],
            "its data pages to be written",
            "folio_wait_writeback",
        );
        expect(
            &["jbd2_log_wait_commit", "ext4_fsync_journal", "ext4_sync_file", "do_fsync"],
            "the journal commit",
            "jbd2_log_wait_commit",
        );
        expect(
            &["io_schedule_timeout", "__iomap_dio_rw", "iomap_dio_rw", "ext4_file_write_iter", "vfs_write"],
            "its data to be written",
            "__iomap_dio_rw",
        );
        expect(
            &["submit_bio_wait", "blkdev_issue_flush", "iomap_dio_complete", "__iomap_dio_rw", "vfs_write"],
            "the device cache flush",
            "blkdev_issue_flush",
        );
        expect(
            &["mutex_lock_io", "__jbd2_log_wait_for_space", "start_this_handle"],
            "a lock that another thread holds",
            "mutex_lock_io",
        );
    }

    #[test]
    fn a_flush_is_told_from_another_write() {
        expect(
            &["submit_bio_wait", "blkdev_issue_flush", "ext4_sync_file"],
            "the device cache flush",
            "blkdev_issue_flush",
        );
        expect(&["submit_bio_wait", "something"], "a write to the device", "submit_bio_wait");
    }

    #[test]
    fn writeback_on_a_network_filesystem_names_who_writes() {
        expect(
            &["folio_wait_bit", "folio_wait_writeback", "file_write_and_wait_range", "fuse_fsync"],
            "its data pages to be written by the FUSE server",
            "folio_wait_writeback",
        );
        expect(
            &["request_wait_answer", "__fuse_simple_request", "fuse_fsync_common"],
            "the FUSE server's answer",
            "request_wait_answer",
        );
    }

    #[test]
    fn a_copy_that_the_compiler_made_is_still_known() {
        expect(&["blk_mq_get_tag.isra.0"], "a free request in the device's queue", "blk_mq_get_tag.isra.0");
        assert_eq!(reading(&["blk_mq_get_tagged"]), None);
    }

    #[test]
    fn without_a_stack_the_wait_channel_is_read() {
        let wait = waits_for(&[], Some("jbd2_log_wait_commit")).unwrap();
        assert_eq!(wait.what, "the journal commit");
        assert_eq!(waits_for(&[], Some("folio_wait_bit")), None);
        assert_eq!(waits_for(&[], None), None);
    }
}
