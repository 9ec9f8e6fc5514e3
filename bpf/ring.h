// io_uring: the syncs and durable writes that are asked for in a ring, from their submission to their completion. They
// are in flight by request: the thread that submits one may be in another call when it ends, or gone, and its end is
// seen on whichever thread posts it.
//
// These programs run at every request of the host. One of another kind leaves them once its opcode is known, and one of
// a process that is not traced once that is.
#pragma once

#include "add.h"
#include "enter.h"
#include "events.h"
#include "identity.h"
#include "inflight.h"
#include "kernel.h"
#include "leave.h"
#include "lookup.h"
#include "parts.h"
#include "pending.h"
#include "read.h"
#include "record.h"
#include "request_slots.h"
#include "rows.h"
#include "target.h"
#include "who.h"
#include "write.h"

// include/uapi/linux/io_uring.h
enum ring_opcode {
	RING_WRITEV = 2,
	RING_FSYNC = 3,
	RING_WRITE_FIXED = 5,
	RING_SYNC_FILE_RANGE = 8,
	RING_WRITE = 23,
	RING_WRITEV_FIXED = 61, // 6.15
};

#define RING_FSYNC_DATASYNC 1
#define IORING_SETUP_IOPOLL (1 << 0)
#define IORING_SETUP_SQPOLL (1 << 1)
#define IORING_SETUP_DEFER_TASKRUN (1 << 13) // 6.1

// include/linux/io_uring_types.h: the first bits are those of the ring's entry
#define REQ_F_FIXED_FILE 1
#define REQ_F_LINK (1 << 2)
#define REQ_F_HARDLINK (1 << 3)
#define REQ_F_CQE_SKIP (1 << 6)

// The lower bits of a registered file's address say something else of it (io_uring/rsrc.h, filetable.h).
#define REGISTERED_FILE_MASK (~7UL)

// A field of one of the kernel's structures at an address.
#define READ_AS(type, address, field)                                                                         \
	(typed_cast ? ((struct type *)bpf_rdonly_cast(address, bpf_core_type_id_kernel(struct type)))->field \
		    : BPF_CORE_READ((struct type *)(address), field))
#define REQUEST_READ(request, field) READ_AS(io_kiocb, request, field)

static __always_inline bool is_ring_write(u8 opcode)
{
	return opcode == RING_WRITE || opcode == RING_WRITEV || opcode == RING_WRITE_FIXED ||
	       opcode == RING_WRITEV_FIXED;
}

static __always_inline bool is_ring_sync(u8 opcode)
{
	return opcode == RING_FSYNC || opcode == RING_SYNC_FILE_RANGE;
}

static __always_inline bool is_of_interest(u8 opcode)
{
	return is_ring_sync(opcode) || is_ring_write(opcode);
}

// A file of the ring's own table.
static __noinline struct file *registered_file(struct io_kiocb *request, u32 number)
{
	struct io_ring_ctx *ring = BPF_CORE_READ(request, ctx);
	unsigned long address = 0;

	if (bpf_core_field_exists(struct io_file_table, data)) {
		struct io_rsrc_node **nodes, *node = 0;

		if (number >= BPF_CORE_READ(ring, file_table.data.nr))
			return 0;
		nodes = BPF_CORE_READ(ring, file_table.data.nodes);
		bpf_probe_read_kernel(&node, sizeof(node), nodes + number);
		if (node)
			address = BPF_CORE_READ(node, file_ptr);
	} else if (bpf_core_field_exists(struct io_ring_ctx___files, nr_user_files)) {
		struct io_ring_ctx___files *older = (void *)ring;
		unsigned long *files;

		if (number >= BPF_CORE_READ(older, nr_user_files))
			return 0;
		files = (unsigned long *)BPF_CORE_READ(older, file_table.files);
		bpf_probe_read_kernel(&address, sizeof(address), files + number);
	}
	return (struct file *)(address & REGISTERED_FILE_MASK);
}

