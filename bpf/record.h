// The contract between the programs and user space: every struct and constant that both sides share. The Rust side is
// made from the compiled object's types (build.rs), so constants are enums: a macro would leave no trace in them.
// Rows and histograms lie in arrays that user space maps into its memory: reading them costs the kernel nothing.
#pragma once

#include "kernel.h"
#include "operations.h"

// Latency buckets: 16 steps per power of two from 2^8 to 2^40 ns. 512 of 8 bytes are one page; the bucket under
// and the one over all others stand in the row.
enum histogram_shape {
	FIRST_EXPONENT = 8,
	LAST_EXPONENT = 40,
	HISTOGRAM_BUCKETS = 512,
};

// How many names of processes are compared.
enum target_limit {
	COMM_PATTERNS = 16,
};

// How many requests of rings can be in flight in slots of their own, and how many that find none; how many of libaio.
// One call that submits or reaps is followed as far.
enum pending_limit {
	REQUEST_SLOTS = 4096, // a power of two
	REQUESTS_WITHOUT_SLOT = 4096,
	AIO_REQUESTS = 4096,
	CALLS_WITHOUT_SLOT = 4096, // the same of calls
};

// How many files with writeback errors are told apart, each errno by itself.
enum writeback_limit {
	WRITEBACK_FILES = 1024,
};

// Of how many rows and errno a hash keeps how often they failed, but for those that each row has room for.
enum error_limit {
	ERRORS = 2048,
};

// How many neighbours, by device and command, are told apart in what they sync outside of the watched calls.
enum unwatched_limit {
	UNWATCHED_NEIGHBOURS = 256,
};

// Of how many files unsynced bytes are kept, and how many times of first writes of each (unsynced.h).
enum unsynced_limit {
	UNSYNCED_FILES = 4096,
	UNSYNCED_GENERATIONS = 8, // a power of two
};

// How many files are known to have a part with a role of its own, and in how many places a part lies at most (parts.h).
enum part_limit {
	PARTS = 256,
	PART_RANGES = 2,
};

// What the owners of processes have shares of (shares.h).
enum room {
	ROOM_CALLS = 0,
	ROOM_REQUESTS = 1,
	ROOM_AIO = 2,
	ROOM_ERRORS = 3,
	ROOM_WRITEBACK = 4, // by device; all of FUSE is one
	ROOM_UNSYNCED = 5,
	ROOMS = 6,
};

enum share_limit {
	SHARES = 256,
	SERVICE_SHARES = 64, // the first, of services of the system
};

// What a row is about.
enum kind {
	KIND_FREE = 0,
	KIND_FILE = 1,
	KIND_FILESYSTEM = 2, // syncfs
	KIND_NO_FILE = 3,    // sync, msync
	KIND_BAD_DESCRIPTOR = 4,
	KIND_THREAD = 5,
	KIND_NEIGHBOUR = 6, // a device, and the name of processes that are not traced
};

enum identity_flags {
	IDENTITY_WEAK = 1, // the filesystem keeps no generation: the identity could be a reused inode number
};

// Key of a row. Which arm of it holds is said by `kind`.
struct file_identity {    // KIND_FILE; KIND_FILESYSTEM has the device only, the other two kinds neither
	u64 leader_start; // of the server's thread group's leader, since boot in ns
	u64 inode;
	u32 device; // of the superblock; on btrfs the subvolume's own, as stat shows it
	u32 generation;
};

struct thread_identity { // KIND_THREAD
	u64 leader_start; // the server's
	u64 reserved;
	u32 tid;
	u32 start; // since boot in us, the lower 32 bits
};

struct neighbour_identity { // KIND_NEIGHBOUR
	u64 comm_low;       // of the thread group's leader, eight bytes
	u64 comm_high;
	u32 device;
	u32 reserved;
};

struct identity {
	u8 op;
	u8 kind;
	u16 flags;
	u32 tgid; // the server's (instance.h), in the initial PID namespace; neighbours: 0
	union {
		struct file_identity file;
		struct thread_identity thread;
		struct neighbour_identity neighbour;
	} of;
};
_Static_assert(sizeof(struct identity) == 32, "a key has no padding, which would be part of it");
_Static_assert(sizeof(struct thread_identity) == sizeof(struct file_identity),
	       "so that one initialiser clears all arms");
_Static_assert(sizeof(struct neighbour_identity) == sizeof(struct file_identity), "the same");
_Static_assert(__builtin_offsetof(struct neighbour_identity, device) ==
		       __builtin_offsetof(struct file_identity, device),
	       "find_row sets either");

