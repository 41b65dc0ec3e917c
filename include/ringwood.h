/* Ringwood's C interface: gradient exchange for trainers in any language.
 *
 * One session for each rank, from ringwood_open to ringwood_close. Calls return 0 or a
 * RINGWOOD_* code; ringwood_last_error gives the error message: which rank failed, why, and how to
 * fix it.
 * The first field of a struct is its size, so that older callers work with newer libraries.
 *
 * Threads: ringwood_ready may be called from any thread, only enqueues and never blocks
 * (microseconds; from Python through ctypes.PyDLL). Every other call comes from one thread at a
 * time and may wait, at most for the failure timeout after a peer died (from Python through
 * ctypes.CDLL); meanwhile another thread's call is refused. There are no callbacks, and nothing
 * runs on a caller's thread after its call returned.
 *
 * Gradients belong to the caller and must stay in place from ringwood_register (or ringwood_rebind)
 * to ringwood_close. C cannot tell that memory was freed: if a gradient buffer is reallocated, call
 * ringwood_rebind before its next ready; before one is freed for good, close the session.
 *
 * After fork() the child cannot use the session: every call returns RINGWOOD_FORKED, and the
 * parent's connections are closed in the child. Nor can it open a session of its own: gRPC and UCX
 * do not survive a fork. Fork before the process opens its first session, or start the child as a
 * program of its own (exec; Python's start method "spawn").
 *
 * A field that is 0 or NULL has the default given beside it. Names (of tensors and checkpoint
 * items) are UTF-8, 1 to 255 bytes, without control characters. */
#ifndef RINGWOOD_H_
#define RINGWOOD_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RINGWOOD_EXPORT __attribute__((visibility("default")))

/* Each code with the exit code that a program should use after it, see ringwood_exit_code. */
enum {
  RINGWOOD_OK = 0,        /* 0 */
  RINGWOOD_INVALID = 1,   /* 78: the caller's input or configuration is wrong */
  RINGWOOD_NOT_FOUND = 2, /* 78: no such file, item or checkpoint */
  RINGWOOD_EXISTS = 3, /* 78: a name is taken, a tensor was ready twice, or the rank runs already */
  RINGWOOD_REFUSED = 4,   /* 78: not possible in this state: step without backward, other version */
  RINGWOOD_EXHAUSTED = 5, /* 78: limit exceeded, or out of memory */
  RINGWOOD_UNAVAILABLE = 6, /* 75: a peer, a server or the coordinator died */
  RINGWOOD_TIMED_OUT = 7,   /* 75: nothing was heard within a deadline */
  RINGWOOD_ABORTED = 8,     /* 75: the epoch ended under the call */
  RINGWOOD_CORRUPT = 9,     /* 1: a checksum or a digest does not agree */
  RINGWOOD_DENIED = 10,     /* 78: the job's token, or a network that is not declared private */
  RINGWOOD_INTERNAL = 11,   /* 1: a fault of Ringwood */
  RINGWOOD_FORKED = 12,     /* 1: used in a forked child */
  RINGWOOD_ENDED = 13       /* 0: the elastic job ended in order while this rank was away from it */
};

/* The exit code that tells launchers (`ringwood run` and others) what to do: 0 if nothing is left
 * to do; 75 if a restart from the newest checkpoint helps; 78 if only the user can fix it; 1 for
 * anything else. */
RINGWOOD_EXPORT int ringwood_exit_code(int code);

enum { /* element types */
       RINGWOOD_FLOAT32 = 1,
       RINGWOOD_BFLOAT16 = 2,
       RINGWOOD_FLOAT16 = 3,
       RINGWOOD_FLOAT64 = 4,
       RINGWOOD_INT32 = 5,
       RINGWOOD_INT64 = 6,
       RINGWOOD_UINT8 = 7
};

enum {
  RINGWOOD_SUM = 0,
  RINGWOOD_AVERAGE = 1, /* of floating types */
  RINGWOOD_MAX = 2,
  RINGWOOD_MIN = 3,
  RINGWOOD_PRODUCT = 4
};
enum { RINGWOOD_HOST = 0, RINGWOOD_CUDA = 1 }; /* memory of a tensor */

