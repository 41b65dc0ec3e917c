// The C interface: which samples of a pass a step takes.
#include "client/sampler.h"

#include "client/c/handle.h"

using ringwood::Invalid;
using ringwood::NotFound;
using ringwood::Status;
using ringwood::c::Read;
using ringwood::c::Run;

struct ringwood_sampler {
  explicit ringwood_sampler(ringwood::Sampler made) : sampler(std::move(made)) {}
  ringwood::Sampler sampler;
};

namespace ringwood::c {
namespace {

template <typename Call>
int WithSampler(ringwood_sampler* handle, Call call) {
  return Run([&]() -> Status {
    if (handle == nullptr) return Invalid("the sampler is NULL: make one first");
    return call(handle->sampler);
  });
}

// The size first; the content where there is a place for it.
template <typename T>
Status Fill(std::span<const T> content, void* out, uint64_t capacity, uint64_t* count) {
  if (count != nullptr) *count = content.size();
  if (out == nullptr) return OkStatus();
  if (capacity < content.size()) {
    return Invalid(
        absl::StrFormat("the place has room for %d and %d are needed: ask for the number "
                        "with NULL first",
                        capacity, content.size()));
  }
  if (!content.empty()) std::memcpy(out, content.data(), content.size_bytes());
  return OkStatus();
}

}  // namespace
}  // namespace ringwood::c

extern "C" {

int ringwood_sampler_make(const ringwood_sampler_options* options, ringwood_sampler** sampler) {
  return Run([&]() -> Status {
    if (sampler == nullptr) return Invalid("the place for the sampler is NULL");
    *sampler = nullptr;
    RW_ASSIGN_OR_RETURN(const ringwood_sampler_options given,
                        Read(options, "ringwood_sampler_options"));
    RW_ASSIGN_OR_RETURN(ringwood::Sampler made,
                        ringwood::Sampler::Make({.samples = given.samples,
                                                 .batch = given.batch,
                                                 .seed = given.seed,
                                                 .world = given.world,
                                                 .ahead = given.ahead,
                                                 .in_order = given.in_order != 0}));
    *sampler = new ringwood_sampler(std::move(made));
    return ringwood::OkStatus();
  });
}

void ringwood_sampler_free(ringwood_sampler* sampler) { delete sampler; }

int ringwood_sampler_next(ringwood_sampler* sampler, int rank, int ahead, uint64_t* samples,
                          uint64_t capacity, uint64_t* count) {
  return ringwood::c::WithSampler(sampler, [&](auto& mine) -> Status {
    RW_ASSIGN_OR_RETURN(const auto share, mine.Share(rank, ahead));
    if (!share.has_value()) {
      return NotFound(absl::StrFormat("pass %d has no step %d places ahead", mine.pass(), ahead));
    }
    return ringwood::c::Fill(std::span(*share), samples, capacity, count);
  });
}

int ringwood_sampler_committed(ringwood_sampler* sampler, const ringwood_step_result* result) {
  return ringwood::c::WithSampler(sampler, [&](auto& mine) -> Status {
    RW_ASSIGN_OR_RETURN(const ringwood_step_result step, Read(result, "ringwood_step_result"));
    if (step.members == nullptr || (step.contributors == nullptr && step.contributor_count != 0)) {
      return Invalid(
          "the ringwood_step_result has no members or contributors: give the one that "
          "ringwood_finish_step filled, with its size set");
    }
    return mine.Committed(std::span(step.members, step.member_count),
                          std::span(step.contributors, step.contributor_count));
  });
}

uint64_t ringwood_sampler_pass(const ringwood_sampler* sampler) {
  return sampler == nullptr ? 0 : sampler->sampler.pass();
}

int ringwood_sampler_state(ringwood_sampler* sampler, void* state, uint64_t capacity,
                           uint64_t* bytes) {
  return ringwood::c::WithSampler(sampler, [&](auto& mine) -> Status {
    const std::string saved = mine.State();
    return ringwood::c::Fill(std::span(saved), state, capacity, bytes);
  });
}

int ringwood_sampler_restore(ringwood_sampler* sampler, const void* state, uint64_t bytes,
                             int world) {
  return ringwood::c::WithSampler(sampler, [&](auto& mine) -> Status {
    if (state == nullptr) return Invalid("the sampler's state is NULL");
    return mine.Restore(std::string(static_cast<const char*>(state), bytes), world);
  });
}

}  // extern "C"
