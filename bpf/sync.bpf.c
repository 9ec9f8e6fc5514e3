// Entry and exit of the sync calls: which file, how long, how it ended. Everything is summed up here; user space
// reads totals, and hears of single calls only where no row could take them.
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "record.h"
#include "histogram.h"
#include "target.h"
#include "identity.h"
#include "who.h"
#include "rows.h"
#include "guess.h"
#include "inflight.h"
#include "slots.h"
#include "events.h"
#include "follow.h"
#include "waiting.h"
#include "watch.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile bool keep_threads; // rows by thread are asked for

// Set by user space until all programs are attached, and at the end: no sync is begun, those in flight still end.
bool stopped;

// The thread whose calls are a test of the probes: others of its process sync for reasons of their own.
u32 self_tid;

struct contract *contract; // only for its type

// This thread's own row, kept from call to call. Only this thread writes it, so plain additions do.
static __always_inline void enter_thread_row(struct call *call, struct who *who)
{
	struct task_struct *task = who->task, *leader = who->leader;
	struct identity id = {};
	struct row *row;

	id.kind = KIND_THREAD;
	id.op = call->op;
	id.owner = TASK_READ(leader, start_boottime);
	id.tgid = who->tgid;
	id.object = TASK_READ(task, pid);
	id.generation = TASK_READ(task, start_boottime) / 1000;
	call->thread_slot = slot_again(call, &id, -1, call->thread_slot);
	row = row_at(call->thread_slot);
	if (!row) {
		call->thread_slot = 0;
		count(no_row);
		return;
	}
	call->thread_sequence = row->sequence;
	// Once: by the time that user space looks, the thread may have ended.
	if (!row->name) {
		row->name = comm_low(task);
		row->name_rest = comm_high(task);
	}
	row->started++;
}

// Not inlined: fsynctop's own calls, by some of which it tests the probes.
static __noinline void enter_own(struct call *call, struct file *file, u32 kind)
{
	struct inode_key key;
	struct identity id = {};

	id.kind = kind;
	if (file && kind == KIND_FILE) {
		read_inode_key(&key, file);
		identify_file(&id, file, &key);
	}
	call->slot = SELF_SLOT;
	call->id = id;
	call->start_ns = 1;
	if (watch_waits)
		try_storage();
}

// What tells the row from others, except for what the process is. Of a filesystem, only the superblock does.
static __always_inline void read_row_key(struct inode_key *key, struct file *file, bool filesystem)
{
	read_inode_key(key, file);
	if (filesystem)
		key->inode = key->number = key->generation = 0;
}

// The slot of a file, at this address if there is one, by the hash, and from now on by guessing. Most syncs are of the
// same files and do not come here. Not static, as `new_slot`: so it takes numbers only, and finds out the rest again.
__noinline u32 find_slot(u64 address, u32 kind, bool target, u32 place)
{
	struct file *file = (struct file *)address;
	struct call *call = opened_call(place);
	struct inode_key key = {};
	bool known_again = file;
	struct task_struct *leader;
	struct identity *id;
	struct who who;
	u64 name_rest;
	u32 slot;

	if (!call)
		return NO_SLOT;
	// Put together where the verifier does not follow what is in it: on the stack, each way to a value would be a
	// state of its own.
	id = &call->id;
	*id = (struct identity){};
	read_who(&who, current_task_rarely());
	leader = who.leader;
	name_rest = comm_high(leader);
	if (file)
		read_row_key(&key, file, !target || kind == KIND_FILESYSTEM);
	id->kind = kind;
	if (file && target && kind == KIND_FILE)
		known_again = identify_file(id, file, &key);
	else if (file)
		id->device = device_of(&key);
	if (target) {
		id->op = call->op;
		id->tgid = who.tgid;
		id->owner = TASK_READ(leader, start_boottime);
	} else {
		id->kind = KIND_NEIGHBOUR;
		id->owner = who.name;
		id->object = name_rest;
	}
	slot = slot_of(call, id, call->fd);
	if (slot == NO_SLOT) {
		if (target)
			return NO_SLOT;
		count(neighbours_folded);
		return NEIGHBOUR_OVERFLOW_SLOT;
	}
	if (known_again)
		remember_guess(&key, target ? call->op : who.name ^ name_rest, slot);
	return slot;
}

