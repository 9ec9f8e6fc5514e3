// Entry and exit of the sync calls: which file, how long, how it ended. Everything is summed up here; user space
// reads totals, and hears of single calls only where no row could take them.
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "record.h"
#include "histogram.h"
#include "target.h"
#include "identity.h"
#include "rows.h"
#include "inflight.h"
#include "slots.h"
#include "events.h"
#include "follow.h"
#include "waiting.h"
#include "watch.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile bool keep_threads; // rows by thread are asked for

// Set by user space at the end: no sync is begun any more, those in flight still end.
bool stopped;

// The thread whose calls are a test of the probes: others of its process sync for reasons of their own.
u32 self_tid;

// Nothing points to these records from a map, so their layout would be missing in the object's types, from which
// the Rust side is made.
struct in_flight *in_flight_layout;
struct file_event *file_event_layout;
struct sync_event *sync_event_layout;

// Eight bytes of a name. Two readings, because most decisions need the first only. `at` is a constant, or clang would
// read byte by byte.
#define comm_at(task, at) ({                                                            \
	u64 half;                                                                       \
	if (typed_cast || typed_task)                                                                 \
		half = *(u64 *)&(task)->comm[at];                                       \
	else                                                                            \
		bpf_probe_read_kernel(&half, sizeof(half), &(task)->comm[at]);          \
	half;                                                                           \
})

static __always_inline u64 comm_low(struct task_struct *task)
{
	return comm_at(task, 0);
}

static __always_inline u64 comm_high(struct task_struct *task)
{
	return comm_at(task, 8);
}

// Who syncs.
struct who {
	struct task_struct *task;
	struct task_struct *leader;
	u64 name; // the first half of the leader's
	u64 tgid; // 32 bits of it, but as wide as a register: no instruction is needed to clear the rest
};

static __always_inline void read_who(struct who *who, struct task_struct *task)
{
	struct task_struct *leader = TASK_READ(task, group_leader);

	who->task = task;
	who->leader = leader;
	who->tgid = TASK_READ(task, tgid);
	who->name = comm_low(leader);
}

// A name that ends in the first half, as `mysqld` does, is told by it.
static __always_inline bool pattern_is_short(u32 i)
{
	return !target_comm_high_mask[i];
}

// Which processes are traced (target.h).
static __always_inline bool is_traced(struct who *who)
{
	u32 patterns = target_comms;

	if (target_all)
		return true;
#pragma clang loop unroll(full)
	for (u32 i = 0; i < COMM_PATTERNS; i++)
		if (i < patterns && !((who->name ^ target_comm_low[i]) & target_comm_low_mask[i]) &&
		    (pattern_is_short(i) || !((comm_high(who->leader) ^ target_comm_high[i]) & target_comm_high_mask[i])))
			return true;
	return is_target_by_number(who->tgid);
}

// A local variable stands between `who` and each reading, else its own layout would be looked for in the kernel.
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
}

// Where a slot may stand: here, or at the place beside it. `more`: the operation, or a neighbour's name.
static __always_inline u32 guess_index(const struct inode_key *key, u64 device, u64 more)
{
	u64 from = key->inode ? key->address : device;

	return (from + more) * 0x9e3779b97f4a7c15 >> 40 & last_guess; // 2^64 divided by the golden ratio
}

// The row that a guess leads to. Other processors write there meanwhile, and addresses are used again: what decides is
// what the row says of itself.
static __always_inline struct row *guessed_row(const struct guess *guess, u32 *slot)
{
	struct row *row;

	*slot = guess->slot;
	row = row_at(*slot);
	return row && row->state == ROW_READY && !row->retired ? row : 0;
}

static __always_inline struct row *row_if_of_file(const struct guess *guess, const struct inode_key *key,
						  struct who *who, u32 op, u32 *slot)
{
	struct task_struct *leader = who->leader;
	struct row *row;

	if (!guess || guess->inode != key->inode)
		return 0;
	// Where reading costs a call of a helper, the inode's number and generation have to do.
	if ((typed_cast || !key->inode) && guess->device != device_of(key))
		return 0;
	row = guessed_row(guess, slot);
	return row && row->id.object == key->number && row->id.generation == key->generation && row->id.op == op &&
	       row->id.tgid == who->tgid && row->id.owner == TASK_READ(leader, start_boottime) ? row : 0;
}

