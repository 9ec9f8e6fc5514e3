// Rows: one for each (server, file, operation), thread or neighbour. The hash leads from an identity to a slot of
// two arrays that user space reads in place. Free slots are in free lists, which user space fills.
#pragma once

#include "add.h"
#include "kernel.h"
#include "record.h"

const volatile u32 histogram_slots = FIRST_FILE_SLOT; // slots below this have a histogram of their own

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FIRST_FILE_SLOT);
	__type(key, struct identity);
	__type(value, u32);
} slots SEC(".maps");

// By inode address: right for nearly every sync, and with fewer lines of memory to wait for than the hash.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct guess);
} guesses SEC(".maps");

const volatile u32 guess_mask; // one less than a power of two

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

#define FREE_LIST(name)                           \
	struct {                                  \
		__uint(type, BPF_MAP_TYPE_QUEUE); \
		__uint(max_entries, 1);           \
		__type(value, u32);               \
	} name SEC(".maps")
FREE_LIST(free_hot);  // with a histogram
FREE_LIST(free_cold); // without one
FREE_LIST(free_neighbour);

// A loop for each list: to choose inside of one would be three times the work for the verifier.
#define FILL(queue, slot, end)                                            \
	for (int i = 0; i < FREE_LIST_BATCH && slot < end; i++, slot++) { \
		if (bpf_map_push_elem(&queue, &slot, 0))                  \
			break;                                            \
	}

// User space runs this by hand (BPF_PROG_TEST_RUN) to push slots onto a free list: a system call for each of thousands
// would take too long. Arguments: the list, the first slot, the one after the last. Returns how many were pushed.
SEC("raw_tp")
int fill_free_list(u64 *arguments)
{
	u32 list = arguments[0], first = arguments[1], end = arguments[2], slot = first;

	if (list == FREE_HOT) {
		FILL(free_hot, slot, end);
	} else if (list == FREE_COLD) {
		FILL(free_cold, slot, end);
	} else {
		FILL(free_neighbour, slot, end);
	}
	return slot - first;
}

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2048);
	__type(key, struct error_key);
	__type(value, u64);
} errors SEC(".maps");

struct counters counters; // user space maps this too

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

// A sync returns 0. Its programs know at compile time that they count none.
static __always_inline bool returns_bytes(u32 op)
{
	return op >= OP_DSYNC_WRITE;
}

static __always_inline struct row *row_at(u32 slot)
{
	return bpf_map_lookup_elem(&rows, &slot);
}

static __always_inline struct guess *guess_at(u32 index)
{
	return bpf_map_lookup_elem(&guesses, &index);
}

static __noinline void count_error(u32 slot, u32 sequence, s32 error)
{
	struct error_key key = {.slot = slot, .sequence = sequence, .error = error};
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
