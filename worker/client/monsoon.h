/* libmonsoon: a program that trains a model of its own as a replica of a Monsoon job.
 *
 * Plain C, for any language. The library holds no network code: it starts a helper process
 * (monsoon_sidecar), which is a worker of the cluster in all but the computing, and talks to
 * it over a socket and shared memory. Parameters and gradients lie in that memory: one flat
 * vector of float32 each, tensor after tensor, every tensor at a multiple of 64 bytes, with
 * padding between them that is zero and must stay so.
 *
 *   monsoon_join(&options, &replica);
 *   fill monsoon_parameters(replica) with initial values
 *   monsoon_begin(replica, &event);                  the job's parameters are there now
 *   while (event.kind != MONSOON_ENDED) {
 *     monsoon_draw(replica, &batch, &event);         which samples
 *     compute the gradient of their mean loss into monsoon_gradient(replica)
 *     monsoon_step(replica, &step, &event);          pushed when due; new parameters
 *   }
 *   monsoon_leave(replica);
 *   monsoon_free(replica);
 *
 * worker/client/example.c is a whole program.
 *
 * Parameters change only within monsoon_begin, monsoon_step, monsoon_report_evaluation and
 * monsoon_wait, never behind the program's back; within monsoon_draw only where it says that
 * the session was lost (monsoon_event.discarded).
 *
 * Errors: each call returns a code; monsoon_last_error() is the message of the calling
 * thread's last failed call. No exception leaves the library, and it never ends the process.
 * Waiting calls return MONSOON_INTERRUPTED when a signal handler ran: monsoon_wait goes on.
 * A helper process that dies is replaced within the call that finds out: the program sees a
 * session that was lost (monsoon_event.discarded). After the fourth in a row without a step
 * that counted the call fails, and says how it died.
 * All waits but monsoon_wait's own end by themselves: what the job waits for is bounded by
 * the coordinator, or is told to people (`coordinator describe`), and monsoon_leave ends it.
 *
 * Thread safety: one call at a time for each replica, from any thread. Several replicas in
 * one process are independent. After fork the child must not use its parent's replicas:
 * calls there fail and change nothing.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(MONSOON_BUILDS_LIBRARY)
#define MONSOON_API __attribute__((visibility("default")))
#else
#define MONSOON_API
#endif

/* Grows with each change that a program built before would not survive. */
#define MONSOON_ABI 6

/* The library's MONSOON_ABI, and what `coordinator version` prints of its build. */
MONSOON_API uint32_t monsoon_abi(void);
MONSOON_API const char* monsoon_version(void);

/* As gRPC's status codes, but for the last one. */
typedef enum monsoon_code {
  MONSOON_OK = 0,
  MONSOON_CANCELLED = 1, /* the replica is leaving, or its job was cancelled */
  MONSOON_UNKNOWN = 2,
  MONSOON_INVALID_ARGUMENT = 3, /* of this call; or this job's settings differ */
  MONSOON_DEADLINE_EXCEEDED = 4,
  MONSOON_NOT_FOUND = 5,
  MONSOON_RESOURCE_EXHAUSTED = 8,
  MONSOON_FAILED_PRECONDITION = 9, /* not now: wrong order of calls, another version, a fork */
  MONSOON_ABORTED = 10,            /* the job has failed: the message is its reason */
  MONSOON_OUT_OF_RANGE = 11,       /* this program diverged, and has left the job, which goes on */
  MONSOON_INTERNAL = 13,
  MONSOON_UNAVAILABLE =
      14, /* coordinator not reached, or the helper process dies again and again */
  MONSOON_INTERRUPTED = 100 /* a signal came; nothing is lost: call monsoon_wait */
} monsoon_code;

/* The message of the calling thread's last call that failed; valid until its next call. */
MONSOON_API const char* monsoon_last_error(void);

typedef struct monsoon_replica monsoon_replica;

/* ---- joining ------------------------------------------------------------------------- */

typedef enum monsoon_kind {
  MONSOON_TRAINED = 0,  /* moved by the optimizer */
  MONSOON_STATISTIC = 1 /* kept by the program, as running means: not a gradient's to move */
} monsoon_kind;

typedef struct monsoon_tensor {
  const char* name;      /* unique, 1 to 512 printable characters without blanks */
  const uint64_t* shape; /* `dimensions` extents, C order */
  size_t dimensions;     /* 0: one value */
  monsoon_kind kind;
  const char* const* aliases; /* other names of the same tensor; may be null */
  size_t alias_count;
} monsoon_tensor;

typedef enum monsoon_format {
  MONSOON_FLOAT32 = 0,
  MONSOON_BFLOAT16 = 1 /* the upper half of a float32, rounded to the nearest */
} monsoon_format;

