// The members of facts by the names that they have in JSON, each once: readers and writers visit
// them. Included where JSON is read or written.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>

#include "doctor/facts.h"

namespace ringwood {

// `visit(name, member)` for each; T is const for writers.
template <typename T, typename V>
requires std::is_same_v<std::remove_const_t<T>, InterfaceFacts>
void VisitFields(T& facts, V visit) {
  visit("name", facts.name);
  visit("address", facts.address);
  visit("prefix", facts.prefix);
  visit("up", facts.up);
  visit("loopback", facts.loopback);
  visit("mtu", facts.mtu);
  visit("bits_per_second", facts.bits_per_second);
}

template <typename T, typename V>
requires std::is_same_v<std::remove_const_t<T>, RouteFacts>
void VisitFields(T& facts, V visit) {
  visit("destination", facts.destination);
  visit("gateway", facts.gateway);
  visit("interface", facts.interface_name);
}

template <typename T, typename V>
requires std::is_same_v<std::remove_const_t<T>, DiskFacts>
void VisitFields(T& facts, V visit) {
  visit("path", facts.path);
  visit("error", facts.error);
  visit("file_system", facts.file_system);
  visit("free_bytes", facts.free_bytes);
  visit("write_bytes_per_second", facts.write_rate);
  visit("sync_seconds", facts.sync_seconds);
}

template <typename T, typename V>
requires std::is_same_v<std::remove_const_t<T>, PortFacts>
void VisitFields(T& facts, V visit) {
  visit("range", facts.range);
  visit("error", facts.error);
  visit("count", facts.count);
  visit("free", facts.free);
  visit("outgoing_first", facts.outgoing_first);
  visit("outgoing_last", facts.outgoing_last);
  visit("unreserved", facts.unreserved);
}

template <typename T, typename V>
requires std::is_same_v<std::remove_const_t<T>, DeviceFacts>
void VisitFields(T& facts, V visit) {
  visit("devices", facts.devices);
  visit("error", facts.error);
  visit("nccl", facts.nccl);
  visit("nccl_error", facts.nccl_error);
}

template <typename T, typename V>
requires std::is_same_v<std::remove_const_t<T>, HostFacts>
void VisitFields(T& facts, V visit) {
  visit("host", facts.host);
  visit("error", facts.error);
  visit("slots", facts.slots);
  visit("build", facts.build);
  visit("kernel", facts.kernel);
  visit("cores", facts.cores);
  visit("memory_bytes", facts.memory_bytes);
  visit("ranks_running", facts.ranks_running);
  visit("interfaces", facts.interfaces);
  visit("routes", facts.routes);
  visit("interface", facts.interface_name);
  visit("interface_error", facts.interface_error);
  visit("address", facts.address);
  visit("transport", facts.transport);
  visit("transport_error", facts.transport_error);
  visit("private_network", facts.private_network);
  visit("ptrace_scope", facts.ptrace_scope);
  visit("gpu", facts.gpu);
  visit("descriptors_soft", facts.descriptors_soft);
  visit("descriptors_hard", facts.descriptors_hard);
  visit("socket_receive_bytes", facts.socket_receive_bytes);
  visit("ports", facts.ports);
  visit("disk", facts.disk);
}

template <typename T, typename V>
requires std::is_same_v<std::remove_const_t<T>, LinkFacts>
void VisitFields(T& facts, V visit) {
  visit("from", facts.from);
  visit("to", facts.to);
  visit("error", facts.error);
  visit("busy", facts.busy);
  visit("interface", facts.interface_name);
  visit("latency_seconds", facts.latency_seconds);
  visit("sent_bytes_per_second", facts.sent_rate);
  visit("received_bytes_per_second", facts.received_rate);
  visit("lost_share", facts.lost_share);
  visit("clock_offset_seconds", facts.clock_offset);
  visit("clock_error_seconds", facts.clock_error);
}

template <typename T, typename... Others>
concept IsOneOf = (std::is_same_v<T, Others> || ...);
template <typename T>
concept HasFields =
    IsOneOf<T, InterfaceFacts, RouteFacts, DiskFacts, PortFacts, DeviceFacts, HostFacts, LinkFacts>;

// Found by the library.
template <HasFields T>
void to_json(nlohmann::ordered_json& json, const T& facts) {
  VisitFields(facts, [&json](const char* name, const auto& member) { json[name] = member; });
}
template <HasFields T>
void from_json(const nlohmann::ordered_json& json, T& facts) {
  VisitFields(facts, [&json](const char* name, auto& member) {
    if (const auto found = json.find(name); found != json.end()) found->get_to(member);
  });
}

}  // namespace ringwood
