// SPDX-License-Identifier: GPL-2.0
/*
 * The judge: carries out a stream of operations in this kernel's own page allocator, and writes down what it
 * answered and what its lists held before and after.
 *
 * All CPUs are held by threads of this module with interrupts off from the first dump to the last, so no one else
 * allocates or frees meanwhile. An operation names its CPU; they take turns, so a run can be repeated. Three functions
 * are replaced by our own for that time: what reclaims for a request, what compacts for it, and the killer. The
 * background reclaimer is woken by the kernel, and played. Everything else is the kernel's own code.
 */
#include <linux/delay.h>
#include <linux/gfp.h>
#include <linux/io.h>
#include <linux/kthread.h>
#include <linux/migrate.h>
#include <linux/mm.h>
/* In 6.1 it needs what comes before it. */
#include <linux/compaction.h>
#include <linux/mmzone.h>
#include <linux/module.h>
#include <linux/pagemap.h>
#include <linux/pci.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/utsname.h>

#include "hooks.h"
#include "judge.h"
#include "movable.h"
#include "request.h"
#include "turns.h"

#define MOST_RECLAIMS 1024
#define MOST_EXACT (1U << (ORDERS - 1))

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Carries out a stream of operations in the kernel's page allocator and writes down its answers");

/* ---- What is not exported is found by name. ---- */

static alloc_fn alloc;
static void (*drain_all)(struct zone *zone);
static void (*drain_local)(struct zone *zone);
static bool (*refresh_stats)(bool do_pagesets);
static void (*drain_lru)(void);
#if !IS_6_1
static void (*drain_of)(unsigned int cpu);
#endif
static void (*set_up_watermarks)(void);
static int *min_free, *scale_factor, *boost_factor;
block_type_fn block_type;
#if IS_6_12
static void (*free_folios)(struct folio_batch *folios);
#else
static void (*free_list_of_pages)(struct list_head *list);
#endif

struct exchange *ex;
static struct operation *ops;
static struct answer *answers;
static u32 *frames;

static int fail(const char *why)
{
	pr_err("judge: %s\n", why);
	strscpy(ex->message, why, sizeof(ex->message));
	WRITE_ONCE(ex->status, STATUS_FAILED);
	return -EINVAL;
}

static int find_symbols(void)
{
	FIND(alloc, ALLOC_NAME);
	FIND(drain_all, "drain_all_pages");
	FIND(drain_local, "drain_local_pages");
	FIND(refresh_stats, "refresh_cpu_vm_stats");
	FIND(drain_lru, "lru_add_drain");
#if !IS_6_1
	FIND(drain_of, "drain_pages");
#endif
	FIND(block_type, BLOCK_TYPE_NAME);
	FIND(set_up_watermarks, "setup_per_zone_wmarks");
	FIND(min_free, "min_free_kbytes");
	FIND(scale_factor, "watermark_scale_factor");
	FIND(boost_factor, "watermark_boost_factor");
#if IS_6_12
	FIND(free_folios, "free_unref_folios");
#else
	FIND(free_list_of_pages, "free_unref_page_list");
#endif
	return 0;
}

/* ---- Blocks and what they hold. ---- */

static u32 *where; /* by operation, and behind them by frame of a bulk request: the frame that it holds */
static struct move *moves;
u64 turn;
static u32 isolated; /* frames, in this operation */

/*
 * Single frames and the first of compound pages say whose they are: the place of their number in `where`, plus one, and the
 * operation that got them.
 */
static const struct operation *owner_of(struct page *page)
{
	return &ops[page->INDEX];
}

static bool isolate(struct page *page, isolate_mode_t mode)
{
	if (!ex->compacts || !page_private(page) || owner_of(page)->flags & FLAG_PINNED)
		return false;
	if (isolated >= MOST_ISOLATED) {
		answers[turn].cut_short = 1;
		return false;
	}
	isolated++;
	return true;
}

