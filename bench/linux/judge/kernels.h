/* SPDX-License-Identifier: GPL-2.0 */
/* What differs between the kernels that the modules are built for. */
#ifndef PAGEYARD_KERNELS_H
#define PAGEYARD_KERNELS_H

#include <linux/version.h>

#define IS_6_12 (LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0))
#define ORDERS 11

#endif
