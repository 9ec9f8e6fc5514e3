// `fsynctop explain` only: how many syncs of each log are in flight, looked at in a timer's interrupt. A thread that
// looked would have to wait for a processor, and gets one just when others leave the kernel, which is when fewer are in
// flight. No latency is known here, so that the two can disagree.
#include "kernel.h"
#include "record.h"
#include "waiting.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum timer_limit {
	LOGS = 2,
	SLOTS_OF_LOG = 8,
};
enum timer_limit timer_limit; // only for its type, from which the Rust side is made

// The rows of each log, which user space writes here; 0: none.
u32 log_slots[LOGS][SLOTS_OF_LOG];

// Each sample stands for the time since the one before: a virtual machine that was not run for a while has fewer of
// them.
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
	u64 squares_us; // of the times that the samples stand for: the fewer are alike, the less they tell
	struct log_samples log[LOGS];
} samples;

u64 last_sample;

static __always_inline u64 syncs_in_flight(u32 log)
{
	u64 n = 0;

	for (u32 i = 0; i < SLOTS_OF_LOG; i++) {
		u32 slot = log_slots[log][i];
		struct spent *row = slot ? bpf_map_lookup_elem(&spent, &slot) : 0;
		// Looked at once: others change it meanwhile.
		s64 here = row ? *(volatile s64 *)&row->in_flight : 0;

		// The end of a sync of which the begin was not seen would be less than none.
		if (here > 0)
			n += here;
	}
	return n;
}

// Runs on one processor only, which nothing interrupts meanwhile.
SEC("perf_event")
int take_sample(void *context)
{
	u64 now = bpf_ktime_get_ns(), ns = last_sample ? now - last_sample : 0, us;

	last_sample = now;
	if (!ns)
		return 0;
	samples.taken++;
	samples.time_ns += ns;
	us = ns / 1000;
	samples.squares_us += us * us;
	for (u32 log = 0; log < LOGS; log++) {
		struct log_samples *here = &samples.log[log];
		u64 n = syncs_in_flight(log);

		if (!n)
			continue;
		here->sum_ns += n * ns;
		here->squares_ns += n * n * ns;
		if (n > 1)
			here->several_ns += ns;
		if (here->most < n)
			here->most = n;
	}
	return 0;
}
