// Writes. One that is durable when it returns is an operation like a sync, with the bytes that were written; of all
// others only those that fail are counted, unless all are watched: then each is an operation of another kind.
//
// These programs run at every write of the host. A process that is not traced leaves them once that is known, before
// the clock is read; a write of a traced one that is not durable, once the file is.
#pragma once

#include "add.h"
#include "enter.h"
#include "events.h"
#include "fentry.h"
#include "identity.h"
#include "inflight.h"
#include "kernel.h"
#include "kprobe.h"
#include "leave.h"
#include "lookup.h"
#include "parts.h"
#include "read.h"
#include "record.h"
#include "rows.h"
#include "self.h"
#include "target.h"
#include "tracepoint.h"
#include "unsynced.h"
#include "who.h"
#include "wrapper.h"

// Whether an inode holds data at all: a socket's or a pipe's does not.
static __always_inline bool stores_data(u16 mode)
{
	mode &= S_IFMT;
	return mode == S_IFREG || mode == S_IFBLK;
}

// chattr +S, and mount -o sync, of the layer that a file of an overlay lies on. Not static: see lookup.h.
__noinline int is_synchronous_below(u64 address)
{
	struct inode *inode;
	struct file *file;

	for (int i = 0; i < OVERLAYS; i++) {
		address = file_below(address);
		file = (struct file *)address;
		inode = BPF_CORE_READ(file, f_inode);
		if ((BPF_CORE_READ(inode, i_flags) & S_SYNC) || (BPF_CORE_READ(inode, i_sb, s_flags) & SB_SYNCHRONOUS))
			return true;
		if (BPF_CORE_READ(inode, i_sb, s_magic) != OVERLAYFS_SUPER_MAGIC)
			break;
	}
	return false;
}

// What a write to the file is counted as; OPS if not at all. What is durable is decided as the kernel does (iocb_flags
// and iocb_is_dsync in include/linux/fs.h); O_SYNC includes O_DSYNC.
static __always_inline u32 op_of_write(struct file *file, u32 flags)
{
	unsigned long mount_flags, magic;
	u32 open_flags, inode_flags;
	u16 mode;

	if (typed_cast) {
		struct file *typed = bpf_rdonly_cast(file, bpf_core_type_id_kernel(struct file));
		struct inode *inode = typed->f_inode;
		struct super_block *sb = inode->i_sb;

		open_flags = typed->f_flags;
		mode = inode->i_mode;
		inode_flags = inode->i_flags;
		mount_flags = sb->s_flags;
		magic = sb->s_magic;
	} else {
		struct inode *inode = BPF_CORE_READ(file, f_inode);

		open_flags = BPF_CORE_READ(file, f_flags);
		mode = BPF_CORE_READ(inode, i_mode);
		inode_flags = BPF_CORE_READ(inode, i_flags);
		mount_flags = BPF_CORE_READ(inode, i_sb, s_flags);
		magic = BPF_CORE_READ(inode, i_sb, s_magic);
	}
	if (!stores_data(mode))
		return OPS;
	if ((open_flags & O_DSYNC) || (flags & RWF_DURABLE) || (inode_flags & S_SYNC) || (mount_flags & SB_SYNCHRONOUS))
		return OP_DSYNC_WRITE;
	if (magic == OVERLAYFS_SUPER_MAGIC && is_synchronous_below((u64)file))
		return OP_DSYNC_WRITE;
	return all_writes ? OP_WRITE : OPS;
}

// Where the kernel may skip programs, the exit of the thread's last durable write may have been: its start must not
// stay for the exit of this write, which is not durable.
static __always_inline void forget_skipped_exit(void)
{
	struct call *call;

	if (!programs_skipped)
		return;
	call = call_find(bpf_get_current_pid_tgid());
	if (!call || !call->start_ns)
		return;
	count(entries_without_exit);
	call->start_ns = 0;
}

#if defined(__TARGET_ARCH_x86)
#define NUMBER_OF_PWRITE64 18
#define NUMBER_OF_PWRITEV 296
#define NUMBER_OF_PWRITEV2 328
#elif defined(__TARGET_ARCH_arm64)
#define NUMBER_OF_PWRITE64 68
#define NUMBER_OF_PWRITEV 70
#define NUMBER_OF_PWRITEV2 287
#endif

// The one call with flags has them behind the arguments of the others. They are read by a helper, because a program
// that itself reads more arguments than a call has cannot be attached to that call's tracepoint.
static __always_inline u32 flags_of(struct enter_context *context)
{
	u64 flags = 0;

	if (context->number == NUMBER_OF_PWRITEV2)
		bpf_probe_read_kernel(&flags, sizeof(flags), &context->args[5]);
	return flags;
}

