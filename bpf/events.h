// The ring: only what is rare. A file that is seen for the first time, or renamed, with its name, and single syncs
// that no row or no histogram could take.
#pragma once

#include "identity.h"
#include "inflight.h"
#include "kernel.h"
#include "record.h"
#include "rows.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 2 << 20);
} events SEC(".maps");

// Where a name is put together, so that it takes no more of the ring than it needs. One for each operation: a program
// never runs twice at a time on one processor, but those of two operations may.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, OPS);
	__type(key, u32);
	__type(value, struct file_event);
} names SEC(".maps");

// Puts the component of a dentry behind those that are there, and returns its parent; 0 at the end, at `root`. Dentries
// are known by their addresses. Not static: see lookup.h.
__noinline u64 put_component(u32 op, u64 address, u64 root, u32 i)
{
	struct file_event *event = bpf_map_lookup_elem(&names, &op);
	struct dentry *dentry = (struct dentry *)address;
	u64 parent = (u64)BPF_CORE_READ(dentry, d_parent);
	u32 length;
	long n;

	if (!event)
		return 0;
	// A file in memory (memfd) is its own parent, and has a name all the same.
	if (address == root || (address == parent && i)) {
		event->complete = 1;
		return 0;
	}
	length = event->length;
	if (length >= NAME_BYTES)
		return 0;
	n = bpf_probe_read_kernel_str(&event->name[length & (NAME_BYTES - 1)], NAME_COMPONENT_BYTES,
				      BPF_CORE_READ(dentry, d_name.name));
	if (n <= 0)
		return 0;
	event->length = length + n;
	return parent;
}

// Puts the name that a file has at this moment, its components from itself up to the mount's root, into the event that
// was begun, and sends it.
static __always_inline bool put_name(struct file_event *event, struct file *file, u32 op)
{
	struct vfsmount *mount;
	u64 dentry, root, size;

	event->mode = BPF_CORE_READ(file, f_inode, i_mode);
	event->complete = 0;
	event->length = 0;
	mount = BPF_CORE_READ(file, f_path.mnt);
	event->mount_id =
		BPF_CORE_READ((struct mount *)((void *)mount - bpf_core_field_offset(struct mount, mnt)), mnt_id);
	root = (u64)BPF_CORE_READ(mount, mnt_root);
	dentry = (u64)BPF_CORE_READ(file, f_path.dentry);
	for (u32 i = 0; i < NAME_COMPONENTS; i++) {
		dentry = put_component(op, dentry, root, i);
		if (!dentry)
			break;
	}
	size = __builtin_offsetof(struct file_event, name) + *(volatile u32 *)&event->length;
	asm volatile("" : "+r"(size)); // so that what is compared is what is passed on, as the verifier wants it
	if (size > sizeof(*event))
		return false;
	if (bpf_ringbuf_output(&events, event, size, 0)) {
		count(names_dropped);
		return false;
	}
	return true;
}

// Sends the name of an open file, by its address: for the row in `slot`, or where that is NO_SLOT for the identity in
// the thread's call, whose number is `number`. Not static: see lookup.h. It runs once for each name.
__noinline int send_name(u64 address, s32 fd, u32 slot, u32 number)
{
	struct row *row = slot == NO_SLOT ? 0 : row_at(slot);
	struct call *call = slot == NO_SLOT ? call_again(number) : 0;
	struct file *file = (struct file *)address;
	struct inode_key key = {};
	struct file_event *event;
	u32 op;

	if (!row && !call)
		return 0;
	op = row ? row->id.op : call->id.op;
	event = bpf_map_lookup_elem(&names, &op);
	if (!event)
		return 0;
	event->type = EVENT_FILE;
	event->slot = slot;
	if (row)
		event->id = row->id;
	else
		event->id = call->id;
	event->sequence = row ? row->sequence : 0;
	event->fd = fd;
	event->tid = bpf_get_current_pid_tgid();
	event->below = 0;
	read_inode_key(&key, file);
	if (is_on_overlay(&key)) {
		read_device_key(&key, file);
		event->below = device_of(&key);
	}
	return put_name(event, file, op);
}

// Sends the name of a row's file, if it is new: at its first sync, and at the first after it was renamed.
static __always_inline void tell_name(struct row *row, u64 name, struct file *file, s32 fd, u32 slot)
{
	if (row->names && (row->name == name || row->names >= MOST_NAMES))
		return;
	if (!send_name((u64)file, fd, slot, 0))
		return;
	row->name = name;
	row->names++;
}

// Sends one finished sync. slot is NO_SLOT if user space is to count it for the identity.
static __always_inline bool send_one(struct identity *id, u32 slot, u32 sequence, u64 latency, s64 result)
{
	struct sync_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event)
		return false;
	event->type = EVENT_SYNC;
	event->slot = slot;
	event->id = *id;
	event->sequence = sequence;
	event->result = result;
	event->latency_ns = latency;
	bpf_ringbuf_submit(event, 0);
	return true;
}

static __noinline bool send_sync(struct identity *id, u64 latency, s64 result)
{
	return send_one(id, NO_SLOT, 0, latency, result);
}

static __noinline void send_latency(u32 slot, struct row *row, u64 latency, s64 result)
{
	if (!send_one(&row->id, slot, row->sequence, latency, result))
		count(latencies_dropped);
}
