// `fsynctop explain` only: what is known of a thread while it is in a traced sync, so that bpf/wait.bpf.c can take its
// time apart. The maps stand here, in the object of the sync calls, which says when a sync begins and ends; the other
// object uses the same maps. Without `watch_waits` nothing of this is loaded.
#pragma once

#include "kernel.h"
#include "record.h"

// What a waiting thread's device was doing, as level two tells it apart. The least number wins where several frames of
// a committer's stack say something.
enum committer {
	COMMITTER_CHECKPOINT = 0, // makes room in the journal
	COMMITTER_HANDLES = 1,    // waits until the writers of the transaction have finished with it
	COMMITTER_DATA = 2,       // waits for data pages that are to be on disk before their metadata
	COMMITTER_FLUSH = 3,      // the device's cache is being flushed
	COMMITTER_LOG = 4,        // waits for log blocks
	COMMITTER_CPU = 5,        // runs
	COMMITTER_IDLE = 6,       // has nothing to do yet
	COMMITTER_QUEUED = 7,     // could run, but no processor is free
	COMMITTER_STATES = 8,
};

// A thread's traced sync.
struct waiting {
	u64 start_ns;  // CLOCK_MONOTONIC; 0: it is in none
	u32 slot;      // of the row; the operation where there is none
	u32 device;    // of the superblock; 0: none
	u64 on_ns;     // since when it has been running, if later than start_ns
	u64 off_ns;    // since when it has not been running; 0: it runs
	u64 queued_ns; // since when it could run, while it does not; 0: it waits for something
	u64 stack;     // where it waits; 0: not known
	u32 clock;     // 1 + the index of its device's clock; 0: none
	u32 op;
	u64 under[COMMITTER_STATES]; // the clock as it stood when the wait began
};

// Where the time of one row's syncs went, inside the window.
struct spent {
	u64 total_ns;    // from begin to end of the syncs
	u64 cpu_ns;      // on a processor
	u64 queued_ns;   // could have run, but no processor was free
	u64 waits;       // how often it waited for something
	s64 in_flight;   // syncs that have begun and not ended, inside the window or not
	u64 reserved[3]; // user space maps the array: a power of two
};

// Only time inside the window counts. CLOCK_MONOTONIC; start 0: not yet, end 0: no end yet.
struct window {
	u64 start_ns;
	u64 end_ns;
};

const volatile bool watch_waits;
const volatile bool task_storage; // the running kernel has it for these programs

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct waiting);
} waiting SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct waiting);
} waiting_by_thread SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, FIRST_FILE_SLOT);
	__type(key, u32);
	__type(value, struct spent);
} spent SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct window);
} window SEC(".maps");

static __always_inline struct window *the_window(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&window, &zero);
}

// How much of a time lies inside the window. 0 is no time: what began then has ended meanwhile.
static __always_inline u64 within(const struct window *window, u64 from, u64 to)
{
	u64 start = window->start_ns, end = window->end_ns;

	if (!start || !from)
		return 0;
	if (from < start)
		from = start;
	if (end && to > end)
		to = end;
	return to > from ? to - from : 0;
}

static __always_inline u64 later(u64 a, u64 b)
{
	return a > b ? a : b;
}