// Slots of the arrays. Below FIRST_NEIGHBOUR_SLOT they are never allocated.
enum slot {
	NEIGHBOUR_OVERFLOW_SLOT = 23, // slots 0 to OPS - 1: traced syncs that found no row, by operation
	FIRST_SHARED_SLOT = 24,       // histograms that the cold files of one role share
	FIRST_NEIGHBOUR_SLOT = 64,
	FIRST_FILE_SLOT = 256,
	SELF_SLOT = 0xfffffffe, // a call of fsynctop's own
	NO_SLOT = 0xffffffff,
};

_Static_assert(OPS <= NEIGHBOUR_OVERFLOW_SLOT, "an operation has an overflow row of its own");

// The free lists, and how many slots one run of `fill_free_list` pushes.
enum free_list {
	FREE_HOT = 0,  // slots with a histogram of their own
	FREE_COLD = 1, // without one
	FREE_NEIGHBOUR = 2,
	FREE_LISTS = 3,
	FREE_LIST_BATCH = 48,
};

// What a row's `state` says; written once, by the program that made the row.
enum row_state {
	ROW_READY = 1, // its key is published
};

// How the end of a ring's request comes about: by itself, or only when the program asks for it.
enum completion {
	COMPLETION_POSTED = 1,
	COMPLETION_REAPED = 2,
};

// One (server, file, operation), thread or neighbour. Values only grow while the row lives. What a sync reads of it
// fills one line of the processor's cache, what it counts in the next one: where processors share a row, as a
// neighbour's, the first stays with all of them.
struct row {
	struct identity id;
	u64 more;     // threads: the other eight bytes of their name; files: where their unsynced bytes are (unsynced.h)
	u64 name;     // the hash and length of the name that was last sent; threads: the first eight bytes of their name
	u32 sequence; // how many lives this slot has had: a sync that outlives its row is noticed
	s32 fd;       // the descriptor of the first sync
	u8 names;       // how many were sent
	u8 completions; // how requests of rings end for their program: bits of enum completion
	u8 state;
	u8 share;             // whose it is (shares.h), by who made it
	u16 retired;          // user space has taken the key out of the hash: look it up again
	u16 shared_histogram; // for a row without a histogram of its own; 0: send an event instead
	u64 started;          // syncs that entered
	u64 sum_ns;           // of those that finished
	u64 max_ns;
	u64 under;     // finished in less than 2^8 ns
	u64 over;      // in 2^40 ns or more
	u64 elsewhere; // finished, but in another row's histogram, or sent as an event
	u64 errors;    // finished with an error
	u64 bytes;     // written, as the kernel returned them
};
_Static_assert(sizeof(struct row) == 128, "two lines of the processor's cache");
_Static_assert(__builtin_offsetof(struct row, started) == 64, "what each sync changes is in the second");

// The errno that say of a row that what was written is or may be lost have room of their own in it.
enum grave {
	GRAVE_EIO = 0,
	GRAVE_ENOSPC = 1,
	GRAVE_EDQUOT = 2,
	GRAVE_EROFS = 3,
	GRAVE = 4,
};

struct grave_errors {
	u64 count[GRAVE];
};

// One share of the tables. It is several owners' who have it together.
struct share {
	u64 taken[ROOMS];
	u64 refused;  // calls and requests that were not kept, and those of which it is not kept of which file they were
	s64 new_rows; // how many rows it may still make, where they are limited; below 0 some failures are told without one
};
_Static_assert(sizeof(struct share) == 64, "one line of the processor's cache");

struct histogram {
	u64 bucket[HISTOGRAM_BUCKETS];
};

// Where the syncs of a file were counted last, so that the next one need not look it up in the hash.
struct guess {
	u64 inode;  // its address, which may be another's by now; 0 where a row is about a whole filesystem
	u32 device; // of the superblock
	u32 slot;   // 0: none
};

// What a call takes with it from its entry to its exit, for the unsynced bytes of its file (unsynced.h).
struct cover {
	u64 file;       // of a sync: which file's; 0: it covers nothing so far
	u64 upto;       // the file's `written` when it began
	u64 generation; // the last that it covers
};
// In the place of a file: a sync of a part of one, which covers nothing here; a write to a file without a name.
#define COVERS_NOTHING (~0ULL)

