// A job's status for people: the lines of `ringwood status`, and the rows that `ringwood top` shows
// too. Pure; what strangers name (hosts, reasons) is made printable.
#pragma once

#include <string>
#include <vector>

#include "ringwood/v1/control.pb.h"

namespace ringwood {

std::string StatusText(const v1::StatusResponse& status);

// "running, job 00a1…, epoch 3, step 120, 4.1 steps/s".
std::string StateLine(const v1::StatusResponse& status);

// One table: a header, then a line for each slot.
std::vector<std::string> SlotLines(const v1::StatusResponse& status);

// "2026-11-23 12:31:04Z epoch_failed step 7: …".
std::string EventLine(const v1::JobEvent& event);

// "checkpoints of steps 30, 20"; empty: none.
std::string CheckpointLine(const v1::StatusResponse& status);

}  // namespace ringwood