typedef struct monsoon_join_options {
  size_t size;             /* sizeof(monsoon_join_options) of the caller */
  const char* coordinator; /* "host:port" */
  /* The job as in a job file (proto/job.proto, protobuf text) without `model`, which the
   * tensors are: name, epochs, optimizer, batch_size, ... `train { joiners { examples: N } }`
   * says how many samples there are. */
  const char* job;
  const monsoon_tensor* tensors;
  size_t tensor_count;
  /* Not 0: MONSOON_NOT_FOUND where there is no such job, in place of a new one. */
  int only_enter;
  /* Path of monsoon_sidecar; null: beside the library, or $MONSOON_SIDECAR. */
  const char* sidecar;
  /* Where the sidecar's log goes; null: warnings and errors to stderr. */
  const char* log_file;
  /* Milliseconds within which the coordinator must answer. 0: 30000. */
  uint32_t connect_timeout_ms;
  /* Tables of the model (proto/model.proto, Table), as protobuf text: "table { name: 'words'
   * rows: 1000000 columns: 16 }". Null: none. Their rows lie on the shards, begin with values
   * that the job's seed makes, and never come to these vectors: monsoon_fetch_rows. */
  const char* tables;
  /* Of the vectors' values. MONSOON_BFLOAT16: for jobs that push and fetch in it, without n_push,
   * local steps, clip_norm and statistics; the shards keep float32. */
  monsoon_format format;
  /* Bytes that may be kept of pushes until these are on the shards' disks, to be sent again to a
   * shard that dies before. 0: a quarter of the memory that is free, at most 1 GiB, but room for
   * two pushes. With room for less than two each push waits for the checkpoints after it. */
  uint64_t replay_window_bytes;
} monsoon_join_options;

/* Starts the sidecar, finds or makes the job, and allocates the vectors. INVALID_ARGUMENT
 * names the first setting or tensor that differs from those of the job of this name. Of
 * *replica nothing is to be freed after an error. */
MONSOON_API monsoon_code monsoon_join(const monsoon_join_options* options,
                                      monsoon_replica** replica);

/* The job's id, "gpt-1". Valid as long as the replica. */
MONSOON_API const char* monsoon_job(const monsoon_replica* replica);
/* What is right in the settings and known to train badly, a line each: "FIELD: MESSAGE;
 * SUGGESTION". "": nothing. Valid as long as the replica. */
MONSOON_API const char* monsoon_warnings(const monsoon_replica* replica);
/* Values of each vector, padding included. */
MONSOON_API size_t monsoon_size(const monsoon_replica* replica);
/* Where tensor i begins in the vectors, in values. */
MONSOON_API size_t monsoon_offset(const monsoon_replica* replica, size_t i);
/* The vectors, monsoon_size floats each, 64-byte aligned, at the same address until
 * monsoon_free. With MONSOON_BFLOAT16 each two bytes in them are a value, and tensors 32-byte
 * aligned. */
MONSOON_API float* monsoon_parameters(monsoon_replica* replica);
MONSOON_API float* monsoon_gradient(monsoon_replica* replica);
/* What is to be evaluated, between MONSOON_EVALUATE and monsoon_report_evaluation. The
 * program may write here, too (a swap with the parameters and back). */
MONSOON_API float* monsoon_evaluated(monsoon_replica* replica);
/* LocalSteps.steps of the job; 0: gradients are pushed. */
MONSOON_API uint32_t monsoon_local_steps(const monsoon_replica* replica);

/* ---- training ------------------------------------------------------------------------ */

typedef enum monsoon_event_kind {
  MONSOON_GO = 0,          /* go on */
  MONSOON_EVALUATE = 1,    /* evaluate monsoon_evaluated(), then monsoon_report_evaluation */
  MONSOON_NOTHING_NOW = 2, /* of monsoon_draw: finish the batches that are drawn, draw again */
  MONSOON_ENDED = 3,       /* the job is over; the parameters are its final ones */
  MONSOON_DUE = 4          /* of monsoon_step with unless_due: it was not counted */
} monsoon_event_kind;

typedef struct monsoon_event {
  monsoon_event_kind kind;
  /* The parameters are others than before the call. */
  int parameters_changed;
  /* The session was lost, or its helper process, and a new one is open: batches drawn before are
   * others' now, and the step, if this call was one, did not count. */
  int discarded;
} monsoon_event;

/* Waits until the job trains, and fetches its parameters. If the job begins with this
 * program, monsoon_parameters() as they are become its initial values; else they are
 * overwritten, and need not be set. */
MONSOON_API monsoon_code monsoon_begin(monsoon_replica* replica, monsoon_event* event);

