// SPDX-License-Identifier: GPL-2.0
/*
 * Replays the rows of a recording in this kernel's own page allocator: takes all memory, frees what was free when the
 * recording began, carries out its requests and frees in their order, and writes down which frames they got.
 *
 * All CPUs are held by threads of this module with interrupts off from the moment at which all memory is taken to the
 * end. A step names its CPU, and the CPUs take turns. What requests would wait for is replaced (hooks.h): nothing is
 * reclaimed, nothing compacted, no task killed.
 */
#include <linux/delay.h>
#include <linux/gfp.h>
#include <linux/io.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/sched/mm.h>
#include <linux/tracepoint.h>
#include <linux/utsname.h>

#include "hooks.h"
#include "movable.h"
#include "replay.h"
#include "request.h"
#include "turns.h"

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Replays a recording in the kernel's page allocator and writes down its answers");

static struct replay_exchange *ex;
static struct step *steps;
static u32 *answers;
static unsigned long *taken;

static int fail(const char *why)
{
	pr_err("replay: %s\n", why);
	strscpy(ex->message, why, sizeof(ex->message));
	WRITE_ONCE(ex->status, REPLAY_FAILED);
	return -EINVAL;
}

/* ---- What is not exported is found by name. ---- */

static alloc_fn alloc;
static void (*drain_all)(struct zone *zone);
static bool (*refresh_stats)(bool do_pagesets);
static block_type_fn block_type;
#if IS_6_18
/* The kernel's own function for it is compiled into its callers. Who isolates pageblocks has a bit apart, and no one does here. */
static void set_type(struct page *page, int type)
{
	unsigned long pfn = page_to_pfn(page);
	unsigned long *map = section_to_usemap(__pfn_to_section(pfn));
	unsigned long bit = ((pfn & (PAGES_PER_SECTION - 1)) >> pageblock_order) * NR_PAGEBLOCK_BITS;
	unsigned long shift = bit % BITS_PER_LONG;

	map += bit / BITS_PER_LONG;
	*map = (*map & ~(TYPE_FLAGS << shift)) | ((unsigned long)type << shift);
}
#else
static void (*set_type)(struct page *page, int type);
#endif
static void (*set_marks)(void);
static int *min_free;
static int *reserve_ratio;

static int find_symbols(void)
{
	FIND(alloc, ALLOC_NAME);
	FIND(drain_all, "drain_all_pages");
	FIND(refresh_stats, "refresh_cpu_vm_stats");
	FIND(block_type, BLOCK_TYPE_NAME);
#if !IS_6_18
	FIND(set_type, "set_pageblock_migratetype");
#endif
	FIND(set_marks, "setup_per_zone_wmarks");
	FIND(min_free, "min_free_kbytes");
	FIND(reserve_ratio, "sysctl_lowmem_reserve_ratio");
	return 0;
}

static struct zone *zone_at(int i)
{
	struct zone *zone = &NODE_DATA(0)->node_zones[i];

	return populated_zone(zone) ? zone : NULL;
}

/* The recorded machine's zones by the kernel's numbers: DMA, DMA32, Normal, Movable. */
static const int zone_ids[REPLAY_ZONES] = { ZONE_DMA, ZONE_DMA32, ZONE_NORMAL, ZONE_MOVABLE };

static struct zone *recorded_zone(int i)
{
	return zone_at(zone_ids[i]);
}

/* ---- Requests and frees. ---- */

/* What movable requests get counts as movable where the allocator looks for a pageblock to convert. Nothing is moved. */
static bool not_isolated(struct page *page, isolate_mode_t mode)
{
	return false;
}

static struct contents contents = { .operations = { .isolate_page = not_isolated } };

static bool running; /* a step is being carried out */
static bool slow; /* and its request found no zone above its low watermark */

/* A request that finds no zone above its low watermark wakes the reclaimer. A boost wakes it too, on behalf of no request: without gfp flags. */
static void waking(struct pt_regs *regs)
{
	if (running && (gfp_t)regs->si)
		slow = true;
}

static void fell_back(void *data, struct page *page, int order, int from_order, int type, int from)
{
	if (running)
		ex->fallbacks[min(type, REPLAY_TYPES - 1)][min(from, REPLAY_TYPES - 1)]++;
}

static void count_fallbacks(struct tracepoint *tp, void *found)
{
	if (!strcmp(tp->name, "mm_page_alloc_extfrag") && !tracepoint_probe_register(tp, fell_back, NULL))
		*(bool *)found = true;
}

