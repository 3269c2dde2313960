/* SPDX-License-Identifier: GPL-2.0 */
/* Threads of ours hold every CPU with interrupts off, and take turns: an operation names the one that carries it out. */
#ifndef PAGEYARD_TURNS_H
#define PAGEYARD_TURNS_H

#include <linux/mmzone.h>
#include <linux/vmstat.h>

/* Waits until all CPUs have come here. */
static void meet(atomic_t *at, int cpus)
{
	atomic_inc(at);
	while (atomic_read(at) < cpus)
		cpu_relax();
}

/* Counters of free frames are exact from here on: this CPU keeps no difference to itself. */
static void count_exactly(int cpu, bool (*refresh_stats)(bool do_pagesets))
{
	int node, i;

	refresh_stats(false);
	for_each_online_node(node)
		for (i = 0; i < MAX_NR_ZONES; i++) {
			struct zone *zone = &NODE_DATA(node)->node_zones[i];

			if (populated_zone(zone)) {
				CPU_STATS(zone, cpu)->stat_threshold = 0;
				EXPIRE(zone, cpu) = 0;
			}
		}
}

/* Carries out this CPU's operations, each in its turn, until `turn` is behind the last; returns where it is. */
static u64 take_turns(int cpu, u64 *turn, u64 operations, u64 *done, int (*cpu_of)(u64), void (*carry_out)(u64))
{
	u64 at;

	while ((at = smp_load_acquire(turn)) < operations) {
		if (cpu_of(at) != cpu) {
			cpu_relax();
			continue;
		}
		carry_out(at);
		WRITE_ONCE(*done, at + 1);
		smp_store_release(turn, at + 1);
	}
	return at;
}

#endif
