// `fsynctop explain` only: records, by jbd2's hooks, which threads commit, how often, and who changed metadata.
#pragma once

#include "clock.h"
#include "kernel.h"

// Commits begun in the window. Apart from the clocks, whose lock is refused to programs on tracepoints' format.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CLOCKS + 1);
	__type(key, u32);
	__type(value, u64);
} commits SEC(".maps");

// Who changed metadata: parts of transactions begun in the window, by process.
struct writer_key {
	u32 clock;
	u32 tgid;
	u8 comm[16]; // of the thread group's leader
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct writer_key);
	__type(value, u64);
} writers SEC(".maps");

// The tracepoints of jbd2 all begin with the filesystem's device.
struct jbd2_context {
	u64 common;
	u32 device;
};

SEC("tracepoint/jbd2/jbd2_start_commit")
int start_commit(struct jbd2_context *context)
{
	u32 number = clock_of(context->device), thread = bpf_get_current_pid_tgid();
	struct window *w = the_window();
	u64 *n, now = bpf_ktime_get_ns();

	if (!number || !w)
		return 0;
	// From now on the scheduler's hook knows it. What it does is known from the next time that it is switched.
	if (!bpf_map_lookup_elem(&committers, &thread))
		bpf_map_update_elem(&committers, &thread, &number, 0);
	n = bpf_map_lookup_elem(&commits, &number);
	if (n && within(w, now, now + 1))
		add(n, 1);
	return 0;
}

SEC("tracepoint/jbd2/jbd2_handle_start")
int start_handle(struct jbd2_context *context)
{
	struct task_struct *task, *leader;
	struct writer_key key = {};
	struct window *w = the_window();
	u64 *n, zero = 0, now = bpf_ktime_get_ns();

	key.clock = clock_of(context->device);
	if (!key.clock || !w || !within(w, now, now + 1))
		return 0;
	task = (void *)bpf_get_current_task();
	leader = BPF_CORE_READ(task, group_leader);
	key.tgid = BPF_CORE_READ(task, tgid);
	bpf_probe_read_kernel_str(key.comm, sizeof(key.comm), &leader->comm);
	n = bpf_map_lookup_elem(&writers, &key);
	if (!n) {
		bpf_map_update_elem(&writers, &key, &zero, BPF_NOEXIST);
		n = bpf_map_lookup_elem(&writers, &key);
	}
	if (n)
		add(n, 1);
	else
		add(&lost.writers, 1);
	return 0;
}
