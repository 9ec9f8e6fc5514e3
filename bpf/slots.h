// From an identity to the slot of its row, which is allocated at its first sync.
#pragma once

// How often each free list was popped. Slots that were never used are popped before those that were freed, in their
// order, so none beyond that many of them is in use, and user space need not look there.
u64 slots_popped[FREE_LISTS];

#define POP(list, number, slot) ({                                              \
	long empty = bpf_map_pop_elem(&list, slot);                             \
	if (!empty)                                                             \
		add(&slots_popped[number], 1);                                  \
	empty;                                                                  \
})

// A slot for the identity in this thread's call, which has none yet; NO_SLOT when none is free. It runs once for each
// file. Not static: the verifier then looks at it once, and not anew for every state in which it may be called.
__noinline u32 new_slot(s32 fd, u32 place)
{
	struct call *call = opened_call(place);
	u32 slot = NO_SLOT;
	struct identity *id;
	struct row *row;
	u32 *winner;
	bool neighbour;

	if (!call)
		return NO_SLOT;
	id = &call->id;
	neighbour = id->kind == KIND_NEIGHBOUR;

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

static __always_inline bool same_identity(const struct identity *a, const struct identity *b)
{
	const u64 *x = (const u64 *)a, *y = (const u64 *)b;

	return x[0] == y[0] && x[1] == y[1] && x[2] == y[2] && x[3] == y[3];
}

// The slot of an identity; NO_SLOT, and the identity stands in the call, when there is none for it.
static __always_inline u32 slot_of(struct call *call, struct identity *id, s32 fd)
{
	u32 *slot = bpf_map_lookup_elem(&slots, id);

	if (slot)
		return *slot;
	if (id != &call->id)
		call->id = *id;
	return new_slot(fd, call->place);
}

// The same, if `last` may be it, as it is of a thread's own row: four comparisons instead of a look-up in the hash.
static __always_inline u32 slot_again(struct call *call, struct identity *id, s32 fd, u32 last)
{
	struct row *row = row_at(last);

	if (row && row->state && !row->retired && same_identity(&row->id, id))
		return last;
	return slot_of(call, id, fd);
}
