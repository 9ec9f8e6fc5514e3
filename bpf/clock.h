// Level two: one clock for each filesystem with a journal or log, which adds up how long its committer was doing what.
// A wait notes the clock when it begins and again when it ends; the difference is what it waited for, exactly, however
// many wait at a time. bpf_spin_lock keeps interrupts off; 5.10 has none for programs of tp_btf: no clocks there.
#pragma once

enum clock_limit {
	CLOCKS = 64,
	COMMITTER_RANGES = 32,
	COMMITTER_FRAMES = 24,
	CLOCKS_OF_DISK = 4,
};

const volatile bool clocks_allowed; // else the verifier takes out what needs their lock
const volatile bool queue_before_request; // among the arguments of the devices' hooks (up to 5.10)

// Functions of the kernel by which a committer's stack is told: [begin, end) and what it is doing in there.
const volatile u64 range_begin[COMMITTER_RANGES];
const volatile u64 range_end[COMMITTER_RANGES];
const volatile u32 range_state[COMMITTER_RANGES];

struct clock {
	struct bpf_spin_lock lock;
	u32 by_device;   // there is no one committer (XFS): what its device does says what is waited for
	u32 state;       // of the committer
	u32 flushes;     // requests in flight on its devices: flushes, and writes that are to be on disk when they end
	u32 logs;        // writes of metadata, which the log's are
	u32 reserved;
	u64 since;       // when it was last brought up to date
	u64 ns[COMMITTER_STATES];
	u64 flushes_done; // ended in the window
	u64 logs_done;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CLOCKS);
	__type(key, u32);
	__type(value, struct clock);
} clocks SEC(".maps");

// From a superblock's device to 1 + the index of its clock.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CLOCKS);
	__type(key, u32);
	__type(value, u32);
} filesystems SEC(".maps");

// From a whole disk to the clocks of the filesystems on it: 1 + index, 0 after the last.
struct disk {
	u32 clock[CLOCKS_OF_DISK];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4 * CLOCKS);
	__type(key, u32);
	__type(value, struct disk);
} disks SEC(".maps");

// Threads that commit, to 1 + the index of their clock.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4 * CLOCKS);
	__type(key, u32);
	__type(value, u32);
} committers SEC(".maps");

// Commits begun in the window. Apart from the clocks, whose lock is refused to programs on tracepoints' format.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CLOCKS + 1);
	__type(key, u32);
	__type(value, u64);
} commits SEC(".maps");

// Who changed metadata: parts of transactions begun in the window, by process.
struct writer_key {
	u32 clock;
	u32 tgid;
	u8 comm[16]; // of the thread group's leader
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct writer_key);
	__type(value, u64);
} writers SEC(".maps");

static __always_inline struct clock *clock_at(u32 number)
{
	u32 index = number - 1;

	return number ? bpf_map_lookup_elem(&clocks, &index) : 0;
}

static __always_inline u32 clock_of(u32 device)
{
	u32 *number = bpf_map_lookup_elem(&filesystems, &device);

	return number ? *number : 0;
}

// With the lock held. `begin`, `end`: the window.
static __always_inline void advance(struct clock *c, u64 begin, u64 end, u64 now)
{
	u64 from = c->since, to = now;
	u32 state = c->state;

	if (c->by_device)
		state = c->flushes ? COMMITTER_FLUSH : c->logs ? COMMITTER_LOG : COMMITTER_IDLE;
	else if (state == COMMITTER_LOG && c->flushes)
		state = COMMITTER_FLUSH;
	if (now > c->since)
		c->since = now;
	if (from < begin)
		from = begin;
	if (end && to > end)
		to = end;
	if (begin && to > from)
		c->ns[state & (COMMITTER_STATES - 1)] += to - from;
}

// The clock as it stands now. False: there is none.
static __always_inline bool read_clock(u32 number, u64 *ns, u64 now)
{
	struct clock *c = clock_at(number);
	struct window *w = the_window();
	u64 begin, end;

	if (!clocks_allowed || !c || !w)
		return false;
	begin = w->start_ns;
	end = w->end_ns;
	bpf_spin_lock(&c->lock);
	advance(c, begin, end, now);
	for (int i = 0; i < COMMITTER_STATES; i++)
		ns[i] = c->ns[i];
	bpf_spin_unlock(&c->lock);
	return true;
}