static unsigned long nothing_reclaimed(struct zonelist *zonelist, int order, gfp_t gfp, nodemask_t *nodes)
{
	return 0;
}

static struct replacement replaced[] = {
	{ .name = "wakeup_kswapd", .sees = waking },
	{ .name = "try_to_free_pages", .by = nothing_reclaimed },
	{ .name = "out_of_memory", .by = no_task_killed },
	{ .name = "try_to_compact_pages", .by = not_compacted },
};

static u32 request(const struct step *step)
{
	unsigned int noreclaim = 0;
	unsigned long i;
	struct page *page;

	if (step->flags & FLAG_MEMALLOC)
		noreclaim = memalloc_noreclaim_save();
	page = ALLOC(alloc, gfp_of(step->flags, step->type, step->zone), step->order, 0, NULL);
	if (step->flags & FLAG_MEMALLOC)
		memalloc_noreclaim_restore(noreclaim);
	for (i = 0; page && step->type == 1 && i < 1UL << step->order; i++)
		mark(page + i, &contents);
	return page ? page_to_pfn(page) : NO_FRAME;
}

/* Frees a block that lies anywhere within what we hold: only its first frame counts references. */
static void free_block(u64 pfn, unsigned int order)
{
	unsigned long i;

	if (pfn + (1UL << order) > ex->frames)
		return;
	for (i = 0; i < 1UL << order; i++)
		if (!test_bit(pfn + i, taken))
			return; /* the guest's own, which is never freed */
	for (i = 0; i < 1UL << order; i++) {
		set_page_count(pfn_to_page(pfn + i), 0);
		if (is_marked(pfn_to_page(pfn + i)))
			unmark(pfn_to_page(pfn + i));
	}
	set_page_count(pfn_to_page(pfn), 1);
	__free_pages(pfn_to_page(pfn), order);
}

/* ---- All memory is taken, and the recorded state built. ---- */

static void take_all(void)
{
	unsigned int noreclaim = memalloc_noreclaim_save();
	int order;

	drain_all(NULL);
	for (order = ORDERS - 1; order >= 0; order--) {
		struct page *page;

		while ((page = ALLOC(alloc, __GFP_HIGHMEM | __GFP_MOVABLE | __GFP_NOWARN, order, 0, NULL)))
			bitmap_set(taken, page_to_pfn(page), 1UL << order);
	}
	memalloc_noreclaim_restore(noreclaim);
}

/* The recorded zones' sizes, from which watermarks, reserves and lists' limits follow. Any other zone has no size. */
static void resize_zones(void)
{
	int i, j;

	for (i = 0; i < REPLAY_ZONES; i++)
		if (recorded_zone(i))
			atomic_long_set(&recorded_zone(i)->managed_pages, ex->zones[i].managed);
	if (ex->min_free_kbytes)
		*min_free = ex->min_free_kbytes;
	for (i = 0; i < MAX_NR_ZONES; i++) {
		struct zone *zone = &NODE_DATA(0)->node_zones[i];
		unsigned long above = 0;

		for (j = i + 1; j < MAX_NR_ZONES; j++) {
			above += zone_managed_pages(&NODE_DATA(0)->node_zones[j]);
			zone->lowmem_reserve[j] =
				zone_managed_pages(zone) && reserve_ratio[i] ? above / reserve_ratio[i] : 0;
		}
	}
	set_marks();
}

static void describe_zones(void)
{
	int i, j;

	for (i = 0; i < REPLAY_ZONES; i++) {
		struct zone *zone = recorded_zone(i);
		struct replay_zone *z = &ex->zones[i];

		if (!zone)
			continue;
		z->start = zone->zone_start_pfn;
		z->spanned = zone->spanned_pages;
		for (j = 0; j < 3; j++)
			z->marks[j] = zone->_watermark[j];
		for (j = 0; j < REPLAY_ZONES; j++)
			z->protection[j] = zone->lowmem_reserve[zone_ids[j]];
		z->batch = LISTS(zone, 0)->batch;
#if IS_6_12
		z->high_min = LISTS(zone, 0)->high_min;
		z->high_max = LISTS(zone, 0)->high_max;
#else
		z->high_min = z->high_max = LISTS(zone, 0)->high;
#endif
	}
}

