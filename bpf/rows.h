// Rows: one for each (server, file, operation), thread or neighbour. The hash leads from an identity to a slot of
// two arrays that user space reads in place. Free slots are in free lists, which user space fills.
#pragma once

#include "add.h"
#include "kernel.h"
#include "record.h"
#include "shares.h"

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

// Not static: see lookup.h.
__noinline int push_free(u32 list, u32 slot)
{
	if (list == FREE_HOT)
		return bpf_map_push_elem(&free_hot, &slot, 0);
	if (list == FREE_COLD)
		return bpf_map_push_elem(&free_cold, &slot, 0);
	return bpf_map_push_elem(&free_neighbour, &slot, 0);
}

// User space runs this by hand (BPF_PROG_TEST_RUN) to push slots onto a free list: a system call for each of thousands
// would take too long. Arguments: the list, the first slot, the one after the last. Returns how many were pushed.
SEC("raw_tp")
int fill_free_list(u64 *arguments)
{
	u32 list = arguments[0], first = arguments[1], end = arguments[2], slot = first;

	for (int i = 0; i < FREE_LIST_BATCH && slot < end; i++, slot++)
		if (push_free(list, slot))
			break;
	return slot - first;
}

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ERRORS);
	__type(key, struct error_key);
	__type(value, struct error_count);
} errors SEC(".maps");

// As many as rows.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, FIRST_FILE_SLOT);
	__type(key, u32);
	__type(value, struct grave_errors);
} grave_errors SEC(".maps");

// A file of two names that is synced by each in turn sends them this often only.
#define MOST_NAMES 64

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

#define EIO 5
#define ENOSPC 28
#define EROFS 30
#define EDQUOT 122

static __always_inline u32 grave_of(s32 error)
{
	return error == EIO ? GRAVE_EIO : error == ENOSPC ? GRAVE_ENOSPC : error == EDQUOT ? GRAVE_EDQUOT :
	       error == EROFS ? GRAVE_EROFS : GRAVE;
}

// A request may end on any thread: whose it is, its row knows.
static __noinline void count_in_hash(struct error_key *key)
{
	struct row *row = key->slot < FIRST_FILE_SLOT ? 0 : row_at(key->slot);
	struct error_count none = {.share = row ? row->share : share_of_current()};

	if (!take_room(none.share, ROOM_ERRORS, ERRORS))
		return;
	// Another processor was first.
	if (bpf_map_update_elem(&errors, key, &none, BPF_NOEXIST))
		give_room(none.share, ROOM_ERRORS);
}

static __noinline void count_error(u32 slot, u32 sequence, s32 error)
{
	struct error_key key = {.slot = slot, .sequence = sequence, .error = error};
	struct grave_errors *of_row;
	u32 grave = grave_of(error);
	struct error_count *known;

	if (grave < GRAVE) {
		of_row = bpf_map_lookup_elem(&grave_errors, &slot);
		if (of_row)
			add(&of_row->count[grave], 1);
		return;
	}
	known = bpf_map_lookup_elem(&errors, &key);
	if (!known) {
		count_in_hash(&key);
		known = bpf_map_lookup_elem(&errors, &key);
	}
	if (known)
		add(&known->n, 1);
	else
		count(errors_dropped);
}
