// SPDX-License-Identifier: GPL-2.0
/* The state of the page allocator, written down in order. */
#include "judge.h"
#include "movable.h"

static u64 *out, *out_end;

static void put(u64 word)
{
	if (out < out_end)
		*out = word;
	out++;
}

static int type_of(unsigned long pfn)
{
	return BLOCK_TYPE(block_type, pfn_to_page(pfn), pfn);
}

static void put_list(struct list_head *list, bool cached)
{
	u64 *count = out;
	u64 n = 0;
	struct list_head *at;

	put(0);
	list_for_each(at, list) {
		struct page *page = cached ? container_of(at, struct page, LISTED) : container_of(at, struct page, FREE);
		u64 word = page_to_pfn(page);

#if !IS_6_12
		/* Until 6.10 a cached block remembers a type. */
		if (cached)
			word |= (u64)page->index << 56;
#endif
		put(word);
		n++;
	}
	if (count < out_end)
		*count = n;
}

static void put_lists(struct zone *zone, int cpu)
{
	struct per_cpu_pages *pcp = LISTS(zone, cpu);
	int i;

	put(pcp->count);
	put(pcp->batch);
	put(pcp->high);
#if IS_6_12
	put(pcp->high_min);
	put(pcp->high_max);
#else
	put(pcp->high);
	put(pcp->high);
#endif
	put(FREE_FACTOR(pcp));
	put(FREE_COUNT(pcp));
#if IS_6_12
	put(pcp->flags);
#else
	put(0);
#endif
	put(EXPIRE(zone, cpu));
	put(NR_PCP_LISTS);
	for (i = 0; i < NR_PCP_LISTS; i++)
		put_list(&pcp->lists[i], true);
}

static u64 numa_events(struct zone *zone, int item)
{
	u64 sum = atomic_long_read(&NUMA_EVENTS(zone)[item]);
	int cpu;

	for_each_online_cpu(cpu)
		sum += CPU_NUMA_EVENTS(zone, cpu)[item];
	return sum;
}

static u64 vm_events(int item)
{
	u64 sum = 0;
	int cpu;

	for_each_online_cpu(cpu)
		sum += per_cpu(vm_event_states, cpu).event[item];
	return sum;
}

/* Bit 0: of this zone. Bit 1: its holder can move it. Bit 2: never given to the allocator. Bit 3: a later frame of a compound page. */
static u8 frame_state(struct zone *zone, unsigned long pfn)
{
	struct page *page;

	if (!pfn_valid(pfn))
		return 0;
	page = pfn_to_page(pfn);
	if (page_zone(page) != zone)
		return 0;
	return 1 | ((PageLRU(page) || is_marked(page)) && !PageBuddy(page) ? 2 : 0) | (PageReserved(page) ? 4 : 0) |
	       (PageTail(page) ? 8 : 0);
}

static void put_zone(struct zone *zone)
{
	unsigned long first = zone->zone_start_pfn, end = zone_end_pfn(zone), pfn;
	int order, type, cpu, i;

	put(zone_to_nid(zone));
	put(zone_idx(zone));
	put(first);
	put(zone->spanned_pages);
	put(zone_managed_pages(zone));
	put(zone->_watermark[WMARK_MIN]);
	put(zone->_watermark[WMARK_LOW]);
	put(zone->_watermark[WMARK_HIGH]);
	put(zone->watermark_boost);
	for (i = 0; i < MAX_NR_ZONES; i++)
		put(zone->lowmem_reserve[i]);
	put(IS_RECLAIMED(zone));
	put(test_bit(ZONE_BOOSTED_WATERMARK, &zone->flags));
#if IS_6_12
	put(test_bit(ZONE_BELOW_HIGH, &zone->flags));
	put(zone->nr_reserved_highatomic);
	put(zone->nr_free_highatomic);
#else
	put(0);
	put(zone->nr_reserved_highatomic);
	put(0);
#endif
	put(zone_page_state(zone, NR_FREE_PAGES));
	/* There is no swap in the guest. */
	put(zone_page_state(zone, NR_ZONE_INACTIVE_FILE) + zone_page_state(zone, NR_ZONE_ACTIVE_FILE));
	put(numa_events(zone, NUMA_HIT));
	put(numa_events(zone, NUMA_MISS));
	put(numa_events(zone, NUMA_FOREIGN));
	put(numa_events(zone, NUMA_LOCAL));
	put(numa_events(zone, NUMA_OTHER));
	put(numa_events(zone, NUMA_INTERLEAVE_HIT));
	/* A word holds eight frames or pageblocks. */
	for (pfn = first & ~511UL; pfn < end; pfn += 8 * 512) {
		u64 word = 0;

		for (i = 0; i < 8; i++)
			if (pfn + i * 512 < end && pfn_valid(pfn + i * 512))
				word |= (u64)type_of(pfn + i * 512) << (8 * i);
		put(word);
	}
	for (pfn = first; pfn < end; pfn += 8) {
		u64 word = 0;

		for (i = 0; i < 8; i++)
			if (pfn + i < end)
				word |= (u64)frame_state(zone, pfn + i) << (8 * i);
		put(word);
	}
	for (order = 0; order < ORDERS; order++)
		for (type = 0; type < MIGRATE_TYPES; type++)
			put_list(&zone->free_area[order].free_list[type], false);
	for (cpu = 0; cpu < JUDGED_CPUS; cpu++)
		put_lists(zone, cpu);
}

u64 put_state(u64 at)
{
	u64 *start = (void *)ex + at;
	u64 zones = 0;
	int node, i;

	out = start;
	out_end = start + ex->state_room / 8;
	for_each_online_node(node)
		for (i = 0; i < MAX_NR_ZONES; i++)
			zones += populated_zone(&NODE_DATA(node)->node_zones[i]);
	put(zones);
	put(nr_online_nodes);
	put(MIGRATE_TYPES);
	put(MAX_NR_ZONES);
	put(!IS_6_12); /* whether a cached block remembers a type */
	put(vm_events(PGFREE));
	for (i = 0; i < MAX_NR_ZONES; i++)
		put(vm_events(PGALLOC_DMA + i));
	for_each_online_node(node)
		for (i = 0; i < MAX_NR_ZONES; i++)
			if (populated_zone(&NODE_DATA(node)->node_zones[i]))
				put_zone(&NODE_DATA(node)->node_zones[i]);
	return (out - start) * 8;
}
