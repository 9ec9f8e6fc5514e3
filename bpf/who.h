// Who syncs, by the thread group's leader, and whether that is traced.
#pragma once

#include "kernel.h"
#include "read.h"
#include "target.h"

// Eight bytes of a name. Two readings, because most decisions need the first only. `at` is a constant, or clang would
// read byte by byte.
#define comm_at(task, at)                                                              \
	({                                                                             \
		u64 half;                                                              \
		if (typed_tasks)                                                       \
			half = *(u64 *)&(task)->comm[at];                              \
		else                                                                   \
			bpf_probe_read_kernel(&half, sizeof(half), &(task)->comm[at]); \
		half;                                                                  \
	})

static __always_inline u64 comm_low(struct task_struct *task)
{
	return comm_at(task, 0);
}

static __always_inline u64 comm_high(struct task_struct *task)
{
	return comm_at(task, 8);
}

// A local variable stands between this and each reading, else its own layout would be looked for in the kernel.
struct who {
	struct task_struct *task;
	struct task_struct *leader;
	u64 name; // the first half of the leader's
	u64 tgid; // 32 bits of it, but as wide as a register: no instruction is needed to clear the rest
};

static __always_inline void read_who(struct who *who, struct task_struct *task)
{
	struct task_struct *leader = TASK_READ(task, group_leader);

	who->task = task;
	who->leader = leader;
	who->tgid = TASK_READ(task, tgid);
	who->name = comm_low(leader);
}

// A name that ends in the first half, as `mysqld` does, is told by it.
static __always_inline bool pattern_is_short(u32 i)
{
	return !target_comm_high_mask[i];
}

static __always_inline bool is_traced(struct who *who)
{
	u32 patterns = target_comms;

	if (target_all)
		return true;
#pragma clang loop unroll(full)
	for (u32 i = 0; i < COMM_PATTERNS; i++)
		if (i < patterns && !((who->name ^ target_comm_low[i]) & target_comm_low_mask[i]) &&
		    (pattern_is_short(i) ||
		     !((comm_high(who->leader) ^ target_comm_high[i]) & target_comm_high_mask[i])))
			return true;
	return is_target_by_number(who->tgid);
}
