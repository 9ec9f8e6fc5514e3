// Rows: one for each (server, file, operation), thread or neighbour. The hash leads from an identity to a slot of
// two arrays that user space reads in place. Free slots wait in queues that user space fills.
#pragma once

const volatile u32 histogram_slots = FIRST_FILE_SLOT; // slots below this have a histogram of their own

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FIRST_FILE_SLOT);
	__type(key, struct identity);
	__type(value, u32);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, FIRST_FILE_SLOT);
	__type(key, u32);
	__type(value, struct row);
} rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, FIRST_FILE_SLOT);
	__type(key, u32);
	__type(value, struct histogram);
} histograms SEC(".maps");

#define QUEUE(name)                                \
	struct {                                   \
		__uint(type, BPF_MAP_TYPE_QUEUE);  \
		__uint(max_entries, 1);            \
		__type(value, u32);                \
	} name SEC(".maps")
QUEUE(free_hot);       // with a histogram
QUEUE(free_cold);      // without one
QUEUE(free_neighbour);

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2048);
	__type(key, struct error_key);
	__type(value, u64);
} errors SEC(".maps");

struct counters counters; // user space maps this too

#define add(place, n) __sync_fetch_and_add(place, n)
#define count(counter) add(&counters.counter, 1)

// The greatest value so far. Compare-and-exchange is refused by 5.10, so two processors that finish at the same
// instant could lose the greater one: storing again until it stands narrows that to an interrupt between two
// instructions, and user space holds the result against the histogram. One that user space sees is never too high.
static __always_inline void raise(u64 *max, u64 value)
{
	if (*(volatile u64 *)max >= value)
		return;
	for (int i = 0; i < 3; i++) {
		*(volatile u64 *)max = value;
		if (*(volatile u64 *)max >= value)
			return;
	}
}

// The place of an inner bucket, 1 to HISTOGRAM_BUCKETS. The mask is for the verifier; the empty assembly keeps the
// compiler from proving it superfluous.
static __always_inline u64 *bucket_at(struct histogram *histogram, u64 bucket)
{
	bucket--;
	asm volatile("" : "+r"(bucket));
	return &histogram->bucket[bucket & (HISTOGRAM_BUCKETS - 1)];
}

static __always_inline struct row *row_at(u32 slot)
{
	return bpf_map_lookup_elem(&rows, &slot);
}

// A slot for an identity that has none yet; NO_SLOT when none is free. Not inlined: it runs once for each file.
static __noinline u32 new_slot(struct identity *id, s32 fd)
{
	u32 slot = NO_SLOT;
	struct row *row;
	u32 *winner;
	bool neighbour = id->kind == KIND_NEIGHBOUR;

	if (neighbour) {
		if (bpf_map_pop_elem(&free_neighbour, &slot))
			return NO_SLOT;
	} else if (bpf_map_pop_elem(&free_hot, &slot) && bpf_map_pop_elem(&free_cold, &slot)) {
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
	// Another processor was first, or the hash is full: the slot goes back.
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

// The slot of an identity. `last`: where this thread was before, which for a log is nearly always right: four
// comparisons instead of a look-up in the hash.
static __always_inline u32 slot_of(struct identity *id, s32 fd, u32 last)
{
	struct row *row = row_at(last);
	u32 *slot;

	if (row && row->state && !row->retired && same_identity(&row->id, id))
		return last;
	slot = bpf_map_lookup_elem(&slots, id);
	return slot ? *slot : new_slot(id, fd);
}

static __noinline void count_error(u32 slot, u32 sequence, s32 error)
{
	struct error_key key = { .slot = slot, .sequence = sequence, .error = error };
	u64 zero = 0, *n = bpf_map_lookup_elem(&errors, &key);

	if (!n) {
		bpf_map_update_elem(&errors, &key, &zero, BPF_NOEXIST);
		n = bpf_map_lookup_elem(&errors, &key);
	}
	if (n)
		add(n, 1);
	else
		count(errors_dropped);
}
