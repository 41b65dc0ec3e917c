/* Communicators: collectives of some ranks of a session or all, in the background, several at once,
 * for libraries of collectives (torch.distributed). Codes and errors are those of ringwood.h.
 *
 * All calls from any thread, also while another one is in a call on the session; ringwood_close
 * ends those that wait. Only in a job that is not elastic.
 *
 * Every member makes it, with the same ranks in the same order (a rank of the communicator is the
 * place in it) and the same number, 1 or more, that none of the session has had before. Making one
 * talks to nobody. All members start the same calls in the same order; communicators do not wait
 * for each other. An error of a call other than wrong arguments is the end of the session. */
#ifndef RINGWOOD_COMMUNICATOR_H_
#define RINGWOOD_COMMUNICATOR_H_

#include "ringwood.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ringwood_communicator ringwood_communicator;
typedef struct ringwood_work ringwood_work;

/* Makes one, and frees one (NULL is allowed); its calls go on. */
RINGWOOD_EXPORT int ringwood_communicator_make(ringwood_session* session, const int* ranks,
                                               size_t count, uint32_t number,
                                               ringwood_communicator** communicator);
RINGWOOD_EXPORT void ringwood_communicator_free(ringwood_communicator* communicator);

enum { /* what a call does; each reads `input` and writes `output` */
       RINGWOOD_ALL_REDUCE = 1,
       RINGWOOD_REDUCE = 2,         /* output: only on the root */
       RINGWOOD_BROADCAST = 3,      /* the root's output becomes everybody's; no input */
       RINGWOOD_REDUCE_SCATTER = 4, /* input: all shares; output: this rank's */
       RINGWOOD_ALL_GATHER = 5,     /* input: this rank's share; output: all, that share included */
       RINGWOOD_ALL_TO_ALL = 6      /* input: shares[r] for rank r; output: receives[r] from it */
};

typedef struct {
  size_t size;
  int collective;
  int type;
  int op;   /* of a reduction */
  int root; /* of a reduce or broadcast: rank of the communicator */
  const void* input;
  uint64_t input_elements;
  void* output; /* the input's memory (all-reduce, reduce); with this rank's share at its place in
                   the other (reduce-scatter, all-gather); or apart. Any other overlap is refused */
  uint64_t output_elements;
  const uint64_t* shares; /* elements of each rank's share, as many numbers as ranks; NULL: even, as
                             ringwood_share says; needed for an all-to-all */
  const uint64_t* receives; /* all-to-all */
  uint64_t about; /* a digest of what else tells it from other calls, such as a name; alike on all
                     members, which its messages compare */
} ringwood_collective_call;

/* Starts a call and returns. The struct is copied; input and output stay in place and are left
 * alone by the caller until ringwood_wait returned, with an error too, or ringwood_close did. At
 * most 16384 calls of a communicator are under way. */
RINGWOOD_EXPORT int ringwood_start(ringwood_communicator* communicator,
                                   const ringwood_collective_call* call, ringwood_work** work);
/* 1: it has ended, or this is a forked child, and ringwood_wait does not wait; 0: not yet. */
RINGWOOD_EXPORT int ringwood_done(ringwood_work* work);
/* Waits at most so many seconds until the output is there. RINGWOOD_TIMED_OUT names the ranks from
 * which messages are still awaited, and is the end of the session like any other error here. */
RINGWOOD_EXPORT int ringwood_wait(ringwood_work* work, double seconds);
RINGWOOD_EXPORT void ringwood_work_free(ringwood_work* work); /* NULL is allowed; ends nothing */

#ifdef __cplusplus
}
#endif

#endif /* RINGWOOD_COMMUNICATOR_H_ */
