// SPDX-License-Identifier: GPL-2.0
/*
 * What a block costs in Linux's own page allocator.
 *
 * Built into a User Mode Linux kernel by ./build. It measures once, before any file system is mounted, prints a line for each
 * row and switches the machine off. The settings are those of `pageyard-lab bench sweep`: batches of blocks are allocated and
 * freed first in first out, last in first out, or at random; 15 samples of at least 32,768 blocks each, their median counts.
 *
 * A line: pageyard-row ORDER BATCH PATTERN ALLOC FREE FASTEST MEDIAN REFILLS SPILLS, times in picoseconds a block.
 *
 * Refills and spills are counted in a pass of their own, from what the CPU's lists hold before and after each call, and
 * scaled to all passes of the row.
 */
#include <linux/gfp.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/percpu.h>
#include <linux/reboot.h>
#include <linux/sched.h>
#include <linux/vmalloc.h>
#include <generated/utsrelease.h>
#include <os.h>

#define MOST_BLOCKS 16384
#define BLOCKS_A_SAMPLE 32768
#define SAMPLES 15

/* No row holds more than a quarter of the memory. */
#define SHARE 4

enum pattern { FIFO, LIFO, SHUFFLED, PATTERNS };

static const char *const pattern_names[] = { "fifo", "lifo", "shuffled" };

/* Writes to the host's standard output: the consoles of User Mode Linux come and go while it starts. */
static __printf(1, 2) void say(const char *format, ...)
{
	char line[256];
	va_list args;
	int n;

	va_start(args, format);
	n = vscnprintf(line, sizeof(line), format, args);
	va_end(args);
	os_write_file(1, line, n);
}

static struct page **held;
static u32 *turn;

struct sample {
	u64 total;
	u64 alloc;
	u64 free;
};

static void set_turns(enum pattern pattern, u32 batch)
{
	u64 state = 88172645463325252ULL + batch;
	u32 i;

	for (i = 0; i < batch; i++)
		turn[i] = pattern == LIFO ? batch - 1 - i : i;
	if (pattern != SHUFFLED)
		return;
	for (i = batch - 1; i > 0; i--) {
		/* xorshift64 */
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		swap(turn[i], turn[state % (i + 1)]);
	}
}

/* Movable blocks, as the benchmark of the other allocators asks for. */
static __always_inline u32 take_all(u32 order, u32 batch)
{
	u32 i;

	for (i = 0; i < batch; i++) {
		held[i] = alloc_pages(GFP_KERNEL | __GFP_MOVABLE | __GFP_NOWARN, order);
		if (unlikely(!held[i]))
			return i;
	}
	return batch;
}

static __always_inline void give_all(u32 order, u32 batch)
{
	u32 i;

	for (i = 0; i < batch; i++)
		__free_pages(held[turn[i]], order);
}

static bool run(u32 order, u32 batch, u32 rounds, struct sample *s)
{
	u64 start, middle;
	u32 round, got;

	s->alloc = 0;
	s->free = 0;
	start = ktime_get_ns();
	for (round = 0; round < rounds; round++) {
		got = take_all(order, batch);
		if (got < batch)
			goto short_of_memory;
		give_all(order, batch);
	}
	s->total = ktime_get_ns() - start;
	for (round = 0; round < rounds; round++) {
		start = ktime_get_ns();
		got = take_all(order, batch);
		middle = ktime_get_ns();
		if (got < batch)
			goto short_of_memory;
		give_all(order, batch);
		s->free += ktime_get_ns() - middle;
		s->alloc += middle - start;
	}
	return true;

short_of_memory:
	while (got--)
		__free_pages(held[got], order);
	return false;
}

/* Frames in the CPU's lists. */
static s64 listed(struct zone *zone)
{
	return per_cpu_ptr(zone->per_cpu_pageset, 0)->count;
}

