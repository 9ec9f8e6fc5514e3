// Entry and exit by the tracepoints of system calls.
#pragma once

#include "enter.h"
#include "kernel.h"
#include "leave.h"

struct enter_context {
	u64 common;
	s32 number;
	u32 pad;
	u64 args[6];
};

struct exit_context {
	u64 common;
	s32 number;
	u32 pad;
	s64 result;
};

#define TRACEPOINT_DESCRIPTOR_ARGUMENTS(context) ((s32)(context)->args[0])
#define TRACEPOINT_DESCRIPTOR_NO_ARGUMENTS(context) (-1)

#define TRACEPOINT_ENTRY_OWN(name, op, kind, descriptor) \
	SEC("tracepoint/syscalls/sys_enter_" #name)      \
	int enter_##name(struct enter_context *context)  \
	{                                                \
		enter(op, kind, descriptor(context));    \
		return 0;                                \
	}
#define TRACEPOINT_ENTRY_SHARED(name, op, kind, descriptor)

#define TRACEPOINTS(name, op, kind, arguments, entry)                                                    \
	TRACEPOINT_ENTRY_##entry(name, op, kind, TRACEPOINT_DESCRIPTOR_##arguments)                      \
		SEC("tracepoint/syscalls/sys_exit_" #name) int exit_##name(struct exit_context *context) \
	{                                                                                                \
		leave(op, context->result);                                                              \
		return 0;                                                                                \
	}

#if defined(__TARGET_ARCH_x86)
#define NUMBER_OF_FDATASYNC 75
#elif defined(__TARGET_ARCH_arm64)
#define NUMBER_OF_FDATASYNC 83
#endif

// Attached to both, because both are nearly always wanted, and checking the program twice takes the verifier a tenth of
// the time until the first row. In a 32-bit process the number would be below zero (trace_get_syscall_nr), and the
// kernel runs no such program.
SEC("tracepoint")
int enter_fsync_or_fdatasync(struct enter_context *context)
{
	enter(context->number == NUMBER_OF_FDATASYNC ? OP_FDATASYNC : OP_FSYNC, KIND_FILE, (s32)context->args[0]);
	return 0;
}
