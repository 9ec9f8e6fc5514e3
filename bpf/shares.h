// Shares: how much of a table is whose, so that nobody keeps others out of it. Asked where something is new in a table
// or finds no place of its own; what most calls do needs none of it.
//
// An owner is a container, by its outermost PID namespace, if its processes may be any user's; else a user, with all
// numbers that are likely to be subordinate to theirs. User space knows owners better (src/server/owner.rs): two that
// are taken for one here, or that fall into one share, have it together.
#pragma once

#include "add.h"
#include "kernel.h"
#include "read.h"
#include "record.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SHARES);
	__type(key, u32);
	__type(value, struct share);
} shares SEC(".maps");

u64 room_taken[ROOMS]; // of all together
bool rows_limited;     // an owner makes no more rows than user space allows

// login.defs: SYS_UID_MAX, SUB_UID_MIN and SUB_UID_COUNT; systemd: users that it makes for units.
#define FIRST_USER 1000
#define FIRST_DYNAMIC_USER 61184
#define LAST_DYNAMIC_USER 65519
#define FIRST_SUBORDINATE 100000
#define SUBORDINATES_SHIFT 16

// Whose rows are used up has so many failures told beyond that.
#define FAILURES_WITHOUT_ROW 1024

static __always_inline bool is_of_system(u32 user)
{
	return user < FIRST_USER || (user >= FIRST_DYNAMIC_USER && user <= LAST_DYNAMIC_USER);
}

// The outermost PID namespace below the initial one that the current process is in, by its address; 0: there is none,
// or it belongs to a user namespace. Such a one any user may make, and has no other user's number in it.
static __always_inline u64 container_of_current(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	struct pid_namespace *namespace = 0;

	if (!BPF_CORE_READ(pid, level))
		return 0;
	// The kernel declares the array with one element, which is the initial namespace's, or with none.
	bpf_probe_read_kernel(&namespace, sizeof(namespace),
			      (void *)pid + bpf_core_field_offset(struct pid, numbers) + sizeof(struct upid) +
				      __builtin_offsetof(struct upid, ns));
	return BPF_CORE_READ(namespace, user_ns, level) ? 0 : (u64)namespace;
}

// The upper eight bits of the product with 2^64 divided by the golden ratio.
static __always_inline u32 mixed(u64 key)
{
	return key * 0x9e3779b97f4a7c15 >> 56;
}

// Of services of the system, which have the lowest shares, or of others.
static __always_inline u32 share_by_key(u64 key, bool is_service)
{
	return is_service ? mixed(key) % SERVICE_SHARES : SERVICE_SHARES + mixed(key) % (SHARES - SERVICE_SHARES);
}

// Not static: see lookup.h.
__noinline u32 share_of_current(void)
{
	u64 container = container_of_current();
	u32 user = bpf_get_current_uid_gid();

	if (container)
		return share_by_key(container, false);
	if (user >= FIRST_SUBORDINATE)
		return share_by_key(1ULL << 32 | (user - FIRST_SUBORDINATE) >> SUBORDINATES_SHIFT, false);
	return share_by_key(user, is_of_system(user));
}

static __always_inline struct share *share_at(u32 index)
{
	return bpf_map_lookup_elem(&shares, &index);
}

// Whether there is room for one more of this share's. Of the last eighth of a table only those get some that have less
// than a sixteenth of it, and of the last sixteenth only services.
static __always_inline bool has_room(s64 taken, s64 by_share, u32 index, u32 capacity)
{
	if (taken < capacity - capacity / 8)
		return true;
	if (taken >= capacity - capacity / 16 && index >= SERVICE_SHARES)
		return false;
	return by_share < capacity / 16;
}

// Room for one more in a table; false: none. Not static, here and below: see lookup.h. The empty assembly keeps the
// compiler from comparing another register than it counts with, which the verifier would refuse.
__noinline bool take_room(u32 index, u32 room, u32 capacity)
{
	struct share *share = share_at(index);
	u64 at = room;

	asm volatile("" : "+r"(at));
	if (!share || at >= ROOMS || !has_room(room_taken[at], share->taken[at], index, capacity))
		return false;
	add(&share->taken[at], 1);
	add(&room_taken[at], 1);
	return true;
}

__noinline int give_room(u32 index, u32 room)
{
	struct share *share = share_at(index);
	u64 at = room;

	asm volatile("" : "+r"(at));
	if (!share || at >= ROOMS)
		return 0;
	add(&share->taken[at], -1);
	add(&room_taken[at], -1);
	return 0;
}

// Something of this share's was not kept: of its processes not all is known.
static __always_inline void refuse(u32 index)
{
	struct share *share = share_at(index);

	if (share)
		add(&share->refused, 1);
}

// What costs user space time, down to so many. Of several processors that get here at once, each may spend one beyond.
static __always_inline bool spend(struct share *share, s64 least)
{
	if (*(volatile s64 *)&share->new_rows <= least)
		return false;
	add(&share->new_rows, -1);
	return true;
}

// Whether this share may have another row.
static __always_inline bool may_make_row(u32 index)
{
	struct share *share;

	if (!rows_limited)
		return true;
	share = share_at(index);
	return !share || spend(share, 0);
}

// Whether a failure of the current process, of a file without a row, may be told by an event. Not static: see lookup.h.
__noinline bool may_tell_failure(void)
{
	struct share *share = share_at(share_of_current());

	return !share || spend(share, -FAILURES_WITHOUT_ROW);
}
