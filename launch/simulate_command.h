// `ringwood simulate`: how a plan scales, played worker by worker.
#pragma once

#include <CLI/CLI.hpp>

namespace ringwood {

// `exit_code` is set when the command runs; it outlives the parsing.
void AddSimulateCommand(CLI::App& app, int* exit_code);

}  // namespace ringwood
