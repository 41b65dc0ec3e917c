/* Ringwood's sample cursor, a part of ringwood.h: which samples of a pass over the data a step
 * takes, and which rank has which of them, so that each sample of a pass is used exactly once in
 * committed steps, whoever joins, dies, has the weight 0, or exchanges a step again
 * (docs/client.md, "The sample cursor"). Every rank has one, made with the same options and moved
 * by the same commits. Any thread, one at a time; it belongs to no session. */
#ifndef RINGWOOD_SAMPLER_H_
#define RINGWOOD_SAMPLER_H_

#include "ringwood.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ringwood_sampler ringwood_sampler;

typedef struct {
  size_t size;
  uint64_t samples; /* of a pass: 1 to 2^48 */
  uint64_t batch;   /* samples of a step, all ranks together: 1 to 2^32 */
  uint64_t seed;    /* of the order, which is another one in each pass */
  int world;        /* ranks at the start of the job */
  int ahead;        /* steps that are handed out before the one that is next commits: 0 to 1024 */
  int in_order;     /* 1: no shuffling */
} ringwood_sampler_options;

/* Makes a sampler at the start of the first pass, and frees one (NULL is allowed). */
RINGWOOD_EXPORT int ringwood_sampler_make(const ringwood_sampler_options* options,
                                          ringwood_sampler** sampler);
RINGWOOD_EXPORT void ringwood_sampler_free(ringwood_sampler* sampler);

/* The samples of `rank` (RANK of the process) in the step that commits next (`ahead` 0) or so many
 * steps after it; their number is the rank's weight in it and may be 0, as that of a rank which is
 * no member yet. `samples` NULL: only the number. RINGWOOD_NOT_FOUND: the pass has no such step, as
 * far as is known before the steps until then have committed; never with `ahead` 0. */
RINGWOOD_EXPORT int ringwood_sampler_next(ringwood_sampler* sampler, int rank, int ahead,
                                          uint64_t* samples, uint64_t capacity, uint64_t* count);

/* After each ringwood_finish_step, with its result: moves the cursor. The samples of ranks that did
 * not contribute come at once after, and when nothing of the pass is left the next one begins. */
RINGWOOD_EXPORT int ringwood_sampler_committed(ringwood_sampler* sampler,
                                               const ringwood_step_result* result);

/* Finished passes. */
RINGWOOD_EXPORT uint64_t ringwood_sampler_pass(const ringwood_sampler* sampler);

/* The state as a few bytes, equal on all ranks: a shared item of a checkpoint. `state` NULL: only
 * their number. Restoring needs a sampler with the same options; `world` 0 leaves the ranks as they
 * were, another number divides what is not committed among ranks 0 to world - 1. */
RINGWOOD_EXPORT int ringwood_sampler_state(ringwood_sampler* sampler, void* state,
                                           uint64_t capacity, uint64_t* bytes);
RINGWOOD_EXPORT int ringwood_sampler_restore(ringwood_sampler* sampler, const void* state,
                                             uint64_t bytes, int world);

#ifdef __cplusplus
}
#endif

#endif /* RINGWOOD_SAMPLER_H_ */