static int migrate(struct page *to, struct page *from, enum migrate_mode mode);

static void put_back(struct page *page)
{
}

static struct contents contents = {
	.operations = { .isolate_page = isolate, .migrate_page = migrate, .putback_page = put_back },
};

static int migrate(struct page *to, struct page *from, enum migrate_mode mode)
{
	u64 place = page_private(from) - 1;

	if (owner_of(from)->flags & FLAG_STUCK)
		return -EAGAIN;
	get_page(to);
	mark(to, &contents);
	mark_later(to, compound_nr(to));
	unmark_later(from, compound_nr(from));
	set_page_private(to, place + 1);
	to->INDEX = from->INDEX;
	where[place] = page_to_pfn(to);
	if (ex->moves < ex->moves_room)
		moves[ex->moves] = (struct move){ .operation = turn, .from = page_to_pfn(from), .to = page_to_pfn(to) };
	ex->moves++;
	set_page_private(from, 0);
	unmark_moved(from);
	put_page(from);
	return 0; /* it was moved */
}

/* The contents of a movable block can be moved, as far as the allocator can tell. */
static void fill(struct page *page, const struct operation *op, u64 place)
{
	bool whole = op->flags & FLAG_COMP;
	unsigned long i, n = 1UL << op->order;

	where[place] = page_to_pfn(page);
	if (op->type != 1)
		return;
	for (i = 0; i < (whole ? 1 : n); i++)
		mark(page + i, &contents);
	if (whole)
		mark_later(page, n);
	if (whole || n == 1) {
		set_page_private(page, place + 1);
		page->INDEX = turn;
	}
}

static void empty(struct page *page, const struct operation *op)
{
	bool whole = op->flags & FLAG_COMP;
	unsigned long i, n = 1UL << op->order;

	if (op->type != 1)
		return;
	set_page_private(page, 0);
	if (whole)
		unmark_later(page, n);
	for (i = 0; i < (whole ? 1 : n); i++)
		unmark(page + i);
}

/* It got single frames, whose numbers are in `frames`. */
static bool got_frames(const struct operation *op)
{
	return op->kind == OP_ALLOC_BULK || op->kind == OP_ALLOC_EXACT;
}

/* ---- What is replaced. ---- */

static struct answer *now; /* the answer being written; only while an operation runs */
static const struct operation *current_op;
static u32 *offered; /* operations whose blocks can be reclaimed, first come, first freed */
static u32 offered_first, offered_next;

/* Says whether a zone is one that a request could use. */
static bool of_request(struct zone *zone, gfp_t gfp, nodemask_t *nodes)
{
	return zone_idx(zone) <= gfp_zone(gfp) && (!nodes || node_isset(zone_to_nid(zone), *nodes)) &&
	       (!(gfp & __GFP_THISNODE) || zone_to_nid(zone) == numa_node_id());
}

static unsigned long reclaimed(struct zonelist *zonelist, int order, gfp_t gfp, nodemask_t *nodes)
{
	unsigned long got = 0;
	bool ready = false, short_of = false;
	int node, i;

	if (!now)
		return 0;
	/* A request that is told of progress for ever asks for ever: the reference gives up at some point, and so does this. */
	if (++now->reclaims >= MOST_RECLAIMS)
		return 0;
	/* Zones that are ready for compaction are not reclaimed, for large blocks. */
	for_each_online_node(node)
		for (i = 0; i < MAX_NR_ZONES; i++) {
			struct zone *zone = &NODE_DATA(node)->node_zones[i];

			if (!managed_zone(zone) || !of_request(zone, gfp, nodes))
				continue;
			if (ex->compacts && order > PAGE_ALLOC_COSTLY_ORDER &&
			    zone_page_state(zone, NR_FREE_PAGES) > high_wmark_pages(zone) + compact_gap(order))
				ready = true;
			else
				short_of = true;
		}
	for (i = 0; short_of && i < current_op->gives && offered_first < offered_next; i++) {
		u32 index = offered[offered_first++];
		const struct operation *op = &ops[index];
		struct page *page = pfn_to_page(where[index]);

		/* What is freed elsewhere does not count, as it would not be reclaimed for this request. */
		if (of_request(page_zone(page), gfp, nodes))
			got += 1UL << op->order;
		empty(page, op);
		__free_pages(page, op->order);
	}
	return max_t(unsigned long, got, ready);
}

