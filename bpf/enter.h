// Entry of a sync call: whose it is, which row it counts in, when it began.
#pragma once

#include "add.h"
#include "events.h"
#include "identity.h"
#include "inflight.h"
#include "kernel.h"
#include "lookup.h"
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

// What the row is of: `kind`, unless the descriptor is not open.
static __always_inline u32 row_kind(struct file *file, u32 kind)
{
	return file || kind == KIND_NO_FILE ? kind : KIND_BAD_DESCRIPTOR;
}

// The state of the call that the thread enters; 0, which is counted, if there is no room for it.
static __always_inline struct call *start_call(struct task_struct *task, u32 op, s32 fd)
{
	struct call *call = call_begin(TASK_READ(task, pid));

	if (!call) {
		count(no_call_state);
		return 0;
	}
	if (watches_waits_of(call->op) && call->start_ns)
		change_in_flight(call->slot, -1);
	call->op = op;
	call->fd = fd;
	return call;
}

static __always_inline void enter_traced(struct call *call, struct who *who, struct file *file, u32 op, u32 kind,
					 s32 fd, u64 now)
{
	struct inode_key key = {};
	struct row *row = 0;
	u64 name = 0;
	u32 slot = 0;

	if (call->start_ns)
		count(entries_without_exit);
	find_server(who, call);
	if (keep_threads)
		begin_thread_row(call, who);
	if (file) {
		if (kind == KIND_FILE)
			name = name_hash(file);
		read_row_key(&key, file, kind == KIND_FILESYSTEM);
		row = guess_file(&key, who, op, &slot);
	}
	if (!row) {
		slot = find_row((u64)file, row_kind(file, kind), true, call->number);
		row = row_at(slot);
	}
	call->slot = slot;
	if (row) {
		call->sequence = row->sequence;
		add(&row->started, 1);
		if (name)
			tell_name(row, name, file, fd, slot);
	} else if (file) {
		send_name((u64)file, fd, NO_SLOT, call->number);
	}
	if (all_writes)
		take_cover(&call->cover, row, op, file);
	call->start_ns = now;
	if (watches_waits_of(op)) {
		change_in_flight(slot, 1);
		if (file)
			read_device_key(&key, file);
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
	// Nothing is synced: its exit will find no entry.
	if (row_kind(file, kind) == KIND_BAD_DESCRIPTOR) {
		call->start_ns = 0;
		call_end(call, bpf_get_current_pid_tgid());
		return;
	}
	if (keep_threads)
		call->thread_row = 0;
	if (file) {
		read_device_key(&key, file);
		row = guess_neighbour(&key, who->name, comm_high(who->leader), &slot);
	}
	if (!row) {
		slot = find_row((u64)file, kind, false, call->number);
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
	// First, because reading the clock waits for all earlier loads and stores: here these are the caller's only,
	// and ours overlap with the beginning of the sync. So a latency includes a part of this program, tens of
	// nanoseconds.
	now = bpf_ktime_get_ns();
	read_who(&who, task);
	// Before the branches, in each of which the verifier would check it again: a pointer takes it milliseconds.
	if (kind == KIND_FILE || kind == KIND_FILESYSTEM)
		file = file_of(task, fd);
	call = start_call(task, op, fd);
	if (!call)
		return;
	if (who.tgid == self_tgid) {
		enter_own(call->number, (u64)file, row_kind(file, kind));
		return;
	}
	if (is_traced(&who))
		enter_traced(call, &who, file, op, kind, fd, now);
	else
		enter_neighbour(call, &who, file, kind, now);
}
