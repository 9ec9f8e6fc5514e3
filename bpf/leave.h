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

static __always_inline void count_latency(u32 slot, u64 latency)
{
	struct histogram *histogram = bpf_map_lookup_elem(&histograms, &slot);

	// Last: the verifier goes through what follows once for each power of two.
	if (histogram)
		add(bucket_at(histogram, bucket_of(latency)), 1);
}

// The same where the call that it takes does not matter. Not static: see lookup.h.
__noinline int count_latency_rarely(u32 slot, u64 latency)
{
	count_latency(slot, latency);
	return 0;
}

// `rare`: the program is to be loaded quickly rather than to run quickly.
static __always_inline void finish(struct row *row, u32 slot, u32 op, u64 latency, s64 result, bool rare)
{
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
	if (rare)
		count_latency_rarely(slot, latency);
	else
		count_latency(slot, latency);
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

// `id`: where it has no row of its own.
static __always_inline void finish_in_row(u32 slot, u32 sequence, struct identity *id, struct cover *cover, u32 op,
					  u64 now, u64 latency, s64 result, bool rare)
{
	struct row *row = row_at(slot);
	bool is_its_own = row && row->sequence == sequence;

	if (all_writes)
		note_unsynced(is_its_own && slot >= FIRST_NEIGHBOUR_SLOT ? row : 0, op, cover, now, latency, result);
	// In the row of all that may make no more: whose files fail is to be known.
	if (is_its_own && slot < OPS && result < 0 && may_tell_failure() && send_sync(id, latency, result)) {
		add(&row->started, -1);
		return;
	}
	if (!is_its_own) {
		if (count_elsewhere(id, op, latency, result, !row))
			return;
		slot = op;
		row = row_at(slot);
		if (!row)
			return;
	}
	finish(row, slot, op, latency, result, rare);
}

static __always_inline void finish_call(struct call *call, u32 op, u64 now, u64 latency, s64 result)
{
	if (call->slot == SELF_SLOT) {
		leave_own(call, op);
		return;
	}
	if (keep_threads && call->thread_row)
		end_thread_row(call, op, latency, result);
	finish_in_row(call->slot, call->sequence, &call->id, &call->cover, op, now, latency, result,
		      false);
}

// Which operation it is, its entry has left in the thread's call: so one program does for all of them.
static __always_inline void end_call(struct call *call, u32 thread, u64 now, s64 result)
{
	u64 latency = now - call->start_ns;
	u32 op = call->op;

	// Another thread cannot change it; the verifier does not know that.
	if (op >= OPS)
		return;
	call->start_ns = 0;
	if (watches_waits_of(op)) {
		change_in_flight(call->slot, -1);
		watch_end(now);
	}
	finish_call(call, op, now, latency, result);
	call_end(call, thread);
}

// The sync that the thread is leaving; 0 if no entry of it is known, which is counted.
static __always_inline struct call *sync_to_end(u32 thread)
{
	struct call *call = call_find(thread);

	if (call && call->start_ns && call->op < WATCHED_SYNCS)
		return call;
	count_lone_exit(thread);
	return 0;
}

static __always_inline void leave(s64 result)
{
	u64 now = bpf_ktime_get_ns();
	u32 thread = bpf_get_current_pid_tgid();
	struct call *call = sync_to_end(thread);

	if (call)
		end_call(call, thread, now, result);
}