#if !IS_6_1
/* 5.10 asks each CPU to drain its own, and waits: here one CPU has the turn. */
static void drained(struct zone *zone)
{
	int cpu;

	for (cpu = 0; cpu < JUDGED_CPUS; cpu++)
		drain_of(cpu);
}
#endif

static struct replacement replaced[] = {
#if !IS_6_1
	{ .name = "drain_all_pages", .by = drained },
#endif
	{ .name = "try_to_free_pages", .by = reclaimed },
	{ .name = "out_of_memory", .by = no_task_killed },
	{ .name = "try_to_compact_pages", .by = not_compacted }, /* the last: not where requests compact */
};

/* ---- The operations. ---- */

static gfp_t asked(const struct operation *op)
{
	gfp_t gfp = gfp_of(op->flags, op->type, op->zone);

	if (op->flags & FLAG_DIRECT && ex->compacts)
		gfp |= __GFP_IO;
	if (op->flags & FLAG_COMP)
		gfp |= __GFP_COMP;
	return gfp;
}

static void request(const struct operation *op, struct answer *a)
{
	unsigned int noreclaim = 0;
	nodemask_t mask = NODE_MASK_NONE, *nodes = NULL;
	struct page *page;
	int node;

	if (op->nodes) {
		for_each_online_node(node)
			if (op->nodes & (1 << node))
				node_set(node, mask);
		nodes = &mask;
	}
	if (op->flags & FLAG_MEMALLOC)
		noreclaim = memalloc_noreclaim_save();
	/* What is there does not matter: whether it is there says that a task is a victim. */
	if (op->flags & FLAG_VICTIM)
		current->signal->oom_mm = current->active_mm;
	if (op->kind == OP_ALLOC_BULK) {
		static struct page *array[JUDGED_CPUS][512];
		struct page **got = array[op->cpu];
		unsigned long n, i;

		memset(got, 0, sizeof(array[0]));
		if (ex->frames + 512 > ex->frames_room)
			return; /* the driver sees to it that this does not happen */
		n = BULK(asked(op), numa_node_id(), nodes, min_t(u32, op->arg, 512), got);
		a->result = (ex->frames << 16) | n;
		for (i = 0; i < n; i++) {
			fill(got[i], op, ex->operations + ex->frames);
			frames[ex->frames++] = page_to_pfn(got[i]);
		}
	} else if (op->kind == OP_ALLOC_EXACT) {
		void *first = NULL;
		unsigned long i;

		if (ex->frames + op->arg > ex->frames_room)
			return; /* as above */
		first = alloc_pages_exact((size_t)op->arg << PAGE_SHIFT, asked(op));
		a->result = (ex->frames << 16) | (first ? op->arg : 0);
		for (i = 0; first && i < op->arg; i++) {
			page = virt_to_page(first) + i;
			fill(page, op, ex->operations + ex->frames);
			frames[ex->frames++] = page_to_pfn(page);
		}
	} else {
		page = ALLOC(alloc, asked(op), op->order, numa_node_id(), nodes);
		if (page) {
			a->result = page_to_pfn(page);
			fill(page, op, turn);
		}
	}
	if (op->flags & FLAG_VICTIM)
		current->signal->oom_mm = NULL;
	if (op->flags & FLAG_MEMALLOC)
		memalloc_noreclaim_restore(noreclaim);
}

