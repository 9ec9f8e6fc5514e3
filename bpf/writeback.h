// Writeback errors, when they happen. What a write left in the page cache the kernel writes half a minute later, on a
// thread of its own or in an interrupt; if that fails, the file's mapping remembers it (errseq_t, lib/errseq.c) for
// whoever syncs the file next. Nobody may ever do that. This program runs only where something has failed.
#pragma once

#include "add.h"
#include "identity.h"
#include "kernel.h"
#include "record.h"
#include "rows.h"
#include "target.h"

// User space reads it only when the counter `writeback_errors` has grown.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WRITEBACK_FILES);
	__type(key, struct writeback_error);
	__type(value, struct error_count);
} writeback_errors SEC(".maps");

// Of an errseq_t: the lower bits are the errno (as many as MAX_ERRNO needs), the next one says that somebody was told.
#define ERRSEQ_ERRNO 0xfff
#define ERRSEQ_SEEN (1 << 12)

// Metadata, and what is written to the device itself, belongs to an inode of the device's, which no path leads to.
static __always_inline bool is_of_device(struct inode *inode)
{
	return (BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFBLK;
}

// A file of some megabytes fails in hundreds of pieces, each of which comes by here: what counts is when the mapping's
// error changes, because that is what a sync would report. `before` is what errseq_set() returned: the error before,
// or the new one if it is the same. A new error is a change where somebody was told of the one before (it is then
// counted up, whichever it is), or where it has another errno.
SEC("raw_tp")
int net_writeback(u64 *context)
{
	struct address_space *mapping = (struct address_space *)context[0];
	u32 before = context[1];
	struct writeback_error error = {};
	struct error_count one = {.n = 1}, *known;
	struct inode *inode;
	bool is_fuse;

	if (stopped)
		return 0;
	error.error = BPF_CORE_READ(mapping, wb_err) & ERRSEQ_ERRNO;
	if (!(before & ERRSEQ_SEEN) && (before & ERRSEQ_ERRNO) == error.error)
		return 0;
	inode = BPF_CORE_READ(mapping, host);
	if (!inode)
		return 0; // the swap cache's
	if (is_of_device(inode)) {
		error.device = BPF_CORE_READ(inode, i_rdev);
	} else {
		error.device = BPF_CORE_READ(inode, i_sb, s_dev);
		error.inode = BPF_CORE_READ(inode, i_ino);
		error.generation = BPF_CORE_READ(inode, i_generation);
		if (BPF_CORE_READ(inode, i_sb, s_magic) == BTRFS_SUPER_MAGIC)
			error.device = btrfs_device((u64)inode, error.device);
	}
	// All that users may mount themselves, and make fail as they like, is one owner's.
	is_fuse = BPF_CORE_READ(inode, i_sb, s_magic) == FUSE_SUPER_MAGIC;
	one.share = share_by_key(is_fuse ? FUSE_SUPER_MAGIC : error.device, !is_fuse);
	known = bpf_map_lookup_elem(&writeback_errors, &error);
	if (!known && take_room(one.share, ROOM_WRITEBACK, WRITEBACK_FILES)) {
		if (!bpf_map_update_elem(&writeback_errors, &error, &one, BPF_NOEXIST))
			goto counted;
		// Another processor was first.
		give_room(one.share, ROOM_WRITEBACK);
		known = bpf_map_lookup_elem(&writeback_errors, &error);
	}
	if (known)
		add(&known->n, 1);
	else
		count(writeback_errors_dropped);
counted:
	// Last: whoever has seen this one grow finds the file.
	count(writeback_errors);
	return 0;
}
