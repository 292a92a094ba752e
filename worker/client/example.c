/* A whole program on libmonsoon: linear regression by stochastic gradient descent, its
 * gradients pushed to the parameter servers, by as many of these processes as you start:
 *
 *   coordinator up --cluster=configs/cluster/localhost_2ps.textproto &
 *   example 127.0.0.1:2221 & example 127.0.0.1:2221
 */
#include "worker/client/monsoon.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { kInputs = 8, kSamples = 4096 };

/* Sample i: inputs in [-1, 1), and what a known linear function makes of them. */
static float Input(uint32_t sample, int i) {
  uint32_t x = sample * 2654435761u + (uint32_t)i * 2246822519u;
  x ^= x >> 15;
  x *= 3266489917u;
  x ^= x >> 16;
  return (float)(x & 0xffff) / 32768.0f - 1.0f;
}

static float Target(uint32_t sample) {
  float y = 0.5f;
  for (int i = 0; i < kInputs; ++i) {
    y += (float)(i + 1) * Input(sample, i);
  }
  return y;
}

static int Fail(const char* what) {
  fprintf(stderr, "example: %s: %s\n", what, monsoon_last_error());
  return 1;
}

/* Mean squared error of a batch, and its gradient. */
static double LossAndGradient(const monsoon_batch* batch, const float* weight, const float* bias,
                              float* weight_gradient, float* bias_gradient) {
  double loss = 0;
  memset(weight_gradient, 0, kInputs * sizeof(float));
  *bias_gradient = 0;
  const float share = 1.0f / (float)batch->count;
  for (size_t s = 0; s < batch->count; ++s) {
    float error = *bias - Target(batch->samples[s]);
    for (int i = 0; i < kInputs; ++i) {
      error += weight[i] * Input(batch->samples[s], i);
    }
    for (int i = 0; i < kInputs; ++i) {
      weight_gradient[i] += 2 * share * error * Input(batch->samples[s], i);
    }
    *bias_gradient += 2 * share * error;
    loss += error * error * share;
  }
  return loss;
}

int main(int argc, char** argv) {
  const uint64_t shape[] = {kInputs};
  const monsoon_tensor tensors[] = {
      {.name = "weight", .shape = shape, .dimensions = 1},
      {.name = "bias"},
  };
  const monsoon_join_options options = {
      .size = sizeof(options),
      .coordinator = argc > 1 ? argv[1] : "127.0.0.1:2221",
      .job = "name: 'linear' batch_size: 32 stop { epochs: 4 }\n"
             "train { joiners { examples: 4096 } }\n"
             "downpour { optimizer { adagrad { rate: 0.5 } } }",
      .tensors = tensors,
      .tensor_count = 2,
  };
  monsoon_replica* replica = NULL;
  if (monsoon_join(&options, &replica) != MONSOON_OK) {
    return Fail("join");
  }
  float* const weight = monsoon_parameters(replica) + monsoon_offset(replica, 0);
  float* const bias = monsoon_parameters(replica) + monsoon_offset(replica, 1);
  float* const weight_gradient = monsoon_gradient(replica) + monsoon_offset(replica, 0);
  float* const bias_gradient = monsoon_gradient(replica) + monsoon_offset(replica, 1);
  memset(weight, 0, kInputs * sizeof(float)); /* where the job begins with this program */
  *bias = 0;

  monsoon_event event;
  if (monsoon_begin(replica, &event) != MONSOON_OK) {
    return Fail("begin");
  }
  double loss = NAN;
  while (event.kind != MONSOON_ENDED) {
    monsoon_batch batch;
    if (monsoon_draw(replica, &batch, &event) != MONSOON_OK) {
      return Fail("draw");
    }
    if (batch.count == 0) {
      continue;
    }
    loss = LossAndGradient(&batch, weight, bias, weight_gradient, bias_gradient);
    const monsoon_step_info step = {
        .size = sizeof(step), .batches = 1, .loss = loss, .has_loss = 1};
    if (monsoon_step(replica, &step, &event) != MONSOON_OK) {
      return Fail("step");
    }
  }
  monsoon_stats stats = {.size = sizeof(stats)};
  monsoon_get_stats(replica, &stats);
  printf("%s: %llu steps, %llu pushes, last loss %.6f; bias %.3f, weights", monsoon_job(replica),
         (unsigned long long)stats.steps, (unsigned long long)stats.pushes, loss, *bias);
  for (int i = 0; i < kInputs; ++i) {
    printf(" %.3f", weight[i]);
  }
  printf("\n");
  const monsoon_code left = monsoon_leave(replica);
  monsoon_free(replica);
  return left == MONSOON_OK ? 0 : Fail("leave");
}
