// libaio: the syncs and durable writes that io_submit is given, from its entry to the exit of the io_getevents or
// io_pgetevents that brings their event. The kernel shows a request nowhere in between: which it was is told by the
// address of the program's own control block (struct iocb), which the event repeats.
//
// All that is read here lies in the process' memory, which it may change at any moment: it can make its own figures
// wrong, and no others. These programs run at these four calls of the host's processes; those that are not traced leave
// them once that is known.
//
// Loops are bpf_loop's (5.17): the verifier goes through their bodies once. bpf_task_pt_regs (5.15) is older.
#pragma once

#include "add.h"
#include "exits.h"
#include "identity.h"
#include "kernel.h"
#include "leave.h"
#include "parts.h"
#include "pending.h"
#include "read.h"
#include "record.h"
#include "rows.h"
#include "target.h"
#include "tracepoint.h"
#include "who.h"
#include "wrapper.h"
#include "write.h"

// include/uapi/linux/aio_abi.h
enum block_opcode {
	BLOCK_PWRITE = 1,
	BLOCK_FSYNC = 2,
	BLOCK_FDSYNC = 3,
	BLOCK_PWRITEV = 8,
};

// The part of a control block that says what it asks for.
struct block {
	u32 flags; // RWF_*
	u16 opcode;
	u16 priority;
	s32 fd;
};
#define BLOCK_AT 12
#define OFFSET_AT 40

struct aio_event {
	u64 data;
	u64 block;
	s64 result;
	s64 result_too;
};

#if defined(__TARGET_ARCH_x86)
#define NUMBER_OF_IO_SUBMIT 209
#define NUMBER_OF_IO_DESTROY 207
#elif defined(__TARGET_ARCH_arm64)
#define NUMBER_OF_IO_SUBMIT 2
#define NUMBER_OF_IO_DESTROY 1
#endif

// Apart from the requests of rings: a process that leaves its own here takes no room from those.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, AIO_REQUESTS);
	__type(key, struct aio_key);
	__type(value, struct pending);
} aio_requests SEC(".maps");

// Processes that take events out of the ring which the kernel shares with them, instead of by a call: how their
// requests end is not seen. From the first that shows it on, all of them are `silent`.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 256);
	__type(key, u32);
	__type(value, u8);
} aio_silent SEC(".maps");

bool aio_any_silent;

static __always_inline u32 current_tgid(void)
{
	return bpf_get_current_pid_tgid() >> 32;
}

static __always_inline struct aio_key key_of_block(u64 address)
{
	return (struct aio_key){.block = address, .tgid = current_tgid()};
}

static __always_inline bool read_block(struct block *block, u64 address)
{
	return !bpf_probe_read_user(block, sizeof(*block), (void *)(address + BLOCK_AT));
}

static __always_inline bool is_block_write(const struct block *block)
{
	return block->opcode == BLOCK_PWRITE || block->opcode == BLOCK_PWRITEV;
}

// What the request is counted as; OPS if not at all.
static __always_inline u32 op_of_block(const struct block *block, struct file *file)
{
	u32 op;

	if (block->opcode == BLOCK_FSYNC)
		return OP_AIO_FSYNC;
	if (block->opcode == BLOCK_FDSYNC)
		return OP_AIO_FDATASYNC;
	op = is_block_write(block) && file ? op_of_write(file, block->flags) : OPS;
	return op == OP_DSYNC_WRITE ? OP_AIO_DSYNC_WRITE : op == OP_WRITE ? OP_AIO_WRITE : OPS;
}

// Where it writes, which is looked at only where that could tell anything.
static __always_inline u64 offset_of_block(u64 address)
{
	u64 offset = NO_OFFSET;

	if (parts_end)
		bpf_probe_read_user(&offset, sizeof(offset), (void *)(address + OFFSET_AT));
	return offset;
}

// Which of the requests in flight.
struct which {
	u64 context; // of those of a context; 0: any
	u64 stack;   // of those of a process before it executed another program; 0: any
	u32 tgid;
	bool forget; // else they become silent
};

static __always_inline void remove_block(void *map, struct aio_key *key, u32 share)
{
	if (!bpf_map_delete_elem(map, key))
		give_room(share, ROOM_AIO);
}

static long give_up(void *map, struct aio_key *key, struct pending *request, struct which *which)
{
	if (request->tgid != which->tgid || (which->context && request->context != which->context) ||
	    (which->stack && request->stack != which->stack))
		return 0;
	if (!request->silent) {
		request->silent = 1;
		forget_pending(request);
	}
	if (which->forget)
		remove_block(map, key, request->share);
	return 0;
}

