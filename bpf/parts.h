// Parts of files that have a role of their own, as the doublewrite buffer in InnoDB's system tablespace: by its
// offset a write that is not durable is told to be of one, and is an operation of its own. Where they lie, user space
// knows (src/probe/parts.rs). Only where all writes are watched.
#pragma once

#include "identity.h"
#include "kernel.h"
#include "record.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PARTS);
	__type(key, struct part_key);
	__type(value, struct part);
} parts SEC(".maps");

// All of them lie in between; where there are none, nothing does: so who has none pays for a comparison.
u64 parts_begin, parts_end;

// Of a call that has none: greater than any.
#define NO_OFFSET (~0ULL)

// Whether a write of the current process to the file begins in a part of it.
static __noinline bool is_in_part(struct file *file, u64 offset)
{
	struct part_key key = {.tgid = bpf_get_current_pid_tgid() >> 32};
	struct inode_key inode = {};
	struct part *part;

	read_inode_key(&inode, file);
	key.inode = inode.number;
	key.device = device_of(&inode);
	part = bpf_map_lookup_elem(&parts, &key);
	if (!part)
		return false;
	for (int i = 0; i < PART_RANGES; i++)
		if (offset >= part->begin[i] && offset < part->end[i])
			return true;
	return false;
}

// What a write is counted as: `op`, or `of_part`.
static __always_inline u32 op_at(u64 offset, struct file *file, u32 op, u32 of_part)
{
	if (offset >= parts_end || offset < parts_begin)
		return op;
	return is_in_part(file, offset) ? of_part : op;
}
