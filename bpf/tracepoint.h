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

#define TRACEPOINTS(name, op, kind, arguments, entry) \
	TRACEPOINT_ENTRY_##entry(name, op, kind, TRACEPOINT_DESCRIPTOR_##arguments)
