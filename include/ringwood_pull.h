/* Ringwood's C interface for readers: the newest committed weights of a job, for a process that is
 * no rank of it, such as an evaluator or an inference server. No session is needed, and the job
 * does not notice but for a checkpoint.
 *
 * ringwood_pull asks the ranks for a checkpoint of what they commit next, waits until it is
 * complete and keeps it in the store; what is read then is the state of that one step. Ranks save
 * at checkpoint_due of a step's result (in Python rw.save(every="auto")); where they save by an
 * interval of their own, the next one is waited for. However many ask, checkpoints stop the
 * training for 2 % of the time at most, and readers that wait at the same time share one.
 *
 * Errors: RINGWOOD_DENIED (the token), RINGWOOD_NOT_FOUND (no job runs, no such job or item),
 * RINGWOOD_REFUSED (the server keeps no checkpoints), RINGWOOD_TIMED_OUT (why none came, such as
 * ranks that do not save), RINGWOOD_UNAVAILABLE (no server answers), RINGWOOD_EXHAUSTED (too many
 * readers), RINGWOOD_ABORTED (what was held was removed, as nothing was read for a minute: pull
 * again), RINGWOOD_CORRUPT (a checksum differs).
 *
 * Threads: any; of reads of one ringwood_pulled one waits for the other. Free it when no other call
 * uses it. In a forked child it is RINGWOOD_FORKED. */
#ifndef RINGWOOD_PULL_H_
#define RINGWOOD_PULL_H_

#include "ringwood.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ringwood_pulled ringwood_pulled;

typedef struct {
  size_t size;
  const char* server; /* "host:port", as ringwood_options.coordinator has it; needed */
  const char* token;  /* the job's token or NULL */
  uint64_t job;       /* which job; 0: the one that runs, or the store's newest */
  int newest_stored;  /* 1: the ranks are not asked, and none need run: the newest checkpoint that
                         the store has */
  double timeout_seconds;   /* for the checkpoint to come, at most 3600; 0: 60 */
  const char* const* items; /* item_count names of items or tensors, "*" and "?" as in a shell;
                               none: the model's state_dict, or where there is none everything but
                               the session's own state */
  size_t item_count;
  const int* rank;        /* takes what this rank has of its own, too; NULL: what all ranks share */
  const char* token_file; /* as ringwood_options.token_file */
  const char* identity;   /* as ringwood_options.identity */
} ringwood_pull_options;

/* Waits for the checkpoint and holds it; errors as above. */
RINGWOOD_EXPORT int ringwood_pull(const ringwood_pull_options* options, ringwood_pulled** pulled);

typedef struct {
  size_t size;
  uint64_t job;
  uint64_t epoch;
  uint64_t step;        /* whose state it is */
  int64_t unix_seconds; /* when it was saved, by the server's clock */
  size_t items;         /* that were chosen */
  uint64_t bytes;       /* of them all */
  size_t of_ranks;      /* items left out, as each rank has its own and no rank was given */
} ringwood_pulled_state;

/* What was pulled. */
RINGWOOD_EXPORT int ringwood_pulled_describe(const ringwood_pulled* pulled,
                                             ringwood_pulled_state* state);

typedef struct {
  size_t size;
  const char* name; /* of the tensor: what is saved as "model/fc.weight" is "fc.weight" */
  uint64_t bytes;
  const char* dtype;     /* as safetensors names it; "U8" for plain bytes */
  const uint64_t* shape; /* of `dimensions` lengths; 0 dimensions: a single element */
  size_t dimensions;
} ringwood_pulled_item; /* its pointers are valid until ringwood_pulled_free */

/* Its items by index from 0; after the last one RINGWOOD_NOT_FOUND. */
RINGWOOD_EXPORT int ringwood_pulled_describe_item(const ringwood_pulled* pulled, size_t index,
                                                  ringwood_pulled_item* item);

/* Reads an item into memory of exactly its size; every piece is checked. */
RINGWOOD_EXPORT int ringwood_pulled_read(ringwood_pulled* pulled, size_t index, void* out,
                                         uint64_t bytes);

/* Lets the store remove the checkpoint. NULL is allowed. */
RINGWOOD_EXPORT void ringwood_pulled_free(ringwood_pulled* pulled);

#ifdef __cplusplus
}
#endif

#endif /* RINGWOOD_PULL_H_ */
