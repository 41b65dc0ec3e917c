// Local steps (docs/local_steps.md): how many steps between two exchanges, and how these travel, so
// that a wanted share of the time is training. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "plan/strategy/planner.h"

namespace ringwood {

struct RoundsInput {
  PlanInput plan;             // the model and the network; densities and codecs are chosen here
  double utilisation = 0.95;  // wanted: training / time, of the slowest rank
  int fragments = 1;          // of the model, exchanged in turn
  int delay = 0;              // steps that an exchange may take beside training
  int most_every = 500;       // steps between two exchanges of a parameter, at most
  // What a round costs the trainer's thread for each element: differences, outer optimizer, copies.
  double outer_seconds_per_element = 4e-9;
};

// A way for the differences to travel, with the fewest steps between exchanges that reach the
// wanted utilisation.
struct RoundsChoice {
  std::string codec;            // as rw.LocalSteps has it: "fp32", "int4", "rice/int2", …
  double density = 1;           // below 1: with union of the entries, selected in chunks
  int every = 1;                // a multiple of the fragments
  bool reaches = true;          // the utilisation, with `every` at most most_every
  bool chosen = false;          // one of all
  double exchange_seconds = 0;  // of one round
  double exposed_seconds = 0;   // of them, what a round costs beside the delay
  double utilisation = 0;       // predicted
  double sent_bytes = 0, received_bytes = 0;  // by a rank, of one round of one fragment
  double bytes_a_step = 0;                    // sent by a rank, as a mean over the steps
  double fewer_bytes = 1;                     // times, against dense fp32 in every step
};

// All of them, the most precise first. Chosen is the one with the fewest steps between exchanges,
// because ranks then drift apart least; of equal ones the most precise; where none reaches the
// wanted utilisation the one that comes nearest. Invalid names the number that is wrong.
StatusOr<std::vector<RoundsChoice>> PlanRounds(const RoundsInput& input);

// For people, one line a choice, and what the chosen one is in Python; for programs.
std::string ToTable(const std::vector<RoundsChoice>& choices, const RoundsInput& input);
std::string ToJson(const std::vector<RoundsChoice>& choices, const RoundsInput& input);

// The seconds of one step of training: forward and backward.
double StepSeconds(const PlanInput& input);

}  // namespace ringwood
