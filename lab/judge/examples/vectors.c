/* Reads vectors (docs/design/vectors.md) and checks that no frame was given twice: cc -O2 vectors.c && ./a.out < FILE */
#include <stdio.h>
#include <stdlib.h>

enum { ALLOC, FREE, BULK, FREE_BULK, FREE_FRAG, DRAIN, TICK, KSWAPD_ENDS, GIVE_UP, EXACT, SET_WATERMARKS };
struct op { unsigned kind, cpu, order, type, flags, zone, nodes, arg, sub, gives, reclaims; long *got; unsigned n; };

static unsigned *owner; /* by frame: who has it, counted from 1 */
static struct op *ops;

/* Passes the frames of a block from one owner to another. */
static void pass(long pfn, unsigned order, unsigned from, unsigned to)
{
    for (long f = pfn; f < pfn + (1L << order); f++) {
        if (owner[f] != from) {
            printf("frame %ld has owner %u and not %u\n", f, owner[f], from);
            exit(1);
        }
        owner[f] = to;
    }
}

/* Frees what an operation got at a place, if it still has it. */
static int give(unsigned nth, unsigned sub)
{
    struct op *op = &ops[nth];
    if (sub >= op->n || op->got[sub] < 0) return 0;
    pass(op->got[sub], op->kind == ALLOC ? op->order : 0, nth + 1, 0);
    op->got[sub] = -1;
    return 1;
}

int main(void)
{
    char line[256];
    unsigned n = 0, offered = 0, taken = 0, *offers = calloc(1 << 24, sizeof *offers);
    long pfn, to, frames = 0, moves = 0;
    owner = calloc(1 << 26, sizeof *owner), ops = calloc(1 << 20, sizeof *ops);
    while (fgets(line, sizeof line, stdin) && line[0] != 'e') {
        struct op *op = &ops[n], *last = op - 1;
        if (sscanf(line, "o %u %u %u %u %u %u %u %u %u %u %u", &op->kind, &op->cpu, &op->order, &op->type, &op->flags,
                   &op->zone, &op->nodes, &op->arg, &op->sub, &op->gives, &op->reclaims) == 11) {
            n++;
            for (unsigned round = 0; round < op->reclaims; round++) /* reclaim frees what was offered first */
                for (unsigned g = 0; g < op->gives && taken < offered && give(offers[taken++], 0); g++) {}
            if (op->kind == FREE || op->kind == FREE_FRAG) give(op->arg, op->sub);
            for (unsigned sub = 0; op->kind == FREE_BULK && sub < ops[op->arg].n; sub++) give(op->arg, sub);
            if (op->kind == GIVE_UP && ops[op->arg].n && ops[op->arg].got[0] >= 0) offers[offered++] = op->arg;
        } else if (sscanf(line, "a %ld", &pfn) == 1) {
            last->got = realloc(last->got, (last->n + 1) * sizeof *last->got);
            pass(last->got[last->n++] = pfn, last->kind == ALLOC ? last->order : 0, 0, n), frames++;
        } else if (sscanf(line, "p %ld %ld", &pfn, &to) == 2 && owner[pfn]) { /* else it was moved, then reclaimed */
            struct op *mover = &ops[owner[pfn] - 1];
            for (unsigned sub = 0; sub < mover->n; sub++)
                if (mover->got[sub] == pfn) mover->got[sub] = to;
            pass(to, mover->kind == ALLOC ? mover->order : 0, 0, owner[pfn]);
            pass(pfn, mover->kind == ALLOC ? mover->order : 0, owner[pfn], 0), moves++;
        }
    }
    printf("%u operations, %ld blocks given, %ld moved: no frame was given twice\n", n, frames, moves);
}