/* Lists that lost anything but the block were refilled; lists that gained anything but it were spilled. */
static void count_moves(struct zone *zone, u32 order, u32 batch, u32 rounds, u64 *refills, u64 *spills)
{
	s64 before, size = 1 << order;
	u32 round, i;

	*refills = 0;
	*spills = 0;
	/* This kernel keeps no lists of larger blocks: transparent huge pages do not exist under User Mode Linux. */
	if (order > PAGE_ALLOC_COSTLY_ORDER)
		return;
	for (round = 0; round < rounds; round++) {
		for (i = 0; i < batch; i++) {
			before = listed(zone);
			held[i] = alloc_pages(GFP_KERNEL | __GFP_MOVABLE | __GFP_NOWARN, order);
			*refills += listed(zone) != before - size;
		}
		for (i = 0; i < batch; i++) {
			before = listed(zone);
			if (held[turn[i]])
				__free_pages(held[turn[i]], order);
			*spills += held[turn[i]] && listed(zone) != before + size;
		}
	}
}

static u64 clock_cost(void)
{
	u64 start = ktime_get_ns(), i;

	for (i = 0; i < 10000; i++)
		ktime_get_ns();
	return div_u64(ktime_get_ns() - start, 10000);
}

static u64 median(u64 *v)
{
	u32 i, j;

	for (i = 1; i < SAMPLES; i++)
		for (j = i; j > 0 && v[j - 1] > v[j]; j--)
			swap(v[j - 1], v[j]);
	return v[SAMPLES / 2];
}

static void measure(struct zone *zone, u32 order, u32 batch, enum pattern pattern, u64 clock)
{
	u32 rounds = max(1U, BLOCKS_A_SAMPLE / batch), i;
	u64 blocks = (u64)rounds * batch, total[SAMPLES], share[SAMPLES], refills, spills, alloc, free, mid;
	struct sample s;

	set_turns(pattern, batch);
	if (!run(order, batch, rounds, &s))
		return;
	for (i = 0; i < SAMPLES; i++) {
		if (!run(order, batch, rounds, &s))
			return;
		alloc = s.alloc - min(s.alloc, clock * rounds);
		free = s.free - min(s.free, clock * rounds);
		total[i] = div64_u64(s.total * 1000, blocks);
		/* The share that allocation has, in millionths. */
		share[i] = alloc + free ? div64_u64(alloc * 1000000, alloc + free) : 500000;
		cond_resched();
	}
	count_moves(zone, order, batch, rounds, &refills, &spills);
	mid = median(total);
	alloc = div64_u64(mid * median(share), 1000000);
	say("pageyard-row %u %u %s %llu %llu %llu %llu %llu %llu\n", order, batch, pattern_names[pattern], alloc,
		mid - alloc, total[0], mid, refills * 2 * SAMPLES, spills * 2 * SAMPLES);
}

static int __init pageyard_bench(void)
{
	static const u32 orders[] = { 0, 3, 9 };
	struct zone *zone;
	struct page *probe;
	u64 clock, frames = totalram_pages();
	u32 o, batch, p;

	held = vmalloc(MOST_BLOCKS * sizeof(*held));
	turn = vmalloc(MOST_BLOCKS * sizeof(*turn));
	probe = alloc_page(GFP_KERNEL | __GFP_MOVABLE);
	if (!held || !turn || !probe)
		panic("pageyard_bench: no memory");
	zone = page_zone(probe);
	__free_page(probe);
	clock = clock_cost();
	say("pageyard-begin %s frames %llu pcp_high %d pcp_batch %d clock_ns %llu\n", UTS_RELEASE, frames,
		per_cpu_ptr(zone->per_cpu_pageset, 0)->high, per_cpu_ptr(zone->per_cpu_pageset, 0)->batch, clock);
	for (o = 0; o < ARRAY_SIZE(orders); o++)
		for (batch = 1; batch <= MOST_BLOCKS; batch *= 2)
			for (p = FIFO; p < PATTERNS; p++)
				if ((u64)batch << orders[o] <= frames / SHARE)
					measure(zone, orders[o], batch, p, clock);
	say("pageyard-end\n");
	kernel_power_off();
	return 0;
}
late_initcall(pageyard_bench);