static void give_back(const struct operation *op)
{
	const struct operation *from = &ops[op->arg];
	u64 got = answers[op->arg].result;
	struct page *page;
	u32 i;

	if (got == ~0ULL)
		return;
	if (op->kind == OP_FREE_BULK) {
		u32 *first = &frames[got >> 16], n = got & 0xffff;
#if IS_6_12
		struct folio_batch batch;

		folio_batch_init(&batch);
#else
		LIST_HEAD(list);
#endif
		for (i = 0; i < n; i++) {
			if (first[i] & FRAME_FREED)
				continue;
			page = pfn_to_page(where[ex->operations + (got >> 16) + i]);
			first[i] |= FRAME_FREED;
			empty(page, from);
			if (!put_page_testzero(page))
				continue;
#if IS_6_12
			if (!folio_batch_add(&batch, page_folio(page)))
				free_folios(&batch);
#else
			list_add_tail(&page->lru, &list);
#endif
		}
#if IS_6_12
		if (batch.nr)
			free_folios(&batch);
#else
		free_list_of_pages(&list);
#endif
		return;
	}
	if (got_frames(from)) {
		u32 *frame = &frames[(got >> 16) + op->sub];

		if (op->sub >= (got & 0xffff) || *frame & FRAME_FREED)
			return;
		page = pfn_to_page(where[ex->operations + (got >> 16) + op->sub]);
		*frame |= FRAME_FREED;
	} else {
		page = pfn_to_page(where[op->arg]);
	}
	empty(page, from);
	if (op->kind == OP_FREE_FRAG)
		page_frag_free(page_address(page));
	else
		__free_pages(page, got_frames(from) ? 0 : from->order);
}

static void __maybe_unused not_to_expire(int cpu)
{
	int node, i;

	for_each_online_node(node)
		for (i = 0; i < MAX_NR_ZONES; i++)
			if (populated_zone(&NODE_DATA(node)->node_zones[i]))
				EXPIRE(&NODE_DATA(node)->node_zones[i], cpu) = 0;
}

static u32 *counted, *counted_end;

static u32 fold(u32 sum, u64 number)
{
	if (counted < counted_end)
		*counted++ = number;
	return (sum ^ (u32)number) * 0x9e3779b1U + 1;
}

/* What is counted after an operation. A difference shows here long before it shows in a frame number. */
static u32 counts(void)
{
	u32 sum = 0;
	int node, i, cpu;

	for_each_online_node(node)
		for (i = 0; i < MAX_NR_ZONES; i++) {
			struct zone *zone = &NODE_DATA(node)->node_zones[i];

			if (!populated_zone(zone))
				continue;
			sum = fold(sum, zone_page_state(zone, NR_FREE_PAGES));
			sum = fold(sum, zone->watermark_boost);
			sum = fold(sum, zone->nr_reserved_highatomic);
			sum = fold(sum, IS_RECLAIMED(zone));
			sum = fold(sum, test_bit(ZONE_BOOSTED_WATERMARK, &zone->flags));
#if IS_6_12
			sum = fold(sum, test_bit(ZONE_BELOW_HIGH, &zone->flags));
#else
			sum = fold(sum, 0);
#endif
			for (cpu = 0; cpu < JUDGED_CPUS; cpu++) {
				struct per_cpu_pages *pcp = LISTS(zone, cpu);

				sum = fold(sum, pcp->count);
				sum = fold(sum, pcp->high);
				sum = fold(sum, FREE_FACTOR(pcp));
				sum = fold(sum, FREE_COUNT(pcp));
			}
		}
	for_each_online_node(node) {
		const pg_data_t *of = NODE_DATA(node);

		sum = fold(sum, of->kswapd_order);
		sum = fold(sum, of->kswapd_highest_zoneidx == MAX_NR_ZONES ? 5 : of->kswapd_highest_zoneidx);
		sum = fold(sum, of->kcompactd_max_order);
		sum = fold(sum, of->kcompactd_highest_zoneidx);
	}
	return sum;
}

