// Entry and exit of the calls that are watched by default, by tracepoint. A program that is attached to the tracepoint
// of each call in its name is checked by the verifier once, and with it all functions that it calls: that is most of
// the time until the first row. In a 32-bit process the number would be below zero (trace_get_syscall_nr), and the
// kernel runs no such program.
#pragma once

#include "enter.h"
#include "kernel.h"
#include "leave.h"
#include "tracepoint.h"
#include "write.h"

#if defined(__TARGET_ARCH_x86)
#define NUMBER_OF_FSYNC 74
#elif defined(__TARGET_ARCH_arm64)
#define NUMBER_OF_FSYNC 82
#endif
#define NUMBER_OF_FDATASYNC (NUMBER_OF_FSYNC + 1)

// One comparison, because writes come by here, too.
static __always_inline bool is_fsync_or_fdatasync(u32 number)
{
	return number - NUMBER_OF_FSYNC <= NUMBER_OF_FDATASYNC - NUMBER_OF_FSYNC;
}

SEC("tracepoint")
int enter_fsync_or_fdatasync_or_write_or_pwrite64_or_writev_or_pwritev_or_pwritev2(struct enter_context *context)
{
	s32 fd = context->args[0];

	if (is_fsync_or_fdatasync(context->number))
		enter(context->number == NUMBER_OF_FDATASYNC ? OP_FDATASYNC : OP_FSYNC, KIND_FILE, fd);
	else
		enter_write(OP_DSYNC_WRITE, fd, 0, NO_OFFSET, context);
	return 0;
}

SEC("tracepoint")
int exit_fsync_or_fdatasync_or_write_or_pwrite64_or_writev_or_pwritev_or_pwritev2(struct exit_context *context)
{
	u32 thread = bpf_get_current_pid_tgid();
	s64 result = context->result;
	struct call *call;
	u64 now;

	if (is_fsync_or_fdatasync(context->number)) {
		now = bpf_ktime_get_ns();
		call = sync_to_end(thread);
		if (!call)
			return 0;
	} else {
		call = write_to_end(thread, result, 0);
		if (!call)
			return 0;
		now = bpf_ktime_get_ns();
		result = result_of_write(call, result);
	}
	end_call(call, thread, now, result);
	return 0;
}

// Where the kernel may skip these programs, how often it skipped that of the syncs is how many syncs have no end; most
// writes do not count. So the two are apart there, and their entries are kprobes (src/probe/choice.rs).
SEC("tracepoint")
int exit_fsync_or_fdatasync(struct exit_context *context)
{
	leave(context->result);
	return 0;
}

SEC("tracepoint")
int exit_write_or_pwrite64_or_writev_or_pwritev_or_pwritev2(struct exit_context *context)
{
	leave_write(context->result, 0);
	return 0;
}

// The syncs that are watched only if they are asked for.
SEC("tracepoint")
int exit_sync_file_range_or_msync_or_syncfs_or_sync(struct exit_context *context)
{
	leave(context->result);
	return 0;
}