// What was written to a file and is not synced. What a write changes fills two lines of the processor's cache.
struct unsynced {
	u64 written;    // bytes of all its writes that are not durable by themselves
	u64 synced;     // so many of them are covered by a sync that succeeded
	u64 generation; // the present one
	u64 covered;    // the last that is covered by a sync that succeeded
	u64 lost;       // bytes that a sync should have covered that failed
	u64 failed;     // up to which byte these go
	u64 sequence;   // of which the lower half counts: two for each life of this slot, odd while it is being freed
	u64 share;      // whose room it takes
	u64 first[UNSYNCED_GENERATIONS]; // when the first write of each of the last generations began
	u64 most_bytes[2];               // the greatest number of unsynced bytes, in turns of `unsynced_epoch`
	u64 most_age[2];                 // the greatest age of the oldest of them, in ns
	struct identity id;              // as a row's, but without an operation
	u64 spare[8];
};
_Static_assert(sizeof(struct unsynced) == 256, "a power of two, as user space wants it");
_Static_assert(__builtin_offsetof(struct unsynced, first) == 64, "what each write changes is in the first two lines");

// A thread's sync in flight, and what is kept from one to the next: a thread slot (inflight.h). A power of two in size;
// what each sync needs is in one line of the processor's cache.
struct call {
	u64 start_ns; // CLOCK_MONOTONIC; 0: none
	u64 owner;    // the thread whose slot this is, with the bits of enum owner_bit; 0: it is free
	u64 claims;   // the threads that tried to take it while it was free: the sum of CLAIM + id of each; in the hash: whose
		      // share it takes
	u32 slot;
	u32 sequence;
	u32 thread_row; // the slot of this thread's own row, kept from call to call; 0: none
	u32 thread_row_sequence;
	u16 op;
	u16 instance_exec; // the next three are of the process that `instance` was found for (instance.h)
	s32 fd;
	u32 number; // 1 + its index in the array; 0: it is in the hash
	u32 instance;
	u64 instance_of;
	struct identity id; // of the call only where it has no row of its own
	struct cover cover; // only where all writes are watched
	u64 instance_start;
};
_Static_assert(sizeof(struct call) == 128, "two lines of the processor's cache");
_Static_assert(__builtin_offsetof(struct call, id) == 64, "what each sync needs is in the first");

// A request in flight (pending.h).
struct pending {
	u64 start_ns; // CLOCK_MONOTONIC
	u32 slot;
	u32 sequence;
	u32 op;
	s32 fd;
	u32 tgid; // of the thread that made the request
	u32 tid;
	u32 silent; // of its end is told only if it fails, or perhaps not at all
	u32 share; // whose room it takes, where it is in a hash
	u64 context;        // libaio: which of the process' contexts it is in
	u64 stack;          // libaio: where the process' stack began, which is another once it executes another program
	struct identity id; // where it has no row of its own
	struct cover cover; // only where all writes are watched
};

// A ring's request in flight, and what is kept from one to the next: a request slot (request_slots.h). What each
// request needs is in one line of the processor's cache.
struct request_slot {
	u64 owner;  // the address of the request whose slot this is, with the bits of request_owner_bit; 0: it is free
	u64 claims; // the addresses that tried to take it while it was free: their sum
	struct pending request; // none is in flight while its start is 0
};
_Static_assert(sizeof(struct request_slot) == 128, "two lines of the processor's cache");
_Static_assert(__builtin_offsetof(struct request_slot, request.stack) == 64, "what a ring's requests have is in the first");

// A request of libaio, by the address of its control block. A kernel's address, as those of rings have, is none.
struct aio_key {
	u64 block;
	u32 tgid;
	u32 reserved;
};

// Bits of `owner` above the thread's id, for second-chance reclaim (src/probe/owned_slots.rs). As numbers of bits: the
// compilers that build this keep enums of 32 bits only in the object's types.
enum owner_bit {
	REFERENCED_BIT = 32, // user space sets it; the owner takes it away at its next sync
	RECLAIMING_BIT = 33, // user space is freeing the slot
};
// The same of requests, in the bits of their addresses that are always 0.
enum request_owner_bit {
	REQUEST_REFERENCED_BIT = 0,
	REQUEST_RECLAIMING_BIT = 1,
};
#define OWNER_REFERENCED (1ULL << REFERENCED_BIT)
#define OWNER_RECLAIMING (1ULL << RECLAIMING_BIT)
#define CLAIM (1ULL << 32)

// What the task iterator writes for each thread with a slot of its own.
struct call_record {
	u64 start_ns;
	u32 tgid;
	u32 tid;
	u32 slot;
	u32 sequence;
	u32 op;
	s32 fd;
	u8 comm[16];
	struct identity id;
};

// A server's first process, or that of any other.
struct process {
	u64 leader_start; // as in a file's identity
	u32 tgid;
	u32 reserved;
};

