// What the files are called that ranks and servers write down their timelines and last events in.
// Pure.
#pragma once

#include <string>

namespace ringwood {

// The file of one member, "rank2" or "server0". `name` as the user gave it: "DIR/" becomes
// DIR/rank2.json; "job" and "job.json" become job.rank2.json; after restarts
// job.restart1.rank2.json, so that what a rank left before it died is still there. `extension`:
// "json", "flight".
std::string TimelineFileName(const std::string& name, const std::string& member, int restart,
                             const std::string& extension);

}  // namespace ringwood