typedef struct monsoon_batch {
  const uint32_t* samples; /* numbers of the samples; valid until the next draw */
  size_t count;            /* at most the job's batch_size */
  uint32_t epoch;          /* from 0 */
  size_t left;             /* so many draws more return at once */
} monsoon_batch;

/* The next batch. It is leased to this replica: no other gets it, unless this one is lost
 * before a step has counted it. Batches may be drawn ahead of their steps; steps count them
 * in order. MONSOON_NOTHING_NOW, with an empty batch: none is to be had before those drawn
 * are counted. MONSOON_EVALUATE and MONSOON_ENDED come only where
 * no batch is drawn that is not counted. */
MONSOON_API monsoon_code monsoon_draw(monsoon_replica* replica, monsoon_batch* batch,
                                      monsoon_event* event);

/* The program has no more samples (jobs with `unnumbered` samples): steps that no push has
 * counted are pushed, with local steps the parameters as they are; then it waits for the other
 * programs. MONSOON_ENDED or MONSOON_EVALUATE; MONSOON_GO where the session was lost, so that
 * it is to be said again. */
MONSOON_API monsoon_code monsoon_no_more_samples(monsoon_replica* replica, monsoon_event* event);

/* Ends the job for all its programs and workers: it succeeds, as at any other end. Steps that no
 * push has counted are pushed first, with local steps the parameters as they are; batches that no
 * step has counted are nobody's. The others finish the blocks that they have, and their draws and
 * steps say MONSOON_ENDED. MONSOON_ENDED or MONSOON_EVALUATE; MONSOON_GO where the session was
 * lost, so that it is to be said again: call it until a call says MONSOON_ENDED. Once the
 * coordinator has heard it the job ends, whatever becomes of this program. Of a job that has
 * ended: MONSOON_ENDED. Not between MONSOON_EVALUATE and monsoon_report_evaluation. */
MONSOON_API monsoon_code monsoon_finish(monsoon_replica* replica, monsoon_event* event);

typedef struct monsoon_step_info {
  size_t size;       /* sizeof(monsoon_step_info) of the caller */
  size_t batches;    /* drawn batches that this step counts; usually 1 */
  uint64_t examples; /* samples that it was computed on; 0: those of the batches */
  double loss;       /* mean over them */
  int has_loss;      /* 0: loss has no meaning, and the last one told stands */
  uint64_t correct;  /* samples that the model got right, if has_correct */
  int has_correct;
  int unless_due;    /* not 0: MONSOON_DUE in place of a step that monsoon_step_is_due */
  int zero_gradient; /* not 0, without local steps: it is all zero when MONSOON_GO returns */
  /* Tensors without any gradient, by their order at monsoon_join, rising. Where no step of a push
   * has one, the job's optimizer leaves a tensor and its state alone, as torch does where grad is
   * None; of zeros decay and momentum move it. Not with local steps, whose differences have a value
   * for each parameter. May be null where there are none. */
  const uint32_t* absent;
  size_t absent_count;
} monsoon_step_info;

/* Whether the step that counts `batches` more will read the gradient (or, with local steps,
 * the parameters): what lies elsewhere must be copied there before. With local steps this
 * draws ahead, since the last step before a pause of the data is one. */
MONSOON_API monsoon_code monsoon_step_is_due(monsoon_replica* replica, size_t batches, int* is_due);

/* One step is done. Without local steps: monsoon_gradient() holds the gradient of its mean
 * loss, and is pushed when due. With them: the program has changed the parameters by itself;
 * when due, what they have moved is pushed and the job's are fetched. Statistics are read
 * from the parameters in both. */
MONSOON_API monsoon_code monsoon_step(monsoon_replica* replica, const monsoon_step_info* step,
                                      monsoon_event* event);

/* Reads rows of the model's table `table` (by its order), in the order of `rows`, which may name
 * one several times, to `values`, as many floats for each as the table has columns: as they are
 * on the shards now. From monsoon_begin on, within an evaluation too, and after the job's end.
 * All three arrays must stay until this, or monsoon_wait after MONSOON_INTERRUPTED, returns. The
 * event tells, if the session was lost meanwhile (the rows are there nevertheless), that
 * batches drawn before are others' now. */
MONSOON_API monsoon_code monsoon_fetch_rows(monsoon_replica* replica, size_t table,
                                            const uint64_t* rows, size_t count, float* values,
                                            monsoon_event* event);

/* Gradients of rows of a table for the next monsoon_step, which pushes them with the rest of the
 * gradient. Rows named twice, also in several calls, are added up. Nothing is sent before the
 * step. Not with local steps. */