// The same of the offset, which is looked at only where it could tell anything.
static __always_inline u64 offset_of(struct enter_context *context)
{
	u32 number = context->number;
	u64 offset = NO_OFFSET;

	if (parts_end &&
	    (number == NUMBER_OF_PWRITE64 || number == NUMBER_OF_PWRITEV || number == NUMBER_OF_PWRITEV2))
		bpf_probe_read_kernel(&offset, sizeof(offset), &context->args[3]);
	return offset;
}

// `own_op`: what a call of the self-test is counted as. `context`: by tracepoint, where flags and offset are read from
// it.
static __always_inline void enter_write(u32 own_op, s32 fd, u32 flags, u64 offset, struct enter_context *context)
{
	struct task_struct *task = current_task();
	struct file *file;
	struct call *call;
	u32 op = own_op;
	struct who who;
	bool own;
	u64 now;

	if (stopped)
		return;
	read_who(&who, task);
	own = who.tgid == self_tgid;
	if (own ? TASK_READ(task, pid) != self_tid : !is_traced(&who))
		return;
	if (context)
		flags = flags_of(context);
	file = file_of(task, fd);
	if (!own && file && own_op == OP_FALLOCATE)
		op = stores_data(BPF_CORE_READ(file, f_inode, i_mode)) ? OP_FALLOCATE : OPS;
	else if (!own)
		op = file ? op_of_write(file, flags) : flags & RWF_DURABLE ? OP_DSYNC_WRITE : OPS;
	if (op == OPS) {
		forget_skipped_exit();
		return;
	}
	if (all_writes && !own && op == OP_WRITE)
		op = op_at(context ? offset_of(context) : offset, file, OP_WRITE, OP_PART_WRITE);
	now = bpf_ktime_get_ns();
	call = start_call(task, op, fd);
	if (!call)
		return;
	if (own)
		enter_own(call->number, (u64)file, row_kind(file, KIND_FILE));
	else
		enter_traced(call, &who, file, op, KIND_FILE, fd, now);
}

// Errors that say nothing of the file: the caller asked not to wait (EAGAIN), or a signal came first (512 and above are
// the kernel's own, include/linux/errno.h).
#define EBADF 9
#define EAGAIN 11
#define FIRST_INTERNAL_ERROR 512

// Of a write that is not durable, by the current process. `address`: the open file's, if there is one. Not static: see
// lookup.h. Rare.
__noinline int count_failure(u64 address, s32 fd, u32 op, u32 error)
{
	struct task_struct *task = current_task_rarely();
	struct file *file = (struct file *)address;
	u32 thread = bpf_get_current_pid_tgid();
	struct call *call;
	struct row *row;
	struct who who;
	u32 slot, kind;

	if (stopped || error == EAGAIN || error >= FIRST_INTERNAL_ERROR)
		return 0;
	read_who(&who, task);
	if (who.tgid == self_tgid || !is_traced(&who))
		return 0;
	if (file && !stores_data(BPF_CORE_READ(file, f_inode, i_mode)))
		return 0;
	call = call_begin(thread);
	if (!call) {
		count(no_call_state);
		return 0;
	}
	if (call->start_ns) {
		count(entries_without_exit);
		call->start_ns = 0;
	}
	call->op = op;
	call->fd = fd;
	kind = file ? KIND_FILE : error == EBADF ? KIND_BAD_DESCRIPTOR : KIND_NO_FILE;
	note_server(call->number);
	slot = find_row((u64)file, kind, true, call->number);
	row = row_at(slot);
	if (row && slot >= FIRST_NEIGHBOUR_SLOT) {
		if (file)
			tell_name(row, name_hash(file), file, fd, slot);
	} else {
		if (!row || may_tell_failure()) {
			if (file)
				send_name((u64)file, fd, NO_SLOT, call->number);
			if (send_sync(&call->id, 0, -(s64)error))
				goto end;
		}
		count(no_row);
		slot = op;
		row = row_at(slot);
		if (!row)
			goto end;
	}
	// How long it took is not known, and nobody asks.
	add(&row->started, 1);
	add(&row->errors, 1);
	count_error(slot, row->sequence, error);
	add(&row->under, 1);
end:
	call_end(call, thread);
	return 0;
}

static __always_inline void count_failed_write(s32 fd, u32 error)
{
	count_failure((u64)file_of(current_task_rarely(), fd), fd, OP_WRITE, error);
}

// The descriptor of the call that the thread is leaving; -1 if it is not known. Another thread may have closed it and
// opened another file in its place meanwhile.
static __always_inline s32 descriptor_at_exit(struct pt_regs *registers)
{
	if (!registers) {
		if (!task_registers)
			return -1;
		registers = registers_at_entry();
	}
	return (s32)READ_ARGUMENT(registers, 1_AT_EXIT);
}