enum {                      /* ringwood_options.resume: continue from the newest checkpoint */
       RINGWOOD_RESUME = 1, /* where there is none, ringwood_open fails (RINGWOOD_NOT_FOUND) */
       RINGWOOD_RESUME_OR_START = 2 /* where there is none, a new job begins at step 0 */
};

typedef struct ringwood_session ringwood_session;

typedef struct {
  size_t size;                /* sizeof(ringwood_options) */
  const char* coordinator;    /* "host:port", or "h1:7070,h2:7070" of which one leads; needed */
  int rank;                   /* from 0 to world - 1 */
  int world;                  /* 1 or more; needed */
  const char* host;           /* the launcher's name of this host; NULL: "localhost" */
  const char* interface_name; /* network interface of the data plane; NULL: loopback */
  int trusted_fabric;         /* 1: the operator declares a non-loopback network private */
  const char* token;          /* the job's token or NULL */
  int resume;                 /* 0, RINGWOOD_RESUME or RINGWOOD_RESUME_OR_START */
  double momentum;            /* momentum correction of sparse tensors, from 0 (off) to below 1 */
  const char* planner;        /* "hybrid" (default), "exact", "wfbp", ...: `ringwood plan --help` */
  const char* log_level;      /* "debug", "info" (default), "warning" or "error" */
  double join_timeout_seconds; /* how long ringwood_open waits for all ranks; 0: 120 */
  const char* wire; /* dense groups travel as "native" (default: float32, and bfloat16 tensors as
                       that), "fp32", "bf16", "int8" or "int4"; with "auto" each as the planner
                       finds fastest */
  const char* sparse_codec; /* INDEX/VALUE: block16 (default) or rice; fp32 (default), bf16, int8,
                               int4 or int2: coarse values go to the first reducer only, the error
                               stays in the residual. Equal on all ranks, as all that changes
                               results: ringwood_agree names what differs */
  const char* sparse_merge; /* "gtopk" (default), "union" or "exact" */
  int sparse_chunk;     /* select chunk by chunk of so many elements (64 or more); 0: each tensor as
                           a whole */
  const char* timeline; /* file of this rank's timeline (Chrome trace), NULL: none */
  const char* flight_record; /* file of this rank's last events, NULL: none */
  const char* transport;     /* data plane: "ucx", "grpc" or "auto" (default), equal on all ranks */
  int adapt; /* 1: re-plan from measured timings; runs no longer repeat bit for bit */
  /* Files of rank 0, NULL: none. */
  const char* freeze_plan; /* the plan to run, and no other */
  const char* save_plan;   /* where to write each plan that the job runs */
  const char* profile;     /* where to write a profile of the model at the end: measured timings */
  const char* sparse_method; /* "exact" (default), "threshold" or "gaussian" selection */
  int warmup_steps; /* density warm-up: over so many steps, from the first of the job, the density
                       of sparse tensors falls from 0.25 to their own; 0: none */
  int momentum_masking; /* momentum factor masking (DGC): the velocity of an applied entry is
                           cleared, while the density is at most 5 %; -1: off */
  double clip_norm;     /* clips a sparse tensor's gradient to the norm clip_norm / sqrt(world)
                           before it is added to the residual; 0: no clipping */
  double sparse_keep; /* entries of a sparse result, as a multiple (at most 1000000) of those that a
                         worker sends; 0: all that are sent, up to 1 % of the tensors */
  const char* port_range; /* "20000-20099": ports of the data plane, two per process; NULL: any */
  uint64_t job; /* with resume: the job to continue, else the name of the new one; 0: the newest
                   that has a checkpoint, and any name */
  double coordinator_grace_seconds; /* how long a coordinator that died may take to come back, and
                                       the job goes on; 0 or negative: 30 in an elastic job, in
                                       others its death is an error at once */
  double checkpoint_arena_mb; /* most of a rank's part of a checkpoint, of which it holds a copy, in
                                 MB; 0: 20000 */
  double checkpoint_rate_mb;  /* most that a rank sends of a checkpoint, in MB/s; 0: no limit */
  const char* log_format;     /* "text" (default) or "json": one object a line */
  const char* token_file;     /* where `token` is NULL: the file that has it, which nobody else can
                                 read; NULL: none */
  const char* identity; /* folder with ca.pem, cert.pem and key.pem: connections are under mutual
                           TLS; NULL: plaintext */
  const char* plan_for; /* "10gbit", "100mbit,20ms" (delay of a hop); NULL: the measured network */
  int brings_reducer;   /* 1: this process has started a reducer for its host (`ringwood server
                           --coordinator ... --of-rank RANK`), and the job begins with it */
} ringwood_options;

