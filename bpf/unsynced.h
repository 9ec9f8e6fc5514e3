// Unsynced bytes: what was written to a file and is not covered by a successful sync yet, and for how long. Kept only
// where all writes are watched.
//
// A file's writes are numbered by their bytes. `written` is how many there were, `synced` up to which of them a sync
// has covered: one covers what had been counted when it began. For the age, time is cut into generations, which syncs
// open: the first write of a generation leaves its time, and a sync that succeeds covers all generations up to the one
// that it ended. So the oldest unsynced byte is no older than the first write of the first generation that is not
// covered. When syncs fail, or many are in flight, fewer generations are opened, and the age is too great.
//
// Whatever is inexact here is never too small, but for what docs/unsynced.md lists. 5.10 refuses atomic operations that
// return a value, so there are races, each with its direction at its place.
//
// A file that nobody can find after a power failure, because it has no name, has nothing to lose.
#pragma once

#include "add.h"
#include "kernel.h"
#include "read.h"
#include "record.h"
#include "rows.h"

// Whether writes that are not durable are operations as well.
const volatile bool all_writes;

// By a file's identity without its operation.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, UNSYNCED_FILES);
	__type(key, struct identity);
	__type(value, u32);
} unsynced_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, UNSYNCED_FILES);
	__type(key, u32);
	__type(value, struct unsynced);
} unsynced SEC(".maps");

FREE_LIST(free_unsynced);

u64 unsynced_popped; // as slots_popped
u32 unsynced_epoch;  // which half of the maxima counts; user space raises it

// With more generations open a sync opens none. The others are for syncs that begin at the same instant: each of them
// may open one.
#define MOST_OPEN (UNSYNCED_GENERATIONS / 2)

#define CANCELLED 125 // ECANCELED
#define INTERRUPTED 4 // EINTR

#define bit(op) (1U << (op))
#define COVERING                                                                                             \
	(bit(OP_FSYNC) | bit(OP_FDATASYNC) | bit(OP_IO_URING_FSYNC) | bit(OP_IO_URING_FDATASYNC) |           \
	 bit(OP_AIO_FSYNC) | bit(OP_AIO_FDATASYNC))
#define LEAVING_UNSYNCED                                                                                     \
	(bit(OP_WRITE) | bit(OP_IO_URING_WRITE) | bit(OP_AIO_WRITE) | bit(OP_PART_WRITE) |                   \
	 bit(OP_IO_URING_PART_WRITE) | bit(OP_AIO_PART_WRITE))

// A sync of a whole file. sync_file_range and msync are of a part, and neither they nor syncfs and sync name what they
// cover: they cover nothing here.
static __always_inline bool is_covering(u32 op)
{
	return op < OPS && bit(op) & COVERING;
}

static __always_inline bool leaves_unsynced(u32 op)
{
	return op < OPS && bit(op) & LEAVING_UNSYNCED;
}

static __always_inline bool is_nameless(struct file *file)
{
	if (typed_cast) {
		struct file *typed = bpf_rdonly_cast(file, bpf_core_type_id_kernel(struct file));
		return !typed->f_inode->i_nlink;
	}
	return !BPF_CORE_READ(file, f_inode, i_nlink);
}

// A row's reference to its file: the slot, counted from 1, and how many lives the slot has had.
static __always_inline struct unsynced *unsynced_at(u64 reference)
{
	u32 slot = (u32)reference - 1;
	struct unsynced *file = bpf_map_lookup_elem(&unsynced, &slot);

	return file && (u32)file->sequence == reference >> 32 ? file : 0;
}

static __noinline u32 create_unsynced(struct identity *id, u32 share)
{
	struct unsynced *file;
	u32 slot, *winner;

	if (!take_room(share, ROOM_UNSYNCED, UNSYNCED_FILES))
		return NO_SLOT;
	if (bpf_map_pop_elem(&free_unsynced, &slot)) {
		give_room(share, ROOM_UNSYNCED);
		return NO_SLOT;
	}
	add(&unsynced_popped, 1);
	file = bpf_map_lookup_elem(&unsynced, &slot);
	if (!file)
		return NO_SLOT;
	// User space has cleared it. Generation 0 is that of times that were never set.
	file->generation = 1;
	file->share = share;
	__builtin_memcpy(&file->id, id, sizeof(*id));
	if (!bpf_map_update_elem(&unsynced_slots, id, &slot, BPF_NOEXIST))
		return slot;
	// Another processor was first, or the hash is full.
	file->id.kind = KIND_FREE;
	bpf_map_push_elem(&free_unsynced, &slot, 0);
	give_room(share, ROOM_UNSYNCED);
	winner = bpf_map_lookup_elem(&unsynced_slots, id);
	return winner ? *winner : NO_SLOT;
}

// The reference for a row that has none, or an old one: once for each row, but for syncs of files that are never
// written.
static __noinline u64 find_unsynced(struct row *row, bool create)
{
	struct identity id = row->id;
	struct unsynced *file;
	u32 *known, slot;

	id.op = 0;
	known = bpf_map_lookup_elem(&unsynced_slots, &id);
	if (known)
		slot = *known;
	else if (create)
		slot = create_unsynced(&id, row->share);
	else
		return 0;
	file = bpf_map_lookup_elem(&unsynced, &slot);
	if (!file)
		return 0;
	// A slot that is being freed changes its sequence once more before it is used again (src/probe/unsynced.rs).
	row->more = file->sequence << 32 | (slot + 1);
	return row->more;
}