MONSOON_API monsoon_code monsoon_push_rows(monsoon_replica* replica, size_t table,
                                           const uint64_t* rows, size_t count, const float* values);

/* ---- streams ------------------------------------------------------------------------- */

typedef struct monsoon_stream {
  int was_read;      /* 0: nobody has told a position of it, and the rest means nothing */
  const void* state; /* as given to monsoon_note_position; valid until the next take */
  size_t bytes;
  uint32_t worker; /* who has read so far, of a session of this job, and the push of that session */
  uint64_t push;   /* that ends there; 0: a job that this one goes on from */
  /* Pushes beyond it that shards have got of sessions that have ended: what these had read, is
   * read again. */
  uint64_t read_again;
} monsoon_stream;

/* Takes a stream of the job, of a name that its programs give it (1 to 128 printable characters):
 * nobody else gets it as long as this replica's session is open, and where a program that had it
 * has just died, this waits until that was noticed. From monsoon_begin on. INVALID_ARGUMENT, for
 * good, where another program reads it. The event is not MONSOON_GO where the job has ended, and
 * tells, if the session was lost meanwhile, that batches drawn before are others' now. */
MONSOON_API monsoon_code monsoon_take_stream(monsoon_replica* replica, const char* name,
                                             monsoon_event* event);
/* The stream that was taken last. */
MONSOON_API monsoon_stream monsoon_taken_stream(const monsoon_replica* replica);

/* How far of a stream the batches have read that the next monsoon_step counts, with all before:
 * bytes of the program's own, at most 65536, which the job keeps as of that step: whoever takes the
 * stream next is told, also after a restart of shards and in a job that goes on from a checkpoint.
 * Told with the step's push; of several between two pushes the last. */
MONSOON_API monsoon_code monsoon_note_position(monsoon_replica* replica, const char* name,
                                               const void* state, size_t bytes);

/* What the program keeps by itself, as the moments of its optimizer, is not finite, so that nothing
 * that it could push will be; `what` names it, with the step. Its part in the job ends: what it has
 * pushed counts, its blocks go to others, and this call and all later ones return
 * MONSOON_OUT_OF_RANGE (or MONSOON_ABORTED, where the job has failed with its last program).
 * MONSOON_OK: the session was lost before, or an evaluation comes first; say it again after the
 * next step. */
MONSOON_API monsoon_code monsoon_report_divergence(monsoon_replica* replica, const char* what,
                                                   monsoon_event* event);

typedef struct monsoon_metric {
  const char* name; /* "loss" (mean per sample), "accuracy", or any other */
  double value;
} monsoon_metric;

/* The answer to MONSOON_EVALUATE. With `failure` the job fails with that message; null: it
 * was evaluated. */
MONSOON_API monsoon_code monsoon_report_evaluation(monsoon_replica* replica,
                                                   const monsoon_metric* metrics, size_t count,
                                                   const char* failure, monsoon_event* event);

/* Goes on with the call that returned MONSOON_INTERRUPTED. `batch` may be null if that was
 * not monsoon_draw. */
MONSOON_API monsoon_code monsoon_wait(monsoon_replica* replica, monsoon_batch* batch,
                                      monsoon_event* event);

typedef struct monsoon_stats {
  size_t size;    /* sizeof(monsoon_stats) of the caller */
  uint64_t steps; /* that counted */
  uint64_t examples;
  uint64_t fetches;
  uint64_t pushes;
  uint64_t refused; /* pushes that the shards' checks refused */
  uint64_t bytes_fetched;
  uint64_t bytes_pushed;
  int64_t staleness; /* of the newest push; -1: not known yet */
  uint64_t staleness_max;
  uint64_t sessions; /* 1, and one more for each that was lost */
  uint64_t evaluations;
  uint32_t replicas; /* of the job, now */
  uint32_t worker;   /* this one's number: worker/N of the job */
  uint32_t sidecar_pid;
  /* Of the difference under way: monsoon_local_steps, or fewer (LocalSteps.dynamic). */
  uint32_t local_steps;
} monsoon_stats;

/* As of the last call. */
MONSOON_API monsoon_code monsoon_get_stats(const monsoon_replica* replica, monsoon_stats* stats);

/* Leaves the job: what is summed up is pushed, blocks of which some batch was not counted are
 * given back, whole, and the sidecar ends. Within 20 seconds. Safe to repeat, also after any
 * error, and in place of monsoon_wait. */
MONSOON_API monsoon_code monsoon_leave(monsoon_replica* replica);

/* Frees the vectors; without monsoon_leave before, the coordinator finds out by silence. */
MONSOON_API void monsoon_free(monsoon_replica* replica);

#ifdef __cplusplus
}
#endif
