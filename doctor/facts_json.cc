#include "doctor/facts_json.h"

#include <nlohmann/json.hpp>

#include "doctor/fields.h"

namespace ringwood {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
std::string LineOf(const T& facts) {
  return Json(facts).dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <typename T>
StatusOr<T> FactsFrom(const std::string& text, const char* what) {
  try {  // the library's errors are exceptions; they end here
    const Json json = Json::parse(text);
    if (!json.is_object()) return Corrupt(std::string(what) + " are no JSON object");
    return json.get<T>();
  } catch (const Json::exception& error) {
    return Corrupt(std::string(what) + " cannot be read: " + error.what());
  }
}

}  // namespace

std::string ToJson(const HostFacts& host) { return LineOf(host); }
std::string ToJson(const LinkFacts& link) { return LineOf(link); }

StatusOr<HostFacts> HostFromJson(const std::string& text) {
  return FactsFrom<HostFacts>(text, "the facts of a host");
}

StatusOr<LinkFacts> LinkFromJson(const std::string& text) {
  return FactsFrom<LinkFacts>(text, "the facts of a pair of hosts");
}

}  // namespace ringwood
