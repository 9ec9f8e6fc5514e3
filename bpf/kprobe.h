// Entry and exit by kprobe.multi, for kernels that preempt: what follows the function (ftrace's graph, since 6.14) runs
// the programs with preemption off, so that none is preempted and hides another's. It costs the watched calls only,
// more than fentry does.
#pragma once

// A program's context is the wrapper's registers; its one argument are those of the system call.
#if defined(__TARGET_ARCH_x86)
#define WRAPPER_ARGUMENT(context) ((struct pt_regs *)(context)->di)
#define WRAPPER_RESULT(context) ((s64)(context)->ax)
#elif defined(__TARGET_ARCH_arm64)
#define WRAPPER_ARGUMENT(context) ((struct pt_regs *)(context)->regs[0])
#define WRAPPER_RESULT(context) ((s64)(context)->regs[0])
#endif

static __always_inline s32 descriptor_of(struct pt_regs *call)
{
	if (typed_cast)
		return FIRST_ARGUMENT((struct pt_regs *)bpf_rdonly_cast(call, bpf_core_type_id_kernel(struct pt_regs)));
#if defined(__TARGET_ARCH_x86)
	return (s32)BPF_CORE_READ(call, di);
#elif defined(__TARGET_ARCH_arm64)
	return (s32)BPF_CORE_READ(call, regs[0]);
#endif
}

// Before 6.14 a function's return is followed by rethook, in one of a few places that were set aside (struct fprobe's
// own): when they are taken up by syncs that wait, others' returns go unseen, uncounted even as lost. Then this mode
// does not serve.
bool returns_limited;

static __always_inline void check_returns(void)
{
	if (bpf_core_field_exists(struct fprobe, rethook))
		returns_limited = true;
}

#define KPROBES(name, op, kind)                                                 \
	SEC("kprobe.multi/" WRAPPER(name))                                      \
	int kprobe_##name(struct pt_regs *context)                              \
	{                                                                       \
		enter(op, kind, descriptor_of(WRAPPER_ARGUMENT(context)));      \
		return 0;                                                       \
	}                                                                       \
	SEC("kretprobe.multi/" WRAPPER(name))                                   \
	int kretprobe_##name(struct pt_regs *context)                           \
	{                                                                       \
		check_returns();                                                \
		leave(op, WRAPPER_RESULT(context));                             \
		return 0;                                                       \
	}

// Without arguments, as sync is.
SEC("kprobe.multi/" WRAPPER(sync))
int kprobe_sync(struct pt_regs *context)
{
	enter(OP_SYNC, KIND_NO_FILE, -1);
	return 0;
}

SEC("kretprobe.multi/" WRAPPER(sync))
int kretprobe_sync(struct pt_regs *context)
{
	check_returns();
	leave(OP_SYNC, WRAPPER_RESULT(context));
	return 0;
}
