// A net below the watched calls: what reaches a filesystem's own sync outside of them. Durable writes, io_uring,
// libaio, msync, the calls of 32-bit programs and whatever a later kernel brings end there as well. They are counted
// and not timed, for their process if it is traced, else by device and command: a measurement can then say that they
// happened, and that they are not in its figures.
//
// These programs run at every sync of the host, a watched one included, so they first look for a call in flight.
#pragma once

#include "aio.h"
#include "inflight.h"
#include "kernel.h"
#include "lookup.h"
#include "pending.h"
#include "read.h"
#include "record.h"
#include "rows.h"
#include "self.h"
#include "target.h"
#include "tracepoint.h"
#include "who.h"
#include "wrapper.h"

// User space reads each only when the counter of its name has grown.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct process);
	__type(value, u64);
} unwatched SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, UNWATCHED_NEIGHBOURS);
	__type(key, struct neighbour_identity);
	__type(value, u64);
} neighbours_unwatched SEC(".maps");

// What a request of a ring, or of libaio, syncs is counted as that request.
bool rings_watched;
bool aio_watched;

// Numbers of system calls; one that none has, where it is not watched.
const volatile s32 watched_syncs[WATCHED_SYNCS];
const volatile s32 watched_writes[WATCHED_WRITES];

#define NUMBER_OF_IO_URING_ENTER 426 // on each architecture

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

// The slot that the guess number `i` of those leads to, if its row is of the file; else NO_SLOT. Not static: see
// lookup.h.
__noinline u32 slot_of_owner(u64 address, u64 device, u32 i)
{
	struct inode_key key = {.inode = address, .address = address};
	struct guess *guess = guess_at(guess_index(&key, device, owner_op(i >> 1)) ^ (i & 1));
	struct inode *inode = (struct inode *)address;
	struct row *row;
	u32 slot;

	if (!guess || guess->inode != address || guess->device != device)
		return NO_SLOT;
	row = guessed_row(guess, &slot);
	if (!row || row->id.kind != KIND_FILE || row->id.of.file.inode != BPF_CORE_READ(inode, i_ino) ||
	    row->id.of.file.generation != BPF_CORE_READ(inode, i_generation))
		return NO_SLOT;
	return slot;
}

// The process whose file an inode is: one that has synced it by a watched way, so that a row can be guessed. A worker
// of the kernel says nothing of whom it works for.
// `watched`: it has done so by requests of which a worker executes the syncs.
static __noinline bool owner_of(struct inode *inode, struct process *owner, bool *watched)
{
	u64 device = BPF_CORE_READ(inode, i_sb, s_dev);

	for (u32 i = 0; i < 2 * OWNER_OPS; i++) {
		struct row *row = row_at(slot_of_owner((u64)inode, device, i));

		if (!row)
			continue;
		owner->tgid = row->id.tgid;
		owner->leader_start = row->id.of.file.leader_start;
		*watched = is_watched_in_worker(i >> 1);
		return true;
	}
	return false;
}

// If the map is full, only the sum is known.
static __always_inline void count_in(void *map, const void *key)
{
	u64 zero = 0, *n = bpf_map_lookup_elem(map, key);

	if (!n) {
		bpf_map_update_elem(map, key, &zero, BPF_NOEXIST);
		n = bpf_map_lookup_elem(map, key);
	}
	if (n)
		add(n, 1);
}

static __noinline void count_for(struct process *process)
{
	count_in(&unwatched, process);
	// Last: whoever has seen this one grow finds the process.
	count(unwatched);
}

// `device`: 0 if it was all of them.
static __noinline void count_neighbour(struct who *who, u32 device)
{
	struct neighbour_identity neighbour = {
		.comm_low = who->name, .comm_high = comm_high(who->leader), .device = device};

	count_in(&neighbours_unwatched, &neighbour);
	count(neighbours_unwatched);
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
		count_neighbour(&who, inode ? BPF_CORE_READ(inode, i_sb, s_dev) : 0);
		return;
	}
	find_current_server(&process);
	count_for(&process);
}

// sync and syncfs where they are not watched: what they write is everybody's, and nothing of it comes through the
// filesystem's sync of a file. One tracepoint for each, at the entry, because whether they end is not asked for.
static __noinline void count_sync_of_all(u32 device)
{
	struct process process = {};
	struct who who;

	read_who(&who, current_task_rarely());
	if (stopped || who.tgid == self_tgid)
		return;
	if (!is_traced(&who)) {
		count_neighbour(&who, device);
		return;
	}
	find_current_server(&process);
	count_for(&process);
}

SEC("tracepoint/syscalls/sys_enter_sync")
int net_sync(struct enter_context *context)
{
	count_sync_of_all(0);
	return 0;
}

SEC("tracepoint/syscalls/sys_enter_syncfs")
int net_syncfs(struct enter_context *context)
{
	struct file *file = file_of(current_task(), context->args[0]);
	struct inode_key key = {};

	if (!file)
		return 0;
	read_device_key(&key, file);
	count_sync_of_all(device_of(&key));
	return 0;
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
