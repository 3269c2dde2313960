// SPDX-License-Identifier: GPL-2.0
/*
 * Makes the page allocator refuse a request, so that the kernel describes its memory in its log.
 *
 * Commands are written to /sys/module/provoke/parameters/do, one at a time:
 *
 *   burst ORDER KIND NODE   asks until a request is refused, and keeps what it got; NODE is -1 for any
 *   scatter MIB             fills memory with pages, an object of the slab after every 128th, and gives the pages back
 *   lists CPU LEFT          on a CPU, takes pages until LEFT are free, then gives back as many as its lists hold
 *   drop                    gives back all that is kept
 *
 * KIND is atomic, kernel, dma32, movable or nowait, with "node" behind it for a request that keeps to its node. The
 * kernel describes one refusal in ten seconds (the ratelimit of warn_alloc).
 */
#include <linux/gfp.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/vmstat.h>
#include <linux/workqueue.h>

static LIST_HEAD(kept);
static LIST_HEAD(objects);
static struct kmem_cache *cache;

/* What is kept lies in the memory itself: the list, and the order behind it. */
struct block {
	struct list_head list;
	unsigned int order;
};

static void keep(struct page *page, unsigned int order, struct list_head *on)
{
	struct block *block = page_address(page);

	block->order = order;
	list_add(&block->list, on);
}

static void drop(struct list_head *from)
{
	struct block *block, *next;

	list_for_each_entry_safe(block, next, from, list)
		__free_pages(virt_to_page(block), block->order);
	INIT_LIST_HEAD(from);
}

static gfp_t flags_of(const char *kind)
{
	gfp_t flags = GFP_KERNEL;

	if (strstarts(kind, "atomic"))
		flags = GFP_ATOMIC;
	else if (strstarts(kind, "nowait"))
		flags = __GFP_KSWAPD_RECLAIM;
	else if (strstarts(kind, "dma32"))
		flags = GFP_ATOMIC | __GFP_DMA32;
	else if (strstarts(kind, "movable"))
		flags = GFP_KERNEL | __GFP_MOVABLE;
	if (strstr(kind, "node"))
		flags |= __GFP_THISNODE;
	return flags | __GFP_COMP;
}

static int burst(unsigned int order, const char *kind, int node)
{
	gfp_t flags = flags_of(kind);
	bool waits = gfpflags_allow_blocking(flags);
	unsigned long n;

	/* Nothing else runs on this CPU in between, the background reclaimer included. */
	if (!waits)
		preempt_disable();
	for (n = 0; ; n++) {
		struct page *page = alloc_pages_node(node < 0 ? numa_mem_id() : node,
						     order ? flags : flags & ~__GFP_COMP, order);

		if (!page)
			break;
		keep(page, order, &kept);
		if (waits && n % 64 == 0)
			cond_resched();
	}
	if (!waits)
		preempt_enable();
	pr_info("provoke: %lu of order %u (%s), then none\n", n, order, kind);
	return 0;
}

static int scatter(unsigned long mib)
{
	unsigned long n, of = mib << (20 - PAGE_SHIFT), slabs = 0;
	LIST_HEAD(pages);

	if (!cache)
		cache = kmem_cache_create("provoke", PAGE_SIZE / 2 + 64, 0, 0, NULL);
	if (!cache)
		return -ENOMEM;
	for (n = 0; n < of; n++) {
		struct page *page = alloc_page(GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN);

		if (!page)
			break;
		keep(page, 0, &pages);
		if (n % 128 == 0) {
			struct list_head *object = kmem_cache_alloc(cache, GFP_KERNEL | __GFP_NOWARN);

			if (object) {
				list_add(object, &objects);
				slabs++;
			}
		}
		if (n % 1024 == 0)
			cond_resched();
	}
	drop(&pages);
	pr_info("provoke: %lu objects between %lu pages\n", slabs, n);
	return 0;
}

static unsigned long left;

static long fill_lists(void *unused)
{
	LIST_HEAD(back);
	unsigned long n = 0;

	while (global_zone_page_state(NR_FREE_PAGES) > left) {
		struct page *page = alloc_page(GFP_ATOMIC | __GFP_NOWARN);

		if (!page)
			break;
		keep(page, 0, n++ < (24UL << 20 >> PAGE_SHIFT) ? &back : &kept);
		if (n % 1024 == 0)
			cond_resched();
	}
	drop(&back);
	pr_info("provoke: took %lu pages on CPU %d\n", n, raw_smp_processor_id());
	return 0;
}

static int do_it(const char *text, const struct kernel_param *kp)
{
	char what[16] = "", kind[16] = "";
	unsigned long number;
	int node = -1, cpu;
	unsigned int order;

	if (sscanf(text, "burst %u %15s %d", &order, kind, &node) >= 2)
		return burst(order, kind, node);
	if (sscanf(text, "scatter %lu", &number) == 1)
		return scatter(number);
	if (sscanf(text, "lists %d %lu", &cpu, &number) == 2) {
		left = number;
		return work_on_cpu(cpu, fill_lists, NULL);
	}
	if (sscanf(text, "%15s", what) == 1 && !strcmp(what, "drop")) {
		drop(&kept);
		return 0;
	}
	return -EINVAL;
}

static const struct kernel_param_ops ops = { .set = do_it };
module_param_cb(do, &ops, NULL, 0200);

static int __init start(void)
{
	return 0;
}

static void __exit end(void)
{
	struct list_head *object, *next;

	drop(&kept);
	list_for_each_safe(object, next, &objects)
		kmem_cache_free(cache, object);
	kmem_cache_destroy(cache);
}

module_init(start);
module_exit(end);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Makes the page allocator refuse a request");
