// The thread's sync in flight. It stands in an array, at a place that follows from the thread's number: to find it is
// a load, where storage in the task is a call of a helper at entry and another one at exit. A place belongs to one thread
// until user space gives it up for it (src/probe/thread_slots.rs). For a thread that finds no place the call is in a hash.
#pragma once

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct call);
} calls SEC(".maps");

const volatile u32 last_place; // index; one less than a power of two

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, struct call);
} calls_by_thread SEC(".maps");

// How many places may be a thread's: the one of its number, and the one beside it.
#define PLACES 2
#define NO_PLACE 0xffffffff

// What a thread's place is looked for.
enum purpose {
	FOR_ENTRY, // one that is nobody's will do
	FOR_EXIT,  // that of the call in flight
	FOR_TRACE, // any: it has made calls before
};

static __always_inline struct call *call_at(u32 place)
{
	return bpf_map_lookup_elem(&calls, &place);
}

// The place of a thread that does not have the one of its number, or has none yet. Not static, as `new_slot`.
__noinline u32 find_place(u32 thread, u32 purpose)
{
	u64 claim = CLAIM + thread;
	struct call *call;
	u32 place;

	for (u32 i = 0; i < PLACES; i++) {
		place = (thread & last_place) ^ i;
		call = call_at(place);
		if (!call || (u32)call->owner != thread)
			continue;
		if (purpose == FOR_ENTRY && call->owner == (OWNER_REFERENCED | thread))
			call->owner = thread;
		// At a place that is being given up no sync is begun, unless the end of the one before it was missed:
		// then that start must not stay.
		if (purpose == FOR_TRACE || call->start_ns || (purpose == FOR_ENTRY && call->owner == thread))
			return place;
	}
	if (purpose != FOR_ENTRY)
		return NO_PLACE;
	for (u32 i = 0; i < PLACES; i++) {
		place = (thread & last_place) ^ i;
		call = call_at(place);
		if (!call || call->claims)
			continue;
		// 5.10 refuses compare-and-exchange. Of two threads that get here at once, one at most finds its own
		// claim alone; if neither does, the place is nobody's until it is given up.
		add(&call->claims, claim);
		if (*(volatile u64 *)&call->claims != claim)
			continue;
		call->place = place + 1;
		call->owner = thread;
		return place;
	}
	count(without_place);
	return NO_PLACE;
}

static __noinline struct call *open_call_by_thread(void)
{
	u32 thread = bpf_get_current_pid_tgid();
	struct call none = {}, *call = bpf_map_lookup_elem(&calls_by_thread, &thread);

	if (call)
		return call;
	bpf_map_update_elem(&calls_by_thread, &thread, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&calls_by_thread, &thread);
}

static __always_inline struct call *open_call(u32 thread)
{
	u32 place = thread & last_place;
	struct call *call = call_at(place);

	if (call && call->owner == thread)
		return call;
	place = find_place(thread, FOR_ENTRY);
	return place == NO_PLACE ? open_call_by_thread() : call_at(place);
}

// The same call again, later in the same entry. `place`: as the call has it.
static __always_inline struct call *opened_call(u32 place)
{
	u32 thread;

	if (place)
		return call_at(place - 1);
	thread = bpf_get_current_pid_tgid();
	return bpf_map_lookup_elem(&calls_by_thread, &thread);
}

// The thread's call that is in flight, if it is known of any.
static __always_inline struct call *find_call(u32 thread)
{
	u32 place = thread & last_place;
	struct call *call = call_at(place);

	if (call && (u32)call->owner == thread && call->start_ns)
		return call;
	place = find_place(thread, FOR_EXIT);
	return place == NO_PLACE ? bpf_map_lookup_elem(&calls_by_thread, &thread) : call_at(place);
}

// In the hash, which has room for so many threads only, a call lives no longer than its sync.
static __always_inline void close_call(struct call *call, u32 thread)
{
	if (!call->place)
		bpf_map_delete_elem(&calls_by_thread, &thread);
}

// Writes the call of every thread that has a place: the one in flight, or, with a start of 0, that there is none now.
SEC("iter/task")
int list_in_flight(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct call *found = 0, *call;
	struct in_flight record = {};

	if (!task)
		return 0;
	record.tgid = task->tgid;
	record.tid = task->pid;
	for (u32 i = 0; i < PLACES; i++) {
		call = call_at((record.tid & last_place) ^ i);
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
