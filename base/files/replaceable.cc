#include "base/files/replaceable.h"

#include <sys/stat.h>

namespace ringwood {

Status CheckReplaceable(const std::string& path) {
  struct stat there {};
  if (stat(path.c_str(), &there) != 0 || S_ISREG(there.st_mode)) return OkStatus();
  return Refused(path + " is there and no regular file: give another name");
}

}  // namespace ringwood
