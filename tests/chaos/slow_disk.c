/* A slow disk for one program (LD_PRELOAD): reads of RocksDB's tables take as long as
 * SLOW_DISK_BYTES_A_SECOND says. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int IsTable(int file) {
  char link[32], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, sizeof path);
  return length > 4 && memcmp(path + length - 4, ".sst", 4) == 0;
}

ssize_t pread64(int file, void* into, size_t bytes, off64_t offset) {
  typedef ssize_t Read(int, void*, size_t, off64_t);
  Read* const real = (Read*)dlsym(RTLD_NEXT, "pread64");
  const ssize_t got = real(file, into, bytes, offset);
  const char* const rate = getenv("SLOW_DISK_BYTES_A_SECOND");
  if (rate != NULL && got > 0 && IsTable(file)) {
    const double seconds = (double)got / atof(rate);
    struct timespec time = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
    nanosleep(&time, NULL);
  }
  return got;
}

ssize_t pread(int file, void* into, size_t bytes, off_t offset) {
  return pread64(file, into, bytes, offset);
}
