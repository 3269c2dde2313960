/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of the judge share. */
#ifndef PAGEYARD_JUDGE_H
#define PAGEYARD_JUDGE_H

#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/vmstat.h>

#include "exchange.h"
#include "kernels.h"

#define JUDGED_CPUS 2

extern struct exchange *ex;
/* The operation that is carried out. */
extern u64 turn;
/* The first one may begin. */
extern bool opened;
/* What tells a pageblock's type, found by name. */
extern block_type_fn block_type;

/* Writes the state down, `at` bytes into the exchange; returns its length. */
u64 put_state(u64 at);
/* From here on, and until it is left, writes down what compaction does; an error number if the kernel does not tell. */
int follow_steps(void);
void leave_steps(void);
/* Measures `ex->weights`, on this CPU. */
void weigh(void);

#endif
