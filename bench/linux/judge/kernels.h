/* SPDX-License-Identifier: GPL-2.0 */
/* What differs between the kernels that the modules are built for. */
#ifndef PAGEYARD_KERNELS_H
#define PAGEYARD_KERNELS_H

#include <linux/mmzone.h>
#include <linux/version.h>

#define IS_6_1 (LINUX_VERSION_CODE >= KERNEL_VERSION(6, 1, 0)) /* or else 5.10, for the judge alone */
#define IS_6_12 (LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0))
#define IS_6_18 (LINUX_VERSION_CODE >= KERNEL_VERSION(6, 18, 0))
#define IS_7_1 (LINUX_VERSION_CODE >= KERNEL_VERSION(7, 1, 0))
#define IS_7_3 (LINUX_VERSION_CODE >= KERNEL_VERSION(7, 3, 0))
#if IS_6_18
#include <linux/page_frag_cache.h>
#endif
#if IS_7_1
#include <linux/folio_batch.h>
#else
#include <linux/pagevec.h>
#endif
#define ORDERS 11

/* Of a pageblock's flags, those that are its type. Its name in the kernel changed. */
#define TYPE_FLAGS 7UL

/* What tells a pageblock's type: its name, and how it is asked. */
#if IS_6_18
#define BLOCK_TYPE_NAME "get_pfnblock_migratetype"
typedef enum migratetype (*block_type_fn)(const struct page *page, unsigned long pfn);
#define BLOCK_TYPE(ask, page, pfn) ((ask)(page, pfn))
#else
#define BLOCK_TYPE_NAME "get_pfnblock_flags_mask"
typedef unsigned long (*block_type_fn)(const struct page *page, unsigned long pfn, unsigned long mask);
#define BLOCK_TYPE(ask, page, pfn) ((ask)(page, pfn, TYPE_FLAGS))
#endif

/* A request of a node. From 7.3 on it is not exported. */
#if IS_6_12
#define ALLOC_NAME "__alloc_pages_noprof"
#elif IS_6_1
#define ALLOC_NAME "__alloc_pages"
#else
#define ALLOC_NAME "__alloc_pages_nodemask"
#endif
#if IS_7_3
typedef struct page *(*alloc_fn)(gfp_t gfp, unsigned int order, int node, nodemask_t *nodes, unsigned int flags);
#define ALLOC(alloc, gfp, order, node, nodes) ((alloc)(gfp, order, node, nodes, 0))
#else
typedef struct page *(*alloc_fn)(gfp_t gfp, unsigned int order, int node, nodemask_t *nodes);
#define ALLOC(alloc, gfp, order, node, nodes) ((alloc)(gfp, order, node, nodes))
#endif

/* Bulk requests that fill an array. */
#if IS_6_18
#define BULK(gfp, node, nodes, n, array) __alloc_pages_bulk(gfp, node, nodes, n, array)
#elif IS_6_1
#define BULK(gfp, node, nodes, n, array) __alloc_pages_bulk(gfp, node, nodes, n, NULL, array)
#else
#define BULK(gfp, node, nodes, n, array) 0UL /* there are none */
#endif

/* A CPU's lists of a zone, and what it counts of it. */
#if IS_6_1
#define LISTS(zone, cpu) per_cpu_ptr((zone)->per_cpu_pageset, cpu)
#define CPU_STATS(zone, cpu) per_cpu_ptr((zone)->per_cpu_zonestats, cpu)
#define EXPIRE(zone, cpu) (LISTS(zone, cpu)->expire)
#define NUMA_EVENTS(zone) ((zone)->vm_numa_event)
#define CPU_NUMA_EVENTS(zone, cpu) (CPU_STATS(zone, cpu)->vm_numa_event)
#define LISTED pcp_list
#define FREE buddy_list
#else
#define LISTS(zone, cpu) (&per_cpu_ptr((zone)->pageset, cpu)->pcp)
#define CPU_STATS(zone, cpu) per_cpu_ptr((zone)->pageset, cpu)
#define EXPIRE(zone, cpu) (CPU_STATS(zone, cpu)->expire)
#define NUMA_EVENTS(zone) ((zone)->vm_numa_stat)
#define CPU_NUMA_EVENTS(zone, cpu) (CPU_STATS(zone, cpu)->vm_numa_stat_diff)
#define LISTED lru
#define FREE lru
#define NR_PCP_LISTS MIGRATE_PCPTYPES
#endif

/* What 6.1's lists have seen. */
#if IS_6_12
#define FREE_FACTOR(pcp) ((pcp)->alloc_factor)
#define FREE_COUNT(pcp) ((pcp)->free_count)
#elif IS_6_1
#define FREE_FACTOR(pcp) ((pcp)->free_factor)
#define FREE_COUNT(pcp) 0
#else
#define FREE_FACTOR(pcp) 0
#define FREE_COUNT(pcp) 0
#endif

/* A zone whose background reclaimer is at work. 5.10's lists do not ask, so there only the judge knows. */
#if IS_6_1
#define IS_RECLAIMED(zone) test_bit(ZONE_RECLAIM_ACTIVE, &(zone)->flags)
#define SET_RECLAIMED(zone) set_bit(ZONE_RECLAIM_ACTIVE, &(zone)->flags)
#define CLEAR_RECLAIMED(zone) clear_bit(ZONE_RECLAIM_ACTIVE, &(zone)->flags)
#else
#define RECLAIMED_BIT (BITS_PER_LONG - 1)
#define IS_RECLAIMED(zone) test_bit(RECLAIMED_BIT, &(zone)->flags)
#define SET_RECLAIMED(zone) set_bit(RECLAIMED_BIT, &(zone)->flags)
#define CLEAR_RECLAIMED(zone) clear_bit(RECLAIMED_BIT, &(zone)->flags)
#endif

#endif
