/* SPDX-License-Identifier: GPL-2.0 */
/* What differs between the kernels that the modules are built for. */
#ifndef PAGEYARD_KERNELS_H
#define PAGEYARD_KERNELS_H

#include <linux/mmzone.h>
#include <linux/version.h>

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
#else
#define ALLOC_NAME "__alloc_pages"
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
#else
#define BULK(gfp, node, nodes, n, array) __alloc_pages_bulk(gfp, node, nodes, n, NULL, array)
#endif

#endif