/* Fills `options` from RINGWOOD_COORDINATOR, RANK, WORLD_SIZE and the other RINGWOOD_* variables
 * (falling back to Slurm's and Open MPI's). The strings live as long as the process. */
RINGWOOD_EXPORT int ringwood_options_from_environment(ringwood_options* options, size_t size);

enum {                                /* how a field of ringwood_options is given */
       RINGWOOD_OPTION_TEXT = 1,      /* const char* */
       RINGWOOD_OPTION_INTEGER = 2,   /* int */
       RINGWOOD_OPTION_NUMBER = 3,    /* double */
       RINGWOOD_OPTION_SWITCH = 4,    /* int, off by default: 1 turns it on */
       RINGWOOD_OPTION_SWITCH_ON = 5, /* int, on by default: -1 turns it off */
       RINGWOOD_OPTION_RESUME = 6,    /* int: 0, RINGWOOD_RESUME or RINGWOOD_RESUME_OR_START */
       RINGWOOD_OPTION_JOB = 7        /* uint64_t */
};

typedef struct {
  size_t size;
  const char* name;    /* of the field of ringwood_options */
  size_t offset;       /* of the field */
  int type;            /* RINGWOOD_OPTION_TEXT, ... */
  const char* keyword; /* of Python's ringwood.Session; NULL: only the environment gives it there */
  const char* help;    /* what it does, in one sentence */
} ringwood_option;

/* Describes the options that the loaded library has, for bindings that make ringwood_options at run
 * time. `index` counts from 0; after the last one RINGWOOD_NOT_FOUND. Any time, any thread; the
 * strings are constants. */
RINGWOOD_EXPORT int ringwood_describe_option(size_t index, ringwood_option* option);

/* Joins the job and waits until all ranks have joined. */
RINGWOOD_EXPORT int ringwood_open(const ringwood_options* options, ringwood_session** session);

/* Leaves the job cleanly and frees the session. With `failure` (an error message, e.g. the last
 * line of a traceback) the other ranks stop with an error that names this rank. NULL session is
 * allowed. */
RINGWOOD_EXPORT int ringwood_close(ringwood_session* session, const char* failure);

/* The user stops this process (Ctrl-C): the calls that wait return RINGWOOD_ABORTED, of all its
 * sessions and of one that is being opened, and only ringwood_close follows. Any thread, while
 * another one is in a call, but not within a signal handler; never waits. */
RINGWOOD_EXPORT void ringwood_interrupt(void);

/* This process's rank, the number of ranks, the number of this start of the world (it grows with
 * every restart), and the number of committed steps. Constant time; -1 or 0 for a closed session.
 * In an elastic job rank, world and epoch change when a member leaves or comes: within calls that
 * wait (all but ringwood_ready), never between them. Ranks are then counted through anew, in the
 * order in which the processes were numbered at their start; logs and errors keep that number. */
RINGWOOD_EXPORT int ringwood_rank(const ringwood_session* session);
RINGWOOD_EXPORT int ringwood_world(const ringwood_session* session);
/* The number that this process was started as (RANK). It never changes; in a fixed job it is the
 * rank. Members of a step's result and ranks of a sampler are these. */
RINGWOOD_EXPORT int ringwood_slot(const ringwood_session* session);
RINGWOOD_EXPORT uint64_t ringwood_epoch(const ringwood_session* session);
RINGWOOD_EXPORT uint64_t ringwood_step(const ringwood_session* session);