static __noinline void silence_process(u32 tgid)
{
	struct which which = {.tgid = tgid};
	u8 yes = 1;

	bpf_map_update_elem(&aio_silent, &tgid, &yes, 0);
	aio_any_silent = true;
	bpf_for_each_map_elem(&aio_requests, give_up, &which, 0);
}

// User space runs this by hand for a process that has ended, or executes another program by now: arguments are its id
// and where its stack began.
SEC("raw_tp")
int forget_process(u64 *arguments)
{
	struct which which = {.tgid = arguments[0], .stack = arguments[1], .forget = true};

	bpf_for_each_map_elem(&aio_requests, give_up, &which, 0);
	bpf_map_delete_elem(&aio_silent, &which.tgid);
	return 0;
}

// The slot of a file's row, if it can be guessed. Not static, here and below: see lookup.h. It is a function of its own
// because 6.1 adds up the stacks of all functions that call each other, to 512 bytes at most.
__noinline u32 guess_of_block(u64 file_address, u32 op)
{
	struct file *file = (struct file *)file_address;
	struct inode_key key = {};
	struct task_struct *leader;
	struct who who;
	u32 slot = NO_SLOT;

	if (!file)
		return NO_SLOT;
	read_who(&who, current_task_rarely());
	// As for a ring's request, no row of a server of several processes is guessed.
	leader = who.leader;
	who.server_start = TASK_READ(leader, start_boottime);
	read_row_key(&key, file, false);
	return guess_file(&key, &who, op, &slot) ? slot : NO_SLOT;
}

__noinline int begin_block(u64 address, u64 context, u64 stack, u64 now)
{
	struct aio_key key = key_of_block(address);
	struct pending request = {.start_ns = now, .context = context, .stack = stack}, *before;
	struct task_struct *task = current_task_rarely();
	struct block block;
	struct file *file;
	bool silent;
	u32 op;

	if (!read_block(&block, address))
		return 0;
	if (block.opcode != BLOCK_FSYNC && block.opcode != BLOCK_FDSYNC && !is_block_write(&block))
		return 0;
	file = file_of(task, block.fd);
	op = op_of_block(&block, file);
	if (op >= OPS || !(watched_ops & (1 << op)))
		return 0;
	if (all_writes && op == OP_AIO_WRITE)
		op = op_at(offset_of_block(address), file, OP_AIO_WRITE, OP_AIO_PART_WRITE);
	before = bpf_map_lookup_elem(&aio_requests, &key);
	if (before && !before->silent)
		silence_process(key.tgid);
	silent = aio_any_silent && bpf_map_lookup_elem(&aio_silent, &key.tgid);
	request.slot = guess_of_block((u64)file, op);
	if (fill_pending(&request, task, file, op, block.fd, silent, 0, false))
		begin_in_map(&aio_requests, ROOM_AIO, AIO_REQUESTS, &key, &request);
	return 0;
}

struct batch {
	u64 context;
	u64 blocks;
	u64 stack;
	u64 now;
	u32 first;
};

static __always_inline u64 block_of_batch(const struct batch *batch, u32 i)
{
	u64 address = 0;

	bpf_probe_read_user(&address, sizeof(address), (void *)(batch->blocks + i * sizeof(address)));
	return address;
}

static long begin_one(u32 i, struct batch *batch)
{
	u64 address = block_of_batch(batch, i);

	if (address)
		begin_block(address, batch->context, batch->stack, batch->now);
	return 0;
}

// The kernel takes the first of a batch, up to one that it refuses; the others were never requests.
static long take_back_one(u32 i, struct batch *batch)
{
	struct aio_key key = key_of_block(block_of_batch(batch, batch->first + i));
	struct pending *request = bpf_map_lookup_elem(&aio_requests, &key);

	if (!request)
		return 0;
	if (request->silent)
		add(&counters.unreported, -1);
	else
		take_back_pending(request);
	remove_block(&aio_requests, &key, request->share);
	return 0;
}

// A write that is not durable counts if it fails. What it was is read from its block, which nearly every program leaves
// alone until then.
static __always_inline void count_failed_block(u64 address, u32 error)
{
	struct block block;

	if (!(watched_ops & (1 << OP_AIO_DSYNC_WRITE)) || !read_block(&block, address) || !is_block_write(&block))
		return;
	count_failure((u64)file_of(current_task_rarely(), block.fd), block.fd, OP_AIO_WRITE, error);
}

