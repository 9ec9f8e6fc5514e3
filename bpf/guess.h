// From a file or a neighbour to the slot of its row without a look-up in the hash: what was right at its last sync nearly
// always is at this one.
#pragma once

// Where a slot may stand: here, or at the place beside it. `more`: the operation, or a neighbour's name.
static __always_inline u32 guess_index(const struct inode_key *key, u64 device, u64 more)
{
	u64 from = key->inode ? key->address : device;

	return (from + more) * 0x9e3779b97f4a7c15 >> 40 & last_guess; // 2^64 divided by the golden ratio
}

// The row that a guess leads to. Other processors write there meanwhile, and addresses are used again: what decides is
// what the row says of itself.
static __always_inline struct row *guessed_row(const struct guess *guess, u32 *slot)
{
	struct row *row;

	*slot = guess->slot;
	row = row_at(*slot);
	return row && row->state == ROW_READY && !row->retired ? row : 0;
}

static __always_inline struct row *row_if_of_file(const struct guess *guess, const struct inode_key *key,
						  struct who *who, u32 op, u32 *slot)
{
	struct task_struct *leader = who->leader;
	struct row *row;

	if (!guess || guess->inode != key->inode)
		return 0;
	// Where reading costs a call of a helper, the inode's number and generation have to do.
	if ((typed_cast || !key->inode) && guess->device != device_of(key))
		return 0;
	row = guessed_row(guess, slot);
	// Slots are used again, and a guess is not told: of a row about a filesystem, nothing else says which.
	if (row && !key->inode && (row->id.kind != KIND_FILESYSTEM || row->id.device != guess->device))
		return 0;
	return row && row->id.object == key->number && row->id.generation == key->generation && row->id.op == op &&
	       row->id.tgid == who->tgid && row->id.owner == TASK_READ(leader, start_boottime) ? row : 0;
}

// A file's row without the look-up in the hash, and without finding out more of the file than its inode; else 0.
static __always_inline struct row *guess_file(const struct inode_key *key, struct who *who, u32 op, u32 *slot)
{
	u32 index = guess_index(key, key->inode ? 0 : device_of(key), op);
	struct row *row = row_if_of_file(guess_at(index), key, who, op, slot);

	return row ?: row_if_of_file(guess_at(index ^ 1), key, who, op, slot);
}

static __always_inline struct row *row_if_of_neighbour(const struct guess *guess, u64 device, u64 low, u64 high, u32 *slot)
{
	struct row *row;

	if (!guess || guess->inode || guess->device != device)
		return 0;
	row = guessed_row(guess, slot);
	return row && row->id.device == guess->device && row->id.owner == low && row->id.object == high ? row : 0;
}

// The same of a neighbour, `key` being its filesystem's.
static __always_inline struct row *guess_neighbour(const struct inode_key *key, u64 low, u64 high, u32 *slot)
{
	u64 device = device_of(key);
	u32 index = guess_index(key, device, low ^ high);
	struct row *row = row_if_of_neighbour(guess_at(index), device, low, high, slot);

	return row ?: row_if_of_neighbour(guess_at(index ^ 1), device, low, high, slot);
}

// From now on the slot is guessed: at one of its two places, if it can be at one that nobody has.
static __always_inline void remember_guess(const struct inode_key *key, u64 more, u32 slot)
{
	u64 device = device_of(key);
	u32 index = guess_index(key, device, more);
	struct guess *guess = guess_at(index);

	if (guess && guess->slot && guess->inode != key->inode)
		guess = guess_at(index ^ 1);
	if (!guess)
		return;
	guess->inode = key->inode;
	guess->device = device;
	guess->slot = slot;
}
