// `-- COMMAND`: whatever it forks is traced too. Loaded only for that.
#pragma once

#include "kernel.h"
#include "rows.h"
#include "target.h"

SEC("tp_btf/sched_process_fork")
int follow_fork(u64 *context)
{
	struct task_struct *parent = (void *)context[0], *child = (void *)context[1];
	u32 from = parent->tgid, to = child->tgid;
	u8 yes = 1;

	if (from != to && bpf_map_lookup_elem(&traced, &from) && bpf_map_update_elem(&traced, &to, &yes, 0))
		count(processes_dropped);
	return 0;
}

// A thread group is gone with its last thread: its number may be used again.
SEC("tp_btf/sched_process_exit")
int follow_exit(u64 *context)
{
	struct task_struct *task = (void *)context[0];
	u32 tgid = task->tgid;

	if (task->signal->live.counter == 0)
		bpf_map_delete_elem(&traced, &tgid);
	return 0;
}
