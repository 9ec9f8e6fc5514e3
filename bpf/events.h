// The ring: only what is rare. A file that is seen for the first time, or renamed, with its name, and single syncs
// that no row or no histogram could take.
#pragma once

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

// Sends the name that the file has at this moment: its components from itself up to the mount's root.
// Not inlined: it runs once for each name.
static __noinline bool send_name(struct identity *id, struct file *file, struct task_struct *task, s32 fd, u32 slot,
				 u32 sequence)
{
	struct file_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	struct vfsmount *mount;
	struct dentry *dentry, *parent, *root;
	u32 length = 0;

	if (!event) {
		count(names_dropped);
		return false;
	}
	event->type = EVENT_FILE;
	event->slot = slot;
	event->id = *id;
	event->sequence = sequence;
	event->fd = fd;
	event->tid = bpf_get_current_pid_tgid();
	event->mode = BPF_CORE_READ(file, f_inode, i_mode);
	event->complete = 0;
	event->reserved = 0;
	mount = BPF_CORE_READ(file, f_path.mnt);
	event->mount_id =
		BPF_CORE_READ((struct mount *)((void *)mount - bpf_core_field_offset(struct mount, mnt)), mnt_id);
	root = BPF_CORE_READ(mount, mnt_root);
	dentry = BPF_CORE_READ(file, f_path.dentry);
	for (int i = 0; i < NAME_COMPONENTS; i++) {
		parent = BPF_CORE_READ(dentry, d_parent);
		if (dentry == root || dentry == parent) {
			event->complete = 1;
			break;
		}
		if (length >= NAME_BYTES)
			break;
		long n = bpf_probe_read_kernel_str(&event->name[length & (NAME_BYTES - 1)], NAME_COMPONENT_BYTES,
						   BPF_CORE_READ(dentry, d_name.name));
		if (n <= 0)
			break;
		length += n;
		dentry = parent;
	}
	event->length = length;
	bpf_ringbuf_submit(event, 0);
	return true;
}

// A file of two names that is synced by each in turn sends them this often only.
#define MOST_NAMES 64

// Sends the name of a row's file, if it is new: at its first sync, and at the first after it was renamed.
static __always_inline void tell_name(struct row *row, struct identity *id, struct file *file, struct task_struct *task,
				      s32 fd, u32 slot)
{
	u64 name = name_hash(file);

	if (row->state & ROW_NAMED && (row->name == name || row->names >= MOST_NAMES))
		return;
	if (!send_name(id, file, task, fd, slot, row->sequence))
		return;
	row->state |= ROW_NAMED;
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
