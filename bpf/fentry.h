// Entry and exit by BPF's own trampoline, which costs the watched calls only.
#pragma once

#include "enter.h"
#include "kernel.h"
#include "leave.h"
#include "wrapper.h"

#define FENTRY_ARGUMENTS(name, op, kind)                   \
	SEC("fentry/" WRAPPER(name))                       \
	int fentry_##name(u64 *context)                    \
	{                                                  \
		struct pt_regs *regs = (void *)context[0]; \
		enter(op, kind, (s32)ARGUMENT(regs, 1));     \
		return 0;                                  \
	}                                                  \
	SEC("fexit/" WRAPPER(name))                        \
	int fexit_##name(u64 *context)                     \
	{                                                  \
		leave((s64)context[1]);                    \
		return 0;                                  \
	}
#define FENTRY_NO_ARGUMENTS(name, op, kind)

#define FENTRIES(name, op, kind, arguments, entry) FENTRY_##arguments(name, op, kind)
