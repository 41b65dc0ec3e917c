// Names of the files for timelines and flight records. Pure.
#pragma once

#include <string>

namespace ringwood {

// The file of one member, "rank2" or "server0". `name` as the user gave it: "DIR/" becomes
// DIR/rank2.json; "job" and "job.json" become job.rank2.json; after restarts
// job.restart1.rank2.json, so that the file of a rank that died is kept. `extension`:
// "json", "flight".
std::string TimelineFileName(const std::string& name, const std::string& member, int restart,
                             const std::string& extension);

}  // namespace ringwood