// `kind` of a call whose descriptor is a file's, or of none.
static __always_inline u32 kind_of(struct file *file, u32 kind)
{
	return file || kind == KIND_NO_FILE ? kind : KIND_BAD_DESCRIPTOR;
}

static __always_inline void enter_traced(struct call *call, struct who *who, struct file *file, u32 op, u32 kind, s32 fd,
					 u64 now)
{
	struct inode_key key = {};
	struct row *row = 0;
	u64 name = 0;
	u32 slot = 0;

	if (call->start_ns)
		count(entries_without_exit);
	if (keep_threads)
		enter_thread_row(call, who);
	if (file) {
		if (kind == KIND_FILE)
			name = name_hash(file);
		read_row_key(&key, file, kind == KIND_FILESYSTEM);
		row = guess_file(&key, who, op, &slot);
	}
	if (!row) {
		slot = find_slot((u64)file, kind_of(file, kind), true, call->place);
		row = row_at(slot);
	}
	call->slot = slot;
	if (row) {
		call->sequence = row->sequence;
		add(&row->started, 1);
		if (name)
			tell_name(row, name, file, fd, slot);
	} else if (file) {
		send_name(&call->id, file, fd, slot, 0);
	}
	call->start_ns = now;
	if (watch_waits) {
		change_in_flight(slot, 1);
		watch_begin(call, file ? device_of(&key) : 0);
	}
}

static __always_inline void enter_neighbour(struct call *call, struct who *who, struct file *file, u32 kind, u64 now)
{
	struct inode_key key = {};
	struct row *row = 0;
	u32 slot = 0;

	if (call->start_ns)
		count(neighbour_entries_without_exit);
	if (keep_threads)
		call->thread_slot = 0;
	if (file) {
		read_row_key(&key, file, true);
		row = guess_neighbour(&key, who->name, comm_high(who->leader), &slot);
	}
	if (!row) {
		slot = find_slot((u64)file, kind_of(file, kind), false, call->place);
		row = row_at(slot);
	}
	call->slot = slot;
	if (row) {
		call->sequence = row->sequence;
		add(&row->started, 1);
	}
	call->start_ns = now;
	if (watch_waits)
		change_in_flight(slot, 1);
}

static __always_inline void enter(u32 op, u32 kind, s32 fd)
{
	struct task_struct *task = current_task();
	struct file *file = 0;
	struct call *call;
	struct who who;
	u64 now;

	if (stopped)
		return;
	// First: to read the clock is to wait for all loads and stores that came before, here for those of the caller only;
	// ours are then done while the sync begins. So a latency has a part of this program in it, tens of nanoseconds.
	now = bpf_ktime_get_ns();
	read_who(&who, task);
	// Before the ways part: for each, the verifier would look at it again, and it takes milliseconds over a pointer.
	if (kind == KIND_FILE || kind == KIND_FILESYSTEM)
		file = file_of(task, fd);
	call = open_call(TASK_READ(task, pid));
	if (!call) {
		count(no_call_state);
		return;
	}
	if (watch_waits && call->start_ns)
		change_in_flight(call->slot, -1);
	call->op = op;
	call->fd = fd;
	if (who.tgid == self_tgid) {
		enter_own(call, file, kind_of(file, kind));
		return;
	}
	if (is_traced(&who))
		enter_traced(call, &who, file, op, kind, fd, now);
	else
		enter_neighbour(call, &who, file, kind, now);
}

