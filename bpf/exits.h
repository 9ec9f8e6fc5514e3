// The exit of one system call in the modes in which each has a program of its own; user space loads that of the mode
// that is attached. `leave` is given what the call returned.
#pragma once

#include "kernel.h"
#include "kprobe.h"
#include "wrapper.h"

#define EXITS(name, leave)                                 \
	SEC("fexit/" WRAPPER(name))                        \
	int fexit_##name(u64 *context)                     \
	{                                                  \
		leave((s64)context[1]);                    \
		return 0;                                  \
	}                                                  \
	SEC("kretprobe.multi/" WRAPPER(name))              \
	int kretprobe_##name(struct pt_regs *context)      \
	{                                                  \
		check_returns();                           \
		leave(WRAPPER_RESULT(context));            \
		return 0;                                  \
	}
