/* LabShard for programs in other languages (lab_library.py). Vectors are float32, of the length
 * that lab_layout tells. Where a function fails it returns what its line says, and lab_error has
 * the reason. One thread at a time. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lab;

/* Why the last call failed; valid until the next one. */
const char* lab_error(void);

/* The floats of the vector of a model (text format, proto/model.proto); `offsets` gets those of
 * its tensors, at most `count` of them. 0: error. */
uint64_t lab_layout(const char* model, uint64_t* offsets, uint64_t count);

/* `downpour` is in text format (proto/downpour.proto). Null: error. */
struct lab* lab_create(const char* model, const char* downpour, uint64_t stripe_bytes,
                       const float* initial, uint64_t floats);
void lab_destroy(struct lab* lab);

/* Fragments, of which each stripe of stripe_floats floats is one's; `of` has room for all
 * stripes. */
uint32_t lab_fragments(const struct lab* lab);
uint64_t lab_stripe_floats(const struct lab* lab);
uint32_t lab_stripes(const struct lab* lab);
void lab_fragment_of(const struct lab* lab, uint32_t* of);

/* `told` gets what the push moved: fragment, stripes, bytes, and the staleness of all stripes
 * together. -1: error. */
int lab_push(struct lab* lab, uint32_t worker, const float* difference, float weight,
             int64_t told[4]);
/* `fragment` -1: all. 1: `out` has it; 0: its round is open; -1: error. */
int lab_fetch(struct lab* lab, uint32_t worker, int fragment, float* out);
/* -1: error. */
int lab_pass(struct lab* lab, uint32_t worker);
int lab_read(struct lab* lab, float* out);

uint32_t lab_local_steps(struct lab* lab, uint32_t worker, double step_ms);
void lab_advance(struct lab* lab, double seconds);

#ifdef __cplusplus
}
#endif
