#include "timeline/name.h"

#include "absl/strings/str_format.h"

namespace ringwood {

std::string TimelineFileName(const std::string& name, const std::string& member, int restart,
                             const std::string& extension) {
  const std::string again = restart > 0 ? absl::StrFormat("restart%d.", restart) : "";
  const std::string last = again + member + "." + extension;
  if (name.empty() || name.back() == '/') return name + last;
  const std::string end = "." + extension;
  const bool has = name.size() > end.size() && name.substr(name.size() - end.size()) == end;
  return absl::StrFormat("%s.%s", has ? name.substr(0, name.size() - end.size()) : name, last);
}

}  // namespace ringwood