static void put_free(struct page *page, unsigned int order, int type)
{
	struct free_area *area = &page_zone(page)->free_area[order];

	set_page_private(page, order);
	__SetPageBuddy(page);
	list_add_tail(&page->buddy_list, &area->free_list[type]);
	area->nr_free++;
}

static int type_at(unsigned long pfn)
{
	return BLOCK_TYPE(block_type, pfn_to_page(pfn), pfn);
}

/* Two halves that the recording has apart merged when they were freed: they are taken apart again. */
static bool split_free(unsigned long pfn, unsigned int order, int type)
{
	unsigned int large;

	for (large = order + 1; large < ORDERS; large++) {
		unsigned long first = pfn & ~((1UL << large) - 1);
		struct page *page = pfn_to_page(first);

		if (!PageBuddy(page) || page_private(page) != large)
			continue;
		list_del(&page->buddy_list);
		page_zone(page)->free_area[large].nr_free--;
		__ClearPageBuddy(page);
		while (large-- > order) {
			unsigned long upper = first + (1UL << large), other = pfn < upper ? upper : first;

			put_free(pfn_to_page(other), large, type_at(other));
			if (pfn >= upper)
				first = upper;
		}
		put_free(pfn_to_page(pfn), order, type);
		return true;
	}
	return false;
}

/* Blocks of the free lists: freed first, so that the kernel does its own bookkeeping, and then brought into their order. */
static void each_listed(bool in_order)
{
	u32 *at = (void *)ex + ex->lists_at, *end = at + ex->lists;

	while (at + 3 <= end) {
		u32 order = at[0], type = at[1], blocks = at[2], i;

		at += 3;
		for (i = 0; i < blocks && at < end; i++, at++) {
			struct page *page = pfn_to_page(*at);

			if (!in_order) {
				free_block(*at, order);
			} else if (PageBuddy(page) && page_private(page) == order) {
				list_move_tail(&page->buddy_list, &page_zone(page)->free_area[order].free_list[type]);
			} else if (!split_free(*at, order, type)) {
				ex->misplaced++;
			}
		}
	}
}

static void fill_lists(void)
{
	u32 *at = (void *)ex + ex->cached_lists_at, *end = at + ex->cached;

	while (at + 5 <= end) {
		u32 cpu = at[0], list = at[2], order = at[3], blocks = at[4], i;
		struct zone *zone = recorded_zone(at[1]);
		struct per_cpu_pages *pcp = LISTS(zone, cpu);

		at += 5;
		for (i = 0; i < blocks && at + 2 <= end; i++, at += 2) {
			struct page *page = pfn_to_page(at[0]);
			unsigned long frame;

			for (frame = 0; frame < 1UL << order; frame++)
				set_page_count(page + frame, 0);
#if !IS_6_12
			/* Until 6.10 a cached block remembers a type. */
			page->index = at[1];
#endif
			list_add_tail(&page->pcp_list, &pcp->lists[list]);
			pcp->count += 1 << order;
		}
	}
}

static void set_highs(void)
{
	u32 *at = (void *)ex + ex->highs_at, i;

	for (i = 0; i < ex->highs; i++, at += 4)
		LISTS(recorded_zone(at[1]), at[0])->high = at[2];
}

/* Held frames that count as movable where a request takes from their pageblock. */
static void mark_movable(void)
{
	unsigned long *movable = (void *)ex + ex->movable_at, pfn;

	for_each_set_bit(pfn, movable, ex->frames)
		if (test_bit(pfn, taken))
			mark(pfn_to_page(pfn), &contents);
}

static void open_state(void)
{
	u32 *type = (void *)ex + ex->types_at;
	int cpu, i;
	u64 n;

	for (i = 0; i < MAX_NR_ZONES; i++)
		if (zone_at(i))
			zone_at(i)->nr_reserved_highatomic = 0;
	for (n = 0; n < ex->types; n++, type += 2) {
		struct page *page = pfn_to_page((u64)type[0] * pageblock_nr_pages);

		set_type(page, type[1]);
		if (type[1] == MIGRATE_HIGHATOMIC)
			page_zone(page)->nr_reserved_highatomic += pageblock_nr_pages;
	}
	each_listed(false);
	drain_all(NULL);
	each_listed(true);
	for (i = 0; i < MAX_NR_ZONES; i++) {
		struct zone *zone = zone_at(i);

		if (!zone)
			continue;
		CLEAR_RECLAIMED(zone);
		clear_bit(ZONE_BOOSTED_WATERMARK, &zone->flags);
		zone->watermark_boost = 0;
		for (cpu = 0; cpu < ex->cpus; cpu++) {
			struct per_cpu_pages *pcp = LISTS(zone, cpu);

#if IS_6_12
			clear_bit(ZONE_BELOW_HIGH, &zone->flags);
			pcp->alloc_factor = 0;
			pcp->free_count = 0;
			pcp->flags &= ~PCPF_PREV_FREE_HIGH_ORDER;
#else
			pcp->free_factor = 0;
#endif
			pcp->expire = 0;
		}
	}
	set_highs();
	fill_lists();
	mark_movable();
}

