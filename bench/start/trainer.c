/* A rank with one tensor that takes one step. Rank 0 prints the seconds from BEGIN
 * (CLOCK_MONOTONIC) until the step is committed, which all ranks vote for, and how many descriptors
 * it has open then.
 *
 *     trainer BEGIN */
#include <dirent.h>
#include <ringwood.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kElements = 1024 };

static float gradient[kElements];
static ringwood_session* session;

static void check(int code) {
  if (code == RINGWOOD_OK) return;
  fprintf(stderr, "trainer: %s\n", ringwood_last_error());
  ringwood_close(session, ringwood_last_error());
  exit(ringwood_exit_code(code));
}

static int descriptors(void) {
  DIR* const directory = opendir("/proc/self/fd");
  int count = -3; /* ".", ".." and the directory itself */
  while (readdir(directory) != NULL) ++count;
  closedir(directory);
  return count;
}

int main(int count, char** arguments) {
  if (count != 2) return 64;
  ringwood_options options = {.size = sizeof options};
  check(ringwood_options_from_environment(&options, sizeof options));
  check(ringwood_open(&options, &session));
  ringwood_tensor tensor = {.size = sizeof tensor,
                            .name = "weights",
                            .data = gradient,
                            .elements = kElements,
                            .type = RINGWOOD_FLOAT32};
  int id;
  check(ringwood_register(session, &tensor, &id));
  check(ringwood_agree(session));
  ringwood_step_result result = {.size = sizeof result};
  check(ringwood_begin_step(session, 1));
  check(ringwood_ready(session, id));
  check(ringwood_finish_step(session, &result));
  if (ringwood_rank(session) == 0) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("%.3f %d\n", (double)now.tv_sec + 1e-9 * (double)now.tv_nsec - atof(arguments[1]),
           descriptors());
  }
  check(ringwood_close(session, NULL));
  return 0;
}
