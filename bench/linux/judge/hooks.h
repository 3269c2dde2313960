/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a module of ours does to a kernel that it exports no means for: functions are found by name, and some are
 * replaced by our own while the module holds the CPUs. Each module that includes this says how it fails.
 */
#ifndef PAGEYARD_HOOKS_H
#define PAGEYARD_HOOKS_H

#include <linux/ftrace.h>
#include <linux/kprobes.h>
#include <linux/mmzone.h>

#include "kernels.h"

/* Says why the module cannot do its work, and returns an error. */
static int fail(const char *why);

static unsigned long (*lookup)(const char *name);

static int find_lookup(void)
{
	struct kprobe probe = { .symbol_name = "kallsyms_lookup_name" };

	if (register_kprobe(&probe) < 0)
		return -ENOENT;
	lookup = (void *)probe.addr;
	unregister_kprobe(&probe);
	return 0;
}

#define FIND(pointer, name)                                           \
	do {                                                          \
		pointer = (void *)lookup(name);                       \
		if (!pointer)                                         \
			return fail("this kernel has no " name);      \
	} while (0)

struct replacement {
	const char *name;
	void *by;
	struct ftrace_ops ops;
	bool on;
};

static void notrace go_to(unsigned long ip, unsigned long parent, struct ftrace_ops *fops, struct ftrace_regs *regs)
{
	struct replacement *r = container_of(fops, struct replacement, ops);

#if IS_6_12
	ftrace_regs_set_instruction_pointer(regs, (unsigned long)r->by);
#else
	ftrace_instruction_pointer_set(regs, (unsigned long)r->by);
#endif
}

static int replace_all(struct replacement *all, int count)
{
	int i;

	for (i = 0; i < count; i++) {
		struct replacement *r = &all[i];

		r->ops.func = go_to;
		r->ops.flags = FTRACE_OPS_FL_SAVE_REGS | FTRACE_OPS_FL_IPMODIFY;
		if (ftrace_set_filter(&r->ops, (char *)r->name, strlen(r->name), 0) || register_ftrace_function(&r->ops))
			return fail("a function could not be replaced");
		r->on = true;
	}
	return 0;
}

static void __maybe_unused restore_all(struct replacement *all, int count)
{
	int i;

	for (i = 0; i < count; i++)
		if (all[i].on)
			unregister_ftrace_function(&all[i].ops);
}

/* The background reclaimer begins at once: zones up to the one asked for are being reclaimed. */
static void reclaim_begins(struct zone *zone, enum zone_type highest)
{
	int i;

	for (i = 0; i <= highest; i++) {
		struct zone *below = zone->zone_pgdat->node_zones + i;

		if (managed_zone(below))
			set_bit(ZONE_RECLAIM_ACTIVE, &below->flags);
	}
}

/* It goes to sleep: no boost is left. */
static void reclaim_ends(int node)
{
	int i;

	for (i = 0; i < MAX_NR_ZONES; i++) {
		struct zone *zone = &NODE_DATA(node)->node_zones[i];

		if (!managed_zone(zone) || !test_bit(ZONE_RECLAIM_ACTIVE, &zone->flags))
			continue;
		clear_bit(ZONE_RECLAIM_ACTIVE, &zone->flags);
		spin_lock(&zone->lock);
		zone->watermark_boost = 0;
		spin_unlock(&zone->lock);
	}
}

static int not_compacted(gfp_t gfp, unsigned int order, unsigned int flags, const void *ac, int prio,
			 struct page **captured)
{
	return 1; /* COMPACT_SKIPPED */
}

static bool no_task_killed(void *oc)
{
	return false;
}

#endif
