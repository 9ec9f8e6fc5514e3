// The state of a thread's call in flight: call_begin at its entry, call_find at its exit, call_end after that. The rest
// is for functions that have to find a call again, and for user space.
//
// Calls are in an array of thread slots, so that finding one is a load; storage in the task would be a helper call at
// entry and another at exit. The array is a two-way set-associative table: a thread's slot is at the index that follows
// from its id, or at the one beside it, and is the thread's own from its first call on. The call of a thread that finds
// both taken is in a hash, for as long as it lasts.
//
// Slots are reclaimed by second chance (src/probe/owned_slots.rs). When too many threads find none, user space sets
// the referenced bit in every owner's word; an owner clears it at its next call. Those that still have it some seconds
// later are replaced by the reclaiming bit, under which no call begins; after a grace period the slot is freed, unless
// a call began in it just before.
#pragma once

#include "add.h"
#include "kernel.h"
#include "record.h"
#include "rows.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct call);
} calls SEC(".maps");

const volatile u32 call_mask; // one less than a power of two

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CALLS_WITHOUT_SLOT);
	__type(key, u32);
	__type(value, struct call);
} calls_by_thread SEC(".maps");

#define WAYS 2
#define NO_INDEX 0xffffffff

// What a thread's slot is looked for.
enum purpose {
	FOR_ENTRY, // a free one will do
	FOR_EXIT,  // that of the call in flight
	FOR_TRACE, // any: the thread has made calls before
};

static __always_inline struct call *call_at(u32 index)
{
	return bpf_map_lookup_elem(&calls, &index);
}

// The slot of a thread that is not at the first of its two indices, or has none yet. Not static: see lookup.h.
__noinline u32 find_thread_slot(u32 thread, u32 purpose)
{
	u64 claim = CLAIM + thread;
	struct call *call;
	u32 index;

	for (u32 i = 0; i < WAYS; i++) {
		index = (thread & call_mask) ^ i;
		call = call_at(index);
		if (!call || (u32)call->owner != thread)
			continue;
		if (purpose == FOR_ENTRY && call->owner == (OWNER_REFERENCED | thread))
			call->owner = thread;
		// In a slot that is being reclaimed no call begins, unless the end of the one before was missed: its
		// start must not stay.
		if (purpose == FOR_TRACE || call->start_ns || (purpose == FOR_ENTRY && call->owner == thread))
			return index;
	}
	if (purpose != FOR_ENTRY)
		return NO_INDEX;
	for (u32 i = 0; i < WAYS; i++) {
		index = (thread & call_mask) ^ i;
		call = call_at(index);
		if (!call || call->claims)
			continue;
		// 5.10 refuses compare-and-exchange. Of two threads that get here at once, at most one finds its own
		// claim alone; if neither does, the slot stays unused until it is reclaimed.
		add(&call->claims, claim);
		if (*(volatile u64 *)&call->claims != claim)
			continue;
		call->number = index + 1;
		call->owner = thread;
		return index;
	}
	count(without_thread_slot);
	return NO_INDEX;
}

// Not on the stack, of which 6.1 has too little left here.
const volatile struct call no_call;

static __noinline struct call *begin_in_hash(void)
{
	u32 thread = bpf_get_current_pid_tgid();
	struct call *call = bpf_map_lookup_elem(&calls_by_thread, &thread);
	u32 share;

	if (call)
		return call;
	share = share_of_current();
	if (!take_room(share, ROOM_CALLS, CALLS_WITHOUT_SLOT)) {
		refuse(share);
		return 0;
	}
	bpf_map_update_elem(&calls_by_thread, &thread, (void *)&no_call, BPF_NOEXIST);
	call = bpf_map_lookup_elem(&calls_by_thread, &thread);
	if (call)
		call->claims = share;
	else
		give_room(share, ROOM_CALLS);
	return call;
}

// Where the call that the thread enters is kept; 0 if there is no room for it.
static __always_inline struct call *call_begin(u32 thread)
{
	u32 index = thread & call_mask;
	struct call *call = call_at(index);

	if (call && call->owner == thread)
		return call;
	index = find_thread_slot(thread, FOR_ENTRY);
	return index == NO_INDEX ? begin_in_hash() : call_at(index);
}

// The thread's call in flight, if one is known.
static __always_inline struct call *call_find(u32 thread)
{
	u32 index = thread & call_mask;
	struct call *call = call_at(index);

	if (call && (u32)call->owner == thread && call->start_ns)
		return call;
	index = find_thread_slot(thread, FOR_EXIT);
	return index == NO_INDEX ? bpf_map_lookup_elem(&calls_by_thread, &thread) : call_at(index);
}

// The hash has room for few threads: a call in it lasts no longer than the sync.
static __always_inline void call_end(struct call *call, u32 thread)
{
	u32 share;

	if (call->number)
		return;
	share = call->claims;
	if (!bpf_map_delete_elem(&calls_by_thread, &thread))
		give_room(share, ROOM_CALLS);
}

// The call that was begun, later in the same entry. `number`: the call's own.
static __always_inline struct call *call_again(u32 number)
{
	u32 thread;

	if (number)
		return call_at(number - 1);
	thread = bpf_get_current_pid_tgid();
	return bpf_map_lookup_elem(&calls_by_thread, &thread);
}

static __always_inline bool has_called_before(u32 thread)
{
	return find_thread_slot(thread, FOR_TRACE) != NO_INDEX;
}

// Writes a record for every thread that has a slot: of its call in flight, or, with a start of 0, that it is in none.
SEC("iter/task")
int list_in_flight(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct call *found = 0, *call;
	struct call_record record = {};

	if (!task)
		return 0;
	record.tgid = task->tgid;
	record.tid = task->pid;
	for (u32 i = 0; i < WAYS; i++) {
		call = call_at((record.tid & call_mask) ^ i);
		if (call && (u32)call->owner == record.tid && (!found || call->start_ns))
			found = call;
	}
	if (!found || found->slot == SELF_SLOT)
		return 0;
	record.start_ns = found->start_ns;
	record.slot = found->slot;
	record.sequence = found->sequence;
	record.op = found->op;
	record.fd = found->fd;
	record.id = found->id;
	__builtin_memcpy(record.comm, task->comm, sizeof(record.comm));
	bpf_seq_write(context->meta->seq, &record, sizeof(record));
	return 0;
}
