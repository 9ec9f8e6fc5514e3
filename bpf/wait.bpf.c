// `fsynctop explain` only: where the time of the traced syncs goes. Level one: each wait of a thread that is in a sync,
// by its kernel stack, as the scheduler switches it out. Level two (clock.h, fed by block.h and jbd2.h): what the
// committer of its filesystem and the device did meanwhile. docs/explain.md has the model.
#include "add.h"
#include "block.h"
#include "clock.h"
#include "jbd2.h"
#include "kernel.h"
#include "record.h"
#include "waiting.h"
#include "waits.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile bool by_thread; // some or all threads' state is in the hash

// What user space needs, and no map or variable has the type of: see record.h.
struct wait_contract {
	enum committer committer;
	enum clock_limit clock_limit;
} * wait_contract;

static __always_inline struct waiting *waiting_of(struct task_struct *task)
{
	struct waiting *w = 0;
	u32 thread;

	if (task_storage)
		w = bpf_task_storage_get(&waiting, task, 0, 0);
	if (!by_thread || (w && w->start_ns))
		return w;
	thread = task->pid;
	return bpf_map_lookup_elem(&waiting_by_thread, &thread);
}

static __always_inline bool can_run(struct task_struct *task)
{
	if (bpf_core_field_exists(struct task_struct___state, __state))
		return !((struct task_struct___state *)task)->__state;
	return !((struct task_struct___long_state *)task)->state;
}

// The hash under which a stack of so many bytes is kept; 0 if it could not be. FNV-1a over whole addresses, never 0.
static __noinline u64 keep_stack(struct stack *stack, s64 bytes)
{
	u64 hash = 0xcbf29ce484222325;
	u32 n;

	if (!stack)
		return 0;
	if (bytes <= 0) {
		add(&lost.stacks, 1);
		return 0;
	}
	n = bytes / sizeof(u64);
	for (u32 i = 0; i < FRAMES; i++) {
		if (i >= n)
			stack->frame[i] = 0;
		else
			hash = (hash ^ stack->frame[i]) * 0x100000001b3;
	}
	hash |= 1;
	if (bpf_map_lookup_elem(&stacks, &hash))
		return hash;
	// Another processor may have been first; else there is no room.
	if (bpf_map_update_elem(&stacks, &hash, stack, BPF_NOEXIST) && !bpf_map_lookup_elem(&stacks, &hash)) {
		add(&lost.stacks, 1);
		return 0;
	}
	return hash;
}

static __always_inline struct spent *spent_of(const struct waiting *w)
{
	u32 slot = w->slot;

	return bpf_map_lookup_elem(&spent, &slot);
}

static __always_inline void count_cpu(const struct waiting *w, struct window *window, u64 from, u64 now)
{
	struct spent *spent_here = spent_of(w);

	if (spent_here)
		add(&spent_here->cpu_ns, within(window, from, now));
}

static __always_inline void count_queued(const struct waiting *w, struct window *window, u64 from, u64 now)
{
	struct spent *spent_here = spent_of(w);

	if (spent_here)
		add(&spent_here->queued_ns, within(window, from, now));
}

