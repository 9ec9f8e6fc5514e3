// Requests in flight: in flight is the request here, where inflight.h has the thread. Where they are kept meanwhile is
// rings' (request_slots.h) and libaio's own (aio.h).
#pragma once

#include "add.h"
#include "events.h"
#include "identity.h"
#include "inflight.h"
#include "kernel.h"
#include "leave.h"
#include "lookup.h"
#include "read.h"
#include "record.h"
#include "rows.h"
#include "unsynced.h"
#include "who.h"

const volatile u32 watched_ops; // a bit for each

// A sync that had to wait for another request begins when that has ended.
static __always_inline void begin_again(struct pending *request)
{
	struct row *row = row_at(request->slot);

	if (row && row->sequence == request->sequence && is_covering(request->op) &&
	    request->cover.file != COVERS_NOTHING)
		begin_cover(row, &request->cover);
}

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

// What is known of a request at its beginning, all but when that was: by its start it is in flight. Its slot is that of
// its row if that could be guessed, else NO_SLOT. `silent`: of its end is told only if it fails, or perhaps not at all.
// `completion`: of enum completion, or 0 where there is only one kind. `partial`: a sync of a part of the file. False:
// there is no room for it.
static __always_inline bool fill_pending(struct pending *request, struct task_struct *task, struct file *file,
					 u32 op, s32 fd, bool silent, u8 completion, bool partial)
{
	u64 name = file ? name_hash(file) : 0;
	u32 slot = request->slot;
	struct row *row = row_at(slot);

	if (!row) {
		u32 thread = TASK_READ(task, pid);
		// The thread is in no watched call: it is the one that submits, or the ring's own.
		struct call *call = call_begin(thread);

		if (!call) {
			count(no_call_state);
			return false;
		}
		call->op = op;
		call->fd = fd;
		note_server(call->number);
		slot = find_row((u64)file, file ? KIND_FILE : KIND_BAD_DESCRIPTOR, true, call->number);
		row = row_at(slot);
		request->id = call->id;
		if (!row && file)
			send_name((u64)file, fd, NO_SLOT, call->number);
		call_end(call, thread);
	}
	if (row && file)
		tell_name(row, name, file, fd, slot);
	// Another processor may take this one's bit away by its own, once. The next request sets it again.
	if (row && (row->completions & completion) != completion)
		row->completions |= completion;
	if (all_writes && partial)
		request->cover.file = COVERS_NOTHING;
	else if (all_writes)
		take_cover(&request->cover, row, op, file);
	request->slot = slot;
	request->sequence = row ? row->sequence : 0;
	request->op = op;
	request->fd = fd;
	request->silent = silent;
	request->tgid = TASK_READ(task, tgid);
	request->tid = TASK_READ(task, pid);
	return true;
}

// The request is in flight.
static __always_inline void count_begun(struct pending *request)
{
	struct row *row = row_at(request->slot);

	if (request->silent)
		count(unreported);
	else if (row)
		add(&row->started, 1);
}

// It is in flight no more.
static __always_inline void count_ended(struct pending *request, u64 now, u64 latency, s64 result)
{
	struct row *row;

	if (request->silent) {
		row = row_at(request->slot);
		add(&counters.unreported, -1);
		if (row && row->sequence == request->sequence)
			add(&row->started, 1);
	}
	finish_in_row(request->slot, request->sequence, &request->id, &request->cover, request->op, now, latency,
		      result, true);
}

// The same of what is in a hash, which must have room for it. False: it has none, or the one before is gone, whose end
// was missed. `room`: which table that is; `capacity`: how many it takes.
static __always_inline bool begin_in_map(void *map, u32 room, u32 capacity, const void *key, struct pending *request)
{
	struct pending *before = bpf_map_lookup_elem(map, key);
	u32 share = share_of_current();

	if (before && !before->silent)
		forget_pending(before);
	// Room is taken and given with the entry, whoever else is at work on it at the same time.
	if (before) {
		u32 of_before = before->share;
		if (!bpf_map_delete_elem(map, key))
			give_room(of_before, room);
	}
	request->share = share;
	if (!take_room(share, room, capacity))
		goto refused;
	if (bpf_map_update_elem(map, key, request, BPF_NOEXIST)) {
		give_room(share, room);
		goto refused;
	}
	count_begun(request);
	return !before;
refused:
	refuse(share);
	count(no_call_state);
	return false;
}

// False: there is none, or another processor ends it. `now`: 0 where the clock is to be read, once it is known that
// there is one.
static __always_inline bool end_in_map(void *map, u32 room, const void *key, u64 now, s64 result)
{
	struct pending *found = bpf_map_lookup_elem(map, key), request;

	if (!found)
		return false;
	if (!now)
		now = bpf_ktime_get_ns();
	request = *found;
	if (bpf_map_delete_elem(map, key))
		return false;
	give_room(request.share, room);
	count_ended(&request, now, now - request.start_ns, result);
	return true;
}
