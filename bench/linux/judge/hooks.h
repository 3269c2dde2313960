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
#include <linux/wait.h>

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
	void *by; /* instead of it; NULL: it runs, and `sees` is told first */
	void (*sees)(struct pt_regs *regs);
	struct ftrace_ops ops;
	bool on;
};

#if !IS_6_1
#define ftrace_regs pt_regs
#define ftrace_get_regs(regs) (regs)
#define ftrace_instruction_pointer_set(regs, to) ((regs)->ip = (to))
#endif

static void notrace go_to(unsigned long ip, unsigned long parent, struct ftrace_ops *fops, struct ftrace_regs *regs)
{
	struct replacement *r = container_of(fops, struct replacement, ops);

	if (!r->by) {
		r->sees(ftrace_get_regs(regs));
		return;
	}
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
		r->ops.flags = FTRACE_OPS_FL_SAVE_REGS | (r->by ? FTRACE_OPS_FL_IPMODIFY : 0);
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

/*
 * The background is played. What would wake a node's reclaimer wakes an entry of ours in its queue: it begins at once, and goes to sleep
 * when it is told to. The compactor sleeps all the time. Whether they are woken, and for what, the kernel's own code decides.
 */
#define PLAYED_NODES 2

static struct played {
	struct wait_queue_entry reclaimer, compactor;
	struct list_head reclaimer_threads, compactor_threads; /* what waits in their queues otherwise */
} played[PLAYED_NODES];

static void sleeps_in(struct wait_queue_head *queue, struct wait_queue_entry *entry)
{
	list_add(&entry->entry, &queue->head);
}

/* As kswapd does when it wakes: it reads what it was asked for, and its zones are being reclaimed from now on. */
static int reclaimer_woken(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	pg_data_t *node = NODE_DATA(container_of(entry, struct played, reclaimer) - played);
	int i;

	list_del_init(&entry->entry);
	for (i = 0; i <= node->kswapd_highest_zoneidx && i < MAX_NR_ZONES; i++)
		if (managed_zone(&node->node_zones[i]))
			SET_RECLAIMED(&node->node_zones[i]);
	node->kswapd_order = 0;
	node->kswapd_highest_zoneidx = MAX_NR_ZONES;
	return 1;
}

static int compactor_woken(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	return 0;
}

/* From here on; interrupts are off on all CPUs. Nothing was asked of either yet. */
static void play_background(void)
{
	int id, i;

	for_each_online_node(id) {
		pg_data_t *node = NODE_DATA(id);
		struct played *p = &played[id];
		bool awake = false;

		init_waitqueue_func_entry(&p->reclaimer, reclaimer_woken);
		init_waitqueue_func_entry(&p->compactor, compactor_woken);
		INIT_LIST_HEAD(&p->reclaimer.entry);
		list_replace_init(&node->kswapd_wait.head, &p->reclaimer_threads);
		list_replace_init(&node->kcompactd_wait.head, &p->compactor_threads);
		node->kswapd_order = 0;
		node->kswapd_highest_zoneidx = MAX_NR_ZONES;
#if IS_6_18
		atomic_set(&node->kswapd_failures, 0);
#else
		node->kswapd_failures = 0;
#endif
		node->kcompactd_max_order = 0;
		node->kcompactd_highest_zoneidx = node->nr_zones - 1;
		for (i = 0; i < MAX_NR_ZONES; i++)
			awake |= managed_zone(&node->node_zones[i]) &&
				 IS_RECLAIMED(&node->node_zones[i]);
		if (!awake)
			sleeps_in(&node->kswapd_wait, &p->reclaimer);
		sleeps_in(&node->kcompactd_wait, &p->compactor);
	}
}

static void __maybe_unused end_play(void)
{
	int id;

	for_each_online_node(id) {
		pg_data_t *node = NODE_DATA(id);
		struct played *p = &played[id];

		list_del_init(&p->reclaimer.entry);
		list_del_init(&p->compactor.entry);
		list_splice(&p->reclaimer_threads, &node->kswapd_wait.head);
		list_splice(&p->compactor_threads, &node->kcompactd_wait.head);
	}
}

/* The reclaimer goes to sleep: no boost is left where it was at work. */
static void reclaim_ends(int id)
{
	pg_data_t *node = NODE_DATA(id);
	int i;

	if (list_empty(&played[id].reclaimer.entry))
		sleeps_in(&node->kswapd_wait, &played[id].reclaimer);
	for (i = 0; i < MAX_NR_ZONES; i++) {
		struct zone *zone = &node->node_zones[i];

		if (!managed_zone(zone) || !IS_RECLAIMED(zone))
			continue;
		CLEAR_RECLAIMED(zone);
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