// What the request is counted as; OPS if not at all. Its own fields are filled in by now, all but the file.
static __always_inline u32 op_of_request(struct io_kiocb *request, u8 opcode, struct file *file)
{
	u32 op;

	if (opcode == RING_FSYNC)
		return READ_AS(io_sync, request, flags) & RING_FSYNC_DATASYNC ? OP_IO_URING_FDATASYNC
									      : OP_IO_URING_FSYNC;
	if (opcode == RING_SYNC_FILE_RANGE)
		return OP_IO_URING_SYNC_FILE_RANGE;
	op = file ? op_of_write(file, READ_AS(io_rw, request, flags)) : OPS;
	return op == OP_DSYNC_WRITE ? OP_IO_URING_DSYNC_WRITE : op == OP_WRITE ? OP_IO_URING_WRITE : OPS;
}

// Whether a sync is of a part of the file.
static __always_inline bool is_partial(struct io_kiocb *request, u32 op)
{
	struct io_sync *sync = (struct io_sync *)request;

	return all_writes && is_covering(op) && (READ_AS(io_sync, sync, off) || READ_AS(io_sync, sync, len));
}

// What is begun.
struct submission {
	struct who who;
	struct file *file;
	u64 now;
	u32 op;
	s32 fd;
	bool silent;
	u8 completion;
	bool partial;
};

static __always_inline bool fill_from(struct pending *request, struct submission *from)
{
	struct inode_key key = {};
	u32 slot = NO_SLOT;

	if (from->file) {
		read_row_key(&key, from->file, false);
		if (!guess_file(&key, &from->who, from->op, &slot))
			slot = NO_SLOT;
	}
	request->slot = slot;
	return fill_pending(request, from->who.task, from->file, from->op, from->fd, from->silent, from->completion,
			    from->partial);
}

static __always_inline void begin_in_slot(struct pending *request, struct submission *from)
{
	if (request->start_ns) {
		request->start_ns = 0;
		if (!request->silent)
			forget_pending(request);
	}
	if (!fill_from(request, from))
		return;
	count_begun(request);
	request->start_ns = from->now;
}

static __always_inline void begin_without_slot(u64 address, struct submission *from)
{
	struct pending request = {.start_ns = from->now};

	if (!fill_from(&request, from))
		return;
	// Never too few: who ends it looks at this first.
	add(&in_flight_without_slot, 1);
	if (!begin_in_map(&requests_without_slot, ROOM_REQUESTS, REQUESTS_WITHOUT_SLOT, &address, &request))
		add(&in_flight_without_slot, -1);
}

// In such a ring a completion is posted by the program's own call that waits for it or looks for it; else by a worker,
// an interrupt or the ring's own thread.
static __always_inline u8 completion_of(struct io_kiocb *request)
{
	struct io_ring_ctx *ring = REQUEST_READ(request, ctx);
	u32 flags = READ_AS(io_ring_ctx, ring, flags);
	bool is_polled_for = (flags & (IORING_SETUP_IOPOLL | IORING_SETUP_SQPOLL)) == IORING_SETUP_IOPOLL;

	return (flags & IORING_SETUP_DEFER_TASKRUN) || is_polled_for ? COMPLETION_REAPED : COMPLETION_POSTED;
}

// Not static: see lookup.h.
__noinline int begin_request(u64 address, u64 now)
{
	struct io_kiocb *request = (struct io_kiocb *)address;
	u64 flags = REQUEST_READ(request, flags);
	struct submission from = {.now = now, .silent = flags & REQ_F_CQE_SKIP};
	struct task_struct *leader;
	struct pending *kept;

	from.fd = REQUEST_READ(request, cqe.fd);
	read_who(&from.who, current_task_rarely());
	from.file = flags & REQ_F_FIXED_FILE ? registered_file(request, from.fd) : file_of(from.who.task, from.fd);
	from.op = op_of_request(request, REQUEST_READ(request, opcode), from.file);
	if (from.op >= OPS || !(watched_ops & (1 << from.op)))
		return 0;
	if (all_writes && from.op == OP_IO_URING_WRITE)
		from.op = op_at(READ_AS(io_rw, request, kiocb.ki_pos), from.file, OP_IO_URING_WRITE,
				OP_IO_URING_PART_WRITE);
	from.completion = completion_of(request);
	from.partial = is_partial(request, from.op);
	// Of a server of several processes no row is guessed: to look for its first process would cost each request of
	// all others, and none of those servers is known to make its files durable by a ring.
	leader = from.who.leader;
	from.who.server_start = TASK_READ(leader, start_boottime);
	kept = slot_for_request(address);
	if (kept)
		begin_in_slot(kept, &from);
	else
		begin_without_slot(address, &from);
	return 0;
}

