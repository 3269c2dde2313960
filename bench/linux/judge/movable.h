/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How a frame is marked as one whose holder can move it, without a list for reclaim. Until 6.16 a bit beside the mapping says so,
 * and the mapping is the holder's operations; since 6.17 a flag does, and the frame's type says whose operations they are.
 */
#ifndef PAGEYARD_MOVABLE_H
#define PAGEYARD_MOVABLE_H

#include <linux/fs.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/pagemap.h>

#include "kernels.h"

#if IS_6_18
#define INDEX __folio_index
#else
#define INDEX index
#endif

/*
 * Since 6.9 compound pages move, too. One for which there is no target is to be split, as if it were a file's. Where the mapping is the
 * operations, what follows them is where that looks for the file's least order, which is too large; where there is no mapping, nothing
 * is split.
 */
#if !IS_6_1
/* As 6.1 has it. 5.10 would ask a file's operations; the judge does not let it compact. */
struct movable_operations {
	bool (*isolate_page)(struct page *page, isolate_mode_t mode);
	int (*migrate_page)(struct page *to, struct page *from, enum migrate_mode mode);
	void (*putback_page)(struct page *page);
};
#endif

struct contents {
	struct movable_operations operations;
	u8 file[sizeof(struct address_space)];
} __aligned(64);

#if IS_6_18

/* A frame of the balloon's type: the guest has none. */
static inline int announce(struct contents *contents)
{
	set_movable_ops(NULL, PGTY_offline);
	return set_movable_ops(&contents->operations, PGTY_offline);
}

static inline void mark(struct page *page, struct contents *contents)
{
	__SetPageOffline(page);
	SetPageMovableOps(page);
}

/* The flag goes when the page is freed. */
static inline void unmark(struct page *page)
{
	__ClearPageOffline(page);
}

/* A frame that has been moved away keeps its type until it is freed: migration looks at it once more. */
static inline void unmark_moved(struct page *page)
{
}

/* The flag of a later frame is the first one's, the type is its own. */
static inline void mark_later(struct page *page, unsigned long n)
{
	unsigned long i;

	for (i = 1; i < n; i++)
		__SetPageOffline(page + i);
}

static inline void unmark_later(struct page *page, unsigned long n)
{
	unsigned long i;

	for (i = 1; i < n; i++)
		__ClearPageOffline(page + i);
}

static inline bool is_marked(struct page *page)
{
	return page_has_movable_ops(page);
}

#else

static inline int announce(struct contents *contents)
{
#if IS_6_12
	struct address_space *file = (void *)contents + PAGE_MAPPING_MOVABLE;

	BUILD_BUG_ON(offsetof(struct address_space, flags) + PAGE_MAPPING_MOVABLE < sizeof(contents->operations));
	mapping_set_folio_min_order(file, 1);
#endif
	return 0;
}

static inline void mark(struct page *page, struct contents *contents)
{
	page->mapping = (void *)((unsigned long)&contents->operations | PAGE_MAPPING_MOVABLE);
}

static inline void unmark(struct page *page)
{
	page->mapping = NULL;
}

static inline void unmark_moved(struct page *page)
{
	__ClearPageMovable(page);
}

/*
 * The later frames of a compound page count as movable only if they say so themselves, where those of a page on a list for reclaim
 * do. What they say is a bit that is 0 in whatever the kernel keeps there, and has to be so again before the page is freed.
 */
static inline void mark_later(struct page *page, unsigned long n)
{
	unsigned long i;

	for (i = 1; i < n; i++)
		page[i].mapping = (void *)((unsigned long)page[i].mapping | PAGE_MAPPING_MOVABLE);
}

static inline void unmark_later(struct page *page, unsigned long n)
{
	unsigned long i;

	for (i = 1; i < n; i++)
		page[i].mapping = (void *)((unsigned long)page[i].mapping & ~(unsigned long)PAGE_MAPPING_MOVABLE);
}

static inline bool is_marked(struct page *page)
{
	return __PageMovable(page);
}

#endif
#endif
