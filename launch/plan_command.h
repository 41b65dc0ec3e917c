// `ringwood plan`: what each planner would do with a trace on a network.
#pragma once

#include <CLI/CLI.hpp>

namespace ringwood {

// `exit_code` is set when the command runs; it outlives the parsing.
void AddPlanCommand(CLI::App& app, int* exit_code);

}  // namespace ringwood
