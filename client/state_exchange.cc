#include "client/state_exchange.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "client/connection/state_donor.h"
#include "client/exchange/exchange.h"
#include "client/names.h"

namespace ringwood {

void StateExchange::Items::Put(const std::string& name, std::span<std::byte> data) {
  const auto [place, is_new] = places.emplace(name, list.size());
  if (is_new) {
    list.push_back({name, data});
  } else {
    list[place->second].data = data;
  }
}

const StateItem* StateExchange::Items::Find(const std::string& name) const {
  const auto place = places.find(name);
  return place == places.end() ? nullptr : &list[place->second];
}

Status StateExchange::Register(const std::string& name, std::span<std::byte> data) {
  RW_RETURN_IF_ERROR(CheckName("the state item's name", name));
  items_.Put(name, data);
  return OkStatus();
}

void StateExchange::Begin(EpochLink* link, bool receiving) {
  if (receiving) receiver_ = StateReceiver::Start(link);
}

Status StateExchange::Serve(EpochLink* link) {
  received_ = {};
  taken_.reset();
  const Place& place = link->place();
  const auto holders = static_cast<int>(link->joined().holders_size());
  const bool asked = link->Holds(place.rank) && holders < place.world && served_ != link->epoch();
  wanted_ = asked && on_request_ && items_.list.empty();
  if (wanted_) {
    return Refused("a rank that comes wants the state: give its items and finish the step again");
  }
  if (!asked) return OkStatus();
  RW_RETURN_IF_ERROR(StateDonor::Serve(link, items_.list));
  served_ = link->epoch();
  ForgetGiven();
  return OkStatus();
}

Status StateExchange::Take() {
  ForgetGiven();
  RW_RETURN_IF_ERROR(receiver_->Wait(Seconds(kLongestWaitSeconds)));
  if (receiver_->items().empty()) {
    return Refused(
        "the other ranks have no state items to give: register them on every rank, so that one can "
        "come later");
  }
  for (const StateItem& item : receiver_->items()) {
    const StateItem* const own = items_.Find(item.name);
    if (own == nullptr) continue;
    if (own->data.size() != item.data.size()) {
      return Invalid(absl::StrFormat("the state item '%s' has %d bytes here, %d on other ranks",
                                     item.name, own->data.size(), item.data.size()));
    }
    std::ranges::copy(item.data, own->data.begin());
  }
  taken_ = std::move(receiver_);
  received_ = {};
  for (const StateItem& item : taken_->items()) received_.Put(item.name, item.data);
  return OkStatus();
}

StatusOr<std::span<const std::byte>> StateExchange::Received(const std::string& name) const {
  if (const StateItem* const item = received_.Find(name)) {
    return std::span<const std::byte>(item->data);
  }
  return NotFound("no state item '" + name + "' came from other ranks");
}

}  // namespace ringwood