static __always_inline u32 flags_at_exit(void)
{
	struct pt_regs *registers;

	if (!task_registers)
		return 0;
	registers = registers_at_entry();
	return NUMBER_OF_CALL(registers) == NUMBER_OF_PWRITEV2 ? READ_ARGUMENT(registers, 6) : 0;
}

// A write of which no entry is known, where the kernel may have skipped it. Not static: see lookup.h.
__noinline int count_lone_write(s32 fd)
{
	struct file *file = file_of(current_task_rarely(), fd);

	if (file && op_of_write(file, flags_at_exit()) != OPS)
		count_lone_exit(bpf_get_current_pid_tgid());
	return 0;
}

static __always_inline bool is_write(u32 op)
{
	return op == OP_DSYNC_WRITE || op == OP_WRITE || op == OP_PART_WRITE || op == OP_FALLOCATE;
}

// The counted write that the thread is in. Where only durable ones are counted, it is nearly always in none, and has no
// slot, or its own at the first of its two indices.
static __always_inline struct call *write_in_flight(u32 thread)
{
	u32 index = thread & call_mask;
	struct call *call = call_at(index);

	if (!call || (u32)call->owner != thread || (call->owner & OWNER_RECLAIMING))
		call = call_find(thread);
	return call && call->start_ns && is_write(call->op) ? call : 0;
}

// What a write returned, as it counts.
static __always_inline s64 result_of_write(struct call *call, s64 result)
{
	// It answers who asked not to wait, and nothing was written.
	return leaves_unsynced(call->op) && result == -EAGAIN ? 0 : result;
}

static __always_inline void end_write(struct call *call, u32 thread, s64 result)
{
	end_call(call, thread, bpf_ktime_get_ns(), result_of_write(call, result));
}

// The counted write that the thread is leaving; 0 if there is none, and it then counts if it has failed.
// `registers`: those of the call, where the program is given them.
static __always_inline struct call *write_to_end(u32 thread, s64 result, struct pt_regs *registers)
{
	struct call *call;
	struct who who;

	read_who(&who, current_task());
	if (who.tgid != self_tgid && !is_traced(&who))
		return 0;
	call = write_in_flight(thread);
	if (call)
		return call;
	if (result < 0)
		count_failed_write(descriptor_at_exit(registers), -result);
	else if (programs_skipped && task_registers && who.tgid != self_tgid)
		count_lone_write(descriptor_at_exit(registers));
	return 0;
}

static __always_inline void leave_write(s64 result, struct pt_regs *registers)
{
	u32 thread = bpf_get_current_pid_tgid();
	struct call *call = write_to_end(thread, result, registers);

	if (call)
		end_write(call, thread, result);
}

#define FENTRY_FLAGS(registers) ((u32)ARGUMENT(registers, 6))
#define FENTRY_NO_FLAGS(registers) 0
#define FENTRY_OFFSET(registers) ARGUMENT(registers, 4)
#define FENTRY_NO_OFFSET(registers) NO_OFFSET

#define FENTRY_WRITES(name, flags, offset)                                             \
	SEC("fentry/" WRAPPER(name))                                                   \
	int fentry_##name(u64 *context)                                                \
	{                                                                              \
		struct pt_regs *registers = (void *)context[0];                        \
		enter_write(OP_DSYNC_WRITE, (s32)ARGUMENT(registers, 1), FENTRY_##flags(registers), \
			    FENTRY_##offset(registers), 0);                            \
		return 0;                                                              \
	}                                                                              \
	SEC("fexit/" WRAPPER(name))                                                    \
	int fexit_##name(u64 *context)                                                 \
	{                                                                              \
		leave_write((s64)context[1], (struct pt_regs *)context[0]);            \
		return 0;                                                              \
	}

#define KPROBE_FLAGS(registers) ((u32)CAST_ARGUMENT(registers, 6))
#define KPROBE_NO_FLAGS(registers) 0
#define KPROBE_OFFSET(registers) (all_writes ? CAST_ARGUMENT(registers, 4) : NO_OFFSET)
#define KPROBE_NO_OFFSET(registers) NO_OFFSET

#define KPROBE_WRITES(name, flags, offset)                                      \
	SEC("kprobe.multi/" WRAPPER(name))                                      \
	int kprobe_##name(struct pt_regs *context)                              \
	{                                                                       \
		struct pt_regs *registers = WRAPPER_ARGUMENT(context);          \
		enter_write(OP_DSYNC_WRITE, (s32)CAST_ARGUMENT(registers, 1), KPROBE_##flags(registers), \
			    KPROBE_##offset(registers), 0);                     \
		return 0;                                                       \
	}                                                                       \
	SEC("kretprobe.multi/" WRAPPER(name))                                   \
	int kretprobe_##name(struct pt_regs *context)                           \
	{                                                                       \
		check_returns();                                                \
		leave_write(WRAPPER_RESULT(context), 0);                        \
		return 0;                                                       \
	}
