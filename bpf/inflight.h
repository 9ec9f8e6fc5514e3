// The thread's sync in flight: in the task's own storage (5.13 and later, and where it can be allocated), else in
// a hash by thread.
#pragma once

const volatile bool task_storage; // the running kernel has it for these programs

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct call);
} calls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct call);
} calls_by_thread SEC(".maps");

// Some thread's storage could not be had, and the hash is in use: before 6.2 it may be refused while the
// processor's guard is held, and without a 16-byte compare-and-exchange 7.2 refuses it always.
bool storage_refused;

static __noinline struct call *open_call_by_thread(void)
{
	u32 thread = bpf_get_current_pid_tgid();
	struct call none = {}, *call = bpf_map_lookup_elem(&calls_by_thread, &thread);

	if (call)
		return call;
	bpf_map_update_elem(&calls_by_thread, &thread, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&calls_by_thread, &thread);
}

static __always_inline struct call *open_call(struct task_struct *task)
{
	struct call *call;

	if (!task_storage)
		return open_call_by_thread();
	call = bpf_task_storage_get(&calls, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (call)
		return call;
	storage_refused = true;
	return open_call_by_thread();
}

// The same call again, later in the same entry.
static __always_inline struct call *opened_call(void)
{
	struct call *call = 0;

	if (task_storage)
		call = bpf_task_storage_get(&calls, bpf_get_current_task_btf(), 0, 0);
	if (call)
		return call;
	u32 thread = bpf_get_current_pid_tgid();
	return bpf_map_lookup_elem(&calls_by_thread, &thread);
}

static __always_inline struct call *find_call(void)
{
	struct call *call = 0;

	if (task_storage) {
		call = bpf_task_storage_get(&calls, bpf_get_current_task_btf(), 0, 0);
		if (!storage_refused || (call && call->start_ns))
			return call;
	}
	u32 thread = bpf_get_current_pid_tgid();
	return bpf_map_lookup_elem(&calls_by_thread, &thread);
}

// In the hash, which has room for so many threads only, a call lives no longer than its sync.
static __always_inline void close_call(void)
{
	if (task_storage && !storage_refused)
		return;
	u32 thread = bpf_get_current_pid_tgid();
	bpf_map_delete_elem(&calls_by_thread, &thread);
}

// Writes the call of every thread that has made one since the programs are there: the one in flight, or, with a
// start of 0, that there is none now.
SEC("iter/task")
int list_in_flight(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct in_flight record = {};
	struct call *call;

	if (!task || !task_storage)
		return 0;
	call = bpf_task_storage_get(&calls, task, 0, 0);
	if (!call || call->slot == SELF_SLOT)
		return 0;
	record.start_ns = call->start_ns;
	record.tgid = task->tgid;
	record.tid = task->pid;
	record.slot = call->slot;
	record.sequence = call->sequence;
	record.op = call->op;
	record.fd = call->fd;
	record.id = call->id;
	__builtin_memcpy(record.comm, task->comm, sizeof(record.comm));
	bpf_seq_write(context->meta->seq, &record, sizeof(record));
	return 0;
}
