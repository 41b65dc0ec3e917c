#include "measure/replay_load.h"

#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

namespace ringwood {

StatusOr<double> BusySeconds() {
  std::ifstream file("/proc/stat");
  std::string line;
  std::getline(file, line);
  return ParseBusySeconds(line);
}

// "cpu user nice system idle iowait irq softirq steal guest …", in ticks; guests are in user.
StatusOr<double> ParseBusySeconds(const std::string& text) {
  std::istringstream words(text);
  std::string name;
  double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
  if (!(words >> name >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal) ||
      name != "cpu") {
    return Corrupt("/proc/stat does not begin with the times of all cores");
  }
  return (user + nice + system + irq + softirq + steal) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace ringwood