// Time and generation in one word, so that they are stored at once. In steps of 1,024 ns, rounded down.
static __always_inline u64 first_write(u64 time, u64 generation)
{
	return time >> 10 << 16 | (u16)generation;
}

static __always_inline bool is_of_generation(u64 first, u64 generation)
{
	return (u16)first == (u16)generation;
}

static __always_inline u64 *first_of(struct unsynced *file, u64 generation)
{
	return &file->first[generation & (UNSYNCED_GENERATIONS - 1)];
}

// `start`: of the write. When it ends its data may have been in the page cache for as long.
static __noinline void add_written(struct row *row, u64 bytes, u64 start)
{
	struct unsynced *file = unsynced_at(row->more);
	u64 generation, *first;

	if (!file)
		file = unsynced_at(find_unsynced(row, true));
	if (!file) {
		add(&counters.unsynced_dropped, bytes);
		return;
	}
	// In this order: a sync that begins in between covers bytes of a generation that it does not end, and the age
	// is too great. (arm64 may turn it round: then these bytes have the age of those that come next, until the next
	// sync.)
	add(&file->written, bytes);
	generation = *(volatile u64 *)&file->generation;
	first = first_of(file, generation);
	// Of two processors that get here at once the later may be last. Its write began before the other one's had
	// been counted, unless it took less time than the few instructions in between: so its start is early enough.
	if (!is_of_generation(*(volatile u64 *)first, generation))
		*(volatile u64 *)first = first_write(start, generation);
}

// What a sync that begins now will have covered if it succeeds.
static __noinline void begin_cover(struct row *row, struct cover *cover)
{
	u64 reference = row->more, generation;
	struct unsynced *file = unsynced_at(reference);

	cover->file = 0;
	if (!file) {
		reference = find_unsynced(row, false);
		file = unsynced_at(reference);
	}
	if (!file)
		return;
	generation = *(volatile u64 *)&file->generation;
	// Ended, and the next one opened, only if it has any write; else two syncs would end what one was enough for.
	// Two at the same instant open two, of which one may stay without a write.
	if (is_of_generation(*(volatile u64 *)first_of(file, generation), generation) &&
	    generation - *(volatile u64 *)&file->covered <= MOST_OPEN)
		add(&file->generation, 1);
	else
		generation--;
	cover->generation = generation;
	// After that: what is counted in between is of the next generation, or was not to be covered.
	cover->upto = *(volatile u64 *)&file->written;
	cover->file = reference;
}

// What an operation takes with it, at its beginning. `file` and `row`: 0 if it has none.
static __always_inline void take_cover(struct cover *cover, struct row *row, u32 op, struct file *file)
{
	cover->file = file && leaves_unsynced(op) && is_nameless(file) ? COVERS_NOTHING : 0;
	if (is_covering(op) && row)
		begin_cover(row, cover);
}

// When the oldest unsynced write began; 0 if there is none.
static __always_inline u64 oldest_unsynced(struct unsynced *file)
{
	u64 covered = file->covered, last = file->generation, first;

	for (int i = 1; i <= UNSYNCED_GENERATIONS; i++) {
		if (covered + i > last)
			break;
		first = *first_of(file, covered + i);
		if (is_of_generation(first, covered + i))
			return first >> 16 << 10;
	}
	return 0;
}

static __noinline void end_cover(struct cover *cover, u64 now, s64 result)
{
	struct unsynced *file = unsynced_at(cover->file);
	u64 upto = cover->upto, synced, oldest, written;
	u32 half;

	if (!file)
		return;
	synced = *(volatile u64 *)&file->synced;
	if (result < 0) {
		u64 failed = file->failed > synced ? file->failed : synced;

		// What was never tried lost nothing. Of two that fail at the same instant both may count the same.
		if (result == -CANCELLED || result == -INTERRUPTED || upto <= failed)
			return;
		add(&file->lost, upto - failed);
		raise(&file->failed, upto);
		return;
	}
	// Both are at their greatest just before they fall.
	half = *(volatile u32 *)&unsynced_epoch & 1;
	written = *(volatile u64 *)&file->written;
	if (written > synced) {
		raise(&file->most_bytes[half], written - synced);
		oldest = oldest_unsynced(file);
		if (oldest && now > oldest)
			raise(&file->most_age[half], now - oldest);
	}
	// If another processor's greater value is lost, what it has covered stays unsynced until the next sync.
	raise(&file->synced, upto);
	raise(&file->covered, cover->generation);
}

// At the end of an operation. `row`: 0 if it has none.
static __always_inline void note_unsynced(struct row *row, u32 op, struct cover *cover, u64 now, u64 latency,
					  s64 result)
{
	if (is_covering(op)) {
		end_cover(cover, now, result);
	} else if (leaves_unsynced(op) && result > 0 && cover->file != COVERS_NOTHING) {
		if (row)
			add_written(row, result, now - latency);
		else
			add(&counters.unsynced_dropped, result);
	}
}
