// A server of several processes, as PostgreSQL is: the first of those that run its program, with all that it forked. It
// is found by the way up the parents, for as long as they execute the same file: a name alone can be chosen by anybody.
// Once for each process: the thread's slot keeps it (inflight.h).
#pragma once

#include "inflight.h"
#include "kernel.h"
#include "read.h"
#include "record.h"
#include "rows.h"
#include "target.h"

// PostgreSQL's processes are all children of the postmaster.
#define ANCESTORS 8

// Where servers work, so that a process whose parent was killed is known as theirs: PostgreSQL's are in the directory
// of its data.
struct workplace {
	u64 directory; // the inode's number
	u64 program;
	u32 directory_device;
	u32 program_device;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct workplace);
	__type(value, struct process);
} workplaces SEC(".maps");

// Where another process than `first`, which find_instance has found, is the server after all. Neither of the two calls
// the other: the stacks of functions that call each other may have 512 bytes together.
static __noinline void find_by_workplace(struct task_struct *first, struct process *server)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct inode *program = BPF_CORE_READ(task, mm, exe_file, f_inode);
	struct inode *directory = BPF_CORE_READ(first, fs, pwd.dentry, d_inode);
	struct workplace key = {};
	struct process *known;

	key.directory = BPF_CORE_READ(directory, i_ino);
	key.directory_device = BPF_CORE_READ(directory, i_sb, s_dev);
	key.program = BPF_CORE_READ(program, i_ino);
	key.program_device = BPF_CORE_READ(program, i_sb, s_dev);
	known = bpf_map_lookup_elem(&workplaces, &key);
	if (known && known->leader_start == server->leader_start && known->tgid == server->tgid)
		return;
	// Who executed the program is the server itself, and who was forked has lost it.
	if (!(BPF_CORE_READ(first, flags) & PF_FORKNOEXEC))
		bpf_map_update_elem(&workplaces, &key, server, 0);
	else if (known)
		*server = *known;
}

// The parent of a process, by their addresses, if it executes that file; else 0. Not static: see lookup.h.
__noinline u64 parent_if_same(u64 address, u64 program)
{
	struct task_struct *process = (struct task_struct *)address;
	struct task_struct *parent = BPF_CORE_READ(process, real_parent, group_leader);

	return (u64)BPF_CORE_READ(parent, mm, exe_file, f_inode) == program ? (u64)parent : 0;
}

// The server of the current process, whose name is that of a server of several, by the way up the parents: the address
// of its first process' task.
static __always_inline u64 find_instance(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	u64 program = (u64)BPF_CORE_READ(task, mm, exe_file, f_inode);
	u64 parent, first = (u64)BPF_CORE_READ(task, group_leader);

	for (u32 i = 0; program && i < ANCESTORS; i++) {
		parent = parent_if_same(first, program);
		if (!parent)
			break;
		first = parent;
	}
	return first;
}

// The same, and where it works. `by_directory`: that says whose a process is that has lost its parent.
static __always_inline void look_for_server(struct process *server, bool by_directory)
{
	struct task_struct *first = (struct task_struct *)find_instance();

	server->tgid = BPF_CORE_READ(first, tgid);
	server->leader_start = BPF_CORE_READ(first, start_boottime);
	if (by_directory)
		find_by_workplace(first, server);
}