static __always_inline void finish(struct row *row, u32 slot, u64 latency, s64 result)
{
	struct histogram *histogram;

	add(&row->sum_ns, latency);
	raise(&row->max_ns, latency);
	if (result < 0) {
		add(&row->errors, 1);
		count_error(slot, row->sequence, -result);
	}
	if (is_under(latency)) {
		add(&row->under, 1);
		return;
	}
	if (is_over(latency)) {
		add(&row->over, 1);
		return;
	}
	if (slot >= histogram_slots) {
		u32 shared = row->shared_histogram;
		add(&row->elsewhere, 1);
		if (!shared) {
			send_latency(slot, row, latency, result);
			return;
		}
		slot = shared;
	}
	histogram = bpf_map_lookup_elem(&histograms, &slot);
	// Last: the verifier goes through what follows once for each power of two.
	if (histogram)
		add(bucket_at(histogram, bucket_of(latency)), 1);
}

static __always_inline void finish_thread(struct call *call, u64 latency, s64 result)
{
	struct row *row = row_at(call->thread_slot);
	u32 slot = call->thread_slot;
	struct histogram *histogram;

	if (!row || row->sequence != call->thread_sequence)
		return;
	row->sum_ns += latency;
	if (row->max_ns < latency)
		row->max_ns = latency;
	if (result < 0) {
		row->errors++;
		count_error(slot, row->sequence, -result);
	}
	if (is_under(latency)) {
		row->under++;
	} else if (is_over(latency)) {
		row->over++;
	} else if (slot >= histogram_slots) {
		row->elsewhere++;
	} else {
		histogram = bpf_map_lookup_elem(&histograms, &slot);
		if (histogram)
			++*bucket_at(histogram, bucket_of(latency));
	}
}

// An exit that no entry is known of. If the thread has entered before, this entry was skipped; else the call may have
// begun before the probes did. Rare; not static, as `new_slot`.
__noinline int count_lone_exit(u32 thread)
{
	struct who who;

	if (stopped)
		return 0;
	read_who(&who, current_task_rarely());
	if (!is_traced(&who))
		count(neighbour_exits_without_entry);
	else if (find_place(thread, FOR_TRACE) != NO_PLACE)
		count(entries_skipped);
	else
		count(exits_without_entry);
	return 0;
}

// A sync that has no row of its own: none was free when it began, or its row went to another file meanwhile. True
// if user space counts it; else it goes into the overflow row of its operation.
static __noinline bool count_elsewhere(struct call *call, u32 op, u64 latency, s64 result, bool no_row)
{
	struct row *row = row_at(op);

	if (no_row && send_sync(&call->id, latency, result))
		return true;
	if (no_row)
		count(no_row);
	else
		count(retired_row);
	if (row)
		add(&row->started, 1);
	return false;
}

// Not inlined: the end of a call of fsynctop's own.
static __noinline void leave_own(struct call *call, u32 op)
{
	struct task_struct *task = current_task();

	if (TASK_READ(task, pid) != self_tid)
		return;
	counters.self_file[op] = call->id;
	count(self_test[op]);
}

static __always_inline void end_call(struct call *call, u32 op, u64 latency, s64 result)
{
	u32 slot = call->slot;
	struct row *row;

	if (slot == SELF_SLOT) {
		leave_own(call, op);
		return;
	}
	if (keep_threads && call->thread_slot)
		finish_thread(call, latency, result);
	row = row_at(slot);
	if (!row || row->sequence != call->sequence) {
		if (count_elsewhere(call, op, latency, result, !row))
			return;
		slot = op;
		row = row_at(slot);
		if (!row)
			return;
	}
	finish(row, slot, latency, result);
}

static __always_inline void leave(u32 op, s64 result)
{
	u64 now = bpf_ktime_get_ns();
	u32 thread = bpf_get_current_pid_tgid();
	struct call *call = find_call(thread);
	u64 latency;

	if (!call || !call->start_ns) {
		count_lone_exit(thread);
		return;
	}
	latency = now - call->start_ns;
	call->start_ns = 0;
	if (watch_waits) {
		change_in_flight(call->slot, -1);
		watch_end(now);
	}
	end_call(call, op, latency, result);
	close_call(call, thread);
}

