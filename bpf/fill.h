// The calls that fill a file otherwise than from the caller's memory: from another file or a pipe, or with nothing.
// They are watched only where all writes are. Elsewhere, a copy into a descriptor with O_DSYNC, which no server is
// known to make, is left to the net.
#pragma once

#include "exits.h"
#include "kernel.h"
#include "kprobe.h"
#include "target.h"
#include "tracepoint.h"
#include "who.h"
#include "wrapper.h"
#include "write.h"

static __always_inline void leave_fill(s64 result)
{
	u32 thread = bpf_get_current_pid_tgid();
	struct call *call;
	struct who who;

	read_who(&who, current_task());
	if (who.tgid != self_tgid && !is_traced(&who))
		return;
	call = write_in_flight(thread);
	if (call)
		end_write(call, thread, result);
}

// By tracepoint, its arguments are counted from 0.
#define TRACEPOINT_ARGUMENT_1 args[0]
#define TRACEPOINT_ARGUMENT_3 args[2]

#define TRACEPOINT_FILLS(name, op, n)                                               \
	SEC("tracepoint/syscalls/sys_enter_" #name)                                 \
	int enter_##name(struct enter_context *context)                             \
	{                                                                           \
		enter_write(op, (s32)context->TRACEPOINT_ARGUMENT_##n, 0, NO_OFFSET, 0);       \
		return 0;                                                           \
	}

#define FENTRY_FILLS(name, op, n)                                                   \
	SEC("fentry/" WRAPPER(name))                                                \
	int fentry_##name(u64 *context)                                             \
	{                                                                           \
		struct pt_regs *registers = (void *)context[0];                     \
		enter_write(op, (s32)ARGUMENT(registers, n), 0, NO_OFFSET, 0);                 \
		return 0;                                                           \
	}

#define KPROBE_FILLS(name, op, n)                                                   \
	SEC("kprobe.multi/" WRAPPER(name))                                          \
	int kprobe_##name(struct pt_regs *context)                                  \
	{                                                                           \
		enter_write(op, (s32)CAST_ARGUMENT(WRAPPER_ARGUMENT(context), n), 0, NO_OFFSET, 0); \
		return 0;                                                           \
	}

#define EXIT_FILLS(name, op, n) EXITS(name, leave_fill)

// Attached to the tracepoint of each call in its name.
SEC("tracepoint")
int exit_sendfile64_or_splice_or_copy_file_range_or_fallocate(struct exit_context *context)
{
	leave_fill(context->result);
	return 0;
}
