// Level two: one clock for each filesystem with a journal or log, which adds up how long its committer was doing what.
// A wait notes the clock when it begins and again when it ends; the difference is what it waited for, exactly, however
// many wait at a time. bpf_spin_lock keeps interrupts off; 5.10 has none for programs of tp_btf: no clocks there.
#pragma once

#include "add.h"
#include "kernel.h"
#include "waiting.h"
#include "waits.h"

enum clock_limit {
	CLOCKS = 64,
	COMMITTER_RANGES = 32,
	COMMITTER_FRAMES = 24,
	CLOCKS_OF_DISK = 4,
};

const volatile bool clocks_allowed; // else the verifier takes out what needs their lock

// Functions of the kernel by which a committer's stack is told: [begin, end) and what it is doing in there.
const volatile u64 range_begin[COMMITTER_RANGES];
const volatile u64 range_end[COMMITTER_RANGES];
const volatile u32 range_state[COMMITTER_RANGES];

struct clock {
	struct bpf_spin_lock lock;
	u32 by_device; // there is no one committer (XFS): what its device does says what is waited for
	u32 state;     // of the committer
	u32 flushes;   // requests in flight on its devices: flushes, and writes that are to be on disk when they end
	u32 logs;      // writes of metadata, which the log's are
	u32 reserved;
	u64 since; // when it was last brought up to date
	u64 ns[COMMITTER_STATES];
	u64 flushes_done; // ended in the window
	u64 logs_done;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CLOCKS);
	__type(key, u32);
	__type(value, struct clock);
} clocks SEC(".maps");

// From a superblock's device to 1 + the index of its clock.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CLOCKS);
	__type(key, u32);
	__type(value, u32);
} filesystems SEC(".maps");

// Threads that commit, to 1 + the index of their clock.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4 * CLOCKS);
	__type(key, u32);
	__type(value, u32);
} committers SEC(".maps");

static __always_inline struct clock *clock_at(u32 number)
{
	u32 index = number - 1;

	return number ? bpf_map_lookup_elem(&clocks, &index) : 0;
}

static __always_inline u32 clock_of(u32 device)
{
	u32 *number = bpf_map_lookup_elem(&filesystems, &device);

	return number ? *number : 0;
}

// With the lock held. `begin`, `end`: the window.
static __always_inline void advance(struct clock *c, u64 begin, u64 end, u64 now)
{
	u64 from = c->since, to = now;
	u32 state = c->state;

	if (c->by_device)
		state = c->flushes ? COMMITTER_FLUSH : c->logs ? COMMITTER_LOG : COMMITTER_IDLE;
	else if (state == COMMITTER_LOG && c->flushes)
		state = COMMITTER_FLUSH;
	if (now > c->since)
		c->since = now;
	if (from < begin)
		from = begin;
	if (end && to > end)
		to = end;
	if (begin && to > from)
		c->ns[state & (COMMITTER_STATES - 1)] += to - from;
}

// The clock as it stands now. False: there is none.
static __always_inline bool read_clock(u32 number, u64 *ns, u64 now)
{
	struct clock *c = clock_at(number);
	struct window *w = the_window();
	u64 begin, end;

	if (!clocks_allowed || !c || !w)
		return false;
	begin = w->start_ns;
	end = w->end_ns;
	bpf_spin_lock(&c->lock);
	advance(c, begin, end, now);
	for (int i = 0; i < COMMITTER_STATES; i++)
		ns[i] = c->ns[i];
	bpf_spin_unlock(&c->lock);
	return true;
}

static __noinline void remember_clock(struct waiting *w, u64 now)
{
	u32 number;

	if (!w)
		return;
	number = w->device ? clock_of(w->device) : 0;
	w->clock = number && read_clock(number, w->under, now) ? number : 0;
}

static __always_inline void add_since(struct wait_total *total, struct waiting *w, u64 now)
{
	u64 ns[COMMITTER_STATES];

	if (!read_clock(w->clock, ns, now))
		return;
	for (int i = 0; i < COMMITTER_STATES; i++)
		if (ns[i] > w->under[i])
			add(&total->under[i], ns[i] - w->under[i]);
}

static __noinline void set_committer(u32 number, u32 state, u64 now)
{
	struct clock *c = clock_at(number);
	struct window *w = the_window();
	u64 begin, end;

	if (!clocks_allowed || !c || !w)
		return;
	begin = w->start_ns;
	end = w->end_ns;
	bpf_spin_lock(&c->lock);
	advance(c, begin, end, now);
	c->state = state;
	bpf_spin_unlock(&c->lock);
}

// What a committer is doing whose stack holds this return address. A global function: the verifier looks at it once,
// not once for each frame (5.6).
__noinline u32 state_at(u64 address)
{
	u32 state = COMMITTER_IDLE;

	for (u32 i = 0; i < COMMITTER_RANGES; i++)
		if (address > range_begin[i] && address <= range_end[i] && range_state[i] < state)
			state = range_state[i];
	return state;
}

// What a committer with this stack waits for. Idle, if it is in none of the functions.
static __noinline u32 committer_state(struct stack *stack, s64 bytes)
{
	u32 n = bytes > 0 ? bytes / sizeof(u64) : 0, state = COMMITTER_IDLE;

	if (!stack)
		return state;
	for (u32 i = 0; i < COMMITTER_FRAMES; i++) {
		u32 here = i < n ? state_at(stack->frame[i]) : COMMITTER_IDLE;

		if (here < state)
			state = here;
	}
	return state;
}

static __always_inline u32 committer_of(struct task_struct *task)
{
	u32 thread, *number;

	if (!(task->flags & PF_KTHREAD))
		return 0;
	thread = task->pid;
	number = bpf_map_lookup_elem(&committers, &thread);
	return number ? *number : 0;
}