// A file's row without the look-up in the hash, and without finding out more of the file than its inode; else 0.
static __always_inline struct row *guess_file(const struct inode_key *key, struct who *who, u32 op, u32 *slot)
{
	u32 index = guess_index(key, key->inode ? 0 : device_of(key), op);
	struct row *row = row_if_of_file(guess_at(index), key, who, op, slot);

	return row ?: row_if_of_file(guess_at(index ^ 1), key, who, op, slot);
}

static __always_inline struct row *row_if_of_neighbour(const struct guess *guess, u64 device, u64 low, u64 high, u32 *slot)
{
	struct row *row;

	if (!guess || guess->inode || guess->device != device)
		return 0;
	row = guessed_row(guess, slot);
	return row && row->id.owner == low && row->id.object == high ? row : 0;
}

// The same of a neighbour, `key` being its filesystem's.
static __always_inline struct row *guess_neighbour(const struct inode_key *key, u64 low, u64 high, u32 *slot)
{
	u64 device = device_of(key);
	u32 index = guess_index(key, device, low ^ high);
	struct row *row = row_if_of_neighbour(guess_at(index), device, low, high, slot);

	return row ?: row_if_of_neighbour(guess_at(index ^ 1), device, low, high, slot);
}

// From now on the slot is guessed: at one of its two places, if it can be at one that nobody has.
static __always_inline void remember_guess(const struct inode_key *key, u64 more, u32 slot)
{
	u64 device = device_of(key);
	u32 index = guess_index(key, device, more);
	struct guess *guess = guess_at(index);

	if (guess && guess->slot && guess->inode != key->inode)
		guess = guess_at(index ^ 1);
	if (!guess)
		return;
	guess->inode = key->inode;
	guess->device = device;
	guess->slot = slot;
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
__noinline u32 find_slot(u64 address, u32 kind, bool target)
{
	struct file *file = (struct file *)address;
	struct call *call = opened_call();
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

static __always_inline void enter_traced(struct call *call, struct who *who, struct file *file, u32 op, u32 kind, s32 fd)
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
		slot = find_slot((u64)file, kind_of(file, kind), true);
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
	call->start_ns = bpf_ktime_get_ns();
	if (watch_waits) {
		change_in_flight(slot, 1);
		watch_begin(call, file ? device_of(&key) : 0);
	}
}

static __always_inline void enter_neighbour(struct call *call, struct who *who, struct file *file, u32 kind)
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
		slot = find_slot((u64)file, kind_of(file, kind), false);
		row = row_at(slot);
	}
	call->slot = slot;
	if (row) {
		call->sequence = row->sequence;
		add(&row->started, 1);
	}
	call->start_ns = bpf_ktime_get_ns();
	if (watch_waits)
		change_in_flight(slot, 1);
}

static __always_inline void enter(u32 op, u32 kind, s32 fd)
{
	struct task_struct *task = current_task();
	struct file *file = 0;
	struct call *call;
	struct who who;

	if (stopped)
		return;
	read_who(&who, task);
	// Before the ways part: for each, the verifier would look at it again, and it takes milliseconds over a pointer.
	if (kind == KIND_FILE || kind == KIND_FILESYSTEM)
		file = file_of(task, fd);
	call = open_call(task);
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
		enter_traced(call, &who, file, op, kind, fd);
	else
		enter_neighbour(call, &who, file, kind);
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

// An exit that no entry is known of. `seen`: the thread has entered before, so that this entry was skipped; else the
// call may have begun before the probes did. Rare; not static, as `new_slot`.
__noinline int count_lone_exit(bool seen)
{
	struct who who;

	if (stopped)
		return 0;
	read_who(&who, current_task_rarely());
	if (!is_traced(&who))
		count(neighbour_exits_without_entry);
	else if (seen)
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
	struct call *call = find_call();
	u64 latency;

	if (!call || !call->start_ns) {
		count_lone_exit(call);
		return;
	}
	latency = now - call->start_ns;
	call->start_ns = 0;
	if (watch_waits) {
		change_in_flight(call->slot, -1);
		watch_end(now);
	}
	end_call(call, op, latency, result);
	close_call();
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
// time until the first row. The number is below zero in a 32-bit process, for which the kernel runs no such program.
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