SEC("raw_tp")
int ring_submit(u64 *context)
{
	struct io_kiocb *request = (struct io_kiocb *)context[0];
	u8 opcode = REQUEST_READ(request, opcode);
	struct who who;

	if (!is_of_interest(opcode))
		return 0;
	if (stopped)
		return 0;
	read_who(&who, current_task());
	if (who.tgid == self_tgid || !is_traced(&who))
		return 0;
	begin_request((u64)request, bpf_ktime_get_ns());
	return 0;
}

// Where the hook is given no result, it is in the ring's entry.
static __always_inline s64 result_of(s64 result, struct io_uring_cqe *entry)
{
	return entry ? READ_AS(io_uring_cqe, entry, res) : result;
}

static __always_inline bool end_request(u64 address, s64 result, struct io_uring_cqe *entry)
{
	struct pending *request = request_in_slot(address);
	u64 now, latency;

	if (request) {
		now = bpf_ktime_get_ns();
		latency = now - request->start_ns;
		request->start_ns = 0;
		count_ended(request, now, latency, result_of(result, entry));
		return true;
	}
	if (!in_flight_without_slot ||
	    !end_in_map(&requests_without_slot, ROOM_REQUESTS, &address, 0, result_of(result, entry)))
		return false;
	add(&in_flight_without_slot, -1);
	return true;
}

// A sync behind a write in a chain was submitted before the write had ended, and is begun now.
static __always_inline void begin_linked(struct io_kiocb *request)
{
	struct pending *next;
	u64 address;

	if (!(REQUEST_READ(request, flags) & (REQ_F_LINK | REQ_F_HARDLINK)))
		return;
	// A typed pointer would stay one, and the verifier allows no arithmetic with it.
	address = (u64)BPF_CORE_READ(request, link);
	next = request_in_slot(address);
	if (!next && in_flight_without_slot)
		next = bpf_map_lookup_elem(&requests_without_slot, &address);
	if (next)
		begin_again(next);
}

// A request that is not among those in flight is of another process, not durable, or began before the tracing. Of
// writes, failures count all the same. The end of a request is posted by its own process.
static __always_inline void complete(struct io_kiocb *request, s64 result, struct io_uring_cqe *entry)
{
	// One of several completions of one request has no request.
	u8 opcode = request ? REQUEST_READ(request, opcode) : 0;

	if (!is_of_interest(opcode))
		return;
	if (!end_request((u64)request, result, entry) && is_ring_write(opcode) &&
	    (watched_ops & (1 << OP_IO_URING_DSYNC_WRITE))) {
		result = result_of(result, entry);
		if (result < 0)
			count_failure((u64)BPF_CORE_READ(request, file), -1, OP_IO_URING_WRITE, -result);
	}
	if (all_writes && is_ring_write(opcode))
		begin_linked(request);
}

// Up to 6.15 the hook is given the result.
SEC("raw_tp")
int ring_complete_with_result(u64 *context)
{
	complete((struct io_kiocb *)context[1], (s32)context[3], 0);
	return 0;
}

// Since then, the entry of the ring that holds it.
SEC("raw_tp")
int ring_complete_with_entry(u64 *context)
{
	complete((struct io_kiocb *)context[1], 0, (struct io_uring_cqe *)context[2]);
	return 0;
}
