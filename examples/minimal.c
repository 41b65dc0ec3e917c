/* The smallest trainer: fits 100,000 weights to a target that each rank sees through its own noise.
 *
 *   cc minimal.c $(pkg-config --cflags --libs ringwood) \
 *      -Wl,-rpath,$(pkg-config --variable=libdir ringwood) -o minimal
 *   ringwood run -np 4 -- ./minimal */
#include <ringwood.h>
#include <stdio.h>
#include <stdlib.h>

enum { kWeights = 100000, kSteps = 200 };

static float weights[kWeights];
static float gradient[kWeights];
static ringwood_session* session;

/* Says what went wrong and ends with the code that launchers understand: 75 = restart me. */
static void check(int code) {
  if (code == RINGWOOD_OK) return;
  fprintf(stderr, "minimal: %s\n", ringwood_last_error());
  ringwood_close(session, ringwood_last_error());
  exit(ringwood_exit_code(code));
}

/* Same sequence on every machine; Numerical Recipes' linear congruential constants. */
static float noise(unsigned* state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)(*state >> 8) / 16777216.0f - 0.5f;
}

int main(void) {
  ringwood_options options = {.size = sizeof options};
  check(ringwood_options_from_environment(&options, sizeof options));
  check(ringwood_open(&options, &session));

  ringwood_tensor tensor = {.size = sizeof tensor,
                            .name = "weights",
                            .data = gradient,
                            .elements = kWeights,
                            .type = RINGWOOD_FLOAT32,
                            .route = "sparse",
                            .density = 0.1};
  int id;
  check(ringwood_register(session, &tensor, &id));
  check(ringwood_agree(session));
  if (ringwood_rank(session) == 0) printf("%s", ringwood_plan_text(session));

  unsigned state = 1u + (unsigned)ringwood_rank(session);
  ringwood_step_result result = {.size = sizeof result};
  for (int step = 0; step < kSteps; ++step) {
    check(ringwood_begin_step(session, 1));
    for (int i = 0; i < kWeights; ++i) {
      const float target = (float)(i % 7);
      gradient[i] = weights[i] - target + 0.1f * noise(&state);
    }
    check(ringwood_ready(session, id));
    check(ringwood_finish_step(session, &result));
    /* At density 0.1 a weight waits about ten steps for its turn and then gets all ten gradients:
     * the rate is a tenth of what a dense step would stand. */
    for (int i = 0; i < kWeights; ++i) weights[i] -= 0.03f * gradient[i];
  }

  double error = 0;
  for (int i = 0; i < kWeights; ++i) {
    const double off = weights[i] - (double)(i % 7);
    error += off * off;
  }
  printf("rank %d of %d: mean squared error %.4f, %llu bytes a step instead of %llu\n",
         ringwood_rank(session), ringwood_world(session), error / kWeights,
         (unsigned long long)result.sparse_bytes,
         (unsigned long long)result.dense_equivalent_bytes);
  check(ringwood_close(session, NULL));
  return error / kWeights < 0.05 ? 0 : 1;
}
