// `fsynctop explain` only: where waits are counted, by row and kernel stack, and what could not be kept.
#pragma once

#include "add.h"
#include "kernel.h"
#include "waiting.h"

// What could not be kept; user space maps this.
struct wait_losses {
	u64 stacks;   // waits whose stack could not be read or kept
	u64 waits;    // waits that found no place in the map: they are counted by operation and stack, without a file
	u64 unplaced; // not even there
	u64 unplaced_ns; // their time
	u64 writers;     // parts of transactions whose process found no place
} lost;

#define FRAMES 48

struct stack {
	u64 frame[FRAMES]; // innermost first; 0 after the last
};

// Where a wait is counted.
struct wait_key {
	u32 slot;
	u32 reserved;
	u64 stack; // a hash of its frames; 0: not known
};

struct wait_total {
	u64 ns;
	u64 waits;
	u64 under[COMMITTER_STATES]; // how far its device's clock advanced meanwhile
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct wait_key);
	__type(value, struct wait_total);
} waits SEC(".maps");

// What finds no place there, because so many files are synced: slots below OPS stand for operations.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2048);
	__type(key, struct wait_key);
	__type(value, struct wait_total);
} waits_by_op SEC(".maps");

// Frames by their hash.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2048);
	__type(key, u64);
	__type(value, struct stack);
} stacks SEC(".maps");

// Where a stack is put together: the scheduler's hook is never interrupted by itself; the iterator has a place of its
// own.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct stack);
} scratch SEC(".maps");
