// Who syncs, by the thread group's leader, of which server that is, and whether it is traced.
#pragma once

#include "inflight.h"
#include "instance.h"
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
	// Its server's; set by find_server.
	u64 server;
	u64 server_start;
};

static __always_inline void read_who(struct who *who, struct task_struct *task)
{
	struct task_struct *leader = TASK_READ(task, group_leader);

	who->task = task;
	who->leader = leader;
	who->tgid = TASK_READ(task, tgid);
	who->name = comm_low(leader);
}

// Which of the first `patterns` names is the process': 1 + its index; 0: none. A name that ends in the first half, as
// `mysqld` does, is told by it.
static __always_inline u32 which_name(struct who *who, u32 patterns, const volatile u64 *low, const volatile u64 *high,
				      const volatile u64 *low_mask, const volatile u64 *high_mask)
{
	// Unrolled, it would be a third of each program; the verifier knows what is in these either way.
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < COMM_PATTERNS && i < patterns; i++)
		if (!((who->name ^ low[i]) & low_mask[i]) &&
		    (!high_mask[i] || !((comm_high(who->leader) ^ high[i]) & high_mask[i])))
			return i + 1;
	return 0;
}

// The same of the servers that are several processes.
static __always_inline u32 which_instance(struct who *who)
{
	return which_name(who, instance_comms, instance_comm_low, instance_comm_high, instance_comm_low_mask,
			  instance_comm_high_mask);
}

// `call`: the thread's, which keeps what is found; else it is looked for anew.
static __always_inline void find_server(struct who *who, struct call *call)
{
	struct task_struct *task = who->task, *leader = who->leader;
	struct process server = {};
	u16 exec;
	u32 name;

	who->server = who->tgid;
	who->server_start = TASK_READ(leader, start_boottime);
	name = which_instance(who);
	if (!name)
		return;
	exec = TASK_READ(task, self_exec_id);
	if (call && call->instance_of == who->server_start && call->instance_exec == exec) {
		who->server = call->instance;
		who->server_start = call->instance_start;
		return;
	}
	find_instance(&server, instance_by_directory & 1U << (name - 1));
	if (call) {
		call->instance_of = who->server_start;
		call->instance_exec = exec;
		call->instance = server.tgid;
		call->instance_start = server.leader_start;
	}
	who->server = server.tgid;
	who->server_start = server.leader_start;
}

// The same outside of a call: what the thread's slot keeps, if that is at the first of its indices.
static __always_inline void find_server_outside(struct who *who)
{
	struct task_struct *task = who->task;
	u32 thread = TASK_READ(task, pid);
	struct call *call = call_at(thread & call_mask);

	find_server(who, call && (u32)call->owner == thread ? call : 0);
}

// By the number of its server: --pid.
static __always_inline bool is_target_by_instance(struct who *who)
{
	u32 server;

	if (!target_by_map || !which_instance(who))
		return false;
	find_server_outside(who);
	server = who->server;
	return bpf_map_lookup_elem(&traced, &server);
}

static __always_inline bool is_traced(struct who *who)
{
	if (target_all)
		return true;
	if (which_name(who, target_comms, target_comm_low, target_comm_high, target_comm_low_mask,
		       target_comm_high_mask))
		return true;
	return is_target_by_number(who->tgid) || is_target_by_instance(who);
}