static __noinline void remember_clock(struct waiting *w, u64 now)
{
	u32 number;

	if (!w)
		return;
	number = w->device ? clock_of(w->device) : 0;
	w->clock = number && read_clock(number, w->under, now) ? number : 0;
}

static __always_inline void add_since(struct wait_total *total, struct waiting *w, u64 now)
{
	u64 ns[COMMITTER_STATES];

	if (!read_clock(w->clock, ns, now))
		return;
	for (int i = 0; i < COMMITTER_STATES; i++)
		if (ns[i] > w->under[i])
			add(&total->under[i], ns[i] - w->under[i]);
}

static __noinline void set_committer(u32 number, u32 state, u64 now)
{
	struct clock *c = clock_at(number);
	struct window *w = the_window();
	u64 begin, end;

	if (!clocks_allowed || !c || !w)
		return;
	begin = w->start_ns;
	end = w->end_ns;
	bpf_spin_lock(&c->lock);
	advance(c, begin, end, now);
	c->state = state;
	bpf_spin_unlock(&c->lock);
}

// What a committer is doing whose stack holds this return address. A global function: the verifier looks at it once,
// not once for each frame (5.6).
__noinline u32 state_at(u64 address)
{
	u32 state = COMMITTER_IDLE;

	for (u32 i = 0; i < COMMITTER_RANGES; i++)
		if (address > range_begin[i] && address <= range_end[i] && range_state[i] < state)
			state = range_state[i];
	return state;
}

// What a committer with this stack waits for. Idle, if it is in none of the functions.
static __noinline u32 committer_state(struct stack *stack, s64 bytes)
{
	u32 n = bytes > 0 ? bytes / sizeof(u64) : 0, state = COMMITTER_IDLE;

	if (!stack)
		return state;
	for (u32 i = 0; i < COMMITTER_FRAMES; i++) {
		u32 here = i < n ? state_at(stack->frame[i]) : COMMITTER_IDLE;

		if (here < state)
			state = here;
	}
	return state;
}

static __always_inline u32 committer_of(struct task_struct *task)
{
	u32 thread, *number;

	if (!(task->flags & PF_KTHREAD))
		return 0;
	thread = task->pid;
	number = bpf_map_lookup_elem(&committers, &thread);
	return number ? *number : 0;
}

enum req_flag_bits {
	__REQ_META = 12,
	__REQ_FUA = 17,
	__REQ_PREFLUSH = 18,
};
#define REQ_OP_MASK 0xff
#define REQ_OP_WRITE 1
#define REQ_OP_FLUSH 2
#define HAS(flags, bit) ((flags) & (1 << bpf_core_enum_value(enum req_flag_bits, bit)))

static __always_inline u32 disk_of(struct request *request)
{
	struct gendisk *disk;

	if (bpf_core_field_exists(struct request_queue, disk))
		disk = request->q->disk;
	else
		disk = ((struct request___disk *)request)->rq_disk;
	return disk ? disk->major << 20 | disk->first_minor : 0;
}

enum request_kind {
	REQUEST_ELSE = 0,
	REQUEST_FLUSH = 1,
	REQUEST_LOG = 2,
};

static __always_inline u32 kind_of(struct request *request)
{
	u32 flags = request->cmd_flags;

	if ((flags & REQ_OP_MASK) == REQ_OP_FLUSH || HAS(flags, __REQ_FUA) || HAS(flags, __REQ_PREFLUSH))
		return REQUEST_FLUSH;
	return (flags & REQ_OP_MASK) == REQ_OP_WRITE && HAS(flags, __REQ_META) ? REQUEST_LOG : REQUEST_ELSE;
}

