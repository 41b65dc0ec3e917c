#include "doctor/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "doctor/facts_json.h"

namespace ringwood {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

HostFacts SomeHost(const std::string& name) {
  HostFacts host;
  host.host = name;
  host.slots = 2;
  host.build = {{"ringwood", "1.2.0"}, {"commit", "abc"}, {"UCX", "1.13.1"}};
  host.kernel = "Linux 6.1";
  host.interfaces = {{"eth0", "10.0.0.1", 24, true, false, 1500, 1e9}};
  host.routes = {{"default", "10.0.0.254", "eth0"}};
  host.interface_name = "eth0";
  host.address = "10.0.0.1";
  host.transport = "ucx";
  host.gpu = {2, "", true, ""};
  host.ports = {"20000-20099", "", 100, 99, 32768, 60999, 0};
  host.disk = {"/store", "", "ext4", 1e12, 2e8, 2e-3};
  return host;
}

LinkFacts SomeLink() {
  LinkFacts link;
  link.from = "h1";
  link.to = "h2";
  link.interface_name = "eth0";
  link.latency_seconds = 1e-4;
  link.sent_rate = 117e6;
  link.received_rate = 100e6;
  link.clock_offset = -0.5;
  return link;
}

TEST(FactsJson, BringsBackWhatItWrote) {
  const auto host = HostFromJson(ToJson(SomeHost("h1")));
  ASSERT_TRUE(host.ok()) << host.status();
  EXPECT_EQ(*host, SomeHost("h1"));
  const auto link = LinkFromJson(ToJson(SomeLink()));
  ASSERT_TRUE(link.ok()) << link.status();
  EXPECT_EQ(*link, SomeLink());
}

TEST(FactsJson, AnotherVersionsFactsAreReadAsFarAsTheyAreKnown) {
  const auto host = HostFromJson(R"({"host": "h1", "build": {"ringwood": "9.0"}, "new": [1]})");
  ASSERT_TRUE(host.ok()) << host.status();
  EXPECT_EQ(host->build.at("ringwood"), "9.0");
}

TEST(FactsJson, WhatIsNoObjectIsRefused) {
  for (const char* text : {"", "[]", "7", "{\"host\": 7}", "{\"interfaces\": {}}", "{"}) {
    EXPECT_FALSE(HostFromJson(text).ok()) << text;
  }
  EXPECT_FALSE(LinkFromJson("{\"from\": []}").ok());
}

TEST(DoctorReport, ShowsHostsPairsPlanFindingsAndVerdict) {
  DoctorReport report;
  report.facts.hosts = {SomeHost("h1"), SomeHost("h2")};
  report.facts.links = {SomeLink()};
  report.findings = {{Severity::kError, "it is on fire", "h2", "fetch water"},
                     {Severity::kWarning, "it is warm", "h1", "open a window"}};
  const std::string text = ToText(report);
  EXPECT_THAT(text, AllOf(HasSubstr("h1"), HasSubstr("0.936 Gbit/s"), HasSubstr("0.8 Gbit/s"),
                          HasSubstr("-0.500 s"), HasSubstr("store /store on h1 (ext4): 200 MB/s"),
                          HasSubstr("error: h2: it is on fire\n    fetch water\n"),
                          HasSubstr("verdict: not ready: 1 error, 1 warning\n")));
  EXPECT_THAT(text,
              AllOf(HasSubstr("data plane: UCX over tcp on eth0"), HasSubstr("by NCCL"),
                    HasSubstr("--workers 4 --network alpha=0.0001,beta=1e-08 --ranks-per-host 2"),
                    HasSubstr("102 MB (ResNet-50, fp32): ")));
  EXPECT_THAT(ToJson(report),
              AllOf(HasSubstr("\"exit_code\": 78"), HasSubstr("\"remedy\": \"fetch water\""),
                    HasSubstr("\"sent_bytes_per_second\": 117000000.0")));
}

TEST(DoctorReport, GradientsStayInHostMemoryWhereOthersReachTheNetwork) {
  DoctorReport report;
  report.facts.hosts = {SomeHost("h1"), SomeHost("h2")};
  report.facts.hosts[1].private_network = false;
  EXPECT_THAT(ToText(report), AllOf(Not(HasSubstr("by NCCL")), HasSubstr("in the hosts' memory")));
}

TEST(DoctorReport, TheDelayOfFarHostsIsNoWorkOfTheirs) {
  DoctorReport report;
  report.facts.hosts = {SomeHost("h1"), SomeHost("h2")};
  report.facts.links = {SomeLink()};
  report.facts.links[0].latency_seconds = 0.05;
  EXPECT_THAT(ToText(report), HasSubstr("--network alpha=0.0001,beta=1e-08,delay=0.0499"));
}

TEST(DoctorReport, PlansNothingWithoutAnInterface) {
  DoctorReport report;
  report.facts.hosts = {SomeHost("h1"), SomeHost("h2")};
  for (HostFacts& host : report.facts.hosts) host.interface_name.clear();
  EXPECT_THAT(ToText(report), Not(HasSubstr("data plane: ")));
}

TEST(DoctorReport, AHostThatWasNotReachedHasNoRow) {
  DoctorReport report;
  HostFacts lost;
  lost.host = "h2";
  lost.error = "gone";
  report.facts.hosts = {SomeHost("h1"), lost};
  EXPECT_THAT(ToText(report), Not(HasSubstr("h2")));  // only findings name it
}

TEST(DoctorReport, OfManyPairsTheSlowestAreShown) {
  DoctorReport report;
  for (int i = 0; i < 50; ++i) {
    report.facts.links.push_back(SomeLink());
    report.facts.links.back().from = "a" + std::to_string(i);
  }
  report.facts.links[49].sent_rate = 1e6;
  EXPECT_THAT(ToText(report), AllOf(HasSubstr("a49"), Not(HasSubstr("a48")),
                                    HasSubstr("the slowest 28 of 50 pairs")));
}

TEST(DoctorReport, VerdictsAreCounted) {
  const Finding warning = {Severity::kWarning, "", "", ""};
  EXPECT_EQ(VerdictOf({}), "ready");
  EXPECT_EQ(VerdictOf({warning, warning}), "ready, with 2 warnings");
  EXPECT_EQ(VerdictOf({{Severity::kError, "", "", ""}}), "not ready: 1 error");
  EXPECT_EQ(VerdictOf({{Severity::kNote, "", "", ""}}), "ready");
}

}  // namespace
}  // namespace ringwood