typedef struct {
  size_t size;
  const char* name;
  void* data; /* the gradient, contiguous; read from ringwood_ready on, and overwritten when the
                 step commits: with the average, and in a sparse tensor with 0 where no entry was
                 applied in this step. Nothing else is written to it */
  uint64_t elements; /* 1 to 2^32 - 1 */
  int type;          /* RINGWOOD_FLOAT32. Or RINGWOOD_BFLOAT16, with wire "native": dense, summed
                        as that, rounded at each addition. No other: convert before ready */
  const char* route; /* "dense", "sparse" or "auto"; NULL: "auto", the planner decides */
  double density;    /* k/n where the route is sparse, above 0 and at most 1; 0: 0.01 */
  double momentum;   /* correction while sparse, below 1; 0: the session's, negative: none */
  int memory;        /* RINGWOOD_HOST, or RINGWOOD_CUDA: `data` is device memory; alike for all
                        tensors of a job. Dense ones are exchanged over NCCL; of sparse ones
                        the selected entries go through host memory */
  int device;        /* CUDA: which one */
  void* stream;      /* CUDA: the cudaStream_t on which the gradient is made and used; ready may be
                        called as soon as its kernels are on it, and what is put on it after
                        ringwood_finish_step sees the average. NULL: the default stream */
  double clip_norm;  /* while sparse; 0: the session's, negative: none */
  double residual_decay; /* while sparse, above 0 and at most 1: the residual becomes
                            residual_decay * residual + weight * gradient; 0: 1, nothing is lost */
  int turn, turns;   /* 0, 0: it is exchanged in every step. Else from 0 on, below `turns`: only in
                        those whose number (ringwood_step after them) is turn modulo turns. In the
                        others it is unread and 0, keeps its residual. In host memory, not "auto" */
  double wire_reach; /* of the largest values, where int4 ends: 0.25 to 1; 0: 1; for Adam 0.5 */
} ringwood_tensor;

/* RINGWOOD_REFUSED without CUDA in the library, a device, NCCL, kernels for `device` (-1: any).
 * RINGWOOD_DENIED where others reach the network of several ranks: NCCL encrypts nothing. */
RINGWOOD_EXPORT int ringwood_device_support(void); /* any thread */
RINGWOOD_EXPORT int ringwood_session_device_support(ringwood_session* session, int device);

/* Adds a tensor, before the first step. `id` counts from 0 in order of registration: the order of
 * the forward pass, as gradients are expected last tensor first. All ranks register the same
 * tensors in the same order. The struct is copied; `data` stays the caller's. */
RINGWOOD_EXPORT int ringwood_register(ringwood_session* session, const ringwood_tensor* tensor,
                                      int* id);

/* Sets the new place of a gradient that was reallocated: same elements, from the next ready on. */
RINGWOOD_EXPORT int ringwood_rebind(ringwood_session* session, int id, void* data);

/* Fixes the table of tensors, agrees on the plan with all ranks, and allocates the memory that it
 * needs (docs/client.md, "Memory"). ringwood_begin_step and ringwood_finish_step do it, too. */
RINGWOOD_EXPORT int ringwood_agree(ringwood_session* session);

/* The plan as text, for people; valid until the next call. NULL before ringwood_agree. */
RINGWOOD_EXPORT const char* ringwood_plan_text(ringwood_session* session);

/* The route of a tensor in the present plan: "ring" (dense) or "tree" (sparse), constants. NULL
 * before ringwood_agree and for an unknown id. With `adapt` ringwood_finish_step may change it. */
RINGWOOD_EXPORT const char* ringwood_route(const ringwood_session* session, int id);

/* Opens the next step. `weight` = samples of this rank in it (0 is allowed): the result of the step
 * is sum(weight * gradient) / sum(weight). Optional before the first ready: 1 without it. */
RINGWOOD_EXPORT int ringwood_begin_step(ringwood_session* session, double weight);

/* The same for a trainer that may exchange several times before it updates its parameters: `pass`
 * counts from 1 after each update. Of a fixed job: where ranks say different ones, the gradients of
 * different updates have met, and ringwood_finish_step fails on all of them, says who, and has
 * applied nothing. 0, as in ringwood_begin_step, is a number like any other. */
RINGWOOD_EXPORT int ringwood_begin_pass(ringwood_session* session, double weight, uint32_t pass);

/* The data of the next step is there: what follows is computation. Optional, and begin_step says it
 * too. Where this rank holds the others up, the log tells the two apart. Any thread; no wait. */
