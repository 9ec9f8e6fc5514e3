// Exit of a sync call: how long it took and how it ended, added to its row.
#pragma once

#include "add.h"
#include "events.h"
#include "histogram.h"
#include "inflight.h"
#include "kernel.h"
#include "read.h"
#include "record.h"
#include "rows.h"
#include "self.h"
#include "target.h"
#include "thread_row.h"
#include "unsynced.h"
#include "waiting.h"
#include "watch.h"
#include "who.h"

static __always_inline void finish(struct row *row, u32 slot, u32 op, u64 latency, s64 result)
{
	struct histogram *histogram;

	add(&row->sum_ns, latency);
	raise(&row->max_ns, latency);
	if (result < 0) {
		add(&row->errors, 1);
		count_error(slot, row->sequence, -result);
	} else if (returns_bytes(op) && result > 0) {
		add(&row->bytes, result);
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

// An exit that no entry is known of. If the thread has entered before, this entry was skipped; else the call may have
// begun before the probes were there. Rare; not static: see lookup.h.
__noinline int count_lone_exit(u32 thread)
{
	struct who who;

	if (stopped)
		return 0;
	read_who(&who, current_task_rarely());
	if (!is_traced(&who))
		count(neighbour_exits_without_entry);
	else if (has_called_before(thread))
		count(entries_skipped);
	else
		count(exits_without_entry);
	return 0;
}

// A sync that has no row of its own: none was free when it began, or its row went to another file meanwhile. True
// if user space counts it; else it goes into the overflow row of its operation.
static __noinline bool count_elsewhere(struct identity *id, u32 op, u64 latency, s64 result, bool no_row)
{
	struct row *row = row_at(op);

	if (no_row && send_sync(id, latency, result))
		return true;
	if (no_row)
		count(no_row);
	else
		count(retired_row);
	if (row)
		add(&row->started, 1);
	return false;
}

// `id`: where there is no row.
static __always_inline void finish_in_row(u32 slot, u32 sequence, struct identity *id, struct cover *cover, u32 op,
					  u64 now, u64 latency, s64 result)
{
	struct row *row = row_at(slot);
	bool is_its_own = row && row->sequence == sequence;

	if (all_writes)
		note_unsynced(is_its_own ? row : 0, op, cover, now, latency, result);
	if (!is_its_own) {
		if (count_elsewhere(id, op, latency, result, !row))
			return;
		slot = op;
		row = row_at(slot);
		if (!row)
			return;
	}
	finish(row, slot, op, latency, result);
}

static __always_inline void finish_call(struct call *call, u32 op, u64 now, u64 latency, s64 result)
{
	if (call->slot == SELF_SLOT) {
		leave_own(call, op);
		return;
	}
	if (keep_threads && call->thread_row)
		end_thread_row(call, op, latency, result);
	finish_in_row(call->slot, call->sequence, &call->id, &call->cover, op, now, latency, result);
}

static __always_inline void end_call(struct call *call, u32 op, u32 thread, u64 now, s64 result)
{
	u64 latency = now - call->start_ns;

	call->start_ns = 0;
	if (watches_waits_of(op)) {
		change_in_flight(call->slot, -1);
		watch_end(now);
	}
	finish_call(call, op, now, latency, result);
	call_end(call, thread);
}

static __always_inline void leave(u32 op, s64 result)
{
	u64 now = bpf_ktime_get_ns();
	u32 thread = bpf_get_current_pid_tgid();
	struct call *call = call_find(thread);

	if (!call || !call->start_ns)
		count_lone_exit(thread);
	else
		end_call(call, op, thread, now, result);
}
