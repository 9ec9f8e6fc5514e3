// The bucket of a latency: the same arithmetic as src/model/histogram.rs, held together by a test at every boundary.
#pragma once

#include "kernel.h"
#include "record.h"

static __always_inline bool is_under(u64 ns)
{
	return ns < (1ULL << FIRST_EXPONENT);
}

static __always_inline bool is_over(u64 ns)
{
	return ns >> LAST_EXPONENT;
}

// 0 is the bucket under 2^8 ns, HISTOGRAM_BUCKETS + 1 the one from 2^40 ns on.
// 64 bits throughout: a narrower result is widened into another register, and verifiers before 6.2 then lose what
// was checked of it.
static __always_inline u64 bucket_of(u64 ns)
{
	u64 rest = ns, exponent = 0;

	if (is_under(ns))
		return 0;
	if (is_over(ns))
		return HISTOGRAM_BUCKETS + 1;
		// The instruction set has no count of leading zeros. Six comparisons find the highest bit of 40.
#define HALF(bits)                                             \
	if (rest >> bits) {                                    \
		rest >>= bits;                                 \
		exponent += bits;                              \
		asm volatile(""); /* else it compares twice */ \
	}
	HALF(32)
	HALF(16)
	HALF(8)
	HALF(4)
	HALF(2)
#undef HALF
	if (rest >> 1)
		exponent += 1;
	return (exponent - FIRST_EXPONENT) * 16 + ((ns >> (exponent - 4)) & 15) + 1;
}