RINGWOOD_EXPORT int ringwood_loaded(ringwood_session* session);

/* Of an elastic job: the next ringwood_finish_step is this rank's last. When it returns, the others
 * go on without this rank and have taken over what its tensors owe; only ringwood_close follows.
 * Where all ranks ask for it with the same step, that step is the end of the job. */
RINGWOOD_EXPORT int ringwood_leave_after_step(ringwood_session* session);

/* Of an elastic job: a call to all ranks between two steps. Those that make it with `leaves` = 1
 * have left then, and only ringwood_close follows; the lowest of the others has taken over what
 * their tensors owe, and the others go on without them in a new epoch. Nothing happens where no
 * rank leaves, or all do. RINGWOOD_ABORTED: as of a collective; nobody has left. */
RINGWOOD_EXPORT int ringwood_leave(ringwood_session* session, int leaves);

/* This process has to end soon: its cluster has sent SIGTERM. `ending` of the result of the next
 * step is then 1 on all ranks, which save a checkpoint, wait for it, and exit with 75: what starts
 * the job again continues from there. Of an elastic job those exit that were asked, after
 * ringwood_leave. Any thread, but not within a signal handler; never waits. */
RINGWOOD_EXPORT int ringwood_ask_to_end(ringwood_session* session);

/* Gradient `id` is complete in memory. Any thread; enqueues only. Call it once per tensor and step;
 * fill a tensor without a gradient with zeros. A broken exchange is reported by
 * ringwood_finish_step, which knows who failed; once that is known, here too. */
RINGWOOD_EXPORT int ringwood_ready(ringwood_session* session, int id);

typedef struct {
  size_t size;
  uint64_t step; /* committed steps, this one included; skipped ones count */
  int skipped;   /* 1: some rank had a NaN or Inf, nothing was applied anywhere: gradients and
                    residuals are as before the step, and the trainer skips its update */
  double total_weight;
  uint64_t dense_bytes; /* sent by this worker in this step */
  uint64_t sparse_bytes;
  uint64_t dense_equivalent_bytes; /* what dense rings would have sent for all tensors */
  /* RANKs of processes, ascending, valid until the session's next ringwood_finish_step: */
  const int* members; /* the workers of the epoch that committed the step: its world */
  size_t member_count;
  const int* contributors; /* those of them whose weight was above 0 */
  size_t contributor_count;
  int exchanged_again; /* elastic: times that the members changed under the step, so that it was
                          exchanged anew; no backward is needed for it */
  int received;        /* elastic: 1: the state before this step came from other ranks, see
                          ringwood_state_item */
  int checkpoint_due;  /* 1, on all ranks: by the measured cost of checkpoints it is time for one
                          (docs/reliability.md); for trainers that do not count steps. Also
                          with `ending` */
  int ending;          /* 1, on all ranks: some process was asked to end, see ringwood_ask_to_end */
} ringwood_step_result;

/* Waits for every group, votes, commits. The gradients then hold the average. An error means that
 * nothing was applied: gradients and residuals are as before the step; if memory ran out while
 * applying, the message says so. With RINGWOOD_REFUSED (gradients that are not ready)
 * and RINGWOOD_INVALID (result->size) the step stays open; after any other error the session is
 * over. `result` may be NULL.
 *
 * In an elastic job the death of another rank is no error: the call goes on with those that are
 * left, and with those that have come since the last one. What was ready stays ready.
 * An error means that the job as a whole has ended, or that this process cannot go on. */
RINGWOOD_EXPORT int ringwood_finish_step(ringwood_session* session, ringwood_step_result* result);

/* This rank's error-feedback residual of a tensor after the last committed step, in units of
 * weight * gradient: what was not selected or not accepted (sparse), what was rounded away on a
 * wire of few bits (dense). */
RINGWOOD_EXPORT int ringwood_residual(ringwood_session* session, int id, float* out,
                                      uint64_t elements);

