// The floor: programs that do nothing, on the hooks of the toolkit's own. What they cost, no tracer on these hooks
// can save.

#define SEC(name) __attribute__((section(name), used))

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#if defined(__TARGET_ARCH_x86)
#define WRAPPER(name) "__x64_sys_" #name
#elif defined(__TARGET_ARCH_arm64)
#define WRAPPER(name) "__arm64_sys_" #name
#endif

#define EMPTY(section, name)            \
	SEC(section)                    \
	int name(void *context)         \
	{                               \
		return 0;               \
	}

#define FLOOR(name)                                                 \
	EMPTY("tracepoint/syscalls/sys_enter_" #name, enter_##name) \
	EMPTY("tracepoint/syscalls/sys_exit_" #name, exit_##name)   \
	EMPTY("fentry/" WRAPPER(name), fentry_##name)               \
	EMPTY("fexit/" WRAPPER(name), fexit_##name)                 \
	EMPTY("kprobe.multi/" WRAPPER(name), kprobe_##name)         \
	EMPTY("kretprobe.multi/" WRAPPER(name), kretprobe_##name)

FLOOR(fsync)
FLOOR(fdatasync)
