// Entry and exit by kprobe.multi, for kernels that preempt: ftrace's function graph (since 6.14) runs the programs with
// preemption off, so that no run is preempted and makes the kernel skip another. It costs the watched calls only, more
// than fentry does.
#pragma once

#include "enter.h"
#include "kernel.h"
#include "leave.h"
#include "wrapper.h"

// A program's context is the registers of the wrapper, whose one argument is the registers of the caller.
#if defined(__TARGET_ARCH_x86)
#define WRAPPER_ARGUMENT(context) ((struct pt_regs *)(context)->di)
#define WRAPPER_RESULT(context) ((s64)(context)->ax)
#elif defined(__TARGET_ARCH_arm64)
#define WRAPPER_ARGUMENT(context) ((struct pt_regs *)(context)->regs[0])
#define WRAPPER_RESULT(context) ((s64)(context)->regs[0])
#endif

// Before 6.14 a function's return is followed by rethook, from a small pool of struct fprobe's own: when syncs that
// wait have taken all of it, the returns of others go unseen, and not even the loss is counted. This mode is refused
// there.
bool returns_limited;

static __always_inline void check_returns(void)
{
	if (bpf_core_field_exists(struct fprobe, rethook))
		returns_limited = true;
}

#define KPROBE_DESCRIPTOR_ARGUMENTS(context) ((s32)CAST_ARGUMENT(WRAPPER_ARGUMENT(context), 1))
#define KPROBE_DESCRIPTOR_NO_ARGUMENTS(context) (-1)

#define KPROBES(name, op, kind, arguments, entry)                        \
	SEC("kprobe.multi/" WRAPPER(name))                               \
	int kprobe_##name(struct pt_regs *context)                       \
	{                                                                \
		enter(op, kind, KPROBE_DESCRIPTOR_##arguments(context)); \
		return 0;                                                \
	}                                                                \
	SEC("kretprobe.multi/" WRAPPER(name))                            \
	int kretprobe_##name(struct pt_regs *context)                    \
	{                                                                \
		check_returns();                                         \
		leave(WRAPPER_RESULT(context));                          \
		return 0;                                                \
	}