// `change`: 1, a request is given to the device; -1, it came back; `done`: from the device, not to be given again.
static __noinline void count_request(u32 number, u32 kind, s32 change, bool done, u64 now)
{
	struct clock *c = clock_at(number);
	struct window *w = the_window();
	u64 begin, end;
	bool counts;

	if (!clocks_allowed || !c || !w)
		return;
	begin = w->start_ns;
	end = w->end_ns;
	counts = done && begin && now >= begin && (!end || now < end);
	bpf_spin_lock(&c->lock);
	advance(c, begin, end, now);
	// One that was given to the device before the hooks were there comes back, too.
	if (kind == REQUEST_FLUSH) {
		if (change > 0 || c->flushes)
			c->flushes += change;
		c->flushes_done += counts;
	} else {
		if (change > 0 || c->logs)
			c->logs += change;
		c->logs_done += counts;
	}
	bpf_spin_unlock(&c->lock);
}

static __always_inline int on_request(struct request *request, s32 change, bool done)
{
	u32 kind = kind_of(request), device;
	u64 now;
	struct disk *disk;

	if (kind == REQUEST_ELSE)
		return 0;
	device = disk_of(request);
	disk = bpf_map_lookup_elem(&disks, &device);
	if (!disk)
		return 0;
	now = bpf_ktime_get_ns();
	for (int i = 0; i < CLOCKS_OF_DISK; i++)
		if (disk->clock[i])
			count_request(disk->clock[i], kind, change, done, now);
	return 0;
}

// Two loads that the compiler cannot make one of: one from a computed place is refused by kernels of that time.
static __always_inline struct request *request_of(u64 *context)
{
	struct request *request;

	if (queue_before_request)
		asm volatile("%0 = *(u64 *)(%1 + 8)" : "=r"(request) : "r"(context));
	else
		asm volatile("%0 = *(u64 *)(%1 + 0)" : "=r"(request) : "r"(context));
	return request;
}

SEC("tp_btf/block_rq_issue")
int issue_request(u64 *context)
{
	return on_request(request_of(context), 1, false);
}

SEC("tp_btf/block_rq_requeue")
int requeue_request(u64 *context)
{
	return on_request(request_of(context), -1, false);
}

// Of a request that ends in parts, the last.
SEC("tp_btf/block_rq_complete")
int complete_request(u64 *context)
{
	struct request *request = (void *)context[0];

	if ((u32)context[2] < request->__data_len)
		return 0;
	return on_request(request, -1, true);
}

// The tracepoints of jbd2 all begin with the filesystem's device.
struct jbd2_context {
	u64 common;
	u32 device;
};

SEC("tracepoint/jbd2/jbd2_start_commit")
int start_commit(struct jbd2_context *context)
{
	u32 number = clock_of(context->device), thread = bpf_get_current_pid_tgid();
	struct window *w = the_window();
	u64 *n, now = bpf_ktime_get_ns();

	if (!number || !w)
		return 0;
	// From now on the scheduler's hook knows it. What it does is known from the next time that it is switched.
	if (!bpf_map_lookup_elem(&committers, &thread))
		bpf_map_update_elem(&committers, &thread, &number, 0);
	n = bpf_map_lookup_elem(&commits, &number);
	if (n && within(w, now, now + 1))
		add(n, 1);
	return 0;
}

SEC("tracepoint/jbd2/jbd2_handle_start")
int start_handle(struct jbd2_context *context)
{
	struct task_struct *task, *leader;
	struct writer_key key = {};
	struct window *w = the_window();
	u64 *n, zero = 0, now = bpf_ktime_get_ns();

	key.clock = clock_of(context->device);
	if (!key.clock || !w || !within(w, now, now + 1))
		return 0;
	task = (void *)bpf_get_current_task();
	leader = BPF_CORE_READ(task, group_leader);
	key.tgid = BPF_CORE_READ(task, tgid);
	bpf_probe_read_kernel_str(key.comm, sizeof(key.comm), &leader->comm);
	n = bpf_map_lookup_elem(&writers, &key);
	if (!n) {
		bpf_map_update_elem(&writers, &key, &zero, BPF_NOEXIST);
		n = bpf_map_lookup_elem(&writers, &key);
	}
	if (n)
		add(n, 1);
	else
		add(&lost.writers, 1);
	return 0;
}
