// A sampler's state as bytes: numbers of seven bits a byte, the lowest first (LEB128), lists with
// their length before them. It comes back from a checkpoint or a peer: nothing in it is believed
// unchecked.
#include <algorithm>
#include <functional>

#include "absl/strings/str_format.h"
#include "client/sampler.h"

namespace ringwood {
namespace {

constexpr uint64_t kSamplerFormat = 1;

Status DamagedSampler(const char* what) {
  return Corrupt(
      absl::StrFormat("a sampler's state that is damaged (%s): restore another one", what));
}

class StateWriter {
 public:
  void Number(uint64_t number) {
    for (; number > 0x7f; number >>= 7) bytes_.push_back(static_cast<char>(0x80 | (number & 0x7f)));
    bytes_.push_back(static_cast<char>(number));
  }
  void List(const std::vector<Positions>& list) {
    Number(list.size());
    for (const Positions& each : list) {
      Number(each.begin);
      Number(each.end);
    }
  }
  void List(const std::vector<int>& list) {
    Number(list.size());
    for (const int each : list) Number(static_cast<uint64_t>(each));
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// What is missing or too large is read as 0 and remembered.
class StateReader {
 public:
  explicit StateReader(const std::string& bytes) : bytes_(bytes) {}

  uint64_t Number(uint64_t largest = ~uint64_t{0}) {
    uint64_t number = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == bytes_.size()) return Bad();
      const auto byte = static_cast<uint8_t>(bytes_[at_++]);
      const uint64_t bits = byte & 0x7f;
      if (bits << shift >> shift != bits) return Bad();
      number |= bits << shift;
      if (byte < 0x80) return number <= largest ? number : Bad();
    }
    return Bad();
  }
  // Every element takes a byte at least, so a length beyond the rest of the bytes is none.
  uint64_t Length() { return Number(bytes_.size() - at_); }
  std::vector<Positions> Ranges() {
    std::vector<Positions> list(Length());
    for (Positions& each : list) {
      each.begin = Number();
      each.end = Number();
    }
    return list;
  }
  std::vector<int> Ranks() {
    std::vector<int> list(Length());
    for (int& each : list) each = static_cast<int>(Number(INT32_MAX));
    return list;
  }
  bool good() const { return good_ && at_ == bytes_.size(); }

 private:
  uint64_t Bad() {
    good_ = false;
    at_ = bytes_.size();
    return 0;
  }

  const std::string& bytes_;
  size_t at_ = 0;
  bool good_ = true;
};

template <typename T, typename Order>
bool Ascending(const std::vector<T>& list, Order not_before) {
  return std::adjacent_find(list.begin(), list.end(), not_before) == list.end();
}

}  // namespace

std::string Sampler::State() const {
  StateWriter out;
  for (const uint64_t each : {kSamplerFormat, options_.samples, options_.batch, options_.seed,
                              static_cast<uint64_t>(options_.ahead),
                              static_cast<uint64_t>(options_.in_order), pass_, cursor_}) {
    out.Number(each);
  }
  out.List(returned_);
  out.List(members_);
  out.Number(cuts_.size());
  for (const Cut& cut : cuts_) {
    out.List(cut.positions);
    out.List(cut.members);
  }
  return out.Take();
}

// On a sampler that has its options and nothing else.
Status Sampler::Read(const std::string& state) {
  StateReader in(state);
  if (in.Number() != kSamplerFormat) return DamagedSampler("its format is unknown");
  struct Option {
    const char* name;
    uint64_t mine;
  };
  for (const Option& option :
       {Option{"samples", options_.samples}, Option{"batch", options_.batch},
        Option{"seed", options_.seed}, Option{"ahead", static_cast<uint64_t>(options_.ahead)},
        Option{"in_order", options_.in_order}}) {
    const uint64_t saved = in.Number();
    if (saved == option.mine) continue;
    return Invalid(
        absl::StrFormat("the sampler's state was saved with %s = %d, and this sampler has %d: "
                        "continue with the same",
                        option.name, saved, option.mine));
  }
  pass_ = in.Number();
  cursor_ = in.Number(options_.samples);
  returned_ = in.Ranges();
  members_ = in.Ranks();
  cuts_.resize(in.Number(static_cast<uint64_t>(options_.ahead) + 1));
  for (Cut& cut : cuts_) {
    cut.positions = in.Ranges();
    cut.members = in.Ranks();
  }
  return in.good() ? CheckRead() : DamagedSampler("it is too short, too long or has wild numbers");
}

Status Sampler::CheckRead() const {
  const auto ranks_ascend = [](const std::vector<int>& ranks) {
    return !ranks.empty() && Ascending(ranks, std::greater_equal<>());
  };
  bool good = !cuts_.empty() && ranks_ascend(members_);
  std::vector<Positions> all = returned_;
  for (const Cut& cut : cuts_) {
    uint64_t count = 0;
    for (const Positions& each : cut.positions) {
      good = good && each.begin < each.end && each.end - each.begin <= options_.batch - count;
      if (good) count += each.end - each.begin;
    }
    good = good && count > 0 && ranks_ascend(cut.members);
    all.insert(all.end(), cut.positions.begin(), cut.positions.end());
  }
  good = good && Ascending(returned_, [](auto& a, auto& b) { return a.end >= b.begin; });
  std::sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
  good = good && Ascending(all, [](auto& a, auto& b) { return a.end > b.begin; });
  for (const Positions& each : all) good = good && each.begin < each.end && each.end <= cursor_;
  const bool filled = cuts_.size() == static_cast<size_t>(options_.ahead) + 1;
  good = good && (filled || (returned_.empty() && cursor_ == options_.samples));
  return good ? OkStatus() : DamagedSampler("its ranges or ranks overlap");
}

}  // namespace ringwood
