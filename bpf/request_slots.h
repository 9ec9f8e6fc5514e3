// Where the requests of rings are kept while they are in flight. At most of a host's completions nothing is in flight
// here, so finding that out is a load and a comparison: an array of request slots, and a hash only for what finds no
// slot.
//
// The array is a two-way set-associative table by the request's address, as that of threads is (inflight.h). A ring
// allocates its requests once and uses them again and again, so a slot is the address's own from its first request on:
// no request claims and frees one, and no slot passes from one request to another while programs run. The address is
// one request's at a time, from before its submission is seen until after its completion is; the kernel hands it from
// the one processor to the other, and with it what was written here. So whoever finds its address in a slot is alone
// with what else is in it:
//
// - Two processors never end one request twice, or begin two at one address.
// - An address that was freed on one processor and is submitted on another at once finds the slot as the completion
//   left it, which was before it was freed.
// - Two addresses that want one free slot at the same time are told apart by their claims. Compare-and-exchange would
//   be simpler, but the object is compiled for 5.10, which refuses it; at worst neither gets the slot, and both are
//   in the hash.
// - An address that is another process's by now, traced or not, comes upon a start of 0, unless the kernel skipped a
//   completion: a new request then counts the one before as not reported.
// - Slots of addresses that came out of use are freed by user space only, by second chance and after a grace period
//   (src/probe/owned_slots.rs).
#pragma once

#include "add.h"
#include "inflight.h"
#include "kernel.h"
#include "record.h"
#include "rows.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, REQUEST_SLOTS);
	__type(key, u32);
	__type(value, struct request_slot);
} request_slots SEC(".maps");

// By the request's address.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, REQUESTS_WITHOUT_SLOT);
	__type(key, u64);
	__type(value, struct pending);
} requests_without_slot SEC(".maps");

u64 in_flight_without_slot; // how many those are: nearly always none

#define REQUEST_REFERENCED (1ULL << REQUEST_REFERENCED_BIT)
#define REQUEST_RECLAIMING (1ULL << REQUEST_RECLAIMING_BIT)

static __always_inline struct request_slot *request_slot_at(u32 index)
{
	return bpf_map_lookup_elem(&request_slots, &index);
}

static __always_inline u32 index_of_request(u64 address)
{
	return address * 0x9e3779b97f4a7c15 >> 40 & (REQUEST_SLOTS - 1); // 2^64 divided by the golden ratio
}

// The slot of an address that is not at the first of its two indices, or has none yet. Not static: see lookup.h.
__noinline u32 find_request_slot(u64 address)
{
	struct request_slot *slot;
	u32 index;

	for (u32 i = 0; i < WAYS; i++) {
		index = index_of_request(address) ^ i;
		slot = request_slot_at(index);
		if (!slot)
			continue;
		if (slot->owner == (REQUEST_REFERENCED | address))
			slot->owner = address;
		// In one that is being reclaimed no request begins, unless the end of the one before was missed: its
		// start must not stay.
		if (slot->owner == address || (slot->owner == (REQUEST_RECLAIMING | address) && slot->request.start_ns))
			return index;
	}
	for (u32 i = 0; i < WAYS; i++) {
		index = index_of_request(address) ^ i;
		slot = request_slot_at(index);
		if (!slot || slot->claims)
			continue;
		// Of those that get here at once, at most one finds its own claim alone: addresses of others never add
		// up to 0.
		add(&slot->claims, address);
		if (*(volatile u64 *)&slot->claims != address)
			continue;
		slot->owner = address;
		return index;
	}
	count(without_request_slot);
	return NO_INDEX;
}

// Where the request that is submitted is kept; 0 if it has no slot.
static __always_inline struct pending *slot_for_request(u64 address)
{
	u32 index = index_of_request(address);
	struct request_slot *slot = request_slot_at(index);

	if (!slot || slot->owner != address) {
		index = find_request_slot(address);
		slot = request_slot_at(index);
	}
	return slot ? &slot->request : 0;
}

// The request in flight at an address, where it has a slot.
static __always_inline struct pending *request_in_slot(u64 address)
{
	struct request_slot *slot;

	for (u32 i = 0; i < WAYS; i++) {
		slot = request_slot_at(index_of_request(address) ^ i);
		if (slot && (slot->owner & ~(REQUEST_REFERENCED | REQUEST_RECLAIMING)) == address &&
		    slot->request.start_ns)
			return &slot->request;
	}
	return 0;
}