static void carry_out(u64 index)
{
	const struct operation *op = &ops[index];
	struct answer *a = &answers[index];

	*a = (struct answer){ .result = op->kind == OP_ALLOC ? ~0ULL : 0 };
	/* Asked to give way, asynchronous compaction leaves out zones; here no one waits for the CPU. */
	clear_tsk_need_resched(current);
	current_op = op;
	isolated = 0;
	now = a;
	switch (op->kind) {
	case OP_ALLOC:
	case OP_ALLOC_BULK:
	case OP_ALLOC_EXACT:
		request(op, a);
		break;
	case OP_FREE:
	case OP_FREE_BULK:
	case OP_FREE_FRAG:
		give_back(op);
		break;
	case OP_DRAIN:
		if (op->arg)
			drain_local(NULL);
		else
			drain_all(NULL);
		break;
	case OP_TICK:
#if !IS_6_1
		/* There the counters of nodes, too, keep differences: lists of another node would expire. */
		not_to_expire(op->cpu);
#endif
		refresh_stats(true);
		break;
	case OP_KSWAPD_ENDS:
		reclaim_ends(op->arg);
		break;
	case OP_GIVE_UP:
		if (answers[op->arg].result != ~0ULL)
			offered[offered_next++] = op->arg;
		break;
	case OP_SET_WATERMARKS:
		*min_free = op->arg;
		*scale_factor = op->sub;
		*boost_factor = op->gives * 10;
		set_up_watermarks();
		break;
	}
	now = NULL;
	counted = (void *)ex + ex->counts_at + index * COUNTS * sizeof(u32);
	counted_end = counted + (index < ex->counts_room ? COUNTS : 0);
	a->counts = counts();
}

/* ---- Two threads hold the CPUs. ---- */

static atomic_t arrived, masked, folded;
static bool closed;
bool opened;

/*
 * What user space maps, and the page cache, cannot be moved while all CPUs are held. Their flag for reclaim is taken away until the
 * end, and with it what makes the allocator count them as movable.
 */
static u32 *off_lru;
static u64 nr_off_lru;

static void take_off_lru(void)
{
	unsigned long pfn;
	int node;

	for_each_online_node(node)
		for (pfn = node_start_pfn(node); pfn < node_end_pfn(node); pfn++) {
			struct page *page = pfn_valid(pfn) ? pfn_to_page(pfn) : NULL;

			if (!page || PageTail(page) || !PageLRU(page) || nr_off_lru == OFF_LRU)
				continue;
			ClearPageLRU(page);
			off_lru[nr_off_lru++] = pfn;
		}
}

static void put_on_lru(void)
{
	while (nr_off_lru)
		SetPageLRU(pfn_to_page(off_lru[--nr_off_lru]));
}

static int cpu_of(u64 at)
{
	return ops[at].cpu;
}

static int hold(void *arg)
{
	int cpu = (long)arg;

	preempt_disable();
	meet(&arrived, JUDGED_CPUS);
	local_irq_disable();
	meet(&masked, JUDGED_CPUS);
	/* Compaction would put what waits for it on the lists for reclaim. */
	drain_lru();
	count_exactly(cpu, refresh_stats);
	meet(&folded, JUDGED_CPUS);
	if (cpu == 0) {
		take_off_lru();
		if (ex->weigh)
			weigh();
		play_background();
		drain_all(NULL);
		ex->opening_len = put_state(ex->opening_at);
		smp_store_release(&opened, true);
	}
	while (!smp_load_acquire(&opened))
		cpu_relax();
	take_turns(cpu, &turn, ex->operations, &ex->done, cpu_of, carry_out);
	if (cpu == 0) {
		ex->closing_len = put_state(ex->closing_at);
		put_on_lru();
		end_play();
		smp_store_release(&closed, true);
	}
	while (!smp_load_acquire(&closed))
		cpu_relax();
	local_irq_enable();
	preempt_enable();
	return 0;
}

