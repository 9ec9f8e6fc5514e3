// The thread that runs, without a call: where the kernel guards every return of a function against speculation (AMD's
// "Safe RET"), asking a helper costs more than all that an exit does besides. Each processor has a variable that points to
// its current task; where it lies is looked for once, at the start. Without that the helper is asked.
#pragma once

const volatile bool calls_are_dear;
// How far from the processor's run queue the pointer to its current task lies, in bytes.
const volatile s64 running_from_queue;

// The address of that pointer, on each processor; 0: not known. Since 6.10 to look this up is a load.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} running SEC(".maps");

// User space runs this on each processor. Returns 1 if the pointer is where it is thought to be.
SEC("raw_tp")
int find_running(void *context)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	u32 zero = 0;
	u64 address, found = 0, *mine = bpf_map_lookup_elem(&running, &zero);

	if (!mine || !bpf_core_field_exists(struct cfs_rq, rq))
		return 0;
	// A task that runs is in a queue of its processor.
	address = (u64)BPF_CORE_READ(task, se.cfs_rq, rq) + running_from_queue;
	bpf_probe_read_kernel(&found, sizeof(found), (void *)address);
	if (found != (u64)task)
		return 0;
	*mine = address;
	return 1;
}

static __always_inline u32 running_thread(void)
{
	u32 zero = 0;
	u64 *address;
	struct task_struct *task;

	if (calls_are_dear && typed_cast) {
		address = bpf_map_lookup_elem(&running, &zero);
		if (address && *address) {
			task = bpf_rdonly_cast((void *)word_at((void *)*address), bpf_core_type_id_kernel(struct task_struct));
			return task->pid;
		}
	}
	return bpf_get_current_pid_tgid();
}
