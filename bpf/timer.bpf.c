// `fsynctop explain` only: how many syncs of each log are in flight, looked at in a timer's interrupt. A thread that
// looked would have to wait for a processor, and gets one just when others leave the kernel, which is when fewer are in
// flight. No latency is known here, so that the two can disagree.
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "record.h"
#include "waiting.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define add(place, n) __sync_fetch_and_add(place, n)

#define LOGS 2
#define SLOTS_OF_LOG 8

// The rows of each log, which user space writes here; 0: none.
u32 log_slots[LOGS][SLOTS_OF_LOG];

// Each sample stands for the time since the one before on its processor: a virtual machine that was not run for a while
// has fewer of them.
struct log_samples {
	u64 sum_ns;     // number in flight x time
	u64 squares_ns; // its square x time
	u64 several_ns; // time with more than one
	u64 most;
};

// User space maps this.
struct samples {
	u64 taken;
	u64 time_ns;
	struct log_samples log[LOGS];
} samples;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} last_sample SEC(".maps");

static __always_inline u64 in_flight(u32 log)
{
	u64 n = 0;

	for (u32 i = 0; i < SLOTS_OF_LOG; i++) {
		u32 slot = log_slots[log][i];
		struct spent *row = slot ? bpf_map_lookup_elem(&spent, &slot) : 0;

		// The end of a sync of which the begin was not seen would be less than none.
		if (row && row->in_flight > 0)
			n += row->in_flight;
	}
	return n;
}

SEC("perf_event")
int take_sample(void *context)
{
	u32 zero = 0;
	u64 now = bpf_ktime_get_ns(), ns, *last = bpf_map_lookup_elem(&last_sample, &zero);

	if (!last)
		return 0;
	ns = *last ? now - *last : 0;
	*last = now;
	if (!ns)
		return 0;
	add(&samples.taken, 1);
	add(&samples.time_ns, ns);
	for (u32 log = 0; log < LOGS; log++) {
		struct log_samples *here = &samples.log[log];
		u64 n = in_flight(log);

		if (!n)
			continue;
		add(&here->sum_ns, n * ns);
		add(&here->squares_ns, n * n * ns);
		if (n > 1)
			add(&here->several_ns, ns);
		if (here->most < n)
			here->most = n;
	}
	return 0;
}