struct enter_context {
	u64 common;
	s32 number;
	u32 pad;
	u64 args[6];
};

struct exit_context {
	u64 common;
	s32 number;
	u32 pad;
	s64 result;
};

#if defined(__TARGET_ARCH_x86)
#define NUMBER_OF_FDATASYNC 75
#define WRAPPER(name) "__x64_sys_" #name
#define FIRST_ARGUMENT(registers) ((s32)(registers)->di)
#elif defined(__TARGET_ARCH_arm64)
#define NUMBER_OF_FDATASYNC 83
#define WRAPPER(name) "__arm64_sys_" #name
#define FIRST_ARGUMENT(registers) ((s32)(registers)->regs[0])
#endif

#define ENTER(name, op, kind)                                                   \
	SEC("tracepoint/syscalls/sys_enter_" #name)                             \
	int enter_##name(struct enter_context *context)                         \
	{                                                                       \
		enter(op, kind, (s32)context->args[0]);                         \
		return 0;                                                       \
	}

// Four programs for an operation, one of them ENTER; the two of the mode that is attached are loaded.
#define PROBES(name, op, kind)                                                  \
	SEC("tracepoint/syscalls/sys_exit_" #name)                              \
	int exit_##name(struct exit_context *context)                           \
	{                                                                       \
		leave(op, context->result);                                     \
		return 0;                                                       \
	}                                                                       \
	SEC("fentry/" WRAPPER(name))                                            \
	int fentry_##name(u64 *context)                                         \
	{                                                                       \
		struct pt_regs *regs = (void *)context[0];                      \
		enter(op, kind, FIRST_ARGUMENT(regs));                          \
		return 0;                                                       \
	}                                                                       \
	SEC("fexit/" WRAPPER(name))                                             \
	int fexit_##name(u64 *context)                                          \
	{                                                                       \
		leave(op, (s64)context[1]);                                     \
		return 0;                                                       \
	}

#include "kprobe.h"

#define ALL_PROBES(name, op, kind) PROBES(name, op, kind) KPROBES(name, op, kind)
ALL_PROBES(fsync, OP_FSYNC, KIND_FILE)
ALL_PROBES(fdatasync, OP_FDATASYNC, KIND_FILE)
ALL_PROBES(sync_file_range, OP_SYNC_FILE_RANGE, KIND_FILE)
ALL_PROBES(msync, OP_MSYNC, KIND_NO_FILE)
ALL_PROBES(syncfs, OP_SYNCFS, KIND_FILESYSTEM)

ENTER(sync_file_range, OP_SYNC_FILE_RANGE, KIND_FILE)
ENTER(msync, OP_MSYNC, KIND_NO_FILE)
ENTER(syncfs, OP_SYNCFS, KIND_FILESYSTEM)

// Attached to both, for these are nearly always wanted, and to have the verifier look at it twice takes a tenth of the
// time until the first row. In a 32-bit process the number would be below zero (trace_get_syscall_nr), and the kernel
// runs no such program.
SEC("tracepoint")
int enter_fsync_or_fdatasync(struct enter_context *context)
{
	enter(context->number == NUMBER_OF_FDATASYNC ? OP_FDATASYNC : OP_FSYNC, KIND_FILE, (s32)context->args[0]);
	return 0;
}

// sync takes no argument: its wrapper has no registers to read, and on x86 fentry cannot attach to it.
SEC("tracepoint/syscalls/sys_enter_sync")
int enter_sync(struct enter_context *context)
{
	enter(OP_SYNC, KIND_NO_FILE, -1);
	return 0;
}

SEC("tracepoint/syscalls/sys_exit_sync")
int exit_sync(struct exit_context *context)
{
	leave(OP_SYNC, context->result);
	return 0;
}
