// `fsynctop explain` only: tells bpf/wait.bpf.c which threads are in a traced sync, from begin to end, and
// bpf/timer.bpf.c how many.
#pragma once

#include "add.h"
#include "kernel.h"
#include "record.h"
#include "rows.h"
#include "unsynced.h"
#include "waiting.h"

// A write that is not durable is nothing that a commit waits for.
static __always_inline bool watches_waits_of(u32 op)
{
	return watch_waits && !(all_writes && (op == OP_WRITE || op == OP_PART_WRITE || op == OP_FALLOCATE));
}

static __always_inline struct waiting *waiting_by_number(u32 thread, bool create)
{
	struct waiting none = {}, *w = bpf_map_lookup_elem(&waiting_by_thread, &thread);

	if (w || !create)
		return w;
	bpf_map_update_elem(&waiting_by_thread, &thread, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&waiting_by_thread, &thread);
}

// Only traced files have slots from there on.
static __always_inline void change_in_flight(u32 slot, s64 change)
{
	struct spent *spent_here = slot >= FIRST_FILE_SLOT ? bpf_map_lookup_elem(&spent, &slot) : 0;

	if (spent_here)
		add(&spent_here->in_flight, change);
}

// Some thread's storage could not be had, and the hash is in use: before 6.2 it may be refused while the
// processor's guard is held, and without a 16-byte compare-and-exchange 7.2 refuses it always.
bool storage_refused;

// Made here, never while the scheduler holds its locks.
static __always_inline struct waiting *make_storage(void)
{
	struct waiting *w;

	if (!task_storage)
		return 0;
	w = bpf_task_storage_get(&waiting, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!w)
		storage_refused = true;
	return w;
}

// By a call of fsynctop's own: so it is known before the scheduler's hooks are loaded, whether they look in the hash
// too.
static __noinline void try_storage(void)
{
	make_storage();
}

static __noinline void watch_begin(struct call *call, u32 device)
{
	struct waiting *w = make_storage();

	if (!w)
		w = waiting_by_number(bpf_get_current_pid_tgid(), true);
	if (!w) {
		count(no_wait_state);
		return;
	}
	w->slot = call->slot == NO_SLOT ? call->op : call->slot;
	w->op = call->op;
	w->device = device;
	w->off_ns = 0;
	w->on_ns = 0;
	w->start_ns = call->start_ns;
}

// The part since the thread was last put on a processor; what came before is counted already.
static __noinline void watch_end(u64 now)
{
	struct window *window = the_window();
	struct waiting *w = 0;
	struct spent *spent_here;
	u32 slot;

	if (task_storage)
		w = bpf_task_storage_get(&waiting, bpf_get_current_task_btf(), 0, 0);
	if (!w || !w->start_ns)
		w = waiting_by_number(bpf_get_current_pid_tgid(), false);
	if (!w || !w->start_ns || !window)
		return;
	slot = w->slot;
	spent_here = bpf_map_lookup_elem(&spent, &slot);
	if (spent_here) {
		add(&spent_here->cpu_ns, within(window, later(w->start_ns, w->on_ns), now));
		add(&spent_here->total_ns, within(window, w->start_ns, now));
	}
	w->start_ns = 0;
	if (!task_storage || storage_refused) {
		slot = bpf_get_current_pid_tgid();
		bpf_map_delete_elem(&waiting_by_thread, &slot);
	}
}
