/* A reader in C that is no rank: the newest committed weights of a job, a line for each tensor.
 *
 *   cc pull.c $(pkg-config --cflags --libs ringwood) -o pull
 *   ./pull 127.0.0.1:7070 ['fc.*']        the server; the tensors, without it the model's
 *
 * The token, where the server asks for one, comes from RINGWOOD_TOKEN. */
#include <inttypes.h>
#include <ringwood_pull.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int Fail(int code) {
  fprintf(stderr, "%s\n", ringwood_last_error());
  return ringwood_exit_code(code);
}

/* "F32 [2, 3], 24 bytes, sum 6" */
static void Print(const ringwood_pulled_item* item, const void* data) {
  printf("%s: %s [", item->name, item->dtype);
  for (size_t i = 0; i < item->dimensions; ++i) {
    printf("%s%" PRIu64, i == 0 ? "" : ", ", item->shape[i]);
  }
  printf("], %" PRIu64 " bytes", item->bytes);
  if (strcmp(item->dtype, "F32") == 0) {
    double sum = 0;
    for (uint64_t i = 0; i < item->bytes / sizeof(float); ++i) sum += ((const float*)data)[i];
    printf(", sum %g", sum);
  }
  printf("\n");
}

int main(int argc, char** argv) {
  const char* items[] = {argc > 2 ? argv[2] : NULL};
  ringwood_pull_options options = {.size = sizeof options,
                                   .server = argc > 1 ? argv[1] : NULL,
                                   .token = getenv("RINGWOOD_TOKEN"),
                                   .items = items,
                                   .item_count = argc > 2 ? 1 : 0};
  ringwood_pulled* pulled = NULL;
  int code = ringwood_pull(&options, &pulled);
  if (code != RINGWOOD_OK) return Fail(code);
  ringwood_pulled_state state = {.size = sizeof state};
  code = ringwood_pulled_describe(pulled, &state);
  printf("step %" PRIu64 ", %zu tensors, %" PRIu64 " bytes\n", state.step, state.items,
         state.bytes);
  for (size_t i = 0; code == RINGWOOD_OK && i < state.items; ++i) {
    ringwood_pulled_item item = {.size = sizeof item};
    code = ringwood_pulled_describe_item(pulled, i, &item);
    if (code != RINGWOOD_OK) break;
    void* const data = malloc(item.bytes > 0 ? item.bytes : 1);
    if (data == NULL) return 1;
    code = ringwood_pulled_read(pulled, i, data, item.bytes);
    if (code == RINGWOOD_OK) Print(&item, data);
    free(data);
  }
  ringwood_pulled_free(pulled);
  return code == RINGWOOD_OK ? 0 : Fail(code);
}
