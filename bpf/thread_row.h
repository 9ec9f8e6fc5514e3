// Rows by thread, where they are asked for (`--by thread`). Only the thread itself writes to its row, so plain
// additions do.
#pragma once

#include "histogram.h"
#include "kernel.h"
#include "lookup.h"
#include "read.h"
#include "record.h"
#include "rows.h"
#include "who.h"

const volatile bool keep_threads;

// The row is kept from call to call.
static __always_inline void begin_thread_row(struct call *call, struct who *who)
{
	struct task_struct *task = who->task;
	struct identity id = {};
	struct row *row;

	id.kind = KIND_THREAD;
	id.op = call->op;
	id.of.thread.leader_start = who->server_start;
	id.tgid = who->tgid;
	id.of.thread.tid = TASK_READ(task, pid);
	id.of.thread.start = TASK_READ(task, start_boottime) / 1000;
	call->thread_row = find_slot_again(call, &id, -1, call->thread_row);
	row = row_at(call->thread_row);
	if (!row) {
		call->thread_row = 0;
		count(no_row);
		return;
	}
	call->thread_row_sequence = row->sequence;
	// Once: by the time that user space looks, the thread may have ended.
	if (!row->name) {
		row->name = comm_low(task);
		row->more = comm_high(task);
	}
	row->started++;
}

static __always_inline void end_thread_row(struct call *call, u32 op, u64 latency, s64 result)
{
	struct row *row = row_at(call->thread_row);
	u32 slot = call->thread_row;
	struct histogram *histogram;

	if (!row || row->sequence != call->thread_row_sequence)
		return;
	row->sum_ns += latency;
	if (row->max_ns < latency)
		row->max_ns = latency;
	if (result < 0) {
		row->errors++;
		count_error(slot, row->sequence, -result);
	} else if (returns_bytes(op) && result > 0) {
		row->bytes += result;
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