/* ---- Samples, and the end. ---- */

static u64 *sample_at, *sample_end;

static void put(u64 word)
{
	if (sample_at < sample_end)
		*sample_at++ = word;
}

static void sample(u64 after)
{
	u64 blocks[ORDERS * REPLAY_TYPES + REPLAY_TYPES];
	struct list_head *at;
	unsigned long pfn;
	int i, j, order, type, cpu;

	put(after);
	for (i = 0; i < REPLAY_ZONES; i++) {
		struct zone *zone = recorded_zone(i);

		memset(blocks, 0, sizeof(blocks));
		put(zone ? zone_page_state(zone, NR_FREE_PAGES) : 0);
		put(zone ? zone->watermark_boost : 0);
		put(zone ? zone->nr_reserved_highatomic : 0);
		if (zone) {
			for (order = 0; order < ORDERS; order++)
				for (type = 0; type < MIGRATE_TYPES; type++)
					list_for_each(at, &zone->free_area[order].free_list[type])
						blocks[order * REPLAY_TYPES + min(type, REPLAY_TYPES - 1)]++;
			for (pfn = zone->zone_start_pfn; pfn < zone_end_pfn(zone); pfn += pageblock_nr_pages)
				if (pfn_valid(pfn) && test_bit(pfn, taken))
					blocks[ORDERS * REPLAY_TYPES + min(type_at(pfn), REPLAY_TYPES - 1)]++;
		}
		for (j = 0; j < ARRAY_SIZE(blocks); j++)
			put(blocks[j]);
		for (cpu = 0; cpu < ex->cpus; cpu++) {
			put(zone ? LISTS(zone, cpu)->count : 0);
			put(zone ? LISTS(zone, cpu)->high : 0);
		}
	}
	ex->samples = sample_at - (u64 *)((void *)ex + ex->samples_at);
}

/* Which frames are free at the end, by the lists themselves. */
static void mark_free(void)
{
	unsigned long *free = (void *)ex + ex->free_at, *cached = (void *)ex + ex->cached_at;
	struct list_head *at;
	int i, order, type, cpu, list;

	for (i = 0; i < MAX_NR_ZONES; i++) {
		struct zone *zone = zone_at(i);

		if (!zone)
			continue;
		for (order = 0; order < ORDERS; order++)
			for (type = 0; type < MIGRATE_TYPES; type++)
				list_for_each(at, &zone->free_area[order].free_list[type])
					bitmap_set(free, page_to_pfn(container_of(at, struct page, FREE)),
						   1UL << order);
		for (cpu = 0; cpu < ex->cpus; cpu++)
			for (list = 0; list < NR_PCP_LISTS; list++) {
				/* Lists of orders 0 to 3 for each type, and those of huge pages behind them. */
				order = list / MIGRATE_PCPTYPES;
				if (order > PAGE_ALLOC_COSTLY_ORDER)
					order = pageblock_order;
				list_for_each(at, &LISTS(zone, cpu)->lists[list])
					bitmap_set(cached, page_to_pfn(container_of(at, struct page, LISTED)),
						   1UL << order);
			}
	}
}

/* ---- Threads hold the CPUs. ---- */

static u64 turn;
static atomic_t arrived, masked, counted;
static bool opened;

static u64 refusals;

