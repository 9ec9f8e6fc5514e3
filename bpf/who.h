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
	// 32 bits of it, but as wide as a register: no instruction is needed to clear the rest. find_server makes it
	// the server's.
	u64 tgid;
	u64 server_start; // set by find_server
};

static __always_inline void read_who(struct who *who, struct task_struct *task)
{
	struct task_struct *leader = TASK_READ(task, group_leader);

	who->task = task;
	who->leader = leader;
	who->tgid = TASK_READ(task, tgid);
	who->name = comm_low(leader);
}

// Which of the names that are traced, or of those of servers of several processes, is the process': 1 + its index;
// 0: none. A name that ends in the first half, as `mysqld` does, is told by it. A function of its own: inlined, its
// loop takes so much of the stack that 6.1 refuses the longest chain of calls.
static __noinline u32 which_name(u64 name, struct task_struct *leader)
{
	// Unrolled, it would be a third of each program; the verifier knows what is in these either way.
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < COMM_PATTERNS && i < target_comms; i++)
		if (!((name ^ target_comm_low[i]) & target_comm_low_mask[i]) &&
		    (!target_comm_high_mask[i] ||
		     !((comm_high(leader) ^ target_comm_high[i]) & target_comm_high_mask[i])))
			return i + 1;
	return 0;
}

static __noinline u32 which_instance_name(u64 name, struct task_struct *leader)
{
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < COMM_PATTERNS && i < instance_comms; i++)
		if (!((name ^ instance_comm_low[i]) & instance_comm_low_mask[i]) &&
		    (!instance_comm_high_mask[i] ||
		     !((comm_high(leader) ^ instance_comm_high[i]) & instance_comm_high_mask[i])))
			return i + 1;
	return 0;
}

static __always_inline u32 which_instance(struct who *who)
{
	return instance_comms ? which_instance_name(who->name, who->leader) : 0;
}

// `call`: the thread's, which keeps what is found; else it is looked for anew.
static __always_inline void find_server(struct who *who, struct call *call)
{
	struct task_struct *task = who->task, *leader = who->leader, *first;
	struct process server = {};
	u16 exec;
	u32 name;

	who->server_start = TASK_READ(leader, start_boottime);
	name = which_instance(who);
	if (!name)
		return;
	exec = TASK_READ(task, self_exec_id);
	if (call && call->instance_of == who->server_start && call->instance_exec == exec) {
		who->tgid = call->instance;
		who->server_start = call->instance_start;
		return;
	}
	first = find_instance(&server);
	if (instance_by_directory & 1U << (name - 1))
		find_by_workplace(first, &server);
	if (call) {
		call->instance_of = who->server_start;
		call->instance_exec = exec;
		call->instance = server.tgid;
		call->instance_start = server.leader_start;
	}
	who->tgid = server.tgid;
	who->server_start = server.leader_start;
}

// The same outside of a call, of the current process: what the thread's slot keeps, if that is at the first of its
// indices. A function of its own, with no more than it needs on its stack: 6.1 adds up those of all that call each
// other, to 512 bytes at most.
//
// False: the process is its own server.
static __noinline bool find_current_server(struct process *server)
{
	struct task_struct *task = current_task_rarely();
	u32 thread = TASK_READ(task, pid);
	struct call *call = call_at(thread & call_mask);
	struct who who;
	u64 own;

	read_who(&who, task);
	own = who.tgid;
	find_server(&who, call && (u32)call->owner == thread ? call : 0);
	server->tgid = who.tgid;
	server->leader_start = who.server_start;
	return who.tgid != own;
}

// By the number of its server: --pid.
static __noinline bool is_target_by_instance(void)
{
	struct process server;

	return find_current_server(&server) && bpf_map_lookup_elem(&traced, &server.tgid);
}

static __always_inline bool is_traced(struct who *who)
{
	if (target_all)
		return true;
	if (target_comms && which_name(who->name, who->leader))
		return true;
	return is_target_by_number(who->tgid) || (target_by_map && which_instance(who) && is_target_by_instance());
}
