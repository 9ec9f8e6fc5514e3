// The floor: programs that do nothing, on the hooks of the toolkit's own. What they cost, no tracer on these hooks
// can save. Programs that only read the clock, as each must that measures a latency. And some that read it and count
// the calls of each descriptor in a hash, the least that tells files apart.

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

struct {
	int (*type)[1]; // BPF_MAP_TYPE_HASH
	int (*max_entries)[131072];
	unsigned long long *key; // thread and descriptor: the load's threads have descriptors of their own
	unsigned long long *value;
} descriptors SEC(".maps");

static void *(*const look_up)(void *map, const void *key) = (void *)1;
static long (*const update)(void *map, const void *key, const void *value, unsigned long long flags) = (void *)2;
static unsigned long long (*const process_and_thread)(void) = (void *)14;

struct enter_context {
	unsigned long long common, number, args[6];
};

static __attribute__((always_inline)) int count_descriptor(unsigned long long descriptor)
{
	unsigned long long key = process_and_thread() << 32 | descriptor, one = 1, *n = look_up(&descriptors, &key);

	if (n)
		__sync_fetch_and_add(n, 1);
	else
		update(&descriptors, &key, &one, 0);
	read_clock();
	return 0;
}

#define COUNT(name)                                                  \
	SEC("tracepoint/syscalls/sys_enter_" #name)                  \
	int count_enter_##name(struct enter_context *context)        \
	{                                                            \
		return count_descriptor(context->args[0]);           \
	}                                                            \
	CLOCK("tracepoint/syscalls/sys_exit_" #name, count_exit_##name)

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
FLOOR(write)
FLOOR(pwrite64)
FLOOR(writev)
FLOOR(pwritev)
FLOOR(pwritev2)
FLOOR(io_submit)
FLOOR(io_getevents)
FLOOR(io_pgetevents)
FLOOR(io_destroy)
BOTH("raw_tp/io_uring_submit_req", ring_submit)
BOTH("raw_tp/io_uring_complete", ring_complete)
BOTH("raw_tp/ext4_sync_file_enter", net_ext4)
COUNT(fdatasync)