static void carry_out(u64 index)
{
	const struct step *step = &steps[index];

	running = true;
	switch (step->kind) {
	case STEP_ALLOC:
		slow = false;
		answers[index] = request(step);
		running = false;
		ex->slow += slow;
		if (answers[index] == NO_FRAME && refusals++ < REPLAY_REFUSALS)
			sample(index);
		break;
	case STEP_FREE:
		if (answers[step->arg] != NO_FRAME)
			free_block((u64)answers[step->arg] + step->offset, step->order);
		break;
	case STEP_FREE_AT:
		free_block(step->arg, step->order);
		break;
	case STEP_DRAIN:
		drain_all(NULL);
		break;
	case STEP_TICK:
		refresh_stats(true);
		break;
	case STEP_KSWAPD_ENDS:
		reclaim_ends(0);
		break;
	case STEP_SAMPLE:
		running = false;
		sample(index);
		break;
	}
	running = false;
}

static int check(void)
{
	u64 i;

	for (i = 0; i < ex->steps; i++) {
		const struct step *step = &steps[i];

		if (step->kind >= STEP_KINDS || step->cpu >= ex->cpus || step->order >= ORDERS || step->type > 2 || step->zone > 3)
			return fail("a step is out of range");
		if (step->kind == STEP_FREE && (step->arg >= i || steps[step->arg].kind != STEP_ALLOC))
			return fail("a step frees what none got");
	}
	return 0;
}

/* On CPU 0: takes all memory, waits for the driver, and opens. */
static bool prepare(void)
{
	take_all();
	WRITE_ONCE(ex->status, REPLAY_TAKEN);
	while (READ_ONCE(ex->status) != REPLAY_GO)
		cpu_relax();
	steps = (void *)ex + ex->steps_at;
	answers = (void *)ex + ex->answers_at;
	sample_at = (void *)ex + ex->samples_at;
	sample_end = sample_at + ex->samples_room;
	if (check())
		return false;
	open_state();
	return true;
}

static int cpu_of(u64 at)
{
	return steps[at].cpu;
}

static int hold(void *arg)
{
	int cpu = (long)arg;
	u64 at;

	preempt_disable();
	meet(&arrived, ex->cpus);
	local_irq_disable();
	meet(&masked, ex->cpus);
	count_exactly(cpu, refresh_stats);
	meet(&counted, ex->cpus);
	if (cpu == 0) {
		play_background();
		if (!prepare())
			turn = U64_MAX;
		smp_store_release(&opened, true);
	}
	while (!smp_load_acquire(&opened))
		cpu_relax();
	at = take_turns(cpu, &turn, ex->steps, &ex->done, cpu_of, carry_out);
	if (cpu == 0 && at != U64_MAX) {
		mark_free();
		WRITE_ONCE(ex->status, REPLAY_DONE);
	}
	/* There may be no memory left to go on with: the driver ends the guest. */
	for (;;)
		cpu_relax();
	return 0;
}

static int __init replay_init(void)
{
	struct pci_dev *dev = pci_get_device(0x1af4, 0x1110, NULL);
	bool counted_fallbacks = false;
	int err;
	long cpu;

	if (!dev || pci_enable_device(dev))
		return -ENODEV;
	ex = memremap(pci_resource_start(dev, 2), pci_resource_len(dev, 2), MEMREMAP_WB);
	if (!ex)
		return -ENOMEM;
	if (ex->magic != REPLAY_MAGIC || ex->version != REPLAY_VERSION)
		return fail("the exchange is of another version than the module");
	taken = (void *)ex + ex->taken_at;
	strscpy(ex->release, utsname()->release, sizeof(ex->release));
	if (num_online_cpus() != ex->cpus)
		return fail("the guest has another number of CPUs than the recording");
	if (nr_online_nodes != 1)
		return fail("the guest has several nodes");
	if (announce(&contents))
		return fail("this kernel takes no operations of ours for frames that can be moved");
	err = find_lookup() ? fail("kprobes do not work in this kernel") : find_symbols();
	if (!err)
		err = replace_all(replaced, ARRAY_SIZE(replaced));
	if (err)
		return err;
	for_each_kernel_tracepoint(count_fallbacks, &counted_fallbacks);
	if (!counted_fallbacks)
		return fail("this kernel has no tracepoint mm_page_alloc_extfrag");
	ex->page_bytes = sizeof(struct page);
	resize_zones();
	describe_zones();
	for (cpu = 0; cpu < ex->cpus; cpu++) {
		struct task_struct *thread = kthread_create_on_node(hold, (void *)cpu, 0, "replay/%ld", cpu);

		if (IS_ERR(thread))
			return fail("a thread could not be made");
		kthread_bind(thread, cpu);
		wake_up_process(thread);
	}
	for (;;)
		msleep(1000);
	return 0;
}

module_init(replay_init);
