// `fsynctop explain` only: the requests that the disks of a filesystem with a clock have in flight, from the block
// layer's hooks to the clock.
#pragma once

#include "clock.h"
#include "kernel.h"

const volatile bool queue_before_request; // among the arguments of the devices' hooks (up to 5.10)

// From a whole disk to the clocks of the filesystems on it: 1 + index, 0 after the last.
struct disk {
	u32 clock[CLOCKS_OF_DISK];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4 * CLOCKS);
	__type(key, u32);
	__type(value, struct disk);
} disks SEC(".maps");

enum req_flag_bits {
	__REQ_META = 12,
	__REQ_FUA = 17,
	__REQ_PREFLUSH = 18,
};
#define REQ_OP_MASK 0xff
#define REQ_OP_WRITE 1
#define REQ_OP_FLUSH 2
#define HAS(flags, bit) ((flags) & (1 << bpf_core_enum_value(enum req_flag_bits, bit)))

static __always_inline u32 disk_of(struct request *request)
{
	struct gendisk *disk;

	if (bpf_core_field_exists(struct request_queue, disk))
		disk = request->q->disk;
	else
		disk = ((struct request___disk *)request)->rq_disk;
	return disk ? disk->major << 20 | disk->first_minor : 0;
}

enum request_kind {
	REQUEST_ELSE = 0,
	REQUEST_FLUSH = 1,
	REQUEST_LOG = 2,
};

static __always_inline u32 kind_of_request(struct request *request)
{
	u32 flags = request->cmd_flags;

	if ((flags & REQ_OP_MASK) == REQ_OP_FLUSH || HAS(flags, __REQ_FUA) || HAS(flags, __REQ_PREFLUSH))
		return REQUEST_FLUSH;
	return (flags & REQ_OP_MASK) == REQ_OP_WRITE && HAS(flags, __REQ_META) ? REQUEST_LOG : REQUEST_ELSE;
}

// `change`: 1, a request is given to the device; -1, it came back; `done`: from the device, not to be given again.
static __noinline void count_request(u32 number, u32 kind, s32 change, bool done, u64 now)
{
	struct clock *c = clock_at(number);
	struct window *w = the_window();
	u64 begin, end;
	bool counts;

	if (!clocks_allowed || !c || !w)
		return;
	begin = w->start_ns;
	end = w->end_ns;
	counts = done && begin && now >= begin && (!end || now < end);
	bpf_spin_lock(&c->lock);
	advance(c, begin, end, now);
	// One that was given to the device before the hooks were there comes back, too.
	if (kind == REQUEST_FLUSH) {
		if (change > 0 || c->flushes)
			c->flushes += change;
		c->flushes_done += counts;
	} else {
		if (change > 0 || c->logs)
			c->logs += change;
		c->logs_done += counts;
	}
	bpf_spin_unlock(&c->lock);
}

static __always_inline int on_request(struct request *request, s32 change, bool done)
{
	u32 kind = kind_of_request(request), device;
	u64 now;
	struct disk *disk;

	if (kind == REQUEST_ELSE)
		return 0;
	device = disk_of(request);
	disk = bpf_map_lookup_elem(&disks, &device);
	if (!disk)
		return 0;
	now = bpf_ktime_get_ns();
	for (int i = 0; i < CLOCKS_OF_DISK; i++)
		if (disk->clock[i])
			count_request(disk->clock[i], kind, change, done, now);
	return 0;
}

// Two loads that the compiler cannot make one of: one from a computed place is refused by kernels of that time.
static __always_inline struct request *request_of(u64 *context)
{
	struct request *request;

	if (queue_before_request)
		asm volatile("%0 = *(u64 *)(%1 + 8)" : "=r"(request) : "r"(context));
	else
		asm volatile("%0 = *(u64 *)(%1 + 0)" : "=r"(request) : "r"(context));
	return request;
}

SEC("tp_btf/block_rq_issue")
int issue_request(u64 *context)
{
	return on_request(request_of(context), 1, false);
}

SEC("tp_btf/block_rq_requeue")
int requeue_request(u64 *context)
{
	return on_request(request_of(context), -1, false);
}

// Of a request that ends in parts, the last.
SEC("tp_btf/block_rq_complete")
int complete_request(u64 *context)
{
	struct request *request = (void *)context[0];

	if ((u32)context[2] < request->__data_len)
		return 0;
	return on_request(request, -1, true);
}
