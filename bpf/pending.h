// Requests in flight, by what is theirs for as long as they last: in flight is the request here, where inflight.h has
// the thread. Rings (ring.h) and libaio (aio.h) have a map of them each.
#pragma once

#include "add.h"
#include "events.h"
#include "inflight.h"
#include "kernel.h"
#include "leave.h"
#include "lookup.h"
#include "record.h"
#include "rows.h"
#include "watch.h"

const volatile u32 watched_ops; // a bit for each

// A request that was none. Its row then never counts it.
static __always_inline void take_back_pending(struct pending *request)
{
	struct row *row = row_at(request->slot);

	if (row && row->sequence == request->sequence)
		add(&row->started, -1);
}

// The end of a request that was never seen.
static __always_inline void forget_pending(struct pending *request)
{
	count(unreported);
	take_back_pending(request);
}

// `silent`: of its end is told only if it fails, or perhaps not at all. `context` and `stack`: see struct pending.
static __always_inline void begin_pending(void *map, const void *key, struct file *file, u32 op, s32 fd, u64 now,
					  bool silent, u64 context, u64 stack)
{
	u64 thread = bpf_get_current_pid_tgid();
	struct pending request = {}, *before;
	struct call *call = call_begin(thread);
	struct row *row;

	if (!call) {
		count(no_call_state);
		return;
	}
	// The thread is in no watched call: it is the one that submits, or the ring's own.
	call->op = op;
	call->fd = fd;
	request.slot = find_row((u64)file, file ? KIND_FILE : KIND_BAD_DESCRIPTOR, true, call->number);
	row = row_at(request.slot);
	if (row)
		request.sequence = row->sequence;
	else
		request.id = call->id;
	if (file) {
		u64 name = name_hash(file);

		if (row)
			tell_name(row, name, file, fd, request.slot);
		else
			send_name(&call->id, file, fd, request.slot, 0);
	}
	call_end(call, thread);
	request.start_ns = now;
	request.op = op;
	request.fd = fd;
	request.silent = silent;
	request.tgid = thread >> 32;
	request.tid = thread;
	request.context = context;
	request.stack = stack;
	before = bpf_map_lookup_elem(map, key);
	if (before && !before->silent)
		forget_pending(before);
	if (bpf_map_update_elem(map, key, &request, 0)) {
		count(no_call_state);
		return;
	}
	if (silent)
		count(unreported);
	else if (row)
		add(&row->started, 1);
}

// False: there is none, or another processor ends it. `now`: 0 where the clock is to be read, once it is known that
// there is one.
static __always_inline bool end_pending(void *map, const void *key, u64 now, s64 result)
{
	struct pending *found = bpf_map_lookup_elem(map, key), request;
	struct row *row;

	if (!found)
		return false;
	if (!now)
		now = bpf_ktime_get_ns();
	request = *found;
	if (bpf_map_delete_elem(map, key))
		return false;
	row = row_at(request.slot);
	if (request.silent) {
		add(&counters.unreported, -1);
		if (row && row->sequence == request.sequence)
			add(&row->started, 1);
	}
	finish_in_row(request.slot, request.sequence, &request.id, request.op, now - request.start_ns, result);
	return true;
}
