// The ways to the row of a sync, in the order in which they are tried: guess it, find it by its identity, create it.
//
// Functions that are not static, here and elsewhere, take numbers only. The verifier checks such a function once, for
// all arguments, instead of anew in each state in which it is called, which took most of the time to load. It then
// knows nothing of a pointer among them, so they find the call and the file again.
#pragma once

#include "add.h"
#include "identity.h"
#include "inflight.h"
#include "kernel.h"
#include "record.h"
#include "rows.h"
#include "who.h"

// What distinguishes the row from others, except for what the process is. Of a filesystem, only the superblock does.
static __always_inline void read_row_key(struct inode_key *key, struct file *file, bool filesystem)
{
	read_inode_key(key, file);
	if (filesystem)
		key->inode = key->number = key->generation = 0;
}

// Guess: the slot where the syncs of the same inode were last counted.

// The index of a guess, which is there or beside it. `more`: the operation, or a neighbour's name.
static __always_inline u32 guess_index(const struct inode_key *key, u64 device, u64 more)
{
	u64 from = key->inode ? key->address : device;

	return (from + more) * 0x9e3779b97f4a7c15 >> 40 & guess_mask; // 2^64 divided by the golden ratio
}

// The row that a guess leads to. Other processors write guesses meanwhile, and addresses are used again: whether it is
// the right row is decided by what the row says of itself.
static __always_inline struct row *guessed_row(const struct guess *guess, u32 *slot)
{
	struct row *row;

	*slot = guess->slot;
	row = row_at(*slot);
	return row && row->state == ROW_READY && !row->retired ? row : 0;
}

static __always_inline struct row *row_if_of_file(const struct guess *guess, const struct inode_key *key,
						  struct who *who, u32 op, u32 *slot)
{
	struct row *row;

	if (!guess || guess->inode != key->inode)
		return 0;
	// Where reading costs a helper call, the inode's number and generation must do.
	if ((typed_cast || !key->inode) && guess->device != device_of(key))
		return 0;
	row = guessed_row(guess, slot);
	// A slot may be another row's by now, and of a filesystem's row nothing else says whose it is.
	if (row && !key->inode && (row->id.kind != KIND_FILESYSTEM || row->id.of.file.device != guess->device))
		return 0;
	if (!row || row->id.of.file.inode != key->number || row->id.of.file.generation != key->generation ||
	    row->id.op != op || row->id.tgid != who->tgid)
		return 0;
	return row->id.of.file.leader_start == who->server_start ? row : 0;
}

// A file's row, read from no more of the file than its inode; else 0.
static __always_inline struct row *guess_file(const struct inode_key *key, struct who *who, u32 op, u32 *slot)
{
	u32 index = guess_index(key, key->inode ? 0 : device_of(key), op);
	struct row *row = row_if_of_file(guess_at(index), key, who, op, slot);

	return row ?: row_if_of_file(guess_at(index ^ 1), key, who, op, slot);
}

static __always_inline struct row *row_if_of_neighbour(const struct guess *guess, u64 device, u64 low, u64 high,
						       u32 *slot)
{
	struct row *row;

	if (!guess || guess->inode || guess->device != device)
		return 0;
	row = guessed_row(guess, slot);
	if (!row || row->id.of.neighbour.device != guess->device)
		return 0;
	return row->id.of.neighbour.comm_low == low && row->id.of.neighbour.comm_high == high ? row : 0;
}

// A neighbour's row; `key` is its filesystem's.
static __always_inline struct row *guess_neighbour(const struct inode_key *key, u64 low, u64 high, u32 *slot)
{
	u64 device = device_of(key);
	u32 index = guess_index(key, device, low ^ high);
	struct row *row = row_if_of_neighbour(guess_at(index), device, low, high, slot);

	return row ?: row_if_of_neighbour(guess_at(index ^ 1), device, low, high, slot);
}

// From now on the slot can be guessed: at one of its two indices, at a free one if there is one. `inode`: its address;
// 0 if the row is of a whole device.
__noinline int remember_guess(u64 inode, u64 device, u64 more, u32 slot)
{
	struct inode_key key = {.inode = inode, .address = inode};
	u32 index = guess_index(&key, device, more);
	struct guess *guess = guess_at(index);

	if (guess && guess->slot && guess->inode != inode)
		guess = guess_at(index ^ 1);
	if (!guess)
		return 0;
	guess->inode = inode;
	guess->device = device;
	guess->slot = slot;
	return 0;
}

// Find: by identity, in the hash.

__noinline u32 create_row(s32 fd, u32 number, u32 share);

static __always_inline bool same_identity(const struct identity *a, const struct identity *b)
{
	const u64 *x = (const u64 *)a, *y = (const u64 *)b;

	return x[0] == y[0] && x[1] == y[1] && x[2] == y[2] && x[3] == y[3];
}

// The slot of an identity by the hash, else a new one; NO_SLOT, with the identity in the call, if none is free.
static __always_inline u32 find_slot(struct call *call, struct identity *id, s32 fd)
{
	u32 *slot = bpf_map_lookup_elem(&slots, id);

	if (slot)
		return *slot;
	if (id != &call->id)
		call->id = *id;
	// Asked for here: 6.1 adds up the stacks of functions that call each other. A neighbour's row has no share.
	return create_row(fd, call->number, id->kind == KIND_NEIGHBOUR ? 0 : share_of_current());
}

