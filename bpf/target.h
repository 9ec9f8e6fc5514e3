// Which processes are traced: decided from the thread group's leader, never from the thread that syncs, because
// in MySQL 8 and later no syncing thread carries the server's name.
#pragma once

#include "kernel.h"
#include "record.h"

// Set by user space until all programs are attached, and at the end: no sync is begun, those in flight still end.
bool stopped;

const volatile bool programs_skipped; // the kernel may skip programs, because it preempts them

// What makes a process a target. Fixed before load, so that the verifier prunes what is not asked for.
const volatile bool target_all;
const volatile bool target_by_map; // --pid, and the descendants of a command
const volatile u32 target_comms;   // how many of the following are in use
const volatile u64 target_comm_low[COMM_PATTERNS];
const volatile u64 target_comm_high[COMM_PATTERNS];
// Up to and with the ending NUL: kernels before 5.15 do not clear what follows it (strscpy_pad).
const volatile u64 target_comm_low_mask[COMM_PATTERNS];
const volatile u64 target_comm_high_mask[COMM_PATTERNS];
// The names of servers that are a process with its children (instance.h), compared in the same way.
const volatile u32 instance_comms;
const volatile u64 instance_comm_low[COMM_PATTERNS];
const volatile u64 instance_comm_high[COMM_PATTERNS];
const volatile u64 instance_comm_low_mask[COMM_PATTERNS];
const volatile u64 instance_comm_high_mask[COMM_PATTERNS];
// Of which of them a process that has lost its parent belongs to the server of the same working directory: bits.
const volatile u32 instance_by_directory;
const volatile u64 target_cgroup;       // id; 0: none
const volatile u32 target_cgroup_level; // its depth below the root of cgroup2

// Thread groups that are traced by number: --pid, and what `-- COMMAND` forks.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u32);
	__type(value, u8);
} traced SEC(".maps");

static __always_inline bool is_target_by_number(u32 tgid)
{
	if (target_by_map && bpf_map_lookup_elem(&traced, &tgid))
		return true;
	// 5.7 and later
	return target_cgroup && bpf_get_current_ancestor_cgroup_id(target_cgroup_level) == target_cgroup;
}
