/* Ringwood's checkpoints and update log, a part of ringwood.h: what a session saves, and what the
 * one that continues it finds. Calls come from one thread at a time, as those of ringwood.h do. */
#ifndef RINGWOOD_CHECKPOINT_H_
#define RINGWOOD_CHECKPOINT_H_

#include "ringwood.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Scope of a checkpoint item: the same bytes on every rank, or each rank has its own. RINGWOOD_OWN
 * is the former name. */
enum { RINGWOOD_SHARED = 1, RINGWOOD_PER_RANK = 2, RINGWOOD_OWN = RINGWOOD_PER_RANK };

typedef struct {
  size_t size;
  const char* name; /* once in each scope; what begins with "ringwood/" is the session's own */
  const void* data;
  uint64_t bytes; /* 0 is allowed */
  int scope;      /* RINGWOOD_SHARED: same bytes on every rank, each writes a stripe; or PER_RANK */
  const char* dtype;     /* what an export says of it: the element type as safetensors names it
                            ("F32", "BF16", "I64", ...); NULL: bytes */
  const uint64_t* shape; /* with dtype: lengths, the last dimension is contiguous; their product
                            times the size of an element is `bytes` */
  size_t dimensions;     /* of shape; 0: a single element */
} ringwood_item;

/* On every rank, after the same step. Copies the items (and the session's own state: residuals,
 * velocities, step) and returns; they are sent to the store in the background. One checkpoint is in
 * flight: a second call waits for the first. One that fails (a full disk, a rank that missed it) is
 * logged, the one before stays, training continues; only ringwood_checkpoint_wait says why. Where a
 * rank never saves, the next step is refused. Errors here: the items, or the epoch is over. In an
 * elastic job RINGWOOD_REFUSED while ringwood_receiving is 1, and RINGWOOD_ABORTED where the others
 * went on without this rank meanwhile: it has no state to save. */
RINGWOOD_EXPORT int ringwood_checkpoint(ringwood_session* session, const ringwood_item* items,
                                        size_t count);
/* Waits until the newest checkpoint is durable on all ranks, or returns its error, once.
 * ringwood_close waits as well, and only logs. */
RINGWOOD_EXPORT int ringwood_checkpoint_wait(ringwood_session* session);

typedef struct {
  size_t size;
  uint64_t step;      /* of the checkpoint that is under way, or of the last one; 0: none yet */
  int under_way;      /* 1: ringwood_checkpoint would wait for it */
  uint64_t bytes;     /* of this rank's part */
  uint64_t sent;      /* of them, to the store */
  uint64_t arena;     /* bytes of memory that this rank's copy takes, and keeps for the next one */
  double seconds;     /* the last complete one took, from the copy's end to all ranks' parts */
  uint64_t completed; /* of this session, */
  uint64_t failed;    /* and those that failed */
} ringwood_checkpoint_progress;
/* How far the newest checkpoint is. Any thread; does not wait. */
RINGWOOD_EXPORT int ringwood_checkpoint_state(const ringwood_session* session,
                                              ringwood_checkpoint_progress* progress);

/* After ringwood_open with resume: 1 if the session starts from a checkpoint (its step is
 * ringwood_step), else 0. The session's own state (residuals, velocities, plan) is restored
 * when the plan is agreed; in a world of another size residuals are divided among the ranks that
 * are there, and velocities of ranks that are not end. Items are read by the two calls below from
 * ringwood_open to ringwood_close, before or after tensors are registered; RINGWOOD_NOT_FOUND where
 * the session did not resume or the checkpoint has no such item. RINGWOOD_PER_RANK items are those
 * that the same rank saved. `bytes` of ringwood_restore is the item's size. */
RINGWOOD_EXPORT int ringwood_resumed(const ringwood_session* session);
RINGWOOD_EXPORT int ringwood_restore_bytes(ringwood_session* session, const char* name, int scope,
                                           uint64_t* bytes);
RINGWOOD_EXPORT int ringwood_restore(ringwood_session* session, const char* name, int scope,
                                     void* out, uint64_t bytes);

/* The update log: with `ringwood run --update-log` each step is kept before it commits, and a
 * session that resumes has the checkpoint's state and so many steps to do again with the averages
 * of then:
 *
 *     restore the items, register all tensors
 *     while (ringwood_replays(session) > 0) {
 *       ringwood_replay(session, &result);   // fills the gradients, as ringwood_finish_step did
 *       if (!result.skipped) optimizer step
 *     }
 *
 * On every rank, before the first step, which is RINGWOOD_REFUSED until then. ringwood_step counts
 * on. Of a result step, skipped, total_weight, members and contributors are set. Residuals begin
 * at 0 afterwards. The death of a rank of an elastic job changes nothing of that; on a rank that
 * was away while the others went on ringwood_replay is RINGWOOD_ABORTED, nothing is left to replay,
 * and the others' state comes with its first step. */
RINGWOOD_EXPORT uint64_t ringwood_replays(const ringwood_session* session);
RINGWOOD_EXPORT int ringwood_replay(ringwood_session* session, ringwood_step_result* result);
/* What the optimizer of a replayed step needs beside the averages (a learning rate that follows a
 * schedule, the position in the data): at most 64 KiB, kept with each step from here on, until the
 * next call. Give the same on all ranks: only that of the one with ringwood_logs 1 is kept, which
 * may be another one when the members of the job change. ringwood_logs is 2 where another rank logs
 * the steps, 0 without an update log. */
RINGWOOD_EXPORT int ringwood_logs(const ringwood_session* session);
RINGWOOD_EXPORT int ringwood_note(ringwood_session* session, const void* note, uint64_t bytes);
/* The note of the step that was replayed last. `note` NULL: only its size. */
RINGWOOD_EXPORT int ringwood_replayed_note(ringwood_session* session, void* note, uint64_t capacity,
                                           uint64_t* bytes);

#ifdef __cplusplus
}
#endif

#endif /* RINGWOOD_CHECKPOINT_H_ */
