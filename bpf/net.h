// A net below the watched calls: what reaches a filesystem's own sync outside of them. Durable writes, io_uring,
// libaio, msync and whatever a later kernel brings end there as well. They are counted for their process and not timed:
// a measurement can then say that they happened, and that they are not in its figures.
//
// These programs run at every sync of the host, a watched one included, so they first look for a call in flight.
#pragma once

#include "inflight.h"
#include "kernel.h"
#include "lookup.h"
#include "pending.h"
#include "read.h"
#include "record.h"
#include "rows.h"
#include "self.h"
#include "target.h"
#include "who.h"
#include "wrapper.h"

// User space reads it only when the counter `unwatched` has grown.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct process);
	__type(value, u64);
} unwatched SEC(".maps");

// What a request of a ring, or of libaio, syncs is counted as that request.
bool rings_watched;
bool aio_watched;

// Numbers of system calls; one that none has, where it is not watched.
const volatile s32 watched_syncs[WATCHED_SYNCS];
const volatile s32 watched_writes[WATCHED_WRITES];

#define NUMBER_OF_IO_URING_ENTER 426 // on each architecture
#if defined(__TARGET_ARCH_x86)
#define NUMBER_OF_IO_SUBMIT 209
#elif defined(__TARGET_ARCH_arm64)
#define NUMBER_OF_IO_SUBMIT 2
#endif

// The registers with which the thread entered the kernel say which call it is in. So a watched call is known for one
// also if its entry was skipped, or came before the programs were attached.
//
// Writes and requests are watched of traced processes only. io_submit itself executes writes, and leaves syncs to a
// worker.
static __noinline bool is_in_watched_call(bool traced)
{
	s32 number;

	if (!task_registers)
		return false;
	number = NUMBER_OF_CALL(registers_at_entry());
#pragma clang loop unroll(full)
	for (u32 i = 0; i < WATCHED_SYNCS; i++)
		if (number == watched_syncs[i])
			return true;
	if (!traced)
		return false;
	if (number == NUMBER_OF_IO_URING_ENTER)
		return rings_watched;
	if (number == NUMBER_OF_IO_SUBMIT)
		return aio_watched && (watched_ops & (1 << OP_AIO_DSYNC_WRITE));
#pragma clang loop unroll(full)
	for (u32 i = 0; i < WATCHED_WRITES; i++)
		if (number == watched_writes[i])
			return true;
	return false;
}

// A worker of the kernel executes the syncs of libaio and, whoever asked for it, that of a direct write which is
// durable. Those of watched requests come first: a file that has had one of them is not asked about further.
#define OWNER_OPS 6
static __always_inline u32 owner_op(u32 i)
{
	return i == 0   ? OP_AIO_FSYNC
	       : i == 1 ? OP_AIO_FDATASYNC
	       : i == 2 ? OP_AIO_DSYNC_WRITE
	       : i == 3 ? OP_IO_URING_DSYNC_WRITE
	       : i == 4 ? OP_FSYNC
			: OP_FDATASYNC;
}

static __always_inline bool is_watched_in_worker(u32 i)
{
	return i < 3 ? aio_watched : i == 3 && rings_watched;
}

// The process whose file an inode is: one that has synced it by a watched way, so that a row can be guessed. A worker
// of the kernel says nothing of whom it works for.
// `watched`: it has done so by requests of which a worker executes the syncs.
static __noinline bool owner_of(struct inode *inode, struct process *owner, bool *watched)
{
	struct inode_key key = {};
	u64 device;

	key.inode = key.address = (u64)inode;
	key.sb = (u64)BPF_CORE_READ(inode, i_sb);
	key.number = BPF_CORE_READ(inode, i_ino);
	key.generation = BPF_CORE_READ(inode, i_generation);
	device = device_of(&key);
	for (u32 i = 0; i < 2 * OWNER_OPS; i++) {
		u32 slot, op = owner_op(i >> 1);
		struct guess *guess = guess_at(guess_index(&key, device, op) ^ (i & 1));
		struct row *row;

		if (!guess || guess->inode != key.inode || guess->device != device)
			continue;
		row = guessed_row(guess, &slot);
		if (!row || row->id.kind != KIND_FILE || row->id.of.file.inode != key.number ||
		    row->id.of.file.generation != key.generation)
			continue;
		owner->tgid = row->id.tgid;
		owner->leader_start = row->id.of.file.leader_start;
		*watched = is_watched_in_worker(i >> 1);
		return true;
	}
	return false;
}

static __noinline void count_for(struct process *process)
{
	u64 zero = 0, *n = bpf_map_lookup_elem(&unwatched, process);

	if (!n) {
		// If the map is full, only the sum is known.
		bpf_map_update_elem(&unwatched, process, &zero, BPF_NOEXIST);
		n = bpf_map_lookup_elem(&unwatched, process);
	}
	if (n)
		add(n, 1);
	// Last: whoever has seen this one grow finds the process.
	count(unwatched);
}

static __always_inline bool is_outside_of_calls(void)
{
	struct call *call;

	if (stopped)
		return false;
	call = call_find(bpf_get_current_pid_tgid());
	return !call || !call->start_ns;
}

static __noinline void count_unwatched(struct inode *inode)
{
	struct task_struct *task = current_task_rarely();
	struct process process = {};
	u32 flags = TASK_READ(task, flags);
	bool traced, watched = false;
	struct who who;

	if (flags & PF_KTHREAD) {
		// Of a file that no row is known of, it is nobody's: a loop device syncs its backing file all the time.
		if (inode && owner_of(inode, &process, &watched) && !watched)
			count_for(&process);
		return;
	}
	read_who(&who, task);
	if (who.tgid == self_tgid)
		return;
	traced = is_traced(&who);
	// A worker of io_uring has the registers of the thread that made it, whatever call that was in.
	if (flags & PF_IO_WORKER ? traced && rings_watched : is_in_watched_call(traced))
		return;
	if (!traced) {
		count(neighbours_unwatched);
		return;
	}
	find_current_server(&process);
	count_for(&process);
}

static __always_inline struct inode *inode_of_xfs(void *inode)
{
	// Without the module's types, as on 5.10, the owner of what a worker syncs stays unknown.
	if (!bpf_core_field_exists(struct xfs_inode, i_vnode))
		return 0;
	return inode + bpf_core_field_offset(struct xfs_inode, i_vnode);
}

// The first argument of each is what the filesystem's tracepoint has; src/probe/net.rs says which these are.
#define NET(name, inode)                                 \
	SEC("raw_tp")                                    \
	int net_##name(u64 *context)                     \
	{                                                \
		if (is_outside_of_calls())               \
			count_unwatched(inode);          \
		return 0;                                \
	}

NET(file, BPF_CORE_READ((struct file *)context[0], f_inode))
NET(inode, (struct inode *)context[0])
NET(xfs, inode_of_xfs((void *)context[0]))