/* A process that comes to an elastic job that runs (a spare, a rank started again, growth) gets the
 * state of the training from the ranks that have it, in stripes, while they train on. Register
 * every item of it on every rank, in the same order: weights, optimizer state, position in the
 * data. Their memory stays where it is; the same name again replaces an item. A rank that has the
 * state sends it from a copy that ringwood_finish_step makes when it begins, where the items are
 * those after the update with the last step's gradients.
 *
 * On a rank that comes ringwood_receiving is 1, from ringwood_open until its first
 * ringwood_finish_step has returned. That one needs no gradients (the rank's weight is 0), fills
 * the items with the state before the step, and the gradients with the step's averages: the update
 * with them leads to the state of the others. Collectives are refused until then. Residuals begin
 * at 0. */
RINGWOOD_EXPORT int ringwood_state_item(ringwood_session* session, const char* name, void* data,
                                        uint64_t bytes);
RINGWOOD_EXPORT int ringwood_receiving(const ringwood_session* session);

/* For trainers whose items are not of fixed size or place. With `on` 1 items are given when they
 * are wanted: ringwood_finish_step is then RINGWOOD_REFUSED and ringwood_state_wanted 1; give them
 * and call it again. They are forgotten with that step. A rank that comes reads what came by name,
 * after the step that had `received` and before it finishes the next one, which releases it;
 * RINGWOOD_NOT_FOUND: there is no such item. */
RINGWOOD_EXPORT int ringwood_state_on_request(ringwood_session* session, int on);
RINGWOOD_EXPORT int ringwood_state_wanted(const ringwood_session* session);
RINGWOOD_EXPORT int ringwood_received_bytes(ringwood_session* session, const char* name,
                                            uint64_t* bytes);
RINGWOOD_EXPORT int ringwood_received(ringwood_session* session, const char* name, void* out,
                                      uint64_t bytes);

/* Collectives outside the plan, in place, in the same order on every rank; any element type of the
 * enumeration, RINGWOOD_AVERAGE of the floating ones only. Before, between and in steps.
 *
 * In an elastic job RINGWOOD_ABORTED says that a member was lost under the call, or since the
 * last one that waits: the session goes on without it. The data may be overwritten in part,
 * and other ranks may have been at another call: fill it again, and repeat all collectives since
 * the last ringwood_finish_step, by the present rank and world. */
RINGWOOD_EXPORT int ringwood_allreduce(ringwood_session* session, void* data, uint64_t elements,
                                       int type, int op);
RINGWOOD_EXPORT int ringwood_broadcast(ringwood_session* session, void* data, uint64_t bytes,
                                       int root);

/* The halves of an all-reduce. `elements` are cut evenly into as many shares as there are ranks,
 * one after the other, the first ones longer by one where they do not divide; this rank's share is
 * [begin, begin + count). After a reduce-scatter the rank's share of `data` is the combination over
 * all ranks and the rest is as before; an all-gather reads the rank's share and writes the others'.
 */
RINGWOOD_EXPORT int ringwood_share(ringwood_session* session, uint64_t elements, uint64_t* begin,
                                   uint64_t* count);
RINGWOOD_EXPORT int ringwood_reduce_scatter(ringwood_session* session, void* data,
                                            uint64_t elements, int type, int op);
RINGWOOD_EXPORT int ringwood_all_gather(ringwood_session* session, void* data, uint64_t elements,
                                        int type);

/* A short description of a code; never NULL. */
RINGWOOD_EXPORT const char* ringwood_strerror(int code);
/* The last error of the calling thread, in full, until its next one; "" if there was none. */
RINGWOOD_EXPORT const char* ringwood_last_error(void);
/* Of the library, "MAJOR.MINOR.PATCH": what is promised between versions, docs/compatibility.md
 * says. */
RINGWOOD_EXPORT const char* ringwood_version(void);
/* A digest at memory speed, to find out whether ranks have the same bytes: XXH3, 64 bits. It is
 * the same for all processes of one version, and no secret: nothing to keep or to trust. `data` may
 * be NULL where there are no bytes. */
RINGWOOD_EXPORT uint64_t ringwood_digest(const void* data, uint64_t bytes);

#ifdef __cplusplus
}
#endif

/* What a session keeps, and which samples its steps take. */
#include "ringwood_checkpoint.h"
#include "ringwood_sampler.h"

#endif /* RINGWOOD_H_ */
