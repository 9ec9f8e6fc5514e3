// The bucket function alone, for a test that holds it against src/model/histogram.rs.
#include "../histogram.h"
#include "../kernel.h"
#include "../record.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

// Run by BPF_PROG_TEST_RUN only; the context is one latency in nanoseconds.
SEC("raw_tp")
int bucket(u64 *context)
{
	return bucket_of(context[0]);
}
