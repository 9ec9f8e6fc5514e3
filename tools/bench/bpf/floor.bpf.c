// The floor: programs that do nothing, on the hooks of the toolkit's own. What they cost, no tracer on these hooks
// can save. And programs that only read the clock, as each must that measures a latency.

#define SEC(name) __attribute__((section(name), used))

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#if defined(__TARGET_ARCH_x86)
#define WRAPPER(name) "__x64_sys_" #name
#elif defined(__TARGET_ARCH_arm64)
#define WRAPPER(name) "__arm64_sys_" #name
#endif

static unsigned long long (*const read_clock)(void) = (void *)5; // bpf_ktime_get_ns

#define CLOCK(section, name)            \
	SEC(section)                    \
	int name(void *context)         \
	{                               \
		read_clock();           \
		return 0;               \
	}

#define EMPTY(section, name)            \
	SEC(section)                    \
	int name(void *context)         \
	{                               \
		return 0;               \
	}

#define BOTH(section, name) EMPTY(section, empty_##name) CLOCK(section, clock_##name)

#define FLOOR(name)                                                \
	BOTH("tracepoint/syscalls/sys_enter_" #name, enter_##name) \
	BOTH("tracepoint/syscalls/sys_exit_" #name, exit_##name)   \
	BOTH("fentry/" WRAPPER(name), fentry_##name)               \
	BOTH("fexit/" WRAPPER(name), fexit_##name)                 \
	BOTH("kprobe.multi/" WRAPPER(name), kprobe_##name)         \
	BOTH("kretprobe.multi/" WRAPPER(name), kretprobe_##name)

FLOOR(fsync)
FLOOR(fdatasync)