// The same where `last` is likely to be it, as a thread's own row is: four comparisons instead of a look-up in the
// hash.
static __always_inline u32 find_slot_again(struct call *call, struct identity *id, s32 fd, u32 last)
{
	struct row *row = row_at(last);

	if (row && row->state && !row->retired && same_identity(&row->id, id))
		return last;
	return find_slot(call, id, fd);
}

// The slot of a file's row, at this address if there is one, or of a neighbour's. Most syncs are of files whose row is
// guessed, and do not come here.
__noinline u32 find_row(u64 address, u32 kind, bool target, u32 number)
{
	struct file *file = (struct file *)address;
	struct call *call = call_again(number);
	struct inode_key key = {};
	bool known_again = file;
	struct task_struct *leader;
	struct identity *id;
	struct who who;
	u64 name_rest;
	u32 slot;

	if (!call)
		return NO_SLOT;
	// Put together where the verifier does not follow what is in it: on the stack, each way to a value would be a
	// state of its own.
	id = &call->id;
	*id = (struct identity){};
	read_who(&who, current_task_rarely());
	leader = who.leader;
	name_rest = comm_high(leader);
	if (file && target)
		read_row_key(&key, file, kind == KIND_FILESYSTEM);
	else if (file)
		read_device_key(&key, file);
	id->kind = kind;
	if (file && target && kind == KIND_FILE)
		known_again = identify_file(id, file, &key);
	else if (file)
		id->of.file.device = device_of(&key); // or the neighbour's device
	if (target) {
		id->op = call->op;
		id->tgid = who.tgid;
		id->of.file.leader_start = TASK_READ(leader, start_boottime);
		// Found before. To look for it here would be one function more upon the stack.
		if (call->instance_of == id->of.file.leader_start && which_instance(&who)) {
			id->tgid = call->instance;
			id->of.file.leader_start = call->instance_start;
		}
	} else {
		id->kind = KIND_NEIGHBOUR;
		id->of.neighbour.comm_low = who.name;
		id->of.neighbour.comm_high = name_rest;
	}
	slot = find_slot(call, id, call->fd);
	if (slot == NO_SLOT) {
		if (target)
			return NO_SLOT;
		count(neighbours_folded);
		return NEIGHBOUR_OVERFLOW_SLOT;
	}
	if (known_again && slot >= FIRST_NEIGHBOUR_SLOT)
		remember_guess(key.inode ? key.address : 0, device_of(&key),
			       target ? call->op : who.name ^ name_rest, slot);
	return slot;
}

// Create: once for each file.

// How often each free list was popped. Slots that were never used are popped before those that were freed, in their
// order, so none beyond that many of them is in use, and user space need not look there.
u64 slots_popped[FREE_LISTS];

#define POP(list, number, slot)                             \
	({                                                  \
		long empty = bpf_map_pop_elem(&list, slot); \
		if (!empty)                                 \
			add(&slots_popped[number], 1);      \
		empty;                                      \
	})

// The slot where a call counts whose owner may make no more rows: by its operation, so that it costs no more than any
// other. Of whose files it is, is not kept.
static __always_inline u32 without_row(struct call *call, u32 share)
{
	u32 slot = call->op;
	struct row *row = row_at(slot);

	refuse(share);
	if (call->id.kind == KIND_THREAD || slot >= OPS || !row)
		return NO_SLOT;
	row->names = MOST_NAMES;
	return slot;
}

// A slot for the identity in this thread's call; NO_SLOT if none is free.
__noinline u32 create_row(s32 fd, u32 number, u32 share)
{
	struct call *call = call_again(number);
	u32 slot = NO_SLOT;
	struct identity *id;
	struct row *row;
	u32 *winner;
	bool neighbour;

	if (!call)
		return NO_SLOT;
	id = &call->id;
	neighbour = id->kind == KIND_NEIGHBOUR;

	if (!neighbour && !may_make_row(share))
		return without_row(call, share);
	if (neighbour) {
		if (POP(free_neighbour, FREE_NEIGHBOUR, &slot))
			return NO_SLOT;
	} else if (POP(free_hot, FREE_HOT, &slot) && POP(free_cold, FREE_COLD, &slot)) {
		return NO_SLOT;
	}
	row = row_at(slot);
	if (!row)
		return NO_SLOT;
	// User space has cleared the row and given it its sequence number.
	__builtin_memcpy(&row->id, id, sizeof(*id));
	row->fd = fd;
	row->share = share;
	if (!bpf_map_update_elem(&slots, id, &slot, BPF_NOEXIST)) {
		row->state = ROW_READY;
		return slot;
	}
	// Another processor was first, or the hash is full: the slot is freed.
	row->id.kind = KIND_FREE;
	if (neighbour)
		bpf_map_push_elem(&free_neighbour, &slot, 0);
	else if (slot < histogram_slots)
		bpf_map_push_elem(&free_hot, &slot, 0);
	else
		bpf_map_push_elem(&free_cold, &slot, 0);
	winner = bpf_map_lookup_elem(&slots, id);
	return winner ? *winner : NO_SLOT;
}
