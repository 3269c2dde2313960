/* SPDX-License-Identifier: GPL-2.0 */
/* How hard a request tries, as the other side says it (request.rs of pageyard-guest), and what that is in this kernel. */
#ifndef PAGEYARD_REQUEST_H
#define PAGEYARD_REQUEST_H

#include <linux/gfp.h>

enum request_flag {
	FLAG_HIGH = 1 << 0,
	FLAG_DIRECT = 1 << 1, /* may wait */
	FLAG_KSWAPD = 1 << 2, /* may wake the background reclaimer */
	FLAG_NORETRY = 1 << 3,
	FLAG_MAYFAIL = 1 << 4,
	FLAG_MEMALLOC = 1 << 5, /* as a task that is reclaiming */
	FLAG_THISNODE = 1 << 6,
	FLAG_NOMEMALLOC = 1 << 10, /* must not use the reserves */
};

/* The kernel's flags of a request for frames of a type, from a zone or one below it. */
static inline gfp_t gfp_of(u32 flags, u32 type, u32 zone)
{
	gfp_t gfp = __GFP_NOWARN;

	if (flags & FLAG_HIGH)
		gfp |= __GFP_HIGH;
	if (flags & FLAG_DIRECT)
		gfp |= __GFP_DIRECT_RECLAIM;
#ifdef __GFP_ATOMIC
	else if (flags & FLAG_HIGH)
		gfp |= __GFP_ATOMIC;
#endif
	if (flags & FLAG_KSWAPD)
		gfp |= __GFP_KSWAPD_RECLAIM;
	if (flags & FLAG_NORETRY)
		gfp |= __GFP_NORETRY;
	if (flags & FLAG_MAYFAIL)
		gfp |= __GFP_RETRY_MAYFAIL;
	if (flags & FLAG_THISNODE)
		gfp |= __GFP_THISNODE;
	if (flags & FLAG_NOMEMALLOC)
		gfp |= __GFP_NOMEMALLOC;
	if (type == 1)
		gfp |= __GFP_MOVABLE;
	if (type == 2)
		gfp |= __GFP_RECLAIMABLE;
	if (zone == 0)
		gfp |= __GFP_DMA;
	if (zone == 1)
		gfp |= __GFP_DMA32;
	if (zone == 3)
		gfp |= __GFP_HIGHMEM;
	return gfp;
}

#endif
