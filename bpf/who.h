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
// 0: none. A name that ends in the first half, as `mysqld` does, is told by it. Not static (see lookup.h): what a
// static one returns, the verifier would follow for each name. `rest` is the second half, `half` how it is read.
//
// Unrolled, it would be a third of each program; the verifier knows what is in these either way.
#define WHICH_NAME(function, set, half)                                                 \
	__noinline u32 function(u64 name, u64 rest)                                     \
	{                                                                               \
		_Pragma("clang loop unroll(disable)")                                   \
		for (u32 i = 0; i < COMM_PATTERNS && i < set##_comms; i++)              \
			if (!((name ^ set##_comm_low[i]) & set##_comm_low_mask[i]) &&   \
			    (!set##_comm_high_mask[i] ||                                \
			     !((half(rest) ^ set##_comm_high[i]) & set##_comm_high_mask[i]))) \
				return i + 1;                                           \
		return 0;                                                               \
	}

#define AS_IT_IS(rest) rest

// By a helper call, and so only where the first half does not decide. `leader`: the task's address.
static __always_inline u64 rest_of_leader(u64 leader)
{
	u64 half = 0;

	bpf_probe_read_kernel(&half, sizeof(half), &((struct task_struct *)leader)->comm[8]);
	return half;
}

WHICH_NAME(which_name, target, AS_IT_IS)
WHICH_NAME(which_name_of_leader, target, rest_of_leader)
WHICH_NAME(which_instance_name, instance, AS_IT_IS)
WHICH_NAME(which_instance_name_of_leader, instance, rest_of_leader)

static __always_inline u32 which_target(struct who *who)
{
	struct task_struct *leader = who->leader;

	if (!target_comms)
		return 0;
	return typed_tasks ? which_name(who->name, comm_high(leader)) : which_name_of_leader(who->name, (u64)leader);
}

static __always_inline u32 which_instance(struct who *who)
{
	struct task_struct *leader = who->leader;

	if (!instance_comms)
		return 0;
	return typed_tasks ? which_instance_name(who->name, comm_high(leader))
			   : which_instance_name_of_leader(who->name, (u64)leader);
}

// Finds the server of the current process, and keeps it in its call. 0: the process is no part of a server of several.
// Not static: see lookup.h.
__noinline int note_server(u32 number)
{
	struct task_struct *task = current_task_rarely(), *leader;
	struct call *call = call_again(number);
	struct process server = {};
	struct who who;
	u32 name;

	if (!call)
		return 0;
	read_who(&who, task);
	name = which_instance(&who);
	if (!name)
		return 0;
	leader = who.leader;
	look_for_server(&server, instance_by_directory & 1U << ((name - 1) & 31));
	call->instance_of = TASK_READ(leader, start_boottime);
	call->instance_exec = TASK_READ(task, self_exec_id);
	call->instance = server.tgid;
	call->instance_start = server.leader_start;
	return 1;
}

// Whether the thread's call keeps the server that the process is of.
static __always_inline bool keeps_server(struct call *call, struct who *who)
{
	struct task_struct *task = who->task;

	return call->instance_of == who->server_start && call->instance_exec == (u16)TASK_READ(task, self_exec_id);
}

// `call`: the thread's, which keeps what is found.
static __always_inline void find_server(struct who *who, struct call *call)
{
	struct task_struct *leader = who->leader;

	who->server_start = TASK_READ(leader, start_boottime);
	if (!which_instance(who) || (!keeps_server(call, who) && !note_server(call->number)))
		return;
	who->tgid = call->instance;
	who->server_start = call->instance_start;
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
	struct task_struct *leader;
	struct who who;
	u32 name;

	read_who(&who, task);
	leader = who.leader;
	server->tgid = who.tgid;
	server->leader_start = who.server_start = TASK_READ(leader, start_boottime);
	name = which_instance(&who);
	if (!name)
		return false;
	if (call && (u32)call->owner == thread && keeps_server(call, &who)) {
		server->tgid = call->instance;
		server->leader_start = call->instance_start;
	} else {
		look_for_server(server, instance_by_directory & 1U << ((name - 1) & 31));
	}
	return server->tgid != who.tgid;
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
	if (which_target(who))
		return true;
	return is_target_by_number(who->tgid) || (target_by_map && which_instance(who) && is_target_by_instance());
}