struct error_key {
	u32 slot;
	u32 sequence;
	s32 error; // errno, positive
	u32 reserved;
};

struct error_count {
	u64 n;
	u32 share; // whose room it takes
	u32 reserved;
};

// The kernel could not write what belongs to this file.
struct writeback_error {
	u64 inode;  // 0: of the device itself
	u32 device; // as in a file's identity
	u32 generation;
	u32 error; // errno, positive
	u32 reserved;
};

// A file of a server, of which a part has a role of its own.
struct part_key {
	u64 inode;
	u32 device; // the superblock's
	u32 tgid;   // the server's
};

// The part: each of its places begins at an offset and ends before another.
struct part {
	u64 begin[PART_RANGES];
	u64 end[PART_RANGES];
};

enum event_type {
	EVENT_FILE = 1,
	EVENT_SYNC = 2,
};

enum name_limit {
	NAME_COMPONENTS = 32,
	NAME_BYTES = 1024,
	NAME_COMPONENT_BYTES = 256,
};

// The first sync of a file: its name at that moment. It ends with its name's last byte.
struct file_event {
	u32 type;
	u32 slot; // NO_SLOT: the map was full
	struct identity id;
	u32 sequence;
	s32 fd;
	s32 mount_id;
	u32 mode;
	u32 tid;
	u32 length;   // bytes of `name`; components from the file upwards, each ended by a NUL
	u32 complete; // 1: the components reach up to the mount's root
	u32 below;    // the device of the layer that a file of an overlay lies on; 0: it is of no overlay
	u8 name[NAME_BYTES + NAME_COMPONENT_BYTES];
};

// One sync that no row or no histogram could take.
struct sync_event {
	u32 type;
	u32 slot; // NO_SLOT: count it for `id`; else the row counts it and only its latency is news
	struct identity id;
	u32 sequence;
	s32 result;
	u64 latency_ns;
};

// What went wrong, and how often. Only grows.
struct counters {
	u64 exits_without_entry; // of a thread not seen before: its call may be older than the probes
	u64 entries_skipped;     // an exit without an entry, of a thread that was seen before
	u64 entries_without_exit;          // a second entry of a thread whose first never ended: its exit was skipped
	u64 neighbour_exits_without_entry; // the same of processes that are not traced
	u64 neighbour_entries_without_exit;
	u64 no_call_state;              // no room for the state of a call or request: not counted
	u64 without_thread_slot;        // nothing is lost: the call of a thread without a slot of its own is in a hash
	u64 without_request_slot;       // the same of a ring's request
	u64 no_row;                     // counted in an overflow row: no row free, and the ring full
	u64 retired_row;                // counted in an overflow row: the sync outlived its row
	u64 names_dropped;              // the ring was full
	u64 latencies_dropped;          // the ring was full
	u64 errors_dropped;             // the map of errors was full
	u64 processes_dropped;          // the map of followed processes was full
	u64 neighbours_folded;          // counted in the neighbours' overflow row
	u64 no_wait_state;              // the same for what `explain` keeps of it: where it waits is not known
	u64 unwatched;                  // syncs of traced processes outside of the watched calls (net.h)
	u64 neighbours_unwatched;       // the same of processes that are not traced
	u64 unreported;                 // requests of which the kernel did not tell how they ended
	u64 writeback_errors;           // of any file of the host
	u64 writeback_errors_dropped;   // those of files for which the map had no room
	u64 unsynced_dropped;           // bytes of files for which there was no room (unsynced.h)
	u64 self_test[OPS];             // fsynctop's own calls, seen at entry and at exit
	struct identity self_file[OPS]; // the file of the last of them
};

// What user space needs of this file, and no map or variable has the type of. Without a mention the compiler would
// leave it out of the object's types.
struct contract {
	struct call_record call_record;
	struct file_event file_event;
	struct sync_event sync_event;
	enum histogram_shape histogram_shape;
	enum target_limit target_limit;
	enum pending_limit pending_limit;
	enum writeback_limit writeback_limit;
	enum error_limit error_limit;
	enum room room;
	enum share_limit share_limit;
	enum grave grave;
	enum unwatched_limit unwatched_limit;
	enum unsynced_limit unsynced_limit;
	enum part_limit part_limit;
	enum name_limit name_limit;
	enum op op;
	enum watched_calls watched_calls;
	enum kind kind;
	enum identity_flags identity_flags;
	enum slot slot;
	enum free_list free_list;
	enum row_state row_state;
	enum completion completion;
	enum owner_bit owner_bit;
	enum request_owner_bit request_owner_bit;
	enum event_type event_type;
};