// A request that is not among those in flight is of another kind, not durable, or began before the tracing.
__noinline int end_block(u64 address, s64 result, u64 now)
{
	struct aio_key key = key_of_block(address);

	if (!end_in_map(&aio_requests, ROOM_AIO, &key, now, result) && result < 0)
		count_failed_block(address, -result);
	return 0;
}

static __always_inline s64 at_most(s64 n, s64 limit)
{
	return n < limit ? n : limit;
}

static __noinline void begin_batch(void)
{
	struct pt_regs *registers = registers_at_entry();
	s64 n = READ_ARGUMENT(registers, 2);
	struct batch batch = {};

	if (n <= 0)
		return;
	batch.context = READ_ARGUMENT(registers, 1);
	batch.blocks = READ_ARGUMENT(registers, 3);
	batch.stack = BPF_CORE_READ(current_task_rarely(), mm, start_stack);
	batch.now = bpf_ktime_get_ns();
	bpf_loop(at_most(n, AIO_REQUESTS), begin_one, &batch, 0);
}

static __noinline void end_batch(s64 result)
{
	struct pt_regs *registers = registers_at_entry();
	s64 n = READ_ARGUMENT(registers, 2);
	struct batch batch = {};

	if (result == n)
		goto end;
	batch.blocks = READ_ARGUMENT(registers, 3);
	n = at_most(n, AIO_REQUESTS);
	if (result >= 0) {
		batch.first = result;
	} else if (result != -EAGAIN) {
		// The first one's own error. Where there was no room (EAGAIN) it will be asked for again.
		end_block(block_of_batch(&batch, 0), result, bpf_ktime_get_ns());
		batch.first = 1;
	}
	if (n > batch.first)
		bpf_loop(n - batch.first, take_back_one, &batch, 0);
end:
	// What these were was not looked at.
	if (result > AIO_REQUESTS)
		add(&counters.unreported, result - AIO_REQUESTS);
}

struct reaped {
	u64 events;
	u64 now;
};

static long end_one(u32 i, struct reaped *reaped)
{
	struct aio_event event;

	if (!bpf_probe_read_user(&event, sizeof(event), (void *)(reaped->events + i * sizeof(event))))
		end_block(event.block, event.result, reaped->now);
	return 0;
}

static __noinline void end_reaped(s64 n)
{
	struct reaped reaped = {.events = READ_ARGUMENT(registers_at_entry(), 4), .now = bpf_ktime_get_ns()};

	bpf_loop(at_most(n, AIO_REQUESTS), end_one, &reaped, 0);
}

// The kernel has waited for what was in flight in it, and has told of none.
static __noinline void forget_context(void)
{
	struct which which = {.tgid = current_tgid(), .forget = true};

	which.context = READ_ARGUMENT(registers_at_entry(), 1_AT_EXIT);
	bpf_for_each_map_elem(&aio_requests, give_up, &which, 0);
}

static __always_inline bool is_current_traced(void)
{
	struct who who;

	read_who(&who, current_task_rarely());
	return who.tgid != self_tgid && is_traced(&who);
}

static __always_inline void enter_submit(void)
{
	if (!stopped && is_current_traced())
		begin_batch();
}

static __always_inline void leave_submit(s64 result)
{
	if (is_current_traced())
		end_batch(result);
}

static __always_inline void leave_getevents(s64 result)
{
	if (result > 0 && is_current_traced())
		end_reaped(result);
}

static __always_inline void leave_destroy(s64 result)
{
	if (!result && is_current_traced())
		forget_context();
}

SEC("tracepoint/syscalls/sys_enter_io_submit")
int enter_io_submit(struct enter_context *context)
{
	enter_submit();
	return 0;
}

SEC("fentry/" WRAPPER(io_submit))
int fentry_io_submit(u64 *context)
{
	enter_submit();
	return 0;
}

SEC("kprobe.multi/" WRAPPER(io_submit))
int kprobe_io_submit(struct pt_regs *context)
{
	enter_submit();
	return 0;
}

// Attached to the tracepoint of each call in its name.
SEC("tracepoint")
int exit_io_submit_or_io_getevents_or_io_pgetevents_or_io_destroy(struct exit_context *context)
{
	if (context->number == NUMBER_OF_IO_SUBMIT)
		leave_submit(context->result);
	else if (context->number == NUMBER_OF_IO_DESTROY)
		leave_destroy(context->result);
	else
		leave_getevents(context->result);
	return 0;
}

EXITS(io_submit, leave_submit)
EXITS(io_getevents, leave_getevents)
EXITS(io_pgetevents, leave_getevents)
EXITS(io_destroy, leave_destroy)