static int check(void)
{
	u64 i;

	if (ex->magic != EXCHANGE_MAGIC || ex->version != EXCHANGE_VERSION)
		return fail("the exchange is of another version than the judge");
	if (ex->compacts && !IS_6_1)
		return fail("compaction is not judged on kernels before 6.1");
	for (i = 0; i < ex->operations; i++) {
		const struct operation *op = &ops[i];
		bool refers = op->kind == OP_FREE || op->kind == OP_FREE_BULK || op->kind == OP_FREE_FRAG || op->kind == OP_GIVE_UP;

		if (op->kind >= OP_KINDS || op->cpu >= JUDGED_CPUS || op->order >= ORDERS || op->type > 2 || op->zone > 3)
			return fail("an operation is out of range");
		if (op->kind == OP_ALLOC_EXACT && (!op->arg || op->arg > MOST_EXACT || op->order || op->nodes || op->zone > 2))
			return fail("a request for an exact number of frames asks for what it cannot");
		if (op->kind == OP_ALLOC_BULK && !IS_6_1)
			return fail("kernels before 5.13 have no bulk requests");
		if (refers && op->arg >= i)
			return fail("an operation names one that has not happened");
		if (op->kind == OP_KSWAPD_ENDS && !node_online(op->arg))
			return fail("an operation names a node that is not there");
		if (op->kind == OP_SET_WATERMARKS && (op->arg < 128 || op->arg > 65536 || !op->sub || op->sub > 1000))
			return fail("an operation sets watermarks that leave no memory");
	}
	return 0;
}

static int __init judge_init(void)
{
	struct pci_dev *dev = pci_get_device(0x1af4, 0x1110, NULL);
	struct task_struct *held[JUDGED_CPUS];
	int cpu, err;

	if (!dev || pci_enable_device(dev))
		return -ENODEV;
	ex = memremap(pci_resource_start(dev, 2), pci_resource_len(dev, 2), MEMREMAP_WB);
	if (!ex)
		return -ENOMEM;
	ops = (void *)ex + ex->operations_at;
	answers = (void *)ex + ex->answers_at;
	frames = (void *)ex + ex->frames_at;
	where = (void *)ex + ex->where_at;
	moves = (void *)ex + ex->moves_at;
	off_lru = (void *)ex + ex->off_lru_at;
	WRITE_ONCE(ex->status, STATUS_RUNNING);
	strscpy(ex->release, utsname()->release, sizeof(ex->release));
	if (num_online_cpus() != JUDGED_CPUS)
		return fail("the judge wants two CPUs");
	if (announce(&contents))
		return fail("this kernel takes no operations of ours for frames that can be moved");
	err = check();
	if (!err)
		err = find_lookup() ? fail("kprobes do not work in this kernel") : find_symbols();
	if (!err)
		err = replace_all(replaced, ARRAY_SIZE(replaced) - !!ex->compacts);
	if (!err && ex->compacts && follow_steps())
		err = fail("this kernel does not trace compaction");
	if (err)
		goto out;
	/* Behind the frames of bulk requests. */
	offered = frames + ex->frames_room;
	for (cpu = 0; cpu < JUDGED_CPUS; cpu++) {
		held[cpu] = kthread_create_on_node(hold, (void *)(long)cpu, cpu_to_node(cpu), "judge/%d", cpu);
		if (IS_ERR(held[cpu])) {
			err = fail("a thread could not be made");
			goto out;
		}
		get_task_struct(held[cpu]);
		kthread_bind(held[cpu], cpu);
	}
	for (cpu = 0; cpu < JUDGED_CPUS; cpu++)
		wake_up_process(held[cpu]);
	while (!READ_ONCE(closed))
		msleep(20);
	WRITE_ONCE(ex->status, STATUS_DONE);
	pr_info("judge: done\n");
out:
	if (ex->compacts)
		leave_steps();
	restore_all(replaced, ARRAY_SIZE(replaced));
	return err;
}

module_init(judge_init);