static __always_inline struct wait_total *total_in(void *map, u32 slot, u64 stack)
{
	struct wait_key key = {.slot = slot, .stack = stack};
	struct wait_total *total = bpf_map_lookup_elem(map, &key), none = {};

	if (total)
		return total;
	bpf_map_update_elem(map, &key, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(map, &key);
}

// A wait that has ended, or is cut off at the window's end.
static __noinline void count_wait(struct waiting *w, u64 from, u64 now)
{
	struct wait_total *total;
	struct window *window = the_window();
	struct spent *spent_here = w ? spent_of(w) : 0;
	u64 ns;

	if (!w || !window || !spent_here)
		return;
	ns = within(window, from, now);
	if (!ns)
		return;
	total = total_in(&waits, w->slot, w->stack);
	if (!total) {
		add(&lost.waits, 1);
		total = total_in(&waits_by_op, w->op, w->stack);
	}
	if (!total) {
		add(&lost.unplaced, 1);
		add(&lost.unplaced_ns, ns);
		return;
	}
	add(&total->ns, ns);
	add(&total->waits, 1);
	add(&spent_here->waits, 1);
	if (w->clock)
		add_since(total, w, now);
}

// The thread leaves its processor.
static __always_inline void leave_cpu(void *context, struct task_struct *task, bool preempted, u64 now)
{
	struct waiting *w = waiting_of(task);
	struct window *window = the_window();
	struct stack *stack;
	u32 zero = 0;

	if (!w || !w->start_ns || !window)
		return;
	count_cpu(w, window, later(w->start_ns, w->on_ns), now);
	w->off_ns = now;
	if (preempted || can_run(task)) {
		w->queued_ns = now;
		return;
	}
	w->queued_ns = 0;
	stack = bpf_map_lookup_elem(&scratch, &zero);
	if (!stack)
		return;
	w->stack = keep_stack(stack, bpf_get_stack(context, stack, sizeof(*stack), 0));
	remember_clock(w, now);
}

// The thread is put on a processor.
static __always_inline void enter_cpu(struct task_struct *task, u64 now)
{
	struct waiting *w = waiting_of(task);
	struct window *window = the_window();

	if (!w || !w->start_ns || !w->off_ns || !window)
		return;
	// Its waking was not seen.
	if (!w->queued_ns)
		count_wait(w, w->off_ns, now);
	else
		count_queued(w, window, w->queued_ns, now);
	w->off_ns = 0;
	w->queued_ns = 0;
	w->on_ns = now;
}

static __always_inline void stop_committer(void *context, struct task_struct *task, bool preempted, u64 now)
{
	u32 zero = 0, number = committer_of(task), state = COMMITTER_QUEUED;
	struct stack *stack;

	if (!number)
		return;
	stack = bpf_map_lookup_elem(&scratch, &zero);
	if (stack && !preempted && !can_run(task))
		state = committer_state(stack, bpf_get_stack(context, stack, sizeof(*stack), 0));
	set_committer(number, state, now);
}

SEC("tp_btf/sched_switch")
int switch_threads(u64 *context)
{
	struct task_struct *from = (void *)context[1], *to = (void *)context[2];
	u64 now = bpf_ktime_get_ns();
	u32 number;

	leave_cpu(context, from, context[0], now);
	enter_cpu(to, now);
	stop_committer(context, from, context[0], now);
	number = committer_of(to);
	if (number)
		set_committer(number, COMMITTER_CPU, now);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int wake_thread(u64 *context)
{
	struct task_struct *task = (void *)context[0];
	struct waiting *w = waiting_of(task);
	u32 number = committer_of(task);
	u64 now;

	if (number)
		set_committer(number, COMMITTER_QUEUED, bpf_ktime_get_ns());
	if (!w || !w->start_ns || !w->off_ns || w->queued_ns)
		return 0;
	now = bpf_ktime_get_ns();
	count_wait(w, w->off_ns, now);
	w->queued_ns = now;
	return 0;
}

// It waits, and began to before the hooks were there: they set off_ns. A thread says that it waits before it leaves its
// processor; until then its stack cannot be read, and the hooks will see it leave.
static __always_inline bool waits_unseen(struct task_struct *task, struct waiting *w)
{
	// A kernel that was built for one processor may have no such field.
	bool on_cpu = bpf_core_field_exists(task->on_cpu) && task->on_cpu;

	return !w->off_ns && !can_run(task) && !on_cpu;
}

// A sync that began to wait before the hooks were there: from now on it is known where.
static __always_inline void begin_open(struct bpf_iter__task *context, struct task_struct *task, struct waiting *w,
				       u64 now)
{
	struct stack *stack;
	u32 one = 1;
	s64 bytes;

	if (!waits_unseen(task, w))
		return;
	stack = bpf_map_lookup_elem(&scratch, &one);
	if (!stack)
		return;
	bytes = bpf_get_task_stack(task, stack, sizeof(*stack), 0);
	// It was woken while its stack was read: what it waited for is over, and the hooks see what follows.
	if (!waits_unseen(task, w))
		return;
	w->stack = keep_stack(stack, bytes);
	w->queued_ns = 0;
	remember_clock(w, now);
	w->off_ns = now;
}

// A sync in flight at the window's end: what it has spent so far. On a kernel that preempts, its thread may run in the
// midst of this: it is taken out of the sync first, and looked at once.
static __always_inline void end_open(struct waiting *w, struct window *window, u64 now)
{
	u64 start = w->start_ns, on = w->on_ns, off = w->off_ns, queued = w->queued_ns;
	struct spent *spent_here;

	// The rest is no part of the window.
	w->start_ns = 0;
	spent_here = spent_of(w);
	if (spent_here)
		add(&spent_here->total_ns, within(window, start, now));
	if (!off)
		count_cpu(w, window, later(start, on), now);
	else if (queued)
		count_queued(w, window, queued, now);
	else
		count_wait(w, off, now);
}

// Run at both ends of the window, over the syncs in flight then.
SEC("iter/task")
int cut_open_syncs(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct window *window = the_window();
	struct waiting *w;
	u64 now = bpf_ktime_get_ns();

	if (!task || !window)
		return 0;
	w = waiting_of(task);
	if (!w || !w->start_ns)
		return 0;
	if (window->end_ns)
		end_open(w, window, now);
	else
		begin_open(context, task, w, now);
	return 0;
}
