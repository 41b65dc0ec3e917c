#include "proto/item_choice.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "base/text.h"

namespace ringwood {
namespace {

constexpr size_t kShownNameBytes = 500;  // of a list of items
constexpr char kSessionItems[] = "ringwood/";

// Whether all of `text` matches; "*" is any text, "?" any byte. Goes back only to the last "*".
bool Matches(const std::string& pattern, const std::string& text) {
  size_t p = 0, t = 0, star = std::string::npos, behind = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      behind = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (star != std::string::npos) {
      p = star + 1;
      t = ++behind;
    } else {
      return false;
    }
  }
  return std::all_of(pattern.begin() + static_cast<ptrdiff_t>(p), pattern.end(),
                     [](char c) { return c == '*'; });
}

bool IsOfModel(const v1::StoredItem& item) { return absl::StartsWith(item.name(), kModelPrefix); }

std::string TensorName(const v1::StoredItem& item) {
  return IsOfModel(item) ? item.name().substr(sizeof kModelPrefix - 1) : item.name();
}

// Says which patterns took something.
class Chooser {
 public:
  Chooser(const v1::CheckpointManifest& manifest, const ItemChoice& choice)
      : patterns_(choice.patterns) {
    for (const v1::StoredItem& item : manifest.items()) has_model_ |= IsOfModel(item);
  }

  bool Takes(const v1::StoredItem& item) {
    if (patterns_.empty()) {
      return has_model_ ? IsOfModel(item) : !absl::StartsWith(item.name(), kSessionItems);
    }
    bool taken = false;
    for (const std::string& pattern : patterns_) {
      if (!Matches(pattern, item.name()) && !Matches(pattern, TensorName(item))) continue;
      used_.insert(pattern);
      taken = true;
    }
    return taken;
  }

  std::optional<std::string> Unused() const {
    for (const std::string& pattern : patterns_) {
      if (!used_.contains(pattern)) return pattern;
    }
    return std::nullopt;
  }

 private:
  const std::vector<std::string>& patterns_;
  std::set<std::string> used_;
  bool has_model_ = false;
};

std::string Names(const v1::CheckpointManifest& manifest) {
  std::string names;
  for (const v1::StoredItem& item : manifest.items()) {
    if (names.size() > kShownNameBytes) return names + ", ...";
    names += (names.empty() ? "" : ", ") + item.name();
  }
  return names.empty() ? "no items" : Printable(names, 2 * kShownNameBytes);
}

// Items do not say what their bytes are in checkpoints of older versions and where they are texts.
TensorType TypeOf(const v1::StoredItem& item, size_t* untyped) {
  if (!item.dtype().empty()) return {item.dtype(), {item.shape().begin(), item.shape().end()}};
  ++*untyped;
  return {"U8", {item.bytes()}};
}

}  // namespace

StatusOr<ChosenItems> ChooseItems(const v1::CheckpointManifest& manifest,
                                  const ItemChoice& choice) {
  if (choice.rank && *choice.rank >= manifest.world()) {
    return NotFound(absl::StrFormat("the checkpoint of step %d has ranks 0 to %d, not %d",
                                    manifest.step(), manifest.world() - 1, *choice.rank));
  }
  ChosenItems chosen;
  Chooser chooser(manifest, choice);
  std::set<std::string> names, of_ranks;
  for (const v1::StoredItem& item : manifest.items()) {
    const bool own = item.scope() == v1::SCOPE_OWN;
    if (own && choice.rank && item.rank() != *choice.rank) continue;
    if (!chooser.Takes(item)) {
      chosen.unchosen += own ? 0 : 1;
      continue;
    }
    if (own && !choice.rank) {
      of_ranks.insert(item.name());
      continue;
    }
    chosen.items.push_back({&item, TensorName(item), TypeOf(item, &chosen.untyped)});
    const auto& [source, name, type] = chosen.items.back();
    RW_RETURN_IF_ERROR(CheckType("the item '" + Printable(name, 255) + "'", type, item.bytes()));
    if (!names.insert(name).second) {
      return Refused("two items of this choice would be the tensor '" + Printable(name, 255) +
                     "': choose one by its name");
    }
  }
  chosen.of_ranks = of_ranks.size();
  if (const auto unused = chooser.Unused()) {
    return NotFound(absl::StrFormat("no item of the checkpoint of step %d is '%s'; it has: %s",
                                    manifest.step(), *unused, Names(manifest)));
  }
  if (!chosen.items.empty() || chosen.of_ranks == 0) return chosen;
  return NotFound(
      absl::StrFormat("all %d chosen items of the checkpoint of step %d are of each rank alone: "
                      "say whose by --rank (option rank)",
                      chosen.of_ranks, manifest.step()));
}

}  // namespace ringwood
